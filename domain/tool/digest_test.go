package tool_test

import (
	"encoding/json"
	"strings"
	"testing"

	"hangar/domain"
	"hangar/domain/tool"
)

func TestCanonicalIgnoresOrderAndSpace(t *testing.T) {
	want, err := tool.Canonical([]byte(`{"a":1,"b":[true,null,"é"]}`))
	if err != nil {
		t.Fatal(err)
	}
	if want != domain.Sum([]byte(`{"a":1,"b":[true,null,"é"]}`)) {
		t.Errorf("the digest %s is not of the canonical form", want)
	}
	for _, same := range []string{`{"b":[true,null,"é"],"a":1}`, "{ \"a\" : 1.0,\n\t\"b\" : [ true , null , \"\\u00e9\" ] }", `{"a":1e0,"b":[true,null,"é"]}`} {
		if got, err := tool.Canonical([]byte(same)); got != want || err != nil {
			t.Errorf("%s has the digest %s, %v", same, got, err)
		}
	}
	for _, other := range []string{`{"a":2,"b":[true,null,"é"]}`, `{"a":1,"b":[null,true,"é"]}`, `{"a":1}`, `{"a":"1","b":[true,null,"é"]}`} {
		if got, err := tool.Canonical([]byte(other)); got == want || err != nil {
			t.Errorf("%s has the same digest, %v", other, err)
		}
	}
}

func TestCanonicalRefusesWhatIsNoJSON(t *testing.T) {
	deep := strings.Repeat("[", 1_000_000) // must not reach the canonical form's recursion
	for _, text := range []string{"", "{", `{"a":}`, "{} {}", `{"a":1,}`, "nul", deep, deep + strings.Repeat("]", 1_000_000)} {
		if got, err := tool.Canonical([]byte(text)); err == nil {
			t.Errorf("%.20q has the digest %s", text, got)
		}
	}
}

func TestDefinitionDigestIsGolden(t *testing.T) {
	d := tool.Definition{Name: "submit_job", Description: "Runs <an> agent.",
		InputSchema: json.RawMessage(`{"type":"object","properties":{"prompt":{"type":"string"}}}`)}
	got, err := d.Digest()
	want := domain.Sum([]byte(`{"description":"Runs <an> agent.","inputSchema":{"properties":{"prompt":{"type":"string"}},"type":"object"},"name":"submit_job"}`))
	if err != nil || got != want {
		t.Errorf("the digest is %s, %v; want %s", got, err, want)
	}
	for name, other := range map[string]tool.Definition{
		"name":          {Name: "x", Description: d.Description, InputSchema: d.InputSchema},
		"description":   {Name: d.Name, Description: "x", InputSchema: d.InputSchema},
		"input schema":  {Name: d.Name, Description: d.Description, InputSchema: json.RawMessage(`{"type":"object"}`)},
		"output schema": {Name: d.Name, Description: d.Description, InputSchema: d.InputSchema, OutputSchema: json.RawMessage(`{}`)},
	} {
		if digest, err := other.Digest(); digest == got || err != nil {
			t.Errorf("another %s has the same digest, %v", name, err)
		}
	}
	if _, err := (tool.Definition{Name: "x", InputSchema: json.RawMessage(`{`)}).Digest(); err == nil || !strings.Contains(err.Error(), "tool x") {
		t.Errorf("a schema that is no JSON: %v", err)
	}
}
