package commands

import (
	"context"

	"hangar/domain"
	"hangar/domain/job"
	"hangar/domain/turn"
)

// AnswerQuestion records an answer on the job's own stream: the first one wins,
// whatever its path. taken says whether this one did.
func (c *Commands) AnswerQuestion(ctx context.Context, o Origin, id domain.JobID, a job.Answer) (taken bool, err error) {
	if err := c.refuseSecrets(map[string]string{(&turn.Question{N: a.N}).Key(): string(a.Answer)}); err != nil {
		return false, err
	}
	l, err := c.job(ctx, o, id, nil, a)
	if err != nil {
		return false, err
	}
	return l.seen[o.ID], nil
}
