package modern

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"hangar/domain"
	"hangar/domain/access"
	"hangar/handlers/mcp"
)

func TestToolOutcomes(t *testing.T) {
	for _, c := range []struct{ tool, want, logged string }{
		{"refuses", "isError the job has ended", ""},
		{"panics", "error -32603 internal error", "the secret is 42"},
		{"breaks", "error -32603 internal error", "10.0.0.7"},
		{"breaks_inside", "error -32603 internal error", "disk on fire"},
		{"needs_sampling", "error -32021 this request needs a client that declares sampling in its clientCapabilities", ""},
		{"old_name", "still here", ""},
	} {
		t.Run(c.tool, func(t *testing.T) {
			b := setup(t)
			w := b.post(rpc("tools/call", plainMeta, `"name":"`+c.tool+`"`))
			if got := texts(t, w); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
			if !strings.Contains(b.log.String(), c.logged) || c.logged == "" && b.log.Len() > 0 {
				t.Errorf("log: %q, want %q in it", b.log, c.logged)
			}
			if c.logged != "" && strings.Contains(w.Body.String(), c.logged) {
				t.Errorf("the cause left: %s", w.Body)
			}
		})
	}
	b := setup(t)
	b.post(rpc("tools/call", plainMeta, `"name":"panics"`))
	if !strings.Contains(b.log.String(), "server_test.go") {
		t.Errorf("no stack in the log: %s", b.log)
	}
	if w := b.post(rpc("tools/call", plainMeta, `"name":"needs_sampling"`)); w.Code != 400 || !strings.Contains(w.Body.String(), `"data":{"requiredCapabilities":{"sampling":{}}}`) {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

// TestRawText: what leaves is UTF-8 as people read it (field case 77).
func TestRawText(t *testing.T) {
	b := setup(t)
	got := b.post(rpc("tools/call", plainMeta, `"name":"markup"`)).Body.String()
	want := `{"jsonrpc":"2.0","id":7,"result":{"resultType":"complete","content":[` +
		`{"type":"text","text":"<a href=\"x\">Привет & пока</a> ` + "\u2028" + ` \u0000\u001b ` + "\ufffd" + `"},` +
		`{"type":"resource_link","uri":"hangar://jobs/j1?a=1&b=2","name":"job <1>"}],` +
		`"structuredContent":{"html":"<b>"},"isError":true,` + infoOf(b, access.Default) + `}}`
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// infoOf is the _meta that every result has.
func infoOf(b *bench, scopes access.Scopes) string {
	return `"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"hangar","version":"1.2.3+tools.` + b.opts.Registry().View(scopes).Hash + `"}}`
}

func elicitMeta() string {
	return strings.Replace(plainMeta, `Capabilities":{}`, `Capabilities":{"elicitation":{}}`, 1)
}

// stateOf gives the requestState of an input_required answer.
func stateOf(t *testing.T, body []byte) string {
	t.Helper()
	var r struct {
		Result struct {
			ResultType   string
			RequestState string
		}
	}
	if err := json.Unmarshal(body, &r); err != nil || r.Result.ResultType != "input_required" || r.Result.RequestState == "" {
		t.Fatalf("not input_required: %s", body)
	}
	return r.Result.RequestState
}

func TestMultiRoundTrip(t *testing.T) {
	b := setup(t)
	first := b.post(rpc("tools/call", elicitMeta(), `"name":"ask_name","arguments":{"a":1,"b":[2]}`))
	state := stateOf(t, first.Body.Bytes())
	if !strings.Contains(first.Body.String(), `"inputRequests":{"user_name":{"method":"elicitation/create","params":{"mode":"form","message":"Your name?"`) {
		t.Errorf("first: %s", first.Body)
	}
	if strings.Contains(first.Body.String(), "ttlMs") || strings.Contains(state, "round") {
		t.Errorf("first: %s", first.Body)
	}
	const good = `"inputResponses":{"user_name":{"action":"accept","content":{"name":"Ann"}},"extra":5}`
	retry := func(state, args, answers string, set ...string) string {
		return texts(t, b.post(rpc("tools/call", elicitMeta(), `"name":"ask_name"`, `"arguments":`+args, answers, `"requestState":"`+state+`"`), set...))
	}
	const refused = "error -32602 Invalid or expired requestState"
	const args = `{"a":1,"b":[2]}`
	if got := retry(state, args, good); got != `accept Ann, state {"round":1}, 1 answers` {
		t.Errorf("retry: %s", got)
	}
	if got := retry(state, `{ "b": [2], "a": 1 }`, good); !strings.HasPrefix(got, "accept Ann") {
		t.Errorf("the same arguments written otherwise: %s", got)
	}
	for name, got := range map[string]string{
		"tampered":        retry(state+"-TAMPERED", args, good),
		"cut":             retry(state[:len(state)-4], args, good),
		"flipped":         retry("A"+state[1:], args, good),
		"empty":           retry("", args, good),
		"other arguments": retry(state, `{"a":2,"b":[2]}`, good),
		"other principal": retry(state, args, good, "Test-Principal: bob"),
		"other tool":      texts(t, b.post(rpc("tools/call", elicitMeta(), `"name":"ask_twice"`, `"arguments":`+args, good, `"requestState":"`+state+`"`))),
		"another process": texts(t, setup(t, func(o *Options) { o.StateKey = bytes.Repeat([]byte{8}, 32) }).post(rpc("tools/call", elicitMeta(), `"name":"ask_name"`, `"arguments":`+args, good, `"requestState":"`+state+`"`))),
	} {
		if got != refused {
			t.Errorf("%s: %s", name, got)
		}
	}
	b.clock.move(StateLife - time.Millisecond)
	if got := retry(state, args, good); !strings.HasPrefix(got, "accept Ann") {
		t.Errorf("just in time: %s", got)
	}
	b.clock.move(time.Millisecond)
	if got := retry(state, args, good); got != refused {
		t.Errorf("too late: %s", got)
	}
}

func TestAnswersAreChecked(t *testing.T) {
	b := setup(t)
	all := strings.Replace(plainMeta, `Capabilities":{}`, `Capabilities":{"elicitation":{},"sampling":{},"roots":{}}`, 1)
	state := stateOf(t, b.post(rpc("tools/call", all, `"name":"ask_any"`)).Body.Bytes())
	for _, c := range []struct{ answers, want string }{
		{`[]`, "params.inputResponses is an object of answers by their keys"},
		{`{"who":"me"}`, "inputResponses.who: an answer is a JSON object"},
		{`{"who":null}`, "inputResponses.who: an answer is a JSON object"},
		{`{"who":{}}`, `inputResponses.who: "action" is one of accept, decline, cancel`},
		{`{"who":{"action":"maybe"}}`, `inputResponses.who: "action" is one of accept, decline, cancel`},
		{`{"who":{"action":"accept","content":[]}}`, `inputResponses.who: "content" is a JSON object`},
		{`{"who":{"action":"accept","content":{"name":{}}}}`, "inputResponses.who: content.name is a string, a number, a boolean or a list of strings"},
		{`{"who":{"action":"accept","content":{"name":[1]}}}`, "inputResponses.who: content.name is a string, a number, a boolean or a list of strings"},
		{`{"think":{"role":"assistant"}}`, `inputResponses.think: a sampling answer has the string "model"`},
		{`{"think":{"role":"assistant","model":"m"}}`, `inputResponses.think: a sampling answer has "content"`},
		{`{"where":{}}`, `inputResponses.where: "roots" is a list`},
		{`{"where":{"roots":[{"name":"x"}]}}`, `inputResponses.where: each of "roots" has the string "uri"`},
	} {
		got := texts(t, b.post(rpc("tools/call", all, `"name":"ask_any"`, `"requestState":"`+state+`"`, `"inputResponses":`+c.answers)))
		if got != "error -32602 "+c.want {
			t.Errorf("%s: %s", c.answers, got)
		}
	}
	good := `{"who":{"action":"accept","content":{"name":"a","n":1,"b":true,"l":["x"]}},"think":{"role":"assistant","model":"m","content":{"type":"text","text":"t"}},"where":{"roots":[{"uri":"file:///"}]},"unknown":7}`
	stateOf(t, b.post(rpc("tools/call", all, `"name":"ask_any"`, `"requestState":"`+state+`"`, `"inputResponses":`+good)).Body.Bytes())
}

// TestAsksOnlyWhatWasDeclared (SEP-2322).
func TestAsksOnlyWhatWasDeclared(t *testing.T) {
	b := setup(t)
	for _, c := range []struct{ capabilities, keys string }{
		{`{"elicitation":{}}`, "who"},
		{`{"elicitation":{"form":{}}}`, "who"},
		{`{"elicitation":{"form":{},"url":{}},"roots":{}}`, "where who"},
		{`{"sampling":{}}`, "think"},
		{`{"sampling":{},"roots":{},"elicitation":{}}`, "think where who"},
		{`{"sampling":true,"roots":{}}`, "where"},
		{`{"elicitation":{"url":{}}}`, ""},
		{`{}`, ""},
	} {
		w := b.post(rpc("tools/call", strings.Replace(plainMeta, `Capabilities":{}`, `Capabilities":`+c.capabilities, 1), `"name":"ask_any"`))
		got := parse(t, w)
		if c.keys == "" {
			if w.Code != 400 || got.Error == nil || got.Error.Code != -32021 || !strings.Contains(w.Body.String(), `{"requiredCapabilities":{"sampling":{}}}`) {
				t.Errorf("%s: %d %s", c.capabilities, w.Code, w.Body)
			}
			continue
		}
		var result struct{ InputRequests map[string]json.RawMessage }
		if err := json.Unmarshal(got.Result, &result); err != nil {
			t.Fatal(err, w.Body)
		}
		if keys := strings.Join(sorted(result.InputRequests), " "); keys != c.keys {
			t.Errorf("%s: asks %s, want %s", c.capabilities, keys, c.keys)
		}
	}
}

func TestTwoRounds(t *testing.T) {
	b := setup(t)
	one := stateOf(t, b.post(rpc("tools/call", elicitMeta(), `"name":"ask_twice"`)).Body.Bytes())
	two := stateOf(t, b.post(rpc("tools/call", elicitMeta(), `"name":"ask_twice"`, `"requestState":"`+one+`"`, `"inputResponses":{"one":{"action":"accept"}}`)).Body.Bytes())
	if one == two {
		t.Error("the state did not change")
	}
	// An answer of the round before is not one of this round.
	if got := texts(t, b.post(rpc("tools/call", elicitMeta(), `"name":"ask_twice"`, `"requestState":"`+two+`"`, `"inputResponses":{"one":{"action":"accept"},"two":{"action":"decline"}}`))); got != "both: two" {
		t.Error(got)
	}
	// State alone asks again.
	if again := stateOf(t, b.post(rpc("tools/call", elicitMeta(), `"name":"ask_twice"`, `"requestState":"`+one+`"`)).Body.Bytes()); again == "" {
		t.Error("not asked again")
	}
}

func TestPages(t *testing.T) {
	b := setup(t, func(o *Options) { o.PageSize = 4 })
	var names []string
	cursor := ""
	for range 10 {
		var page struct {
			Tools      []struct{ Name string }
			NextCursor *string
			TTLMs      int
			CacheScope string
		}
		more := []string{}
		if cursor != "" {
			more = append(more, fmt.Sprintf(`"cursor":%q`, cursor))
		}
		if err := json.Unmarshal(parse(t, b.post(rpc("tools/list", plainMeta, more...))).Result, &page); err != nil {
			t.Fatal(err)
		}
		if page.TTLMs != 60000 || page.CacheScope != "private" {
			t.Errorf("ttlMs %d, cacheScope %q", page.TTLMs, page.CacheScope)
		}
		for _, tool := range page.Tools {
			names = append(names, tool.Name)
		}
		if page.NextCursor == nil {
			break
		}
		cursor = *page.NextCursor
	}
	want := "greet work only_tasks stubborn region panics refuses breaks breaks_inside needs_sampling ask_name ask_twice ask_any steps markup"
	if got := strings.Join(names, " "); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if w := b.post(rpc("tools/list", plainMeta, `"cursor":""`)); parse(t, w).Error != nil {
		t.Errorf("the empty cursor: %s", w.Body)
	}
	// An admin sees another list, so a cursor of this one is not one of that.
	if w := b.post(rpc("tools/list", plainMeta, fmt.Sprintf(`"cursor":%q`, cursor)), "Test-Principal: admin"); parse(t, w).Error == nil || !strings.Contains(w.Body.String(), "changed since") {
		t.Errorf("cursor of another list: %s", w.Body)
	}
}

func TestVersionFollowsTheList(t *testing.T) {
	tool := func(description string, scope access.Scope) *mcp.Tool {
		return &mcp.Tool{Name: "t", Description: description, InputSchema: json.RawMessage(open), Scope: scope}
	}
	current := mcp.NewRegistry(tool("one", access.Jobs))
	b := setup(t, func(o *Options) { o.Registry = func() *mcp.Registry { return current } })
	version := func() string {
		var result struct {
			Meta map[string]struct{ Version string } `json:"_meta"`
		}
		if err := json.Unmarshal(parse(t, b.post(rpc("server/discover", plainMeta))).Result, &result); err != nil {
			t.Fatal(err)
		}
		return result.Meta[mcp.MetaServerInfo].Version
	}
	seen := map[string]bool{}
	for _, r := range []*mcp.Registry{current, mcp.NewRegistry(tool("two", access.Jobs)), mcp.NewRegistry(tool("one", access.Admin))} {
		current = r
		v := version()
		if seen[v] || len(v) != len("1.2.3+tools.")+12 {
			t.Errorf("version %q, seen before: %v", v, seen[v])
		}
		seen[v] = true
	}
}

func TestWithoutTasksOrResources(t *testing.T) {
	b := setup(t, func(o *Options) { o.Tasks, o.Resources = nil, nil })
	for _, m := range []string{"tasks/get", "tasks/update", "tasks/cancel", "resources/list", "resources/templates/list", "resources/read"} {
		if w := b.post(rpc(m, tasksMeta, `"taskId":"t"`), "Mcp-Name: t"); w.Code != 404 || parse(t, w).Error.Code != -32601 {
			t.Errorf("%s: %d %s", m, w.Code, w.Body)
		}
	}
	got := b.post(rpc("server/discover", tasksMeta)).Body.String()
	if !strings.Contains(got, `"capabilities":{"tools":{}},"ttlMs"`) {
		t.Errorf("discover: %s", got)
	}
}

func TestCallerReachesTheTool(t *testing.T) {
	var got *mcp.Call
	registry := mcp.NewRegistry(&mcp.Tool{Name: "see", InputSchema: json.RawMessage(open), Scope: access.Jobs, Handle: noted(&got)})
	b := setup(t, func(o *Options) { o.Registry = func() *mcp.Registry { return registry } })
	const trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	b.post(rpc("tools/call", strings.Replace(tasksMeta, `"_meta":{`, `"_meta":{"traceparent":"`+trace+`",`, 1), `"name":"see","arguments":null`))
	if got == nil {
		t.Fatal("not called")
	}
	if got.Owner != alice || !got.Capabilities.Form || got.Capabilities.URL || !got.Tasks || got.Traceparent != trace || len(got.CorrelationID) != 36 || string(got.Arguments) != "{}" {
		t.Errorf("%+v", got)
	}
	got.Progress(1, 2, "after the end, and without a token")
}

func TestNewRefuses(t *testing.T) {
	if _, err := New(Options{}); err == nil {
		t.Error("no registry")
	}
	r := mcp.NewRegistry()
	if _, err := New(Options{Registry: func() *mcp.Registry { return r }, StateKey: []byte("short")}); err == nil {
		t.Error("a short key")
	}
	s, err := New(Options{Registry: func() *mcp.Registry { return r }, StateKey: make([]byte, 32)})
	if err != nil {
		t.Fatal(err)
	}
	if c := s.opts.Caller(&http.Request{}); c.Owner != (domain.Owner{}) || !c.Scopes.Admin() {
		t.Errorf("%+v", c)
	}
}
