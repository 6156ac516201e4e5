package git

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"
	"unicode"

	"hangar/domain"
)

// Bounds on one git command.
const (
	maxStdout = 4 << 20         // bytes kept; a command that says more fails
	maxStderr = 16 << 10        // bytes kept of the end
	killDelay = 2 * time.Second // from the kill to giving up on its pipes
)

// settings stand before every command: nothing of a repository's own runs, what
// comes in is checked, and nothing is tidied up behind our back.
var settings = []string{
	"-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false",
	"-c", "transfer.fsckObjects=true", "-c", "gc.auto=0", "-c", "maintenance.auto=false",
}

// overrides are settings of a user's repository that would change what our
// commands do. They go into the environment.
var overrides = [][2]string{
	{"fetch.fsckObjects", "true"}, // it comes before transfer.fsckObjects
	{"fetch.prune", "false"}, {"fetch.pruneTags", "false"},
	{"fetch.recurseSubmodules", "false"}, {"submodule.recurse", "false"},
	{"fetch.writeCommitGraph", "false"},
	{"i18n.logOutputEncoding", "UTF-8"},
}

// environment is all that git is given: nothing of ours but where programs and
// the user's home are, no configuration but the repository's, no prompts, and no
// protocol but the local one.
func environment() []string {
	env := []string{
		"PATH=" + os.Getenv("PATH"), "LC_ALL=C",
		"GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=" + os.DevNull, "GIT_ATTR_NOSYSTEM=1",
		"GIT_TERMINAL_PROMPT=0", "GIT_OPTIONAL_LOCKS=0", "GIT_ALLOW_PROTOCOL=file",
		"GIT_CONFIG_COUNT=" + strconv.Itoa(len(overrides)),
	}
	for i, o := range overrides {
		env = append(env, fmt.Sprintf("GIT_CONFIG_KEY_%d=%s", i, o[0]), fmt.Sprintf("GIT_CONFIG_VALUE_%d=%s", i, o[1]))
	}
	if home, err := os.UserHomeDir(); err == nil {
		env = append(env, "HOME="+home) // a repository's include.path may begin with ~
	}
	return env
}

// exitError is a git command that said no.
type exitError struct {
	verb   string
	code   int // -1 when a signal ended it
	stderr string
}

func (e *exitError) Error() string {
	return fmt.Sprintf("git %s: exit code %d: %s", e.verb, e.code, e.stderr)
}

// exitCode gives the code of a git command that ended by itself, else -1.
func exitCode(err error) int {
	if e, ok := errors.AsType[*exitError](err); ok {
		return e.code
	}
	return -1
}

// run runs a git command in dir and gives what it printed, without the last end
// of line. A command that ends badly is an *exitError.
func (g *Git) run(ctx context.Context, dir string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "git", append(append([]string{"-C", dir}, settings...), args...)...)
	cmd.Env = environment()
	cmd.WaitDelay = killDelay
	killGroup(cmd)
	stdout, stderr := &firstBytes{max: maxStdout}, &lastBytes{max: maxStderr}
	cmd.Stdout, cmd.Stderr = stdout, stderr

	err := cmd.Run()
	if ctx.Err() != nil {
		return "", fmt.Errorf("git %s: %w", args[0], context.Cause(ctx))
	}
	exit, ok := errors.AsType[*exec.ExitError](err)
	switch {
	case errors.Is(err, exec.ErrNotFound):
		return "", domain.Wrap(domain.Unsupported, err, "git is not installed on this machine")
	case ok:
		return "", &exitError{args[0], exit.ExitCode(), strings.TrimSpace(string(stderr.b))}
	case err != nil:
		return "", fmt.Errorf("git %s: %w", args[0], err)
	}
	return strings.TrimSuffix(string(stdout.b), "\n"), nil
}

// yes runs a git command that answers by its exit code: 0 for yes. Another is no:
// git does not tell "it is not so" from "there is no such object".
func (g *Git) yes(ctx context.Context, dir string, args ...string) (bool, error) {
	_, err := g.run(ctx, dir, args...)
	if exitCode(err) > 0 {
		return false, nil
	}
	return err == nil, err
}

// firstBytes keeps the bytes written to it, and fails on more than max.
type firstBytes struct {
	max int
	b   []byte
}

func (w *firstBytes) Write(p []byte) (int, error) {
	if len(w.b)+len(p) > w.max {
		return 0, fmt.Errorf("more than %d bytes of output", w.max)
	}
	w.b = append(w.b, p...)
	return len(p), nil
}

// lastBytes keeps the last max bytes written to it.
type lastBytes struct {
	max int
	b   []byte
}

func (w *lastBytes) Write(p []byte) (int, error) {
	w.b = append(w.b, p...)
	w.b = bytes.Clone(w.b[max(0, len(w.b)-w.max):])
	return len(p), nil
}

// showable makes text that an agent may have written safe to show: valid, of
// printable characters, and short.
func showable(s string, limit int) string {
	s = strings.TrimSpace(strings.Map(func(r rune) rune {
		if r == '\n' || unicode.IsPrint(r) {
			return r
		}
		return ' '
	}, strings.ToValidUTF8(s, "?")))
	if len(s) > limit {
		s = strings.ToValidUTF8(s[:limit-len("…")], "") + "…"
	}
	return s
}
