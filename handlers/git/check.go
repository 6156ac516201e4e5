package git

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode"

	"hangar/domain"
)

// Request is what a job asks for when it is submitted.
type Request struct {
	Repo   string // an absolute path, or one below "~/"
	Base   string // the branch to begin at; "" for the one that is checked out
	Branch string // the branch to make
	// Allowed are the folders below which repositories may be: the setting repos.
	Allowed []string
	// Closed are folders in which none may be, whatever is allowed: the data
	// folder, where the repositories are agents'.
	Closed []string
}

// Checked is a request that can be met: what goes into the log.
type Checked struct {
	Repo       string // top of the working tree, or the bare repository; symbolic links resolved
	Base       string // a branch's name
	BaseCommit string // its commit when it was checked
	Branch     string
	// Author is whose name the commits bear. Where it is not known any more, as
	// after a restart, Clone looks it up again.
	Author Author
}

// Check says whether a job can work on a repository, and refuses what it cannot
// by a *domain.Error about "repo", "base_branch" or "branch" that says what would
// be right. It changes nothing.
func (g *Git) Check(ctx context.Context, r Request) (Checked, error) {
	ctx, cancel := within(ctx, CheckTimeout)
	defer cancel()
	if err := named("branch", r.Branch); err != nil {
		return Checked{}, err
	}
	if r.Base != "" {
		if err := named("base_branch", r.Base); err != nil {
			return Checked{}, err
		}
	}
	repo, err := g.find(ctx, r)
	if err != nil {
		return Checked{}, err
	}
	c := Checked{Repo: repo, Branch: r.Branch}
	if c.Author, err = g.whole(ctx, repo); err != nil {
		return Checked{}, err
	}
	if c.Base, c.BaseCommit, err = g.base(ctx, repo, r.Base); err != nil {
		return Checked{}, err
	}
	if err := g.free(ctx, repo, c.Branch); err != nil {
		return Checked{}, err
	}
	return c, nil
}

// within bounds ctx, with a cause that names the bound.
func within(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, d, fmt.Errorf("not done within %v: %w", d, context.DeadlineExceeded))
}

// find gives the repository that r.Repo is or is in, if it may be used.
func (g *Git) find(ctx context.Context, r Request) (string, error) {
	named := expand(r.Repo)
	switch {
	case strings.ContainsFunc(named, unicode.IsControl):
		return "", domain.InvalidField("repo", "the path must hold no control characters")
	case !filepath.IsAbs(named):
		return "", domain.InvalidField("repo", "must be the absolute path of a repository on this machine, not %q", r.Repo)
	}
	dir, err := filepath.EvalSymlinks(named)
	if err != nil {
		dir = filepath.Clean(named) // whether it is there is told only of what is within the roots
	}
	if err := r.reaches(dir); err != nil {
		return "", err
	}
	info, err := os.Stat(dir)
	if err != nil || !info.IsDir() {
		return "", domain.InvalidField("repo", "there is no folder %s", named)
	}
	d, err := g.discover(ctx, dir)
	if err != nil {
		return "", err
	}
	for _, part := range []string{d.top, d.refs} {
		if err := r.reaches(part); err != nil {
			return "", err
		}
		if err := g.owned(part); err != nil {
			return "", err
		}
	}
	if d.shallow {
		return "", domain.InvalidField("repo", "%s is a shallow clone; complete it with git fetch --unshallow", d.top)
	}
	return d.top, nil
}

// discovery is what git finds from a folder.
type discovery struct {
	top     string // of the repository: its working tree, or itself where it is bare
	refs    string // the folder that holds its refs
	shallow bool
}

func (g *Git) discover(ctx context.Context, dir string) (d discovery, err error) {
	out, err := g.run(ctx, dir, "rev-parse", "--path-format=absolute",
		"--is-shallow-repository", "--is-bare-repository", "--is-inside-work-tree", "--git-common-dir")
	no, ok := errors.AsType[*exitError](err)
	switch {
	case ok && strings.Contains(no.stderr, "dubious ownership"):
		return d, foreign(dir)
	case ok && strings.Contains(no.stderr, "not a git repository"):
		return d, domain.InvalidField("repo", "%s is not a git repository; give the folder of one, or make it one with git init and a first commit", dir)
	case ok:
		return d, domain.InvalidField("repo", "git cannot read %s: %s", dir, showable(no.stderr, MaxReasonBytes))
	case err != nil:
		return d, err
	}
	found := strings.SplitN(out, "\n", 4)
	if len(found) != 4 {
		return d, fmt.Errorf("git rev-parse in %s: %q", dir, out)
	}
	d.shallow = found[0] == "true"
	bare, inside := found[1] == "true", found[2] == "true"
	if d.refs, err = filepath.EvalSymlinks(found[3]); err != nil {
		return d, err
	}
	switch {
	case bare:
		d.top = d.refs
		return d, nil
	case !inside:
		return d, domain.InvalidField("repo", "%s is within a repository's own folder; give the one that holds .git", dir)
	}
	top, err := g.run(ctx, dir, "rev-parse", "--show-toplevel")
	if err != nil {
		return d, err
	}
	d.top, err = filepath.EvalSymlinks(top)
	return d, err
}

// reaches refuses a folder that the settings do not open.
func (r Request) reaches(dir string) error {
	for _, closed := range r.Closed {
		if inside(resolve(closed), dir) {
			return domain.InvalidField("repo", "%s is in Hangar's own data folder; give a repository outside it", dir)
		}
	}
	for _, root := range r.Allowed {
		if inside(resolve(root), dir) {
			return nil
		}
	}
	if len(r.Allowed) == 0 {
		return domain.InvalidField("repo", "the setting repos opens no folder to jobs")
	}
	return domain.InvalidField("repo", "%s is outside the folders that the setting repos opens to jobs: %s", dir, strings.Join(r.Allowed, ", "))
}

// expand puts the home of the server's user in the place of a leading "~".
func expand(path string) string {
	if rest, ok := strings.CutPrefix(path, "~"); ok && (rest == "" || rest[0] == '/') {
		if home, err := os.UserHomeDir(); err == nil {
			return filepath.Join(home, rest)
		}
	}
	return path
}

// resolve gives the folder that a setting means, "" for none.
func resolve(setting string) string {
	dir := expand(setting)
	if real, err := filepath.EvalSymlinks(dir); err == nil {
		dir = real
	}
	if !filepath.IsAbs(dir) {
		return ""
	}
	return dir
}

func inside(root, dir string) bool {
	rel, err := filepath.Rel(root, dir)
	return root != "" && err == nil && filepath.IsLocal(rel)
}

// owned refuses what belongs to another user: git would take that user's
// settings for ours.
func (g *Git) owned(dir string) error {
	info, err := os.Stat(dir)
	if err != nil {
		return err
	}
	if uid, ok := owner(info); ok && g.uid >= 0 && uid != g.uid {
		return foreign(dir)
	}
	return nil
}

func foreign(dir string) error {
	return domain.InvalidField("repo", "%s belongs to another user; give a repository of the user whom Hangar runs as", dir)
}

// whole refuses a repository that may lack objects, and gives its author.
func (g *Git) whole(ctx context.Context, repo string) (Author, error) {
	c, err := g.config(ctx, repo)
	if err != nil {
		return Author{}, err
	}
	if c.partial {
		return Author{}, domain.InvalidField("repo", "%s is a partial clone, which lacks objects; give a complete one", repo)
	}
	return c.author, nil
}

// base gives the branch to begin at, and its commit: the one named, or else the
// one that is checked out.
func (g *Git) base(ctx context.Context, repo, name string) (branch, commit string, err error) {
	if branch = name; branch == "" {
		ref, err := g.run(ctx, repo, "symbolic-ref", "--quiet", "HEAD")
		var ok bool
		branch, ok = strings.CutPrefix(ref, "refs/heads/")
		switch {
		case exitCode(err) == 1 || err == nil && !ok:
			return "", "", domain.InvalidField("base_branch", "%s has no branch checked out (HEAD is detached); say which branch to begin at", repo)
		case err != nil:
			return "", "", err
		}
	}
	if commit, err = g.branchCommit(ctx, repo, branch); err != nil || commit != "" {
		return branch, commit, err
	}
	branches, err := g.branches(ctx, repo)
	switch {
	case err != nil:
		return "", "", err
	case len(branches) == 0:
		return "", "", domain.InvalidField("repo", "%s has no commits; make a first one", repo)
	case name == "":
		return "", "", domain.InvalidField("base_branch", "the branch %q that is checked out has no commits; say which to begin at: %s", branch, list(branches))
	}
	return "", "", domain.InvalidField("base_branch", "there is no branch %q in %s; it has: %s", branch, repo, list(branches))
}

// named refuses what cannot be a branch's name.
func named(field, name string) error {
	if len(name) > MaxBranchBytes {
		return domain.InvalidField(field, "a branch's name has at most %d bytes", MaxBranchBytes)
	}
	if !validBranch(name) {
		return domain.InvalidField(field, "%q cannot be a branch's name; give one like hangar/fix-login", name)
	}
	return nil
}

// validBranch reports whether git takes name for a branch: the rules of
// git-check-ref-format(1), and those of git-branch(1) on top.
func validBranch(name string) bool {
	if name == "HEAD" || strings.HasPrefix(name, "-") || strings.HasSuffix(name, ".") ||
		strings.Contains(name, "..") || strings.Contains(name, "@{") ||
		strings.ContainsFunc(name, func(r rune) bool { return r <= ' ' || r == 0x7f || strings.ContainsRune(`~^:?*[\`, r) }) {
		return false
	}
	for part := range strings.SplitSeq(name, "/") {
		if part == "" || strings.HasPrefix(part, ".") || strings.HasSuffix(part, ".lock") {
			return false
		}
	}
	return true
}

// free refuses a branch that cannot be made.
func (g *Git) free(ctx context.Context, repo, branch string) error {
	commit, err := g.branchCommit(ctx, repo, branch)
	if err != nil {
		return err
	}
	if commit != "" {
		return domain.InvalidField("branch", "%s has a branch %q already; give another name, or none", repo, branch)
	}
	why, err := g.obstacle(ctx, repo, branch)
	if err == nil && why != "" {
		return domain.InvalidField("branch", "%s; give another name, or none", why)
	}
	return err
}

// obstacle says what keeps the branch from being made or moved, "" for nothing.
func (g *Git) obstacle(ctx context.Context, repo, branch string) (string, error) {
	for i, c := range branch {
		if c != '/' {
			continue
		}
		commit, err := g.branchCommit(ctx, repo, branch[:i])
		if err != nil {
			return "", err
		}
		if commit != "" {
			return fmt.Sprintf("the branch %q of %s is in the way of %q", branch[:i], repo, branch), nil
		}
	}
	below, err := g.run(ctx, repo, "for-each-ref", "--count=1", "--format=%(refname:lstrip=2)", "refs/heads/"+branch+"/")
	if err != nil {
		return "", err
	}
	if below != "" {
		return fmt.Sprintf("the branch %q of %s is in the way of %q", below, repo, branch), nil
	}
	worktrees, err := g.run(ctx, repo, "worktree", "list", "--porcelain")
	if err != nil {
		return "", err
	}
	var tree string
	for line := range strings.Lines(worktrees) {
		line = strings.TrimSuffix(line, "\n")
		if path, ok := strings.CutPrefix(line, "worktree "); ok {
			tree = path
		}
		if line == "branch refs/heads/"+branch {
			return fmt.Sprintf("%q is checked out in %s", branch, tree), nil
		}
	}
	return "", nil
}

// branchCommit gives the commit of a branch, "" where there is no such branch.
func (g *Git) branchCommit(ctx context.Context, repo, branch string) (string, error) {
	commit, err := g.run(ctx, repo, "rev-parse", "--verify", "--quiet", "refs/heads/"+branch+"^{commit}")
	if exitCode(err) == 1 {
		return "", nil
	}
	return commit, err
}

// maxNamed is how many branches a refusal names.
const maxNamed = 10

func (g *Git) branches(ctx context.Context, repo string) ([]string, error) {
	out, err := g.run(ctx, repo, "for-each-ref", fmt.Sprintf("--count=%d", maxNamed+1), "--format=%(refname:lstrip=2)", "refs/heads/")
	return slices.DeleteFunc(strings.Split(out, "\n"), func(s string) bool { return s == "" }), err
}

func list(branches []string) string {
	if len(branches) > maxNamed {
		branches = append(slices.Clone(branches[:maxNamed]), "…")
	}
	return strings.Join(branches, ", ")
}

// config is what we want to know of a repository's own settings.
type config struct {
	author  Author // name and address, both or neither of them the repository's
	partial bool   // it may lack objects, which another has promised
}

func (g *Git) config(ctx context.Context, repo string) (config, error) {
	out, err := g.run(ctx, repo, "config", "--null", "--get-regexp", `^(user\.(name|email)|remote\..*\.promisor)$`)
	if err != nil && exitCode(err) != 1 { // 1 is none of them
		return config{}, err
	}
	var c config
	for setting := range strings.SplitSeq(out, "\x00") {
		switch key, value, _ := strings.Cut(setting, "\n"); key {
		case "": // after the last
		case "user.name":
			c.author.Name = strings.TrimSpace(value)
		case "user.email":
			c.author.Email = strings.TrimSpace(value)
		default:
			c.partial = true
		}
	}
	if c.author.Name == "" || c.author.Email == "" {
		c.author = DefaultAuthor
	}
	return c, nil
}
