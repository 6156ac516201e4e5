package mcp

import (
	"encoding/json"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

func TestStrings(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{``, `""`},
		{`plain`, `"plain"`},
		{"<a href='x'>&</a>", `"<a href='x'>&</a>"`},
		{"Привет \u2028\u2029 🛬", `"Привет ` + "\u2028\u2029" + ` 🛬"`},
		{"q\" b\\ n\n r\r t\t", `"q\" b\\ n\n r\r t\t"`},
		{"\x00\x1b\x7f", `"\u0000\u001b` + "\x7f" + `"`},
		{"bad \xff\xfe end", `"bad ` + "\ufffd\ufffd" + ` end"`},
		{"cut \xd0", `"cut ` + "\ufffd" + `"`},
		{"real \ufffd", `"real ` + "\ufffd" + `"`},
	} {
		got := string(AppendString(nil, c.in))
		if got != c.want || !json.Valid([]byte(got)) {
			t.Errorf("%q: got %s, want %s", c.in, got, c.want)
		}
	}
}

func FuzzStrings(f *testing.F) {
	f.Add("a\"\\\n\x00\xff\u2028<")
	f.Fuzz(func(t *testing.T, s string) {
		var got, want string
		reference, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(reference, &want); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(AppendString(nil, s), &got); err != nil || got != want {
			t.Errorf("%q came back as %q, %v", s, got, err)
		}
		plain, err := Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(plain, &got); err != nil || got != want {
			t.Errorf("Marshal: %q came back as %q, %v", s, got, err)
		}
	})
}

func TestMarshalKeepsBackslashes(t *testing.T) {
	got, err := Marshal(map[string]any{"a": `\u003c`, "b": `\\<`, "c": &sdk.TextContent{Text: "<&>"}})
	if want := `{"a":"\\u003c","b":"\\\\<","c":{"type":"text","text":"<&>"}}`; err != nil || string(got) != want {
		t.Errorf("got %s, want %s, %v", got, want, err)
	}
}

func TestTaskNeedsWhatItsStatusDemands(t *testing.T) {
	for _, task := range []*Task{
		{Status: Completed},
		{Status: Failed},
		{Status: "paused"},
		{Status: Working, Meta: map[string]any{"bad": func() {}}},
	} {
		if got, err := AppendTask(nil, task, nil); err == nil {
			t.Errorf("%s: %s", task.Status, got)
		}
	}
	if got, err := AppendResult(nil, &Result{Structured: json.RawMessage(`{`)}, nil); err == nil {
		t.Errorf("structured content that is not JSON: %s", got)
	}
}

func TestResultWithNothing(t *testing.T) {
	got, err := AppendResult(nil, &Result{Meta: map[string]any{"b": 1, "a": "<x>", MetaServerInfo: "ours"}}, nil)
	if want := `{"resultType":"complete","content":[],"_meta":{"a":"<x>","b":1,"io.modelcontextprotocol/serverInfo":"ours"}}`; err != nil || string(got) != want {
		t.Errorf("got %s, %v", got, err)
	}
	got, err = AppendResult(nil, &Result{Meta: map[string]any{MetaServerInfo: "theirs"}}, json.RawMessage(`{"name":"us"}`))
	if want := `{"resultType":"complete","content":[],"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"us"}}}`; err != nil || string(got) != want {
		t.Errorf("got %s, %v", got, err)
	}
}
