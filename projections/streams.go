package projections

import (
	"context"

	"hangar/domain"
	"hangar/domain/access"
	"hangar/domain/job"
	"hangar/domain/task"
	"hangar/domain/turn"
)

// The categories whose streams are read by id.
var (
	Jobs = &Fold[job.State]{
		Evolve: job.Evolve,
		Size:   (*job.State).SizeBytes,
		Final:  func(s *job.State) bool { return s.Status().Final() },
	}
	Tasks = &Fold[task.State]{
		Evolve: task.Evolve,
		Size:   (*task.State).SizeBytes,
		Final:  (*task.State).Ended,
	}
	Tokens = &Fold[access.Token]{
		Evolve: access.Evolve,
		Size:   (*access.Token).SizeBytes,
		Final:  func(t *access.Token) bool { return t.Revoked },
	}
)

// Job gives a job, one that does not exist for an id nobody has.
func (f *Folds) Job(ctx context.Context, id domain.JobID) (*job.State, error) {
	if !domain.ValidID(job.Category, string(id)) {
		return &job.State{}, nil
	}
	return Get(ctx, f, Jobs, domain.Stream(id))
}

// Task gives a task, one that does not exist for an id nobody has. It is the
// inline view that tasks/get reads.
func (f *Folds) Task(ctx context.Context, id domain.TaskID) (*task.State, error) {
	if !domain.ValidID(task.Category, string(id)) {
		return &task.State{}, nil
	}
	return Get(ctx, f, Tasks, domain.Stream(id))
}

// Token gives a token, one that was never issued for an id nobody has.
func (f *Folds) Token(ctx context.Context, id domain.TokenID) (*access.Token, error) {
	return Get(ctx, f, Tokens, access.TokenStream(id))
}

// Subject gives the job that a control-plane task was asked of, and what it says
// of the task.
func (f *Folds) Subject(ctx context.Context, t *task.State) (*job.State, turn.Subject, error) {
	id, n := t.Subject()
	j, err := f.Job(ctx, domain.JobID(id))
	if err != nil {
		return nil, turn.Subject{}, err
	}
	asked := j.Task(n)
	if asked == nil {
		return j, turn.Subject{ID: id}, nil
	}
	return j, j.Subject(asked.Turn), nil
}
