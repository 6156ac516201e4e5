package tools

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// closed loads no schema: nothing is fetched to judge what a caller sends.
type closed struct{}

// Load refuses.
func (closed) Load(url string) (any, error) {
	return nil, fmt.Errorf("it refers to %s, and nothing outside of it is loaded", url)
}

// compileSchema reads a JSON Schema that stands by itself.
func compileSchema(raw json.RawMessage) (*jsonschema.Schema, error) {
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		return nil, err
	}
	const name = "urn:hangar:schema"
	c := jsonschema.NewCompiler()
	c.UseLoader(closed{})
	if err := c.AddResource(name, doc); err != nil {
		return nil, err
	}
	return c.Compile(name)
}

// checkInstance says in one line why a value does not fit a schema, nil when it does.
func checkInstance(schema, value json.RawMessage) error {
	s, err := compileSchema(schema)
	if err != nil {
		return fmt.Errorf("the schema it must fit cannot be used: %s", oneLine(err))
	}
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(value))
	if err != nil {
		return errors.New("it is not JSON")
	}
	if err := s.Validate(v); err != nil {
		return errors.New(oneLine(err))
	}
	return nil
}

// oneLine gives what the validator says in one line, without the name that the
// schema has only here.
func oneLine(err error) string {
	const most = 600 // bytes
	text := err.Error()
	if _, ok := errors.AsType[*jsonschema.ValidationError](err); ok {
		_, text, _ = strings.Cut(text, "\n")
	}
	var parts []string
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(line), "- "))
		if line != "" {
			parts = append(parts, strings.TrimPrefix(line, "at '': "))
		}
	}
	text = strings.ReplaceAll(strings.Join(parts, "; "), "urn:hangar:schema", "")
	return clip(text, most)
}

// definition gives a schema written with white space as it is served: without.
func definition(text string) json.RawMessage {
	var b bytes.Buffer
	if err := json.Compact(&b, []byte(text)); err != nil {
		panic(fmt.Sprintf("a definition is not JSON: %v", err))
	}
	return b.Bytes()
}

// clip cuts a text to at most n bytes, at a character, and says so.
func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	const mark = "…"
	return strings.ToValidUTF8(s[:n-len(mark)], "") + mark
}
