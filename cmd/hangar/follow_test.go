package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"hangar/cmd/internal/client"
	"hangar/handlers/mcp"
)

// TestFollow: what happens to a task is told once each, a question along with how
// to answer it, and the job's own end is the command's.
func TestFollow(t *testing.T) {
	t.Parallel()
	const ask = `"inputRequests":{"answer-1":{"method":"elicitation/create","params":{"message":"Which\u001b[1m colour?","requestedSchema":{"properties":{"answer":{"enum":["red","blue"]}}}}}}`
	for name, c := range map[string]struct {
		end  string // of the job
		want error
	}{"completed": {"completed", nil}, "failed": {"failed", errTold}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			states := []string{
				`"status":"working","statusMessage":"submit_job started"`,
				`"status":"working","statusMessage":"submit_job started"`,
				`"status":"input_required","statusMessage":"Which colour?",` + ask,
				`"status":"input_required","statusMessage":"Which colour?",` + ask,
				`"status":"working","statusMessage":"painting"`,
				`"status":"completed","statusMessage":"submit_job completed","result":{"resultType":"complete","content":[]}`,
			}
			var next atomic.Int32
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				var body struct{ Method string }
				if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
					t.Error(err)
				}
				w.Header().Set("Content-Type", "application/json")
				if body.Method == "tasks/get" {
					fmt.Fprintf(w, `{"id":1,"result":{"resultType":"complete","taskId":"task-1","createdAt":"","lastUpdatedAt":"","ttlMs":null,%s}}`, states[next.Add(1)-1])
					return
				}
				fmt.Fprintf(w, `{"id":1,"result":{"resultType":"complete","content":[],"structuredContent":{"id":"job-1","status":%q,"created_at":""}}}`, c.end)
			}))
			t.Cleanup(s.Close)
			cl, err := client.New(client.Options{URL: s.URL})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(cl.Close)
			var out, errw bytes.Buffer
			sh := &shell{out: &out, errw: &errw, zone: time.UTC}
			if err := sh.follow(t.Context(), cl, "job-1", &mcp.Task{ID: "task-1"}, time.Millisecond); !errors.Is(err, c.want) {
				t.Errorf("got %v, want %v", err, c.want)
			}
			const want = `job job-1, task task-1
submit_job started
answer-1: Which [1m colour? (red | blue)
  answer: hangar task answer task-1 answer-1=…
painting
submit_job completed
`
			if errw.String() != want {
				t.Errorf("told:\n%s\nwant:\n%s", errw.String(), want)
			}
			if !strings.Contains(out.String(), c.end) {
				t.Errorf("the result is %q", out.String())
			}
		})
	}
}

func FuzzParseAnswers(f *testing.F) {
	f.Add("answer-1=blue")
	f.Add(`answer-1={"colour":"blue"}`)
	f.Add("=x")
	f.Add("k={")
	f.Fuzz(func(t *testing.T, arg string) {
		answers, err := parseAnswers([]string{arg})
		if err != nil {
			return
		}
		key, value, _ := strings.Cut(arg, "=")
		b, err := json.Marshal(answers[key])
		if err != nil {
			t.Fatalf("%q: %v", arg, err)
		}
		var got struct {
			Action  string
			Content map[string]json.RawMessage
		}
		if err := json.Unmarshal(b, &got); err != nil || got.Action != "accept" {
			t.Errorf("%q became %s", arg, b)
		}
		if !strings.HasPrefix(strings.TrimSpace(value), "{") && got.Content["answer"] == nil {
			t.Errorf("%q has no answer: %s", arg, b)
		}
	})
}
