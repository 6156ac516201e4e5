// Package mcp is what an MCP request means, whichever wire it came over: the
// registry of tools, what a call is given and may answer, and how a failure is
// told. The wires are below it (modern, legacy); the catalogue is in handlers/tools.
package mcp

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"hangar/domain"
	"hangar/domain/access"
	"hangar/domain/turn"
)

// TasksExtension is the id of the tasks extension (SEP-2663).
const TasksExtension = "io.modelcontextprotocol/tasks"

// Budget is how a tool keeps the promise to answer in time.
type Budget int

// The budget classes (facts of each in the catalogue).
const (
	Accept Budget = iota // records intent and answers at once
	Long                 // detached work; answers within the budget with the state so far
	Wait                 // a wait clamped to the budget
	Exec                 // a command clamped to the budget
	Read                 // cut off at 1.1 times the budget
)

// Caller is who sent a request, as far as the wire could establish it.
type Caller struct {
	Owner  domain.Owner
	Scopes access.Scopes
	// Capabilities are those that this very request declared.
	Capabilities turn.Capabilities
	// Tasks is whether this very request declared the tasks extension.
	Tasks bool
	// Traceparent is the request's W3C trace context, "" for none.
	Traceparent string
	// CorrelationID ties together what follows from one request.
	CorrelationID string
}

// Call is one tools/call.
type Call struct {
	Caller
	Tool      string
	Arguments json.RawMessage // a JSON object, never nil
	// InputResponses and State are those of a retry (SEP-2322); State is what the
	// handler returned before, verified to be this caller's and this call's.
	InputResponses map[string]json.RawMessage
	State          json.RawMessage
	// Progress reports progress; it does nothing where the request gave no token.
	Progress func(progress, total float64, message string)
}

// Handler does one call. ctx ends with the caller's patience, never with the
// work that must be finished. A *domain.Error about an argument or a state
// becomes a tool result with isError; any other error the request's -32603.
type Handler func(ctx context.Context, call *Call) (Outcome, error)

// Outcome is one of *Result, *Task and *InputRequired.
type Outcome interface{ outcome() }

// Result is a finished call.
type Result struct {
	Content    []sdk.Content
	Structured json.RawMessage // structuredContent; empty for none
	IsError    bool
	Meta       map[string]any
}

// InputRequired asks the caller something before the call can go on (SEP-2322).
type InputRequired struct {
	Requests map[string]InputRequest
	// State comes back with the retry. The wire seals it.
	State json.RawMessage
}

// InputRequest is one question to a client, the same in a call and in a task.
type InputRequest struct {
	Method string          `json:"method"`
	Params json.RawMessage `json:"params,omitempty"`
}

// Status is a task's status on the wire.
type Status string

// The statuses of SEP-2663.
const (
	Working       Status = "working"
	InputRequests Status = "input_required"
	Completed     Status = "completed"
	Failed        Status = "failed"
	Cancelled     Status = "cancelled"
)

// Task is a task as a client sees it. From tools/call it is the handle alone;
// from tasks/get and notifications it carries what its status demands.
type Task struct {
	ID             domain.TaskID `json:"taskId"`
	Status         Status        `json:"status"`
	StatusMessage  string        `json:"statusMessage,omitempty"`
	CreatedAt      string        `json:"createdAt"`
	LastUpdatedAt  string        `json:"lastUpdatedAt"`
	TTLMs          *int64        `json:"ttlMs"` // null is unlimited
	PollIntervalMs int64         `json:"pollIntervalMs,omitempty"`

	InputRequests map[string]InputRequest `json:"inputRequests,omitempty"` // input_required
	Result        json.RawMessage         `json:"result,omitempty"`        // completed: the tool's result, with resultType
	Error         *TaskError              `json:"error,omitempty"`         // failed

	Meta map[string]any `json:"_meta,omitempty"`
}

// TaskError is the JSON-RPC error of a failed task.
type TaskError struct {
	Code    int             `json:"code"`
	Message string          `json:"message"`
	Data    json.RawMessage `json:"data,omitempty"`
}

func (*Result) outcome()        {}
func (*InputRequired) outcome() {}
func (*Task) outcome()          {}

// Tool is one tool of the catalogue.
type Tool struct {
	Name         string
	Description  string
	InputSchema  json.RawMessage
	OutputSchema json.RawMessage // empty for none; open where there is one
	// The four hints, each explicit on the wire.
	ReadOnly, Destructive, Idempotent, OpenWorld bool

	Budget Budget
	// Scope is what a token needs to see and call the tool.
	Scope access.Scope
	// RequiresTasks: a request that did not declare the extension is refused.
	RequiresTasks bool
	// Hidden tools answer and are not listed.
	Hidden bool
	// Foreign tools are another server's: their schemas are listed as they are,
	// never compiled, and that server judges the arguments.
	Foreign bool

	Handle Handler
}

// Registry is the list of tools an endpoint serves, fixed once it serves. All
// that can be worked out from a definition is worked out here, once: its bytes in
// a listing, its compiled schema, the arguments that headers mirror.
type Registry struct {
	tools map[string]*entry
	order []*entry
	views sync.Map // of scope mask to *View
}

// entry is a tool and what follows from its definition.
type entry struct {
	*Tool
	definition json.RawMessage
	arguments  *arguments
	headers    []ParamHeader
}

// NewRegistry makes a registry of the tools, in the order they are listed.
// A name given twice, and a schema of our own that does not compile, are faults
// of the program and panic.
func NewRegistry(tools ...*Tool) *Registry {
	r := &Registry{tools: make(map[string]*entry, len(tools))}
	for _, t := range tools {
		if _, twice := r.tools[t.Name]; twice {
			panic(fmt.Sprintf("tool %s is registered twice", t.Name))
		}
		e, err := newEntry(t)
		if err != nil {
			panic(fmt.Sprintf("tool %s: %v", t.Name, err))
		}
		r.tools[t.Name] = e
		r.order = append(r.order, e)
	}
	return r
}

func newEntry(t *Tool) (*entry, error) {
	definition, err := marshalDefinition(t)
	if err != nil {
		return nil, err
	}
	e := &entry{Tool: t, definition: definition}
	e.headers, err = paramHeaders(t.InputSchema)
	if t.Foreign {
		return e, nil // its own server judges what it wrote
	}
	if err != nil {
		return nil, err
	}
	if e.arguments, err = compileArguments(t.Name, t.InputSchema); err != nil {
		return nil, err
	}
	return e, nil
}

// Lookup finds a tool that this caller may call. What its scopes do not reach
// looks like what is not there.
func (r *Registry) Lookup(name string, scopes access.Scopes) (*Tool, bool) {
	e, ok := r.tools[name]
	if !ok || !scopes.Allow(e.Scope) {
		return nil, false
	}
	return e.Tool, true
}

// List gives the listed tools this caller may call, in a fixed order.
func (r *Registry) List(scopes access.Scopes) []*Tool {
	var list []*Tool
	for _, e := range r.order {
		if !e.Hidden && scopes.Allow(e.Scope) {
			list = append(list, e.Tool)
		}
	}
	return list
}

// ParamHeaders gives the arguments of a tool that Mcp-Param-* headers mirror.
func (r *Registry) ParamHeaders(tool string) []ParamHeader {
	if e, ok := r.tools[tool]; ok {
		return e.headers
	}
	return nil
}

// Tasks is the ledger as a wire needs it. Every method authorizes first: what is
// not the caller's, expired or never was gives one and the same error.
type Tasks interface {
	Get(ctx context.Context, caller Caller, id domain.TaskID) (*Task, error)
	Update(ctx context.Context, caller Caller, id domain.TaskID, responses map[string]json.RawMessage) error
	Cancel(ctx context.Context, caller Caller, id domain.TaskID) error
}

// Resources are what resources/read can read.
type Resources interface {
	// Read gives the contents at a URI; NotFound for unknown and foreign alike.
	Read(ctx context.Context, caller Caller, uri string) (*sdk.ReadResourceResult, error)
	// Templates lists the URI templates that Read understands.
	Templates() []*sdk.ResourceTemplate
}
