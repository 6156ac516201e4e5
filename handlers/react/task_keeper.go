package react

import (
	"context"
	"time"

	"hangar/domain"
	"hangar/domain/job"
	"hangar/domain/task"
)

const taskCategory = task.Category

// keepTask records whatever the subject's state demands of a task, and carries a
// cancel to the subject. It is woken by every event of either stream.
func (r *Reactions) keepTask(ctx context.Context, stream domain.Stream, _ <-chan struct{}) error {
	t, err := r.deps.Folds.Task(ctx, domain.TaskID(stream))
	if err != nil || !t.Exists() || t.Ended() {
		return err
	}
	j, sub, err := r.deps.Folds.Subject(ctx, t)
	if err != nil || !j.Exists() {
		return err
	}
	after := t
	observed, err := task.Decide(t, task.Observe{Subject: sub, At: r.deps.Clock.Now()})
	if err == nil && len(observed) > 0 {
		after, err = r.deps.Commands.ObserveTask(ctx, t, sub)
	}
	if err != nil {
		return r.reported(ctx, stream, "observe", err)
	}
	if after.CancelRequested && !after.Ended() && !j.CancelRequested {
		return r.reported(ctx, stream, "cancel", r.deps.Commands.CancelSubject(ctx, after, j.ID))
	}
	return nil
}

// freshTask is how long the call that asked for a task is left to register it
// before its job's keeper does.
const freshTask = 2 * time.Second

// keepTasksOf wakes the keepers of a job's tasks, and registers those that were
// asked for and are missing: the call that asked for them died in between.
func (r *Reactions) keepTasksOf(ctx context.Context, s *job.State) error {
	for i := range s.Tasks {
		asked := &s.Tasks[i]
		handle := r.deps.Commands.HandleOf(string(s.ID), asked.N)
		t, err := r.deps.Folds.Task(ctx, handle)
		if err != nil {
			return err
		}
		switch {
		case t.Ended():
		case t.Exists():
			r.keepers.wake(domain.Stream(handle))
		case r.deps.Clock.Now().Sub(s.UpdatedAt) < freshTask:
			r.keepers.later(domain.Stream(s.ID), freshTask)
		default:
			if _, err := r.deps.Commands.CreateTask(ctx, s, asked); err != nil {
				return err
			}
		}
	}
	return nil
}
