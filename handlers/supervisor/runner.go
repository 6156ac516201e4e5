//go:build linux || darwin

package supervisor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// File descriptors of a runner, besides the standard ones.
const (
	lifeFD = 3 // its settings; its end is the command's
	exitFD = 4 // how the command ended
)

// runStaged starts a runner: the process that a staged command and all that comes
// of it belong to.
func runStaged(ctx context.Context, set stageSettings, s Staged) (StagedExit, error) {
	lifeIn, life, err := os.Pipe()
	if err != nil {
		return StagedExit{}, err
	}
	defer life.Close()
	hear, say, err := os.Pipe()
	if err != nil {
		lifeIn.Close()
		return StagedExit{}, err
	}
	defer hear.Close()
	cmd := &exec.Cmd{
		Path: set.Start, Args: []string{partRunner}, Dir: "/", Env: []string{},
		Stdin: s.Stdin, Stdout: s.Stdout, Stderr: s.Stderr, ExtraFiles: []*os.File{lifeIn, say},
		SysProcAttr: &syscall.SysProcAttr{Setsid: true}, WaitDelay: drainTime,
	}
	err = cmd.Start()
	lifeIn.Close()
	say.Close()
	if err != nil {
		return StagedExit{}, err
	}
	stop := context.AfterFunc(ctx, func() { life.Close() })
	defer stop()
	encodeErr := json.NewEncoder(life).Encode(set)
	waitErr := cmd.Wait()
	var exit StagedExit
	if err := json.NewDecoder(hear).Decode(&exit); err != nil {
		return StagedExit{ExitCode: -1}, errors.Join(encodeErr, waitErr, err)
	}
	return exit, nil
}

// runner is the life of a runner: settings from a pipe, one command, its exit.
func runner() int {
	syscall.CloseOnExec(lifeFD)
	syscall.CloseOnExec(exitFD)
	closeInherited(exitFD + 1)
	life := os.NewFile(lifeFD, "life")
	in := json.NewDecoder(life)
	var set stageSettings
	if err := in.Decode(&set); err != nil {
		return 1
	}
	over := make(chan struct{})
	go func() { // ends with the process
		_, _ = io.Copy(io.Discard, life)
		close(over)
	}()
	exit := run(set, over)
	_ = json.NewEncoder(os.NewFile(exitFD, "exit")).Encode(exit) // whoever started us may be gone
	return 0
}

// stageCommand is the life of what StageCommand's line starts.
func stageCommand(file string, args []string) int {
	closeInherited(3)
	say := func(err error) int {
		fmt.Fprintln(os.Stderr, "hangar stage:", err)
		return 126
	}
	b, err := os.ReadFile(file)
	if err != nil {
		return say(err)
	}
	var set stageSettings
	if err := json.Unmarshal(b, &set); err != nil {
		return say(err)
	}
	if set.Start, err = self(); err != nil {
		return say(err)
	}
	set.Argv = append(set.Argv, args...)
	over := make(chan struct{})
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	go func() { // ends with the process
		<-signals
		close(over)
	}()
	if err := endWithParent(); err != nil {
		return say(err)
	}
	exit := run(set, over)
	switch {
	case exit.Error != "":
		return say(errors.New(exit.Error))
	case exit.TimedOut:
		return say(fmt.Errorf("took longer than %s", set.Limit))
	case exit.ExitCode < 0:
		return 128 + int(unix.SignalNum(exit.Signal))
	}
	return exit.ExitCode
}

// run stages one command with this process's standard files and kills what is
// left of it when it ended, when over is closed, or when its time is up.
func run(set stageSettings, over <-chan struct{}) StagedExit {
	if err := adopt(); err != nil {
		return StagedExit{ExitCode: -1, Error: err.Error()}
	}
	p, err := startStage(set.Start, [3]*os.File{os.Stdin, os.Stdout, os.Stderr})
	if err != nil {
		return StagedExit{ExitCode: -1, Error: err.Error()}
	}
	defer p.end(0)
	if err := p.begin(set); err != nil {
		return StagedExit{ExitCode: -1, Error: err.Error()}
	}
	limit := time.NewTimer(set.Limit)
	defer limit.Stop()
	exit := StagedExit{}
	select {
	case ws := <-p.main:
		got := exitStatus(ws)
		return StagedExit{ExitCode: got.ExitCode, Signal: got.Signal}
	case <-over:
	case <-limit.C:
		exit.TimedOut = true
	}
	p.end(0)
	got := exitStatus(<-p.main)
	exit.ExitCode, exit.Signal = got.ExitCode, got.Signal
	return exit
}
