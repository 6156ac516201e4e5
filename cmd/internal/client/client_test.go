package client_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"hangar/cmd/internal/client"
	"hangar/domain"
	"hangar/handlers/rest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// serve answers every request with f, over HTTP.
func serve(t *testing.T, f http.HandlerFunc) *client.Client {
	t.Helper()
	s := httptest.NewServer(f)
	t.Cleanup(s.Close)
	c, err := client.New(client.Options{URL: s.URL + "/mcp", Token: "hgr_t", Version: "1"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func reply(text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		io.WriteString(w, text) //nolint:errcheck // a test
	}
}

func TestRequestIsWhole(t *testing.T) {
	t.Parallel()
	var header http.Header
	var body struct {
		Method string
		Params struct {
			Name      string
			Arguments map[string]string
			Meta      map[string]json.RawMessage `json:"_meta"`
		}
	}
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		header = r.Header
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
			t.Error(err)
		}
		reply(`{"jsonrpc":"2.0","id":1,"result":{"resultType":"task","taskId":"task-1","status":"working","createdAt":"","lastUpdatedAt":"","ttlMs":null,"_meta":{"hangar/job":"job-1"}}}`)(w, r)
	})
	got, err := c.CallTool(t.Context(), "submit_job", map[string]string{"prompt": "p"}, true)
	if err != nil || got.Task == nil || got.Task.ID != "task-1" || got.Task.Meta["hangar/job"] != "job-1" {
		t.Fatalf("%+v, %v", got, err)
	}
	for name, want := range map[string]string{"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": "submit_job",
		"Authorization": "Bearer hgr_t", "Content-Type": "application/json", "Accept": "application/json, text/event-stream"} {
		if got := header.Get(name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	if body.Method != "tools/call" || body.Params.Name != "submit_job" || body.Params.Arguments["prompt"] != "p" {
		t.Errorf("body %+v", body)
	}
	if v := body.Params.Meta["io.modelcontextprotocol/clientCapabilities"]; !strings.Contains(string(v), `"io.modelcontextprotocol/tasks":{}`) {
		t.Errorf("capabilities %s", v)
	}
	if v := body.Params.Meta["io.modelcontextprotocol/protocolVersion"]; string(v) != `"2026-07-28"` {
		t.Errorf("version %s", v)
	}
}

func TestAnswers(t *testing.T) {
	t.Parallel()
	const result = `{"resultType":"complete","content":[{"type":"resource_link","uri":"x"},{"type":"text","text":"why"}],"structuredContent":{"id":"j"},"isError":true}`
	for name, c := range map[string]struct{ kind, body, want string }{
		"json":        {"application/json; charset=utf-8", `{"jsonrpc":"2.0","id":1,"result":` + result + `}`, ""},
		"events":      {"text/event-stream", ": keep-alive\n\nevent: message\ndata: {\"method\":\"notifications/progress\"}\n\ndata: {\"id\":1,\ndata: \"result\":" + result + "}\n\n", ""},
		"rpc error":   {"application/json", `{"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"unknown task"}}`, "unknown task"},
		"cut off":     {"text/event-stream", "data: {\"id\":1", "unexpected EOF"},
		"not rpc":     {"application/json", `{}`, "cannot be read"},
		"not json":    {"application/json", `<html>`, "cannot be read"},
		"other":       {"text/html", `<html>`, "text/html"},
		"no type":     {" ", ``, "HTTP status 200"},
		"bad event":   {"text/event-stream", "data: nonsense\n\n", "cannot be read"},
		"half result": {"application/json", `{"id":1,"result":[]}`, "cannot be read"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cl := serve(t, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", c.kind)
				io.WriteString(w, c.body) //nolint:errcheck // a test
			})
			got, err := cl.CallTool(t.Context(), "get_job", struct{}{}, false)
			if c.want != "" {
				if err == nil || !strings.Contains(err.Error(), c.want) {
					t.Errorf("got %v, want %q in it", err, c.want)
				}
				return
			}
			if err != nil || !got.IsError || got.Text != "why" || string(got.Structured) != `{"id":"j"}` {
				t.Errorf("got %+v, %v", got, err)
			}
		})
	}
}

func TestNoServer(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "none.sock")
	c, err := client.New(client.Options{Socket: path})
	if err != nil {
		t.Fatal(err)
	}
	_, err = c.GetTask(t.Context(), "task-1")
	var none *client.NoServerError
	if !errors.As(err, &none) || !strings.HasPrefix(err.Error(), "no server at "+path) {
		t.Errorf("got %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := c.GetTask(ctx, "task-1"); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want the context's error", err)
	}
}

func TestLocalSocket(t *testing.T) {
	t.Parallel()
	dir, err := os.MkdirTemp("", "h") //nolint:usetesting // short: a socket's path is bounded
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	path := filepath.Join(dir, "s")
	var lc net.ListenConfig
	l, err := lc.Listen(t.Context(), "unix", path)
	if err != nil {
		t.Fatal(err)
	}
	s := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Host != "localhost" {
			t.Errorf("host %q", r.Host)
		}
		reply(`{"projections":[{"name":"jobs","position":1,"head":2}]}`)(w, r)
	})}
	done := make(chan error)
	go func() { done <- s.Serve(l) }()
	c, err := client.New(client.Options{Socket: path})
	if err != nil {
		t.Fatal(err)
	}
	got, err := c.ListViews(t.Context())
	if err != nil || len(got.Projections) != 1 || got.Projections[0].Name != "jobs" {
		t.Errorf("%+v, %v", got, err)
	}
	c.Close()
	_ = s.Close()
	if err := <-done; !errors.Is(err, http.ErrServerClosed) {
		t.Error(err)
	}
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	status := func(code int, body string) *client.Client {
		return serve(t, func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(code)
			io.WriteString(w, body) //nolint:errcheck // a test
		})
	}
	err := status(400, `{"error":{"code":"invalid","message":"name: taken","field":"name"}}`).RevokeToken(t.Context(), "x")
	var known *domain.Error
	if !errors.As(err, &known) || known.Field != "name" || err.Error() != "name: taken" {
		t.Errorf("got %v", err)
	}
	if _, err := status(401, "").CreateToken(t.Context(), rest.NewToken{}); err == nil || !strings.Contains(err.Error(), "does not take this token") {
		t.Errorf("got %v", err)
	}
	if _, err := status(502, "<html>").ListTokens(t.Context()); err == nil || !strings.Contains(err.Error(), "502") {
		t.Errorf("got %v", err)
	}
	if _, err := status(302, "").ListTasks(t.Context(), 1); err == nil {
		t.Error("a redirect was taken for an answer")
	}
	if _, err := client.New(client.Options{URL: "localhost:7330"}); err == nil {
		t.Error("a URL without a scheme was taken")
	}
}

func TestLogs(t *testing.T) {
	t.Parallel()
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusPartialContent)
		io.WriteString(w, r.URL.String()+" "+r.Header.Get("Range")) //nolint:errcheck // a test
	})
	var b bytes.Buffer
	if err := c.JobLogs(t.Context(), &b, "job-1", 2, 10); err != nil || b.String() != "/v1/jobs/job-1/logs?turn=2 bytes=-10" {
		t.Errorf("got %q, %v", b.String(), err)
	}
}

// FuzzAnswer: no answer of a server makes the client panic.
func FuzzAnswer(f *testing.F) {
	f.Add("text/event-stream", "data: {\"result\":{}}\n\n")
	f.Add("application/json", `{"result":{"resultType":"task"}}`)
	f.Fuzz(func(t *testing.T, kind, body string) {
		c := serve(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", strings.Map(func(r rune) rune {
				if r < ' ' || r > '~' {
					return -1
				}
				return r
			}, kind))
			io.WriteString(w, body) //nolint:errcheck // a test
		})
		got, err := c.CallTool(t.Context(), "x", struct{}{}, true)
		if err == nil && got == nil {
			t.Error("neither a result nor an error")
		}
	})
}
