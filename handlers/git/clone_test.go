package git

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestClone(t *testing.T) {
	t.Parallel()
	r := newRepo(t, folder(t))
	r.commit("a", "of main\n")
	r.git("tag", "v1")
	r.git("checkout", "--quiet", "-b", "other")
	r.commit("b", "of other\n")
	r.git("checkout", "--quiet", "main")
	canary := plantHooks(t, r)

	j := newJob(t, r)
	c := j.agent
	if got := c.git("symbolic-ref", "--short", "HEAD"); got != branch {
		t.Errorf("%s is checked out", got)
	}
	if got := c.git("status", "--porcelain"); got != "" {
		t.Errorf("the clone is not clean: %s", got)
	}
	if c.head() != r.head() || c.branch("main") != r.head() {
		t.Errorf("the clone is at %s, its main at %s; want %s", c.head(), c.branch("main"), r.head())
	}
	if got := c.git("for-each-ref", "--format=%(refname)"); strings.Contains(got, "other") {
		t.Errorf("another branch came along: %s", got)
	}
	if _, err := os.Stat(filepath.Join(c.dir, ".git", "hooks")); err == nil {
		t.Error("hooks came along")
	}
	if n := links(t, filepath.Join(c.dir, ".git")); n != 0 {
		t.Errorf("%d files are shared with the repository", n)
	}
	canary()
}

// links counts files below dir that have another name somewhere.
func links(t *testing.T, dir string) (n int) {
	t.Helper()
	out, err := repo{t, dir}.command("", "-c", "alias.links=!find . -type f -links +1", "links")
	if err != nil {
		t.Fatal(err, out)
	}
	return len(strings.Fields(out))
}

func TestCloneIsMadeOnce(t *testing.T) {
	t.Parallel()
	r := newRepo(t, folder(t))
	j := newJob(t, r)
	c := Checked{Repo: r.dir, Base: "main", BaseCommit: j.back.BaseCommit, Branch: branch}
	j.agent.write("work", "the agent's")
	if err := j.Clone(t.Context(), c, j.place); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(j.agent.dir, "work")); err != nil {
		t.Errorf("a finished clone was made again: %v", err)
	}
	j.aloof()

	for name, prepare := range map[string]func(){
		"half made":           func() { remove(t, j.place.Marker) },
		"half made, and junk": func() { remove(t, j.place.Marker, j.agent.dir); j.agent.write(".git", "junk") },
		"gone":                func() { remove(t, j.agent.dir) },
		"never begun":         func() { remove(t, j.agent.dir, filepath.Dir(j.place.Marker)) },
	} {
		prepare()
		if err := j.Clone(t.Context(), c, j.place); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if got := j.agent.git("status", "--porcelain", "--branch"); got != "## "+branch {
			t.Errorf("%s: the clone is not as new: %s", name, got)
		}
		if _, err := os.Stat(j.place.Marker); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func remove(t *testing.T, names ...string) {
	t.Helper()
	for _, name := range names {
		if err := os.RemoveAll(name); err != nil {
			t.Fatal(err)
		}
	}
}

func TestCloneFailsWithoutMarker(t *testing.T) {
	t.Parallel()
	r := newRepo(t, folder(t))
	p := Place{Dest: filepath.Join(folder(t), "repo"), Marker: filepath.Join(folder(t), "cloned")}
	c := Checked{Repo: r.dir, Base: "main", BaseCommit: strings.Repeat("0", 40), Branch: branch}
	if err := New(&fakeStage{}).Clone(t.Context(), c, p); err == nil {
		t.Fatal("a clone at a commit that is not there was made")
	}
	if _, err := os.Stat(p.Marker); err == nil {
		t.Error("a clone that failed is marked as finished")
	}
}

func TestCloneBeginsAtTheCheckedCommit(t *testing.T) {
	t.Parallel()
	for name, after := range map[string]func(r repo){
		"the base went on":     func(r repo) { r.commit("later", "later") },
		"the base was rewound": func(r repo) { r.git("reset", "--quiet", "--hard", "HEAD~1") },
		"the base was removed": func(r repo) {
			r.git("branch", "other", "HEAD~1")
			r.git("checkout", "--quiet", "other")
			r.git("branch", "-D", "main")
		},
		"the base was checked out": func(r repo) { r.git("checkout", "--quiet", "--detach") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRepo(t, folder(t))
			want := r.commit("a", "a")
			g := New(&fakeStage{})
			c, err := g.Check(t.Context(), Request{Repo: r.dir, Branch: branch, Allowed: []string{"/"}})
			if err != nil {
				t.Fatal(err)
			}
			after(r)
			j := cloneFor(t, g, &fakeStage{}, c, r)
			if j.agent.head() != want || j.agent.branch("main") != want {
				t.Errorf("the clone is at %s, its main at %s; want %s", j.agent.head(), j.agent.branch("main"), want)
			}
		})
	}
}

func TestCloneStandsAlone(t *testing.T) {
	t.Parallel()
	origin := newRepo(t, folder(t))
	shared := repo{t, filepath.Join(folder(t), "shared")}
	origin.git("clone", "--quiet", "--shared", origin.dir, shared.dir)
	want := shared.commit("a", "a")
	j := newJob(t, shared)
	remove(t, origin.dir, shared.dir)
	if got := j.agent.head(); got != want {
		t.Errorf("the clone is at %s, want %s", got, want)
	}
	j.agent.git("fsck", "--full", "--strict")
}

func TestCloneOfEveryForm(t *testing.T) {
	t.Parallel()
	for name, form := range map[string]func(t *testing.T, r repo) repo{
		"bare": func(t *testing.T, r repo) repo {
			b := repo{t, filepath.Join(folder(t), "bare.git")}
			r.git("clone", "--quiet", "--bare", r.dir, b.dir)
			return b
		},
		"linked worktree": func(t *testing.T, r repo) repo {
			tree := repo{t, filepath.Join(folder(t), "tree")}
			r.git("worktree", "add", "--quiet", "-b", "tree", tree.dir)
			return tree
		},
		"odd name": func(t *testing.T, r repo) repo {
			odd := repo{t, filepath.Join(folder(t), "-ünï: 'and \"$(touch x)")}
			r.git("clone", "--quiet", r.dir, odd.dir)
			return odd
		},
		"sha256": func(t *testing.T, _ repo) repo {
			s := repo{t, folder(t)}
			s.git("init", "--quiet", "--initial-branch=main", "--object-format=sha256")
			s.commit("a", "a")
			return s
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := form(t, newRepo(t, folder(t)))
			j := newJob(t, r)
			if j.agent.head() != r.head() {
				t.Errorf("the clone is at %s, want %s", j.agent.head(), r.head())
			}
			j.agent.commit("b", "b")
			j.wants(j.fetchBack(), Done, "add b")
		})
	}
}

func TestCloneForALaterTurn(t *testing.T) {
	t.Parallel()
	r := newRepo(t, folder(t))
	j := newJob(t, r)
	first := j.agent.commit("a", "a")
	j.wants(j.fetchBack(), Done, "add a")

	remove(t, j.back.Workspace.Root)
	c := Checked{Repo: r.dir, Base: "main", BaseCommit: j.back.BaseCommit, Branch: branch}
	j.place.Continue = true
	if err := os.MkdirAll(j.back.Workspace.Tmp, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := j.Clone(t.Context(), c, j.place); err != nil {
		t.Fatal(err)
	}
	j.logged = len(asked(t))
	if got := j.agent.git("symbolic-ref", "--short", "HEAD"); got != branch || j.agent.head() != first {
		t.Errorf("%s is checked out at %s, want %s", got, j.agent.head(), first)
	}
	if j.agent.branch("main") != j.back.BaseCommit {
		t.Errorf("main is at %s in the clone", j.agent.branch("main"))
	}
	j.agent.commit("b", "b")
	j.wants(j.fetchBack(), Done, "add a", "add b")

	r.git("branch", "-D", branch) // the user has cleared up: begin at the base again
	remove(t, j.agent.dir)
	if err := j.Clone(t.Context(), c, j.place); err != nil {
		t.Fatal(err)
	}
	if j.agent.head() != j.back.BaseCommit {
		t.Errorf("the clone is at %s, want the base", j.agent.head())
	}
}

// plantHooks gives the user's repository every hook; the function it returns
// fails the test if one ran.
func plantHooks(t *testing.T, r repo) (check func()) {
	t.Helper()
	canary := filepath.Join(folder(t), "canary")
	for _, hook := range []string{
		"post-checkout", "post-merge", "post-commit", "pre-commit", "post-rewrite", "pre-auto-gc",
		"reference-transaction", "post-index-change", "fsmonitor-watchman", "pre-receive", "update", "post-update",
	} {
		r.write(".git/hooks/"+hook, "#!/bin/sh\necho "+hook+" >>'"+canary+"'\n")
		if err := os.Chmod(filepath.Join(r.dir, ".git/hooks", hook), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	r.git("config", "core.fsmonitor", filepath.Join(r.dir, ".git/hooks/fsmonitor-watchman"))
	return func() {
		t.Helper()
		if ran, err := os.ReadFile(canary); err == nil {
			t.Errorf("hooks ran: %s", ran)
		}
	}
}
