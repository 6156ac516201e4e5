package mcp

import (
	"bytes"
	"encoding/json"
	"slices"
	"strconv"
	"unicode/utf8"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"hangar/domain"
)

// MetaServerInfo is the key of a result's _meta that names the server.
const MetaServerInfo = "io.modelcontextprotocol/serverInfo"

// AppendResult appends the tool result as a JSON object: what a client is given
// for a plain call, and what a completed task holds as its result. It carries
// resultType "complete", without which clients refuse an inlined result (core
// schema, Result). info is the serverInfo of the answer's _meta, nil for none.
func AppendResult(dst []byte, r *Result, info json.RawMessage) ([]byte, error) {
	var err error
	dst = append(dst, `{"resultType":"complete","content":[`...)
	for i, c := range r.Content {
		if i > 0 {
			dst = append(dst, ',')
		}
		if dst, err = appendContent(dst, c); err != nil {
			return nil, err
		}
	}
	dst = append(dst, ']')
	if len(r.Structured) > 0 {
		if !json.Valid(r.Structured) {
			return nil, domain.Errorf(domain.Internal, "the structured content is not JSON")
		}
		dst = append(dst, `,"structuredContent":`...)
		dst = append(dst, r.Structured...)
	}
	if r.IsError {
		dst = append(dst, `,"isError":true`...)
	}
	if dst, err = appendMeta(dst, r.Meta, info); err != nil {
		return nil, err
	}
	return append(dst, '}'), nil
}

// AppendCreateTask appends a CreateTaskResult (SEP-2663): the task's fields flat
// beside resultType "task", and nothing of what its status may demand.
func AppendCreateTask(dst []byte, t *Task, info json.RawMessage) ([]byte, error) {
	dst = append(dst, `{"resultType":"task",`...)
	dst = appendTaskFields(dst, t)
	dst, err := appendMeta(dst, t.Meta, info)
	if err != nil {
		return nil, err
	}
	return append(dst, '}'), nil
}

// AppendTask appends the result of tasks/get (SEP-2663, DetailedTask): resultType
// is "complete" for every status, and exactly what the status demands follows.
func AppendTask(dst []byte, t *Task, info json.RawMessage) ([]byte, error) {
	dst = append(dst, `{"resultType":"complete",`...)
	dst = appendTaskFields(dst, t)
	dst, err := appendTaskDetail(dst, t)
	if err != nil {
		return nil, err
	}
	if dst, err = appendMeta(dst, t.Meta, info); err != nil {
		return nil, err
	}
	return append(dst, '}'), nil
}

func appendTaskFields(dst []byte, t *Task) []byte {
	dst = append(dst, `"taskId":`...)
	dst = AppendString(dst, string(t.ID))
	dst = append(dst, `,"status":`...)
	dst = AppendString(dst, string(t.Status))
	if t.StatusMessage != "" {
		dst = append(dst, `,"statusMessage":`...)
		dst = AppendString(dst, t.StatusMessage)
	}
	dst = append(dst, `,"createdAt":`...)
	dst = AppendString(dst, t.CreatedAt)
	dst = append(dst, `,"lastUpdatedAt":`...)
	dst = AppendString(dst, t.LastUpdatedAt)
	dst = append(dst, `,"ttlMs":`...)
	if t.TTLMs == nil {
		dst = append(dst, "null"...)
	} else {
		dst = strconv.AppendInt(dst, *t.TTLMs, 10)
	}
	if t.PollIntervalMs > 0 {
		dst = append(dst, `,"pollIntervalMs":`...)
		dst = strconv.AppendInt(dst, t.PollIntervalMs, 10)
	}
	return dst
}

func appendTaskDetail(dst []byte, t *Task) ([]byte, error) {
	switch t.Status {
	case Working, Cancelled:
		return dst, nil
	case InputRequests:
		return appendMember(dst, "inputRequests", t.InputRequests)
	case Completed:
		if len(t.Result) == 0 {
			return nil, domain.Errorf(domain.Internal, "a completed task has no result")
		}
		dst = append(dst, `,"result":`...)
		return append(dst, t.Result...), nil
	case Failed:
		if t.Error == nil {
			return nil, domain.Errorf(domain.Internal, "a failed task has no error")
		}
		return appendMember(dst, "error", t.Error)
	}
	return nil, domain.Errorf(domain.Internal, "a task has the status %q", t.Status)
}

// AppendInputRequired appends an InputRequiredResult (SEP-2322) with the sealed state.
func AppendInputRequired(dst []byte, requests map[string]InputRequest, state string, info json.RawMessage) ([]byte, error) {
	dst = append(dst, `{"resultType":"input_required"`...)
	var err error
	if len(requests) > 0 {
		if dst, err = appendMember(dst, "inputRequests", requests); err != nil {
			return nil, err
		}
	}
	if state != "" {
		dst = append(dst, `,"requestState":`...)
		dst = AppendString(dst, state)
	}
	if dst, err = appendMeta(dst, nil, info); err != nil {
		return nil, err
	}
	return append(dst, '}'), nil
}

func appendMember(dst []byte, key string, v any) ([]byte, error) {
	b, err := Marshal(v)
	if err != nil {
		return nil, err
	}
	dst = append(dst, ',')
	dst = AppendString(dst, key)
	dst = append(dst, ':')
	return append(dst, b...), nil
}

// appendMeta appends `,"_meta":{…}` with keys in order, the server's name first.
func appendMeta(dst []byte, meta map[string]any, info json.RawMessage) ([]byte, error) {
	if len(meta) == 0 && len(info) == 0 {
		return dst, nil
	}
	dst = append(dst, `,"_meta":{`...)
	first := true
	if len(info) > 0 {
		dst = append(dst, `"`+MetaServerInfo+`":`...)
		dst = append(dst, info...)
		first = false
	}
	keys := make([]string, 0, len(meta))
	for k := range meta {
		if k != MetaServerInfo || len(info) == 0 {
			keys = append(keys, k)
		}
	}
	slices.Sort(keys)
	for _, k := range keys {
		v, err := Marshal(meta[k])
		if err != nil {
			return nil, err
		}
		if !first {
			dst = append(dst, ',')
		}
		first = false
		dst = AppendString(dst, k)
		dst = append(dst, ':')
		dst = append(dst, v...)
	}
	return append(dst, '}'), nil
}

func appendContent(dst []byte, c sdk.Content) ([]byte, error) {
	if t, ok := c.(*sdk.TextContent); ok && t.Meta == nil && t.Annotations == nil {
		dst = append(dst, `{"type":"text","text":`...)
		dst = AppendString(dst, t.Text)
		return append(dst, '}'), nil
	}
	b, err := Marshal(c)
	if err != nil {
		return nil, err
	}
	return append(dst, b...), nil
}

// Marshal gives the JSON of v as people read it: raw UTF-8, with none of the
// escapes that encoding/json adds for browsers, also where v marshals itself.
func Marshal(v any) ([]byte, error) {
	b, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	return unescape(b), nil
}

// unescape turns the escapes of <, >, &, U+2028 and U+2029 in valid JSON back
// into the characters. It works in place: the result is never longer.
func unescape(b []byte) []byte {
	i := bytes.IndexByte(b, '\\')
	if i < 0 {
		return b
	}
	out := b[:i]
	for i < len(b) {
		if b[i] != '\\' || i+1 >= len(b) {
			out = append(out, b[i])
			i++
			continue
		}
		if i+6 <= len(b) && b[i+1] == 'u' {
			if r, ok := browserEscape(string(b[i+2 : i+6])); ok {
				out = utf8.AppendRune(out, r)
				i += 6
				continue
			}
		}
		out = append(out, b[i], b[i+1])
		i += 2
	}
	return out
}

func browserEscape(hex string) (rune, bool) {
	switch hex {
	case "003c":
		return '<', true
	case "003e":
		return '>', true
	case "0026":
		return '&', true
	case "2028":
		return '\u2028', true
	case "2029":
		return '\u2029', true
	}
	return 0, false
}

// AppendString appends s as a JSON string in raw UTF-8. Only what JSON demands
// is escaped; bytes that are not UTF-8 become U+FFFD.
func AppendString(dst []byte, s string) []byte {
	const hex = "0123456789abcdef"
	dst = append(dst, '"')
	start := 0
	for i := 0; i < len(s); {
		c := s[i]
		if c >= utf8.RuneSelf {
			r, size := utf8.DecodeRuneInString(s[i:])
			if r == utf8.RuneError && size == 1 {
				dst = append(dst, s[start:i]...)
				dst = append(dst, "\ufffd"...)
				start = i + 1
			}
			i += size
			continue
		}
		if c >= ' ' && c != '"' && c != '\\' {
			i++
			continue
		}
		dst = append(dst, s[start:i]...)
		switch c {
		case '"', '\\':
			dst = append(dst, '\\', c)
		case '\n':
			dst = append(dst, '\\', 'n')
		case '\r':
			dst = append(dst, '\\', 'r')
		case '\t':
			dst = append(dst, '\\', 't')
		default:
			dst = append(dst, '\\', 'u', '0', '0', hex[c>>4], hex[c&0xf])
		}
		i++
		start = i
	}
	dst = append(dst, s[start:]...)
	return append(dst, '"')
}
