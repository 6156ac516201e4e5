// Package datadir is the folder in which one server keeps everything: the log,
// the views, its secret, what agents work in and what they leave. It says what is
// where, makes what has to be there, and lets one server at a time have it.
package datadir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Dir is a data folder.
type Dir struct{ path string }

// Open gives the data folder at a path, made for its owner alone if it is not
// there. One that others may write to is refused: they could put another log or
// secret in its place.
func Open(path string) (*Dir, error) {
	if err := os.MkdirAll(path, 0o700); err != nil {
		return nil, fmt.Errorf("make the data folder: %w", err)
	}
	return Find(path)
}

// Find gives the data folder at a path. Where there is none the error is
// fs.ErrNotExist.
func Find(path string) (*Dir, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("the data folder: %w", err)
	}
	real, err := filepath.EvalSymlinks(abs)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("there is no data folder %s: %w", abs, fs.ErrNotExist)
	}
	if err != nil {
		return nil, fmt.Errorf("the data folder: %w", err)
	}
	info, err := os.Stat(real)
	if err != nil {
		return nil, fmt.Errorf("the data folder: %w", err)
	}
	if !info.IsDir() {
		return nil, fmt.Errorf("the data folder %s is not a folder", real)
	}
	if hasModes && info.Mode().Perm()&0o022 != 0 {
		return nil, fmt.Errorf("the data folder %s can be written to by others (mode %#o): run chmod 700 on it", real, info.Mode().Perm())
	}
	return &Dir{real}, nil
}

// Path gives the folder itself: absolute, links resolved.
func (d *Dir) Path() string { return d.path }

// Log is the file of the log, on the embedded store.
func (d *Dir) Log() string { return d.in("hangar.db") }

// Views is the file of the views. It may be deleted at any time.
func (d *Dir) Views() string { return d.in("views.db") }

// Run is the folder of the turns that run, one folder each.
func (d *Dir) Run() string { return d.in("run") }

// Workspaces is the folder of what agents work in, one folder a job.
func (d *Dir) Workspaces() string { return d.in("ws") }

// Output is the folder of what agents printed: <job>/<turn's number>.
func (d *Dir) Output() string { return d.in("output") }

// Artifacts is the folder of what was kept: <job>/<name>.
func (d *Dir) Artifacts() string { return d.in("artifacts") }

// AdminTokenFile holds the token that the first start issued.
func (d *Dir) AdminTokenFile() string { return d.in("admin.token") }

// SecretFile holds the server's secrets, one a line, newest first.
func (d *Dir) SecretFile() string { return d.in("secret.key") }

func (d *Dir) lockFile() string   { return d.in("lock") }
func (d *Dir) nodeIDFile() string { return d.in("node.id") }

func (d *Dir) in(name string) string { return filepath.Join(d.path, name) }

// Make makes the folders that a server needs, for its owner alone.
func (d *Dir) Make() error {
	for _, path := range []string{d.Run(), d.Workspaces(), d.Output(), d.Artifacts()} {
		if err := os.MkdirAll(path, 0o700); err != nil {
			return fmt.Errorf("make the data folder: %w", err)
		}
	}
	return nil
}
