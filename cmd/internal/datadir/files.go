package datadir

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"hangar/domain"
)

// maxKeyFile bounds the small files of the folder, in bytes.
const maxKeyFile = 64 << 10

// Secrets gives the server's secrets, newest first. Where there is no key file one
// is made, of random bytes: call it with the lock held.
func (d *Dir) Secrets(random io.Reader) ([]domain.Secret, error) {
	list, err := d.readSecrets()
	if !errors.Is(err, fs.ErrNotExist) {
		return list, err
	}
	return d.AddSecret(random)
}

// AddSecret puts a new secret before those there are, and gives them all, newest
// first: call it with the lock held.
func (d *Dir) AddSecret(random io.Reader) ([]domain.Secret, error) {
	list, err := d.readSecrets()
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var seed [32]byte
	if _, err := io.ReadFull(random, seed[:]); err != nil {
		return nil, fmt.Errorf("make a server secret: %w", err)
	}
	list = append([]domain.Secret{domain.NewSecret(seed)}, list...)
	var text strings.Builder
	for _, s := range list {
		text.WriteString(s.Hex() + "\n")
	}
	return list, write(d.SecretFile(), text.String())
}

func (d *Dir) readSecrets() ([]domain.Secret, error) {
	text, err := readPrivate(d.SecretFile())
	if err != nil {
		return nil, err
	}
	var list []domain.Secret
	for line := range strings.Lines(text) {
		s, err := domain.ParseSecret(strings.TrimSpace(line))
		if err != nil {
			return nil, fmt.Errorf("%s: line %d is not 64 hex digits", d.SecretFile(), len(list)+1)
		}
		list = append(list, s)
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("%s is empty: put the secret back, or remove the file and run `hangar secret rotate --lost`", d.SecretFile())
	}
	return list, nil
}

// AdminToken gives the token that the first start issued. Where there is none the
// error is fs.ErrNotExist.
func (d *Dir) AdminToken() (string, error) {
	text, err := readPrivate(d.AdminTokenFile())
	return strings.TrimSpace(text), err
}

// WriteAdminToken keeps a token for the command line.
func (d *Dir) WriteAdminToken(token string) error { return write(d.AdminTokenFile(), token+"\n") }

// NodeID gives the name of this node, made of random bytes where it has none yet:
// call it with the lock held.
func (d *Dir) NodeID(random io.Reader) (string, error) {
	text, err := readPrivate(d.nodeIDFile())
	if err == nil || !errors.Is(err, fs.ErrNotExist) {
		return strings.TrimSpace(text), err
	}
	var seed [32]byte
	if _, err := io.ReadFull(random, seed[:]); err != nil {
		return "", fmt.Errorf("make the node's id: %w", err)
	}
	id := domain.ShortHash(seed[:])
	return id, write(d.nodeIDFile(), id+"\n")
}

// readPrivate reads a small file that nobody else may read.
func readPrivate(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return "", err
	}
	if hasModes && info.Mode().Perm()&0o077 != 0 {
		return "", fmt.Errorf("%s can be read by others (mode %#o): run chmod 600 on it", path, info.Mode().Perm())
	}
	b, err := io.ReadAll(io.LimitReader(f, maxKeyFile))
	return string(bytes.TrimSpace(b)), err
}

// write puts a text into a file for its owner alone: whole and on the disk, or not
// at all.
func write(path, text string) (err error) {
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*") // mode 0600
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(f.Name())
		}
	}()
	_, err = f.WriteString(text)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err = os.Rename(f.Name(), path); err != nil {
		return err
	}
	return syncFolder(filepath.Dir(path))
}

// OpenOutput opens what the agent of a job's turn printed: where it is kept, else
// where it is being written. Where there is nothing the error is fs.ErrNotExist.
func (d *Dir) OpenOutput(id domain.JobID, turn int) (io.ReadSeekCloser, error) {
	if !domain.ValidID("job", string(id)) || turn < 1 {
		return nil, fs.ErrNotExist
	}
	f, err := os.Open(filepath.Join(d.Output(), string(id), strconv.Itoa(turn)))
	if errors.Is(err, fs.ErrNotExist) {
		f, err = os.Open(filepath.Join(d.Run(), string(domain.TurnOf(id, turn)), "out"))
	}
	if err != nil {
		return nil, err
	}
	return f, nil
}
