package agenttest

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"hangar/domain"
	"hangar/domain/turn"
)

// lease is that of the turn whose lease ends.
const lease = time.Second

var cases = []struct {
	name string
	run  func(*bench)
}{
	{"a turn completes", complete},
	{"a turn fails with its exit code", fail},
	{"a question is answered and the turn goes on", answered},
	{"an answer is delivered once", answeredOnce},
	{"an answer that nobody waits for does nothing", answeredInVain},
	{"steps arrive, the latest in any case", steps},
	{"a result that fits the schema is recorded", result},
	{"an artifact is recorded", artifact},
	{"a flood of output is bounded, and kept", flood},
	{"a turn that hangs is stopped", stop},
	{"a turn that asks is stopped", stopAsking},
	{"stopping a turn that does not run does nothing", stopInVain},
	{"a lease ends", leaseEnds},
	{"Next returns when its context ends", nextCancelled},
	{"the journal is read again after the end", nextAfterEnd},
	{"an unknown turn", unknown},
	{"a turn runs once, started twice", startedTwice},
	{"many read at once", readers},
	{"Release may be repeated", release},
	{"an agent that is gone without a word is lost", lost},
	{"a restart of the server", restart},
}

func complete(b *bench) {
	a := b.start(b.Prompts.Say("Hello, world"))
	lines, exit := b.whole(a.Turn)
	b.completed(exit)
	if len(lines) != 2 {
		b.Errorf("lines, want started and exited:%s", show(lines))
	}
	if got := strings.TrimSpace(exit.Message); got != "Hello, world" {
		b.Errorf("message %q", got)
	}
	if exit.Summary != "Hello, world" {
		b.Errorf("summary %q, want the last line of output where there was no step", exit.Summary)
	}
}

func fail(b *bench) {
	a := b.start(b.Prompts.Fail(3))
	_, exit := b.whole(a.Turn)
	if exit.Reason != turn.ExitFailed || exit.ExitCode != 3 || exit.Signal != "" {
		b.Errorf("exit %+v, want failed with exit code 3", exit)
	}
	if exit.Code != "" && exit.Code != turn.AgentExited {
		b.Errorf("code %q, want none or %s", exit.Code, turn.AgentExited)
	}
}

func answered(b *bench) {
	a := b.start(b.Prompts.Ask("Which colour?", "red", "dark blue"))
	lines := b.until(a.Turn, turn.LineAsked)
	if q := lines[len(lines)-1]; q.Ask != 1 || q.Text != "Which colour?" || !slices.Equal(q.Options, []string{"red", "dark blue"}) {
		b.Errorf("question %+v", q)
	}
	b.answer(a.Turn, 1, `"dark blue"`)
	lines, exit := b.whole(a.Turn)
	b.completed(exit)
	if got := of(lines, turn.LineAnswered); len(got) != 1 || got[0].Ask != 1 {
		b.Errorf("want one line answered for the first question:%s", show(lines))
	}
	if !strings.Contains(exit.Message, "answer: dark blue") {
		b.Errorf("the agent printed %q and so has not read the answer", exit.Message)
	}
}

func answeredOnce(b *bench) {
	a := b.start(b.Prompts.Ask("Which?"))
	b.until(a.Turn, turn.LineAsked)
	b.answer(a.Turn, 1, `"one"`)
	b.answer(a.Turn, 1, `"two"`)
	lines, exit := b.whole(a.Turn)
	b.answer(a.Turn, 1, `"three"`)
	if got := of(lines, turn.LineAnswered); len(got) != 1 {
		b.Errorf("answered %d times:%s", len(got), show(lines))
	}
	if !strings.Contains(exit.Message, "answer: one") || strings.Contains(exit.Message, "two") {
		b.Errorf("the agent printed %q, want the first answer alone", exit.Message)
	}
}

func answeredInVain(b *bench) {
	a := b.start(b.Prompts.Ask("Which?"))
	b.until(a.Turn, turn.LineAsked)
	for _, n := range []int{-1, 0, 2, 1000} {
		b.answer(a.Turn, n, `"nobody's"`)
	}
	b.answer(a.Turn, 1, `"mine"`)
	lines, exit := b.whole(a.Turn)
	b.completed(exit)
	if got := of(lines, turn.LineAnswered); len(got) != 1 || got[0].Ask != 1 {
		b.Errorf("want the first question answered alone:%s", show(lines))
	}
	if !strings.Contains(exit.Message, "answer: mine") {
		b.Errorf("the agent printed %q", exit.Message)
	}
}

func (b *bench) answer(id domain.TurnID, ask int, answer string) {
	b.Helper()
	if err := b.Runner.Answer(b.ctx, id, ask, json.RawMessage(answer)); err != nil {
		b.Errorf("Answer %d: %v", ask, err)
	}
}

func steps(b *bench) {
	told := []string{"read the code", "change it", "test it"}
	a := b.start(b.Prompts.Step(told...))
	lines, exit := b.whole(a.Turn)
	b.completed(exit)
	reported := of(lines, turn.LineStep)
	if len(reported) == 0 || reported[len(reported)-1].Text != "test it" {
		b.Fatalf("want the last step in any case:%s", show(lines))
	}
	rest := told
	for _, line := range reported {
		i := slices.Index(rest, line.Text)
		if i < 0 {
			b.Fatalf("step %q was not told, or out of order:%s", line.Text, show(lines))
		}
		rest = rest[i+1:]
	}
	if exit.Summary != "test it" {
		b.Errorf("summary %q, want the last step", exit.Summary)
	}
}

func result(b *bench) {
	a := b.assignment(b.Prompts.Result(`{"files":"three"}`, `{"files":3}`))
	a.OutputSchema = json.RawMessage(`{"type":"object","properties":{"files":{"type":"integer"}},"required":["files"]}`)
	b.startAs(a)
	lines, exit := b.whole(a.Turn)
	b.completed(exit)
	got := of(lines, turn.LineResult)
	if len(got) != 1 {
		b.Fatalf("%d results, want the one that fits:%s", len(got), show(lines))
	}
	var v struct{ Files int }
	if err := json.Unmarshal(got[0].Result, &v); err != nil || v.Files != 3 {
		b.Errorf("result %s", got[0].Result)
	}
}

func artifact(b *bench) {
	a := b.start(b.Prompts.Artifact("report.txt", "all is well"))
	lines, exit := b.whole(a.Turn)
	b.completed(exit)
	got := of(lines, turn.LineArtifact)
	if len(got) != 1 || got[0].Name != "report.txt" {
		b.Fatalf("want one artifact report.txt:%s", show(lines))
	}
	if !filepath.IsLocal(got[0].Path) || strings.Contains(got[0].Path, `\`) {
		b.Fatalf("path %q, want one within the workspace, with slashes", got[0].Path)
	}
	text, err := os.ReadFile(filepath.Join(a.Workspace.Root, filepath.FromSlash(got[0].Path)))
	if err != nil || strings.TrimSpace(string(text)) != "all is well" {
		b.Errorf("the file holds %q, %v", text, err)
	}
}

func flood(b *bench) {
	const printed = turn.MaxOutputBytes + 4<<20
	a := b.start(b.Prompts.Flood(printed))
	_, exit := b.whole(a.Turn)
	b.completed(exit)
	if exit.Output.Bytes < printed {
		b.Errorf("%d bytes were printed, %d are said to be", printed, exit.Output.Bytes)
	}
	if exit.Output.Kept > turn.MaxOutputBytes || exit.Output.Kept < turn.MaxOutputBytes/2 {
		b.Errorf("%d bytes are kept, the bound is %d", exit.Output.Kept, turn.MaxOutputBytes)
	}
	if len(exit.Message) > turn.MaxMessageBytes {
		b.Errorf("a message of %d bytes", len(exit.Message))
	}
	kept := b.release(a.Turn)
	if int64(len(kept)) != exit.Output.Kept || domain.Sum(kept) != exit.Output.SHA256 {
		b.Errorf("the file has %d bytes, hash %s; the line says %+v", len(kept), domain.Sum(kept), exit.Output)
	}
}

// release releases the turn and reads its output.
func (b *bench) release(id domain.TurnID) []byte {
	b.Helper()
	file := filepath.Join(b.TempDir(), "output", "1")
	mkdirs(b, filepath.Dir(file))
	if err := b.Runner.Release(b.ctx, id, file); err != nil {
		b.Fatalf("Release: %v", err)
	}
	out, err := os.ReadFile(file)
	if err != nil {
		b.Fatal(err)
	}
	return out
}

func stop(b *bench) {
	a := b.start(b.Prompts.Hang)
	b.until(a.Turn, turn.LineStarted)
	b.stop(a.Turn)
	_, exit := b.whole(a.Turn)
	if exit.Reason != turn.ExitCancelled {
		b.Errorf("exit %+v, want cancelled", exit)
	}
}

func stopAsking(b *bench) {
	a := b.start(b.Prompts.Ask("Which?"))
	b.until(a.Turn, turn.LineAsked)
	b.stop(a.Turn)
	b.stop(a.Turn)
	lines, exit := b.whole(a.Turn)
	if exit.Reason != turn.ExitCancelled || len(of(lines, turn.LineAnswered)) != 0 {
		b.Errorf("want cancelled, and no answer:%s", show(lines))
	}
	b.answer(a.Turn, 1, `"too late"`)
	if again, _ := b.whole(a.Turn); !reflect.DeepEqual(again, lines) {
		b.Errorf("the journal changed after its last line:%s", show(again))
	}
}

func stopInVain(b *bench) {
	b.stop(b.assignment("").Turn)
	a := b.start(b.Prompts.Say("done"))
	lines, exit := b.whole(a.Turn)
	b.completed(exit)
	b.stop(a.Turn)
	if again, _ := b.whole(a.Turn); !reflect.DeepEqual(again, lines) {
		b.Errorf("the journal changed after its last line:%s", show(again))
	}
}

func (b *bench) stop(id domain.TurnID) {
	b.Helper()
	if err := b.Runner.Stop(b.ctx, id); err != nil {
		b.Errorf("Stop: %v", err)
	}
}

func leaseEnds(b *bench) {
	a := b.assignment(b.Prompts.Hang)
	a.Deadline = time.Now().Add(lease)
	b.startAs(a)
	_, exit := b.whole(a.Turn)
	if exit.Reason != turn.ExitTimeout || (exit.Code != "" && exit.Code != turn.AgentTimeout) {
		b.Errorf("exit %+v, want timeout", exit)
	}
}

func nextCancelled(b *bench) {
	a := b.start(b.Prompts.Hang)
	n := len(b.until(a.Turn, turn.LineStarted))

	ended, cancel := context.WithCancel(b.ctx)
	cancel()
	_, err := b.Runner.Next(ended, a.Turn, n)
	b.wants("Next with a context that has ended", err, context.Canceled)

	ending, cancel := context.WithCancel(b.ctx)
	failed := make(chan error)
	go func() {
		_, err := b.Runner.Next(ending, a.Turn, n)
		failed <- err
	}()
	cancel()
	b.wants("Next whose context ends", <-failed, context.Canceled)

	b.stop(a.Turn)
	b.whole(a.Turn)
}

func nextAfterEnd(b *bench) {
	a := b.start(b.Prompts.Ask("Which?"))
	b.until(a.Turn, turn.LineAsked)
	b.answer(a.Turn, 1, `"this"`)
	lines, _ := b.whole(a.Turn)
	for i, want := range lines {
		got, err := b.Runner.Next(b.ctx, a.Turn, i)
		if err != nil || !reflect.DeepEqual(got, want) {
			b.Errorf("Next after %d: %+v, %v, want %+v", i, got, err, want)
		}
	}
	_, err := b.Runner.Next(b.ctx, a.Turn, len(lines))
	b.wants("Next after the last line", err, turn.ErrLost)
}

func unknown(b *bench) {
	id := b.assignment("").Turn
	_, err := b.Runner.Next(b.ctx, id, 0)
	b.wants("Next of a turn never started", err, turn.ErrUnknownTurn)
	b.answer(id, 1, `"nobody's"`)
	if err := b.Runner.Release(b.ctx, id, ""); err != nil {
		b.Errorf("Release of a turn never started: %v", err)
	}
}

func startedTwice(b *bench) {
	a := b.assignment(b.Prompts.Ask("Which?"))
	b.startAs(a)
	b.startAs(a)
	b.until(a.Turn, turn.LineAsked)
	b.startAs(a)
	b.answer(a.Turn, 1, `"this"`)
	lines, exit := b.whole(a.Turn)
	b.completed(exit)
	b.startAs(a)
	again, _ := b.whole(a.Turn)
	if !reflect.DeepEqual(again, lines) || len(of(lines, turn.LineAsked)) != 1 {
		b.Errorf("it ran more than once:%s\nthen:%s", show(lines), show(again))
	}
	if strings.Count(exit.Message, "answer: ") != 1 {
		b.Errorf("it printed %q", exit.Message)
	}
}

func readers(b *bench) {
	const n = 8
	type reading struct {
		lines []turn.Line
		err   error
	}
	a := b.start(b.Prompts.Ask("Which?"))
	got := make(chan reading)
	for range n {
		go func() {
			lines, err := read(b.ctx, b.Runner, a.Turn, turn.LineExited)
			got <- reading{lines, err}
		}()
	}
	b.until(a.Turn, turn.LineAsked)
	b.answer(a.Turn, 1, `"this"`)
	want, _ := b.whole(a.Turn)
	for range n {
		if r := <-got; r.err != nil || !reflect.DeepEqual(r.lines, want) {
			b.Errorf("a reader had %v and%s\nwant%s", r.err, show(r.lines), show(want))
		}
	}
}

func release(b *bench) {
	a := b.start(b.Prompts.Say("for the file"))
	lines, exit := b.whole(a.Turn)
	if out := b.release(a.Turn); !strings.Contains(string(out), "for the file") || int64(len(out)) != exit.Output.Kept {
		b.Errorf("the output is %q, the line says %+v", out, exit.Output)
	}
	for _, to := range []string{"", filepath.Join(b.TempDir(), "again")} {
		if err := b.Runner.Release(b.ctx, a.Turn, to); err != nil {
			b.Errorf("Release again: %v", err)
		}
	}
	_, err := b.Runner.Next(b.ctx, a.Turn, len(lines))
	if !errors.Is(err, turn.ErrLost) && !errors.Is(err, turn.ErrUnknownTurn) {
		b.Errorf("Next of a released turn: %v", err)
	}
}

func lost(b *bench) {
	a := b.start(b.Prompts.Lose)
	b.until(a.Turn, turn.LineStarted)
	if b.Prompts.Kill != nil {
		b.Prompts.Kill(b, a.Turn)
	}
	lines, err := read(b.ctx, b.Runner, a.Turn, turn.LineExited)
	b.wants("Next", err, turn.ErrLost)
	check(b, lines)
	b.startAs(a) // it was begun, and is not begun again
	_, err = b.Runner.Next(b.ctx, a.Turn, len(lines))
	b.wants("Next after a second Start", err, turn.ErrLost)
}

func restart(b *bench) {
	if b.Restart == nil {
		b.Skip("this setup has no restart")
	}
	a := b.start(b.Prompts.Ask("Which?"))
	before := b.until(a.Turn, turn.LineAsked)
	b.Runner = b.Restart(b)
	if !b.Survives {
		_, err := b.Runner.Next(b.ctx, a.Turn, len(before))
		b.wants("Next", err, turn.ErrLost)
		return
	}
	b.startAs(a) // as a server does that finds the turn unfinished
	b.answer(a.Turn, 1, `"after"`)
	lines, exit := b.whole(a.Turn)
	b.completed(exit)
	if !reflect.DeepEqual(lines[:len(before)], before) || len(of(lines, turn.LineAsked)) != 1 {
		b.Errorf("the journal changed:%s\nthen:%s", show(before), show(lines))
	}
	if !strings.Contains(exit.Message, "answer: after") {
		b.Errorf("the agent printed %q", exit.Message)
	}
}

func mkdirs(t testing.TB, dirs ...string) {
	t.Helper()
	for _, dir := range dirs {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
}
