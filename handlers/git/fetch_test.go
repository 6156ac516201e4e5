package git

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

func TestFetchBack(t *testing.T) {
	t.Parallel()
	r := newRepo(t, folder(t))
	canary := plantHooks(t, r)
	j := newJob(t, r)
	j.agent.commit("a", "a")
	tip := j.agent.commit("b", "b")
	j.agent.write("c", "not committed")

	f := j.fetchBack()
	j.wants(f, Done, "add a", "add b")
	if f.Tip != tip || f.Branch != tip || f.Commits[1].Hash != tip {
		t.Errorf("%+v, want the tip %s", f, tip)
	}
	if got := r.git("status", "--porcelain", "--branch"); got != "## main" {
		t.Errorf("the user's working tree is touched: %s", got)
	}
	if _, err := os.Stat(filepath.Join(r.dir, ".git", "FETCH_HEAD")); err == nil {
		t.Error("FETCH_HEAD was written")
	}
	canary()

	before := len(asked(t))
	j.wants(j.fetchBack(), Done, "add a", "add b")
	for _, line := range asked(t)[before-1:] {
		if strings.Contains(line, "|-C|"+r.dir+"|") && strings.Contains(line, "|fetch|") {
			t.Errorf("what is there already was fetched again: %s", line)
		}
	}
}

// The command that touches the user's repository is fixed to the letter.
func TestFetchCommand(t *testing.T) {
	r := newRepo(t, folder(t))
	j := newJob(t, r)
	j.agent.commit("a", "a")
	j.fetchBack()
	want := strings.Join([]string{
		"-C", r.dir, "-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false", "-c", "transfer.fsckObjects=true",
		"-c", "gc.auto=0", "-c", "maintenance.auto=false", "fetch", "--upload-pack", quoted(bench.uploadPack),
		"--no-tags", "--no-write-fetch-head", "--", j.agent.dir, "refs/heads/" + branch + ":refs/heads/" + branch,
	}, "|")
	for _, line := range asked(t)[j.logged-1:] {
		if strings.HasSuffix(line, "|"+want+"|") {
			return
		}
	}
	t.Errorf("git %s\nwas not asked; it was:\n%s", want, strings.Join(asked(t)[j.logged-1:], "\n"))
}

func TestFetchBackNothing(t *testing.T) {
	t.Parallel()
	for name, work := range map[string]func(c repo){
		"nothing done":       func(repo) {},
		"nothing committed":  func(c repo) { c.write("a", "a") },
		"the branch removed": func(c repo) { c.git("checkout", "--quiet", "--detach"); c.git("branch", "-D", branch) },
		"commits taken back": func(c repo) { c.commit("b", "b"); c.git("reset", "--quiet", "--hard", "HEAD~2") },
		"other branches":     func(c repo) { c.git("checkout", "--quiet", "-b", "mine"); c.commit("a", "a") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRepo(t, folder(t))
			r.commit("second", "second")
			j := newJob(t, r)
			work(j.agent)
			refs := r.git("for-each-ref")
			j.wants(j.fetchBack(), Nothing)
			if got := r.git("for-each-ref"); got != refs {
				t.Errorf("refs were %s\nand are %s", refs, got)
			}
		})
	}
}

func TestFetchBackMoved(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name     string
		others   func(t *testing.T, r repo) // what somebody else does meanwhile
		subjects []string
		says     string
	}{
		{"another made the branch", func(_ *testing.T, r repo) {
			r.git("checkout", "--quiet", "-b", branch)
			r.commit("theirs", "theirs")
			r.git("checkout", "--quiet", "main")
		}, []string{"add a"}, "which the agent's work"},
		{"another made the branch, at the base", func(t *testing.T, r repo) {
			r.git("worktree", "add", "--quiet", "-b", branch, filepath.Join(folder(t), "tree"))
		}, nil, "is checked out in"},
		{"another checked out the branch, unborn", func(_ *testing.T, r repo) {
			r.git("checkout", "--quiet", "--orphan", branch)
		}, nil, "is checked out in"},
		{"a branch came in the way", func(_ *testing.T, r repo) { r.git("branch", "hangar") }, []string{"add a"}, `"hangar" of`},
		{"a branch came below", func(_ *testing.T, r repo) { r.git("branch", branch+"/x") }, []string{"add a"}, "/x"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := newRepo(t, folder(t))
			j := newJob(t, r)
			j.agent.commit("a", "a")
			tt.others(t, r)
			refs := r.git("for-each-ref")
			f := j.fetchBack()
			j.wants(f, Moved, tt.subjects...)
			if !strings.Contains(f.Reason, tt.says) {
				t.Errorf("it says %q, want %q", f.Reason, tt.says)
			}
			if got := r.git("for-each-ref"); got != refs {
				t.Errorf("refs were %s\nand are %s", refs, got)
			}
		})
	}
}

func TestFetchBackOfLaterTurns(t *testing.T) {
	t.Parallel()
	setup := func(t *testing.T) (*job, repo) {
		r := newRepo(t, folder(t))
		j := newJob(t, r)
		j.agent.commit("a", "a")
		j.wants(j.fetchBack(), Done, "add a")
		return j, r
	}
	onBranch := func(r repo, do func()) {
		r.git("checkout", "--quiet", branch)
		do()
		r.git("checkout", "--quiet", "main")
	}
	t.Run("more commits", func(t *testing.T) {
		j, _ := setup(t)
		j.agent.commit("b", "b")
		j.wants(j.fetchBack(), Done, "add a", "add b")
	})
	t.Run("no more commits", func(t *testing.T) {
		j, _ := setup(t)
		j.wants(j.fetchBack(), Done, "add a")
	})
	t.Run("the clone's branch removed", func(t *testing.T) {
		j, _ := setup(t)
		j.agent.git("checkout", "--quiet", "--detach")
		j.agent.git("branch", "-D", branch)
		j.wants(j.fetchBack(), Done, "add a")
	})
	t.Run("the user went on", func(t *testing.T) {
		j, r := setup(t)
		onBranch(r, func() { r.commit("theirs", "theirs") })
		j.wants(j.fetchBack(), Done, "add a", "add theirs")
	})
	t.Run("both went on", func(t *testing.T) {
		j, r := setup(t)
		onBranch(r, func() { r.commit("theirs", "theirs") })
		j.agent.commit("b", "b")
		j.wants(j.fetchBack(), Moved, "add a", "add b")
	})
	t.Run("the agent rewrote its commit", func(t *testing.T) {
		j, _ := setup(t)
		j.agent.git("commit", "--quiet", "--amend", "-m", "a again")
		j.wants(j.fetchBack(), Moved, "a again")
	})
	t.Run("the user removed the branch", func(t *testing.T) {
		j, r := setup(t)
		r.git("branch", "-D", branch)
		j.wants(j.fetchBack(), Done, "add a")
	})
}

func TestFetchBackRefused(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		work func(t *testing.T, c repo)
		says string
	}{
		{"a commit without an address", func(t *testing.T, c repo) {
			tree := c.git("rev-parse", "HEAD^{tree}")
			bad, err := c.command("tree "+tree+"\nauthor x 1 +0000\ncommitter x 1 +0000\n\nbad\n", "hash-object", "-t", "commit", "-w", "--literally", "--stdin")
			if err != nil {
				t.Fatal(bad)
			}
			c.git("update-ref", "refs/heads/"+branch, bad)
		}, "missingEmail"},
		{"a tree with a .git", func(t *testing.T, c repo) {
			blob, _ := c.command("[core]\nfsmonitor=touch x\n", "hash-object", "-w", "--stdin")
			sub, err := c.command("100644 blob "+blob+"\tconfig\n", "mktree")
			if err != nil {
				t.Fatal(sub)
			}
			tree, _ := c.command("040000 tree "+sub+"\t.git\n", "mktree")
			c.git("update-ref", "refs/heads/"+branch, c.git("commit-tree", "-m", "bad", tree))
		}, "hasDotgit"},
		{"a history that was cut", func(t *testing.T, c repo) {
			c.commit("b", "b")
			c.write(".git/shallow", c.commit("c", "c")+"\n")
		}, "cut short"},
		{"no repository", func(t *testing.T, c repo) { remove(t, filepath.Join(c.dir, ".git")) }, "no repository"},
		{"no folder", func(t *testing.T, c repo) { remove(t, c.dir) }, "gone"},
		{"a bundle in the folder's place", func(t *testing.T, c repo) {
			c.commit("b", "b")
			c.git("bundle", "create", "--quiet", filepath.Dir(c.dir)+"/bundle", branch)
			remove(t, c.dir)
			if err := os.Rename(filepath.Dir(c.dir)+"/bundle", c.dir); err != nil {
				t.Fatal(err)
			}
		}, "gone"},
		{"a link in the folder's place", func(t *testing.T, c repo) {
			remove(t, c.dir)
			symlink(t, newRepo(t, folder(t)).dir, c.dir)
		}, "gone"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := newRepo(t, folder(t))
			j := newJob(t, r)
			tt.work(t, j.agent)
			refs := r.git("for-each-ref")
			f := j.fetchBack()
			j.wants(f, Refused)
			if !strings.Contains(f.Reason, tt.says) {
				t.Errorf("it says %q, want %q", f.Reason, tt.says)
			}
			if got := r.git("for-each-ref"); got != refs {
				t.Errorf("refs were %s\nand are %s", refs, got)
			}
		})
	}
}

// What an agent can do to its clone runs, if at all, on the stage.
func TestHostileClones(t *testing.T) {
	t.Parallel()
	secret := newRepo(t, folder(t))
	secret.git("checkout", "--quiet", "-b", branch)
	secret.commit("secret", "secret")

	for name, arm := range map[string]func(t *testing.T, c repo, script string){
		"hooks": func(t *testing.T, c repo, script string) {
			for _, hook := range []string{"reference-transaction", "post-checkout", "pre-auto-gc", "post-index-change", "post-update", "pre-receive"} {
				copyScript(t, script, filepath.Join(c.dir, ".git", "hooks", hook))
			}
		},
		"configuration": func(t *testing.T, c repo, script string) {
			hooks := filepath.Join(filepath.Dir(c.dir), "hooks")
			copyScript(t, script, filepath.Join(hooks, "reference-transaction"))
			for key, value := range map[string]string{
				"core.hooksPath": hooks, "core.fsmonitor": script, "core.sshCommand": script, "core.pager": script,
				"core.editor": script, "core.alternateRefsCommand": script, "core.askPass": script, "core.gitProxy": script,
				"uploadpack.packObjectsHook": script, "diff.external": script, "diff.x.textconv": script, "gpg.program": script,
				"filter.x.clean": script, "filter.x.smudge": script, "filter.x.required": "true", "credential.helper": "!" + script,
				"alias.for-each-ref": "!" + script, "alias.upload-pack": "!" + script, "protocol.ext.allow": "always",
				"url.ext::" + script + " .insteadOf": "/", "remote.origin.uploadpack": script, "remote.origin.vcs": "ext",
			} {
				c.git("config", key, value)
			}
			c.write(".gitattributes", "* filter=x diff=x\n")
		},
		"a gitfile": func(t *testing.T, c repo, _ string) {
			remove(t, filepath.Join(c.dir, ".git"))
			c.write(".git", "gitdir: "+secret.dir+"/.git\n")
		},
		"a .git that is a link": func(t *testing.T, c repo, _ string) {
			remove(t, filepath.Join(c.dir, ".git"))
			symlink(t, secret.dir+"/.git", filepath.Join(c.dir, ".git"))
		},
		"a common folder elsewhere": func(_ *testing.T, c repo, _ string) { c.write(".git/commondir", secret.dir+"/.git\n") },
		"alternates": func(_ *testing.T, c repo, _ string) {
			c.write(".git/objects/info/alternates", secret.dir+"/.git/objects\n")
			c.write(".git/refs/heads/"+branch, secret.branch(branch)+"\n")
		},
		"objects that are a link": func(t *testing.T, c repo, _ string) {
			remove(t, filepath.Join(c.dir, ".git/objects"))
			symlink(t, secret.dir+"/.git/objects", filepath.Join(c.dir, ".git/objects"))
		},
		"a branch that is a link": func(t *testing.T, c repo, _ string) {
			name := filepath.Join(c.dir, ".git/refs/heads", branch)
			remove(t, name)
			symlink(t, secret.dir+"/.git/refs/heads/"+branch, name)
		},
		"a branch that is another": func(_ *testing.T, c repo, _ string) {
			c.git("symbolic-ref", "refs/heads/"+branch, "refs/heads/main")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRepo(t, folder(t))
			j := newJob(t, r)
			canary := filepath.Join(folder(t), "canary")
			script := filepath.Join(j.back.Workspace.Root, "script")
			if err := os.WriteFile(script, []byte("#!/bin/sh\n[ -n \"$STAGED\" ] || echo ran >'"+canary+"'\nexit 1\n"), 0o755); err != nil {
				t.Fatal(err)
			}
			j.agent.commit("a", "a")
			arm(t, j.agent, script)

			// Without a sandbox in the stage the outcome may be any; but it must be one.
			if _, err := j.FetchBack(t.Context(), j.back); err != nil && j.stage.runs.Load() == 0 {
				t.Error(err)
			}
			_, _ = j.Patch(t.Context(), j.back.Workspace, j.back.BaseCommit, 1<<20)
			j.aloof()
			if _, err := os.Stat(canary); err == nil {
				t.Error("the agent's code ran with our rights")
			}
			r.git("fsck", "--strict")
			if r.branch("main") != j.back.BaseCommit {
				t.Error("main was moved")
			}
		})
	}
}

func copyScript(t *testing.T, script, name string) {
	t.Helper()
	b, err := os.ReadFile(script)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, b, 0o755); err != nil {
		t.Fatal(err)
	}
}

// A user's own settings do not change what comes back.
func TestFetchBackIntoAnOddRepository(t *testing.T) {
	t.Parallel()
	r := newRepo(t, folder(t))
	for key, value := range map[string]string{
		"fetch.fsckObjects": "false", "fetch.prune": "true", "fetch.pruneTags": "true", "fetch.recurseSubmodules": "true",
		"log.showSignature": "true", "i18n.logOutputEncoding": "ISO-8859-1", "core.logAllRefUpdates": "always",
		"remote.x.url": "/nonexistent", "core.quotePath": "false",
	} {
		r.git("config", key, value)
	}
	r.git("tag", "only-here")
	j := newJob(t, r)
	j.agent.git("commit", "--quiet", "--allow-empty", "-m", "grün\x1b[31m und \u202e mehr\n\nbody")
	j.agent.git("commit", "--quiet", "--allow-empty", "--allow-empty-message", "-m", "")
	j.agent.git("commit", "--quiet", "--allow-empty", "-m", strings.Repeat("lang ", 1000))
	j.agent.git("tag", "of-the-agent")
	f := j.fetchBack()
	j.wants(f, Done, "grün [31m und   mehr", "", strings.TrimSpace(strings.Repeat("lang ", 40))[:MaxSubjectBytes-3]+"…")
	if got := r.git("tag"); got != "only-here" {
		t.Errorf("tags: %s", got)
	}
}

func TestFetchBackListsTheLast(t *testing.T) {
	t.Parallel()
	r := newRepo(t, folder(t))
	j := newJob(t, r)
	var stream strings.Builder
	for i := range MaxCommits + 10 {
		message := fmt.Sprintf("change %d", i)
		fmt.Fprintf(&stream, "commit refs/heads/%s\ncommitter T <t@example.com> %d +0000\ndata %d\n%s\n", branch, 1e9+i, len(message), message)
		if i == 0 {
			fmt.Fprintf(&stream, "from %s\n", j.back.BaseCommit)
		}
	}
	if out, err := j.agent.command(stream.String(), "fast-import", "--quiet", "--force"); err != nil {
		t.Fatal(out)
	}
	f := j.fetchBack()
	if f.Outcome != Done || f.Total != MaxCommits+10 || len(f.Commits) != MaxCommits || f.Commits[0].Subject != "change 10" {
		t.Errorf("%s, %d of %d commits, the first %+v", f.Outcome, len(f.Commits), f.Total, f.Commits[0])
	}
}

// Jobs of two servers that finish at once all bring their commits back.
func TestFetchBackAtOnce(t *testing.T) {
	t.Parallel()
	const n = 6
	r := newRepo(t, folder(t))
	servers := []*Git{New(&fakeStage{}), New(&fakeStage{})}
	var jobs []*job
	for i := range n {
		c, err := servers[i%2].Check(t.Context(), Request{Repo: r.dir, Branch: fmt.Sprintf("hangar/job-%d", i), Allowed: []string{"/"}})
		if err != nil {
			t.Fatal(err)
		}
		j := cloneFor(t, servers[i%2], servers[i%2].stage.(*fakeStage), c, r)
		j.agent.commit("a", fmt.Sprint(i))
		jobs = append(jobs, j)
	}
	var wg sync.WaitGroup
	outcomes := make([]Fetched, 2*n)
	for i := range 2 * n { // each twice, as by two keepers that think it theirs
		wg.Go(func() {
			var err error
			if outcomes[i], err = servers[(i+i/n)%2].FetchBack(t.Context(), jobs[i%n].back); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	for i, f := range outcomes {
		if f.Outcome != Done || f.Total != 1 || f.Branch != jobs[i%n].agent.head() {
			t.Errorf("job %d: %+v", i%n, f)
		}
	}
}

func TestFetchBackWaitsForTheLock(t *testing.T) {
	t.Parallel()
	r := newRepo(t, folder(t))
	j := newJob(t, r)
	j.agent.commit("a", "a")
	other, err := lockFile(t.Context(), filepath.Join(r.dir, ".git", lockName)) // another process would open it too
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeoutCause(t.Context(), 500*time.Millisecond, errors.New("patience ended"))
	defer cancel()
	if _, err := j.FetchBack(ctx, j.back); err == nil || !strings.Contains(err.Error(), "patience ended") {
		t.Errorf("FetchBack: %v, want it to wait", err)
	}
	if r.branch(branch) != "" {
		t.Error("it did not wait")
	}
	if err := other.Close(); err != nil {
		t.Fatal(err)
	}
	j.wants(j.fetchBack(), Done, "add a")
}

// A clone's side that never ends is ended, with its children.
func TestFetchBackEnds(t *testing.T) {
	t.Parallel()
	r := newRepo(t, folder(t))
	j := newJob(t, r)
	j.agent.commit("a", "a")
	fifo := filepath.Join(j.back.Workspace.Root, "fifo")
	if out, err := exec.CommandContext(t.Context(), "mkfifo", fifo).CombinedOutput(); err != nil {
		t.Fatal(string(out))
	}
	j.stage.uploadPack = bench.endless
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	failed := make(chan error)
	go func() { _, err := j.FetchBack(ctx, j.back); failed <- err }()

	held, err := os.Open(fifo) // waits for the other side
	if err != nil {
		t.Fatal(err)
	}
	defer held.Close()
	if _, err := io.ReadFull(held, make([]byte, len("started\n"))); err != nil {
		t.Fatal(err)
	}
	cancel(errors.New("enough"))
	if err := <-failed; err == nil || !strings.Contains(err.Error(), "enough") {
		t.Errorf("FetchBack: %v", err)
	}
	if _, err := io.ReadAll(held); err != nil { // ends when nobody holds the other side any more
		t.Error(err)
	}
	if r.branch(branch) != "" {
		t.Error("there is a branch")
	}
}

// That the stage cannot be set up says nothing of the commits.
func TestFetchBackWithoutStage(t *testing.T) {
	t.Parallel()
	r := newRepo(t, folder(t))
	j := newJob(t, r)
	j.agent.commit("a", "a")
	broken := errors.New("no more processes")
	j.stage.runIt = func() error { return broken }
	if f, err := j.FetchBack(t.Context(), j.back); !errors.Is(err, broken) {
		t.Errorf("FetchBack: %+v, %v", f, err)
	}
	if _, err := j.Patch(t.Context(), j.back.Workspace, j.back.BaseCommit, 1<<20); !errors.Is(err, broken) {
		t.Errorf("Patch: %v", err)
	}
	j.stage.runIt = func() error { return fmt.Errorf("git: %w", &exec.ExitError{ProcessState: &os.ProcessState{}}) }
	j.wants(j.fetchBack(), Refused)
}

func TestFetchBackFromNowhere(t *testing.T) {
	t.Parallel()
	r := newRepo(t, folder(t))
	j := newJob(t, r)
	j.agent.commit("a", "a")
	remove(t, r.dir)
	if f, err := j.FetchBack(t.Context(), j.back); err == nil {
		t.Errorf("FetchBack into a repository that is gone: %+v", f)
	}
}
