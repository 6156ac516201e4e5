package mcp

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"hangar/domain/access"
)

// hashDigits is how much of a list's hash a version shows.
const hashDigits = 12

// View is the tool list as one set of scopes sees it. Views are made once for
// each set and shared.
type View struct {
	// Definitions are the listed tools as tools/list shows them, in order.
	Definitions []json.RawMessage
	// Hash is the first 12 hex digits of the SHA-256 of the canonical list. It
	// moves with any name, description, schema or hint.
	Hash string
}

// Version gives serverInfo.version for the view: "<version>+tools.<hash>".
func (v *View) Version(version string) string { return version + "+tools." + v.Hash }

// View gives the list as these scopes see it.
func (r *Registry) View(scopes access.Scopes) *View {
	mask := 0
	for i, s := range access.All {
		if scopes.Allow(s) {
			mask |= 1 << i
		}
	}
	if v, ok := r.views.Load(mask); ok {
		return v.(*View)
	}
	v, _ := r.views.LoadOrStore(mask, r.makeView(scopes))
	return v.(*View)
}

func (r *Registry) makeView(scopes access.Scopes) *View {
	v := &View{Definitions: []json.RawMessage{}}
	sum := sha256.New()
	for _, e := range r.order {
		if e.Hidden || !scopes.Allow(e.Scope) {
			continue
		}
		v.Definitions = append(v.Definitions, e.definition)
		sum.Write(Canonical(e.definition))
		sum.Write([]byte{'\n'})
	}
	v.Hash = hex.EncodeToString(sum.Sum(nil))[:hashDigits]
	return v
}

// marshalDefinition gives a tool as tools/list shows it: every hint is explicit,
// since a client takes an absent one for a danger or a promise (server/tools).
func marshalDefinition(t *Tool) (json.RawMessage, error) {
	if !isObject(bytes.TrimSpace(t.InputSchema)) {
		return nil, fmt.Errorf("the input schema is not a JSON object")
	}
	var b bytes.Buffer
	b.WriteString(`{"name":`)
	b.Write(AppendString(nil, t.Name))
	if t.Description != "" {
		b.WriteString(`,"description":`)
		b.Write(AppendString(nil, t.Description))
	}
	b.WriteString(`,"inputSchema":`)
	if err := json.Compact(&b, t.InputSchema); err != nil {
		return nil, fmt.Errorf("the input schema: %w", err)
	}
	if len(t.OutputSchema) > 0 {
		b.WriteString(`,"outputSchema":`)
		if err := json.Compact(&b, t.OutputSchema); err != nil {
			return nil, fmt.Errorf("the output schema: %w", err)
		}
	}
	fmt.Fprintf(&b, `,"annotations":{"readOnlyHint":%t,"destructiveHint":%t,"idempotentHint":%t,"openWorldHint":%t}}`,
		t.ReadOnly, t.Destructive, t.Idempotent, t.OpenWorld)
	return b.Bytes(), nil
}

// Canonical gives a JSON text with members in order of their names and without
// white space, numbers as they were written. Two texts of one meaning, from one
// writer, are the same. It is for comparing, not for evidence (domain/tool has
// RFC 8785); what is not JSON is given back as it is.
func Canonical(raw json.RawMessage) []byte {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return raw
	}
	b, err := json.Marshal(v)
	if err != nil {
		return raw
	}
	return b
}

// ParamHeader is an argument that the header Mcp-Param-<Name> mirrors (SEP-2243,
// x-mcp-header).
type ParamHeader struct {
	Name string   // as written in the schema
	Path []string // the members that lead to the argument
	Type string   // string, integer or boolean
}

// schemaNode is as much of a JSON Schema as x-mcp-header can stand in.
type schemaNode struct {
	Header     *string                    `json:"x-mcp-header"`
	Type       json.RawMessage            `json:"type"`
	Properties map[string]json.RawMessage `json:"properties"`
}

// paramHeaders finds the annotations in a schema. Those that break the rules are
// left out, and the first of them is the error.
func paramHeaders(schema json.RawMessage) ([]ParamHeader, error) {
	if !bytes.Contains(schema, []byte("x-mcp-header")) {
		return nil, nil
	}
	var root schemaNode
	if err := json.Unmarshal(schema, &root); err != nil {
		return nil, fmt.Errorf("the input schema: %w", err)
	}
	f := headerFinder{seen: map[string]bool{}}
	f.walk(root, nil)
	return f.found, f.fault
}

type headerFinder struct {
	found []ParamHeader
	seen  map[string]bool
	fault error
}

func (f *headerFinder) walk(node schemaNode, path []string) {
	for _, name := range sortedKeys(node.Properties) {
		var child schemaNode
		if json.Unmarshal(node.Properties[name], &child) != nil {
			continue // a boolean schema, or one that is for the compiler to refuse
		}
		at := slices.Concat(path, []string{name})
		if child.Header != nil {
			f.add(*child.Header, child.Type, at)
		}
		f.walk(child, at)
	}
}

func (f *headerFinder) add(header string, rawType json.RawMessage, path []string) {
	var typ string
	_ = json.Unmarshal(rawType, &typ) // a list of types leaves "", which is refused below
	var why string
	switch {
	case !isToken(header):
		why = "is not an HTTP token"
	case f.seen[strings.ToLower(header)]:
		why = "is used twice"
	case typ != "string" && typ != "integer" && typ != "boolean":
		why = "is not on a string, an integer or a boolean"
	default:
		f.seen[strings.ToLower(header)] = true
		f.found = append(f.found, ParamHeader{Name: header, Path: path, Type: typ})
		return
	}
	if f.fault == nil {
		f.fault = fmt.Errorf("x-mcp-header %q at %s %s", header, strings.Join(path, "."), why)
	}
}

// isToken reports whether s is a token of RFC 9110, section 5.6.2.
func isToken(s string) bool {
	for i := range len(s) {
		c := s[i]
		letter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
		if !letter && !strings.ContainsRune("!#$%&'*+-.^_`|~", rune(c)) {
			return false
		}
	}
	return s != ""
}
