// Package sandboxtest is the suite that every provider of workspaces passes.
package sandboxtest

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"hangar/domain"
	"hangar/domain/turn"
	"hangar/handlers/sandbox"
)

// job is the job that the cases are about.
const job domain.JobID = "job-aaaaaaaaaaaaaaaaaaaaaaaaaa"

// Run runs the suite. setup makes a provider for one case.
func Run(t *testing.T, setup func(t *testing.T) sandbox.Provider) {
	for name, run := range map[string]func(*testing.T, sandbox.Provider){
		"a workspace is made once":            made,
		"a workspace is removed whole":        removed,
		"ids that are not a job's":            refused,
		"artifacts are kept":                  kept,
		"nothing leads out of a workspace":    closed,
		"names are clean and unique":          named,
		"collecting again changes nothing":    again,
		"what is dropped is said":             dropped,
		"collecting ends with its context":    cancelled,
		"a folder of ours taken by something": taken,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			run(t, setup(t))
		})
	}
}

func prepare(t *testing.T, p sandbox.Provider) turn.Folders {
	t.Helper()
	ws, err := p.Prepare(t.Context(), job)
	must(t, err)
	return ws
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func write(t *testing.T, dir, name, text string) {
	t.Helper()
	path := filepath.Join(dir, name)
	must(t, os.MkdirAll(filepath.Dir(path), 0o700))
	must(t, os.WriteFile(path, []byte(text), 0o600))
}

func made(t *testing.T, p sandbox.Provider) {
	ws := prepare(t, p)
	for _, dir := range []string{ws.Root, ws.Repo, ws.Home, ws.Tmp, ws.Bin} {
		fi, err := os.Stat(dir)
		must(t, err)
		if !filepath.IsAbs(dir) || !fi.IsDir() || fi.Mode().Perm() != 0o700 || !strings.HasPrefix(dir, ws.Root) {
			t.Errorf("%s: %s", dir, fi.Mode())
		}
	}
	write(t, ws.Repo, "work", "done")
	if got := prepare(t, p); got != ws {
		t.Errorf("the second time %+v, the first %+v", got, ws)
	}
	if got, err := os.ReadFile(filepath.Join(ws.Repo, "work")); err != nil || string(got) != "done" {
		t.Errorf("the agent's work: %q, %v", got, err)
	}
}

func removed(t *testing.T, p sandbox.Provider) {
	must(t, p.Remove(t.Context(), job))
	ws := prepare(t, p)
	outside := t.TempDir()
	write(t, outside, "f", "stays")
	must(t, os.Symlink(outside, filepath.Join(ws.Repo, "out")))
	write(t, ws.Repo, "locked/deep/f", "x")
	must(t, os.Chmod(filepath.Join(ws.Repo, "locked", "deep"), 0))
	must(t, os.Chmod(filepath.Join(ws.Repo, "locked"), 0))
	must(t, p.Remove(t.Context(), job))
	if _, err := os.Lstat(ws.Root); !os.IsNotExist(err) {
		t.Errorf("it is still there: %v", err)
	}
	if _, err := os.Stat(filepath.Join(outside, "f")); err != nil {
		t.Errorf("a link was followed: %v", err)
	}
	prepare(t, p)
}

func refused(t *testing.T, p sandbox.Provider) {
	for _, id := range []domain.JobID{"", ".", "..", "a/b", "../x", ".hidden"} {
		if _, err := p.Prepare(t.Context(), id); domain.CodeOf(err) != domain.Invalid {
			t.Errorf("prepare %q: %v", id, err)
		}
		if err := p.Remove(t.Context(), id); domain.CodeOf(err) != domain.Invalid {
			t.Errorf("remove %q: %v", id, err)
		}
	}
}

func kept(t *testing.T, p sandbox.Provider) {
	ws := prepare(t, p)
	dest := filepath.Join(t.TempDir(), "artifacts", string(job))
	write(t, ws.Repo, "dist/report.md", "# Report\n")
	write(t, ws.Repo, "dist/deep/data.json", "{}")
	write(t, ws.Home, "notes", "plain text")
	write(t, ws.Repo, ".git/config.json", "{}")
	got, reasons, err := p.Collect(t.Context(), ws, []sandbox.Declared{{Name: "my notes", Path: "home/notes"}}, []string{"dist/*.md", "**/*.json", "dist/**"}, dest)
	must(t, err)
	want := []turn.Artifact{
		{Name: "my_notes", Size: 10, SHA256: domain.Sum([]byte("plain text")), MIME: "text/plain; charset=utf-8"},
		{Name: "report.md", Size: 9, SHA256: domain.Sum([]byte("# Report\n")), MIME: "text/markdown; charset=utf-8"},
		{Name: "data.json", Size: 2, SHA256: domain.Sum([]byte("{}")), MIME: "application/json"},
	}
	if !slices.Equal(got, want) || len(reasons) != 0 {
		t.Errorf("kept %+v, dropped %q", got, reasons)
	}
	entries, err := os.ReadDir(dest)
	must(t, err)
	if len(entries) != len(want) {
		t.Errorf("in the folder: %v", entries)
	}
	for _, a := range want {
		if b, err := os.ReadFile(filepath.Join(dest, a.Name)); err != nil || domain.Sum(b) != a.SHA256 {
			t.Errorf("%s: %q, %v", a.Name, b, err)
		}
	}
}

func closed(t *testing.T, p sandbox.Provider) {
	ws := prepare(t, p)
	outside := t.TempDir()
	write(t, outside, "secret", "s3cret")
	must(t, os.Symlink(filepath.Join(outside, "secret"), filepath.Join(ws.Repo, "link")))
	must(t, os.Symlink(outside, filepath.Join(ws.Repo, "dir")))
	must(t, os.Symlink("../../../../../../../etc/passwd", filepath.Join(ws.Repo, "up")))
	declared := []sandbox.Declared{
		{Name: "a", Path: "repo/link"}, {Name: "b", Path: "repo/dir/secret"}, {Name: "c", Path: "repo/up"}, {Name: "d", Path: "../../secret.key"},
		{Name: "e", Path: "/etc/passwd"}, {Name: "f", Path: ""}, {Name: "g", Path: "repo"}, {Name: "h", Path: "repo/nothing"},
	}
	got, reasons, err := p.Collect(t.Context(), ws, declared, []string{"**", "dir/*", "../**", "/etc/passwd", "link"}, t.TempDir())
	must(t, err)
	if len(got) != 0 || len(reasons) < len(declared) {
		t.Errorf("kept %+v, dropped %q", got, reasons)
	}
}

func named(t *testing.T, p sandbox.Provider) {
	ws := prepare(t, p)
	dest := t.TempDir()
	for i, name := range []string{"x", "y", "z", "v", "w", "u"} {
		write(t, ws.Repo, name+"/report.txt", strings.Repeat("r", i))
	}
	got, _, err := p.Collect(t.Context(), ws, []sandbox.Declared{
		{Name: "../../evil\x00\n.sh", Path: "repo/x/report.txt"}, {Name: "...", Path: "repo/y/report.txt"},
		{Name: strings.Repeat("é", 400) + ".txt", Path: "repo/z/report.txt"}, {Name: "REPORT.TXT", Path: "repo/w/report.txt"},
	}, []string{"*/report.txt"}, dest)
	must(t, err)
	seen := map[string]bool{}
	for _, a := range got {
		if a.Name != filepath.Base(a.Name) || strings.HasPrefix(a.Name, ".") || len(a.Name) > sandbox.MaxArtifactName || seen[strings.ToLower(a.Name)] {
			t.Errorf("name %q", a.Name)
		}
		seen[strings.ToLower(a.Name)] = true
	}
	if len(got) != 6 || !seen["evil__.sh"] || !seen["artifact"] || !seen["report.txt"] || !seen["report-2.txt"] || !seen["report-3.txt"] {
		t.Errorf("kept %+v", got)
	}
}

func again(t *testing.T, p sandbox.Provider) {
	ws := prepare(t, p)
	dest := t.TempDir()
	write(t, ws.Repo, "a", "one")
	globs := []string{"a"}
	first, _, err := p.Collect(t.Context(), ws, nil, globs, dest)
	must(t, err)
	second, _, err := p.Collect(t.Context(), ws, nil, globs, dest)
	must(t, err)
	if !slices.Equal(first, second) {
		t.Errorf("first %+v, then %+v", first, second)
	}
	write(t, ws.Repo, "a", "two")
	third, _, err := p.Collect(t.Context(), ws, nil, globs, dest)
	must(t, err)
	if third[0].Name != "a-2" {
		t.Errorf("another file of that name: %+v", third)
	}
	if b, err := os.ReadFile(filepath.Join(dest, "a")); err != nil || string(b) != "one" {
		t.Errorf("the first one: %q, %v", b, err)
	}
}

func dropped(t *testing.T, p sandbox.Provider) {
	ws := prepare(t, p)
	for i := range sandbox.MaxArtifacts + 3 {
		write(t, ws.Repo, "many/"+strings.Repeat("m", i+1), "m")
	}
	f, err := os.Create(filepath.Join(ws.Repo, "huge"))
	must(t, err)
	must(t, f.Truncate(sandbox.MaxArtifactBytes+1)) // a file of holes
	must(t, f.Close())
	got, reasons, err := p.Collect(t.Context(), ws, nil, []string{"huge", "[", "nothing/*", "many/*"}, t.TempDir())
	must(t, err)
	if len(got) != sandbox.MaxArtifacts || len(reasons) != 6 {
		t.Errorf("%d kept, dropped %q", len(got), reasons)
	}
	for i, want := range []string{"repo/huge: more than", "[: not a pattern", "nothing/*: no file matches", ": there are 100 artifacts"} {
		if !strings.Contains(reasons[i], want) {
			t.Errorf("reason %q, want %q", reasons[i], want)
		}
	}
}

func cancelled(t *testing.T, p sandbox.Provider) {
	ws := prepare(t, p)
	write(t, ws.Repo, "a", "one")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := p.Collect(ctx, ws, nil, []string{"*"}, t.TempDir()); err == nil {
		t.Error("it did not end")
	}
}

func taken(t *testing.T, p sandbox.Provider) {
	ws := prepare(t, p)
	must(t, os.RemoveAll(ws.Tmp))
	must(t, os.Symlink(t.TempDir(), ws.Tmp))
	if _, err := p.Prepare(t.Context(), job); err == nil {
		t.Error("a link in place of a folder was followed")
	}
}
