package modern

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// TestRefusals goes down the ladder, rung by rung (wire reference, section 1.4),
// and over the places where two rungs could both refuse.
func TestRefusals(t *testing.T) {
	noVersion := `"_meta":{"io.modelcontextprotocol/clientCapabilities":{}}`
	noCapabilities := `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}`
	oldVersion := `"_meta":{"io.modelcontextprotocol/protocolVersion":"v999","io.modelcontextprotocol/clientCapabilities":{}}`
	withMeta := func(more string) string {
		return strings.Replace(plainMeta, `"_meta":{`, `"_meta":{`+more+`,`, 1)
	}
	greet := rpc("tools/call", plainMeta, `"name":"greet","arguments":{"name":"Ann"}`)
	get := rpc("tasks/get", tasksMeta, `"taskId":"task-none"`)

	for _, c := range []struct {
		name   string
		body   string
		set    []string
		status int
		code   int    // 0 for a result
		text   string // in the answer
	}{
		// Reading the body.
		{"not JSON", `{"jsonrpc":`, nil, 400, -32700, "not JSON"},
		{"empty", ``, nil, 400, -32700, "not JSON"},
		{"not UTF-8", "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"\xff\"}", nil, 400, -32700, "UTF-8"},
		{"a batch", `[` + greet + `]`, nil, 400, -32600, "batches"},
		{"a string", `"tools/list"`, nil, 400, -32600, "one JSON object"},
		{"a number", ` 12`, nil, 400, -32600, "one JSON object"},
		{"two objects", greet + greet, nil, 400, -32700, "not JSON"},
		{"deep", `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":` + strings.Repeat(`[`, 300) + strings.Repeat(`]`, 300) + `}`, nil, 400, -32600, "deeper than 256"},
		{"a long number", rpc("tools/call", plainMeta, `"name":"greet","arguments":{"name":`+strings.Repeat("9", 65)+`}`), nil, 400, -32600, "number is longer than 64"},
		{"a huge exponent", rpc("tools/call", plainMeta, `"name":"greet","arguments":{"name":1e99999999}`), nil, 400, -32600, "exponent"},
		{"over the limit", `{"jsonrpc":"2.0","id":1,"method":"` + strings.Repeat("x", MaxBody) + `"}`, nil, 413, -32600, "limit of 4194304 bytes"},
		{"another media type", greet, []string{"Content-Type: text/plain"}, 415, -32600, "application/json"},
		{"no media type", greet, []string{"Content-Type"}, 415, -32600, "application/json"},
		{"media type with a charset", greet, []string{"Content-Type: application/json; charset=utf-8"}, 200, 0, "Hello, Ann!"},

		// A request or a notification.
		{"another JSON-RPC", `{"jsonrpc":"1.0","id":1,"method":"tools/list"}`, nil, 400, -32600, `jsonrpc is`},
		{"no jsonrpc", `{"id":1,"method":"tools/list"}`, nil, 400, -32600, `jsonrpc is`},
		{"a response", `{"jsonrpc":"2.0","id":1,"result":{}}`, nil, 400, -32600, "responses are not taken"},
		{"no method", `{"jsonrpc":"2.0","id":1}`, nil, 400, -32600, "method is a string"},
		{"method of a number", `{"jsonrpc":"2.0","id":1,"method":1}`, nil, 400, -32600, "method is a string"},
		{"method of another case", `{"jsonrpc":"2.0","id":1,"Method":"tools/list"}`, nil, 400, -32600, "method is a string"},
		{"method twice", `{"jsonrpc":"2.0","id":1,"method":"tools/list","method":"tools/call"}`, nil, 400, -32600, `\"method\" twice`},
		{"id twice", `{"jsonrpc":"2.0","id":1,"id":2,"method":"tools/list"}`, nil, 400, -32600, `\"id\" twice`},
		{"id null", strings.Replace(greet, `"id":7`, `"id":null`, 1), nil, 400, -32600, "id is a string or an integer"},
		{"id fractional", strings.Replace(greet, `"id":7`, `"id":1.5`, 1), nil, 400, -32600, "id is a string or an integer"},
		{"id with exponent", strings.Replace(greet, `"id":7`, `"id":1e3`, 1), nil, 400, -32600, "id is a string or an integer"},
		{"id an object", strings.Replace(greet, `"id":7`, `"id":{}`, 1), nil, 400, -32600, "id is a string or an integer"},
		{"id too long", strings.Replace(greet, `"id":7`, `"id":"`+strings.Repeat("i", 300)+`"`, 1), nil, 400, -32600, "longer than 256"},
		{"a request without id", strings.Replace(greet, `"id":7,`, ``, 1), nil, 400, -32600, "has an id"},
		{"a notification", `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`, nil, 202, 0, ""},
		{"a notification nobody knows", `{"jsonrpc":"2.0","method":"notifications/whatever"}`, nil, 202, 0, ""},

		// The required _meta.
		{"no params", `{"jsonrpc":"2.0","id":7,"method":"tools/list"}`, nil, 400, -32602, "served are 2026-07-28"},
		{"params of a list", `{"jsonrpc":"2.0","id":7,"method":"tools/list","params":[]}`, nil, 400, -32602, "params is an object"},
		{"no _meta", `{"jsonrpc":"2.0","id":7,"method":"initialize","params":{}}`, nil, 400, -32602, "served are 2026-07-28"},
		{"_meta of a list", `{"jsonrpc":"2.0","id":7,"method":"tools/list","params":{"_meta":[]}}`, nil, 400, -32602, "_meta is an object"},
		{"_meta twice", rpc("tools/list", plainMeta, plainMeta), nil, 400, -32602, `\"_meta\" twice`},
		{"no version", rpc("tools/list", noVersion), []string{"Mcp-Protocol-Version: 2026-07-28"}, 400, -32602, "protocolVersion"},
		{"no capabilities", rpc("tools/list", noCapabilities), nil, 400, -32602, "clientCapabilities"},
		{"version of a number", rpc("tools/list", strings.Replace(plainMeta, `"2026-07-28"`, `1`, 1)), nil, 400, -32602, "protocolVersion"},
		{"no version and a wrong method header", rpc("tools/list", noVersion), []string{"Mcp-Method: tools/call"}, 400, -32602, "protocolVersion"},

		// The headers, before the version.
		{"no version header", greet, []string{"Mcp-Protocol-Version"}, 400, -32020, "MCP-Protocol-Version is missing"},
		{"another version header", greet, []string{"Mcp-Protocol-Version: 2025-11-25"}, 400, -32020, "MCP-Protocol-Version says"},
		{"good header, body v999", rpc("tools/list", oldVersion), []string{"Mcp-Protocol-Version: 2026-07-28"}, 400, -32020, "MCP-Protocol-Version"},
		{"no method header", greet, []string{"Mcp-Method"}, 400, -32020, "Mcp-Method is missing"},
		{"another method header", greet, []string{"Mcp-Method: tools/list"}, 400, -32020, "Mcp-Method says"},
		{"method header in another case", greet, []string{"Mcp-Method: Tools/Call"}, 400, -32020, "Mcp-Method says"},
		{"method header with white space", greet, []string{"Mcp-Method:  tools/call\t"}, 200, 0, "Hello, Ann!"},
		{"method header in the sentinel", greet, []string{"Mcp-Method: =?base64?dG9vbHMvY2FsbA==?="}, 400, -32020, "Mcp-Method says"},
		{"unknown method, another header", rpc("no/such", plainMeta), []string{"Mcp-Method: tools/list"}, 400, -32020, "Mcp-Method"},

		// The version, before the method.
		{"v999", rpc("tools/list", oldVersion), nil, 400, -32022, `"data":{"supported":["2026-07-28"],"requested":"v999"}`},
		{"v999 on discover", rpc("server/discover", oldVersion), nil, 400, -32022, "served are 2026-07-28"},
		{"v999, unknown method", rpc("no/such", oldVersion), nil, 400, -32022, ""},

		// The method, before the name.
		{"unknown method", rpc("no/such", plainMeta), nil, 404, -32601, ""},
		{"initialize", rpc("initialize", plainMeta), nil, 404, -32601, ""},
		{"ping", rpc("ping", plainMeta), nil, 404, -32601, ""},
		{"prompts/list", rpc("prompts/list", plainMeta), nil, 404, -32601, ""},
		{"prompts/get without a name header", rpc("prompts/get", plainMeta, `"name":"p"`), []string{"Mcp-Name"}, 404, -32601, ""},
		{"completion/complete", rpc("completion/complete", plainMeta), nil, 404, -32601, ""},
		{"subscriptions/listen", rpc("subscriptions/listen", tasksMeta), nil, 404, -32601, ""},
		{"tasks/result without a name header", rpc("tasks/result", tasksMeta, `"taskId":"task-none"`), []string{"Mcp-Name"}, 404, -32601, ""},
		{"tasks/list", rpc("tasks/list", tasksMeta), nil, 404, -32601, ""},
		{"tasks/list undeclared", rpc("tasks/list", plainMeta), nil, 404, -32601, ""},
		{"a notification's method with an id", rpc("notifications/cancelled", plainMeta), nil, 404, -32601, ""},

		// The name, before the capability.
		{"no name header", greet, []string{"Mcp-Name"}, 400, -32020, "Mcp-Name is missing"},
		{"another name header", greet, []string{"Mcp-Name: work"}, 400, -32020, "Mcp-Name says"},
		{"name header in another case", greet, []string{"Mcp-Name: Greet"}, 400, -32020, "Mcp-Name says"},
		{"name header in the sentinel", greet, []string{"Mcp-Name: =?base64?Z3JlZXQ=?="}, 200, 0, "Hello, Ann!"},
		{"name header in a broken sentinel", greet, []string{"Mcp-Name: =?base64?Z3JlZXQ?="}, 400, -32020, "base64"},
		{"name header in an upper-case sentinel", greet, []string{"Mcp-Name: =?BASE64?Z3JlZXQ=?="}, 400, -32020, "Mcp-Name says"},
		{"task name header differs, undeclared", rpc("tasks/get", plainMeta, `"taskId":"task-none"`), []string{"Mcp-Name: task-other"}, 400, -32020, "Mcp-Name"},
		{"a name header and no name", rpc("tools/call", plainMeta), []string{"Mcp-Name: greet"}, 400, -32020, "Mcp-Name"},
		{"unknown tool, another name header", rpc("tools/call", plainMeta, `"name":"nope"`), []string{"Mcp-Name: greet"}, 400, -32020, ""},
		{"a name header where none belongs", rpc("tools/list", plainMeta), []string{"Mcp-Name: whatever"}, 200, 0, "greet"},

		// The capability, before the task.
		{"tasks/get undeclared, unknown", rpc("tasks/get", plainMeta, `"taskId":"task-none"`), nil, 400, -32021, `{"requiredCapabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}}}`},
		{"tasks/update undeclared", rpc("tasks/update", plainMeta, `"taskId":"task-none","inputResponses":{}`), nil, 400, -32021, ""},
		{"tasks/cancel undeclared", rpc("tasks/cancel", plainMeta, `"taskId":"task-none"`), nil, 400, -32021, ""},
		{"tasks/get undeclared, no id", rpc("tasks/get", plainMeta), nil, 400, -32021, ""},
		{"the legacy slot declares nothing", rpc("tasks/get", strings.Replace(plainMeta, `Capabilities":{}`, `Capabilities":{"tasks":{"requests":{}}}`, 1), `"taskId":"task-none"`), nil, 400, -32021, ""},

		// The optional _meta.
		{"log level", rpc("tools/list", withMeta(`"io.modelcontextprotocol/logLevel":"loud"`)), nil, 400, -32602, "debug, info"},
		{"progress token", rpc("tools/list", withMeta(`"progressToken":1.5`)), nil, 400, -32602, "progressToken"},
		{"trace context that is none", rpc("tools/list", withMeta(`"traceparent":"x"`)), nil, 200, 0, ""},
		{"client info is for display alone", rpc("tools/list", withMeta(`"io.modelcontextprotocol/clientInfo":{}`)), nil, 200, 0, ""},

		// Params, then the tool.
		{"no task id", rpc("tasks/get", tasksMeta), nil, 200, -32602, "taskId"},
		{"task id of a number", rpc("tasks/get", tasksMeta, `"taskId":1`), nil, 200, -32602, "taskId"},
		{"no tool name", rpc("tools/call", plainMeta), nil, 200, -32602, "params.name"},
		{"arguments of a list", rpc("tools/call", plainMeta, `"name":"greet","arguments":[]`), nil, 200, -32602, "arguments is an object"},
		{"cursor of a number", rpc("tools/list", plainMeta, `"cursor":1`), nil, 200, -32602, "cursor"},
		{"cursor of another server", rpc("tools/list", plainMeta, `"cursor":"bm9uZQ"`), nil, 200, -32602, "cursor"},
		{"update without answers", rpc("tasks/update", tasksMeta, `"taskId":"task-none"`), nil, 200, -32602, "inputResponses"},
		{"update with a malformed answer", rpc("tasks/update", tasksMeta, `"taskId":"task-none","inputResponses":{"answer-1":5}`), nil, 200, -32602, "inputResponses.answer-1"},
		{"unknown task", get, nil, 200, -32602, `"error":{"code":-32602,"message":"unknown task"}}`},
		{"unknown task, update", rpc("tasks/update", tasksMeta, `"taskId":"task-none","inputResponses":{}`), nil, 200, -32602, `"message":"unknown task"}}`},
		{"unknown task, cancel", rpc("tasks/cancel", tasksMeta, `"taskId":"task-none"`), nil, 200, -32602, `"message":"unknown task"}}`},
		{"unknown tool", rpc("tools/call", plainMeta, `"name":"nope"`), nil, 200, -32602, `unknown tool \"nope\"`},
		{"a tool out of reach", rpc("tools/call", plainMeta, `"name":"admin_only"`), nil, 200, -32602, `unknown tool \"admin_only\"`},
		{"a tool that needs tasks", rpc("tools/call", plainMeta, `"name":"only_tasks"`), nil, 400, -32021, "io.modelcontextprotocol/tasks"},
		{"unknown resource", rpc("resources/read", plainMeta, `"uri":"hangar://jobs/none"`), nil, 200, -32602, `"data":{"uri":"hangar://jobs/none"}`},
		{"a state that is none", rpc("tools/call", plainMeta, `"name":"ask_name","requestState":"AAAA"`), nil, 200, -32602, "Invalid or expired requestState"},
		{"a state of a number", rpc("tools/call", plainMeta, `"name":"ask_name","requestState":1`), nil, 200, -32602, "Invalid or expired requestState"},

		// Argument headers, before the arguments.
		{"argument header missing", rpc("tools/call", plainMeta, `"name":"region","arguments":{"region":"eu"}`), nil, 400, -32020, "Mcp-Param-Region is missing"},
		{"argument header differs", rpc("tools/call", plainMeta, `"name":"region","arguments":{"region":"eu"}`), []string{"Mcp-Param-Region: us"}, 400, -32020, "differs"},
		{"argument header without argument", rpc("tools/call", plainMeta, `"name":"region","arguments":{"region":null}`), []string{"Mcp-Param-Region: us"}, 400, -32020, "is not"},
		{"argument header agrees", rpc("tools/call", plainMeta, `"name":"region","arguments":{"region":"eu"}`), []string{"Mcp-Param-Region: eu"}, 200, 0, "in "},
		{"argument header in the sentinel", rpc("tools/call", plainMeta, `"name":"region","arguments":{"region":"Орёл"}`), []string{"Mcp-Param-Region: =?base64?0J7RgNGR0Ls=?="}, 200, 0, "in "},
		{"nested integer as a number", rpc("tools/call", plainMeta, `"name":"region","arguments":{"size":{"cpus":4}}`), []string{"Mcp-Param-Cpus: 04"}, 200, 0, "in "},
		{"nested integer differs", rpc("tools/call", plainMeta, `"name":"region","arguments":{"size":{"cpus":4}}`), []string{"Mcp-Param-Cpus: 5"}, 400, -32020, "size.cpus"},
		{"boolean", rpc("tools/call", plainMeta, `"name":"region","arguments":{"dry":true}`), []string{"Mcp-Param-Dry: true"}, 200, 0, "in "},
		{"boolean differs", rpc("tools/call", plainMeta, `"name":"region","arguments":{"dry":true}`), []string{"Mcp-Param-Dry: 1"}, 400, -32020, "dry"},
		{"unknown argument headers are nobody's", rpc("tools/call", plainMeta, `"name":"region"`), []string{"Mcp-Param-Other: x"}, 200, 0, "in {}"},
		{"a wrong argument in its header is for the validation", rpc("tools/call", plainMeta, `"name":"region","arguments":{"region":5}`), []string{"Mcp-Param-Region: 5"}, 200, 0, "region must be a string, not a number"},

		// Arguments are told to the model.
		{"a wrong argument", rpc("tools/call", plainMeta, `"name":"greet","arguments":{"nom":"Ann"}`), nil, 200, 0, `"isError":true`},

		// What is ignored.
		{"a stray task parameter", rpc("tools/call", plainMeta, `"name":"greet","arguments":{"name":"Ann"},"task":{"ttl":1}`), nil, 200, 0, "Hello, Ann!"},
		{"a session id", greet, []string{"Mcp-Session-Id: s1", "Last-Event-Id: 4"}, 200, 0, "Hello, Ann!"},
		{"a string id", strings.Replace(greet, `"id":7`, `"id":"7\u0041\""`, 1), nil, 200, 0, `"id":"7\u0041\""`},
		{"a large id", strings.Replace(greet, `"id":7`, `"id":-9007199254740993000`, 1), nil, 200, 0, `"id":-9007199254740993000`},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			w := b.post(c.body, c.set...)
			if w.Code != c.status {
				t.Errorf("HTTP status %d, want %d: %s", w.Code, c.status, w.Body)
			}
			if !strings.Contains(w.Body.String(), c.text) {
				t.Errorf("answer %s, want %q in it", w.Body, c.text)
			}
			if w.Code == http.StatusAccepted {
				if w.Body.Len() != 0 {
					t.Errorf("a notification was answered: %s", w.Body)
				}
				return
			}
			got := parse(t, w)
			switch {
			case c.code == 0 && got.Error != nil:
				t.Errorf("refused with %d %s", got.Error.Code, got.Error.Message)
			case c.code != 0 && got.Error == nil:
				t.Errorf("not refused: %s", w.Body)
			case c.code != 0 && got.Error.Code != c.code:
				t.Errorf("code %d, want %d: %s", got.Error.Code, c.code, got.Error.Message)
			}
			if c.code != 0 && len(b.called) > 0 {
				t.Errorf("the tool %v ran", b.called)
			}
			if strings.Contains(c.body, `"id":7,`) && c.code != -32700 && c.code != -32600 && string(got.ID) != "7" {
				t.Errorf("id %s, want 7", got.ID)
			}
		})
	}
}

func TestRepeatedHeaderIsAMismatch(t *testing.T) {
	b := setup(t)
	body := rpc("tools/list", plainMeta)
	r := httptest.NewRequest(http.MethodPost, "/mcp", strings.NewReader(body))
	r.Header = headersOf(body)
	r.Header.Add(headerMethod, "tools/call")
	w := httptest.NewRecorder()
	b.ServeHTTP(w, r)
	if got := parse(t, w); w.Code != 400 || got.Error == nil || got.Error.Code != -32020 {
		t.Errorf("got %d %s", w.Code, w.Body)
	}
}

// TestDoor: the HTTP method comes first, then the guards, then the body.
func TestDoor(t *testing.T) {
	var order []string
	guard := func(name string, status int) func(http.Handler) http.Handler {
		return func(next http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				order = append(order, name)
				if r.Header.Get("Fail") == name {
					w.WriteHeader(status)
					return
				}
				next.ServeHTTP(w, r)
			})
		}
	}
	b := setup(t, func(o *Options) {
		o.Guards = []func(http.Handler) http.Handler{guard("origin", 403), guard("token", 401)}
	})
	for _, method := range []string{http.MethodGet, http.MethodDelete, http.MethodPut, http.MethodOptions} {
		w := httptest.NewRecorder()
		b.ServeHTTP(w, httptest.NewRequest(method, "/mcp", nil))
		if w.Code != 405 || w.Header().Get("Allow") != "POST" || len(order) != 0 {
			t.Errorf("%s: %d, Allow %q, guards %v", method, w.Code, w.Header().Get("Allow"), order)
		}
	}
	for _, c := range []struct {
		fail   string
		status int
		order  string
	}{{"origin", 403, "[origin]"}, {"token", 401, "[origin token]"}, {"", 400, "[origin token]"}} {
		order = nil
		if w := b.post("not JSON", "Fail: "+c.fail); w.Code != c.status || fmt.Sprint(order) != c.order {
			t.Errorf("%q: %d %v", c.fail, w.Code, order)
		}
	}
}

// TestOwners: a task is its owner's; to everyone else it is, byte for byte, a
// task that never was (field cases 10 and 11).
func TestOwners(t *testing.T) {
	b := setup(t)
	b.post(rpc("tools/call", tasksMeta, `"name":"work"`))
	for _, m := range []string{"tasks/get", "tasks/update", "tasks/cancel"} {
		ask := func(id, who string) string {
			w := b.post(rpc(m, tasksMeta, `"taskId":"`+id+`","inputResponses":{}`), "Test-Principal: "+who)
			return fmt.Sprint(w.Code, w.Body)
		}
		if own := ask("task-aaaaaaaaaaaaaaaaaaaaaaaaaa", "alice"); !strings.Contains(own, `"complete"`) {
			t.Errorf("%s of the owner: %s", m, own)
		}
		foreign, never := ask("task-aaaaaaaaaaaaaaaaaaaaaaaaaa", "bob"), ask("task-bbbbbbbbbbbbbbbbbbbbbbbbbb", "bob")
		if foreign != never || !strings.Contains(foreign, `"message":"unknown task"}}`) {
			t.Errorf("%s: foreign %s, never issued %s", m, foreign, never)
		}
	}
	if len(b.ledger.cancels) != 1 || len(b.ledger.updates) != 1 {
		t.Errorf("cancels %v, updates %v", b.ledger.cancels, b.ledger.updates)
	}
}

// TestNoHandleWithoutTheExtension: what was declared on an earlier request does
// not count, and a tool that insists is at fault (field case 25).
func TestNoHandleWithoutTheExtension(t *testing.T) {
	b := setup(t)
	if w := b.post(rpc("tools/call", tasksMeta, `"name":"work"`)); !strings.Contains(w.Body.String(), `"resultType":"task"`) {
		t.Errorf("declared: %s", w.Body)
	}
	if w := b.post(rpc("tools/call", plainMeta, `"name":"work"`)); texts(t, w) != "done at once" {
		t.Errorf("undeclared: %s", w.Body)
	}
	w := b.post(rpc("tools/call", plainMeta, `"name":"stubborn"`))
	if got := parse(t, w); w.Code != 200 || got.Error == nil || got.Error.Code != -32603 || got.Error.Message != "internal error" {
		t.Errorf("insisting: %s", w.Body)
	}
}
