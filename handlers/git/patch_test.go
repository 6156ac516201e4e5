package git

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"hangar/domain"
)

// applied applies a patch to a new clone at the base, and gives it.
func (j *job) applied(patch []byte) repo {
	j.t.Helper()
	c := repo{j.t, filepath.Join(folder(j.t), "applied")}
	j.user.git("clone", "--quiet", j.user.dir, c.dir)
	c.git("checkout", "--quiet", j.back.BaseCommit)
	if len(patch) > 0 {
		if out, err := c.command(string(patch), "apply", "--binary", "--index", "-"); err != nil {
			j.t.Fatalf("the patch does not apply: %s\n%s", out, patch)
		}
	}
	return c
}

func (j *job) patch(maxBytes int) Diff {
	j.t.Helper()
	d, err := j.Patch(j.t.Context(), j.back.Workspace, j.back.BaseCommit, maxBytes)
	if err != nil {
		j.t.Fatal(err)
	}
	j.aloof()
	if left, err := os.ReadDir(j.back.Workspace.Tmp); err != nil || len(left) != 0 {
		j.t.Errorf("left in the folder for temporary files: %v, %v", left, err)
	}
	return d
}

func TestPatch(t *testing.T) {
	t.Parallel()
	r := newRepo(t, folder(t))
	r.commit("kept", "kept\n")
	r.commit("changed", "one\ntwo\n")
	r.commit("removed", "removed\n")
	r.commit("moved", strings.Repeat("a line that stays\n", 20))
	r.commit(".gitignore", "ignored\n")
	j := newJob(t, r)
	c := j.agent
	for key, value := range map[string]string{
		"diff.noprefix": "true", "diff.mnemonicPrefix": "true", "diff.external": "false", "color.ui": "always",
		"diff.context": "0", "core.quotePath": "false",
	} {
		c.git("config", key, value)
	}
	c.commit("committed", "committed\n")
	c.write("changed", "one\n2\n")
	c.write("staged", "staged\n")
	c.git("add", "staged")
	c.git("mv", "moved", "there")
	c.write("grün und/-new", "new\n")
	c.write("binary", "\x00\x01\xff"+strings.Repeat("\x00z", 500))
	c.write("ignored", "ignored\n")
	c.write(":(glob)*", "odd\n")
	remove(t, filepath.Join(c.dir, "removed"))
	index := read(t, c, ".git/index")
	status := c.git("status", "--porcelain")

	d := j.patch(1 << 20)
	if d.Truncated {
		t.Error("it is said to be truncated")
	}
	a := j.applied(d.Patch)
	for _, name := range []string{"kept", "changed", "there", "committed", "staged", "grün und/-new", "binary", ":(glob)*"} {
		if got, want := read(t, a, name), read(t, c, name); !bytes.Equal(got, want) {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	for _, name := range []string{"removed", "moved", "ignored"} {
		if _, err := os.Stat(filepath.Join(a.dir, name)); err == nil {
			t.Errorf("%s is there", name)
		}
	}
	if got := read(t, c, ".git/index"); !bytes.Equal(got, index) {
		t.Error("the agent's index was touched")
	}
	if got := c.git("status", "--porcelain"); got != status {
		t.Errorf("the clone's status was %s\nand is %s", status, got)
	}
}

func read(t *testing.T, r repo, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(r.dir, name))
	if err != nil {
		t.Error(err)
	}
	return b
}

func TestPatchOfNothing(t *testing.T) {
	t.Parallel()
	j := newJob(t, newRepo(t, folder(t)))
	if d := j.patch(1 << 20); len(d.Patch) != 0 || d.Truncated {
		t.Errorf("%q, truncated %t", d.Patch, d.Truncated)
	}
}

func TestPatchIsBounded(t *testing.T) {
	t.Parallel()
	j := newJob(t, newRepo(t, folder(t)))
	j.agent.write("a", strings.Repeat("first\n", 100))
	j.agent.write("b", strings.Repeat("second\n", 100_000))
	whole := j.patch(1 << 20)
	if whole.Truncated {
		t.Fatalf("%d bytes are truncated", len(whole.Patch))
	}
	if d := j.patch(len(whole.Patch)); d.Truncated || !bytes.Equal(d.Patch, whole.Patch) {
		t.Errorf("a patch of exactly the bound is truncated")
	}
	d := j.patch(len(whole.Patch) - 1)
	if !d.Truncated || !bytes.HasPrefix(whole.Patch, d.Patch) {
		t.Errorf("%d bytes of %d, truncated %t", len(d.Patch), len(whole.Patch), d.Truncated)
	}
	a := j.applied(d.Patch)
	if got := read(t, a, "a"); !bytes.Equal(got, read(t, j.agent, "a")) {
		t.Errorf("what is whole in a truncated patch does not apply: %q", got)
	}
	if d := j.patch(10); !d.Truncated || len(d.Patch) != 0 {
		t.Errorf("%q, truncated %t; want nothing of a file that does not fit", d.Patch, d.Truncated)
	}
}

func TestPatchWithRepositoriesInside(t *testing.T) {
	t.Parallel()
	j := newJob(t, newRepo(t, folder(t)))
	j.agent.write("a", "a\n")
	emptyRepo(t, filepath.Join(j.agent.dir, "b-empty"))
	newRepo(t, filepath.Join(j.agent.dir, "c-vendored"))
	j.agent.write("z", "z\n")
	patch := string(j.patch(1 << 20).Patch)
	for _, name := range []string{"a", "z"} {
		if !strings.Contains(patch, "diff --git a/"+name+" b/"+name+"\n") {
			t.Errorf("%s is not in the patch:\n%s", name, patch)
		}
	}
}

func TestPatchWithoutRepository(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(t *testing.T, c repo){
		"no .git":             func(t *testing.T, c repo) { remove(t, filepath.Join(c.dir, ".git")) },
		"no folder":           func(t *testing.T, c repo) { remove(t, c.dir) },
		"without the base":    func(t *testing.T, c repo) { remove(t, c.dir); newRepo(t, c.dir).commit("other", "other") },
		"an index of its own": func(_ *testing.T, c repo) { c.write(".git/index", "junk") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := emptyRepo(t, folder(t))
			r.commit("first", "not like any other\n")
			j := newJob(t, r)
			spoil(t, j.agent)
			_, err := j.Patch(t.Context(), j.back.Workspace, j.back.BaseCommit, 1<<20)
			if want := domain.Invalid; name != "an index of its own" && domain.CodeOf(err) != want {
				t.Errorf("Patch: %v, want %s", err, want)
			} else if name == "an index of its own" && err != nil {
				t.Errorf("Patch: %v; the agent's index is not asked", err)
			}
			j.aloof()
		})
	}
	if _, err := New(&fakeStage{}).Patch(t.Context(), newJob(t, newRepo(t, folder(t))).back.Workspace, "--output=x", 1); domain.CodeOf(err) != domain.Invalid {
		t.Errorf("Patch since what is no commit: %v", err)
	}
}
