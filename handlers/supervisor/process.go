//go:build linux || darwin

package supervisor

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"hangar/domain"
)

// closeInherited closes the files that this process was handed besides those below
// from: what a shell or an init left open in the server reaches no agent, and a
// supervisor holds no pipe that somebody waits on. Files that Go opened close by
// themselves when another program is executed, and are left alone.
func closeInherited(from int) {
	d, err := os.Open("/dev/fd")
	if err != nil {
		return
	}
	defer d.Close()
	names, _ := d.Readdirnames(-1) // what was read is what there is
	for _, name := range names {
		fd, err := strconv.Atoi(name)
		if err != nil || fd < from {
			continue
		}
		if flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err == nil && flags&unix.FD_CLOEXEC == 0 {
			_ = unix.Close(fd)
		}
	}
}

// supported says whether agents can be supervised on this system.
func supported() error { return nil }

// ownedByUs reports whether a file belongs to the user this process acts as.
func ownedByUs(fi fs.FileInfo) bool {
	st, ok := fi.Sys().(*syscall.Stat_t)
	return ok && int(st.Uid) == os.Geteuid()
}

// locked reports whether a supervisor lives in that folder. It holds the lock
// itself for an instant, which a supervisor that begins waits out.
func locked(folder string) (bool, error) {
	f, err := os.Open(filepath.Join(folder, lockFile))
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, domain.Wrap(domain.Internal, err, "the turn's lock cannot be looked at")
	}
	defer f.Close()
	err = flock(f, syscall.LOCK_SH|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return true, nil
	}
	if err != nil {
		return false, domain.Wrap(domain.Internal, err, "the turn's lock cannot be looked at")
	}
	return false, nil
}

// takeLock takes the lock for the life of the process. It reports false where
// another supervisor has it; one that only looks at it is waited for.
func takeLock(folder string) (*os.File, bool, error) {
	f, err := os.OpenFile(filepath.Join(folder, lockFile), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, false, err
	}
	for end := time.Now().Add(lockTime); ; time.Sleep(time.Millisecond) {
		err := flock(f, syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return f, true, nil
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) || time.Now().After(end) {
			f.Close()
			if errors.Is(err, syscall.EWOULDBLOCK) {
				err = nil
			}
			return nil, false, err
		}
	}
}

func flock(f *os.File, how int) error {
	for {
		if err := syscall.Flock(int(f.Fd()), how); !errors.Is(err, syscall.EINTR) {
			return err
		}
	}
}

// spawn starts a supervisor in a session of its own and waits for what it says. It
// does so also when ctx ends meanwhile: until a supervisor has the turn's lock
// nobody finds it to stop it, so one that was left alone would run its agent after
// the turn has ended. One that says nothing for long is killed.
func (c *Client) spawn(ctx context.Context, set settings) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	told, tell, err := os.Pipe() // settings
	if err != nil {
		return domain.Wrap(domain.Unavailable, err, "no pipe for the supervisor")
	}
	defer tell.Close()
	hear, say, err := os.Pipe() // what it says
	if err != nil {
		told.Close()
		return domain.Wrap(domain.Unavailable, err, "no pipe for the supervisor")
	}
	defer hear.Close()
	pid, err := c.startSupervisor(set, told, say)
	if err != nil {
		return domain.Wrap(domain.Unavailable, err, "the supervisor cannot be started")
	}
	limit := time.AfterFunc(c.opts.Begin, func() { c.kill(pid) })
	defer limit.Stop()
	err = json.NewEncoder(tell).Encode(set)
	if err == nil {
		err = tell.Close()
	}
	var b begun
	if err == nil {
		err = json.NewDecoder(io.LimitReader(hear, maxMessage)).Decode(&b)
	}
	switch {
	case err != nil:
		text, _ := os.ReadFile(filepath.Join(set.Folder, errorsFile)) // for the operator
		return domain.Wrap(domain.Unavailable, errors.Join(err, errors.New(string(bytes.TrimSpace(text)))), "the supervisor ended before it began")
	case b.State == stateFailed && b.Error != nil:
		return b.Error.err()
	}
	return nil
}

// startSupervisor starts the process and closes this side's copies of its pipes.
func (c *Client) startSupervisor(set settings, in, out *os.File) (pid int, err error) {
	defer in.Close()
	defer out.Close()
	errs, err := os.OpenFile(filepath.Join(set.Folder, errorsFile), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return 0, err
	}
	defer errs.Close()
	p, err := os.StartProcess(set.Executable, []string{partSupervisor}, &os.ProcAttr{
		Dir: "/", Env: []string{}, Files: []*os.File{in, out, errs},
		Sys: &syscall.SysProcAttr{Setsid: true},
	})
	if err != nil {
		return 0, err
	}
	pid = p.Pid
	c.mu.Lock()
	c.children[pid] = true
	c.mu.Unlock()
	return pid, p.Release() // nobody waits for it: it may outlive this process
}

// kill ends a supervisor that was started here. While it has not been reaped the
// number is its own.
func (c *Client) kill(pid int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.children[pid] {
		_ = syscall.Kill(pid, syscall.SIGKILL) // it may have ended
	}
}

// reap takes note of supervisors started here that have ended, so that they do
// not stay in the process table.
func (c *Client) reap() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for pid := range c.children {
		got, err := syscall.Wait4(pid, nil, syscall.WNOHANG, nil)
		if got == pid || errors.Is(err, syscall.ECHILD) {
			delete(c.children, pid)
		}
	}
}
