package scripted

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"time"

	"hangar/domain"
	"hangar/domain/turn"
)

// gitTimeout bounds one git command of an agent.
const gitTimeout = 30 * time.Second

// commit writes text as FILE in the repository and commits it there. This agent
// runs with the server's rights, so it stays within the folder and writes
// nothing that git would run.
func (p *player) commit(ctx context.Context, file, text string) error {
	if p.Workspace.Repo == "" {
		return errors.New("commit: this turn has no workspace")
	}
	for part := range strings.SplitSeq(filepath.ToSlash(file), "/") {
		if strings.EqualFold(part, ".git") {
			return fmt.Errorf("commit: %s is git's own", file)
		}
	}
	if err := write(p.Workspace.Repo, file, text); err != nil {
		return fmt.Errorf("commit: %w", err)
	}
	if _, err := os.Stat(filepath.Join(p.Workspace.Repo, ".git")); err != nil {
		return nil // no repository: the file is all there is
	}
	if err := p.git(ctx, "add", "--", file); err != nil {
		return err
	}
	args := []string{"commit", "--quiet", "--allow-empty", "--message=" + text}
	if p.git(ctx, "config", "--get", "user.email") != nil {
		args = append([]string{"-c", "user.name=Hangar", "-c", "user.email=hangar@localhost"}, args...)
	}
	return p.git(ctx, args...)
}

// git runs git in the repository with an environment of its own, at the clock's
// time: the same script makes the same commits.
func (p *player) git(ctx context.Context, args ...string) error {
	ctx, cancel := context.WithTimeout(ctx, gitTimeout)
	defer cancel()
	args = append([]string{
		"--literal-pathspecs",
		"-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false", "-c", "commit.gpgSign=false",
	}, args...)
	cmd := exec.CommandContext(ctx, "git", args...)
	cmd.Dir = p.Workspace.Repo
	now := domain.FormatTime(p.clock.Now())
	cmd.Env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + p.Workspace.Home, "LC_ALL=C",
		"GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null", "GIT_TERMINAL_PROMPT=0",
		"GIT_AUTHOR_DATE=" + now, "GIT_COMMITTER_DATE=" + now,
	}
	cmd.WaitDelay = time.Second
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("git: %w: %s", err, out)
	}
	return nil
}

// artifact writes text to a file outside the repository, so that it is no change
// there, and reports it.
func (p *player) artifact(name, text string) error {
	if p.Workspace.Root == "" {
		return errors.New("artifact: this turn has no workspace")
	}
	dir, err := filepath.Rel(p.Workspace.Root, p.Workspace.Tmp)
	if err != nil || !filepath.IsLocal(dir) {
		return errors.New("artifact: the workspace has no folder for temporary files")
	}
	file := path.Join(filepath.ToSlash(dir), name)
	if err := write(p.Workspace.Root, file, text); err != nil {
		return fmt.Errorf("artifact: %w", err)
	}
	p.journal.add(turn.Line{Kind: turn.LineArtifact, Name: name, Path: file})
	return nil
}

// write makes a file of one line below dir, and never outside it.
func write(dir, file, text string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	if err := root.MkdirAll(path.Dir(file), 0o755); err != nil {
		return err
	}
	return root.WriteFile(file, []byte(text+"\n"), 0o644)
}
