package app

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"hangar/cmd/internal/config"
	"hangar/cmd/internal/datadir"
	"hangar/domain"
	"hangar/domain/job"
	"hangar/domain/turn"
	"hangar/handlers/git"
	"hangar/handlers/react"
	"hangar/handlers/sandbox"
	"hangar/handlers/sandbox/local"
	"hangar/handlers/supervisor"
)

// workspaces are the folders of jobs on this machine, as the reactions need them.
type workspaces struct {
	dir   *datadir.Dir
	local *local.Provider
}

func (w *workspaces) Prepare(ctx context.Context, id domain.JobID) (turn.Folders, error) {
	return w.local.Prepare(ctx, id)
}

func (w *workspaces) Collect(ctx context.Context, id domain.JobID, f turn.Folders, lines []turn.Line, globs []string) ([]turn.Artifact, []string, error) {
	declared := make([]sandbox.Declared, len(lines))
	for i, l := range lines {
		declared[i] = sandbox.Declared{Name: l.Name, Path: l.Path}
	}
	return w.local.Collect(ctx, f, declared, globs, artifactFolder(w.dir, id))
}

// Remove removes a workspace, and what says that its clone was made.
func (w *workspaces) Remove(ctx context.Context, id domain.JobID) error {
	if err := w.local.Remove(ctx, id); err != nil {
		return err
	}
	if err := os.Remove(cloneMarker(w.dir, id)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

func (w *workspaces) Kept(context.Context) ([]domain.JobID, error) {
	entries, err := os.ReadDir(w.dir.Workspaces())
	if err != nil {
		return nil, err
	}
	var list []domain.JobID
	for _, e := range entries {
		if e.IsDir() && domain.ValidID(job.Category, e.Name()) {
			list = append(list, domain.JobID(e.Name()))
		}
	}
	return list, nil
}

func artifactFolder(dir *datadir.Dir, id domain.JobID) string {
	return filepath.Join(dir.Artifacts(), string(id))
}

// cloneMarker is the file that says that a job's clone was finished.
func cloneMarker(dir *datadir.Dir, id domain.JobID) string {
	return filepath.Join(dir.Run(), string(id)+".clone")
}

// artifacts are the files that were kept.
type artifacts struct{ dir *datadir.Dir }

// Open gives an artifact's contents.
func (a *artifacts) Open(_ context.Context, id domain.JobID, name string) (io.ReadCloser, error) {
	root, err := os.OpenRoot(artifactFolder(a.dir, id))
	if err == nil {
		defer root.Close()
		var f *os.File
		if f, err = root.Open(name); err == nil {
			return f, nil
		}
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil, domain.Errorf(domain.NotFound, "the artifact is gone")
	}
	return nil, domain.Wrap(domain.Unavailable, err, "the artifact cannot be read")
}

// repositories clones users' repositories and brings commits back.
type repositories struct {
	dir     *datadir.Dir
	git     *git.Git
	allowed []string
}

func newRepositories(cfg config.Config, dir *datadir.Dir, client *supervisor.Client) *repositories {
	return &repositories{dir: dir, git: git.New(&stage{client}), allowed: cfg.Repos}
}

// CheckRepo says whether a job may work in a repository.
func (r *repositories) CheckRepo(ctx context.Context, repo, base, branch string) (job.Checkout, error) {
	c, err := r.git.Check(ctx, git.Request{Repo: repo, Base: base, Branch: branch, Allowed: r.allowed, Closed: []string{r.dir.Path()}})
	if err != nil {
		return job.Checkout{}, err
	}
	return job.Checkout{Repo: c.Repo, BaseBranch: c.Base, BaseCommit: c.BaseCommit, Branch: c.Branch}, nil
}

func (r *repositories) Clone(ctx context.Context, id domain.JobID, c job.Checkout, f turn.Folders, later bool) error {
	return r.git.Clone(ctx, git.Checked{Repo: c.Repo, Base: c.BaseBranch, BaseCommit: c.BaseCommit, Branch: c.Branch},
		git.Place{Dest: f.Repo, Marker: cloneMarker(r.dir, id), Continue: later})
}

// The patch of a job: everything that differs from the base, committed or not.
const (
	patchName     = "changes.patch"
	maxPatchBytes = 16 << 20
)

// Return fetches the branch and keeps the patch.
func (r *repositories) Return(ctx context.Context, id domain.JobID, c job.Checkout, f turn.Folders) (react.Returned, error) {
	if _, err := os.Stat(cloneMarker(r.dir, id)); errors.Is(err, fs.ErrNotExist) {
		return react.Returned{}, nil // the clone was never made, so nothing is in it
	}
	var back react.Returned
	var notes []string
	diff, err := r.git.Patch(ctx, f, c.BaseCommit, maxPatchBytes)
	if err != nil {
		notes = append(notes, "the changes could not be made into a patch: "+err.Error())
	}
	if len(diff.Patch) > 0 {
		if back.Patch, err = r.keepPatch(id, diff.Patch); err != nil {
			return back, err
		}
		if diff.Truncated {
			notes = append(notes, fmt.Sprintf("the patch was cut at %d bytes", maxPatchBytes))
		}
	}
	got, err := r.git.FetchBack(ctx, git.Back{Repo: c.Repo, BaseCommit: c.BaseCommit, Branch: c.Branch, Workspace: f})
	if err != nil {
		return back, err
	}
	if got.Reason != "" {
		notes = append(notes, got.Reason)
	}
	back.Note = strings.Join(notes, "; ")
	if back.Patch == nil && len(got.Commits) == 0 {
		return back, nil
	}
	pr := &job.PR{Base: c.BaseBranch, State: "none"}
	if got.Outcome == git.Done {
		pr.Branch = c.Branch
	}
	for _, commit := range got.Commits {
		pr.Commits = append(pr.Commits, job.Commit{Hash: commit.Hash, Subject: commit.Subject})
	}
	if back.Patch != nil {
		pr.Patch = back.Patch.Name
	}
	back.PR = pr
	return back, nil
}

func (r *repositories) keepPatch(id domain.JobID, patch []byte) (*turn.Artifact, error) {
	folder := artifactFolder(r.dir, id)
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return nil, err
	}
	tmp, err := os.CreateTemp(folder, ".patch-*")
	if err != nil {
		return nil, err
	}
	defer os.Remove(tmp.Name()) // renamed by then
	_, err = tmp.Write(patch)
	if err = errors.Join(err, tmp.Sync(), tmp.Close()); err != nil {
		return nil, err
	}
	if err := os.Rename(tmp.Name(), filepath.Join(folder, patchName)); err != nil {
		return nil, err
	}
	return &turn.Artifact{Name: patchName, Size: int64(len(patch)), SHA256: domain.Sum(patch), MIME: "text/x-patch"}, nil
}

// stage is the supervisor's stage as git needs it.
type stage struct{ client *supervisor.Client }

func (s *stage) RunStaged(ctx context.Context, f turn.Folders, argv []string) ([]byte, error) {
	var out, errOut bytes.Buffer
	exit, err := s.client.RunStaged(ctx, supervisor.Staged{Folders: f, Argv: argv, Stdout: &out, Stderr: &errOut})
	switch {
	case err != nil:
		return nil, err
	case exit.Error != "" || exit.TimedOut:
		return nil, fmt.Errorf("%s: %s", argv[0], strings.TrimSpace(exit.Error+" "+errOut.String()))
	case exit.ExitCode != 0:
		return out.Bytes(), fmt.Errorf("%s: %w", strings.TrimSpace(errOut.String()), &exec.ExitError{})
	}
	return out.Bytes(), nil
}

func (s *stage) UploadPack(f turn.Folders) (string, func(), error) {
	line, remove, err := s.client.StageCommand(supervisor.Staged{Folders: f, Argv: []string{"git-upload-pack"}})
	if err != nil {
		return "", nil, err
	}
	return line, func() { remove() }, nil //nolint:errcheck // a leftover harms nobody
}
