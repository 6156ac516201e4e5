package config

import (
	"errors"
	"fmt"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
)

// parse reads a file into the configuration.
func (l *loader) parse(path string, text []byte) {
	file, err := parser.ParseBytes(text, 0)
	if err != nil {
		var syntax yaml.Error
		if errors.As(err, &syntax) && syntax.GetToken() != nil {
			l.problem(fmt.Sprintf("%s:%d", path, syntax.GetToken().Position.Line), "%s", syntax.GetMessage())
			return
		}
		l.problem(path, "it is not YAML: %v", err)
		return
	}
	var bodies []ast.Node
	for _, doc := range file.Docs {
		if doc.Body != nil && doc.Body.Type() != ast.CommentType {
			bodies = append(bodies, doc.Body)
		}
	}
	switch len(bodies) {
	case 0:
	case 1:
		l.keys().read(place{loader: l, file: path}, bodies[0])
	default:
		l.problem(at(path, bodies[1]), "a second document; the file is one")
	}
}

func at(path string, n ast.Node) string {
	if t := n.GetToken(); t != nil && t.Position != nil {
		return fmt.Sprintf("%s:%d", path, t.Position.Line)
	}
	return path
}

// place is where in the file a reader is.
type place struct {
	*loader
	file string
	key  string // dotted, "" for the file itself
}

func (p place) in(key string) place {
	if p.key != "" {
		key = p.key + "." + key
	}
	p.key = key
	return p
}

// name gives the line and the key, for people.
func (p place) name(n ast.Node) string {
	if p.key == "" {
		return at(p.file, n)
	}
	return at(p.file, n) + ": " + p.key
}

func (p place) refuse(n ast.Node, format string, args ...any) {
	p.problem(p.name(n), format, args...)
}

// reader takes a node of the file.
type reader interface {
	read(p place, n ast.Node)
}

// section is a mapping with fixed keys.
type section []struct {
	key string
	reader
}

func (s section) read(p place, n ast.Node) {
	for key, v := range p.mapping(n) {
		r, ok := s.find(key.text)
		if !ok {
			p.refuse(key.node, "unknown key %q; the keys here are %s", key.text, strings.Join(s.names(), ", "))
			continue
		}
		if v.Type() != ast.NullType { // a key without a value sets nothing
			r.read(p.in(key.text), v)
		}
	}
}

func (s section) find(key string) (reader, bool) {
	for _, e := range s {
		if e.key == key {
			return e.reader, true
		}
	}
	return nil, false
}

func (s section) names() []string {
	names := make([]string, len(s))
	for i, e := range s {
		names[i] = e.key
	}
	return names
}

// table is a mapping whose keys are names that people choose.
type table struct {
	what string
	// entry gives what reads an entry's value, and what is done once it was read.
	entry func(name string) (reader, func() error)
}

func (t table) read(p place, n ast.Node) {
	for key, v := range p.mapping(n) {
		in := p.in(key.text)
		before := len(p.problems)
		r, done := t.entry(key.text)
		r.read(in, v)
		if len(p.problems) > before {
			continue // what is missing may be what was wrong
		}
		if err := done(); err != nil {
			in.refuse(key.node, "%v", err)
		}
	}
}

// entries is a mapping of names to single values.
type entries func(name string) value

func (e entries) read(p place, n ast.Node) {
	for key, v := range p.mapping(n) {
		scalar(e(key.text)).read(p.in(key.text), v)
	}
}

// sequence is a list of single values. One that is named holds what the file says
// and nothing of the default.
type sequence struct {
	to  *[]string
	one func(text string) (string, error)
}

func (s sequence) read(p place, n ast.Node) {
	seq, ok := n.(*ast.SequenceNode)
	if !ok {
		p.refuse(n, "it is a list, such as [a, b]")
		return
	}
	*s.to = []string{}
	for i, v := range seq.Values {
		in := p
		in.key = fmt.Sprintf("%s[%d]", p.key, i)
		scalar(s.add).read(in, v)
	}
}

func (s sequence) add(text string) error {
	item, err := s.one(text)
	if err == nil {
		*s.to = append(*s.to, item)
	}
	return err
}

// scalar is a single value. Its text is what counts, so that a number may come
// from a variable.
type scalar value

func (s scalar) read(p place, n ast.Node) {
	text, ok := scalarText(n)
	if !ok {
		p.refuse(n, "it is a single value, not %s", kindOf(n))
		return
	}
	text, err := expand(text, p.getenv)
	if err == nil {
		err = s(text)
	}
	if err != nil {
		p.refuse(n, "%v", err)
	}
}

// located remembers where a value stands, for what is judged in the end.
func located(to *string, r reader) reader { return locator{to, r} }

type locator struct {
	to *string
	reader
}

func (l locator) read(p place, n ast.Node) {
	*l.to = p.name(n)
	l.reader.read(p, n)
}

func scalarText(n ast.Node) (string, bool) {
	switch n := n.(type) {
	case *ast.StringNode:
		return n.Value, true
	case *ast.LiteralNode:
		return n.Value.Value, true
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.InfinityNode, *ast.NanNode:
		return n.GetToken().Value, true
	}
	return "", false
}

func kindOf(n ast.Node) string {
	switch n.(type) {
	case *ast.MappingNode, *ast.MappingValueNode:
		return "a mapping"
	case *ast.SequenceNode:
		return "a list"
	case *ast.NullNode:
		return "nothing"
	case *ast.AnchorNode, *ast.AliasNode, *ast.TagNode:
		return "an anchor, an alias or a tag"
	}
	return "a single value"
}

// mapKey is a key of a mapping.
type mapKey struct {
	text string
	node ast.Node
}

// mapping gives the entries of a mapping, in the order of the file.
func (p place) mapping(n ast.Node) func(yield func(mapKey, ast.Node) bool) {
	return func(yield func(mapKey, ast.Node) bool) {
		var values []*ast.MappingValueNode
		switch n := n.(type) {
		case *ast.MappingNode:
			values = n.Values
		case *ast.MappingValueNode:
			values = []*ast.MappingValueNode{n}
		case *ast.NullNode:
			return
		default:
			p.refuse(n, "it is a mapping of keys to values, not %s", kindOf(n))
			return
		}
		for _, v := range values {
			text, ok := scalarText(v.Key)
			if !ok {
				p.refuse(v.Key, "a key is a word, not %s", kindOf(v.Key))
				continue
			}
			if !yield(mapKey{text, v.Key}, v.Value) {
				return
			}
		}
	}
}
