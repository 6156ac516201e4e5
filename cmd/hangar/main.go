// Hangar serves MCP: long work becomes tasks, and everything that happens to a
// task is an appended event. The same program is the server, its command line,
// the supervisor of its agents, and the helper they call.
package main

import (
	"context"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"hangar/cmd/internal/config"
	"hangar/handlers/supervisor"
)

func main() {
	supervisor.Main() // a process that was started for a part of an agent's run goes no further
	os.Exit(hangar())
}

// hangar is the command line as people and scripts call it. The first signal ends
// what goes on, a second one the program.
func hangar() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop)
	return run(ctx, os.Args[1:], &shell{in: os.Stdin, out: os.Stdout, errw: os.Stderr, getenv: os.Getenv, zone: time.Local})
}

// shell is what a command is called in.
type shell struct {
	in     io.Reader
	out    io.Writer // results, and nothing else
	errw   io.Writer // everything else
	getenv func(string) string
	zone   *time.Location // of times for people

	flags config.Flags
	json  bool // results are for machines
}
