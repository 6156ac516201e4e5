package commands

import (
	"context"
	"encoding/json"
	"time"

	"hangar/domain"
	"hangar/domain/event"
	"hangar/domain/job"
	"hangar/domain/task"
	"hangar/domain/turn"
)

// Request fills in what every task asked of the control plane has in common.
func (c *Commands) Request(r turn.TaskRequest) *turn.TaskRequest {
	r.TTLMs, r.PollMs = c.settings.TaskTTL.Milliseconds(), c.settings.PollInterval.Milliseconds()
	return &r
}

// HandleOf gives the handle of the n-th task asked of a subject.
func (c *Commands) HandleOf(subject string, n int) domain.TaskID {
	return task.Handle(c.handleKey, task.Key{Target: task.Hangar, ID: task.SubjectTask(subject, n), Generation: 1})
}

// CreateTask registers the task that was asked for along with a job's turn. Both
// the call that asked and the task's keeper do it, with the same records; only
// after it may the handle leave.
func (c *Commands) CreateTask(ctx context.Context, s *job.State, asked *job.TaskAsked) (*task.State, error) {
	handle := c.HandleOf(string(s.ID), asked.N)
	o := Origin{Owner: asked.Owner, ID: domain.DerivedCommand(asked.EventID, "task"),
		CorrelationID: asked.CorrelationID, CausationID: asked.EventID}
	l, err := create[task.State](ctx, c, domain.Stream(handle), o, task.Created{
		Handle: handle, Target: task.Hangar, TargetTaskID: task.SubjectTask(string(s.ID), asked.N), Generation: 1,
		Owner: asked.Owner, Tool: asked.Tool, ArgsHash: asked.ArgsHash, Digest: asked.Digest,
		Capabilities: asked.Capabilities, TTLMs: asked.TTLMs, PollIntervalMs: asked.PollMs,
	})
	if err != nil {
		return nil, err
	}
	return &l.state, nil
}

// ConsentTask records that an answer was taken by the subject.
func (c *Commands) ConsentTask(ctx context.Context, o Origin, id domain.TaskID, key string, answer json.RawMessage, via string) error {
	_, err := c.task(ctx, o, id, task.Consent{Key: key, Answer: answer, Via: via})
	return err
}

// RefuseTask records that a question was declined, which ends the task with the
// question as its result. The turn goes on waiting.
func (c *Commands) RefuseTask(ctx context.Context, o Origin, id domain.TaskID, r task.Refuse) error {
	r.Reason = c.redactor.Text(r.Reason)
	_, err := c.task(ctx, o, id, r)
	return err
}

// CancelTask records that a task is to end; its keeper carries the wish to the
// subject.
func (c *Commands) CancelTask(ctx context.Context, o Origin, id domain.TaskID, reason string) error {
	_, err := c.task(ctx, o, id, task.Cancel{Reason: c.redactor.Text(reason)})
	return err
}

// ObserveTask records whatever the subject's state demands of the task. That an
// answer was agreed to stands there as its giver's, whoever writes it down.
func (c *Commands) ObserveTask(ctx context.Context, s *task.State, sub turn.Subject) (*task.State, error) {
	for _, q := range sub.Questions {
		if _, decided := s.Consents[q.Key()]; decided || q.Answer == nil {
			continue
		}
		o := Origin{Owner: q.By, ID: AnswerID(s.Created.Handle, q.Key()), CorrelationID: s.Correlation, CausationID: sub.EventID}
		if err := c.ConsentTask(ctx, o, s.Created.Handle, q.Key(), q.Answer, q.Via); err != nil {
			return nil, err
		}
	}
	o := follow(s.Created.Owner.Tenant, s.Correlation, sub.EventID, "observe", string(s.Created.Handle))
	return c.task(ctx, o, s.Created.Handle, task.Observe{Subject: sub, At: c.clock.Now()})
}

// AnswerID is the id of the command that answers a key of a task.
func AnswerID(handle domain.TaskID, key string) domain.CommandID {
	return domain.DerivedCommand(string(handle), key)
}

// CancelSubject carries a task's cancel to its job, while the task's own turn goes
// on: a turn that was asked for since is not what was cancelled.
func (c *Commands) CancelSubject(ctx context.Context, s *task.State, id domain.JobID) error {
	o := follow(s.Created.Owner.Tenant, s.Correlation, s.EventID, "cancel", string(s.Created.Handle))
	_, n := s.Subject()
	_, err := run[job.State](ctx, c, domain.Stream(id), o, func(j *job.State) ([]event.Data, error) {
		if asked := j.Task(n); asked != nil && j.Conversation.Status(asked.Turn).Final() {
			return nil, nil
		}
		return job.Decide(j, job.Cancel{Reason: "the task was cancelled"})
	})
	return err
}

// ExpireTask records that a handle is served no more, once its time has come. A
// task that another has expired is left alone.
func (c *Commands) ExpireTask(ctx context.Context, id domain.TaskID, at time.Time) error {
	l, err := load[task.State](ctx, c, domain.Stream(id))
	if err != nil {
		return err
	}
	o := Origin{Owner: domain.Owner{Tenant: l.state.Created.Owner.Tenant}, ID: domain.DerivedCommand(string(id), "expire"),
		CorrelationID: l.state.Correlation, CausationID: l.last}
	_, err = run[task.State](ctx, c, domain.Stream(id), o, func(s *task.State) ([]event.Data, error) {
		return task.Decide(s, task.Expire{At: at})
	})
	return err
}

func (c *Commands) task(ctx context.Context, o Origin, id domain.TaskID, cmd task.Command) (*task.State, error) {
	l, err := run[task.State](ctx, c, domain.Stream(id), o, func(s *task.State) ([]event.Data, error) {
		return task.Decide(s, cmd)
	})
	if err != nil {
		return nil, err
	}
	return &l.state, nil
}
