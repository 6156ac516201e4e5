package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"hangar/domain"
)

// The JSON-RPC codes of revision 2026-07-28 (basic/index, error codes).
const (
	CodeParse             = -32700
	CodeInvalidRequest    = -32600
	CodeMethodNotFound    = -32601
	CodeInvalidParams     = -32602
	CodeInternal          = -32603
	CodeHeaderMismatch    = -32020
	CodeMissingCapability = -32021
	CodeVersion           = -32022
)

// internalMessage is all that a caller is told of a fault of ours.
const internalMessage = "internal error"

// RPCError is a JSON-RPC error as a caller sees it. A handler may return one to
// refuse the request as such; most failures of a tool are a *domain.Error instead,
// which becomes a result that the model can read.
type RPCError struct {
	Code    int             `json:"code"`
	Message string          `json:"message"`
	Data    json.RawMessage `json:"data,omitempty"`
	// HTTP is the status of the response that carries it; 0 is 200, as for every
	// error that was found past the envelope.
	HTTP int `json:"-"`
}

// Error gives the message.
func (e *RPCError) Error() string { return e.Message }

// Status gives the HTTP status of the response that carries the error.
func (e *RPCError) Status() int {
	if e.HTTP == 0 {
		return http.StatusOK
	}
	return e.HTTP
}

// numbers are the one table of what a code is outside: a JSON-RPC code on the
// MCP wires and an HTTP status on the REST one.
var numbers = map[domain.Code]struct{ rpc, http int }{
	domain.Invalid:      {CodeInvalidParams, http.StatusBadRequest},
	domain.NotFound:     {CodeInvalidParams, http.StatusNotFound},
	domain.Conflict:     {CodeInvalidParams, http.StatusConflict},
	domain.Unauthorized: {CodeInvalidParams, http.StatusUnauthorized},
	domain.Forbidden:    {CodeInvalidParams, http.StatusForbidden},
	domain.TooLarge:     {CodeInvalidParams, http.StatusRequestEntityTooLarge},
	domain.Unsupported:  {CodeInvalidParams, http.StatusNotImplemented},
	domain.Unavailable:  {CodeInternal, http.StatusServiceUnavailable},
	domain.Internal:     {CodeInternal, http.StatusInternalServerError},
}

// HTTPStatus gives the status of a REST answer for a code.
func HTTPStatus(code domain.Code) int {
	if n, ok := numbers[code]; ok {
		return n.http
	}
	return http.StatusInternalServerError
}

// RPCCode gives the JSON-RPC code for a code.
func RPCCode(code domain.Code) int {
	if n, ok := numbers[code]; ok {
		return n.rpc
	}
	return CodeInternal
}

// ToRPC gives the JSON-RPC error for err. An *RPCError is itself, a *domain.Error
// keeps its message, and of anything else, as of Internal, the caller learns
// nothing: the cause goes to the log, once, with the name of what failed.
func ToRPC(ctx context.Context, log *slog.Logger, what string, err error) *RPCError {
	if rpc, ok := errors.AsType[*RPCError](err); ok {
		return rpc
	}
	if e := told(err); e != nil {
		return &RPCError{Code: RPCCode(e.Code), Message: e.Message}
	}
	logFault(ctx, log, what, err)
	return Fault()
}

// ErrorResult gives the tool result that tells err to the model, or nil where err
// is not for callers to read.
func ErrorResult(err error) *Result {
	e := told(err)
	if e == nil {
		return nil
	}
	return &Result{IsError: true, Content: []sdk.Content{&sdk.TextContent{Text: e.Message}}}
}

// told gives the error in err's chain that a caller may read.
func told(err error) *domain.Error {
	var e *domain.Error
	if errors.As(err, &e) && e.Code != domain.Internal {
		return e
	}
	return nil
}

// Fault is the -32603 that says nothing.
func Fault() *RPCError { return &RPCError{Code: CodeInternal, Message: internalMessage} }

// MissingCapability is the -32021 for a request that did not declare what it
// needs. required is a ClientCapabilities object (core schema,
// MissingRequiredClientCapabilityError), what its name for people.
func MissingCapability(what string, required string) *RPCError {
	return &RPCError{
		Code:    CodeMissingCapability,
		Message: "this request needs a client that declares " + what + " in its clientCapabilities",
		Data:    json.RawMessage(`{"requiredCapabilities":` + required + `}`),
		HTTP:    http.StatusBadRequest,
	}
}

// MissingTasks is the -32021 for the tasks extension (SEP-2663).
func MissingTasks() *RPCError {
	return MissingCapability("the extension "+TasksExtension, `{"extensions":{"`+TasksExtension+`":{}}}`)
}

func logFault(ctx context.Context, log *slog.Logger, what string, err error) {
	if errors.Is(err, context.Canceled) && ctx.Err() != nil {
		log.DebugContext(ctx, "the caller went away", "request", what)
		return
	}
	if p, ok := errors.AsType[*panicError](err); ok {
		log.ErrorContext(ctx, "request panicked", "request", what, "panic", p.value, "stack", string(p.stack))
		return
	}
	log.ErrorContext(ctx, "request failed", "request", what, "error", cause(err))
}

// cause gives what a domain error does not show.
func cause(err error) error {
	var e *domain.Error
	if errors.As(err, &e) && errors.Unwrap(e) != nil {
		return errors.Unwrap(e)
	}
	return err
}
