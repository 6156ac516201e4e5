package datadir

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
)

// maxSocketPath is how long a socket's path may be, in bytes: every kernel takes
// this much.
const maxSocketPath = 100

// Socket gives the path of the local socket of this folder's server, in a folder
// below the temporary one that is checked to be this user's alone. The folder is
// made if it is not there.
func (d *Dir) Socket() (string, error) {
	sum := sha256.Sum256([]byte(d.path))
	name := filepath.Join(socketFolder(), hex.EncodeToString(sum[:8])+".sock")
	path := filepath.Join(os.TempDir(), name)
	if len(path) > maxSocketPath {
		path = filepath.Join(shortTemp, name)
	}
	return path, ownFolder(filepath.Dir(path))
}

// ownFolder sees to it that a folder is there and is this user's alone.
func ownFolder(path string) error {
	if err := os.Mkdir(path, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("make the folder of the local socket: %w", err)
	}
	info, err := os.Lstat(path)
	if err != nil {
		return fmt.Errorf("the folder of the local socket: %w", err)
	}
	if !info.IsDir() || !isOurs(info) || hasModes && info.Mode().Perm() != 0o700 {
		return fmt.Errorf("%s is not a folder of this user alone (mode 0700): remove it, or set TMPDIR to another folder", path)
	}
	return nil
}

// ListenSocket listens on the local socket: call it with the lock held, so that
// what is there is of a process that is gone. Closing the listener removes it.
func (d *Dir) ListenSocket(ctx context.Context) (net.Listener, error) {
	path, err := d.Socket()
	if err != nil {
		return nil, err
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("the local socket: %w", err)
	}
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "unix", path)
	if err != nil {
		return nil, fmt.Errorf("the local socket: %w", err)
	}
	if err := os.Chmod(path, 0o600); err != nil {
		return nil, errors.Join(fmt.Errorf("the local socket: %w", err), l.Close())
	}
	return l, nil
}
