package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"hangar/domain"
	"hangar/domain/access"
	"hangar/domain/turn"
)

func define(change func(*Tool)) *Tool {
	t := &Tool{
		Name: "t", Description: "Does it.", Scope: access.Jobs,
		InputSchema:  json.RawMessage(`{ "type": "object", "properties": {"mode": {"enum": ["a", "b"]}} }`),
		OutputSchema: json.RawMessage(`{ "type": "object" }`),
	}
	if change != nil {
		change(t)
	}
	return t
}

func TestDefinition(t *testing.T) {
	v := NewRegistry(define(func(t *Tool) { t.Description, t.ReadOnly, t.OpenWorld = "Does <it>.", true, true })).View(access.Default)
	want := `{"name":"t","description":"Does <it>.","inputSchema":{"type":"object","properties":{"mode":{"enum":["a","b"]}}},"outputSchema":{"type":"object"},` +
		`"annotations":{"readOnlyHint":true,"destructiveHint":false,"idempotentHint":false,"openWorldHint":true}}`
	if len(v.Definitions) != 1 || string(v.Definitions[0]) != want {
		t.Errorf("got %s", v.Definitions)
	}
}

// TestHashMoves with everything that a client may have kept, and with nothing else.
func TestHashMoves(t *testing.T) {
	hash := func(change func(*Tool)) string { return NewRegistry(define(change)).View(access.Default).Hash }
	base := hash(nil)
	if len(base) != 12 || strings.Trim(base, "0123456789abcdef") != "" {
		t.Errorf("hash %q", base)
	}
	for name, change := range map[string]func(*Tool){
		"name":        func(t *Tool) { t.Name = "u" },
		"description": func(t *Tool) { t.Description = "Does it!" },
		"nested enum": func(t *Tool) { t.InputSchema = bytes.Replace(t.InputSchema, []byte(`"b"`), []byte(`"c"`), 1) },
		"output":      func(t *Tool) { t.OutputSchema = nil },
		"hint":        func(t *Tool) { t.Idempotent = true },
		"hidden":      func(t *Tool) { t.Hidden = true },
	} {
		if hash(change) == base {
			t.Errorf("%s: the hash stays", name)
		}
	}
	for name, change := range map[string]func(*Tool){
		"white space": func(t *Tool) { t.InputSchema = Canonical(t.InputSchema) },
		"order": func(t *Tool) {
			t.InputSchema = json.RawMessage(`{"properties":{"mode":{"enum":["a","b"]}},"type":"object"}`)
		},
		"budget": func(t *Tool) { t.Budget = Exec },
	} {
		if hash(change) != base {
			t.Errorf("%s: the hash moves", name)
		}
	}
}

func TestViewsFollowScopes(t *testing.T) {
	r := NewRegistry(
		define(nil),
		define(func(t *Tool) { t.Name, t.Scope = "s", access.Sandboxes }),
		define(func(t *Tool) { t.Name, t.Scope, t.Hidden = "h", access.Jobs, true }),
	)
	for _, c := range []struct {
		scopes access.Scopes
		want   int
	}{{nil, 0}, {access.Scopes{access.Jobs}, 1}, {access.Default, 2}, {access.Scopes{access.Admin}, 2}} {
		if got := len(r.View(c.scopes).Definitions); got != c.want || len(r.List(c.scopes)) != c.want {
			t.Errorf("%v: %d", c.scopes, got)
		}
	}
	if r.View(access.Default) != r.View(access.Scopes{access.Gateway, access.Sandboxes, access.Jobs}) {
		t.Error("two views of the same scopes")
	}
	if _, ok := r.Lookup("h", access.Default); !ok {
		t.Error("a hidden tool does not answer")
	}
	if _, ok := r.Lookup("s", access.Scopes{access.Jobs}); ok {
		t.Error("a tool out of reach answers")
	}
}

func TestTwiceTheSameName(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("registered")
		}
	}()
	NewRegistry(define(nil), define(nil))
}

func TestInvoke(t *testing.T) {
	var none *Result
	for _, c := range []struct {
		name   string
		answer Outcome
		err    error
		want   string
	}{
		{"a result", &Result{}, nil, "result"},
		{"nothing", nil, nil, "-32603 internal error"},
		{"a typed nothing", none, nil, "-32603 internal error"},
		{"a task nobody asked for", &Task{}, nil, "-32603 internal error"},
		{"a question", &InputRequired{}, nil, "question"},
		{"a domain error", nil, domain.Errorf(domain.TooLarge, "over 5 MiB"), "isError over 5 MiB"},
		{"a wrapped domain error", nil, fmt.Errorf("submit: %w", domain.Wrap(domain.Unavailable, errors.New("x"), "try again")), "isError try again"},
		{"a fault", nil, domain.Errorf(domain.Internal, "path /x"), "-32603 internal error"},
		{"an RPC error", nil, fmt.Errorf("w: %w", MissingTasks()), "-32021 this request needs a client that declares the extension io.modelcontextprotocol/tasks in its clientCapabilities"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := NewRegistry(define(func(tool *Tool) {
				tool.Handle = func(_ context.Context, call *Call) (Outcome, error) {
					call.Progress(1, 2, "never nil")
					return c.answer, c.err
				}
			}))
			out, err := r.Invoke(t.Context(), slog.New(slog.DiscardHandler), &Call{Tool: "t", Arguments: json.RawMessage(`{}`)})
			if got := outcomeText(out, err); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
	_, err := NewRegistry().Invoke(t.Context(), slog.New(slog.DiscardHandler), &Call{Tool: "none"})
	if got := outcomeText(nil, err); got != `-32602 unknown tool "none"` {
		t.Error(got)
	}
}

func outcomeText(out Outcome, err error) string {
	if rpc, ok := errors.AsType[*RPCError](err); ok {
		return fmt.Sprintf("%d %s", rpc.Code, rpc.Message)
	}
	switch o := out.(type) {
	case *Result:
		if o.IsError {
			b, _ := Marshal(o.Content[0])
			var text struct{ Text string }
			_ = json.Unmarshal(b, &text)
			return "isError " + text.Text
		}
		return "result"
	case *InputRequired:
		return "question"
	}
	return fmt.Sprint(out, err)
}

// TestEveryCodeHasItsNumbers, in the one table.
func TestEveryCodeHasItsNumbers(t *testing.T) {
	for code, want := range map[domain.Code][2]int{
		domain.Invalid: {-32602, 400}, domain.NotFound: {-32602, 404}, domain.Conflict: {-32602, 409},
		domain.Unauthorized: {-32602, 401}, domain.Forbidden: {-32602, 403}, domain.TooLarge: {-32602, 413},
		domain.Unsupported: {-32602, 501}, domain.Unavailable: {-32603, 503}, domain.Internal: {-32603, 500},
		"never heard of": {-32603, 500},
	} {
		if got := [2]int{RPCCode(code), HTTPStatus(code)}; got != want {
			t.Errorf("%s: %v, want %v", code, got, want)
		}
	}
}

func TestCausesGoToTheLogAlone(t *testing.T) {
	var log bytes.Buffer
	l := slog.New(slog.NewTextHandler(&log, nil))
	for _, err := range []error{
		errors.New("dial 10.0.0.7"),
		domain.Wrap(domain.Internal, errors.New("dial 10.0.0.7"), "broken"),
		Recover(func() error { panic("dial 10.0.0.7") }),
	} {
		log.Reset()
		got := ToRPC(t.Context(), l, "tasks/get", err)
		if got.Code != CodeInternal || got.Message != "internal error" || got.Data != nil || got.Status() != http.StatusOK {
			t.Errorf("%v: %+v", err, got)
		}
		if strings.Count(log.String(), "10.0.0.7") != 1 || !strings.Contains(log.String(), "tasks/get") {
			t.Errorf("log: %s", &log)
		}
	}
	log.Reset()
	if got := ToRPC(t.Context(), l, "tasks/get", domain.Errorf(domain.NotFound, "unknown task")); got.Message != "unknown task" || got.Code != CodeInvalidParams || log.Len() > 0 {
		t.Errorf("%+v, log %s", got, &log)
	}
}

func TestUsableKinds(t *testing.T) {
	url := InputRequest{Method: MethodElicit, Params: json.RawMessage(`{"mode":"url","url":"https://x"}`)}
	form := InputRequest{Method: MethodElicit, Params: json.RawMessage(`{"message":"no mode is form"}`)}
	for _, c := range []struct {
		ask  InputRequest
		have turn.Capabilities
		want string
	}{
		{form, turn.Capabilities{Form: true}, ""},
		{form, turn.Capabilities{URL: true}, `{"elicitation":{"form":{}}}`},
		{url, turn.Capabilities{URL: true}, ""},
		{url, turn.Capabilities{Form: true}, `{"elicitation":{"url":{}}}`},
		{InputRequest{Method: MethodRoots}, turn.Capabilities{Form: true}, `{"roots":{}}`},
		{InputRequest{Method: "other/method"}, turn.Capabilities{Form: true, URL: true, Sampling: true, Roots: true}, `{}`},
	} {
		usable, refused := Usable(map[string]InputRequest{"k": c.ask}, c.have)
		switch {
		case c.want == "" && (refused != nil || len(usable) != 1 || !Declared(c.ask, c.have)):
			t.Errorf("%+v with %+v: %v", c.ask, c.have, refused)
		case c.want != "" && (refused == nil || string(refused.Data) != `{"requiredCapabilities":`+c.want+`}` || refused.Status() != 400):
			t.Errorf("%+v with %+v: %v", c.ask, c.have, refused)
		}
	}
	if usable, refused := Usable(nil, turn.Capabilities{}); refused != nil || len(usable) != 0 {
		t.Errorf("asking nothing: %v %v", usable, refused)
	}
}
