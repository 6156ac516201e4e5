package modern

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"unicode/utf8"
)

// The bounds of a body that is read at all.
const (
	maxDepth    = 256 // levels of nesting
	maxNumber   = 64  // bytes of one number
	maxExponent = 3   // digits of a number's exponent: beyond any float64
)

var errNotUTF8 = errors.New("the body is not UTF-8")

// bounded checks what encoding/json does not: the nesting, and numbers so large
// that whoever computes with them is kept busy. It reads b as if it were JSON.
func bounded(b []byte) error {
	if !utf8.Valid(b) {
		return errNotUTF8
	}
	depth := 0
	for i := 0; i < len(b); {
		switch c := b[i]; {
		case c == '"':
			i = skipString(b, i)
			continue
		case c == '{' || c == '[':
			if depth++; depth > maxDepth {
				return fmt.Errorf("the body is nested deeper than %d levels", maxDepth)
			}
		case c == '}' || c == ']':
			depth--
		case c == '-' || c >= '0' && c <= '9':
			n := numberLen(b[i:])
			if err := boundedNumber(b[i : i+n]); err != nil {
				return err
			}
			i += n
			continue
		}
		i++
	}
	return nil
}

func boundedNumber(n []byte) error {
	if len(n) > maxNumber {
		return fmt.Errorf("a number is longer than %d bytes", maxNumber)
	}
	if e := bytes.IndexAny(n, "eE"); e >= 0 && len(bytes.Trim(n[e+1:], "+-")) > maxExponent {
		return fmt.Errorf("a number's exponent has more than %d digits", maxExponent)
	}
	return nil
}

func numberLen(b []byte) int {
	for i, c := range b {
		if c != '-' && c != '+' && c != '.' && c != 'e' && c != 'E' && (c < '0' || c > '9') {
			return i
		}
	}
	return len(b)
}

// skipString gives the index after the string that begins at b[i].
func skipString(b []byte, i int) int {
	for i++; i < len(b); i++ {
		switch b[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return len(b)
}

// members calls f for each member of the JSON object b, in order. b is valid
// JSON; keys are compared as they are, unlike encoding/json, which folds case.
// The slices are parts of b.
func members(b []byte, f func(key, value []byte) error) error {
	i := skipSpace(b, 0) + 1 // past {
	for {
		i = skipSpace(b, i)
		if i >= len(b) || b[i] == '}' {
			return nil
		}
		if b[i] == ',' {
			i++
			continue
		}
		end := skipString(b, i)
		key := unquoted(b[i:end])
		i = skipSpace(b, end) + 1 // past :
		i = skipSpace(b, i)
		end = skipValue(b, i)
		if err := f(key, b[i:end]); err != nil {
			return err
		}
		i = end
	}
}

func skipSpace(b []byte, i int) int {
	for i < len(b) && (b[i] == ' ' || b[i] == '\n' || b[i] == '\t' || b[i] == '\r') {
		i++
	}
	return i
}

// skipValue gives the index after the value that begins at b[i].
func skipValue(b []byte, i int) int {
	depth := 0
	for i < len(b) {
		switch c := b[i]; c {
		case '"':
			i = skipString(b, i)
			if depth == 0 {
				return i
			}
			continue
		case '{', '[':
			depth++
		case '}', ']':
			if depth == 0 {
				return i
			}
			if depth--; depth == 0 {
				return i + 1
			}
		case ',', ' ', '\n', '\t', '\r':
			if depth == 0 {
				return i
			}
		}
		i++
	}
	return len(b)
}

// unquoted gives the text of a JSON string.
func unquoted(b []byte) []byte {
	if len(b) < 2 {
		return nil
	}
	if bytes.IndexByte(b, '\\') < 0 {
		return b[1 : len(b)-1]
	}
	var s string
	if json.Unmarshal(b, &s) != nil {
		return b[1 : len(b)-1]
	}
	return []byte(s)
}

// text gives the string that a raw value is; ok is false for anything else.
func text(raw []byte) (s string, ok bool) {
	if len(raw) == 0 || raw[0] != '"' {
		return "", false
	}
	return string(unquoted(raw)), true
}

func isObject(raw []byte) bool { return len(raw) > 0 && raw[0] == '{' }

func isNull(raw []byte) bool { return string(raw) == "null" }

// isInteger reports whether raw is a JSON integer without fraction or exponent.
func isInteger(raw []byte) bool {
	if len(raw) > 0 && raw[0] == '-' {
		raw = raw[1:]
	}
	if len(raw) == 0 {
		return false
	}
	for _, c := range raw {
		if c < '0' || c > '9' {
			return false
		}
	}
	return true
}
