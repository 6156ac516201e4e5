package mcp

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/big"
	"slices"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"

	"hangar/domain"
)

// arguments is a tool's compiled input schema. It tells what is wrong with a
// call's arguments in words that a model can act on.
type arguments struct {
	tool   string
	schema *jsonschema.Schema
}

// noLoader refuses every reference out of a schema: nothing is fetched to judge a call.
type noLoader struct{}

func (noLoader) Load(url string) (any, error) {
	return nil, fmt.Errorf("the schema refers to %s, and nothing outside it is loaded", url)
}

func compileArguments(tool string, schema json.RawMessage) (*arguments, error) {
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(schema))
	if err != nil {
		return nil, fmt.Errorf("the input schema: %w", err)
	}
	const url = "tool:///input"
	c := jsonschema.NewCompiler()
	c.UseLoader(noLoader{})
	if err := c.AddResource(url, doc); err != nil {
		return nil, fmt.Errorf("the input schema: %w", err)
	}
	s, err := c.Compile(url)
	if err != nil {
		return nil, fmt.Errorf("the input schema: %w", err)
	}
	return &arguments{tool: tool, schema: s}, nil
}

// check gives an Invalid error that names each wrong argument, on a line of its
// own, and what would be right.
func (a *arguments) check(raw json.RawMessage) error {
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		return domain.Errorf(domain.Invalid, "the arguments of %s are not JSON", a.tool)
	}
	err = a.schema.Validate(v)
	if err == nil {
		return nil
	}
	var ve *jsonschema.ValidationError
	if !errors.As(err, &ve) {
		return fmt.Errorf("validating the arguments of %s: %w", a.tool, err)
	}
	lines := a.explain(ve)
	slices.Sort(lines)
	lines = slices.Compact(lines)
	const most = 10 // lines; a call this wrong is not mended by more
	if len(lines) > most {
		lines = append(lines[:most], fmt.Sprintf("and %d more", len(lines)-most))
	}
	if len(lines) == 1 {
		return domain.Errorf(domain.Invalid, "%s: %s", a.tool, lines[0])
	}
	return domain.Errorf(domain.Invalid, "%s: the arguments do not fit:\n- %s", a.tool, strings.Join(lines, "\n- "))
}

// explain gives a line for each thing that is wrong.
func (a *arguments) explain(e *jsonschema.ValidationError) []string {
	switch k := e.ErrorKind.(type) {
	case *kind.PropertyNames:
		// The location that comes with it is not to be trusted in v6.0.3.
		line := fmt.Sprintf("no member may be named %q", clip(k.Property))
		if len(e.Causes) == 1 {
			line += ": a name " + bound(e.Causes[0])
		}
		return []string{line}
	case *kind.AnyOf, *kind.OneOf:
		if line, ok := a.alternatives(e); ok {
			return []string{line}
		}
	}
	if len(e.Causes) == 0 {
		return a.leaf(e)
	}
	var lines []string
	for _, c := range e.Causes {
		lines = append(lines, a.explain(c)...)
	}
	return lines
}

// alternatives tells a value that fits none of several forms.
func (a *arguments) alternatives(e *jsonschema.ValidationError) (string, bool) {
	if len(e.Causes) == 0 {
		return "", false
	}
	var types, forms []string
	got := ""
	for _, c := range e.Causes {
		for len(c.Causes) == 1 { // through a $ref
			c = c.Causes[0]
		}
		if t, ok := c.ErrorKind.(*kind.Type); ok && slices.Equal(c.InstanceLocation, e.InstanceLocation) {
			types, got = append(types, t.Want...), t.Got
			continue
		}
		forms = append(forms, strings.Join(a.explain(c), " and "))
	}
	at := place(e.InstanceLocation)
	switch {
	case len(forms) == 0:
		return fmt.Sprintf("%s must be %s, not %s", at, articles(types), article(got)), true
	case len(forms) == 1 && len(types) > 0:
		return forms[0], true // it has the type of that form, so that one was meant
	}
	return fmt.Sprintf("%s fits none of its forms: %s", at, strings.Join(forms, "; or ")), true
}

// leaf tells one violated keyword.
func (a *arguments) leaf(e *jsonschema.ValidationError) []string {
	at := place(e.InstanceLocation)
	switch k := e.ErrorKind.(type) {
	case *kind.Required:
		return a.missing(e.InstanceLocation, k.Missing)
	case *kind.DependentRequired:
		return a.missing(e.InstanceLocation, k.Missing)
	case *kind.AdditionalProperties:
		return a.unknown(e.InstanceLocation, k.Properties)
	case *kind.Type:
		return []string{fmt.Sprintf("%s must be %s, not %s", at, articles(k.Want), article(k.Got))}
	case *kind.Enum:
		return []string{fmt.Sprintf("%s must be one of %s, not %s", at, values(k.Want), value(k.Got))}
	case *kind.Const:
		return []string{fmt.Sprintf("%s must be %s, not %s", at, value(k.Want), value(k.Got))}
	}
	return []string{at + " " + bound(e)}
}

// bound tells a violated bound: what is allowed, and where it helps what was given.
func bound(e *jsonschema.ValidationError) string {
	switch k := e.ErrorKind.(type) {
	case *kind.Minimum:
		return fmt.Sprintf("must be at least %s, not %s", number(k.Want), number(k.Got))
	case *kind.Maximum:
		return fmt.Sprintf("must be at most %s, not %s", number(k.Want), number(k.Got))
	case *kind.ExclusiveMinimum:
		return fmt.Sprintf("must be more than %s, not %s", number(k.Want), number(k.Got))
	case *kind.ExclusiveMaximum:
		return fmt.Sprintf("must be less than %s, not %s", number(k.Want), number(k.Got))
	case *kind.MultipleOf:
		return fmt.Sprintf("must be a multiple of %s, not %s", number(k.Want), number(k.Got))
	case *kind.MinLength:
		return counted("least", "character", k.Want, k.Got)
	case *kind.MaxLength:
		return counted("most", "character", k.Want, k.Got)
	case *kind.MinItems:
		return counted("least", "item", k.Want, k.Got)
	case *kind.MaxItems:
		return counted("most", "item", k.Want, k.Got)
	case *kind.MinProperties:
		return counted("least", "member", k.Want, k.Got)
	case *kind.MaxProperties:
		return counted("most", "member", k.Want, k.Got)
	case *kind.UniqueItems:
		return fmt.Sprintf("must not repeat an item; items %d and %d are the same", k.Duplicates[0], k.Duplicates[1])
	case *kind.Pattern:
		return fmt.Sprintf("must match the pattern %s", k.Want)
	case *kind.FalseSchema:
		return "is not allowed here"
	case *kind.OneOf:
		return "fits more than one of its forms"
	case *kind.Not:
		return "has a form that is not allowed"
	}
	out := e.BasicOutput()
	if out.Error != nil {
		return "is wrong: " + out.Error.String()
	}
	return "is wrong"
}

func counted(bound, what string, want, got int) string {
	if want != 1 {
		what += "s"
	}
	return fmt.Sprintf("must have at %s %d %s, not %d", bound, want, what, got)
}

func (a *arguments) missing(loc, names []string) []string {
	s := schemaAt(a.schema, loc)
	lines := make([]string, 0, len(names))
	for _, name := range names {
		line := fmt.Sprintf("%s is missing", place(append(slices.Clip(loc), name)))
		if want := s.wants(name); want != "" {
			line += "; it must be " + want
		}
		lines = append(lines, line)
	}
	return lines
}

func (a *arguments) unknown(loc, names []string) []string {
	known := schemaAt(a.schema, loc).names()
	lines := make([]string, 0, len(names))
	for _, name := range names {
		line := fmt.Sprintf("unknown argument %s", place(append(slices.Clip(loc), clip(name))))
		if len(known) == 0 {
			line += "; there are none here"
		} else {
			line += "; known are " + strings.Join(known, ", ")
		}
		lines = append(lines, line)
	}
	return lines
}

// node is a schema that may not be known.
type node struct{ *jsonschema.Schema }

// schemaAt follows a location through the plain keywords.
func schemaAt(s *jsonschema.Schema, loc []string) node {
	n := node{s}.resolved()
	for _, step := range loc {
		if n.Schema == nil {
			return n
		}
		if child, ok := n.Properties[step]; ok {
			n = node{child}.resolved()
			continue
		}
		n = node{n.Items2020}.resolved()
	}
	return n
}

func (n node) resolved() node {
	for n.Schema != nil && n.Ref != nil {
		n = node{n.Ref}
	}
	return n
}

func (n node) names() []string {
	if n.Schema == nil {
		return nil
	}
	return slices.Sorted(maps.Keys(n.Properties))
}

func (n node) wants(name string) string {
	if n.Schema == nil {
		return ""
	}
	child := node{n.Properties[name]}.resolved()
	switch {
	case child.Schema == nil:
		return ""
	case child.Enum != nil:
		return "one of " + values(child.Enum.Values)
	case child.Types != nil:
		return articles(child.Types.ToStrings())
	}
	return ""
}

// place names an argument as people write it: files[2].path. The call's whole
// arguments are "the arguments".
func place(loc []string) string {
	if len(loc) == 0 {
		return "the arguments"
	}
	var b strings.Builder
	for i, step := range loc {
		if _, err := strconv.Atoi(step); err == nil && i > 0 {
			b.WriteString("[" + step + "]")
			continue
		}
		if i > 0 {
			b.WriteByte('.')
		}
		b.WriteString(clip(step))
	}
	return b.String()
}

func article(typ string) string {
	switch typ {
	case "null", "":
		return "null"
	case "array":
		return "a list"
	case "integer", "object":
		return "an " + typ
	}
	return "a " + typ
}

func articles(types []string) string {
	out := make([]string, len(types))
	for i, t := range types {
		out[i] = article(t)
	}
	return strings.Join(out, " or ")
}

func value(v any) string {
	b, err := Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return clip(string(b))
}

func values(list []any) string {
	out := make([]string, len(list))
	for i, v := range list {
		out[i] = value(v)
	}
	return strings.Join(out, ", ")
}

func number(r *big.Rat) string {
	if r.IsInt() {
		return r.Num().String()
	}
	f, _ := r.Float64()
	return strconv.FormatFloat(f, 'g', -1, 64)
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
