package redact_test

import (
	"encoding/json"
	"strings"
	"testing"

	"hangar/domain/redact"
)

// plant makes a secret of fuzzed bytes: upper-case letters and what encodings
// escape, so that neither a mark nor a fuzzed text holds it by chance.
func plant(seed []byte) string {
	const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZ\"\\<>&'/=é\t "
	runes := []rune(letters)
	var b strings.Builder
	b.WriteString("QZ")
	for _, c := range seed {
		b.WriteRune(runes[int(c)%len(runes)])
	}
	b.WriteString("XJQZVWKQ")
	return b.String()
}

// FuzzText: whatever stands around a secret that the server knows, in whatever
// of its forms, it is gone; and so is a token of ours.
func FuzzText(f *testing.F) {
	f.Add("it is ", ".", []byte("abc"))
	f.Add("password=", "\nA_TOKEN=x", []byte{26, 27, 28})
	f.Add("Authorization: Bearer ", "", []byte{})
	f.Add("https://u:", "@host", []byte{31, 32})
	f.Add(`{"a":"`, `"}`, []byte{26})
	f.Add("-----BEGIN PRIVATE KEY-----", "-----END PRIVATE KEY-----", []byte{33})
	f.Fuzz(func(t *testing.T, before, after string, seed []byte) {
		if len(seed) > 64 {
			t.Skip("longer is no other")
		}
		value := plant(seed)
		r := redact.New(secret(1), map[string]string{"planted": value})
		quoted, err := json.Marshal(value)
		if err != nil {
			t.Fatal(err)
		}
		for _, form := range []string{value, string(quoted[1 : len(quoted)-1]), hangarToken()} {
			text := before + form + after
			if got := r.Text(text); strings.Contains(got, form) {
				t.Errorf("%q is left in %q", form, got)
			}
			if _, found := r.Known(text); !found {
				t.Errorf("%q is not found in %q", form, text)
			}
		}
	})
}

// FuzzJSON: wherever in a JSON text a secret stands, as a value, as a name or in
// JSON within, it is gone, and what is left is JSON.
func FuzzJSON(f *testing.F) {
	f.Add(`{"a":"SECRET","SECRET":[{"password":"SECRET"}]}`, []byte("abc"))
	f.Add(`{"a":"{\"b\":\"SECRET\"}"}`, []byte{26, 27, 28, 29, 30})
	f.Add(`"SECRET"`, []byte{})
	f.Add(`not JSON: SECRET`, []byte{26})
	f.Add(`{"n":1e999,"m":[1.0,-0]}`, []byte{1})
	f.Add(`{"token":{"SECRET":"x"}} {"a":"SECRET"}`, []byte{36, 35})
	f.Fuzz(func(t *testing.T, text string, seed []byte) {
		if len(seed) > 64 {
			t.Skip("longer is no other")
		}
		value := plant(seed)
		quoted, err := json.Marshal(value)
		if err != nil {
			t.Fatal(err)
		}
		r := redact.New(secret(1), map[string]string{"planted": value})
		planted := strings.ReplaceAll(text, "SECRET", string(quoted[1:len(quoted)-1]))
		got := r.JSON(json.RawMessage(planted))
		if len(planted) == 0 {
			if len(got) != 0 {
				t.Fatalf("of nothing it makes %q", got)
			}
			return
		}
		if !json.Valid(got) {
			t.Fatalf("%q has become %q, which is no JSON", planted, got)
		}
		var v any
		if err := json.Unmarshal(got, &v); err == nil && holds(v, value, 3) {
			t.Errorf("%q is left in %s", value, got)
		}
		if strings.Contains(string(got), value) {
			t.Errorf("%q is left in %s", value, got)
		}
		if json.Valid([]byte(planted)) && sort(t, planted) != sort(t, string(got)) {
			t.Errorf("%s has become %s, of another kind", planted, got)
		}
	})
}

// holds looks for a value in everything that a JSON value holds, JSON in strings
// too.
func holds(v any, value string, depth int) bool {
	switch v := v.(type) {
	case string:
		if strings.Contains(v, value) {
			return true
		}
		var inner any
		return depth > 0 && json.Unmarshal([]byte(v), &inner) == nil && holds(inner, value, depth-1)
	case []any:
		for _, e := range v {
			if holds(e, value, depth) {
				return true
			}
		}
	case map[string]any:
		for k, e := range v {
			if strings.Contains(k, value) || holds(e, value, depth) {
				return true
			}
		}
	}
	return false
}

// sort tells an object, a list and a text apart.
func sort(t *testing.T, text string) string {
	t.Helper()
	text = strings.TrimSpace(text)
	switch text[0] {
	case '{', '[', '"':
		return text[:1]
	default:
		return "scalar"
	}
}
