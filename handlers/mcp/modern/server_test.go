package modern

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"hangar/domain"
	"hangar/domain/access"
	"hangar/handlers/mcp"
)

// clock is a clock that a test moves.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) move(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// ledger is a mcp.Tasks that holds what a test puts in. update and cancel note
// what they were asked.
type ledger struct {
	mu      sync.Mutex
	owners  map[domain.TaskID]domain.Owner
	tasks   map[domain.TaskID]*mcp.Task
	updates []map[string]json.RawMessage
	cancels []domain.TaskID
}

func newLedger() *ledger {
	return &ledger{owners: map[domain.TaskID]domain.Owner{}, tasks: map[domain.TaskID]*mcp.Task{}}
}

func (l *ledger) put(o domain.Owner, t *mcp.Task) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.owners[t.ID], l.tasks[t.ID] = o, t
}

func (l *ledger) find(c mcp.Caller, id domain.TaskID) (*mcp.Task, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	t, ok := l.tasks[id]
	if !ok || l.owners[id] != c.Owner {
		return nil, domain.Errorf(domain.NotFound, "unknown task")
	}
	return t, nil
}

func (l *ledger) Get(_ context.Context, c mcp.Caller, id domain.TaskID) (*mcp.Task, error) {
	return l.find(c, id)
}

func (l *ledger) Update(_ context.Context, c mcp.Caller, id domain.TaskID, r map[string]json.RawMessage) error {
	if _, err := l.find(c, id); err != nil {
		return err
	}
	l.updates = append(l.updates, r)
	return nil
}

func (l *ledger) Cancel(_ context.Context, c mcp.Caller, id domain.TaskID) error {
	if _, err := l.find(c, id); err != nil {
		return err
	}
	l.cancels = append(l.cancels, id)
	return nil
}

// shelf is a mcp.Resources with one text on it.
type shelf struct{}

func (shelf) Read(_ context.Context, _ mcp.Caller, uri string) (*sdk.ReadResourceResult, error) {
	if uri != "hangar://jobs/j1" {
		return nil, domain.Errorf(domain.NotFound, "unknown resource")
	}
	return &sdk.ReadResourceResult{Contents: []*sdk.ResourceContents{{URI: uri, MIMEType: "text/plain", Text: "a <b> & c"}}}, nil
}

func (shelf) Templates() []*sdk.ResourceTemplate {
	return []*sdk.ResourceTemplate{{Name: "job", URITemplate: "hangar://jobs/{id}"}}
}

var (
	alice = domain.Owner{Tenant: "acme", Principal: "alice"}
	bob   = domain.Owner{Tenant: "acme", Principal: "bob"}
)

// bench is a server with everything it needs, all of it a test's to see.
type bench struct {
	*Server
	clock  *clock
	ledger *ledger
	log    *bytes.Buffer
	called []string // tools whose handler ran
}

func setup(t testing.TB, change ...func(*Options)) *bench {
	t.Helper()
	b := &bench{
		clock:  &clock{now: time.Date(2026, 8, 1, 10, 0, 0, 0, time.UTC)},
		ledger: newLedger(),
		log:    &bytes.Buffer{},
	}
	registry := mcp.NewRegistry(b.tools()...)
	o := Options{
		Name: "hangar", Version: "1.2.3",
		Registry:  func() *mcp.Registry { return registry },
		Tasks:     b.ledger,
		Resources: shelf{},
		Caller: func(r *http.Request) mcp.Caller {
			switch r.Header.Get("Test-Principal") {
			case "bob":
				return mcp.Caller{Owner: bob, Scopes: access.Default}
			case "admin":
				return mcp.Caller{Owner: domain.Owner{Tenant: "acme", Principal: "admin"}, Scopes: access.Scopes{access.Admin}}
			}
			return mcp.Caller{Owner: alice, Scopes: access.Default}
		},
		StateKey: bytes.Repeat([]byte{7}, 32),
		Clock:    b.clock,
		Log:      slog.New(slog.NewTextHandler(b.log, nil)),
	}
	for _, f := range change {
		f(&o)
	}
	s, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	b.Server = s
	return b
}

const open = `{"type":"object"}`

func text1(s string) *mcp.Result {
	return &mcp.Result{Content: []sdk.Content{&sdk.TextContent{Text: s}}}
}

func question(message string) mcp.InputRequest {
	return mcp.InputRequest{Method: mcp.MethodElicit, Params: json.RawMessage(fmt.Sprintf(
		`{"mode":"form","message":%q,"requestedSchema":{"type":"object","properties":{"name":{"type":"string"}}}}`, message))}
}

// tools are one tool for each thing a tool can do.
func (b *bench) tools() []*mcp.Tool {
	tool := func(name, schema string, f mcp.Handler) *mcp.Tool {
		return &mcp.Tool{
			Name: name, InputSchema: json.RawMessage(schema), Scope: access.Jobs,
			Handle: func(ctx context.Context, c *mcp.Call) (mcp.Outcome, error) {
				b.called = append(b.called, name)
				return f(ctx, c)
			},
		}
	}
	greet := tool("greet", `{"type":"object","properties":{"name":{"type":"string"}},"required":["name"],"additionalProperties":false}`,
		func(_ context.Context, c *mcp.Call) (mcp.Outcome, error) {
			var a struct{ Name string }
			_ = json.Unmarshal(c.Arguments, &a)
			return text1("Hello, " + a.Name + "!"), nil
		})
	greet.Description, greet.ReadOnly, greet.Idempotent = "Greets <you>.", true, true
	work := tool("work", open, func(_ context.Context, c *mcp.Call) (mcp.Outcome, error) {
		if !c.Tasks {
			return text1("done at once"), nil
		}
		ttl := int64(86400000)
		t := &mcp.Task{
			ID: "task-aaaaaaaaaaaaaaaaaaaaaaaaaa", Status: mcp.Working, StatusMessage: "work started",
			CreatedAt: "2026-08-01T10:00:00.000000Z", LastUpdatedAt: "2026-08-01T10:00:00.000000Z", TTLMs: &ttl, PollIntervalMs: 5000,
			Result: json.RawMessage(`{"must":"not leave"}`), Meta: map[string]any{"hangar/job": "job-1"},
		}
		b.ledger.put(c.Owner, t)
		return t, nil
	})
	only := tool("only_tasks", open, func(context.Context, *mcp.Call) (mcp.Outcome, error) { return text1("unreachable"), nil })
	only.RequiresTasks = true
	secret := tool("admin_only", open, func(context.Context, *mcp.Call) (mcp.Outcome, error) { return text1("for admins"), nil })
	secret.Scope = access.Admin
	old := tool("old_name", open, func(context.Context, *mcp.Call) (mcp.Outcome, error) { return text1("still here"), nil })
	old.Hidden = true
	return []*mcp.Tool{greet, work, only, secret, old,
		tool("stubborn", open, func(context.Context, *mcp.Call) (mcp.Outcome, error) {
			return &mcp.Task{ID: "task-x", Status: mcp.Working}, nil
		}),
		tool("region", `{"type":"object","properties":{"region":{"type":"string","x-mcp-header":"Region"},"size":{"type":"object","properties":{"cpus":{"type":"integer","x-mcp-header":"Cpus"}}},"dry":{"type":"boolean","x-mcp-header":"Dry"}}}`,
			func(_ context.Context, c *mcp.Call) (mcp.Outcome, error) {
				return text1("in " + string(c.Arguments)), nil
			}),
		tool("panics", open, func(context.Context, *mcp.Call) (mcp.Outcome, error) { panic("the secret is 42") }),
		tool("refuses", open, func(context.Context, *mcp.Call) (mcp.Outcome, error) {
			return nil, domain.Errorf(domain.Conflict, "the job has ended")
		}),
		tool("breaks", open, func(context.Context, *mcp.Call) (mcp.Outcome, error) {
			return nil, errors.New("dial tcp 10.0.0.7: refused")
		}),
		tool("breaks_inside", open, func(context.Context, *mcp.Call) (mcp.Outcome, error) {
			return nil, domain.Wrap(domain.Internal, errors.New("disk on fire"), "cannot write /var/lib/x")
		}),
		tool("needs_sampling", open, func(context.Context, *mcp.Call) (mcp.Outcome, error) {
			return nil, mcp.MissingCapability("sampling", `{"sampling":{}}`)
		}),
		tool("ask_name", open, askName),
		tool("ask_twice", open, askTwice),
		tool("ask_any", open, func(_ context.Context, c *mcp.Call) (mcp.Outcome, error) {
			return &mcp.InputRequired{Requests: map[string]mcp.InputRequest{
				"who": question("Who?"), "think": {Method: mcp.MethodSampling, Params: json.RawMessage(`{"messages":[],"maxTokens":5}`)}, "where": {Method: mcp.MethodRoots},
			}}, nil
		}),
		tool("steps", open, func(_ context.Context, c *mcp.Call) (mcp.Outcome, error) {
			c.Progress(0, 100, "")
			c.Progress(50, 100, "half <way>")
			c.Progress(50, 100, "again")
			c.Progress(20, 100, "back")
			c.Progress(100, 100, "")
			return text1("stepped"), nil
		}),
		tool("markup", open, func(context.Context, *mcp.Call) (mcp.Outcome, error) {
			return &mcp.Result{
				Content: []sdk.Content{
					&sdk.TextContent{Text: "<a href=\"x\">Привет & пока</a> \u2028 \x00\x1b \xff"},
					&sdk.ResourceLink{URI: "hangar://jobs/j1?a=1&b=2", Name: "job <1>"},
				},
				Structured: json.RawMessage(`{"html":"<b>"}`),
				IsError:    true,
			}, nil
		}),
	}
}

func askName(_ context.Context, c *mcp.Call) (mcp.Outcome, error) {
	raw, ok := c.InputResponses["user_name"]
	if !ok {
		return &mcp.InputRequired{Requests: map[string]mcp.InputRequest{"user_name": question("Your name?")}, State: json.RawMessage(`{"round":1}`)}, nil
	}
	var a struct {
		Action  string
		Content struct{ Name string }
	}
	_ = json.Unmarshal(raw, &a)
	return text1(fmt.Sprintf("%s %s, state %s, %d answers", a.Action, a.Content.Name, c.State, len(c.InputResponses))), nil
}

func askTwice(_ context.Context, c *mcp.Call) (mcp.Outcome, error) {
	switch string(c.State) {
	case "":
		return &mcp.InputRequired{Requests: map[string]mcp.InputRequest{"one": question("First?")}, State: json.RawMessage(`1`)}, nil
	case "1":
		return &mcp.InputRequired{Requests: map[string]mcp.InputRequest{"two": question("Second?")}, State: json.RawMessage(`2`)}, nil
	}
	return text1("both: " + strings.Join(sorted(c.InputResponses), ",")), nil
}

const (
	plainMeta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}`
	tasksMeta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"elicitation":{},"extensions":{"io.modelcontextprotocol/tasks":{}}}}`
)

// rpc gives the body of a request. more are further members of params.
func rpc(method, meta string, more ...string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":7,"method":%q,"params":{%s}}`, method, strings.Join(append(more, meta), ","))
}

// headersOf gives the headers that a good client sends with a body.
func headersOf(body string) http.Header {
	h := http.Header{"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"}}
	var m struct {
		Method string
		Params struct {
			Meta   map[string]json.RawMessage `json:"_meta"`
			Name   string
			URI    string
			TaskID string `json:"taskId"`
		}
	}
	_ = json.Unmarshal([]byte(body), &m)
	var version string
	if json.Unmarshal(m.Params.Meta[metaVersion], &version) == nil {
		h.Set(headerVersion, version)
	}
	if m.Method != "" {
		h.Set(headerMethod, m.Method)
	}
	for _, name := range []string{m.Params.Name, m.Params.URI, m.Params.TaskID} {
		if name != "" {
			h.Set(headerName, name)
		}
	}
	return h
}

// set are changes to the headers of a request: "Name: value" sets one, "Name"
// alone takes it away.
func (b *bench) post(body string, set ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodPost, "/mcp", strings.NewReader(body))
	r.Header = headersOf(body)
	for _, line := range set {
		name, value, ok := strings.Cut(line, ": ")
		r.Header.Del(name)
		if ok {
			r.Header.Set(name, value)
		}
	}
	w := httptest.NewRecorder()
	b.ServeHTTP(w, r)
	return w
}

// reply is a response as tests look at it.
type reply struct {
	ID     json.RawMessage
	Result json.RawMessage
	Error  *mcp.RPCError
}

func parse(t testing.TB, w *httptest.ResponseRecorder) reply {
	t.Helper()
	var r reply
	if err := json.Unmarshal(w.Body.Bytes(), &r); err != nil {
		t.Fatalf("not JSON: %v: %s", err, w.Body)
	}
	return r
}

// texts gives the text of a tool result.
func texts(t testing.TB, w *httptest.ResponseRecorder) string {
	t.Helper()
	var result struct {
		Content []struct{ Text string }
		IsError bool
	}
	r := parse(t, w)
	if r.Error != nil {
		return fmt.Sprintf("error %d %s", r.Error.Code, r.Error.Message)
	}
	if err := json.Unmarshal(r.Result, &result); err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, c := range result.Content {
		out = append(out, c.Text)
	}
	if result.IsError {
		return "isError " + strings.Join(out, "\n")
	}
	return strings.Join(out, "\n")
}

func sorted[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

func noted(to **mcp.Call) mcp.Handler {
	return func(_ context.Context, c *mcp.Call) (mcp.Outcome, error) {
		*to = c
		return text1("seen"), nil
	}
}
