package mcp

import (
	"encoding/json"
	"slices"

	"hangar/domain"
	"hangar/domain/turn"
)

// The kinds of input that a client can be asked for (SEP-2322).
const (
	MethodElicit   = "elicitation/create"
	MethodSampling = "sampling/createMessage"
	MethodRoots    = "roots/list"
)

// Usable gives those requests that a caller with these capabilities can be asked,
// and, where there is none, the refusal that names what would have been needed
// (SEP-2322: only ask for what the request declared).
func Usable(requests map[string]InputRequest, c turn.Capabilities) (map[string]InputRequest, *RPCError) {
	usable := make(map[string]InputRequest, len(requests))
	missing := make([]string, 0, len(requests))
	for key, r := range requests {
		if Declared(r, c) {
			usable[key] = r
		} else {
			missing = append(missing, key)
		}
	}
	if len(usable) > 0 || len(missing) == 0 {
		return usable, nil
	}
	slices.Sort(missing)
	k := kindOf(requests[missing[0]])
	return nil, MissingCapability(k.name, k.required)
}

// Declared reports whether a caller with these capabilities can be asked r.
func Declared(r InputRequest, c turn.Capabilities) bool { return kindOf(r).declared(c) }

type inputKind struct {
	name     string // for people
	required string // a ClientCapabilities object
	declared func(turn.Capabilities) bool
}

var (
	formKind = inputKind{"elicitation", `{"elicitation":{"form":{}}}`, func(c turn.Capabilities) bool { return c.Form }}
	urlKind  = inputKind{"elicitation in url mode", `{"elicitation":{"url":{}}}`, func(c turn.Capabilities) bool { return c.URL }}
	sampling = inputKind{"sampling", `{"sampling":{}}`, func(c turn.Capabilities) bool { return c.Sampling }}
	roots    = inputKind{"roots", `{"roots":{}}`, func(c turn.Capabilities) bool { return c.Roots }}
)

func kindOf(r InputRequest) inputKind {
	switch r.Method {
	case MethodSampling:
		return sampling
	case MethodRoots:
		return roots
	case MethodElicit:
		var p struct {
			Mode string `json:"mode"`
		}
		if json.Unmarshal(r.Params, &p) == nil && p.Mode == "url" {
			return urlKind
		}
		return formKind
	}
	return inputKind{r.Method, `{}`, func(turn.Capabilities) bool { return false }}
}

// CheckResponse checks the answer to an input request against the shape its
// method has (core schema: ElicitResult, CreateMessageResult, ListRootsResult).
// The error is Invalid and names the key. An empty method, for a question that
// is not known here, demands only that the answer is an object.
func CheckResponse(key, method string, raw json.RawMessage) error {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(raw, &members); err != nil || members == nil {
		return malformed(key, "an answer is a JSON object")
	}
	switch method {
	case MethodElicit:
		return checkElicit(key, members)
	case MethodSampling:
		for _, name := range []string{"role", "model"} {
			if !isString(members[name]) {
				return malformed(key, "a sampling answer has the string %q", name)
			}
		}
		if c := members["content"]; !isObject(c) && !isArray(c) {
			return malformed(key, `a sampling answer has "content"`)
		}
	case MethodRoots:
		return checkRoots(key, members["roots"])
	}
	return nil
}

func checkElicit(key string, members map[string]json.RawMessage) error {
	var action string
	if json.Unmarshal(members["action"], &action) != nil || !slices.Contains([]string{"accept", "decline", "cancel"}, action) {
		return malformed(key, `"action" is one of accept, decline, cancel`)
	}
	content, ok := members["content"]
	if !ok {
		return nil
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(content, &fields); err != nil || fields == nil {
		return malformed(key, `"content" is a JSON object`)
	}
	for name, v := range fields {
		var list []string
		if isObject(v) || string(v) == "null" || isArray(v) && json.Unmarshal(v, &list) != nil {
			return malformed(key, "content.%s is a string, a number, a boolean or a list of strings", name)
		}
	}
	return nil
}

func checkRoots(key string, raw json.RawMessage) error {
	var list []struct {
		URI *string `json:"uri"`
	}
	if err := json.Unmarshal(raw, &list); err != nil || list == nil {
		return malformed(key, `"roots" is a list`)
	}
	for _, r := range list {
		if r.URI == nil {
			return malformed(key, `each of "roots" has the string "uri"`)
		}
	}
	return nil
}

func malformed(key, format string, args ...any) error {
	return domain.InvalidField("inputResponses."+key, format, args...)
}

func isObject(v json.RawMessage) bool { return len(v) > 0 && v[0] == '{' }
func isArray(v json.RawMessage) bool  { return len(v) > 0 && v[0] == '[' }
func isString(v json.RawMessage) bool { return len(v) > 0 && v[0] == '"' }
