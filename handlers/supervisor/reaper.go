//go:build linux || darwin

package supervisor

import (
	"errors"
	"syscall"
)

// reaper waits for every process that this one started or adopted. There may be
// no other waiting in the process.
type reaper struct {
	main   chan syscall.WaitStatus // how the first one ended
	gone   chan struct{}           // closed when there are none left
	mainID int
}

func newReaper(pid int) *reaper {
	r := &reaper{main: make(chan syscall.WaitStatus, 1), gone: make(chan struct{}), mainID: pid}
	go r.run() // ends when the last process has, which the owner sees to
	return r
}

func (r *reaper) run() {
	defer close(r.gone)
	for {
		var ws syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &ws, 0, nil)
		switch {
		case errors.Is(err, syscall.EINTR):
		case err != nil:
			return // no children
		case pid == r.mainID:
			r.main <- ws
		}
	}
}
