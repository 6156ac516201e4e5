package git

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"

	"hangar/domain/turn"
)

// Back is a clone whose commits are to come back.
type Back struct {
	Repo       string // as Checked has it
	BaseCommit string
	Branch     string
	Workspace  turn.Folders // its Repo is the clone; no agent is at work there any more
}

// Outcome is what became of the commits.
type Outcome string

// The outcomes.
const (
	Done    Outcome = "done"    // the repository's branch has the agent's commits
	Nothing Outcome = "nothing" // the agent made no commits, and no branch was made
	Moved   Outcome = "moved"   // the branch is somebody else's by now; it was left as it is
	Refused Outcome = "refused" // the commits are not such as git takes in
)

// Fetched is what FetchBack found and did.
type Fetched struct {
	Outcome Outcome
	Branch  string // where the repository's branch is now, "" where it has none
	Tip     string // the agent's last commit, "" for none
	// Commits are those since the base: of the branch when done, else of the agent
	// as far as the repository can tell. Oldest first; the last MaxCommits of Total.
	Commits []Commit
	Total   int
	Reason  string // why it was moved or refused, for people
}

// Commit is one commit of a branch.
type Commit struct {
	Hash    string `json:"hash"`
	Subject string `json:"subject"`
}

// FetchBack brings the commits of the job's branch from the agent's clone into
// the user's repository, never forced. That the branch has them already is the
// proof that it happened. An error means that it is not known, and may be tried
// again; what trying again cannot help is an Outcome.
func (g *Git) FetchBack(ctx context.Context, b Back) (Fetched, error) {
	ctx, cancel := within(ctx, FetchTimeout)
	defer cancel()
	f, err := g.fetchBack(ctx, b)
	if err != nil {
		return Fetched{}, fmt.Errorf("bringing %s back to %s: %w", b.Branch, b.Repo, err)
	}
	return f, nil
}

func (g *Git) fetchBack(ctx context.Context, b Back) (f Fetched, err error) {
	// A link or a file in the folder's place would be looked at by our own git.
	if info, err := os.Lstat(b.Workspace.Repo); err != nil || !info.IsDir() {
		return g.refused(ctx, b, "the agent's clone is gone")
	}
	if f.Tip, err = g.tip(ctx, b); err != nil {
		if saidNo(err) {
			return g.refused(ctx, b, "the agent's clone is no repository that git can read")
		}
		return f, err
	}
	unlock, err := g.lock(ctx, b.Repo)
	if err != nil {
		return f, err
	}
	defer unlock()
	if f.Branch, err = g.branchCommit(ctx, b.Repo, b.Branch); err != nil {
		return f, err
	}
	settled, err := g.settled(ctx, b, &f)
	if err != nil {
		return f, err
	}
	if !settled {
		if err := g.bring(ctx, b, &f); err != nil {
			return f, err
		}
	}
	return f, g.listCommits(ctx, b, &f)
}

// bring fetches, and tells the outcome.
func (g *Git) bring(ctx context.Context, b Back, f *Fetched) error {
	if err := g.fetch(ctx, b); err != nil {
		if err := g.explain(ctx, b, f, err); err != nil {
			return err
		}
	} else {
		f.Outcome = Done
	}
	now, err := g.branchCommit(ctx, b.Repo, b.Branch)
	if err == nil && f.Outcome == Done && now == f.Branch { // where it was, and that was not enough
		f.Outcome, f.Reason = Refused, "git took nothing over: the history of the agent's clone is cut short, or not what the clone says"
	}
	f.Branch = now
	return err
}

// refused is the outcome for a clone that is none.
func (g *Git) refused(ctx context.Context, b Back, reason string) (f Fetched, err error) {
	if err := context.Cause(ctx); err != nil {
		return f, err
	}
	f.Outcome, f.Reason = Refused, reason
	if f.Branch, err = g.branchCommit(ctx, b.Repo, b.Branch); err != nil {
		return f, err
	}
	return f, g.listCommits(ctx, b, &f)
}

// saidNo reports whether a staged command ran, and ended badly.
func saidNo(err error) bool {
	_, ok := errors.AsType[*exec.ExitError](err)
	return ok
}

var hash = regexp.MustCompile(`^([0-9a-f]{40}|[0-9a-f]{64})$`)

// tip asks, with the agent's rights, for the commit of the agent's branch; "" is
// none. The answer is the agent's word and no more.
func (g *Git) tip(ctx context.Context, b Back) (string, error) {
	ref := "refs/heads/" + b.Branch
	out, err := g.stage.RunStaged(ctx, b.Workspace, []string{
		"git", "-C", b.Workspace.Repo, "for-each-ref", "--format=%(objectname) %(refname)", ref,
	})
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(string(out)) {
		commit, name, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		if name == ref && hash.MatchString(commit) {
			return commit, nil
		}
	}
	return "", nil
}

// settled tells the outcome where nothing is left to fetch: all that the agent
// has is in the repository already.
func (g *Git) settled(ctx context.Context, b Back, f *Fetched) (has bool, err error) {
	at, outcome := f.Branch, Done
	if at == "" {
		at, outcome = b.BaseCommit, Nothing
	}
	if has = f.Tip == ""; !has {
		if has, err = g.contains(ctx, b.Repo, at, f.Tip); err != nil {
			return false, err
		}
	}
	if has {
		f.Outcome = outcome
	}
	return has, nil
}

// contains reports whether repo has the commit, and has it in the history of the
// commit at.
func (g *Git) contains(ctx context.Context, repo, at, commit string) (bool, error) {
	return g.yes(ctx, repo, "merge-base", "--is-ancestor", commit, at)
}

func (g *Git) has(ctx context.Context, repo, commit string) (bool, error) {
	return g.yes(ctx, repo, "cat-file", "-e", commit+"^{commit}")
}

// fetch fetches the agent's branch. The clone's side of it runs on the stage.
func (g *Git) fetch(ctx context.Context, b Back) error {
	command, cleanup, err := g.stage.UploadPack(b.Workspace)
	if err != nil {
		return err
	}
	defer cleanup()
	ref := "refs/heads/" + b.Branch
	_, err = g.run(ctx, b.Repo, "fetch", "--upload-pack", command,
		"--no-tags", "--no-write-fetch-head", "--", b.Workspace.Repo, ref+":"+ref)
	return err
}

// fsckFailed is what git says of commits that no other try makes better.
const fsckFailed = "fsck error"

// explain tells why a fetch failed, by looking at the repository again; only what
// git has against the commits themselves is taken from its words.
func (g *Git) explain(ctx context.Context, b Back, f *Fetched, failure error) error {
	e, ok := errors.AsType[*exitError](failure)
	if !ok || e.code < 0 {
		return failure
	}
	now, err := g.branchCommit(ctx, b.Repo, b.Branch)
	if err != nil {
		return err
	}
	came, err := g.has(ctx, b.Repo, f.Tip)
	if err != nil {
		return err
	}
	if now != "" && came {
		if has, err := g.contains(ctx, b.Repo, now, f.Tip); has || err != nil {
			f.Outcome = Done
			return err
		}
		if forward, err := g.contains(ctx, b.Repo, f.Tip, now); !forward || err != nil {
			f.Outcome = Moved
			f.Reason = fmt.Sprintf("the branch %q of %s is at %.12s, which the agent's work (%.12s) does not continue", b.Branch, b.Repo, now, f.Tip)
			return err
		}
	}
	why, err := g.obstacle(ctx, b.Repo, b.Branch)
	if err != nil {
		return err
	}
	if why != "" {
		f.Outcome, f.Reason = Moved, why
		return nil
	}
	if strings.Contains(e.stderr, fsckFailed) {
		f.Outcome, f.Reason = Refused, "git does not take the commits in: "+showable(e.stderr, MaxReasonBytes)
		return nil
	}
	return failure
}

// listCommits lists what the branch has since the base, or the agent's commits
// that did not get there.
func (g *Git) listCommits(ctx context.Context, b Back, f *Fetched) error {
	at := f.Branch
	if f.Outcome == Moved {
		if has, err := g.has(ctx, b.Repo, f.Tip); !has || err != nil {
			return err
		}
		at = f.Tip
	}
	if at == "" || f.Outcome == Nothing {
		return nil
	}
	since := []string{at, "^" + b.BaseCommit, "--"}
	out, err := g.run(ctx, b.Repo, append([]string{
		"rev-list", "--topo-order", "--reverse", fmt.Sprintf("--max-count=%d", MaxCommits), "--format=%H %<(1024,trunc)%s",
	}, since...)...)
	if err != nil || out == "" {
		return err
	}
	lines := strings.Split(out, "\n")
	for i := 1; i < len(lines); i += 2 { // before each there is "commit <hash>"
		commit, subject, _ := strings.Cut(lines[i], " ")
		f.Commits = append(f.Commits, Commit{commit, showable(subject, MaxSubjectBytes)})
	}
	if f.Total = len(f.Commits); f.Total < MaxCommits {
		return nil
	}
	count, err := g.run(ctx, b.Repo, append([]string{"rev-list", "--count"}, since...)...)
	if err != nil {
		return err
	}
	f.Total, err = strconv.Atoi(count)
	return err
}
