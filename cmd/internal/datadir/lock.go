package datadir

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
)

// Holder is who has a data folder, as it left it in the lock file.
type Holder struct {
	PID    int    `json:"pid"`
	URL    string `json:"url,omitempty"`    // of its MCP endpoint, once it serves
	Socket string `json:"socket,omitempty"` // its local socket, once it serves
}

// InUseError says that another process has the data folder.
type InUseError struct{ Holder Holder }

// Error names the process and where it serves.
func (e *InUseError) Error() string {
	switch {
	case e.Holder.PID == 0:
		return "another hangar uses this data folder"
	case e.Holder.URL == "":
		return fmt.Sprintf("another hangar (pid %d) uses this data folder", e.Holder.PID)
	}
	return fmt.Sprintf("another hangar (pid %d, %s) uses this data folder", e.Holder.PID, e.Holder.URL)
}

// Lock is the right to a data folder. The kernel takes it back when the process
// ends, however it ends, so it is held by the living only.
type Lock struct{ file *os.File }

// errHeld: another process holds the lock.
var errHeld = errors.New("the lock is held")

// Lock takes the folder for this process. When another has it the error is an
// *InUseError.
func (d *Dir) Lock() (*Lock, error) {
	f, err := os.OpenFile(d.lockFile(), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock the data folder: %w", err)
	}
	if err := tryLock(f); err != nil {
		holder := readHolder(f)
		_ = f.Close()
		if errors.Is(err, errHeld) {
			return nil, &InUseError{holder}
		}
		return nil, fmt.Errorf("lock the data folder: %w", err)
	}
	l := &Lock{f}
	if err := l.Announce("", ""); err != nil {
		_ = f.Close()
		return nil, err
	}
	return l, nil
}

// Announce leaves in the lock file where this process serves.
func (l *Lock) Announce(url, socket string) error {
	b, err := json.Marshal(Holder{os.Getpid(), url, socket})
	if err != nil {
		return err
	}
	if err = l.file.Truncate(0); err == nil {
		_, err = l.file.WriteAt(append(b, '\n'), 0)
	}
	if err != nil {
		return fmt.Errorf("write the lock file: %w", err)
	}
	return nil
}

// Release gives the folder back. The file stays: were it removed, two processes
// could hold locks on two files of one name.
func (l *Lock) Release() error {
	return errors.Join(l.file.Truncate(0), l.file.Close())
}

// Holder gives what the last holder of the folder left; whether it still serves is
// seen by calling it.
func (d *Dir) Holder() Holder {
	f, err := os.Open(d.lockFile())
	if err != nil {
		return Holder{}
	}
	defer f.Close()
	return readHolder(f)
}

func readHolder(f *os.File) Holder {
	var h Holder
	b, err := io.ReadAll(io.NewSectionReader(f, 0, maxKeyFile))
	if err != nil || json.Unmarshal(b, &h) != nil {
		return Holder{}
	}
	return h
}
