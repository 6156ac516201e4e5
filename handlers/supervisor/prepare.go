//go:build linux || darwin

package supervisor

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"hangar/domain/turn"
)

// prepare makes all that the agent needs, and a stage that waits to become it.
func (s *supervisor) prepare() (*process, error) {
	if s.flaw != nil {
		return nil, s.flaw
	}
	var err error
	if s.out, err = openOutput(filepath.Join(s.set.Folder, outFile), turn.MaxOutputBytes); err != nil {
		return nil, fmt.Errorf("the file of the agent's output: %w", err)
	}
	if err := furnish(s.set.Process, s.set.Binary); err != nil {
		return nil, err
	}
	if err := adopt(); err != nil {
		return nil, fmt.Errorf("orphans cannot be adopted: %w", err)
	}
	null, err := os.Open(os.DevNull)
	if err != nil {
		return nil, err
	}
	defer null.Close()
	in, out, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer out.Close()
	agent, err := startStage(s.set.Executable, [3]*os.File{null, out, out})
	if err != nil {
		in.Close()
		return nil, fmt.Errorf("the stage: %w", err)
	}
	agent.output = in
	agent.collect(s.out)
	return agent, nil
}

// furnish puts the prompt and the helper into the workspace. The workspace is the
// agent's, so no link in it is followed out of it. The helper is a symbolic link:
// through a hard one the agent could write the binary.
func furnish(p turn.Process, binary string) error {
	root, err := os.OpenRoot(p.Workspace.Root)
	if err != nil {
		return fmt.Errorf("the workspace: %w", err)
	}
	defer root.Close()
	tmp, err1 := filepath.Rel(p.Workspace.Root, p.Workspace.Tmp)
	bin, err2 := filepath.Rel(p.Workspace.Root, p.Workspace.Bin)
	if err := errors.Join(err1, err2); err != nil {
		return fmt.Errorf("the workspace: %w", err)
	}
	prompt, helper := filepath.Join(tmp, promptName(p.Turn)), filepath.Join(bin, "hangar")
	if err := errors.Join(root.RemoveAll(prompt), root.RemoveAll(helper)); err != nil {
		return fmt.Errorf("what the turn before left in the workspace: %w", err)
	}
	if err := root.WriteFile(prompt, []byte(p.Prompt), 0o600); err != nil {
		return fmt.Errorf("the prompt's file: %w", err)
	}
	if err := root.Symlink(binary, helper); err != nil {
		return fmt.Errorf("the helper: %w", err)
	}
	return nil
}
