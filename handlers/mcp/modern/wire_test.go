package modern

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"hangar/domain"
	"hangar/domain/access"
	"hangar/handlers/mcp"
)

// TestWire plays the conversations in testdata: each file tells in English what
// it shows, and then has requests and the responses to the byte. $INFO stands for
// the _meta of a result, $SERVER for serverInfo.
func TestWire(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatal("no conversations", err)
	}
	for _, name := range files {
		t.Run(strings.TrimSuffix(filepath.Base(name), ".txtar"), func(t *testing.T) {
			a, err := txtar.ParseFile(name)
			if err != nil {
				t.Fatal(err)
			}
			b := setup(t, func(o *Options) { o.Instructions = "Say <please>." })
			putOneOfEach(b)
			info := strings.TrimPrefix(infoOf(b, access.Default), `"_meta":`)
			server := strings.TrimSuffix(strings.TrimPrefix(info, `{"`+mcp.MetaServerInfo+`":`), "}")
			for i := 0; i+1 < len(a.Files); i += 2 {
				w := b.post(strings.TrimSuffix(string(a.Files[i].Data), "\n"))
				want := strings.NewReplacer("$INFO", info, "$SERVER", server).Replace(strings.TrimSuffix(string(a.Files[i+1].Data), "\n"))
				if got := fmt.Sprintf("response %d", w.Code); got != a.Files[i+1].Name {
					t.Errorf("request %d: %s, want %s", i/2+1, got, a.Files[i+1].Name)
				}
				if got := w.Body.String(); got != want {
					t.Errorf("request %d\n got %s\nwant %s", i/2+1, got, want)
				}
			}
		})
	}
}

// putOneOfEach puts a task of each status into the ledger, named by its status.
// Each holds more than its status lets out.
func putOneOfEach(b *bench) {
	ttl := int64(86400000)
	for _, s := range []mcp.Status{mcp.Working, mcp.InputRequests, mcp.Completed, mcp.Failed, mcp.Cancelled} {
		t := &mcp.Task{
			ID: domain.TaskID("task-" + string(s)), Status: s, TTLMs: &ttl, PollIntervalMs: 5000,
			CreatedAt: "2026-08-01T10:00:00.000000Z", LastUpdatedAt: "2026-08-01T10:05:00.000000Z",
			InputRequests: map[string]mcp.InputRequest{"answer-1": {Method: mcp.MethodElicit, Params: json.RawMessage(`{"mode":"form","message":"Deploy <now>?"}`)}},
			Result:        json.RawMessage(`{"resultType":"complete","content":[{"type":"text","text":"ok"}]}`),
			Error:         &mcp.TaskError{Code: -32603, Message: "the tool changed", Data: json.RawMessage(`{"reason":"digest_drift"}`)},
		}
		if s == mcp.Working {
			t.TTLMs, t.PollIntervalMs = nil, 0
		}
		b.ledger.put(alice, t)
	}
}
