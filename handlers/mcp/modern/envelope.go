package modern

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"hangar/domain/turn"
	"hangar/handlers/mcp"
)

// maxID bounds a request's id, which every answer repeats.
const maxID = 256 // bytes

// envelope is one JSON-RPC message, decoded once. Everything in it is a part of
// the body; params stays raw.
type envelope struct {
	id     json.RawMessage // nil for a notification
	method string
	params json.RawMessage // nil where there are none
}

// decode reads one message. The refusals are -32700 for what is not JSON and
// -32600 for JSON that is not a request or a notification; the envelope holds
// the id wherever it could be read.
func decode(body []byte) (envelope, *mcp.RPCError) {
	var e envelope
	if err := bounded(body); err != nil {
		code := mcp.CodeInvalidRequest
		if errors.Is(err, errNotUTF8) {
			code = mcp.CodeParse
		}
		return e, refusal(code, err.Error())
	}
	if !json.Valid(body) {
		var v json.RawMessage
		return e, refusal(mcp.CodeParse, fmt.Sprintf("the body is not JSON: %v", json.Unmarshal(body, &v)))
	}
	if i := skipSpace(body, 0); body[i] != '{' {
		if body[i] == '[' {
			return e, refusal(mcp.CodeInvalidRequest, "batches are not served: send one request in a body")
		}
		return e, refusal(mcp.CodeInvalidRequest, "the body is one JSON object")
	}
	var m rawMessage
	_ = members(body, m.set) // set keeps what is wrong, for after the id
	return m.envelope()
}

// rawMessage is the members of a JSON-RPC message that anyone looks at.
type rawMessage struct {
	version, id, method, params, result, fault []byte

	twice string // a member that stands twice
}

func (m *rawMessage) set(key, value []byte) error {
	var to *[]byte
	switch string(key) {
	case "jsonrpc":
		to = &m.version
	case "id":
		to = &m.id
	case "method":
		to = &m.method
	case "params":
		to = &m.params
	case "result":
		to = &m.result
	case "error":
		to = &m.fault
	default:
		return nil
	}
	if *to != nil && m.twice != "id" {
		m.twice = string(key)
	}
	*to = value
	return nil
}

func (m *rawMessage) envelope() (envelope, *mcp.RPCError) {
	var e envelope
	if m.id != nil && m.twice != "id" {
		if !isInteger(m.id) && m.id[0] != '"' {
			return e, refusal(mcp.CodeInvalidRequest, "id is a string or an integer")
		}
		if len(m.id) > maxID {
			return e, refusal(mcp.CodeInvalidRequest, fmt.Sprintf("id is longer than %d bytes", maxID))
		}
		e.id = m.id
	}
	if m.twice != "" {
		return e, refusal(mcp.CodeInvalidRequest, fmt.Sprintf("the body has the member %q twice", m.twice))
	}
	if v, ok := text(m.version); !ok || v != "2.0" {
		return e, refusal(mcp.CodeInvalidRequest, `jsonrpc is "2.0"`)
	}
	if m.method == nil && (m.result != nil || m.fault != nil) {
		return e, refusal(mcp.CodeInvalidRequest, "responses are not taken: answers travel in inputResponses")
	}
	method, ok := text(m.method)
	if !ok {
		return e, refusal(mcp.CodeInvalidRequest, "method is a string")
	}
	e.method, e.params = method, m.params
	return e, nil
}

// refusal is an error found in the envelope: the response is HTTP 400.
func refusal(code int, message string) *mcp.RPCError {
	return &mcp.RPCError{Code: code, Message: message, HTTP: http.StatusBadRequest}
}

// Keys of a request's _meta (basic/index, _meta).
const (
	metaVersion      = "io.modelcontextprotocol/protocolVersion"
	metaCapabilities = "io.modelcontextprotocol/clientCapabilities"
	metaLogLevel     = "io.modelcontextprotocol/logLevel"
)

// params are the members of a request's params and _meta that the wire looks at,
// raw. A member that the body does not have is nil.
type params struct {
	meta []byte

	name, uri, taskID, cursor               []byte
	arguments, inputResponses, requestState []byte

	version, capabilities, logLevel, progressToken, traceparent []byte
}

// decodeParams splits params and its _meta.
func decodeParams(raw []byte) (params, error) {
	var p params
	if err := members(raw, p.set); err != nil {
		return p, fmt.Errorf("params has %w", err)
	}
	if p.meta == nil {
		return p, nil
	}
	if !isObject(p.meta) {
		return p, errors.New("params._meta is an object")
	}
	if err := members(p.meta, p.setMeta); err != nil {
		return p, fmt.Errorf("params._meta has %w", err)
	}
	return p, nil
}

func (p *params) set(key, value []byte) error {
	switch string(key) {
	case "_meta":
		return once(&p.meta, key, value)
	case "name":
		return once(&p.name, key, value)
	case "uri":
		return once(&p.uri, key, value)
	case "taskId":
		return once(&p.taskID, key, value)
	case "cursor":
		return once(&p.cursor, key, value)
	case "arguments":
		return once(&p.arguments, key, value)
	case "inputResponses":
		return once(&p.inputResponses, key, value)
	case "requestState":
		return once(&p.requestState, key, value)
	}
	return nil
}

func (p *params) setMeta(key, value []byte) error {
	switch string(key) {
	case metaVersion:
		return once(&p.version, key, value)
	case metaCapabilities:
		return once(&p.capabilities, key, value)
	case metaLogLevel:
		return once(&p.logLevel, key, value)
	case "progressToken":
		return once(&p.progressToken, key, value)
	case "traceparent":
		return once(&p.traceparent, key, value)
	}
	return nil
}

func once(to *[]byte, key, value []byte) error {
	if *to != nil {
		return fmt.Errorf("the member %q twice", key)
	}
	*to = value
	return nil
}

// declared reads a ClientCapabilities object: what this request can be asked,
// and whether it takes tasks. A capability is there when it is an object; its
// settings are open, so nothing in it is refused.
func declared(raw []byte) (c turn.Capabilities, tasks bool) {
	_ = members(raw, func(key, value []byte) error {
		if !isObject(value) {
			return nil
		}
		switch string(key) {
		case "roots":
			c.Roots = true
		case "sampling":
			c.Sampling = true
		case "elicitation":
			c.Form, c.URL = elicitationModes(value)
		case "extensions":
			tasks = hasObject(value, mcp.TasksExtension)
		}
		return nil
	})
	return c, tasks
}

// elicitationModes reads an elicitation capability; an empty one means form
// alone (client/elicitation).
func elicitationModes(raw []byte) (form, url bool) {
	form, url = hasObject(raw, "form"), hasObject(raw, "url")
	return form || !url, url
}

func hasObject(raw []byte, name string) (has bool) {
	_ = members(raw, func(key, value []byte) error {
		if string(key) == name {
			has = isObject(value)
		}
		return nil
	})
	return has
}
