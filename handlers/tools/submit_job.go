package tools

import (
	"context"
	"encoding/json"
	"slices"
	"strings"

	"hangar/commands"
	"hangar/domain"
	"hangar/domain/job"
	"hangar/domain/tool"
	"hangar/domain/turn"
	"hangar/handlers/mcp"
)

// submitArgs are the arguments of submit_job. Put through args_hash they are in
// their canonical form: defaults filled in, what does not matter left out.
type submitArgs struct {
	Prompt         string            `json:"prompt"`
	Repo           string            `json:"repo,omitempty"`
	BaseBranch     string            `json:"base_branch,omitempty"`
	Branch         string            `json:"branch,omitempty"`
	Agent          string            `json:"agent"`
	Title          string            `json:"title,omitempty"`
	OpenPR         *bool             `json:"open_pr,omitempty"`
	OutputSchema   json.RawMessage   `json:"output_schema,omitempty"`
	Artifacts      []string          `json:"artifacts,omitempty"`
	Env            map[string]string `json:"env,omitempty"`
	TimeoutMinutes *float64          `json:"timeout_minutes,omitempty"`
	Labels         map[string]string `json:"labels,omitempty"`
	IdempotencyKey string            `json:"idempotency_key,omitempty"`

	timeout int
}

func (c *Catalogue) submit(in inputs) mcp.Handler {
	return func(ctx context.Context, call *mcp.Call) (mcp.Outcome, error) {
		var a submitArgs
		if err := in.read(call.Arguments, &a); err != nil {
			return nil, err
		}
		if err := a.check(c.DefaultAgent); err != nil {
			return nil, err
		}
		hash, err := a.hash(c)
		if err != nil {
			return nil, err
		}
		id := c.commandID(call, a.IdempotencyKey)
		at, err := c.lookAround(ctx, &a, id)
		if err != nil {
			return nil, err
		}
		r, err := c.Commands.SubmitJob(ctx, origin(call.Caller, id), commands.SubmitJob{
			Submitted: a.submitted(hash, at, c.request(call, hash)), Env: a.Env, Key: a.IdempotencyKey,
		})
		if err != nil {
			return nil, err
		}
		return c.handOut(ctx, call, r, func() (mcp.Outcome, error) {
			v := JobOut(r.Job)
			if r.Repeated {
				v.Note = "the call was made before with this idempotency_key: this is the job it made"
			}
			return answer(v, v.Status == job.Failed)
		})
	}
}

// check says which argument is wrong by itself, and fills in the defaults.
func (a *submitArgs) check(defaultAgent string) error {
	if err := checkPrompt(a.Prompt); err != nil {
		return err
	}
	for _, t := range []struct {
		field, value string
		most         int
	}{
		{"repo", a.Repo, maxRepoBytes}, {"base_branch", a.BaseBranch, maxNameBytes}, {"branch", a.Branch, maxNameBytes},
		{"agent", a.Agent, maxNameBytes}, {"title", a.Title, maxTitleBytes}, {"idempotency_key", a.IdempotencyKey, maxNameBytes},
	} {
		if err := checkText(t.field, t.value, t.most); err != nil {
			return err
		}
	}
	if a.Agent == "" {
		a.Agent = defaultAgent
	}
	if err := a.checkRepoless(); err != nil {
		return err
	}
	if a.OpenPR == nil {
		open := a.Repo != ""
		a.OpenPR = &open
	}
	var err error
	if a.OutputSchema, err = checkSchema(a.OutputSchema); err != nil {
		return err
	}
	if a.timeout, err = whole("timeout_minutes", a.TimeoutMinutes, 0, 1, maxTimeout); err != nil {
		return err
	}
	if err := checkGlobs(a.Artifacts); err != nil {
		return err
	}
	if err := checkEnv(a.Env); err != nil {
		return err
	}
	return checkLabels(a.Labels)
}

// checkRepoless refuses what means nothing without a repository.
func (a *submitArgs) checkRepoless() error {
	if a.Repo != "" {
		return nil
	}
	switch {
	case a.BaseBranch != "":
		return domain.InvalidField("base_branch", "there is no repo to take it from; give repo, or leave it out")
	case a.Branch != "":
		return domain.InvalidField("branch", "there is no repo to make it in; give repo, or leave it out")
	case a.OpenPR != nil && *a.OpenPR:
		return domain.InvalidField("open_pr", "there is no repo to open it for; give repo, or leave it out")
	}
	return nil
}

// hash stands for the arguments in the log.
func (a *submitArgs) hash(c *Catalogue) (domain.Digest, error) {
	canonical := *a
	canonical.Env, canonical.IdempotencyKey = c.hashEnv(a.Env), ""
	return argsHash(canonical)
}

func argsHash(canonical any) (domain.Digest, error) {
	b, err := mcp.Marshal(canonical)
	if err != nil {
		return "", err
	}
	return tool.Canonical(b)
}

// lookAround checks what is wrong with the arguments in this world: the agent and
// the repository. A repeat is found first: by then its branch is there.
func (c *Catalogue) lookAround(ctx context.Context, a *submitArgs, id domain.CommandID) (job.Checkout, error) {
	jobID := domain.JobID(domain.EntityID(job.Category, id))
	if a.IdempotencyKey != "" {
		s, err := c.Folds.Job(ctx, jobID)
		if err != nil || s.Exists() {
			return job.Checkout{}, err
		}
	}
	if !slices.Contains(c.Agents, a.Agent) {
		return job.Checkout{}, domain.InvalidField("agent", "%q is not configured; there are: %s", a.Agent, strings.Join(c.Agents, ", "))
	}
	if a.Repo == "" {
		return job.Checkout{}, nil
	}
	branch := a.Branch
	if branch == "" {
		branch = "hangar/" + string(jobID)
	}
	return c.Repos.CheckRepo(ctx, a.Repo, a.BaseBranch, branch)
}

func (a *submitArgs) submitted(hash domain.Digest, at job.Checkout, task *turn.TaskRequest) job.Submitted {
	return job.Submitted{
		ArgsHash: hash, Prompt: a.Prompt, Title: a.Title,
		Repo: at.Repo, BaseBranch: at.BaseBranch, BaseCommit: at.BaseCommit, Branch: at.Branch,
		Agent: a.Agent, OpenPR: *a.OpenPR, OutputSchema: a.OutputSchema, Artifacts: a.Artifacts,
		TimeoutMinutes: a.timeout, Labels: a.Labels, Task: task,
	}
}
