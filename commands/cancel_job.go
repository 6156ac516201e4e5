package commands

import (
	"context"

	"hangar/domain"
	"hangar/domain/job"
)

// CancelJob records that a job is to end. A job that has ended is left alone.
func (c *Commands) CancelJob(ctx context.Context, o Origin, id domain.JobID, reason string, permit func(*job.State) error) (JobResult, error) {
	l, err := c.job(ctx, o, id, permit, job.Cancel{Reason: c.redactor.Text(reason)})
	if err != nil {
		return JobResult{}, err
	}
	return jobResult(l, o), nil
}
