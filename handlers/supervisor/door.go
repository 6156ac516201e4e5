package supervisor

import (
	"crypto/subtle"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"
)

// tokens open the door: one for the server, one for the agent.
type tokens struct{ control, helper string }

// right is what a token reaches.
type right int

const (
	noRight right = iota
	helperRight
	controlRight
)

// of compares in constant time, both tokens whichever it is.
func (t tokens) of(shown string) right {
	c := subtle.ConstantTimeCompare([]byte(shown), []byte(t.control))
	h := subtle.ConstantTimeCompare([]byte(shown), []byte(t.helper))
	switch {
	case c == 1:
		return controlRight
	case h == 1:
		return helperRight
	}
	return noRight
}

// reaches reports whether a right covers a verb.
func (r right) reaches(v verb) bool {
	helper := slices.Contains([]verb{doAsk, doStep, doResult, doArtifact, doPR}, v)
	return r == helperRight && helper || r == controlRight && !helper
}

// door is the turn's socket. Who connects and asks for nothing is turned out when
// others press in, so that an agent cannot keep the server from it.
type door struct {
	path  string
	serve func(*wire)

	mu        sync.Mutex
	listener  *net.UnixListener
	place     os.FileInfo // of the socket's file
	newcomers []net.Conn  // the longest waiting first
}

func (d *door) open() error {
	_ = os.Remove(d.path) // of one that died: the name is this turn's, and the lock is ours
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: d.path, Net: "unix"})
	if err != nil {
		return err
	}
	l.SetUnlinkOnClose(false)
	if err := os.Chmod(d.path, 0o600); err != nil {
		l.Close()
		return err
	}
	place, err := os.Lstat(d.path)
	if err != nil {
		l.Close()
		return err
	}
	d.mu.Lock()
	old := d.listener
	d.listener, d.place = l, place
	d.mu.Unlock()
	if old != nil {
		old.Close()
	}
	go d.accept(l) // ends when the listener is closed
	return nil
}

// mend opens the socket anew where its file is gone: folders for temporary files
// are cleaned, and those of a session end with it.
func (d *door) mend() {
	if fi, err := os.Lstat(d.path); err == nil && os.SameFile(fi, d.place) {
		return
	}
	err := secureFolder(filepath.Dir(d.path))
	if err == nil {
		err = d.open()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "the socket cannot be opened anew:", err)
	}
}

func (d *door) close() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.listener != nil {
		d.listener.Close()
		if fi, err := os.Lstat(d.path); err == nil && os.SameFile(fi, d.place) {
			_ = os.Remove(d.path)
		}
	}
}

func (d *door) accept(l *net.UnixListener) {
	for {
		c, err := l.Accept()
		if err != nil {
			if d.current(l) {
				time.Sleep(retryInterval) // out of descriptors: some will be closed
				continue
			}
			return
		}
		d.admit(c)
		go func() { // ends with the connection
			defer c.Close()
			defer d.forget(c)
			d.serve(newWire(c))
		}()
	}
}

func (d *door) current(l *net.UnixListener) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	fi, err := os.Lstat(d.path)
	return d.listener == l && err == nil && os.SameFile(fi, d.place)
}

// admit notes a newcomer, in place of the one that has said nothing the longest.
func (d *door) admit(c net.Conn) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.newcomers) >= maxNewcomers {
		d.newcomers[0].Close()
		d.newcomers = d.newcomers[1:]
	}
	d.newcomers = append(d.newcomers, c)
}

// forget takes one off the list of newcomers: it has asked for something, or is gone.
func (d *door) forget(c net.Conn) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.newcomers = slices.DeleteFunc(d.newcomers, func(o net.Conn) bool { return o == c })
}
