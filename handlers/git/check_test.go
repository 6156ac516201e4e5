package git

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"hangar/domain"
)

func TestCheckRefuses(t *testing.T) {
	for _, tt := range []struct {
		name    string
		prepare func(t *testing.T, r repo, q *Request) // r has one commit on main
		field   string
		says    string // after "field: "
	}{
		{"a relative path", func(_ *testing.T, _ repo, q *Request) { q.Repo = "code/x" }, "repo", "must be the absolute path of a repository on this machine"},
		{"no path", func(_ *testing.T, _ repo, q *Request) { q.Repo = "" }, "repo", "must be the absolute path"},
		{"a URL", func(_ *testing.T, _ repo, q *Request) { q.Repo = "https://example.com/x.git" }, "repo", "must be the absolute path"},
		{"a path of control characters", func(_ *testing.T, _ repo, q *Request) { q.Repo += "\n/x" }, "repo", "the path must hold no control characters"},
		{"nothing there", func(_ *testing.T, _ repo, q *Request) { q.Repo += "/none" }, "repo", "there is no folder"},
		{"a file", func(_ *testing.T, _ repo, q *Request) { q.Repo += "/README" }, "repo", "there is no folder"},
		{"a folder without git", func(t *testing.T, _ repo, q *Request) { q.Repo = folder(t) }, "repo", "is not a git repository; give the folder of one, or make it one with git init"},
		{"a broken repository", func(_ *testing.T, r repo, _ *Request) { r.write(".git/config", "[core\n") }, "repo", "git cannot read"},
		{"within .git", func(_ *testing.T, _ repo, q *Request) { q.Repo += "/.git" }, "repo", "give the one that holds .git"},
		{"no commits", func(t *testing.T, _ repo, q *Request) { q.Repo = emptyRepo(t, folder(t)).dir }, "repo", "has no commits; make a first one"},
		{"no commits, with a base", func(t *testing.T, _ repo, q *Request) {
			q.Repo, q.Base = emptyRepo(t, folder(t)).dir, "main"
		}, "repo", "has no commits; make a first one"},
		{"another user's", func(t *testing.T, _ repo, q *Request) {
			q.Repo = strings.Replace(q.Repo, "repo", "foreign", 1)
		}, "repo", "belongs to another user; give a repository of the user whom Hangar runs as"},
		{"shallow", func(t *testing.T, r repo, q *Request) {
			r.commit("b", "b")
			q.Repo = filepath.Join(folder(t), "shallow")
			r.git("clone", "--quiet", "--depth=1", "file://"+r.dir, q.Repo)
		}, "repo", "is a shallow clone; complete it with git fetch --unshallow"},
		{"partial", func(t *testing.T, r repo, q *Request) {
			r.git("config", "uploadpack.allowFilter", "true")
			q.Repo = filepath.Join(folder(t), "partial")
			r.git("clone", "--quiet", "--filter=blob:none", "file://"+r.dir, q.Repo)
		}, "repo", "is a partial clone, which lacks objects"},
		{"outside what is allowed", func(t *testing.T, _ repo, q *Request) { q.Allowed = []string{folder(t)} }, "repo", "is outside the folders that the setting repos opens to jobs: "},
		{"outside by a name that only begins alike", func(_ *testing.T, r repo, q *Request) { q.Allowed = []string{r.dir[:len(r.dir)-1]} }, "repo", "is outside"},
		{"outside, and not there", func(t *testing.T, _ repo, q *Request) { q.Repo += "/none"; q.Allowed = []string{folder(t)} }, "repo", "is outside"},
		{"outside through a link", func(t *testing.T, r repo, q *Request) {
			q.Allowed = []string{folder(t)}
			q.Repo = filepath.Join(q.Allowed[0], "link")
			symlink(t, r.dir, q.Repo)
		}, "repo", "is outside"},
		{"its top outside", func(t *testing.T, r repo, q *Request) {
			r.commit("sub/a", "a")
			q.Repo += "/sub"
			q.Allowed = []string{q.Repo}
		}, "repo", "is outside"},
		{"its .git outside", func(t *testing.T, r repo, q *Request) {
			q.Allowed = []string{folder(t)}
			q.Repo = filepath.Join(q.Allowed[0], "r")
			r.git("worktree", "add", "--quiet", "--detach", q.Repo)
		}, "repo", "is outside"},
		{"nothing allowed", func(_ *testing.T, _ repo, q *Request) { q.Allowed = nil }, "repo", "the setting repos opens no folder to jobs"},
		{"an agent's", func(t *testing.T, r repo, q *Request) { q.Closed = []string{filepath.Dir(r.dir)} }, "repo", "is in Hangar's own data folder; give a repository outside it"},
		{"an agent's through a gitfile", func(t *testing.T, r repo, q *Request) {
			q.Closed = []string{r.dir}
			q.Repo = folder(t)
			if err := os.WriteFile(q.Repo+"/.git", []byte("gitdir: "+r.dir+"/.git\n"), 0o644); err != nil {
				t.Fatal(err)
			}
		}, "repo", "is in Hangar's own data folder"},

		{"a detached HEAD", func(_ *testing.T, r repo, _ *Request) { r.git("checkout", "--quiet", "--detach") }, "base_branch", "has no branch checked out (HEAD is detached); say which branch to begin at"},
		{"an unborn branch checked out", func(_ *testing.T, r repo, _ *Request) { r.git("checkout", "--quiet", "--orphan", "new") }, "base_branch", `the branch "new" that is checked out has no commits; say which to begin at: main`},
		{"an unknown base", func(_ *testing.T, r repo, q *Request) { r.git("branch", "dev"); q.Base = "devel" }, "base_branch", `it has: dev, main`},
		{"a base that is no name", func(_ *testing.T, _ repo, q *Request) { q.Base = "HEAD~1" }, "base_branch", `"HEAD~1" cannot be a branch's name`},
		{"a base that is an option", func(_ *testing.T, _ repo, q *Request) { q.Base = "--all" }, "base_branch", `"--all" cannot be`},
		{"a base that is a tag", func(_ *testing.T, r repo, q *Request) { r.git("tag", "v1"); q.Base = "v1" }, "base_branch", `there is no branch "v1"`},

		{"a branch that exists", func(_ *testing.T, r repo, _ *Request) { r.git("branch", branch) }, "branch", `has a branch "hangar/job-1" already; give another name, or none`},
		{"a branch below another", func(_ *testing.T, r repo, _ *Request) { r.git("branch", "hangar") }, "branch", `the branch "hangar" of`},
		{"a branch far below another", func(_ *testing.T, r repo, q *Request) { r.git("branch", "a"); q.Branch = "a/b/c" }, "branch", `the branch "a" of`},
		{"a branch above another", func(_ *testing.T, r repo, _ *Request) { r.git("branch", branch+"/x/y") }, "branch", `the branch "hangar/job-1/x/y" of`},
		{"a branch that is checked out unborn", func(_ *testing.T, r repo, q *Request) {
			q.Base = "main"
			r.git("checkout", "--quiet", "--orphan", branch)
		}, "branch", `"hangar/job-1" is checked out in`},
		{"a branch that is checked out elsewhere", func(t *testing.T, r repo, _ *Request) {
			tree := repo{t, filepath.Join(folder(t), "tree")}
			r.git("worktree", "add", "--quiet", "--detach", tree.dir)
			tree.git("checkout", "--quiet", "--orphan", branch)
		}, "branch", `"hangar/job-1" is checked out in`},
		{"the base itself", func(_ *testing.T, _ repo, q *Request) { q.Branch = "main" }, "branch", `has a branch "main" already`},
		{"no branch", func(_ *testing.T, _ repo, q *Request) { q.Branch = "" }, "branch", `"" cannot be a branch's name; give one like hangar/fix-login`},
		{"a branch called HEAD", func(_ *testing.T, _ repo, q *Request) { q.Branch = "HEAD" }, "branch", "cannot be"},
		{"a branch that is an option", func(_ *testing.T, _ repo, q *Request) { q.Branch = "-x" }, "branch", "cannot be"},
		{"a branch with a space", func(_ *testing.T, _ repo, q *Request) { q.Branch = "a b" }, "branch", "cannot be"},
		{"a branch that ends in .lock", func(_ *testing.T, _ repo, q *Request) { q.Branch = "a.lock" }, "branch", "cannot be"},
		{"a branch that climbs", func(_ *testing.T, _ repo, q *Request) { q.Branch = "../../config" }, "branch", "cannot be"},
		{"a refspec", func(_ *testing.T, _ repo, q *Request) { q.Branch = "a:refs/heads/main" }, "branch", "cannot be"},
		{"a pattern", func(_ *testing.T, _ repo, q *Request) { q.Branch = "hangar/*" }, "branch", "cannot be"},
		{"a zero byte", func(_ *testing.T, _ repo, q *Request) { q.Branch = "a\x00b" }, "branch", "cannot be"},
		{"a long branch", func(_ *testing.T, _ repo, q *Request) { q.Branch = strings.Repeat("x", MaxBranchBytes+1) }, "branch", "at most 200 bytes"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			home := folder(t)
			r := newRepo(t, filepath.Join(home, "repo"))
			q := Request{Repo: r.dir, Branch: branch, Allowed: []string{"/"}}
			tt.prepare(t, r, &q)
			g := New(&fakeStage{})
			if strings.HasSuffix(q.Repo, "/foreign") {
				newRepo(t, q.Repo)
				giveAway(t, g, q.Repo)
			}
			_, err := g.Check(t.Context(), q)
			var e *domain.Error
			if !errors.As(err, &e) || e.Code != domain.Invalid || e.Field != tt.field {
				t.Fatalf("Check: %v, want an invalid %s", err, tt.field)
			}
			if !strings.HasPrefix(e.Message, tt.field+": ") || !strings.Contains(e.Message, tt.says) {
				t.Errorf("it says %q, want %q", e.Message, tt.says)
			}
		})
	}
}

// giveAway makes dir another user's: truly where we may, else by taking
// ourselves for another.
func giveAway(t *testing.T, g *Git, dir string) {
	t.Helper()
	if os.Geteuid() != 0 {
		g.uid++
		return
	}
	const nobody = 65534
	err := filepath.WalkDir(dir, func(name string, _ os.DirEntry, err error) error {
		return errors.Join(err, os.Lchown(name, nobody, nobody))
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestCheckKnowsItself(t *testing.T) { // the check of ours, where git's cannot be what refuses
	r := newRepo(t, folder(t))
	g := New(&fakeStage{})
	g.uid++
	if _, err := g.Check(t.Context(), Request{Repo: r.dir, Branch: branch, Allowed: []string{"/"}}); err == nil || !strings.Contains(err.Error(), "another user") {
		t.Errorf("Check: %v, want it refused as another user's", err)
	}
}

func TestCheckAccepts(t *testing.T) {
	for _, tt := range []struct {
		name    string
		prepare func(t *testing.T, r repo, q *Request) (repo string) // r has one commit on main; "" for r
		base    string
	}{
		{"a repository", func(*testing.T, repo, *Request) string { return "" }, "main"},
		{"a folder within it", func(_ *testing.T, r repo, q *Request) string { r.commit("sub/a", "a"); q.Repo += "/sub"; return "" }, "main"},
		{"another base", func(_ *testing.T, r repo, q *Request) string {
			r.git("branch", "dev")
			q.Base = "dev"
			return ""
		}, "dev"},
		{"a detached HEAD with a base", func(_ *testing.T, r repo, q *Request) string {
			r.git("checkout", "--quiet", "--detach")
			q.Base = "main"
			return ""
		}, "main"},
		{"a link", func(t *testing.T, r repo, q *Request) string {
			q.Repo = filepath.Join(folder(t), "link")
			symlink(t, r.dir, q.Repo)
			return ""
		}, "main"},
		{"allowed by a link", func(t *testing.T, r repo, q *Request) string {
			q.Allowed = []string{"relative", "/nonexistent", filepath.Join(folder(t), "link")}
			symlink(t, r.dir, q.Allowed[2])
			return ""
		}, "main"},
		{"a bare repository", func(t *testing.T, r repo, q *Request) string {
			q.Repo = filepath.Join(folder(t), "bare.git")
			r.git("clone", "--quiet", "--bare", r.dir, q.Repo)
			return q.Repo
		}, "main"},
		{"a linked worktree", func(t *testing.T, r repo, q *Request) string {
			q.Repo = filepath.Join(folder(t), "tree")
			r.git("worktree", "add", "--quiet", "-b", "tree", q.Repo)
			return q.Repo
		}, "tree"},
		{"odd names", func(t *testing.T, r repo, q *Request) string {
			q.Repo = filepath.Join(folder(t), "-ünïcode 'and \"$(space)")
			r.git("clone", "--quiet", r.dir, q.Repo)
			q.Branch = "hangar/grün-'x'"
			return q.Repo
		}, "main"},
		{"branches beside the new one", func(_ *testing.T, r repo, q *Request) string {
			r.git("branch", "hangar/job-10")
			r.git("branch", "hangar/job")
			return ""
		}, "main"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := newRepo(t, filepath.Join(folder(t), "repo"))
			q := Request{Repo: r.dir, Branch: branch, Allowed: []string{"/"}}
			want := tt.prepare(t, r, &q)
			if want == "" {
				want = r.dir
			}
			got, err := New(&fakeStage{}).Check(t.Context(), q)
			if err != nil {
				t.Fatal(err)
			}
			commit := r.branch(tt.base)
			if w := (Checked{want, tt.base, commit, q.Branch, DefaultAuthor}); got != w {
				t.Errorf("Check: %+v, want %+v", got, w)
			}
		})
	}
}

func TestCheckBelowHome(t *testing.T) {
	home := folder(t)
	t.Setenv("HOME", home)
	r := newRepo(t, filepath.Join(home, "code"))
	got, err := New(&fakeStage{}).Check(t.Context(), Request{Repo: "~/code", Branch: branch, Allowed: DefaultRoots()})
	if err != nil || got.Repo != r.dir {
		t.Errorf("Check: %+v, %v", got, err)
	}
	_, err = New(&fakeStage{}).Check(t.Context(), Request{Repo: "~nobody/code", Branch: branch, Allowed: DefaultRoots()})
	if domain.CodeOf(err) != domain.Invalid {
		t.Errorf("Check of another's home: %v", err)
	}
}

func TestAuthor(t *testing.T) {
	home := folder(t)
	t.Setenv("HOME", home)
	for _, tt := range []struct {
		name   string
		config []string
		want   Author
	}{
		{"none", nil, DefaultAuthor},
		{"both", []string{"user.name=Ada Lovelace", "user.email=ada@example.com"}, Author{"Ada Lovelace", "ada@example.com"}},
		{"a name alone", []string{"user.name=Ada"}, DefaultAuthor},
		{"an address alone", []string{"user.email=ada@example.com"}, DefaultAuthor},
		{"an empty name", []string{"user.name= ", "user.email=ada@example.com"}, DefaultAuthor},
		{"included from home", []string{"include.path=~/work.gitconfig"}, Author{"At Work", "work@example.com"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			repo{t, home}.write("work.gitconfig", "[user]\nname = At Work\nemail = work@example.com\n")
			repo{t, home}.write(".gitconfig", "[user]\nname = Whoever Started It\nemail = server@example.com\n")
			r := newRepo(t, folder(t))
			for _, c := range tt.config {
				key, value, _ := strings.Cut(c, "=")
				r.git("config", key, value)
			}
			j := newJob(t, r)
			if got := (Author{j.agent.git("config", "user.name"), j.agent.git("config", "user.email")}); got != tt.want {
				t.Errorf("the clone's author is %+v, want %+v", got, tt.want)
			}
		})
	}
}

func TestBranchNames(t *testing.T) {
	t.Parallel()
	r := repo{t, bench.template}
	for _, name := range []string{
		"a", "a/b", "hangar/job-1", "ünï/ço", "a.b", "a..b", "a.", ".a", "a/.b", "a/b.", "a.lock", "a.lock/b", "a.locked", "/a", "a/", "a//b",
		"@", "a@", "@{", "a@{1}", "a b", "a\tb", "a\x7f", "a~", "a^b", "a:b", "a?", "a*", "a[", `a\b`, "-a", "a/-b", "HEAD", "a/HEAD", "", "'$(x)\"|;",
	} {
		_, err := r.command("", "check-ref-format", "--branch", name)
		want := err == nil && name != "@" // which --branch takes for another name of HEAD
		if name == "@" {
			_, err := r.command("", "check-ref-format", "refs/heads/@")
			want = err == nil
		}
		if got := validBranch(name); got != want {
			t.Errorf("validBranch(%q) = %t, git says %t", name, got, want)
		}
	}
}

func TestCheckWithoutTime(t *testing.T) {
	r := newRepo(t, folder(t))
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("no time"))
	_, err := New(&fakeStage{}).Check(ctx, Request{Repo: r.dir, Branch: branch, Allowed: []string{"/"}})
	if err == nil || !strings.Contains(err.Error(), "no time") {
		t.Errorf("Check: %v, want the context's cause", err)
	}
}

func symlink(t *testing.T, old, name string) {
	t.Helper()
	if err := os.Symlink(old, name); err != nil {
		t.Fatal(err)
	}
}
