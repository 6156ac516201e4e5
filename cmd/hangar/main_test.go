package main

import (
	"bufio"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"go.uber.org/goleak"
	_ "modernc.org/sqlite" // to tamper with a log

	"hangar/domain"
	"hangar/eventstore/sqlite"
	"hangar/handlers/supervisor"
)

var update = flag.Bool("update", false, "write what came out into the scripts")

func TestMain(m *testing.M) {
	supervisor.Main()
	testscript.Main(leakless{m}, map[string]func(){"hangar": func() { os.Exit(hangar()) }})
}

// leakless runs the tests and then looks for goroutines that were left.
type leakless struct{ *testing.M }

func (m leakless) Run() int {
	code := m.M.Run()
	if code == 0 {
		if err := goleak.Find(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	return code
}

// TestScripts runs testdata/*.txtar against the real command. Besides what
// testscript has, scripts know the commands below.
func TestScripts(t *testing.T) {
	t.Parallel()
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata",
		UpdateScripts:       *update,
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup: func(e *testscript.Env) error {
			home := filepath.Join(e.WorkDir, "home")
			e.Setenv("HOME", home)
			e.Setenv("HANGAR_DATA", filepath.Join(e.WorkDir, "data"))
			e.Setenv("TZ", "UTC")
			return os.MkdirAll(home, 0o700)
		},
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"exits": exits, "serve": serveScript, "stop": stopScript, "json": jsonScript, "await": await, "tamper": tamper, "quiet": quiet,
		},
	})
}

// exits CODE COMMAND...: the command ends with this exit code.
func exits(ts *testscript.TestScript, _ bool, args []string) {
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	err = ts.Exec(args[1], args[2:]...)
	got := 0
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		got = exit.ExitCode()
	} else {
		ts.Check(err)
	}
	if got != want {
		ts.Fatalf("exit code %d, want %d", got, want)
	}
}

// quiet stdout|stderr: nothing was printed there.
func quiet(ts *testscript.TestScript, _ bool, args []string) {
	if text := ts.ReadFile(args[0]); text != "" {
		ts.Fatalf("%s is not empty: %s", args[0], text)
	}
}

// running is the server of a script.
type running struct {
	cmd    *exec.Cmd
	stderr io.ReadCloser
	told   []string
}

var (
	lock    sync.Mutex
	servers = map[*testscript.TestScript]*running{}
)

// serve ARGS...: a server runs, and is ready. What it told before is in the file
// serve.err, its URL in $URL.
func serveScript(ts *testscript.TestScript, _ bool, args []string) {
	path, err := exec.LookPath("hangar")
	if err != nil { // the script's own PATH has it
		path = filepath.Join(strings.Split(ts.Getenv("PATH"), string(os.PathListSeparator))[0], "hangar")
	}
	cmd := exec.CommandContext(context.Background(), path, append([]string{"serve", "--listen", "127.0.0.1:0"}, args...)...)
	cmd.Dir = ts.MkAbs(".")
	for _, name := range []string{"PATH", "HOME", "HANGAR_DATA", "TMPDIR", "TZ", "HANGAR_SECRET"} {
		cmd.Env = append(cmd.Env, name+"="+ts.Getenv(name))
	}
	stderr, err := cmd.StderrPipe()
	ts.Check(err)
	ts.Check(cmd.Start())
	s := &running{cmd: cmd, stderr: stderr}
	lock.Lock()
	servers[ts] = s
	lock.Unlock()
	ts.Defer(func() { _ = s.end(os.Kill) })
	ready := false
	for lines := bufio.NewScanner(stderr); !ready && lines.Scan(); {
		s.told = append(s.told, lines.Text())
		url, ok := strings.CutPrefix(lines.Text(), "hangar: ready on ")
		if ready = ok; ok {
			ts.Setenv("URL", url)
		}
	}
	ts.Check(os.WriteFile(ts.MkAbs("serve.err"), []byte(strings.Join(s.told, "\n")+"\n"), 0o600))
	if !ready {
		ts.Fatalf("the server did not start: %s", strings.Join(s.told, "\n"))
	}
	go io.Copy(io.Discard, stderr) //nolint:errcheck // it must not block on a full pipe
}

// stop: the server ends, in order.
func stopScript(ts *testscript.TestScript, _ bool, _ []string) {
	lock.Lock()
	s := servers[ts]
	lock.Unlock()
	ts.Check(s.end(syscall.SIGTERM))
}

func (s *running) end(sig os.Signal) error {
	if s.cmd.ProcessState != nil {
		return nil
	}
	_ = s.cmd.Process.Signal(sig)
	return s.cmd.Wait()
}

// json VAR FILE KEY...: the value at the keys becomes $VAR. FILE may be stdout.
func jsonScript(ts *testscript.TestScript, _ bool, args []string) {
	var v any
	ts.Check(json.Unmarshal([]byte(ts.ReadFile(args[1])), &v))
	for _, key := range args[2:] {
		switch at := v.(type) {
		case map[string]any:
			v = at[key]
		case []any:
			i, err := strconv.Atoi(key)
			ts.Check(err)
			v = at[i]
		default:
			v = nil
		}
	}
	if v == nil {
		ts.Fatalf("there is nothing at %s", strings.Join(args[2:], "."))
	}
	text, ok := v.(string)
	if !ok {
		b, err := json.Marshal(v)
		ts.Check(err)
		text = string(b)
	}
	ts.Setenv(args[0], text)
}

// await STREAM TYPE: the log has an event of the type in the stream, in any for *.
func await(ts *testscript.TestScript, _ bool, args []string) {
	ctx := context.Background()
	log, err := sqlite.OpenReadOnly(ctx, filepath.Join(ts.Getenv("HANGAR_DATA"), "hangar.db"))
	ts.Check(err)
	defer log.Close()
	for after := domain.Position(0); ; {
		page, err := log.ReadAll(ctx, after, 100)
		ts.Check(err)
		for _, r := range page {
			after = r.Position
			if (args[0] == "*" || string(r.Stream) == args[0]) && r.Type == args[1] {
				return
			}
		}
		if len(page) == 0 {
			ts.Check(log.Wait(ctx, after))
		}
	}
}

// tamper SQL: somebody changes the log behind its back.
func tamper(ts *testscript.TestScript, _ bool, args []string) {
	db, err := sql.Open("sqlite", filepath.Join(ts.Getenv("HANGAR_DATA"), "hangar.db"))
	ts.Check(err)
	defer db.Close()
	_, err = db.Exec("DROP TRIGGER IF EXISTS events_stay; DROP TRIGGER IF EXISTS events_keep; " + args[0])
	ts.Check(err)
}
