package datadir

import (
	"errors"
	"io/fs"
	"os"

	"golang.org/x/sys/windows"
)

// hasModes: a file's mode says nothing here; the folders of a user are the user's
// by their access lists.
const hasModes = false

// shortTemp is a temporary folder whose path is short; there is none for all.
const shortTemp = ""

// socketFolder needs no user: the temporary folder is the user's own.
func socketFolder() string { return "hangar" }

func isOurs(fs.FileInfo) bool { return true }

// lockAt is the byte that is locked, far behind the content: a locked byte could
// not be read by others.
const lockAt = 1 << 30

func tryLock(f *os.File) error {
	err := windows.LockFileEx(windows.Handle(f.Fd()), windows.LOCKFILE_EXCLUSIVE_LOCK|windows.LOCKFILE_FAIL_IMMEDIATELY,
		0, 1, 0, &windows.Overlapped{Offset: lockAt})
	if errors.Is(err, windows.ERROR_LOCK_VIOLATION) {
		return errHeld
	}
	return err
}

// syncFolder does nothing: a folder cannot be synced here.
func syncFolder(string) error { return nil }
