//go:build !linux && !darwin

package supervisor

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"os"
	"runtime"

	"hangar/domain"
)

// errUnsupported: agents need processes that outlive their parent, and locks that
// end with their holder.
var errUnsupported = domain.Errorf(domain.Unsupported, "agents cannot be run on %s; Linux and macOS can", runtime.GOOS)

func supported() error { return errUnsupported }

func ownedByUs(fs.FileInfo) bool { return false }

func locked(string) (bool, error) { return false, errUnsupported }

func sweep(string) {}

func (c *Client) spawn(context.Context, settings) error { return errUnsupported }

func (c *Client) reap() {}

// rules, as those of the systems that have a stage.
type rules struct {
	Data  string
	Read  []string
	Exec  string
	Write string
}

func runStaged(context.Context, stageSettings, Staged) (StagedExit, error) {
	return StagedExit{}, errUnsupported
}

func refuse() int {
	fmt.Fprintln(os.Stderr, errUnsupported)
	return 1
}

func supervise(io.Reader, io.Writer) int { return refuse() }
func stage() int                         { return refuse() }
func runner() int                        { return refuse() }
func stageCommand(string, []string) int  { return refuse() }
