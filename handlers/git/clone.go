package git

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Place is where a clone goes.
type Place struct {
	Dest string // an absolute path; the folder is made
	// Marker is a file out of the agent's reach. It is there when, and only when,
	// the clone was finished: the proof that is looked at first.
	Marker string
	// Continue is for a later turn whose workspace is gone: the clone begins at
	// the job's branch, where the repository has it.
	Continue bool
}

// marker is what the marker file says, for people.
type marker struct {
	Repo   string `json:"repo"`
	Dest   string `json:"dest"`
	Branch string `json:"branch"`
	Commit string `json:"commit"` // at which the clone began
}

// Clone makes a clone that shares nothing with the repository, with the job's
// branch checked out. It does nothing where that was done before; a clone that
// was begun and not finished is removed and made again. It must not be called
// while an agent may be at work in the folder.
func (g *Git) Clone(ctx context.Context, c Checked, p Place) error {
	ctx, cancel := within(ctx, CloneTimeout)
	defer cancel()
	done, err := p.finished()
	if done || err != nil {
		return err
	}
	if err := p.clear(); err != nil {
		return fmt.Errorf("clearing the place of a clone: %w", err)
	}
	start, err := g.clone(ctx, c, p)
	if err != nil {
		return fmt.Errorf("cloning %s: %w", c.Repo, err)
	}
	return p.finish(marker{Repo: c.Repo, Dest: p.Dest, Branch: c.Branch, Commit: start})
}

// finished reports whether the clone was made and is still there.
func (p Place) finished() (bool, error) {
	for _, name := range []string{p.Marker, p.Dest} {
		if _, err := os.Lstat(name); err != nil {
			if errors.Is(err, fs.ErrNotExist) {
				err = nil
			}
			return false, err
		}
	}
	return true, nil
}

// clear removes the marker, then what a clone that was not finished has left.
func (p Place) clear() error {
	if err := os.Remove(p.Marker); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.RemoveAll(p.Dest); err != nil {
		return err
	}
	return os.MkdirAll(filepath.Dir(p.Dest), 0o700)
}

// finish writes the marker, whole or not at all.
func (p Place) finish(m marker) error {
	b, err := json.Marshal(m)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(p.Marker), 0o700); err != nil {
		return err
	}
	tmp := p.Marker + ".new"
	if err := os.WriteFile(tmp, append(b, '\n'), 0o600); err != nil {
		return err
	}
	return os.Rename(tmp, p.Marker)
}

// clone makes the clone and gives the commit that it begins at.
func (g *Git) clone(ctx context.Context, c Checked, p Place) (start string, err error) {
	if c.Author == (Author{}) {
		settings, err := g.config(ctx, c.Repo)
		if err != nil {
			return "", err
		}
		c.Author = settings.author
	}
	if p.Continue {
		if start, err = g.branchCommit(ctx, c.Repo, c.Branch); err != nil {
			return "", err
		}
	}
	if start == "" {
		start = c.BaseCommit
	}
	args := []string{
		"clone", "--quiet", "--no-hardlinks", "--single-branch", "--no-checkout", "--template=",
		"--config", "user.name=" + c.Author.Name, "--config", "user.email=" + c.Author.Email,
	}
	base, err := g.branchCommit(ctx, c.Repo, c.Base)
	if err != nil {
		return "", err
	}
	if base != "" {
		args = append(args, "--branch="+c.Base)
	}
	if _, err := g.run(ctx, filepath.Dir(p.Dest), append(args, "--", c.Repo, p.Dest)...); err != nil {
		return "", err
	}
	if base != c.BaseCommit && c.Base != c.Branch { // it went on meanwhile, or is gone
		if _, err := g.run(ctx, p.Dest, "update-ref", "refs/heads/"+c.Base, c.BaseCommit); err != nil {
			return "", err
		}
	}
	if err := g.standAlone(ctx, c, p.Dest, start); err != nil {
		return "", err
	}
	_, err = g.run(ctx, p.Dest, "checkout", "--quiet", "--no-track", "-B", c.Branch, start, "--")
	return start, err // from here on it is the agent's
}

// standAlone frees a new clone from the repositories that its origin borrows
// objects from: they are out of the agent's reach.
func (g *Git) standAlone(ctx context.Context, c Checked, dest, start string) error {
	alternates := filepath.Join(dest, ".git", "objects", "info", "alternates")
	if _, err := os.Lstat(alternates); errors.Is(err, fs.ErrNotExist) {
		return nil // the origin borrows none
	}
	if _, err := g.run(ctx, dest, "update-ref", "refs/heads/"+c.Branch, start); err != nil {
		return err // without a ref it would not be taken along
	}
	if _, err := g.run(ctx, dest, "repack", "-a", "-d", "--quiet"); err != nil {
		return err
	}
	return os.Remove(alternates)
}
