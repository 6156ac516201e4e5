package supervisor

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// adopt makes this process the one to which orphans among its descendants fall,
// so that none gets away by losing its parent.
func adopt() error {
	return unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
}

// proc is a process as /proc shows it. Its start tells it from a later one with
// the same id.
type proc struct {
	pid, parent int
	start       string
}

// readProc reads /proc/<pid>/stat.
func readProc(pid int) (proc, bool) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return proc{}, false
	}
	// The command's name, in parentheses, may hold anything; fields 3 on follow it.
	fields := bytes.Fields(b[bytes.LastIndexByte(b, ')')+1:])
	const parentField, startField = 4 - 3, 22 - 3
	if len(fields) <= startField {
		return proc{}, false
	}
	parent, err := strconv.Atoi(string(fields[parentField]))
	return proc{pid: pid, parent: parent, start: string(fields[startField])}, err == nil
}

// pids lists the processes there are.
func pids() []int {
	d, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer d.Close()
	names, _ := d.Readdirnames(-1) // what was read is what there is to look at
	var list []int
	for _, name := range names {
		if pid, err := strconv.Atoi(name); err == nil {
			list = append(list, pid)
		}
	}
	return list
}

// descendants lists the processes below this one, however deep.
func descendants() []proc {
	children := map[int][]proc{}
	for _, pid := range pids() {
		if p, ok := readProc(pid); ok {
			children[p.parent] = append(children[p.parent], p)
		}
	}
	var list []proc
	for next := children[os.Getpid()]; len(next) > 0; {
		p := next[0]
		next = append(next[1:], children[p.pid]...)
		list = append(list, p)
	}
	return list
}

// signal sends to exactly this process, never to one that took over its id.
func (p proc) signal(sig syscall.Signal) {
	fd, err := unix.PidfdOpen(p.pid, 0)
	if errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EPERM) { // before Linux 5.3, or filtered
		_ = syscall.Kill(p.pid, sig)
		return
	}
	if err != nil {
		return // it is gone
	}
	defer unix.Close(fd)
	if now, ok := readProc(p.pid); ok && now.start == p.start {
		_ = unix.PidfdSendSignal(fd, sig, nil, 0) // one that is gone needs none
	}
}

// signalTree signals every descendant. The group is not needed: none escapes.
func signalTree(_ int, sig syscall.Signal) {
	for _, p := range descendants() {
		p.signal(sig)
		if sig == syscall.SIGTERM {
			p.signal(syscall.SIGCONT) // one that is stopped could not take it
		}
	}
}

const (
	sweepTime  = 5 * time.Second // for killed processes to go
	sweepPause = 10 * time.Millisecond
	maxEnviron = 1 << 20 // bytes of an environment looked at
)

// sweep kills the processes that carry a turn's mark in their environment: what
// is left where a supervisor died, or was handed to another parent.
func sweep(mark string) {
	entry := []byte(EnvMark + "=" + mark)
	for end := time.Now().Add(sweepTime); time.Now().Before(end); time.Sleep(sweepPause) {
		found := false
		for _, pid := range pids() {
			if pid != os.Getpid() && marked(pid, entry) {
				if p, ok := readProc(pid); ok && marked(pid, entry) {
					p.signal(syscall.SIGKILL)
					found = true
				}
			}
		}
		if !found {
			return
		}
	}
}

// marked reports whether a process has an entry in the environment it was
// executed with. A process that has ended has none.
func marked(pid int, entry []byte) bool {
	f, err := os.Open(fmt.Sprintf("/proc/%d/environ", pid))
	if err != nil {
		return false // another user's, or gone
	}
	defer f.Close()
	b, _ := io.ReadAll(io.LimitReader(f, maxEnviron))
	for e := range bytes.SplitSeq(b, []byte{0}) {
		if bytes.Equal(e, entry) {
			return true
		}
	}
	return false
}

// groupRemains reports nothing to do: every descendant is waited for here.
func groupRemains(int) bool { return false }

// endWithParent has this process told (SIGTERM) when its parent dies.
func endWithParent() error {
	return unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGTERM), 0, 0, 0)
}
