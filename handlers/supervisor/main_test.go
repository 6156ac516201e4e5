package supervisor_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"hangar/domain"
	"hangar/domain/turn"
	"hangar/handlers/supervisor"
)

func TestMain(m *testing.M) {
	supervisor.Main()
	actOut()
	goleak.VerifyTestMain(m)
}

// patience bounds every wait of a test; reaching it is a failure.
const patience = 60 * time.Second

// bench is one data folder with its client, and a workspace in it.
type bench struct {
	t      *testing.T
	ctx    context.Context
	data   string
	client *supervisor.Client
	ws     turn.Folders
}

var turns atomic.Int64

func setup(t *testing.T) *bench {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	data := t.TempDir()
	b := &bench{t: t, ctx: ctx, data: data}
	b.client = b.newClient()
	root := filepath.Join(data, "ws", "job")
	b.ws = turn.Folders{Root: root, Repo: root + "/repo", Home: root + "/home", Tmp: root + "/tmp", Bin: root + "/bin"}
	for _, dir := range []string{b.ws.Repo, b.ws.Home, b.ws.Tmp, b.ws.Bin} {
		must(t, os.MkdirAll(dir, 0o700))
	}
	return b
}

func (b *bench) newClient() *supervisor.Client {
	b.t.Helper()
	c, err := supervisor.New(supervisor.Options{Data: b.data, Grace: 300 * time.Millisecond})
	must(b.t, err)
	return c
}

// turn names a new turn, and ends its agent when the test does.
func (b *bench) turn() domain.TurnID {
	n := turns.Add(1)
	id := domain.TurnOf(domain.JobID(domain.EntityID("job", domain.CommandID(fmt.Sprint(os.Getpid(), b.data, n)))), 1)
	b.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(b.t.Context()), patience)
		defer cancel()
		if err := b.client.Stop(ctx, id); err != nil {
			b.t.Error("stop:", err)
		}
		for after := 0; ; after++ {
			if _, err := b.client.Next(ctx, id, after); err != nil {
				break
			}
		}
		if err := b.client.Release(ctx, id, ""); err != nil {
			b.t.Error("release:", err)
		}
	})
	return id
}

// start runs a script as an agent.
func (b *bench) start(script string, change ...func(*turn.Process)) domain.TurnID {
	b.t.Helper()
	p := turn.Process{
		Turn: b.turn(), Argv: []string{"bash", "{prompt_file}"}, Prompt: script,
		Deadline: time.Now().Add(2 * patience), Workspace: b.ws,
	}
	for _, c := range change {
		c(&p)
	}
	must(b.t, b.client.Start(b.ctx, p))
	return p.Turn
}

// until reads lines to the first of a kind.
func (b *bench) until(id domain.TurnID, kind turn.Kind) turn.Line {
	b.t.Helper()
	lines := b.lines(b.client, id, kind)
	return lines[len(lines)-1]
}

func (b *bench) lines(c *supervisor.Client, id domain.TurnID, kind turn.Kind) []turn.Line {
	b.t.Helper()
	var list []turn.Line
	for {
		line, err := c.Next(b.ctx, id, len(list))
		if err != nil {
			b.t.Fatalf("after %d lines: %v", len(list), err)
		}
		list = append(list, line)
		if line.N != len(list) || line.BootID == "" || line.Time == "" {
			b.t.Fatalf("line %+v at place %d", line, len(list))
		}
		if line.Kind == kind {
			return list
		}
		if line.Kind == turn.LineExited {
			b.t.Fatalf("no %s line; exit %+v", kind, line.Exit)
		}
	}
}

func (b *bench) exit(id domain.TurnID) turn.Exit {
	b.t.Helper()
	return *b.until(id, turn.LineExited).Exit
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestAgentCompletes(t *testing.T) {
	t.Parallel()
	b := setup(t)
	id := b.start("echo out; echo err >&2; pwd; echo $HOME $TMPDIR; cat; hangar step 'half way'")
	lines := b.lines(b.client, id, turn.LineExited)
	if len(lines) != 3 || lines[0].Kind != turn.LineStarted || lines[1].Text != "half way" {
		t.Fatalf("lines %+v", lines)
	}
	e := lines[2].Exit
	want := fmt.Sprintf("out\nerr\n%s\n%s %s\n", b.ws.Repo, b.ws.Home, b.ws.Tmp)
	if e.Reason != turn.ExitCompleted || e.ExitCode != 0 || e.Message != want || e.Summary != "half way" {
		t.Errorf("exit %+v", e)
	}
	if _, err := b.client.Next(b.ctx, id, 3); !errors.Is(err, turn.ErrLost) {
		t.Errorf("after the last line: %v", err)
	}
	to := filepath.Join(b.data, "output", "1")
	must(t, b.client.Release(b.ctx, id, to))
	must(t, b.client.Release(b.ctx, id, to))
	got, err := os.ReadFile(to)
	must(t, err)
	if string(got) != want || e.Output.Bytes != int64(len(want)) || e.Output.Kept != e.Output.Bytes || e.Output.SHA256 != domain.Sum(got) {
		t.Errorf("output %q, said %+v", got, e.Output)
	}
	if _, err := b.client.Next(b.ctx, id, 0); !errors.Is(err, turn.ErrUnknownTurn) {
		t.Errorf("after release: %v", err)
	}
}

func TestAgentFails(t *testing.T) {
	t.Parallel()
	b := setup(t)
	if e := b.exit(b.start("echo no luck; exit 7")); e.Reason != turn.ExitFailed || e.Code != turn.AgentExited || e.ExitCode != 7 || e.Summary != "no luck" {
		t.Errorf("exit %+v", e)
	}
	if e := b.exit(b.start("kill -9 $$")); e.Code != turn.AgentExited || e.ExitCode != -1 || e.Signal != "SIGKILL" {
		t.Errorf("exit %+v", e)
	}
	e := b.exit(b.start("", func(p *turn.Process) { p.Argv = []string{"no-such-agent"} }))
	if e.Reason != turn.ExitFailed || e.Code != turn.AgentStart || !strings.Contains(e.Message, "no-such-agent") {
		t.Errorf("exit %+v", e)
	}
}

func TestAgentAsks(t *testing.T) {
	t.Parallel()
	b := setup(t)
	id := b.start(`a=$(hangar ask 'Which one?' --option left --option=right) || exit 9; echo "took $a"; hangar ask more`)
	asked := b.until(id, turn.LineAsked)
	if asked.Ask != 1 || asked.Text != "Which one?" || strings.Join(asked.Options, ",") != "left,right" {
		t.Fatalf("asked %+v", asked)
	}
	must(t, b.client.Answer(b.ctx, id, 2, json.RawMessage(`"too early"`)))
	for range 3 {
		must(t, b.client.Answer(b.ctx, id, 1, json.RawMessage(`{"answer":"left"}`)))
	}
	must(t, b.client.Answer(b.ctx, id, 1, json.RawMessage(`"right"`)))
	line, err := b.client.Next(b.ctx, id, asked.N)
	must(t, err)
	if line.Kind != turn.LineAnswered || line.Ask != 1 {
		t.Fatalf("answered %+v", line)
	}
	line, err = b.client.Next(b.ctx, id, line.N)
	must(t, err)
	if line.Kind != turn.LineAsked || line.Ask != 2 {
		t.Fatalf("second question %+v", line)
	}
	must(t, b.client.Answer(b.ctx, id, 2, json.RawMessage(`"fine"`)))
	if e := b.exit(id); e.Reason != turn.ExitCompleted || e.Message != "took left\nfine\n" {
		t.Errorf("exit %+v", e)
	}
}

func TestUnknownTurn(t *testing.T) {
	t.Parallel()
	b := setup(t)
	id := b.turn()
	if _, err := b.client.Next(b.ctx, id, 0); !errors.Is(err, turn.ErrUnknownTurn) {
		t.Errorf("next: %v", err)
	}
	must(t, b.client.Stop(b.ctx, id))
	must(t, b.client.Answer(b.ctx, id, 1, json.RawMessage(`"x"`)))
	must(t, b.client.Release(b.ctx, id, ""))
	for _, bad := range []domain.TurnID{"", "x", "../x.1", "a/b.1", "job.0"} {
		if _, err := b.client.Next(b.ctx, bad, 0); domain.CodeOf(err) != domain.Invalid {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

// read waits for a file that an agent writes; a signal of its own, not a sleep.
func (b *bench) read(path string) []byte {
	b.t.Helper()
	for {
		if got, err := os.ReadFile(path); err == nil && bytes.HasSuffix(got, []byte("\n")) {
			return got
		}
		select {
		case <-b.ctx.Done():
			b.t.Fatalf("%s never came", path)
		case <-time.After(5 * time.Millisecond):
		}
	}
}

func TestWaitingEndsWithItsContext(t *testing.T) {
	t.Parallel()
	b := setup(t)
	id := b.start("hangar ask x")
	asked := b.until(id, turn.LineAsked)
	ctx, cancel := context.WithCancel(b.ctx)
	done := make(chan error, 1)
	go func() {
		_, err := b.client.Next(ctx, id, asked.N)
		done <- err
	}()
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("next: %v", err)
	}
	p := turn.Process{Turn: b.turn(), Argv: []string{"true"}, Workspace: b.ws}
	if err := b.client.Start(ctx, p); !errors.Is(err, context.Canceled) {
		t.Errorf("start: %v", err)
	}
	must(t, b.client.Answer(b.ctx, id, asked.Ask, json.RawMessage(`"still here"`)))
	if e := b.exit(id); e.Summary != "still here" {
		t.Errorf("exit %+v", e)
	}
	if err := b.client.Answer(b.ctx, id, 1, json.RawMessage(`{`)); domain.CodeOf(err) != domain.Invalid {
		t.Errorf("an answer that is not JSON: %v", err)
	}
}
