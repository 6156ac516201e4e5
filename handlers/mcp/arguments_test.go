package mcp

import (
	"encoding/json"
	"strings"
	"testing"

	"hangar/domain"
)

// jobSchema has one of each thing that a tool's arguments can be.
const jobSchema = `{
	"type": "object",
	"properties": {
		"prompt": {"type": "string", "minLength": 1, "maxLength": 10},
		"status": {"enum": ["running", "ended", null]},
		"agent": {"type": "string", "enum": ["shell", "claude"]},
		"timeout_minutes": {"type": "integer", "minimum": 1, "maximum": 1440},
		"ratio": {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1, "multipleOf": 0.25},
		"open_pr": {"type": "boolean"},
		"labels": {"type": "array", "items": {"type": "string"}, "maxItems": 2, "minItems": 1, "uniqueItems": true},
		"files": {"type": "array", "items": {"$ref": "#/$defs/file"}},
		"env": {"type": "object", "additionalProperties": {"type": "string"}, "propertyNames": {"pattern": "^[A-Z]+$"}, "maxProperties": 2},
		"command": {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]},
		"kind": {"const": "job"},
		"branch": {"type": "string", "pattern": "^[a-z]+$"},
		"never": false,
		"base": {"type": "string"}
	},
	"required": ["prompt"],
	"dependentRequired": {"branch": ["base"]},
	"additionalProperties": false,
	"$defs": {"file": {"type": "object", "properties": {"path": {"type": "string"}, "mode": {"type": ["integer", "string"]}}, "required": ["path"], "additionalProperties": false}}
}`

func TestArguments(t *testing.T) {
	a, err := compileArguments("submit", json.RawMessage(jobSchema))
	if err != nil {
		t.Fatal(err)
	}
	const known = "agent, base, branch, command, env, files, kind, labels, never, open_pr, prompt, ratio, status, timeout_minutes"
	for _, c := range []struct{ args, want string }{
		{`{"prompt":"x"}`, ""},
		{`{"prompt":"x","agent":"claude","timeout_minutes":5,"ratio":0.25,"labels":["a"],"files":[{"path":"p","mode":"x"}],"env":{"A":"b"},"command":["ls"],"kind":"job","branch":"b","base":"c","status":null}`, ""},
		{`{"prompt":"x","timeout_minutes":5.0}`, ""},
		{`{}`, "prompt is missing; it must be a string"},
		{`{"prompt":5}`, "prompt must be a string, not a number"},
		{`{"prompt":null}`, "prompt must be a string, not null"},
		{`{"prompt":"x","promt":"y"}`, "unknown argument promt; known are " + known},
		{`{"prompt":"x","Prompt":"y"}`, "unknown argument Prompt; known are " + known},
		{`{"prompt":""}`, "prompt must have at least 1 character, not 0"},
		{`{"prompt":"12345678901"}`, "prompt must have at most 10 characters, not 11"},
		{`{"prompt":"x","agent":"codex"}`, `agent must be one of "shell", "claude", not "codex"`},
		{`{"prompt":"x","agent":5}`, "agent must be a string, not a number"},
		{`{"prompt":"x","status":"<b>"}`, `status must be one of "running", "ended", null, not "<b>"`},
		{`{"prompt":"x","timeout_minutes":"5"}`, "timeout_minutes must be an integer, not a string"},
		{`{"prompt":"x","timeout_minutes":1.5}`, "timeout_minutes must be an integer, not a number"},
		{`{"prompt":"x","timeout_minutes":0}`, "timeout_minutes must be at least 1, not 0"},
		{`{"prompt":"x","timeout_minutes":1000000}`, "timeout_minutes must be at most 1440, not 1000000"},
		{`{"prompt":"x","ratio":0}`, "ratio must be more than 0, not 0"},
		{`{"prompt":"x","ratio":1.25}`, "ratio must be less than 1, not 1.25"},
		{`{"prompt":"x","ratio":0.3}`, "ratio must be a multiple of 0.25, not 0.3"},
		{`{"prompt":"x","open_pr":"yes"}`, "open_pr must be a boolean, not a string"},
		{`{"prompt":"x","labels":"a"}`, "labels must be a list, not a string"},
		{`{"prompt":"x","labels":[]}`, "labels must have at least 1 item, not 0"},
		{`{"prompt":"x","labels":["a","b","c"]}`, "labels must have at most 2 items, not 3"},
		{`{"prompt":"x","labels":["a","a"]}`, "labels must not repeat an item; items 0 and 1 are the same"},
		{`{"prompt":"x","labels":["a",5]}`, "labels[1] must be a string, not a number"},
		{`{"prompt":"x","files":[{"path":"a"},{"mode":1}]}`, "files[1].path is missing; it must be a string"},
		{`{"prompt":"x","files":[{"path":"a","pth":1}]}`, "unknown argument files[0].pth; known are mode, path"},
		{`{"prompt":"x","files":[{"path":"a","mode":true}]}`, "files[0].mode must be an integer or a string, not a boolean"},
		{`{"prompt":"x","env":{"A":1}}`, "env.A must be a string, not a number"},
		{`{"prompt":"x","env":{"a":"b"}}`, `no member may be named "a": a name must match the pattern ^[A-Z]+$`},
		{`{"prompt":"x","env":{"A":"","B":"","C":""}}`, "env must have at most 2 members, not 3"},
		{`{"prompt":"x","command":5}`, "command must be a string or a list, not a number"},
		{`{"prompt":"x","command":["ls",5]}`, "command[1] must be a string, not a number"},
		{`{"prompt":"x","kind":"run"}`, `kind must be "job", not "run"`},
		{`{"prompt":"x","branch":"B","base":"m"}`, "branch must match the pattern ^[a-z]+$"},
		{`{"prompt":"x","branch":"b"}`, "base is missing; it must be a string"},
		{`{"prompt":"x","never":1}`, "never is not allowed here"},
		{`{"agent":"x","open_pr":1}`, "the arguments do not fit:\n- agent must be one of \"shell\", \"claude\", not \"x\"\n- open_pr must be a boolean, not a number\n- prompt is missing; it must be a string"},
	} {
		err := a.check(json.RawMessage(c.args))
		if c.want == "" {
			if err != nil {
				t.Errorf("%s: %v", c.args, err)
			}
			continue
		}
		if err == nil || err.Error() != "submit: "+c.want || domain.CodeOf(err) != domain.Invalid {
			t.Errorf("%s\n got %v\nwant submit: %s", c.args, err, c.want)
		}
	}
}

func TestManyWrongArguments(t *testing.T) {
	a, err := compileArguments("t", json.RawMessage(`{"type":"object","properties":{},"additionalProperties":false}`))
	if err != nil {
		t.Fatal(err)
	}
	var members []string
	for c := 'a'; c <= 'z'; c++ {
		members = append(members, `"`+string(c)+`":1`)
	}
	got := a.check(json.RawMessage("{" + strings.Join(members, ",") + "}")).Error()
	if !strings.HasSuffix(got, "\n- unknown argument j; there are none here\n- and 16 more") {
		t.Error(got)
	}
	long := a.check(json.RawMessage(`{"` + strings.Repeat("é", 500) + `":1}`)).Error()
	if len(long) > 400 {
		t.Errorf("%d bytes: %s", len(long), long)
	}
}

func TestSchemasThatDoNotCompile(t *testing.T) {
	for name, schema := range map[string]string{
		"not JSON":        `{`,
		"not an object":   `true`,
		"a wrong keyword": `{"type":"strng"}`,
		"another place":   `{"type":"object","properties":{"a":{"$ref":"https://example.com/x.json"}}}`,
		"a file":          `{"$ref":"file:///etc/passwd"}`,
		"a bad header":    `{"type":"object","properties":{"a":{"type":"number","x-mcp-header":"A"}}}`,
		"a header twice":  `{"type":"object","properties":{"a":{"type":"string","x-mcp-header":"A"},"b":{"type":"string","x-mcp-header":"a"}}}`,
		"no token":        `{"type":"object","properties":{"a":{"type":"string","x-mcp-header":"A b"}}}`,
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if recover() == nil {
					t.Error("registered")
				}
			}()
			NewRegistry(&Tool{Name: "t", InputSchema: json.RawMessage(schema)})
		})
	}
	// What another server wrote is its own to judge.
	r := NewRegistry(&Tool{Name: "t", Foreign: true, InputSchema: json.RawMessage(`{"type":"strng","properties":{"a":{"type":"string","x-mcp-header":"A"},"b":{"type":"number","x-mcp-header":"B"}}}`)})
	if h := r.ParamHeaders("t"); len(h) != 1 || h[0].Name != "A" {
		t.Errorf("headers %v", h)
	}
}
