//go:build linux || darwin

package command_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"go.uber.org/goleak"

	"hangar/domain"
	"hangar/domain/turn"
	"hangar/handlers/agent/command"
	"hangar/handlers/sandbox/local"
	"hangar/handlers/supervisor"
)

func TestMain(m *testing.M) {
	supervisor.Main()
	goleak.VerifyTestMain(m)
}

const (
	job      domain.JobID = "job-cccccccccccccccccccccccccc"
	patience              = 60 * time.Second // reaching it is a failure
)

// testBundle is a runner with a workspace for the job.
type testBundle struct {
	ctx    context.Context
	data   string
	runner *command.Runner
	ws     turn.Folders
}

func setup(t *testing.T, argv ...string) *testBundle {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	b := &testBundle{ctx: ctx, data: t.TempDir()}
	client, err := supervisor.New(supervisor.Options{Data: b.data, Grace: 300 * time.Millisecond})
	must(t, err)
	places, err := local.New(b.data)
	must(t, err)
	b.ws, err = places.Prepare(ctx, job)
	must(t, err)
	b.runner, err = command.New(client, argv...)
	must(t, err)
	return b
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// run runs a turn to its end, and releases it.
func (b *testBundle) run(t *testing.T, n int, prompt string, each func(turn.Line)) turn.Exit {
	t.Helper()
	id := domain.TurnOf(job, n)
	must(t, b.runner.Start(b.ctx, turn.Assignment{
		Turn: id, Agent: "shell", Prompt: prompt, Env: map[string]string{"GREETING": "hello"},
		Deadline: time.Now().Add(patience), Workspace: b.ws,
	}))
	for after := 0; ; {
		line, err := b.runner.Next(b.ctx, id, after)
		must(t, err)
		after = line.N
		if each != nil {
			each(line)
		}
		if line.Kind == turn.LineExited {
			must(t, b.runner.Release(b.ctx, id, filepath.Join(b.data, "output", string(job), "1")))
			return *line.Exit
		}
	}
}

func TestShellRunsThePrompt(t *testing.T) {
	t.Parallel()
	b := setup(t)
	e := b.run(t, 1, `echo "$GREETING $(hangar ask 'who?')"; echo made >file`, func(l turn.Line) {
		if l.Kind == turn.LineAsked {
			must(t, b.runner.Answer(b.ctx, domain.TurnOf(job, 1), l.Ask, json.RawMessage(`"world"`)))
		}
	})
	if e.Reason != turn.ExitCompleted || e.Message != "hello world\n" || e.Summary != "hello world" {
		t.Errorf("exit %+v", e)
	}
	if got, err := os.ReadFile(filepath.Join(b.data, "output", string(job), "1")); err != nil || string(got) != "hello world\n" {
		t.Errorf("output %q, %v", got, err)
	}
	// A follow-up is a new script in the same workspace.
	if e := b.run(t, 2, "cat file; exit 3", nil); e.Code != turn.AgentExited || e.ExitCode != 3 || e.Message != "made\n" {
		t.Errorf("exit %+v", e)
	}
}

func TestConfiguredCommand(t *testing.T) {
	t.Parallel()
	b := setup(t, "sh", "-c", `echo "$1:"; cat "$2"`, "sh", "given", command.PromptFile)
	if e := b.run(t, 1, "the prompt", nil); e.Message != "given:\nthe prompt" {
		t.Errorf("exit %+v", e)
	}
}

func TestStop(t *testing.T) {
	t.Parallel()
	b := setup(t)
	e := b.run(t, 1, "hangar ask x; sleep 1000", func(l turn.Line) {
		if l.Kind == turn.LineAsked {
			must(t, b.runner.Stop(b.ctx, domain.TurnOf(job, 1)))
		}
	})
	if e.Reason != turn.ExitCancelled {
		t.Errorf("exit %+v", e)
	}
	if _, err := b.runner.Next(b.ctx, domain.TurnOf(job, 1), 0); !errors.Is(err, turn.ErrUnknownTurn) {
		t.Errorf("a released turn: %v", err)
	}
}

func TestCommandLineOfNothing(t *testing.T) {
	t.Parallel()
	if _, err := command.New(nil, " "); domain.CodeOf(err) != domain.Invalid {
		t.Errorf("err %v", err)
	}
}
