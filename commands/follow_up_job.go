package commands

import (
	"context"

	"hangar/domain"
	"hangar/domain/event"
	"hangar/domain/job"
)

// FollowUpJob says more to a job: the answer to its oldest open question, or a
// new turn.
type FollowUpJob struct {
	Job domain.JobID
	job.FollowUp
}

// FollowUpJob records the follow-up. permit is asked with the job as it stands
// whether this caller may.
func (c *Commands) FollowUpJob(ctx context.Context, o Origin, f FollowUpJob, permit func(*job.State) error) (JobResult, error) {
	if err := c.refuseSecrets(map[string]string{"prompt": f.Prompt, "output_schema": string(f.OutputSchema)}); err != nil {
		return JobResult{}, err
	}
	if len(f.Prompt) > MaxPromptBytes {
		return JobResult{}, domain.Errorf(domain.TooLarge, "prompt: it has %d bytes; at most %d are taken", len(f.Prompt), MaxPromptBytes)
	}
	l, err := c.job(ctx, o, f.Job, permit, f.FollowUp)
	if err != nil {
		return JobResult{}, err
	}
	return jobResult(l, o), nil
}

// job carries out a command on a job that exists and that the caller may touch.
func (c *Commands) job(ctx context.Context, o Origin, id domain.JobID, permit func(*job.State) error, cmd job.Command) (*loaded[job.State], error) {
	return run[job.State](ctx, c, domain.Stream(id), o, func(s *job.State) ([]event.Data, error) {
		if permit != nil {
			if err := permit(s); err != nil {
				return nil, err
			}
		}
		return job.Decide(s, cmd)
	})
}
