package sqlite

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"hangar/domain"
)

// lock keeps a second writer off the log, in this process or another. It is
// a file of its own beside the database: closing any descriptor of the database
// itself would drop SQLite's locks on it. The kernel lets go of it when the process
// ends, however it ends.
type lock struct{ file *os.File }

// errHeld: another holds the lock.
var errHeld = errors.New("the lock is held")

// acquire takes the lock and leaves holder in the file, for whoever comes second.
func acquire(path, holder string) (_ *lock, err error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			_ = f.Close()
		}
	}()
	if err := tryLock(f); err != nil {
		if errors.Is(err, errHeld) {
			return nil, domain.Wrap(domain.Unavailable, err, "the log is being written by "+nameOf(f))
		}
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	if err := f.Truncate(0); err != nil {
		return nil, err
	}
	_, err = f.WriteAt([]byte(holder+"\n"), 0)
	return &lock{file: f}, err
}

func nameOf(f *os.File) string {
	b, err := io.ReadAll(io.LimitReader(f, 1<<10))
	if name := strings.TrimSpace(string(b)); err == nil && name != "" {
		return name
	}
	return "another process"
}

// release lets the next writer in. The file stays: removing it would let two
// writers hold locks on two files of the same name.
func (l *lock) release() error { return l.file.Close() }
