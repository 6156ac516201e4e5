package supervisor

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"hangar/domain"
	"hangar/domain/turn"
)

// stagePattern matches the settings files of StageCommand in DATA/run.
const stagePattern = ".stage-*"

// Staged is a command that runs under the rules of a workspace's agent: it reads
// the system and sandbox.read, writes the workspace, and sees nothing of the data
// folder or of this process's environment. All that it starts ends with it.
type Staged struct {
	Folders turn.Folders
	Argv    []string          // looked up in the agent's PATH
	Dir     string            // where it runs; empty for the clone
	Env     map[string]string // added to the fixed list
	// Limit is how long it may take, 0 for StagedLimit. In RunStaged the context
	// ends it as well.
	Limit time.Duration

	// Stdin, Stdout and Stderr are RunStaged's; nil is empty and nowhere. A reader
	// that blocks after the command has ended is not waited for.
	Stdin          io.Reader
	Stdout, Stderr io.Writer
}

// StagedExit is how a staged command ended.
type StagedExit struct {
	ExitCode int    `json:"exit_code"` // -1 when a signal ended it
	Signal   string `json:"signal,omitempty"`
	Error    string `json:"error,omitempty"` // it could not be executed
	TimedOut bool   `json:"timed_out,omitempty"`
}

// stageSettings are what a stage is told, on a pipe or in a file of DATA/run.
type stageSettings struct {
	Argv      []string      `json:"argv"`
	Env       []string      `json:"env"`
	Dir       string        `json:"dir"`
	Rules     rules         `json:"rules"`
	Workspace turn.Folders  `json:"workspace"`
	Limit     time.Duration `json:"limit_ns,omitempty"` // runner: how long it may take
	Start     string        `json:"start,omitempty"`    // runner: the binary to stage by
}

// stagedSettings makes what the stage is told.
func (c *Client) stagedSettings(s Staged) (stageSettings, error) {
	if len(s.Argv) == 0 || s.Argv[0] == "" {
		return stageSettings{}, domain.InvalidField("argv", "is empty")
	}
	check := turn.Process{Argv: s.Argv, Env: s.Env, Workspace: s.Folders}
	if err := checkProcess(check); err != nil {
		return stageSettings{}, err
	}
	start, _, err := c.opts.executables()
	if err != nil {
		return stageSettings{}, domain.Wrap(domain.Internal, err, "the hangar binary has no path")
	}
	set := stageSettings{
		Argv: s.Argv, Dir: s.Dir, Workspace: s.Folders, Limit: s.Limit, Start: start,
		Env:   environ(s.Folders, s.Env, nil),
		Rules: rules{Data: c.opts.Data, Read: c.opts.Read, Write: s.Folders.Root},
	}
	if set.Dir == "" {
		set.Dir = s.Folders.Repo
	}
	if set.Limit == 0 {
		set.Limit = StagedLimit
	}
	return set, nil
}

// RunStaged runs a command and waits for its end. A command that ran gives no
// error, whatever its exit code; one that could not be executed, took too long or
// was ended by ctx does. Also when this process dies, the command and all that it
// started are killed.
func (c *Client) RunStaged(ctx context.Context, s Staged) (StagedExit, error) {
	set, err := c.stagedSettings(s)
	if err != nil {
		return StagedExit{}, err
	}
	exit, err := runStaged(ctx, set, s)
	switch {
	case ctx.Err() != nil:
		return exit, ctx.Err()
	case err != nil:
		return exit, domain.Wrap(domain.Unavailable, err, "the command cannot be run")
	case exit.Error != "":
		return exit, domain.Errorf(domain.Unavailable, "the command cannot be run: %s", exit.Error)
	case exit.TimedOut:
		return exit, domain.Errorf(domain.Unavailable, "%s took longer than %s", filepath.Base(s.Argv[0]), set.Limit)
	}
	return exit, nil
}

// StageCommand gives the same as a line for a shell, for programs that start one
// that their caller names: git fetch --upload-pack=LINE runs sh -c "LINE '<dir>'",
// and what stands behind the line is appended to Argv. Standard input and output
// are those of whoever runs the line; Stdin, Stdout and Stderr of s are not used.
// The line's exit code is the command's, 128 and the signal's number where one
// ended it. The command ends with whoever started it.
//
// The line works until remove is called. It needs nothing in the environment.
func (c *Client) StageCommand(s Staged) (line string, remove func() error, err error) {
	set, err := c.stagedSettings(s)
	if err != nil {
		return "", nil, err
	}
	set.Start = "" // the process that the line starts knows best
	_, binary, err := c.opts.executables()
	if err != nil {
		return "", nil, domain.Wrap(domain.Internal, err, "the hangar binary has no path")
	}
	b, err := json.Marshal(set)
	if err != nil {
		return "", nil, domain.Wrap(domain.Internal, err, "the settings of the stage cannot be written")
	}
	file := filepath.Join(c.opts.Data, "run", strings.Replace(stagePattern, "*", rand.Text(), 1))
	if err := os.WriteFile(file, b, 0o600); err != nil {
		return "", nil, domain.Wrap(domain.Unavailable, err, "the settings of the stage cannot be written")
	}
	remove = func() error {
		if err := os.Remove(file); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
		return nil
	}
	return fmt.Sprintf("%s %s %s", quote(binary), stageVerb, quote(file)), remove, nil
}

// quote makes one word of a shell's line.
func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }
