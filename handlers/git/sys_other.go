//go:build !unix

package git

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
)

// Where there are no local workspaces nothing of this package is used; it is
// compiled all the same.

func killGroup(*exec.Cmd) {}

func owner(fs.FileInfo) (uid int, ok bool) { return 0, false }

func tryLock(*os.File) (bool, error) { return false, errors.ErrUnsupported }
