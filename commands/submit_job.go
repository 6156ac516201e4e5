package commands

import (
	"context"
	"maps"
	"slices"
	"strings"

	"hangar/domain"
	"hangar/domain/job"
)

// MaxPromptBytes bounds a prompt: it is one field of one event.
const MaxPromptBytes = 192 << 10

// JobResult is what a command about a job leaves: the job as it stands, and the
// task that was asked for along with it.
type JobResult struct {
	Job *job.State
	// Asked is the request for a task that this very command made, nil for none.
	Asked *job.TaskAsked
	// Repeated is whether an earlier run of the same command had been written.
	Repeated bool
}

// SubmitJob asks for a job. The job's id follows from the command's, so a repeat
// finds the job it made; the same key with other arguments is a conflict.
type SubmitJob struct {
	job.Submitted
	// Env is the job's environment in clear; it is written down sealed.
	Env map[string]string
	// Key is the caller's idempotency key, for the error that names it.
	Key string
}

// SubmitJob records that a job is wanted.
func (c *Commands) SubmitJob(ctx context.Context, o Origin, s SubmitJob) (JobResult, error) {
	id := domain.JobID(domain.EntityID(job.Category, o.ID))
	if err := c.refuseSecrets(s.written()); err != nil {
		return JobResult{}, err
	}
	if len(s.Prompt) > MaxPromptBytes {
		return JobResult{}, domain.Errorf(domain.TooLarge, "prompt: it has %d bytes; at most %d are taken, put more into a file of the repository", len(s.Prompt), MaxPromptBytes)
	}
	sub := s.Submitted
	sub.Env = c.seal(id, s.Env)
	data, err := job.Decide(&job.State{}, job.Submit{Submitted: sub})
	if err != nil {
		return JobResult{}, err
	}
	l, err := create[job.State](ctx, c, domain.Stream(id), o, data...)
	if err != nil {
		return JobResult{}, err
	}
	if l.repeated && l.state.Submitted.ArgsHash != sub.ArgsHash {
		return JobResult{}, domain.InvalidField("idempotency_key", "%q was used for a job with other arguments (%s); use another key", s.Key, id)
	}
	return jobResult(l, o), nil
}

func jobResult(l *loaded[job.State], o Origin) JobResult {
	r := JobResult{Job: &l.state, Repeated: l.repeated}
	for i := range l.state.Tasks {
		if t := &l.state.Tasks[i]; t.EventID == domain.RecordID(o.ID, domain.Stream(l.state.ID), 0) {
			r.Asked = t
		}
	}
	return r
}

// written gives the arguments that are written down as they are.
func (s *SubmitJob) written() map[string]string {
	args := map[string]string{"prompt": s.Prompt, "title": s.Title, "repo": s.Repo, "base_branch": s.BaseBranch,
		"branch": s.Branch, "output_schema": string(s.OutputSchema), "artifacts": strings.Join(s.Artifacts, "\n")}
	for name, value := range s.Labels {
		args["labels"] += name + "\n" + value + "\n"
	}
	for name := range s.Env {
		args["env"] += name + "\n"
	}
	return args
}

// refuseSecrets refuses arguments that are written down as they are and hold a
// secret this server knows.
func (c *Commands) refuseSecrets(args map[string]string) error {
	for _, name := range slices.Sorted(maps.Keys(args)) {
		if secret, found := c.redactor.Known(args[name]); found {
			return domain.InvalidField(name, "it holds %s, and would be written to the log; leave it out, pass secrets by env", secret)
		}
	}
	return nil
}

func envPurpose(id domain.JobID, name string) string { return "env " + string(id) + " " + name }

func (c *Commands) seal(id domain.JobID, env map[string]string) map[string]string {
	if len(env) == 0 {
		return nil
	}
	sealed := make(map[string]string, len(env))
	for name, value := range env {
		var nonce [12]byte
		c.read(nonce[:])
		sealed[name] = c.redactor.Seal(value, envPurpose(id, name), nonce)
	}
	return sealed
}

// OpenEnv gives a job's environment in clear: for its agent, and to keep it out
// of what the agent says.
func (c *Commands) OpenEnv(s *job.State) (map[string]string, error) {
	env := make(map[string]string, len(s.Submitted.Env))
	for name, sealed := range s.Submitted.Env {
		value, err := c.redactor.Open(sealed, envPurpose(s.ID, name))
		if err != nil {
			return nil, err
		}
		env[name] = value
	}
	return env, nil
}
