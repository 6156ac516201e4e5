//go:build linux

package supervisor_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"hangar/domain"
	"hangar/domain/turn"
	"hangar/handlers/supervisor"
)

// play starts this binary in a part, and gives it with the first line it says.
func (b *bench) play(a act) (*exec.Cmd, string) {
	b.t.Helper()
	text, err := json.Marshal(a)
	must(b.t, err)
	exe, err := os.Executable()
	must(b.t, err)
	cmd := exec.Command(exe)
	cmd.Env = append(os.Environ(), envAct+"="+string(text), "SERVER_SECRET=s3cret")
	out, err := cmd.StdoutPipe()
	must(b.t, err)
	must(b.t, cmd.Start())
	b.t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	line, err := bufio.NewReader(out).ReadString('\n')
	must(b.t, err)
	return cmd, strings.TrimSpace(line)
}

func TestServerIsKilledWhileAQuestionIsOpen(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p := turn.Process{
		Turn: b.turn(), Argv: []string{"bash", "{prompt_file}"}, Workspace: b.ws, Deadline: time.Now().Add(patience),
		Prompt: `echo ran >>count; a=$(hangar ask go?); echo "$a"; env`,
	}
	server, said := b.play(act{Part: "server", Data: b.data, Process: p})
	if said != "asked" {
		t.Fatal(said)
	}
	must(t, server.Process.Signal(syscall.SIGKILL))
	_ = server.Wait()

	must(t, b.client.Start(b.ctx, p)) // begun before: nothing happens
	asked := b.until(p.Turn, turn.LineAsked)
	must(t, b.client.Answer(b.ctx, p.Turn, asked.Ask, json.RawMessage(`"onwards"`)))
	e := b.exit(p.Turn)
	if e.Reason != turn.ExitCompleted || !strings.HasPrefix(e.Message, "onwards\n") {
		t.Errorf("exit %+v", e)
	}
	if strings.Contains(e.Message, "s3cret") || strings.Contains(e.Message, envAct) {
		t.Errorf("the server's environment reached the agent: %s", e.Message)
	}
	if got := b.read(b.ws.Repo + "/count"); string(got) != "ran\n" {
		t.Errorf("the agent ran more than once: %q", got)
	}
}

func TestServerIsAwayWhenTheAgentEnds(t *testing.T) {
	t.Parallel()
	b := setup(t)
	id := b.start("read -r _ <" + b.fifo("go") + "; hangar step done; echo bye")
	b.feed("go")
	b.exit(id)
	must(t, b.kill(id))
	lines := b.lines(b.newClient(), id, turn.LineExited)
	if last := lines[len(lines)-1].Exit; last.Reason != turn.ExitCompleted || last.Summary != "done" {
		t.Errorf("exit %+v", last)
	}
}

func TestSupervisorIsKilled(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p := turn.Process{Turn: b.turn(), Argv: []string{"bash", "{prompt_file}"}, Workspace: b.ws,
		Prompt: "echo ran >>count; (setsid sleep 1000 & echo $! >pid); sleep 1000"}
	must(t, b.client.Start(b.ctx, p))
	pid := strings.TrimSpace(string(b.read(b.ws.Repo + "/pid")))
	must(t, b.kill(p.Turn))
	if _, err := b.client.Next(b.ctx, p.Turn, 1); !errors.Is(err, turn.ErrLost) {
		t.Fatalf("next: %v", err)
	}
	if running(pid) {
		t.Error("what the agent started still runs")
	}
	must(t, b.client.Start(b.ctx, p))
	if _, err := b.newClient().Next(b.ctx, p.Turn, 1); !errors.Is(err, turn.ErrLost) {
		t.Errorf("after a second start: %v", err)
	}
	if got := b.read(b.ws.Repo + "/count"); string(got) != "ran\n" {
		t.Errorf("the agent ran again: %q", got)
	}
	must(t, b.client.Answer(b.ctx, p.Turn, 1, json.RawMessage(`1`)))
	must(t, b.client.Stop(b.ctx, p.Turn))
}

// A start that is given up leaves no agent behind that a stop does not find.
func TestStartIsGivenUp(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for i := range 8 {
		p := turn.Process{Turn: b.turn(), Argv: []string{"bash", "{prompt_file}"}, Workspace: b.ws,
			Prompt: "exec sleep 1000"}
		ctx, cancel := context.WithTimeout(b.ctx, time.Duration(i)*3*time.Millisecond)
		err := b.client.Start(ctx, p)
		cancel()
		must(t, b.client.Stop(b.ctx, p.Turn))
		line, next := b.client.Next(b.ctx, p.Turn, 0)
		switch {
		case err == nil && next == nil && line.Kind == turn.LineStarted:
			if e := b.exit(p.Turn); e.Reason != turn.ExitCancelled {
				t.Errorf("start %d: exit %+v", i, e)
			}
		case err == nil || !errors.Is(next, turn.ErrUnknownTurn):
			t.Errorf("start %d: %v, then %+v, %v", i, err, line, next)
		default:
			if _, err := os.Stat(filepath.Join(b.data, "run", string(p.Turn), "errors")); err == nil {
				t.Errorf("start %d was given up with a supervisor on its way", i)
			}
		}
	}
}

// A supervisor that says nothing is ended, and the turn can be begun again.
func TestSupervisorSaysNothing(t *testing.T) {
	t.Parallel()
	b := setup(t)
	file := filepath.Join(b.data, "silent")
	must(t, os.WriteFile(file, []byte("#!/bin/sh\nexec sleep 1000\n"), 0o700))
	c, err := supervisor.New(supervisor.Options{Data: b.data, Executable: file, Begin: 100 * time.Millisecond})
	must(t, err)
	p := turn.Process{Turn: b.turn(), Argv: []string{"bash", "{prompt_file}"}, Workspace: b.ws, Prompt: "echo ran"}
	if err := c.Start(b.ctx, p); domain.CodeOf(err) != domain.Unavailable {
		t.Errorf("start: %v", err)
	}
	must(t, b.client.Start(b.ctx, p))
	if e := b.exit(p.Turn); e.Reason != turn.ExitCompleted || e.Message != "ran\n" {
		t.Errorf("exit %+v", e)
	}
}

func TestManyStartsRunOneAgent(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p := turn.Process{Turn: b.turn(), Argv: []string{"bash", "{prompt_file}"}, Workspace: b.ws, Prompt: "echo ran >>count"}
	var wg sync.WaitGroup
	for range 6 {
		c := b.newClient()
		wg.Go(func() {
			if err := c.Start(b.ctx, p); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	b.exit(p.Turn)
	if got := b.read(b.ws.Repo + "/count"); string(got) != "ran\n" {
		t.Errorf("ran %q", got)
	}
}

func TestStopEndsAllDescendants(t *testing.T) {
	t.Parallel()
	b := setup(t)
	id := b.start(`
		(trap '' TERM; echo $BASHPID >trapping; while :; do sleep 0.05; done) &
		setsid bash -c 'trap "" TERM; (setsid sleep 1000 & echo $! >away2); echo $$ >away; sleep 1000' &
		env -i setsid sleep 1000 & echo $! >bare
		trap 'echo asked to end' TERM
		hangar ask nobody
		echo "code $?"
		while :; do sleep 0.05; done`)
	b.until(id, turn.LineAsked)
	var pids []string
	for _, f := range []string{"trapping", "away", "away2", "bare"} {
		pids = append(pids, strings.TrimSpace(string(b.read(filepath.Join(b.ws.Repo, f)))))
	}
	for _, pid := range pids {
		if !running(pid) {
			t.Errorf("%s does not run", pid)
		}
	}
	must(t, b.client.Stop(b.ctx, id))
	must(t, b.client.Stop(b.ctx, id))
	e := b.exit(id)
	if e.Reason != turn.ExitCancelled || e.ExitCode != -1 || e.Signal != "SIGKILL" {
		t.Errorf("exit %+v", e)
	}
	if !strings.Contains(e.Message, "code 3") {
		t.Errorf("ask was not withdrawn: %q", e.Message)
	}
	for i, pid := range pids {
		if running(pid) {
			t.Errorf("descendant %d still runs", i)
		}
	}
}

func TestLeftoversEndWithTheAgent(t *testing.T) {
	t.Parallel()
	b := setup(t)
	id := b.start("(setsid sleep 1000 & echo $! >pid); exit 0")
	if e := b.exit(id); e.Reason != turn.ExitCompleted {
		t.Errorf("exit %+v", e)
	}
	if pid := strings.TrimSpace(string(b.read(b.ws.Repo + "/pid"))); running(pid) {
		t.Error("what the agent left still runs")
	}
}

func TestLeaseEnds(t *testing.T) {
	t.Parallel()
	b := setup(t)
	id := b.start("hangar ask late", func(p *turn.Process) { p.Deadline = time.Now().Add(700 * time.Millisecond) })
	if e := b.exit(id); e.Reason != turn.ExitTimeout || e.Code != turn.AgentTimeout {
		t.Errorf("exit %+v", e)
	}
	id = b.start("echo never", func(p *turn.Process) { p.Deadline = time.Now().Add(-time.Hour) })
	if e := b.exit(id); e.Reason != turn.ExitTimeout {
		t.Errorf("exit %+v", e)
	}
}

func TestSupervisorIsToldToEnd(t *testing.T) {
	t.Parallel()
	b := setup(t)
	id := b.start("hangar ask x")
	b.until(id, turn.LineAsked)
	must(t, syscall.Kill(b.supervisor(id), syscall.SIGTERM))
	if e := b.exit(id); e.Reason != turn.ExitFailed || e.Code != turn.AgentLost {
		t.Errorf("exit %+v", e)
	}
}

func TestReleaseWaitsForTheEnd(t *testing.T) {
	t.Parallel()
	b := setup(t)
	id := b.start("read -r _ <" + b.fifo("go"))
	if err := b.client.Release(b.ctx, id, ""); err == nil {
		t.Error("a running turn was released")
	}
	b.feed("go")
	b.exit(id)
	pid := b.supervisor(id)
	must(t, b.client.Release(b.ctx, id, ""))
	b.wait("the supervisor ends", func() bool { return !running(strconv.Itoa(pid)) })
}

func TestSupervisorEndsWhenNoServerComes(t *testing.T) {
	t.Parallel()
	b := setup(t)
	c, err := supervisor.New(supervisor.Options{Data: b.data, Keep: 50 * time.Millisecond})
	must(t, err)
	p := turn.Process{Turn: b.turn(), Argv: []string{"true"}, Workspace: b.ws}
	must(t, c.Start(b.ctx, p))
	pid := b.supervisor(p.Turn)
	b.wait("the supervisor ends", func() bool { return !running(strconv.Itoa(pid)) })
	if e := b.exit(p.Turn); e.Reason != turn.ExitCompleted {
		t.Errorf("exit %+v", e)
	}
}

func TestSocketIsMended(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for the supervisor's round")
	}
	t.Parallel()
	b := setup(t)
	id := b.start("hangar ask x")
	b.until(id, turn.LineAsked)
	must(t, os.Remove(b.where(id).Socket))
	must(t, b.client.Stop(b.ctx, id))
	if e := b.exit(id); e.Reason != turn.ExitCancelled {
		t.Errorf("exit %+v", e)
	}
}

func TestAgentOfARemovedFolderEnds(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for the supervisor's round")
	}
	t.Parallel()
	b := setup(t)
	id := b.start("echo $$ >pid; sleep 1000")
	agent := strings.TrimSpace(string(b.read(b.ws.Repo + "/pid")))
	ended := b.start("true")
	b.exit(ended)
	pids := []string{agent, strconv.Itoa(b.supervisor(id)), strconv.Itoa(b.supervisor(ended))}
	must(t, os.RemoveAll(filepath.Join(b.data, "run")))
	for _, pid := range pids {
		b.wait("what ran for it ends", func() bool { return !running(pid) })
	}
}

// control is the file by which a server finds a supervisor.
func (b *bench) control(id domain.TurnID) string {
	return filepath.Join(b.data, "run", string(id), "control")
}

// where is what stands in it.
func (b *bench) where(id domain.TurnID) (c struct{ Socket, Token string }) {
	b.t.Helper()
	text, err := os.ReadFile(b.control(id))
	must(b.t, err)
	must(b.t, json.Unmarshal(text, &c))
	return c
}

// supervisor gives the process that holds a turn's lock.
func (b *bench) supervisor(id domain.TurnID) int {
	b.t.Helper()
	lock, err := os.Stat(filepath.Join(b.data, "run", string(id), "lock"))
	must(b.t, err)
	inode := ":" + strconv.FormatUint(lock.Sys().(*syscall.Stat_t).Ino, 10) + " "
	locks, err := os.ReadFile("/proc/locks")
	must(b.t, err)
	for line := range strings.Lines(string(locks)) {
		if f := strings.Fields(line); strings.Contains(line, inode) && f[1] == "FLOCK" {
			pid, err := strconv.Atoi(f[4])
			must(b.t, err)
			return pid
		}
	}
	b.t.Fatal("nobody holds the lock")
	return 0
}

// kill ends a supervisor with no chance to do anything about it.
func (b *bench) kill(id domain.TurnID) error {
	pid := b.supervisor(id)
	err := syscall.Kill(pid, syscall.SIGKILL)
	b.wait("the supervisor is gone", func() bool { return !running(strconv.Itoa(pid)) })
	return err
}

// fifo makes a pipe in the clone for an agent to wait on.
func (b *bench) fifo(name string) string {
	b.t.Helper()
	must(b.t, syscall.Mkfifo(filepath.Join(b.ws.Repo, name), 0o600))
	return name
}

// feed lets go the agent that waits on it.
func (b *bench) feed(name string) {
	b.t.Helper()
	must(b.t, os.WriteFile(filepath.Join(b.ws.Repo, name), []byte("\n"), 0))
}

// wait waits for what the system alone can tell.
func (b *bench) wait(what string, is func() bool) {
	b.t.Helper()
	for !is() {
		select {
		case <-b.ctx.Done():
			b.t.Fatal("never: " + what)
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// running reports whether a process is there and has not ended.
func running(pid string) bool {
	stat, err := os.ReadFile("/proc/" + pid + "/stat")
	if err != nil {
		return false
	}
	state := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))[0]
	return state != "Z" && state != "X"
}
