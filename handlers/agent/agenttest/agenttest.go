// Package agenttest is the one suite that every kind of agent passes: what a
// turn's journal says of it, whatever runs it.
//
// A kind of agent is told what to do by its prompt, so each kind brings its own
// Prompts. The cases wait on lines of the journal and never sleep, and so hold
// inside a testing/synctest bubble as well as on processes.
package agenttest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"hangar/domain"
	"hangar/domain/turn"
	"hangar/handlers/agent"
)

// Patience is how long a case waits for an agent before it fails.
const Patience = 60 * time.Second

// Setup is one kind of agent under test. It is made anew for every case; what it
// holds is ended by t.Cleanup.
type Setup struct {
	Runner  agent.Runner
	Prompts Prompts
	// Workspace makes the folders of one turn. Nil makes plain ones below
	// t.TempDir, with an empty Repo.
	Workspace func(t testing.TB) turn.Folders
	// Restart gives the runner that a server finds after it was killed and
	// started again; the one before is not used any more. Nil leaves out the case.
	Restart func(t testing.TB) agent.Runner
	// Survives says that agents go on through a restart. Otherwise they are lost.
	Survives bool
}

// Prompts tell an agent of this kind what to do. All are needed.
type Prompts struct {
	Say  func(text string) string     // print the text, end well
	Fail func(exitCode int) string    // end with the exit code
	Step func(texts ...string) string // report the steps at once, one after another, end well
	// Ask asks, waits, prints "answer: " and the answer, ends well.
	Ask func(question string, options ...string) string
	// Result reports each value as the result, also when one before it was
	// refused, and ends well.
	Result func(values ...string) string
	// Artifact makes a file that holds the text, keeps it under the name, ends well.
	Artifact func(name, text string) string
	Flood    func(bytes int) string // print so many bytes, end well
	Hang     string                 // run until stopped
	// Lose is a prompt whose agent goes, or runs until Kill ends it and whatever
	// watches it, without a last line.
	Lose string
	// Kill does that from outside. Nil where the prompt is enough.
	Kill func(t testing.TB, id domain.TurnID)
}

// Run runs every case on its own Setup.
func Run(t *testing.T, setup func(t *testing.T) Setup) {
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			runCase(t, setup, c.run)
		})
	}
}

// RunInBubble runs every case in a testing/synctest bubble of its own. It is for
// agents without processes and sockets.
func RunInBubble(t *testing.T, setup func(t *testing.T) Setup) {
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { runCase(t, setup, c.run) })
		})
	}
}

func runCase(t *testing.T, setup func(t *testing.T) Setup, run func(*bench)) {
	s := setup(t)
	if s.Workspace == nil {
		s.Workspace = Workspace
	}
	ctx, cancel := context.WithTimeout(t.Context(), Patience)
	t.Cleanup(cancel)
	run(&bench{T: t, Setup: s, ctx: ctx})
}

// Workspace makes plain folders below t.TempDir: the clone is an empty folder.
func Workspace(t testing.TB) turn.Folders {
	t.Helper()
	root := t.TempDir()
	f := turn.Folders{Root: root, Repo: root + "/repo", Home: root + "/home", Tmp: root + "/tmp", Bin: root + "/bin"}
	mkdirs(t, f.Repo, f.Home, f.Tmp, f.Bin)
	return f
}

// bench is what one case works with.
type bench struct {
	*testing.T
	Setup
	ctx   context.Context
	turns int
}

// assignment makes an assignment with a turn id and a workspace of its own.
func (b *bench) assignment(prompt string) turn.Assignment {
	b.Helper()
	b.turns++
	job := domain.JobID(domain.EntityID("job", domain.CommandID(fmt.Sprintf("%s %d", b.Name(), b.turns))))
	return turn.Assignment{
		Turn: domain.TurnOf(job, 1), Agent: "agent under test", Prompt: prompt,
		Deadline: time.Now().Add(time.Hour), Workspace: b.Workspace(b),
	}
}

// start begins a turn with the prompt.
func (b *bench) start(prompt string) turn.Assignment {
	b.Helper()
	a := b.assignment(prompt)
	b.startAs(a)
	return a
}

func (b *bench) startAs(a turn.Assignment) {
	b.Helper()
	if err := b.Runner.Start(b.ctx, a); err != nil {
		b.Fatalf("Start: %v", err)
	}
}

// until reads lines from the first on until one of the kind.
func (b *bench) until(id domain.TurnID, kind turn.Kind) []turn.Line {
	b.Helper()
	lines, err := read(b.ctx, b.Runner, id, kind)
	if err != nil {
		b.Fatalf("Next, while waiting for %q: %v; so far:%s", kind, err, show(lines))
	}
	return lines
}

// whole reads the turn to its last line, which it returns too, and checks what
// is true of every journal.
func (b *bench) whole(id domain.TurnID) (lines []turn.Line, exit turn.Exit) {
	b.Helper()
	lines = b.until(id, turn.LineExited)
	check(b, lines)
	last := lines[len(lines)-1]
	if last.Exit == nil {
		b.Fatalf("the last line tells no exit:%s", show(lines))
	}
	return lines, *last.Exit
}

// read reads lines from the first on until one of the kind. It calls nothing of
// testing.T, so any goroutine may.
func read(ctx context.Context, r agent.Runner, id domain.TurnID, kind turn.Kind) ([]turn.Line, error) {
	var lines []turn.Line
	for {
		line, err := r.Next(ctx, id, len(lines))
		if err != nil {
			return lines, err
		}
		lines = append(lines, line)
		if line.Kind == kind {
			return lines, nil
		}
		if line.Kind == turn.LineExited {
			return lines, fmt.Errorf("the turn ended without a line %q", kind)
		}
	}
}

// check is what is true of every journal.
func check(t testing.TB, lines []turn.Line) {
	t.Helper()
	for i, line := range lines {
		if line.N != i+1 {
			t.Errorf("line %d has the number %d", i+1, line.N)
		}
		if line.BootID == "" || line.BootID != lines[0].BootID {
			t.Errorf("line %d has the boot id %q, the first %q", line.N, line.BootID, lines[0].BootID)
		}
		at, err := domain.ParseTime(line.Time)
		if err != nil || domain.FormatTime(at) != line.Time {
			t.Errorf("line %d has the time %q, which is not in the stored form", line.N, line.Time)
		}
		if first := line.Kind == turn.LineStarted; first != (i == 0) {
			t.Errorf("line %d of %d is %q", line.N, len(lines), line.Kind)
		}
	}
}

// of picks the lines of one kind.
func of(lines []turn.Line, kind turn.Kind) []turn.Line {
	var some []turn.Line
	for _, line := range lines {
		if line.Kind == kind {
			some = append(some, line)
		}
	}
	return some
}

// show prints lines for people.
func show(lines []turn.Line) string {
	var s strings.Builder
	for _, line := range lines {
		fmt.Fprintf(&s, "\n\t%d %s %q", line.N, line.Kind, line.Text)
		if line.Exit != nil {
			fmt.Fprintf(&s, " %+v", *line.Exit)
		}
	}
	return s.String()
}

// completed fails the case unless the turn ended well.
func (b *bench) completed(exit turn.Exit) {
	b.Helper()
	if exit.Reason != turn.ExitCompleted || exit.ExitCode != 0 || exit.Signal != "" || exit.Code != "" {
		b.Fatalf("exit %+v, want completed", exit)
	}
}

// wants fails the case unless err is target.
func (b *bench) wants(what string, err, target error) {
	b.Helper()
	if !errors.Is(err, target) {
		b.Fatalf("%s: %v, want %v", what, err, target)
	}
}
