// Package command runs agents of the kind command: a configured command line, run
// in the workspace under a supervisor. The agent that Hangar comes with, shell, is
// one: its prompt is a script for bash.
//
// What the agent prints is its output, its exit code its outcome; hangar ask, step,
// result, artifact and pr on its PATH do the rest. It cannot resume: a question of
// an agent that is gone stays unanswered.
package command

import (
	"context"
	"encoding/json"
	"slices"
	"strings"

	"hangar/domain"
	"hangar/domain/turn"
	"hangar/handlers/agent"
)

// PromptFile stands in a command line for the file that holds the prompt.
const PromptFile = "{prompt_file}"

// Shell is the command line of the embedded default agent: the prompt is a script.
var Shell = []string{"bash", PromptFile}

// Supervisor keeps the processes of agents: *supervisor.Client.
type Supervisor interface {
	Start(ctx context.Context, p turn.Process) error
	Next(ctx context.Context, id domain.TurnID, after int) (turn.Line, error)
	Answer(ctx context.Context, id domain.TurnID, ask int, answer json.RawMessage) error
	Stop(ctx context.Context, id domain.TurnID) error
	Release(ctx context.Context, id domain.TurnID, outputTo string) error
}

// Runner is one configured command line. See agent.Runner for its methods.
type Runner struct {
	supervisor Supervisor
	argv       []string
}

var _ agent.Runner = (*Runner)(nil)

// New makes a runner of a command line; without one it is Shell.
func New(s Supervisor, argv ...string) (*Runner, error) {
	if len(argv) == 0 {
		argv = Shell
	}
	if strings.TrimSpace(argv[0]) == "" {
		return nil, domain.InvalidField("argv", "begins with an empty word: there is no program to run")
	}
	return &Runner{supervisor: s, argv: slices.Clone(argv)}, nil
}

// Start runs the command line for a turn, unless it was begun before.
func (r *Runner) Start(ctx context.Context, a turn.Assignment) error {
	return r.supervisor.Start(ctx, turn.Process{
		Turn:         a.Turn,
		Argv:         r.argv,
		Prompt:       a.Prompt,
		Env:          a.Env,
		Deadline:     a.Deadline,
		OutputSchema: a.OutputSchema,
		Workspace:    a.Workspace,
	})
}

// Next waits for the journal's first line numbered above after.
func (r *Runner) Next(ctx context.Context, id domain.TurnID, after int) (turn.Line, error) {
	return r.supervisor.Next(ctx, id, after)
}

// Answer answers the turn's ask-th question, which its helper waits for.
func (r *Runner) Answer(ctx context.Context, id domain.TurnID, ask int, answer json.RawMessage) error {
	return r.supervisor.Answer(ctx, id, ask, answer)
}

// Stop asks the command to end, and makes it.
func (r *Runner) Stop(ctx context.Context, id domain.TurnID) error {
	return r.supervisor.Stop(ctx, id)
}

// Release lets go of what was kept of the turn.
func (r *Runner) Release(ctx context.Context, id domain.TurnID, outputTo string) error {
	return r.supervisor.Release(ctx, id, outputTo)
}
