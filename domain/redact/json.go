package redact

import (
	"bytes"
	"encoding/json"
	"regexp"
	"strings"
)

// secretMember is what a member's name looks like when its value is a secret.
var secretMember = regexp.MustCompile(`(?i)` + secretName)

// countMember is what a member's name looks like when its number counts tokens.
var countMember = regexp.MustCompile(`(?i)token`)

// maxDepth bounds how deep JSON inside JSON strings is looked into.
const maxDepth = 4

// JSON gives a JSON text with every secret in it replaced, at any depth: by what
// a value looks like, by the name of its member, and inside strings that hold
// JSON themselves. A text that is not JSON is treated as text.
func (r *Redactor) JSON(text json.RawMessage) json.RawMessage {
	if len(text) == 0 {
		return text
	}
	if v, ok := decode(text); ok {
		return r.encoded(r.value(v, "", maxDepth))
	}
	return r.encoded(r.Text(string(text)))
}

func (r *Redactor) value(v any, name string, depth int) any {
	secret := name != "" && secretMember.MatchString(name)
	switch v := v.(type) {
	case string:
		if secret && v != "" && !mark.MatchString(v) {
			return r.mark(r.name(name), v)
		}
		if inner, ok := decode([]byte(v)); ok && depth > 0 && isContainer(inner) {
			return string(r.encoded(r.value(inner, "", depth-1)))
		}
		return r.Text(v)
	case json.Number:
		if secret && !countMember.MatchString(name) {
			return r.mark(r.name(name), v.String())
		}
		if clean := r.Text(v.String()); clean != v.String() {
			return clean
		}
		return v
	case []any:
		for i := range v {
			v[i] = r.value(v[i], name, depth)
		}
		return v
	case map[string]any:
		clean := make(map[string]any, len(v))
		for k := range v {
			clean[r.Text(k)] = r.value(v[k], k, depth)
		}
		return clean
	default:
		return v
	}
}

// name gives a member's name as a mark may hold it.
func (r *Redactor) name(member string) string {
	return strings.NewReplacer("[", "(", "]", ")", "\n", " ", "\r", " ").Replace(r.Text(member))
}

func isContainer(v any) bool {
	switch v.(type) {
	case []any, map[string]any:
		return true
	}
	return false
}

// decode reads one JSON text, numbers as they are written.
func decode(text []byte) (v any, ok bool) {
	if !json.Valid(text) {
		return nil, false
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	return v, d.Decode(&v) == nil
}

func (r *Redactor) encoded(v any) json.RawMessage {
	b, err := encode(v)
	if err != nil {
		panic(err) // it was decoded, or is a string
	}
	return b
}

// encode writes JSON as it is read by people: no HTML escapes.
func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimRight(b.Bytes(), "\n"), nil
}
