package modern

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

// FuzzDecode: whatever is posted, the answer is JSON, and what decode accepts it
// reads as encoding/json does.
func FuzzDecode(f *testing.F) {
	for _, s := range []string{
		rpc("tools/call", tasksMeta, `"name":"greet","arguments":{"name":"Ann"}`),
		`{"jsonrpc":"2.0","id":"a\"b","method":"tools\/list","params":{"_meta":{}}}`,
		` { "id" : -12 , "params" : { } , "jsonrpc" : "2.0" , "method" : "x" } `,
		`{"jsonrpc":"2.0","id":1,"method":"x","params":{"a":[{"b":"]}"}],"_meta":{"progressToken":1}}}`,
		`{"jsonrpc":"2.0","\u0069d":1,"method":"x"}`, `[]`, `{`, `1e5`, `{"a":1e999}`, "\"\\", `{"id":1,"id":2}`,
	} {
		f.Add([]byte(s))
	}
	b := setup(f)
	f.Fuzz(func(t *testing.T, body []byte) {
		env, refused := decode(body)
		if a := b.answer(t.Context(), inbound{body: body, notify: func([]byte) {}}); len(a.body) > 0 && !json.Valid(a.body) {
			t.Fatalf("the answer is not JSON: %s", a.body)
		}
		if refused != nil {
			return
		}
		var want map[string]json.RawMessage
		if err := json.Unmarshal(body, &want); err != nil {
			t.Fatalf("accepted what is not an object: %v", err)
		}
		var method string
		if err := json.Unmarshal(want["method"], &method); err != nil || method != env.method {
			t.Errorf("method %q, encoding/json has %q", env.method, method)
		}
		if string(env.id) != string(want["id"]) {
			t.Errorf("id %s, encoding/json has %s", env.id, want["id"])
		}
		if string(env.params) != string(want["params"]) {
			t.Errorf("params %s, encoding/json has %s", env.params, want["params"])
		}
		if isObject(env.params) {
			checkParams(t, env.params)
		}
	})
}

func checkParams(t *testing.T, raw []byte) {
	p, err := decodeParams(raw)
	if err != nil {
		return
	}
	var want map[string]json.RawMessage
	if err := json.Unmarshal(raw, &want); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(p.arguments, want["arguments"]) || !bytes.Equal(p.meta, want["_meta"]) {
		t.Errorf("split %s and %s, encoding/json has %s and %s", p.arguments, p.meta, want["arguments"], want["_meta"])
	}
}

// FuzzSentinel: every text survives the encoding, and no header panics.
func FuzzSentinel(f *testing.F) {
	for _, s := range []string{"greet", "", " x ", "Орёл", "=?base64?Z3JlZXQ=?=", "=?base64??=", "=?base64?====?=", "=?base64?Z3JlZXQ=\n?="} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got, err := decodeSentinel(s)
		wrapped := strings.HasPrefix(s, sentinelOpen) && strings.HasSuffix(s, sentinelClose) && len(s) >= len(sentinelOpen+sentinelClose)
		if !wrapped && (err != nil || got != s) {
			t.Errorf("literal %q became %q, %v", s, got, err)
		}
		if err == nil && wrapped && !utf8.ValidString(got) {
			t.Errorf("%q decodes to what is not UTF-8", s)
		}
		if !utf8.ValidString(s) {
			return
		}
		if back, err := decodeSentinel(sentinelOpen + base64.StdEncoding.EncodeToString([]byte(s)) + sentinelClose); err != nil || back != s {
			t.Errorf("%q came back as %q, %v", s, back, err)
		}
	})
}

// FuzzState: nothing opens but what was sealed, to the byte.
func FuzzState(f *testing.F) {
	f.Add(uint(0), byte(0), "")
	f.Add(uint(0), byte(1), "")
	f.Add(uint(40), byte(0), "-TAMPERED")
	f.Add(uint(3), byte(0), "\n")
	s, err := newSealer(bytes.Repeat([]byte{1}, 32), &clock{now: time.Unix(1785578400, 0)})
	if err != nil {
		f.Fatal(err)
	}
	bound := binding(alice, "tools/call", "t", json.RawMessage(`{}`))
	good, err := s.seal(bound, map[string]string{"k": "roots/list"}, json.RawMessage(`{"a":1}`))
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, at uint, flip byte, more string) {
		b := []byte(good)
		b[at%uint(len(b))] ^= flip
		state := string(b) + more
		v, ok := s.open(bound, state)
		if ok != (state == good) {
			t.Errorf("%q opened: %v", state, ok)
		}
		if ok && (string(v.State) != `{"a":1}` || v.Asked["k"] != "roots/list") {
			t.Errorf("opened %+v", v)
		}
		if _, ok := s.open(bound, more); ok {
			t.Errorf("%q opened", more)
		}
		if _, ok := s.open(binding(bob, "tools/call", "t", json.RawMessage(`{}`)), state); ok {
			t.Error("opened for another principal")
		}
	})
}
