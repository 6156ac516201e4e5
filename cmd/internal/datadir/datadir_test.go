package datadir_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"hangar/cmd/internal/datadir"
	"hangar/domain"
)

func open(t *testing.T) *datadir.Dir {
	t.Helper()
	d, err := datadir.Open(filepath.Join(t.TempDir(), "a", "data"))
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func needModes(t *testing.T) {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("files have no modes here")
	}
}

func seed(b byte) *bytes.Reader { return bytes.NewReader(bytes.Repeat([]byte{b}, 32)) }

func TestOpenIsForTheOwnerAlone(t *testing.T) {
	t.Parallel()
	needModes(t)
	d := open(t)
	info, err := os.Stat(d.Path())
	if err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("mode %v, %v; want 0700", info.Mode(), err)
	}
	if err := os.Chmod(d.Path(), 0o777); err != nil {
		t.Fatal(err)
	}
	if _, err := datadir.Open(d.Path()); err == nil || !strings.Contains(err.Error(), "chmod 700") {
		t.Errorf("a folder that all may write to: got %v, want a refusal", err)
	}
}

func TestFindMakesNothing(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "none")
	if _, err := datadir.Find(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v, want fs.ErrNotExist", err)
	}
	if _, err := os.Stat(path); err == nil {
		t.Error("the folder was made")
	}
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := datadir.Find(file); err == nil {
		t.Error("a file was taken for a folder")
	}
}

func TestSecondHolderIsRefusedByTheName(t *testing.T) {
	t.Parallel()
	d := open(t)
	l, err := d.Lock()
	if err != nil {
		t.Fatal(err)
	}
	want := fmt.Sprintf("another hangar (pid %d) uses this data folder", os.Getpid())
	if _, err := d.Lock(); err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
	if err := l.Announce("http://127.0.0.1:7330/mcp", "/tmp/x.sock"); err != nil {
		t.Fatal(err)
	}
	want = fmt.Sprintf("another hangar (pid %d, http://127.0.0.1:7330/mcp) uses this data folder", os.Getpid())
	var inUse *datadir.InUseError
	if _, err := d.Lock(); !errors.As(err, &inUse) || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
	if h := d.Holder(); h.Socket != "/tmp/x.sock" || h.PID != os.Getpid() {
		t.Errorf("holder %+v", h)
	}
	if err := l.Release(); err != nil {
		t.Fatal(err)
	}
	if h := d.Holder(); h != (datadir.Holder{}) {
		t.Errorf("after the release: %+v", h)
	}
	l, err = d.Lock()
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Release(); err != nil {
		t.Error(err)
	}
}

func TestSecretsAreMadeOnceAndKept(t *testing.T) {
	t.Parallel()
	d := open(t)
	first, err := d.Secrets(seed(1))
	if err != nil || len(first) != 1 {
		t.Fatalf("%v, %v", first, err)
	}
	again, err := d.Secrets(seed(2))
	if err != nil || len(again) != 1 || again[0].ID() != first[0].ID() {
		t.Errorf("read again: %v, %v; want %v", again, err, first)
	}
	added, err := d.AddSecret(seed(3))
	if err != nil || len(added) != 2 || added[1].ID() != first[0].ID() {
		t.Fatalf("added: %v, %v", added, err)
	}
	read, err := d.Secrets(seed(4))
	if err != nil || len(read) != 2 || read[0].ID() != added[0].ID() {
		t.Errorf("read after adding: %v, %v; want %v", read, err, added)
	}
	needModes(t)
	info, err := os.Stat(d.SecretFile())
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v; want 0600", info.Mode(), err)
	}
	left, err := filepath.Glob(d.SecretFile() + ".*")
	if err != nil || len(left) > 0 {
		t.Errorf("left over: %v, %v", left, err)
	}
}

func TestBadSecretFile(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		text string
		mode os.FileMode
		want string
	}{
		"not hex":  {"secret\n", 0o600, "line 1 is not 64 hex digits"},
		"empty":    {"\n", 0o600, "is empty"},
		"readable": {strings.Repeat("ab", 32), 0o644, "chmod 600"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if c.mode != 0o600 {
				needModes(t)
			}
			d := open(t)
			if err := os.WriteFile(d.SecretFile(), []byte(c.text), c.mode); err != nil {
				t.Fatal(err)
			}
			_, err := d.Secrets(seed(1))
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q in it", err, c.want)
			}
			if err != nil && strings.Contains(err.Error(), "abab") {
				t.Errorf("the secret is in the error: %v", err)
			}
		})
	}
}

func TestNoRandomnessNoSecret(t *testing.T) {
	t.Parallel()
	d := open(t)
	if _, err := d.Secrets(bytes.NewReader(nil)); err == nil {
		t.Error("a secret was made of nothing")
	}
	if _, err := os.Stat(d.SecretFile()); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v, want no file", err)
	}
}

func TestTokenAndNode(t *testing.T) {
	t.Parallel()
	d := open(t)
	if _, err := d.AdminToken(); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v, want fs.ErrNotExist", err)
	}
	if err := d.WriteAdminToken("hgr_x"); err != nil {
		t.Fatal(err)
	}
	if token, err := d.AdminToken(); token != "hgr_x" || err != nil {
		t.Errorf("got %q, %v", token, err)
	}
	id, err := d.NodeID(seed(1))
	if err != nil || id == "" {
		t.Fatalf("got %q, %v", id, err)
	}
	if again, err := d.NodeID(seed(2)); again != id || err != nil {
		t.Errorf("got %q, %v; want %q", again, err, id)
	}
}

func TestSocket(t *testing.T) {
	temp, err := os.MkdirTemp("", "h") //nolint:usetesting // short: a socket's path is bounded
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(temp) })
	t.Setenv("TMPDIR", temp)
	d := open(t)
	for range 2 { // the second finds what the first left
		l, err := d.ListenSocket(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		l.(*net.UnixListener).SetUnlinkOnClose(false)
		path, err := d.Socket()
		if err != nil || path != l.Addr().String() || !strings.HasPrefix(path, temp) || !strings.HasSuffix(path, ".sock") {
			t.Errorf("path %q, %v; it listens on %s", path, err, l.Addr())
		}
		var dialer net.Dialer
		c, err := dialer.DialContext(context.Background(), "unix", path)
		if err != nil {
			t.Fatal(err)
		}
		_ = c.Close()
		_ = l.Close()
	}
	needModes(t)
	path, err := d.Socket()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := d.ListenSocket(t.Context()); err == nil || !strings.Contains(err.Error(), "not a folder of this user alone") {
		t.Errorf("got %v, want a refusal", err)
	}
}

func TestSocketPathIsShort(t *testing.T) {
	needModes(t)
	d := open(t)
	t.Setenv("TMPDIR", "/tmp/"+strings.Repeat("long", 30))
	path, err := d.Socket()
	if err != nil || len(path) > 100 {
		t.Errorf("got %q (%d bytes), %v", path, len(path), err)
	}
}

func TestOutputIsFoundWhereItIs(t *testing.T) {
	t.Parallel()
	d := open(t)
	const id = "job-abcdefghijklmnopqrstuvwxyz"
	put := func(path, text string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	read := func() string {
		f, err := d.OpenOutput(id, 1)
		if err != nil {
			return err.Error()
		}
		defer f.Close()
		b, err := io.ReadAll(f)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	if _, err := d.OpenOutput(id, 1); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v, want fs.ErrNotExist", err)
	}
	put(filepath.Join(d.Run(), id+".1", "out"), "running")
	if got := read(); got != "running" {
		t.Errorf("got %q", got)
	}
	put(filepath.Join(d.Output(), id, "1"), "kept")
	if got := read(); got != "kept" {
		t.Errorf("got %q", got)
	}
	for _, wrong := range []string{"../secret.key", "job-x", ""} {
		if _, err := d.OpenOutput(domain.JobID(wrong), 1); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%q: got %v", wrong, err)
		}
	}
}
