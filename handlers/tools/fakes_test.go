package tools_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"strings"
	"sync"

	"hangar/domain"
	"hangar/domain/job"
	"hangar/domain/turn"
	"hangar/handlers/agent/scripted"
	"hangar/handlers/mcp"
	"hangar/handlers/react"
)

// repos knows one repository, and takes a branch once.
type repos struct{ branches map[string]bool }

func (r *repos) CheckRepo(_ context.Context, repo, base, branch string) (job.Checkout, error) {
	if repo != "/src/app" {
		return job.Checkout{}, domain.InvalidField("repo", "%q is not a git repository", repo)
	}
	if r.branches[branch] {
		return job.Checkout{}, domain.InvalidField("branch", "%q exists already; choose another", branch)
	}
	r.branches[branch] = true
	if base == "" {
		base = "main"
	}
	return job.Checkout{Repo: repo, BaseBranch: base, BaseCommit: strings.Repeat("a", 40), Branch: branch}, nil
}

// denials counts who was turned away.
type denials struct {
	mu   sync.Mutex
	list []string
}

func (d *denials) Denied(c mcp.Caller, method string, _ domain.TaskID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.list = append(d.list, c.Owner.String()+" "+method)
}

// files are artifacts by name.
type files map[string][]byte

func (f files) Open(_ context.Context, _ domain.JobID, name string) (io.ReadCloser, error) {
	b, ok := f[name]
	if !ok {
		return nil, domain.Errorf(domain.NotFound, "the artifact is gone")
	}
	return io.NopCloser(bytes.NewReader(b)), nil
}

// agentOf is the scripted runner under every name.
type agentOf struct{ *scripted.Runner }

func (a agentOf) Next(ctx context.Context, _ string, id domain.TurnID, after int) (turn.Line, error) {
	return a.Runner.Next(ctx, id, after)
}

func (a agentOf) Answer(ctx context.Context, _ string, id domain.TurnID, ask int, answer json.RawMessage) error {
	return a.Runner.Answer(ctx, id, ask, answer)
}

func (a agentOf) Stop(ctx context.Context, _ string, id domain.TurnID) error {
	return a.Runner.Stop(ctx, id)
}

func (a agentOf) Release(ctx context.Context, _ string, id domain.TurnID) error {
	return a.Runner.Release(ctx, id, "")
}

func (agentOf) Kept(context.Context) ([]domain.TurnID, error) { return nil, nil }

// places are workspaces and clones that are nowhere.
type places struct{ w *world }

func (places) Prepare(context.Context, domain.JobID) (turn.Folders, error) {
	return turn.Folders{Root: "/nowhere", Repo: "/nowhere/repo"}, nil
}

func (p places) Collect(context.Context, domain.JobID, turn.Folders, []turn.Line, []string) ([]turn.Artifact, []string, error) {
	return p.w.kept, nil, nil
}
func (places) Remove(context.Context, domain.JobID) error   { return nil }
func (places) Kept(context.Context) ([]domain.JobID, error) { return nil, nil }
func (places) Clone(context.Context, domain.JobID, job.Checkout, turn.Folders, bool) error {
	return nil
}
func (places) Return(_ context.Context, _ domain.JobID, c job.Checkout, _ turn.Folders) (react.Returned, error) {
	return react.Returned{PR: &job.PR{Branch: c.Branch, Base: c.BaseBranch, State: "none", Commits: []job.Commit{{Hash: strings.Repeat("b", 40), Subject: "Work"}}}}, nil
}
