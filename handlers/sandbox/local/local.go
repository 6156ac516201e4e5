// Package local is the provider that needs nothing installed: a job's workspace is
// a folder of this machine, DATA/ws/<job>/{repo,home,tmp,bin}, and the agent a
// process of this user, closed in by its supervisor.
package local

import (
	"context"
	"crypto/rand"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"hangar/domain"
	"hangar/domain/turn"
	"hangar/handlers/sandbox"
)

// Provider keeps workspaces in a data folder.
type Provider struct {
	root string // DATA/ws
}

var _ sandbox.Provider = (*Provider)(nil)

const removedPrefix = ".removed-" // of a workspace that is being removed

// New makes a provider for a data folder, and goes on with what an earlier one was
// removing when it died.
func New(data string) (*Provider, error) {
	data, err := filepath.Abs(data)
	if err != nil {
		return nil, domain.Wrap(domain.Internal, err, "the data folder has no absolute path")
	}
	p := &Provider{root: filepath.Join(data, "ws")}
	if err := os.MkdirAll(p.root, 0o700); err != nil {
		return nil, domain.Wrap(domain.Unavailable, err, "the folder of workspaces cannot be made")
	}
	left, _ := filepath.Glob(filepath.Join(p.root, removedPrefix+"*")) // the pattern is ours
	for _, dir := range left {
		_ = removeTree(dir) // the next start tries again
	}
	return p, nil
}

// Prepare makes the folders that are not there. A name of theirs that an agent put
// something else under is refused, never followed.
func (p *Provider) Prepare(ctx context.Context, job domain.JobID) (turn.Folders, error) {
	if err := checkJob(job); err != nil {
		return turn.Folders{}, err
	}
	top, err := os.OpenRoot(p.root)
	if err != nil {
		return turn.Folders{}, domain.Wrap(domain.Unavailable, err, "the folder of workspaces cannot be opened")
	}
	defer top.Close()
	if err := makeFolder(top, string(job)); err != nil {
		return turn.Folders{}, domain.Wrap(domain.Unavailable, err, "the workspace cannot be made")
	}
	ws, err := top.OpenRoot(string(job))
	if err != nil {
		return turn.Folders{}, domain.Wrap(domain.Unavailable, err, "the workspace cannot be opened")
	}
	defer ws.Close()
	for _, name := range []string{"repo", "home", "tmp", "bin"} {
		if err := makeFolder(ws, name); err != nil {
			return turn.Folders{}, domain.Wrap(domain.Unavailable, err, "the workspace's folder "+name+" cannot be made")
		}
	}
	root := filepath.Join(p.root, string(job))
	return turn.Folders{
		Root: root,
		Repo: filepath.Join(root, "repo"),
		Home: filepath.Join(root, "home"),
		Tmp:  filepath.Join(root, "tmp"),
		Bin:  filepath.Join(root, "bin"),
	}, ctx.Err()
}

// makeFolder makes a folder that only we reach, or sees that one is there.
func makeFolder(in *os.Root, name string) error {
	if err := in.Mkdir(name, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	fi, err := in.Lstat(name)
	if err != nil {
		return err
	}
	if !fi.IsDir() {
		return errors.New(name + ": there is something else of that name")
	}
	if fi.Mode().Perm() != 0o700 {
		return in.Chmod(name, 0o700)
	}
	return nil
}

// Remove takes the workspace away at once, and then apart.
func (p *Provider) Remove(_ context.Context, job domain.JobID) error {
	if err := checkJob(job); err != nil {
		return err
	}
	away := filepath.Join(p.root, removedPrefix+rand.Text())
	err := os.Rename(filepath.Join(p.root, string(job)), away)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = removeTree(away)
	}
	if err != nil {
		return domain.Wrap(domain.Unavailable, err, "the workspace cannot be removed")
	}
	return nil
}

// removeTree removes a tree, also where an agent took our rights to its folders.
func removeTree(dir string) error {
	err := os.RemoveAll(dir)
	if err == nil || !errors.Is(err, fs.ErrPermission) {
		return err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	// Rights are given before a folder is read, so that the walk gets everywhere.
	_ = fs.WalkDir(root.FS(), ".", func(path string, d fs.DirEntry, err error) error {
		if d != nil && d.IsDir() {
			_ = root.Chmod(path, 0o700) // what is left shows below
		}
		return nil
	})
	return os.RemoveAll(dir)
}

// checkJob says whether a job's id may be the name of a folder.
func checkJob(job domain.JobID) error {
	s := string(job)
	if s == "" || !filepath.IsLocal(s) || filepath.Base(s) != s || strings.HasPrefix(s, ".") {
		return domain.InvalidField("job", "%q is not the id of a job", s)
	}
	return nil
}
