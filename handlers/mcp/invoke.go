package mcp

import (
	"context"
	"fmt"
	"log/slog"
	"runtime/debug"
	"strings"
)

// Invoke does one call of a tool that Lookup found, the same for every wire:
// arguments that do not fit are told to the model in a result, a handler's
// *domain.Error likewise, and everything else is an *RPCError. A panic is this
// call's -32603 and nobody else's; its stack goes to the log alone.
func (r *Registry) Invoke(ctx context.Context, log *slog.Logger, call *Call) (Outcome, error) {
	e, ok := r.tools[call.Tool]
	if !ok {
		return nil, UnknownTool(call.Tool)
	}
	if call.Progress == nil {
		call.Progress = func(float64, float64, string) {}
	}
	if e.arguments != nil {
		if err := e.arguments.check(call.Arguments); err != nil {
			return ErrorResult(err), nil
		}
	}
	var out Outcome
	err := Recover(func() (err error) {
		out, err = e.Handle(ctx, call)
		return err
	})
	if err == nil {
		err = checkOutcome(out, call)
	}
	if err == nil {
		return out, nil
	}
	if result := ErrorResult(err); result != nil {
		return result, nil
	}
	return nil, ToRPC(ctx, log, "tools/call "+call.Tool, err)
}

// checkOutcome refuses what no handler may answer. A handle for a client that
// did not declare tasks on this request could never be polled (SEP-2663).
func checkOutcome(out Outcome, call *Call) error {
	switch o := out.(type) {
	case *Result:
		if o != nil {
			return nil
		}
	case *Task:
		if o != nil && !call.Tasks {
			return fmt.Errorf("the tool answered with a task to a client that did not ask for tasks")
		}
		if o != nil {
			return nil
		}
	case *InputRequired:
		if o != nil {
			return nil
		}
	}
	return fmt.Errorf("the tool answered with nothing")
}

// UnknownTool is the error for a tool that is not there, or not there for this caller.
func UnknownTool(name string) *RPCError {
	return &RPCError{Code: CodeInvalidParams, Message: fmt.Sprintf("unknown tool %q", clip(name))}
}

// panicError is a panic as an error; the stack is for the log.
type panicError struct {
	value any
	stack []byte
}

func (p *panicError) Error() string { return fmt.Sprintf("panic: %v", p.value) }

// Recover runs f and gives a panic in it as an error.
func Recover(f func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &panicError{v, debug.Stack()}
		}
	}()
	return f()
}

// clip bounds a text of the caller's that is told back to it.
func clip(s string) string {
	const most = 200 // bytes
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}
