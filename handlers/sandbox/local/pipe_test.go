//go:build unix

package local_test

import (
	"path/filepath"
	"syscall"
	"testing"

	"hangar/handlers/sandbox"
	"hangar/handlers/sandbox/local"
)

// A pipe that nobody writes to would hold whoever opens it.
func TestPipeIsNotWaitedFor(t *testing.T) {
	t.Parallel()
	p, err := local.New(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	ws, err := p.Prepare(t.Context(), "job-x")
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(filepath.Join(ws.Repo, "pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	kept, dropped, err := p.Collect(t.Context(), ws, []sandbox.Declared{{Name: "p", Path: "repo/pipe"}}, []string{"*"}, t.TempDir())
	if err != nil || len(kept) != 0 || len(dropped) != 2 {
		t.Errorf("kept %v, dropped %q, %v", kept, dropped, err)
	}
}
