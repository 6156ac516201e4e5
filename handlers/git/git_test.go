package git

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"go.uber.org/goleak"

	"hangar/domain/turn"
)

// bench is what all tests share: git as it is installed, a git first in our PATH
// that writes down what we ask of it, and the fake stage's upload-pack. They are
// made before anything runs, as a file cannot be run while it is being written.
var bench struct {
	dir        string
	git        string // the true one
	template   string // a repository with one commit on main
	path       string // the PATH before ours
	log        string // one line a command: "|folder|argument|…|", but the first's first |
	uploadPack string
	endless    string // an upload-pack that holds ../fifo open, and never ends
}

func TestMain(m *testing.M) {
	code, err := func() (int, error) {
		if err := prepare(); err != nil {
			return 1, err
		}
		code := m.Run()
		return code, os.RemoveAll(bench.dir)
	}()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	if code == 0 {
		if err := goleak.Find(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

func prepare() error {
	var err error
	if bench.git, err = exec.LookPath("git"); err != nil {
		return err
	}
	if bench.dir, err = os.MkdirTemp("", "hangar git test"); err != nil {
		return err
	}
	bench.path = os.Getenv("PATH")
	bench.log = filepath.Join(bench.dir, "log")
	bench.uploadPack, bench.endless = filepath.Join(bench.dir, "it's a stage"), filepath.Join(bench.dir, "endless")
	bin := filepath.Join(bench.dir, "bin")
	if err := os.Mkdir(bin, 0o755); err != nil {
		return err
	}
	scripts := map[string]string{
		filepath.Join(bin, "git"): "#!/bin/sh\n" +
			"printf '%s|' \"$PWD\" \"$@\" '\n' >>\"" + bench.log + "\"\n" +
			"exec " + bench.git + " \"$@\"\n",
		bench.uploadPack: "#!/bin/sh\n" +
			"exec env -i PATH=\"" + bench.path + "\" HOME=/nonexistent STAGED=1 GIT_PROTOCOL=\"$GIT_PROTOCOL\" git upload-pack \"$1\"\n",
		bench.endless: "#!/bin/sh\nexec 3>\"$1/../fifo\"\necho started >&3\nsleep 3600 &\nwait\n",
	}
	for name, text := range scripts {
		if err := os.WriteFile(name, []byte(text), 0o755); err != nil {
			return err
		}
	}
	bench.template = filepath.Join(bench.dir, "template")
	if err := os.Mkdir(bench.template, 0o755); err != nil {
		return err
	}
	for _, args := range [][]string{{"init", "--quiet", "--initial-branch=main", "--template="}, {"add", "README"}, {"commit", "--quiet", "-m", "add README"}} {
		if err := os.WriteFile(filepath.Join(bench.template, "README"), []byte("hello\n"), 0o644); err != nil {
			return err
		}
		if out, err := (repo{dir: bench.template}).command("", args...); err != nil {
			return fmt.Errorf("git %q: %w: %s", args, err, out)
		}
	}
	// What a user's shell may have set must reach none of our commands.
	for name, value := range map[string]string{
		"PATH": bin + ":" + bench.path, "GIT_DIR": "/nonexistent", "GIT_WORK_TREE": "/nonexistent",
		"GIT_INDEX_FILE": "/nonexistent", "GIT_CONFIG_PARAMETERS": "'core.bare=broken'", "GIT_EXEC_PATH": "/nonexistent",
		"GIT_SSH_COMMAND": "false", "GIT_AUTHOR_NAME": "Nobody", "GIT_OBJECT_DIRECTORY": "/nonexistent",
	} {
		if err := os.Setenv(name, value); err != nil {
			return err
		}
	}
	return nil
}

// asked gives what we have asked of git so far, a line a command.
func asked(t *testing.T) []string {
	t.Helper()
	b, err := os.ReadFile(bench.log)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	return strings.Split(string(b), "\n")
}

// fakeStage runs commands with a clean environment and no isolation.
type fakeStage struct {
	runs       atomic.Int32
	runIt      func() error // instead of running anything
	uploadPack string       // instead of the usual one
}

func (s *fakeStage) RunStaged(ctx context.Context, f turn.Folders, argv []string) ([]byte, error) {
	s.runs.Add(1)
	if s.runIt != nil {
		return nil, s.runIt()
	}
	if argv[0] == "git" {
		argv[0] = bench.git
	}
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Env = []string{"PATH=" + bench.path, "HOME=" + f.Home, "LC_ALL=C", "STAGED=1"}
	cmd.Dir = "/"
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		err = fmt.Errorf("%w: %s", err, stderr.String())
	}
	return out, err
}

func (s *fakeStage) UploadPack(turn.Folders) (string, func(), error) {
	s.runs.Add(1)
	if s.uploadPack != "" {
		return quoted(s.uploadPack), func() {}, nil
	}
	return quoted(bench.uploadPack), func() {}, nil
}

// quoted makes one word of a path, for a shell.
func quoted(path string) string { return "'" + strings.ReplaceAll(path, "'", `'\''`) + "'" }

// repo is a repository of a test, of the user's or of an agent's.
type repo struct {
	t   *testing.T
	dir string
}

// command runs git as its user would.
func (r repo) command(stdin string, args ...string) (string, error) {
	cmd := exec.Command(bench.git, append([]string{"-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false"}, args...)...)
	cmd.Env = []string{
		"PATH=" + bench.path, "HOME=/nonexistent", "LC_ALL=C", "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null",
		"GIT_AUTHOR_NAME=Test", "GIT_AUTHOR_EMAIL=test@example.com", "GIT_COMMITTER_NAME=Test", "GIT_COMMITTER_EMAIL=test@example.com",
	}
	cmd.Dir = r.dir
	cmd.Stdin = strings.NewReader(stdin)
	out, err := cmd.CombinedOutput()
	return strings.TrimSuffix(string(out), "\n"), err
}

func (r repo) git(args ...string) string {
	r.t.Helper()
	out, err := r.command("", args...)
	if err != nil {
		r.t.Fatalf("git %q in %s: %v: %s", args, r.dir, err, out)
	}
	return out
}

// write writes a file of the repository.
func (r repo) write(name, text string) {
	r.t.Helper()
	name = filepath.Join(r.dir, name)
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		r.t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		r.t.Fatal(err)
	}
}

// commit commits a file, and gives the commit's hash.
func (r repo) commit(name, text string) string {
	r.t.Helper()
	r.write(name, text)
	r.git("add", "--", name)
	r.git("commit", "--quiet", "-m", "add "+name)
	return r.head()
}

func (r repo) head() string { r.t.Helper(); return r.git("rev-parse", "HEAD") }

// branch gives the commit of a branch, "" where there is none.
func (r repo) branch(name string) string {
	out, err := r.command("", "rev-parse", "--verify", "--quiet", "refs/heads/"+name)
	if err != nil {
		return ""
	}
	return out
}

// folder makes an empty folder with no symbolic link in its path.
func folder(t *testing.T) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// newRepo makes a user's repository with one commit on main.
func newRepo(t *testing.T, dir string) repo {
	t.Helper()
	if err := os.CopyFS(dir, os.DirFS(bench.template)); err != nil {
		t.Fatal(err)
	}
	return repo{t, dir}
}

func emptyRepo(t *testing.T, dir string) repo {
	t.Helper()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	r := repo{t, dir}
	r.git("init", "--quiet", "--initial-branch=main", "--template=")
	return r
}

const branch = "hangar/job-1"

// job is a job on a repository: cloned, and ready for its agent.
type job struct {
	*Git
	t      *testing.T
	stage  *fakeStage
	user   repo // the user's repository
	agent  repo // the clone
	back   Back
	place  Place
	logged int // lines of the log that the clone's making had
}

// newJob checks and clones r for a job.
func newJob(t *testing.T, r repo) *job {
	t.Helper()
	stage := &fakeStage{}
	g := New(stage)
	c, err := g.Check(t.Context(), Request{Repo: r.dir, Branch: branch, Allowed: []string{"/"}})
	if err != nil {
		t.Fatal(err)
	}
	return cloneFor(t, g, stage, c, r)
}

func cloneFor(t *testing.T, g *Git, stage *fakeStage, c Checked, r repo) *job {
	t.Helper()
	data := folder(t)
	ws := turn.Folders{Root: filepath.Join(data, "ws")}
	ws.Repo, ws.Home, ws.Tmp = filepath.Join(ws.Root, "repo"), filepath.Join(ws.Root, "home"), filepath.Join(ws.Root, "tmp")
	for _, dir := range []string{ws.Home, ws.Tmp} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	p := Place{Dest: ws.Repo, Marker: filepath.Join(data, "run", "cloned")}
	if err := g.Clone(t.Context(), c, p); err != nil {
		t.Fatal(err)
	}
	return &job{
		Git: g, t: t, stage: stage, user: r, agent: repo{t, ws.Repo}, place: p,
		back:   Back{Repo: c.Repo, BaseCommit: c.BaseCommit, Branch: c.Branch, Workspace: ws},
		logged: len(asked(t)),
	}
}

// fetchBack brings the commits back, and checks that we ran nothing in the clone.
func (j *job) fetchBack() Fetched {
	j.t.Helper()
	f, err := j.FetchBack(j.t.Context(), j.back)
	if err != nil {
		j.t.Fatal(err)
	}
	j.aloof()
	return f
}

// aloof fails the test if we ran git in the clone since it was made.
func (j *job) aloof() {
	j.t.Helper()
	for _, line := range asked(j.t)[j.logged-1:] {
		folder := strings.HasPrefix(line, "|"+j.agent.dir)
		if _, dir, ok := strings.Cut(line, "|-C|"); ok {
			folder = folder || strings.HasPrefix(dir, j.agent.dir)
		}
		if folder {
			j.t.Errorf("we ran git in the agent's clone: %s", line)
		}
	}
}

func (j *job) subjects(f Fetched) []string {
	var s []string
	for _, c := range f.Commits {
		s = append(s, c.Subject)
	}
	return s
}

func (j *job) wants(f Fetched, o Outcome, subjects ...string) {
	j.t.Helper()
	if f.Outcome != o || !slices.Equal(j.subjects(f), subjects) || f.Total != len(subjects) {
		j.t.Errorf("%+v, want %s with the commits %q", f, o, subjects)
	}
	if wants := o == Moved || o == Refused; wants != (f.Reason != "") {
		j.t.Errorf("%s with the reason %q", o, f.Reason)
	}
	if f.Branch != j.user.branch(branch) {
		j.t.Errorf("the branch is said to be at %q, and is at %q", f.Branch, j.user.branch(branch))
	}
}
