//go:build linux || darwin

package supervisor

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// File descriptors of a stage, besides the standard ones.
const (
	gateFD   = 3 // its settings; closed without any, nothing may run
	statusFD = 4 // why the program could not be executed; closed by execve
)

// process is a stage, the program it becomes, and all that comes of it.
type process struct {
	*reaper
	pid     int
	gate    *os.File
	status  *os.File
	output  *os.File // read end of its standard output and error, nil where those go elsewhere
	drained chan struct{}
}

// startStage starts a stage that waits at the gate.
func startStage(executable string, files [3]*os.File) (*process, error) {
	gateIn, gate, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer gateIn.Close()
	status, statusOut, err := os.Pipe()
	if err != nil {
		gate.Close()
		return nil, err
	}
	defer statusOut.Close()
	p, err := os.StartProcess(executable, []string{partStage}, &os.ProcAttr{
		Dir: "/", Env: []string{}, Files: append(files[:], gateIn, statusOut),
		Sys: &syscall.SysProcAttr{Setsid: true},
	})
	if err != nil {
		gate.Close()
		status.Close()
		return nil, err
	}
	started := &process{reaper: newReaper(p.Pid), pid: p.Pid, gate: gate, status: status}
	return started, p.Release()
}

// begin lets the stage become its program, and gives the reason where it cannot.
func (p *process) begin(set stageSettings) error {
	defer p.gate.Close()
	defer p.status.Close()
	if err := json.NewEncoder(p.gate).Encode(set); err != nil {
		return fmt.Errorf("the stage is gone: %w", err)
	}
	why, err := io.ReadAll(io.LimitReader(p.status, maxMessage))
	if err != nil || len(why) > 0 {
		return errors.Join(err, errors.New(string(why)))
	}
	return nil
}

// abandon ends a stage that was never let go.
func (p *process) abandon() {
	p.gate.Close()
	p.status.Close()
	<-p.gone
}

// collect copies what the program prints until its end.
func (p *process) collect(to io.Writer) {
	p.drained = make(chan struct{})
	go func() { // ends with drain
		defer close(p.drained)
		_, _ = io.CopyBuffer(to, p.output, make([]byte, 64<<10)) // the writer never fails; the pipe ends
	}()
}

// drainTime is how long output is waited for when every process is gone. It ends
// at once then, unless the pipe was handed to a process that is not of the turn.
const drainTime = time.Second

func (p *process) drain() {
	if p.output == nil {
		return
	}
	_ = p.output.SetReadDeadline(time.Now().Add(drainTime))
	<-p.drained
	p.output.Close()
}

// end asks every process of the program to end, and makes it after grace. It
// returns when all are gone.
func (p *process) end(grace time.Duration) {
	if p.over() {
		return
	}
	signalTree(p.pid, syscall.SIGTERM)
	for wait := grace; wait > 0 && !p.over(); wait = 0 {
		select {
		case <-p.gone:
		case <-time.After(wait):
		}
	}
	for !p.over() {
		signalTree(p.pid, syscall.SIGKILL)
		select {
		case <-p.gone:
		case <-time.After(retryInterval):
		}
	}
}

// over reports whether every process is gone.
func (p *process) over() bool {
	select {
	case <-p.gone:
		return !groupRemains(p.pid)
	default:
		return false
	}
}

// stageSettings of the turn's agent.
func (s *supervisor) stageSettings() stageSettings {
	p := s.set.Process
	prompt := filepath.Join(p.Workspace.Tmp, promptName(p.Turn))
	argv := make([]string, len(p.Argv))
	for i, a := range p.Argv {
		argv[i] = strings.ReplaceAll(a, "{prompt_file}", prompt)
	}
	return stageSettings{
		Argv: argv, Dir: p.Workspace.Repo, Workspace: p.Workspace,
		Env: environ(p.Workspace, p.Env, map[string]string{
			EnvSocket: s.door.path, EnvToken: s.tokens.helper, EnvTurn: string(p.Turn), EnvMark: mark(s.set.Data, p.Turn),
		}),
		Rules: rules{Data: s.set.Data, Read: s.set.Read, Exec: s.set.Binary, Write: p.Workspace.Root},
	}
}

// stage is the life of a stage: settings, rules, execve. It returns where the
// program could not be executed.
func stage() int {
	runtime.LockOSThread() // rights are a thread's; this one executes
	syscall.CloseOnExec(gateFD)
	syscall.CloseOnExec(statusFD)
	closeInherited(statusFD + 1)
	var set stageSettings
	if err := json.NewDecoder(os.NewFile(gateFD, "gate")).Decode(&set); err != nil {
		return 1 // whoever started us is gone, and has not written that it began
	}
	err := set.execute()
	fmt.Fprint(os.NewFile(statusFD, "status"), err)
	return 126
}

// execute becomes the program, or says why it cannot.
func (set stageSettings) execute() error {
	unix.Umask(0o022)
	if err := os.Chdir(set.Dir); err != nil {
		return fmt.Errorf("the working directory: %w", err)
	}
	if err := limit(); err != nil {
		return err
	}
	path, err := lookPath(set.Argv[0], set.Env)
	if err != nil {
		return err
	}
	if err := set.Rules.apply(); err != nil {
		return fmt.Errorf("the sandbox cannot be closed: %w", err)
	}
	return fmt.Errorf("%s: %w", path, syscall.Exec(path, set.Argv, set.Env))
}

// limit bounds what one process may take.
func limit() error {
	if err := syscall.Setrlimit(syscall.RLIMIT_CORE, &syscall.Rlimit{}); err != nil {
		return fmt.Errorf("core files cannot be turned off: %w", err)
	}
	var files syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files); err != nil {
		return fmt.Errorf("the limit of open files cannot be read: %w", err)
	}
	files.Max = min(files.Max, maxOpenFiles)
	files.Cur = min(files.Cur, files.Max)
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &files); err != nil {
		return fmt.Errorf("open files cannot be limited: %w", err)
	}
	return nil
}

// lookPath finds a program as the agent's own PATH says.
func lookPath(name string, env []string) (string, error) {
	if strings.ContainsRune(name, '/') {
		return name, nil
	}
	var list string
	for _, e := range env {
		if v, ok := strings.CutPrefix(e, "PATH="); ok {
			list = v
		}
	}
	for _, dir := range filepath.SplitList(list) {
		path := filepath.Join(dir, name)
		if fi, err := os.Stat(path); err == nil && fi.Mode().IsRegular() && unix.Access(path, unix.X_OK) == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("%s: there is no such program in %s", name, list)
}
