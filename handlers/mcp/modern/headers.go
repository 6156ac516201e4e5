package modern

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math/big"
	"net/http"
	"strings"
	"unicode/utf8"

	"hangar/handlers/mcp"
)

// The headers that mirror a body (SEP-2243), as net/http spells them.
const (
	headerVersion = "Mcp-Protocol-Version"
	headerMethod  = "Mcp-Method"
	headerName    = "Mcp-Name"
	headerParam   = "Mcp-Param-"
)

// mismatch is the -32020 for a header that is missing, malformed or different.
func mismatch(format string, args ...any) *mcp.RPCError {
	return refusal(mcp.CodeHeaderMismatch, fmt.Sprintf(format, args...))
}

// header gives the value of a header that may stand once. net/http has trimmed
// the white space around it.
func header(h http.Header, name string) (value string, there bool, err *mcp.RPCError) {
	list := h[name]
	switch len(list) {
	case 0:
		return "", false, nil
	case 1:
		return strings.Trim(list[0], " \t"), true, nil
	}
	return "", true, mismatch("the header %s stands %d times", shown(name), len(list))
}

// shown is a header's name as the specification writes it.
func shown(name string) string {
	if name == headerVersion {
		return "MCP-Protocol-Version"
	}
	return name
}

// matchHeader refuses a required header that is not there or says something else
// than the body.
func matchHeader(h http.Header, name, body string, sentinel bool) *mcp.RPCError {
	value, there, err := header(h, name)
	if err != nil {
		return err
	}
	if !there {
		return mismatch("the header %s is missing; the body says %q", shown(name), clip(body))
	}
	if sentinel {
		if value, err = plainValue(name, value); err != nil {
			return err
		}
	}
	if value != body {
		return mismatch("the header %s says %q, the body %q", shown(name), clip(value), clip(body))
	}
	return nil
}

// plainValue undoes the sentinel encoding in a header's value.
func plainValue(name, value string) (string, *mcp.RPCError) {
	plain, err := decodeSentinel(value)
	if err != nil {
		return "", mismatch("the header %s: %v", shown(name), err)
	}
	return plain, nil
}

const (
	sentinelOpen  = "=?base64?"
	sentinelClose = "?="
)

// decodeSentinel reads a value that is literal, or =?base64?…?= around the
// standard base64 of UTF-8 (SEP-2243).
func decodeSentinel(value string) (string, error) {
	inner, ok := strings.CutPrefix(value, sentinelOpen)
	if !ok {
		return value, nil
	}
	if inner, ok = strings.CutSuffix(inner, sentinelClose); !ok {
		return value, nil
	}
	// Strict refuses trailing bits; encoding/base64 skips line breaks, which no
	// header has.
	b, err := base64.StdEncoding.Strict().DecodeString(inner)
	if err != nil {
		return "", fmt.Errorf("the base64 in it is malformed")
	}
	if !utf8.Valid(b) {
		return "", fmt.Errorf("the base64 in it is not of UTF-8")
	}
	return string(b), nil
}

// matchParam compares the header of one argument with the argument.
func matchParam(h http.Header, p mcp.ParamHeader, arguments []byte) *mcp.RPCError {
	name := http.CanonicalHeaderKey(headerParam + p.Name)
	value, there, err := header(h, name)
	if err != nil {
		return err
	}
	raw := argumentAt(arguments, p.Path)
	at := strings.Join(p.Path, ".")
	if raw == nil || isNull(raw) {
		if there {
			return mismatch("the header %s is there, the argument %s is not", name, at)
		}
		return nil
	}
	if !there {
		return mismatch("the header %s is missing; the argument %s is there", name, at)
	}
	if value, err = plainValue(name, value); err != nil {
		return err
	}
	if !sameArgument(value, raw, p.Type) {
		return mismatch("the header %s differs from the argument %s", name, at)
	}
	return nil
}

// sameArgument compares a header's value with an argument of the type that the
// schema gives it. An argument of another type is for the validation to refuse;
// here it is compared by its text.
func sameArgument(value string, raw []byte, typ string) bool {
	if s, ok := text(raw); ok {
		return value == s
	}
	if typ == "integer" {
		var got, want big.Int
		if _, ok := got.SetString(value, 10); ok && len(value) <= maxNumber {
			if _, ok := want.SetString(string(raw), 10); ok {
				return got.Cmp(&want) == 0
			}
		}
	}
	return value == string(raw)
}

// argumentAt gives the raw value at a path of member names, nil where there is
// none. Of a repeated member the last counts, as it does for the handler.
func argumentAt(raw []byte, path []string) json.RawMessage {
	for _, name := range path {
		if !isObject(raw) {
			return nil
		}
		var child []byte
		_ = members(raw, func(key, value []byte) error {
			if string(key) == name {
				child = value
			}
			return nil
		})
		raw = child
	}
	return raw
}

// clip bounds a text of the caller's that is told back to it.
func clip(s string) string {
	const most = 120 // bytes
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}
