package modern

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"hangar/domain"
	"hangar/handlers/mcp"
)

// request is one message on its way down the ladder.
type request struct {
	envelope
	header http.Header // nil on a transport that has none
	caller mcp.Caller
	list   *listing // the tools as this caller sees them

	params  params
	version string
	serves  *method

	// tools/call
	tool      *mcp.Tool
	arguments json.RawMessage
	retry     retry
}

// rung is one question that a request is asked before it is served.
type rung struct {
	name string
	// http rungs are about headers, and skipped where the transport has none.
	http bool
	ask  func(*Server, *request) *mcp.RPCError
}

// ladder is the order in which a request is refused; the first rung that refuses
// decides. Three stand before it: the HTTP method (405), then the guards, which
// are Origin and Host (403) and the token (401), and then decode (-32700, -32600).
// The order is the specification's where it has one and the conformance suite's
// where it has none; moving a rung changes what clients see.
var ladder = []rung{
	{"a request has an id", false, (*Server).askID},
	{"the required _meta is there (-32602)", false, (*Server).askMeta},
	{"the version in the header and the body agree (-32020)", true, (*Server).askVersionHeader},
	{"the method in the header and the body agree (-32020)", true, (*Server).askMethodHeader},
	{"the version is served (-32022)", false, (*Server).askVersion},
	{"the method is known (-32601)", false, (*Server).askMethod},
	{"the name in the header and the body agree (-32020)", true, (*Server).askName},
	{"the extension is declared (-32021)", false, (*Server).askExtension},
	{"the optional _meta is well formed (-32602)", false, (*Server).askOptionalMeta},
	{"the params are well formed (-32602)", false, (*Server).askParams},
	{"the tool is there for this caller (-32602)", false, (*Server).askTool},
	{"the tool can answer this client (-32021)", false, (*Server).askToolNeeds},
	{"the argument headers and the arguments agree (-32020)", true, (*Server).askParamHeaders},
	{"the retry is of this call, and well formed (-32602)", false, (*Server).askRetry},
}

// climb asks a request every question in order.
func (s *Server) climb(r *request) *mcp.RPCError {
	for i := range ladder {
		if ladder[i].http && r.header == nil {
			continue
		}
		if refused := ladder[i].ask(s, r); refused != nil {
			return refused
		}
	}
	return nil
}

// servedVersions tells the client of another revision what it has met.
var servedVersions = "served are " + strings.Join(Versions, ", ")

func (s *Server) askID(r *request) *mcp.RPCError {
	if r.id == nil {
		return refusal(mcp.CodeInvalidRequest, fmt.Sprintf("%s is a request: it has an id", clip(r.method)))
	}
	return nil
}

func (s *Server) askMeta(r *request) *mcp.RPCError {
	if !isObject(r.envelope.params) {
		return refusal(mcp.CodeInvalidParams, "params is an object with _meta in it; "+servedVersions)
	}
	var err error
	if r.params, err = decodeParams(r.envelope.params); err != nil {
		return refusal(mcp.CodeInvalidParams, err.Error())
	}
	if r.params.meta == nil {
		return refusal(mcp.CodeInvalidParams, "params._meta is missing; "+servedVersions)
	}
	version, ok := text(r.params.version)
	if !ok {
		return refusal(mcp.CodeInvalidParams, "params._meta has the string "+metaVersion+"; "+servedVersions)
	}
	r.version = version
	if !isObject(r.params.capabilities) {
		return refusal(mcp.CodeInvalidParams, "params._meta has the object "+metaCapabilities)
	}
	r.caller.Capabilities, r.caller.Tasks = declared(r.params.capabilities)
	return nil
}

func (s *Server) askVersionHeader(r *request) *mcp.RPCError {
	return matchHeader(r.header, headerVersion, r.version, false)
}

func (s *Server) askMethodHeader(r *request) *mcp.RPCError {
	return matchHeader(r.header, headerMethod, r.method, false)
}

func (s *Server) askVersion(r *request) *mcp.RPCError {
	if slices.Contains(Versions, r.version) {
		return nil
	}
	e := refusal(mcp.CodeVersion, "this protocol version is not served; "+servedVersions)
	e.Data, _ = mcp.Marshal(struct {
		Supported []string `json:"supported"`
		Requested string   `json:"requested"`
	}{Versions, r.version})
	return e
}

func (s *Server) askMethod(r *request) *mcp.RPCError {
	m, ok := s.methods[r.method]
	if !ok {
		return &mcp.RPCError{
			Code:    mcp.CodeMethodNotFound,
			Message: fmt.Sprintf("method %q is not served on %s", clip(r.method), r.version),
			HTTP:    http.StatusNotFound,
		}
	}
	r.serves = m
	return nil
}

func (s *Server) askName(r *request) *mcp.RPCError {
	if r.serves.named == nil {
		return nil
	}
	name, ok := text(r.serves.named(&r.params))
	if !ok {
		// There is nothing to mirror: only a header without its member is a
		// mismatch; a missing member by itself is for the params.
		if _, there, err := header(r.header, headerName); err != nil || !there {
			return err
		}
		return mismatch("the header %s is there, the member of the body is not", headerName)
	}
	return matchHeader(r.header, headerName, name, true)
}

func (s *Server) askExtension(r *request) *mcp.RPCError {
	if r.serves.tasks && !r.caller.Tasks {
		return mcp.MissingTasks()
	}
	return nil
}

// logLevels are the levels that a request may ask for (server/utilities/logging).
var logLevels = []string{"debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"}

func (s *Server) askOptionalMeta(r *request) *mcp.RPCError {
	if raw := r.params.logLevel; raw != nil {
		if level, ok := text(raw); !ok || !slices.Contains(logLevels, level) {
			return refusal(mcp.CodeInvalidParams, metaLogLevel+" is one of "+strings.Join(logLevels, ", "))
		}
	}
	if raw := r.params.progressToken; raw != nil && raw[0] != '"' && !isInteger(raw) {
		return refusal(mcp.CodeInvalidParams, "progressToken is a string or an integer")
	}
	if trace, ok := text(r.params.traceparent); ok && isTraceparent(trace) {
		r.caller.Traceparent = trace
	}
	return nil
}

func (s *Server) askParams(r *request) *mcp.RPCError {
	if r.serves.params == nil {
		return nil
	}
	return r.serves.params(r)
}

func (s *Server) askTool(r *request) *mcp.RPCError {
	if !r.serves.call {
		return nil
	}
	name, _ := text(r.params.name)
	tool, ok := r.list.registry.Lookup(name, r.caller.Scopes)
	if !ok {
		return mcp.UnknownTool(name)
	}
	r.tool = tool
	return nil
}

func (s *Server) askToolNeeds(r *request) *mcp.RPCError {
	if r.tool != nil && r.tool.RequiresTasks && !r.caller.Tasks {
		return mcp.MissingTasks()
	}
	return nil
}

func (s *Server) askParamHeaders(r *request) *mcp.RPCError {
	if r.tool == nil {
		return nil
	}
	for _, p := range r.list.registry.ParamHeaders(r.tool.Name) {
		if refused := matchParam(r.header, p, r.arguments); refused != nil {
			return refused
		}
	}
	return nil
}

func (s *Server) askRetry(r *request) *mcp.RPCError {
	if r.tool == nil {
		return nil
	}
	var refused *mcp.RPCError
	r.retry, refused = s.openRetry(r)
	return refused
}

// invalidParams is the -32602 of what is past the envelope: HTTP 200, as for an
// unknown tool or task.
func invalidParams(format string, args ...any) *mcp.RPCError {
	return &mcp.RPCError{Code: mcp.CodeInvalidParams, Message: fmt.Sprintf(format, args...)}
}

func needText(raw []byte, name string) *mcp.RPCError {
	if s, ok := text(raw); !ok || s == "" {
		return invalidParams("params.%s is missing: it is a string", name)
	}
	return nil
}

func taskParams(r *request) *mcp.RPCError { return needText(r.params.taskID, "taskId") }

func (r *request) taskID() domain.TaskID {
	id, _ := text(r.params.taskID)
	return domain.TaskID(id)
}

func updateParams(r *request) *mcp.RPCError {
	if refused := taskParams(r); refused != nil {
		return refused
	}
	if !isObject(r.params.inputResponses) {
		return invalidParams("params.inputResponses is missing: it is an object of answers by their keys")
	}
	return nil
}

func readParams(r *request) *mcp.RPCError { return needText(r.params.uri, "uri") }

func callParams(r *request) *mcp.RPCError {
	if refused := needText(r.params.name, "name"); refused != nil {
		return refused
	}
	switch raw := r.params.arguments; {
	case raw == nil || isNull(raw):
		r.arguments = json.RawMessage(`{}`)
	case !isObject(raw):
		return invalidParams("params.arguments is an object")
	default:
		r.arguments = raw
	}
	return nil
}

// isTraceparent reports whether s is a W3C trace context of version 00 or later.
func isTraceparent(s string) bool {
	const length = len("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
	if len(s) < length || s[2] != '-' || s[35] != '-' || s[52] != '-' {
		return false
	}
	for _, part := range []string{s[:2], s[3:19], s[19:35], s[36:52], s[53:55]} {
		if _, err := strconv.ParseUint(part, 16, 64); err != nil || strings.ToLower(part) != part {
			return false
		}
	}
	return len(s) == length || s[:2] != "00"
}
