//go:build linux

package supervisor_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"hangar/domain"
	"hangar/domain/turn"
	"hangar/handlers/supervisor"
)

// landlocked skips a test where the kernel cannot do what it is about.
func landlocked(t *testing.T, abi int) {
	t.Helper()
	if got := supervisor.Probe(); got.Landlock < abi {
		t.Skipf("needs Landlock %d: %s", abi, got)
	}
}

func TestAgentCannotLeaveItsWorkspace(t *testing.T) {
	landlocked(t, 1)
	t.Parallel()
	b := setup(t)
	outside := t.TempDir()
	for _, name := range []string{"secret.key", "hangar.db", "ws/other/x"} {
		path := filepath.Join(b.data, name)
		must(t, os.MkdirAll(filepath.Dir(path), 0o700))
		must(t, os.WriteFile(path, []byte("top secret\n"), 0o600))
	}
	must(t, os.WriteFile(filepath.Join(outside, "f"), []byte("untouched\n"), 0o600))
	mine := filepath.Base(outside) + filepath.Base(b.data) + "-hangar-test"
	for _, dir := range []string{"/etc", "/tmp", "/usr"} {
		t.Cleanup(func() { _ = os.Remove(filepath.Join(dir, mine)) }) // where it was allowed after all
	}
	id := b.start(`
		cd "$HOME"
		no() { if "$@" 2>/dev/null; then echo "ALLOWED: $*"; fi; }
		yes() { "$@" || echo "REFUSED: $*"; }
		no cat $DATA/secret.key; no cat $DATA/hangar.db; no cat $DATA/ws/other/x
		no ls $DATA; no ls $DATA/ws; no ls $DATA/run; no cat $DATA/run/$HANGAR_TURN/control
		no cat $OUT/f; no touch $OUT/new; no rm $OUT/f; no ln $OUT/f here; no mkdir $DATA/ws/job2
		no bash -c "echo x >>$OUT/f"; no bash -c "echo x >>$DATA/run/$HANGAR_TURN/journal"
		no mkdir /etc/$MINE; no mkdir /tmp/$MINE; no mkdir /usr/$MINE
		no cp $(readlink "$HOME/../bin/hangar") copied-to-/tmp/../../x
		no bash -c "echo x >>$(readlink -f "$HOME/../bin/hangar")"
		no mknod dev b 8 0
		ln -s $DATA/secret.key link; no cat link
		yes touch here; yes mkdir d; yes mv here d/; yes ln d/here again; yes mkfifo p
		yes bash -c 'echo x >/dev/null; head -c1 /dev/urandom >/dev/null; : >d/here'
		yes bash -c 'cat <(echo sub) >/dev/null; echo >&2'
		yes cat /etc/passwd >/dev/null; yes ls /usr/bin >/dev/null; yes git --version >/dev/null
		yes hangar step inside
		grep -q NoNewPrivs:.1 /proc/self/status || echo "REFUSED: no new privileges"
		echo core $(ulimit -c) end`,
		func(p *turn.Process) { p.Env = map[string]string{"DATA": b.data, "OUT": outside, "MINE": mine} })
	e := b.exit(id)
	if strings.Contains(e.Message, "ALLOWED") || strings.Contains(e.Message, "REFUSED") || !strings.HasSuffix(e.Message, "core 0 end\n") {
		t.Errorf("exit %+v\n%s", e, e.Message)
	}
	if supervisor.Probe().Landlock >= 3 {
		e := b.exit(b.start("truncate -s 0 $OUT/f && exit 9; exit 0", func(p *turn.Process) { p.Env = map[string]string{"OUT": outside} }))
		if got, err := os.ReadFile(filepath.Join(outside, "f")); err != nil || string(got) != "untouched\n" || e.ExitCode != 0 {
			t.Errorf("%q, %v, exit %+v", got, err, e)
		}
	}
}

func TestAgentCannotSignalTheServer(t *testing.T) {
	landlocked(t, 6)
	t.Parallel()
	b := setup(t)
	sleeper, _ := b.play(act{Part: "sleeper"})
	id := b.start("kill -0 $VICTIM && echo ALLOWED; kill -9 $VICTIM && echo ALLOWED; kill -9 $PPID && echo ALLOWED; cat /proc/$VICTIM/environ && echo ALLOWED; sleep 100 & kill $! && echo own",
		func(p *turn.Process) { p.Env = map[string]string{"VICTIM": strconv.Itoa(sleeper.Process.Pid)} })
	e := b.exit(id)
	if strings.Contains(e.Message, "ALLOWED") || strings.Contains(e.Message, "s3cret") || !strings.HasSuffix(e.Message, "own\n") {
		t.Errorf("exit %+v", e)
	}
	if !running(strconv.Itoa(sleeper.Process.Pid)) {
		t.Error("the victim is dead")
	}
}

func TestEnvironmentIsFromAList(t *testing.T) {
	t.Setenv("SERVER_SECRET", "s3cret")
	b := setup(t)
	id := b.start("cat /proc/self/environ | tr '\\0' '\\n' | sort", func(p *turn.Process) {
		p.Env = map[string]string{"JOB": "its own", "PATH": "/usr/bin:/bin"}
	})
	var names []string
	e := b.exit(id)
	for line := range strings.Lines(e.Message) {
		name, _, _ := strings.Cut(line, "=")
		names = append(names, name)
	}
	if got := strings.Join(names, " "); got != "HANGAR_MARK HANGAR_SOCKET HANGAR_TOKEN HANGAR_TURN HOME JOB LANG OLDPWD PATH PWD SHLVL TERM TMPDIR _" &&
		got != "HANGAR_MARK HANGAR_SOCKET HANGAR_TOKEN HANGAR_TURN HOME JOB LANG PATH PWD SHLVL TERM TMPDIR _" {
		t.Errorf("environment %s", got)
	}
	if !strings.Contains(e.Message, "PATH="+b.ws.Bin+":/usr/bin:/bin\n") {
		t.Errorf("PATH: %s", e.Message)
	}
	for _, env := range []map[string]string{{"HANGAR_TOKEN": "x"}, {"A=B": "x"}, {"": "x"}, {"A": "\x00"}} {
		p := turn.Process{Turn: b.turn(), Argv: []string{"true"}, Workspace: b.ws, Env: env}
		if err := b.client.Start(b.ctx, p); domain.CodeOf(err) != domain.Invalid {
			t.Errorf("%v: %v", env, err)
		}
	}
}

func TestReadList(t *testing.T) {
	landlocked(t, 1)
	t.Parallel()
	b := setup(t)
	// The data folder is below what may be read, and stays hidden all the same.
	home := t.TempDir()
	b.data = filepath.Join(home, "share", "hangar")
	must(t, os.MkdirAll(filepath.Join(b.data, "ws"), 0o700))
	must(t, os.WriteFile(filepath.Join(b.data, "secret.key"), []byte("s3cret\n"), 0o600))
	must(t, os.WriteFile(filepath.Join(home, "tool"), []byte("#!/bin/sh\necho tool\n"), 0o700))
	must(t, os.WriteFile(filepath.Join(home, "share", "beside"), []byte("beside\n"), 0o600))
	must(t, os.Symlink(b.data, filepath.Join(home, "link")))
	must(t, os.Rename(b.ws.Root, filepath.Join(b.data, "ws", "job")))
	root := filepath.Join(b.data, "ws", "job")
	b.ws = turn.Folders{Root: root, Repo: root + "/repo", Home: root + "/home", Tmp: root + "/tmp", Bin: root + "/bin"}
	c, err := supervisor.New(supervisor.Options{Data: b.data, Read: []string{home, filepath.Join(home, "nothing-here")}})
	must(t, err)
	b.client = c
	e := b.exit(b.start("$H/tool; cat $H/share/beside; cat $H/link/secret.key $H/share/hangar/secret.key; echo more >>$H/tool; exit 0",
		func(p *turn.Process) { p.Env = map[string]string{"H": home} }))
	if !strings.HasPrefix(e.Message, "tool\nbeside\n") || strings.Contains(e.Message, "s3cret") || strings.Count(e.Message, "ermission denied") != 3 {
		t.Errorf("exit %+v", e)
	}
	if _, err := supervisor.New(supervisor.Options{Data: b.data, Read: []string{filepath.Join(b.data, "ws")}}); domain.CodeOf(err) != domain.Invalid {
		t.Errorf("the data folder may be read: %v", err)
	}
	if _, err := supervisor.New(supervisor.Options{Data: b.data, Read: []string{"relative"}}); domain.CodeOf(err) != domain.Invalid {
		t.Errorf("a relative path: %v", err)
	}
}

func TestRunStaged(t *testing.T) {
	t.Parallel()
	b := setup(t)
	must(t, os.WriteFile(filepath.Join(b.data, "secret.key"), []byte("s3cret\n"), 0o600))
	var out, errs bytes.Buffer
	got, err := b.client.RunStaged(b.ctx, supervisor.Staged{
		Folders: b.ws, Argv: []string{"bash", "-c", "cat; pwd; cat $DATA/secret.key; env >&2; exit 4"},
		Env: map[string]string{"DATA": b.data}, Stdin: strings.NewReader("given\n"), Stdout: &out, Stderr: &errs,
	})
	must(t, err)
	if got.ExitCode != 4 || out.String() != "given\n"+b.ws.Repo+"\n" && supervisor.Probe().Landlock > 0 {
		t.Errorf("exit %+v, output %q", got, out.String())
	}
	if strings.Contains(errs.String(), "HANGAR") || strings.Contains(errs.String(), "GOPATH") {
		t.Errorf("environment %s", errs.String())
	}
	if _, err := b.client.RunStaged(b.ctx, supervisor.Staged{Folders: b.ws, Argv: []string{"no-such-program"}}); err == nil || !strings.Contains(err.Error(), "no-such-program") {
		t.Errorf("no such program: %v", err)
	}
	got, err = b.client.RunStaged(b.ctx, supervisor.Staged{Folders: b.ws, Argv: []string{"bash", "-c", "kill -9 $$"}})
	if err != nil || got.Signal != "SIGKILL" {
		t.Errorf("killed: %+v, %v", got, err)
	}
}

func TestRunStagedEndsWithAllItStarted(t *testing.T) {
	t.Parallel()
	b := setup(t)
	script := "trap '' TERM; (setsid sleep 1000 & echo $! >%[1]s); echo $$ >%[1]s.main; sleep 1000"
	run := func(ctx context.Context, name string, limit time.Duration) error {
		_, err := b.client.RunStaged(ctx, supervisor.Staged{Folders: b.ws, Argv: []string{"bash", "-c", fmt.Sprintf(script, name)}, Limit: limit})
		return err
	}
	dead := func(name string) {
		t.Helper()
		for _, f := range []string{name, name + ".main"} {
			pid := strings.TrimSpace(string(b.read(filepath.Join(b.ws.Repo, f))))
			b.wait(name+" ends", func() bool { return !running(pid) })
		}
	}
	if err := run(b.ctx, "limit", 500*time.Millisecond); err == nil || !strings.Contains(err.Error(), "took longer") {
		t.Errorf("limit: %v", err)
	}
	dead("limit")
	ctx, cancel := context.WithCancel(b.ctx)
	go func() { b.read(filepath.Join(b.ws.Repo, "ctx.main")); cancel() }()
	if err := run(ctx, "ctx", 0); !errors.Is(err, context.Canceled) {
		t.Errorf("cancel: %v", err)
	}
	dead("ctx")
	got, err := b.client.RunStaged(b.ctx, supervisor.Staged{Folders: b.ws, Argv: []string{"bash", "-c", "(setsid sleep 1000 & echo $! >left); echo $$ >left.main"}})
	if err != nil || got.ExitCode != 0 {
		t.Errorf("%+v, %v", got, err)
	}
	dead("left")
}

func TestStageCommand(t *testing.T) {
	landlocked(t, 1)
	t.Parallel()
	b := setup(t)
	user := filepath.Join(t.TempDir(), "it's the user's")
	git := func(dir string, args ...string) (string, error) {
		cmd := exec.Command("git", append([]string{"-C", dir, "-c", "user.name=x", "-c", "user.email=x@x", "-c", "init.defaultBranch=main"}, args...)...)
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	run := func(dir string, args ...string) string {
		t.Helper()
		out, err := git(dir, args...)
		if err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
		return out
	}
	must(t, os.Mkdir(user, 0o700))
	run(user, "init")
	run(user, "commit", "--allow-empty", "-m", "one")
	run(b.ws.Root, "clone", "--no-hardlinks", user, "repo")
	run(b.ws.Repo, "commit", "--allow-empty", "-m", "two")

	line, remove, err := b.client.StageCommand(supervisor.Staged{Folders: b.ws, Argv: []string{"git-upload-pack"}})
	must(t, err)
	run(user, "fetch", "--upload-pack", line, "--", b.ws.Repo, "refs/heads/main:refs/heads/job")
	if got := run(user, "log", "--format=%s", "job"); got != "two\none\n" {
		t.Errorf("fetched %q", got)
	}

	// The agent's repository leads outside: the stage does not follow.
	secret := filepath.Join(b.data, "private")
	must(t, os.Mkdir(secret, 0o700))
	run(secret, "init")
	run(secret, "commit", "--allow-empty", "-m", "private")
	must(t, os.RemoveAll(filepath.Join(b.ws.Repo, ".git")))
	must(t, os.WriteFile(filepath.Join(b.ws.Repo, ".git"), []byte("gitdir: "+secret+"/.git\n"), 0o600))
	if out, err := git(user, "fetch", "--upload-pack", line, "--", b.ws.Repo, "refs/heads/main:refs/heads/stolen"); err == nil {
		t.Errorf("a gitfile led outside: %s", out)
	}
	must(t, remove())
	must(t, remove())
	if out, err := git(user, "fetch", "--upload-pack", line, "--", b.ws.Repo, "main"); err == nil {
		t.Errorf("the line works when removed: %s", out)
	}
}

func TestStageCommandEndsWithItsParent(t *testing.T) {
	t.Parallel()
	b := setup(t)
	line, remove, err := b.client.StageCommand(supervisor.Staged{Folders: b.ws, Argv: []string{"bash", "-c", `(setsid sleep 1000 & echo $! >pid); sleep 1000`}})
	must(t, err)
	defer func() { must(t, remove()) }()
	cmd := exec.Command("sh", "-c", line+" 'appended'; true")
	must(t, cmd.Start())
	pid := strings.TrimSpace(string(b.read(b.ws.Repo + "/pid")))
	must(t, cmd.Process.Kill())
	_ = cmd.Wait()
	b.wait("what it started ends", func() bool { return !running(pid) })
}

// What the server was handed open, by a shell or an init, reaches no agent.
func TestInheritedFilesAreClosed(t *testing.T) {
	b := setup(t)
	secret := filepath.Join(b.data, "inherited-secret")
	must(t, os.WriteFile(secret, []byte("s3cret\n"), 0o600))
	fd, err := syscall.Open(secret, syscall.O_RDONLY, 0) // stays open when a program is executed
	must(t, err)
	defer syscall.Close(fd)
	const show = "readlink /proc/$$/fd/*"
	id := b.start(show + "; readlink /proc/$PPID/fd/*; true")
	if e := b.exit(id); e.Reason != turn.ExitCompleted || strings.Contains(e.Message, "inherited") {
		t.Errorf("exit %+v", e)
	}
	own, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", b.supervisor(id)))
	must(t, err)
	for _, link := range own {
		if to, _ := os.Readlink(link); to == secret {
			t.Error("the supervisor holds it")
		}
	}
	var out bytes.Buffer
	_, err = b.client.RunStaged(b.ctx, supervisor.Staged{Folders: b.ws, Argv: []string{"bash", "-c", show}, Stdout: &out})
	if err != nil || out.Len() == 0 || strings.Contains(out.String(), "inherited") {
		t.Errorf("staged: %s, %v", out.String(), err)
	}
}
