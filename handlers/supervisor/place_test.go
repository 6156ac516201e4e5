//go:build linux

package supervisor

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestSocketFolders(t *testing.T) {
	base, err := os.MkdirTemp("/tmp", "hs") //nolint:usetesting // short: a socket's path is bounded
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(base)
	open, link, file, good := base+"/open", base+"/link", base+"/file", base+"/good"
	long := filepath.Join(base, strings.Repeat("l", maxSocketPath))
	for dir, mode := range map[string]os.FileMode{open: 0o755, long: 0o700, base + "/target": 0o700} {
		if err := os.Mkdir(dir, mode); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(base+"/target", link); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	got, err := socketPath([]string{open, link, file, long, base + "/no/such", good}, "/data", "job-x.1")
	if err != nil || filepath.Dir(got) != good || len(got) > maxSocketPath {
		t.Errorf("%s, %v", got, err)
	}
	if fi, err := os.Stat(good); err != nil || fi.Mode().Perm() != 0o700 {
		t.Errorf("%v, %v", fi, err)
	}
	other, err := socketPath([]string{good}, "/data2", "job-x.1")
	if err != nil || other == got {
		t.Errorf("two data folders, one socket: %s, %v", other, err)
	}
	if _, err := socketPath([]string{open}, "/data", "job-x.1"); err == nil || !strings.Contains(err.Error(), "0700") {
		t.Errorf("err %v", err)
	}
	t.Setenv("XDG_RUNTIME_DIR", good)
	if list := socketFolders(); list[0] != good || len(list) < 2 {
		t.Errorf("folders %v", list)
	}
}

func TestCarve(t *testing.T) {
	t.Parallel()
	base := t.TempDir()
	for _, dir := range []string{"a/b/data/ws", "a/b/side", "a/c"} {
		if err := os.MkdirAll(filepath.Join(base, dir), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(filepath.Join(base, "a/b/data"), filepath.Join(base, "a/link")); err != nil {
		t.Fatal(err)
	}
	data := filepath.Join(base, "a/b/data")
	for path, want := range map[string][]string{
		"a":           {"a/b/side", "a/c"},
		"a/b":         {"a/b/side"},
		"a/c":         {"a/c"},
		"a/b/data":    nil,
		"a/b/data/ws": nil,
		"a/b/dat":     {"a/b/dat"},
	} {
		var got []string
		for _, p := range carve(filepath.Join(base, path), data) {
			rel, _ := filepath.Rel(base, p)
			got = append(got, rel)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", path, got, want)
		}
	}
}
