//go:build linux

package supervisor

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"hangar/domain"
	"hangar/domain/turn"
)

// A server that is killed between starting a supervisor and hearing that it has
// begun takes no agent with it.
func TestNobodyHearsThatItBegan(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	c, err := New(Options{Data: t.TempDir(), Grace: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	root := filepath.Join(c.opts.Data, "ws", "job")
	ws := turn.Folders{Root: root, Repo: root + "/repo", Home: root + "/home", Tmp: root + "/tmp", Bin: root + "/bin"}
	id := domain.TurnOf(domain.JobID(domain.EntityID("job", domain.CommandID(c.opts.Data))), 1)
	folder, err := turnFolder(c.opts.Data, id)
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{ws.Repo, ws.Home, ws.Tmp, ws.Bin, folder} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	start, binary, err := c.opts.executables()
	if err != nil {
		t.Fatal(err)
	}
	told, tell, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	hear, say, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	hear.Close()
	if _, err := c.startSupervisor(settings{Folder: folder, Executable: start}, told, say); err != nil {
		t.Fatal(err)
	}
	err = json.NewEncoder(tell).Encode(settings{
		Process: turn.Process{Turn: id, Argv: []string{"bash", "{prompt_file}"}, Prompt: "echo still here", Workspace: ws},
		Data:    c.opts.Data, Folder: folder, Sockets: socketFolders(), Executable: start, Binary: binary,
		Grace: time.Second, Keep: KeepAfter,
	})
	if err != nil {
		t.Fatal(err)
	}
	tell.Close()

	for after := 0; ; {
		line, err := c.Next(ctx, id, after)
		switch {
		case errors.Is(err, turn.ErrUnknownTurn) && ctx.Err() == nil:
			time.Sleep(retryInterval) // it has not begun yet
			continue
		case err != nil:
			t.Fatal(err)
		}
		if after = line.N; line.Kind == turn.LineExited {
			if line.Exit.Reason != turn.ExitCompleted || line.Exit.Message != "still here\n" {
				t.Errorf("exit %+v", line.Exit)
			}
			break
		}
	}
	if err := c.Release(ctx, id, ""); err != nil {
		t.Error(err)
	}
}
