package redact

import (
	"bytes"
	"encoding/json"
	"regexp"
)

// secretKey is what a member's name looks like when its value is a secret.
var secretKey = regexp.MustCompile(`(?i)(password|passwd|secret|token|api[_-]?key|private[_-]?key|authorization|cookie|credential)`)

// maxDepth bounds how deep JSON inside JSON strings is looked into.
const maxDepth = 4

// JSON gives a JSON text with every secret in it replaced, at any depth: by what
// a value looks like, by the name of its member, and inside strings that hold
// JSON themselves. A text that is not JSON is treated as text.
func (r *Redactor) JSON(text json.RawMessage) json.RawMessage {
	if len(text) == 0 {
		return text
	}
	out, ok := r.json(text, maxDepth)
	if !ok {
		b, _ := encode(r.Text(string(text)))
		return b
	}
	return out
}

func (r *Redactor) json(text []byte, depth int) ([]byte, bool) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var v any
	if d.Decode(&v) != nil || d.More() {
		return nil, false
	}
	b, err := encode(r.value(v, "", depth))
	return b, err == nil
}

func (r *Redactor) value(v any, name string, depth int) any {
	switch v := v.(type) {
	case string:
		if name != "" && secretKey.MatchString(name) && v != "" {
			return r.mark(name, v)
		}
		if depth > 0 && len(v) > 1 && (v[0] == '{' || v[0] == '[') {
			if inner, ok := r.json([]byte(v), depth-1); ok {
				return string(inner)
			}
		}
		return r.Text(v)
	case []any:
		for i := range v {
			v[i] = r.value(v[i], name, depth)
		}
		return v
	case map[string]any:
		for k := range v {
			v[k] = r.value(v[k], k, depth)
		}
		return v
	default:
		return v
	}
}

func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimRight(b.Bytes(), "\n"), nil
}
