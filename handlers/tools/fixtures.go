package tools

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"hangar/commands"
	"hangar/domain"
	"hangar/domain/access"
	"hangar/domain/job"
	"hangar/domain/turn"
	"hangar/handlers/mcp"
	"hangar/projections"
)

// scripted is the agent that runs the fixtures' jobs.
const scripted = "scripted"

// anyForm is the form of a fixture's question. It is open: the suite answers every
// question with the same members.
const anyForm = `{"type":"object","properties":{"name":{"type":"string"},"confirm":{"type":"boolean"}}}`

// script makes the script of a fixture's job from the call's arguments.
type script func(fixtureArgs) []string

// fixtureArgs are the arguments of all fixtures together.
type fixtureArgs struct {
	Name     string   `json:"name,omitempty"`
	Seconds  *float64 `json:"seconds,omitempty"`
	Label    string   `json:"label,omitempty"`
	Filename string   `json:"filename,omitempty"`
}

// fixtureTools are what the conformance suite wants of a server for its scenarios
// about tasks. Each task's subject is a job, as with the real tools.
func (c *Catalogue) fixtureTools() []*mcp.Tool {
	none := definition(`{"type":"object"}`)
	name := definition(`{"type":"object","properties":{"name":{"type":"string"}},"required":["name"]}`)
	compute := definition(`{"type":"object","properties":{"seconds":{"type":"number","minimum":0},"label":{"type":"string"}}}`)
	file := definition(`{"type":"object","properties":{"filename":{"type":"string"}},"required":["filename"]}`)

	fixture := func(name, description string, schema json.RawMessage, s script) *mcp.Tool {
		return &mcp.Tool{Name: name, Description: description, InputSchema: schema,
			Budget: mcp.Long, Scope: access.Jobs, Handle: c.fixture(inputsOf(name, schema), s)}
	}
	requires := func(t *mcp.Tool) *mcp.Tool { t.RequiresTasks = true; return t }

	withTask := fixture("test_tool_with_task", "Asks for a name, then greets it as a task.", none, nil)
	withTask.Handle = c.askFirst(inputsOf(withTask.Name, none), func(a fixtureArgs) []string {
		return []string{"say Hello, " + line(a.Name) + "!"}
	})
	return []*mcp.Tool{
		{Name: "greet", Description: "Greets, at once.", InputSchema: name, ReadOnly: true, Idempotent: true,
			Budget: mcp.Accept, Scope: access.Jobs, Handle: greet(inputsOf("greet", name))},
		fixture("slow_compute", "Works for some seconds.", compute, func(a fixtureArgs) []string {
			seconds := *a.Seconds
			return []string{"step computing " + line(a.Label), "work " + strconv.FormatFloat(seconds, 'f', -1, 64) + "s",
				"say computed " + line(a.Label)}
		}),
		requires(fixture("failing_job", "Fails in its work.", none, func(fixtureArgs) []string {
			return []string{"say this job fails", "fail 1"}
		})),
		fixture("protocol_error_job", "Fails as a call.", none, func(fixtureArgs) []string {
			return []string{"fail " + turn.ProtocolError}
		}),
		requires(fixture("confirm_delete", "Asks before it would delete a file.", file, func(a fixtureArgs) []string {
			return []string{pose("Delete " + line(a.Filename) + "?"), "await", "say confirm_delete " + line(a.Filename) + ": {answer}"}
		})),
		requires(fixture("multi_input", "Asks two things at once.", none, func(fixtureArgs) []string {
			return []string{pose("The first name?"), pose("The second name?"), "await", "say both were answered"}
		})),
		withTask,
	}
}

// line makes one line of a script of a text: what would end it becomes a space.
func line(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || r == '\u2028' || r == '\u2029' {
			return ' '
		}
		return r
	}, clip(text, maxNameBytes))
}

func pose(text string) string {
	b, err := mcp.Marshal(struct {
		Text   string          `json:"text"`
		Schema json.RawMessage `json:"schema"`
	}{text, json.RawMessage(anyForm)})
	if err != nil {
		panic(err) // a string and a constant
	}
	return "pose " + string(b)
}

func greet(in inputs) mcp.Handler {
	return func(_ context.Context, call *mcp.Call) (mcp.Outcome, error) {
		var a fixtureArgs
		if err := in.read(call.Arguments, &a); err != nil {
			return nil, err
		}
		return text("Hello, " + a.Name + "!"), nil
	}
}

func text(s string) *mcp.Result {
	return &mcp.Result{Content: []sdk.Content{&sdk.TextContent{Text: s}}}
}

// maxSeconds bounds how long slow_compute works: an hour.
const maxSeconds = 3600

func (a *fixtureArgs) check() error {
	if a.Seconds == nil {
		a.Seconds = new(float64)
	}
	if *a.Seconds < 0 || *a.Seconds > maxSeconds {
		return domain.InvalidField("seconds", "%v is not a number from 0 to %d", *a.Seconds, maxSeconds)
	}
	return nil
}

// fixture submits a job that runs the script; its task is the answer, or where
// the call takes none, what came of the job within the budget.
func (c *Catalogue) fixture(in inputs, s script) mcp.Handler {
	return func(ctx context.Context, call *mcp.Call) (mcp.Outcome, error) {
		var a fixtureArgs
		if err := in.read(call.Arguments, &a); err != nil {
			return nil, err
		}
		if err := a.check(); err != nil {
			return nil, err
		}
		return c.play(ctx, call, a, s)
	}
}

func (c *Catalogue) play(ctx context.Context, call *mcp.Call, a fixtureArgs, s script) (mcp.Outcome, error) {
	hash, err := argsHash(a)
	if err != nil {
		return nil, err
	}
	r, err := c.Commands.SubmitJob(ctx, origin(call.Caller, c.Commands.NewID()), commands.SubmitJob{Submitted: job.Submitted{
		ArgsHash: hash, Title: call.Tool, Prompt: strings.Join(s(a), "\n"), Agent: scripted, Task: c.request(call, hash),
	}})
	if err != nil {
		return nil, err
	}
	return c.handOut(ctx, call, r, func() (mcp.Outcome, error) { return c.outcome(ctx, r.Job.ID) })
}

// outcome waits for the first turn of a job to end, within the budget, and tells
// what came of it.
func (c *Catalogue) outcome(ctx context.Context, id domain.JobID) (mcp.Outcome, error) {
	wait, cancel := context.WithTimeout(ctx, c.Wait)
	defer cancel()
	s, err := projections.Await(wait, c.Folds, projections.Jobs, domain.Stream(id), func(s *job.State) bool {
		t := s.Turn(1)
		return t != nil && t.End != nil
	})
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err() // nobody waits any more; the job goes on
	case errors.Is(err, context.DeadlineExceeded):
		return text(fmt.Sprintf("the job %s is not done yet", id)), nil
	case err != nil:
		return nil, err
	}
	end := s.Turn(1).End
	if end.Code == turn.ProtocolError {
		return nil, errors.New("the tool call failed, as it was to")
	}
	r := text(said(end))
	r.IsError = end.Status == turn.StatusFailed
	return r, nil
}

// nameKey is under which test_tool_with_task asks for a name.
const nameKey = "user_name"

// askFirst asks for a name within the call (SEP-2322), and goes on as a task once
// it has one.
func (c *Catalogue) askFirst(in inputs, s script) mcp.Handler {
	return func(ctx context.Context, call *mcp.Call) (mcp.Outcome, error) {
		var a fixtureArgs
		if err := in.read(call.Arguments, &a); err != nil {
			return nil, err
		}
		raw, answered := call.InputResponses[nameKey]
		if !answered {
			params, err := elicitation("What is your name?", json.RawMessage(`{"type":"object","properties":{"name":{"type":"string"}},"required":["name"]}`))
			if err != nil {
				return nil, err
			}
			return &mcp.InputRequired{Requests: map[string]mcp.InputRequest{nameKey: {Method: mcp.MethodElicit, Params: params}}}, nil
		}
		var r struct {
			Action  string `json:"action"`
			Content struct {
				Name string `json:"name"`
			} `json:"content"`
		}
		if err := json.Unmarshal(raw, &r); err != nil {
			return nil, domain.InvalidField(nameKey, `want {"action": "accept", "content": {"name": …}}, or another action`)
		}
		if r.Action != "accept" {
			return text("no name was given"), nil
		}
		a.Name = r.Content.Name
		return c.play(ctx, call, a, s)
	}
}

// trimLines drops the empty lines around a text.
func trimLines(s string) string { return strings.Trim(s, "\r\n") }
