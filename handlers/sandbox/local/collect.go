package local

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/bmatcuk/doublestar/v4"

	"hangar/domain"
	"hangar/domain/turn"
	"hangar/handlers/sandbox"
)

// Collect copies what the agent declared, then what matches the globs. These are
// relative to the clone, and find neither links nor what is in .git.
func (p *Provider) Collect(ctx context.Context, ws turn.Folders, declared []sandbox.Declared, globs []string, dest string) ([]turn.Artifact, []string, error) {
	root, err := os.OpenRoot(ws.Root)
	if err != nil {
		return nil, nil, domain.Wrap(domain.Unavailable, err, "the workspace cannot be opened")
	}
	defer root.Close()
	if err := os.MkdirAll(dest, 0o700); err != nil {
		return nil, nil, domain.Wrap(domain.Unavailable, err, "the folder of artifacts cannot be made")
	}
	to, err := os.OpenRoot(dest)
	if err != nil {
		return nil, nil, domain.Wrap(domain.Unavailable, err, "the folder of artifacts cannot be opened")
	}
	defer to.Close()
	c := &collection{ctx: ctx, from: root, to: to, left: sandbox.MaxArtifactBytes, seen: map[string]bool{}, names: map[string]bool{}}
	for _, d := range declared {
		if err := c.take(d.Name, path.Clean(d.Path)); err != nil {
			return nil, nil, err
		}
	}
	repo, err := filepath.Rel(ws.Root, ws.Repo)
	if err != nil {
		return nil, nil, domain.Wrap(domain.Internal, err, "the clone is not in the workspace")
	}
	for _, glob := range globs {
		if err := c.match(glob, filepath.ToSlash(repo)); err != nil {
			return nil, nil, err
		}
	}
	return c.kept, c.reasons(), nil
}

// collection is one run of Collect.
type collection struct {
	ctx      context.Context //nolint:containedctx // it lives as long as the call
	from, to *os.Root
	left     int64 // bytes that may still be kept
	searched int
	seen     map[string]bool // paths taken or dropped
	names    map[string]bool // lower case, of this run
	kept     []turn.Artifact
	dropped  []string
}

func (c *collection) drop(what, why string, args ...any) {
	c.dropped = append(c.dropped, printable(what)+": "+fmt.Sprintf(why, args...))
}

// reasons gives why things were dropped, and counts those beyond the bound.
func (c *collection) reasons() []string {
	if n := len(c.dropped) - sandbox.MaxDroppedReasons; n > 0 {
		return append(c.dropped[:sandbox.MaxDroppedReasons:sandbox.MaxDroppedReasons], fmt.Sprintf("and %d more", n))
	}
	return c.dropped
}

var errSearchedEnough = errors.New("searched enough")

// match takes the files of the clone that match a glob.
func (c *collection) match(glob, repo string) error {
	if !doublestar.ValidatePattern(glob) {
		c.drop(glob, "not a pattern")
		return nil
	}
	if path.IsAbs(glob) || !filepath.IsLocal(path.Clean(glob)) {
		c.drop(glob, "leads out of the clone")
		return nil
	}
	clone, err := fs.Sub(c.from.FS(), repo)
	if err != nil {
		return domain.Wrap(domain.Internal, err, "the clone cannot be searched")
	}
	found := 0
	err = doublestar.GlobWalk(clone, path.Clean(glob), func(name string, d fs.DirEntry) error {
		if err := c.ctx.Err(); err != nil {
			return err
		}
		if name == ".git" && d.IsDir() {
			return doublestar.SkipDir
		}
		if c.searched++; c.searched > sandbox.MaxFilesSearched {
			return errSearchedEnough
		}
		if !d.Type().IsRegular() || strings.HasPrefix(name, ".git/") {
			return nil
		}
		found++
		return c.take(path.Base(name), path.Join(repo, name))
	}, doublestar.WithNoFollow())
	switch {
	case errors.Is(err, errSearchedEnough):
		c.drop(glob, "given up after %d files", sandbox.MaxFilesSearched)
	case c.ctx.Err() != nil:
		return c.ctx.Err()
	case domain.CodeOf(err) == domain.Unavailable:
		return err
	case err != nil:
		c.drop(glob, "cannot be searched")
	case found == 0:
		c.drop(glob, "no file matches")
	}
	return nil
}

// take copies one file. Only a fault on our side is an error.
func (c *collection) take(name, from string) error {
	if c.seen[from] {
		return nil
	}
	c.seen[from] = true
	if err := c.ctx.Err(); err != nil {
		return err
	}
	if len(c.kept) >= sandbox.MaxArtifacts {
		c.drop(from, "there are %d artifacts already, the most of one turn", sandbox.MaxArtifacts)
		return nil
	}
	in, err := c.open(from)
	if err != nil {
		c.drop(from, "%v", err)
		return nil
	}
	defer in.Close()
	if fi, err := in.Stat(); err != nil || fi.Size() > c.left {
		c.drop(from, "more than the %d bytes that all artifacts of a turn may have", int64(sandbox.MaxArtifactBytes))
		return nil
	}
	return c.copy(cleanName(name), from, in)
}

// open opens a regular file of the workspace, wherever its name leads in it.
func (c *collection) open(from string) (*os.File, error) {
	if !fs.ValidPath(from) || from == "." {
		return nil, errors.New("not a path in the workspace")
	}
	// Without O_NONBLOCK, a pipe that the agent left would hold us for ever.
	f, err := c.from.OpenFile(filepath.FromSlash(from), os.O_RDONLY|syscall.O_NONBLOCK, 0)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, errors.New("there is no such file")
	case err != nil:
		return nil, errors.New("cannot be read, or leads out of the workspace")
	}
	if fi, err := f.Stat(); err != nil || !fi.Mode().IsRegular() {
		f.Close()
		return nil, errors.New("not a regular file")
	}
	return f, nil
}

// copy brings a file to its place under a name that no other has.
func (c *collection) copy(name, from string, in io.Reader) error {
	temp := ".partial-" + rand.Text()
	out, err := c.to.OpenFile(temp, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return domain.Wrap(domain.Unavailable, err, "an artifact cannot be written")
	}
	defer func() { _ = c.to.Remove(temp) }() // it was renamed, as a rule
	hash := sha256.New()
	first := &prefix{}
	size, err := io.Copy(io.MultiWriter(out, hash, first), &reader{c.ctx, io.LimitReader(in, c.left+1)})
	if err := errors.Join(err, out.Sync(), out.Close()); err != nil {
		if c.ctx.Err() != nil {
			return c.ctx.Err()
		}
		return domain.Wrap(domain.Unavailable, err, "an artifact cannot be written")
	}
	if size > c.left {
		c.drop(from, "it grew while it was copied")
		return nil
	}
	a := turn.Artifact{Size: size, SHA256: domain.Digest(hex.EncodeToString(hash.Sum(nil))), MIME: mimeOf(name, first.bytes)}
	var there bool
	if a.Name, there, err = c.place(name, a); err != nil {
		return err
	}
	if !there {
		if err := c.to.Rename(temp, a.Name); err != nil {
			return domain.Wrap(domain.Unavailable, err, "an artifact cannot be written")
		}
	}
	c.names[strings.ToLower(a.Name)] = true
	c.left -= size
	c.kept = append(c.kept, a)
	return nil
}

// place finds the name for an artifact: its own, or one with a number where that is
// taken. It reports true where the same file is there, from a run before.
func (c *collection) place(name string, a turn.Artifact) (string, bool, error) {
	ext := path.Ext(name)
	for n := 1; ; n++ {
		try := name
		if n > 1 {
			try = fmt.Sprintf("%s-%d%s", strings.TrimSuffix(name, ext), n, ext)
		}
		if c.names[strings.ToLower(try)] {
			continue
		}
		fi, err := c.to.Lstat(try)
		if errors.Is(err, fs.ErrNotExist) {
			return try, false, nil
		}
		if err != nil {
			return "", false, domain.Wrap(domain.Unavailable, err, "the folder of artifacts cannot be read")
		}
		if !fi.Mode().IsRegular() || fi.Size() != a.Size {
			continue
		}
		if same, err := c.same(try, a.SHA256); err != nil || same {
			return try, same, err
		}
	}
}

func (c *collection) same(name string, digest domain.Digest) (bool, error) {
	f, err := c.to.Open(name)
	if err == nil {
		defer f.Close()
		hash := sha256.New()
		if _, err = io.Copy(hash, f); err == nil {
			return hex.EncodeToString(hash.Sum(nil)) == string(digest), nil
		}
	}
	return false, domain.Wrap(domain.Unavailable, err, "the folder of artifacts cannot be read")
}

// reader ends with its context.
type reader struct {
	ctx context.Context //nolint:containedctx // it lives as long as the call
	io.Reader
}

// Read reads, unless the context has ended.
func (r *reader) Read(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	return r.Reader.Read(p)
}
