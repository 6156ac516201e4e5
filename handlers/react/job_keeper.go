package react

import (
	"context"
	"errors"
	"time"

	"hangar/domain"
	"hangar/domain/job"
	"hangar/domain/turn"
)

// Deadlines of a keeper's steps.
const (
	beginTimeout   = 15 * time.Minute // preparing, cloning, starting
	closeTimeout   = 15 * time.Minute // bringing back what an agent made
	deliverTimeout = 30 * time.Second // an answer to an agent
	stopTimeout    = 30 * time.Second // asking an agent to end
	// stepGrace is how long a step may ignore that its time is over before it is
	// abandoned and its late outcome dropped.
	stepGrace = 5 * time.Second
)

// jobKeeper looks after one job: it has at most one step under way and follows at
// most one agent.
type jobKeeper struct {
	r      *Reactions
	id     domain.JobID
	stream domain.Stream

	turn     int // the one that step and follower are about
	step     *step
	follower *follower
	sent     map[int]bool // answers handed to the agent, by ask
	stopped  bool         // the agent was asked to end
}

func (r *Reactions) newJobKeeper(id domain.JobID) *jobKeeper {
	return &jobKeeper{r: r, id: id, stream: domain.Stream(id)}
}

// step is one thing being done, on a goroutine of its own.
type step struct {
	name   string
	cancel context.CancelFunc
	done   chan error
	late   *time.Timer // when it is abandoned
}

// run is the keeper's life: look, do the next step, wait for something to change.
func (k *jobKeeper) run(ctx context.Context, _ domain.Stream, woken <-chan struct{}) error {
	defer k.letGo()
	for {
		idle, err := k.look(ctx)
		if err != nil || idle {
			return err
		}
		if err := k.wait(ctx, woken); err != nil {
			return err
		}
		if ctx.Err() != nil {
			return nil
		}
	}
}

// wait returns when there may be something new: nil channels never do.
func (k *jobKeeper) wait(ctx context.Context, woken <-chan struct{}) error {
	var done <-chan error
	var late <-chan time.Time
	var told <-chan struct{}
	if k.step != nil {
		done, late = k.step.done, k.step.late.C
	}
	if k.follower != nil {
		told = k.follower.told
	}
	select {
	case <-ctx.Done():
	case <-woken:
	case <-told:
	case err := <-done:
		name := k.step.name
		k.step.late.Stop()
		k.step = nil
		if err != nil && !errors.Is(err, context.Canceled) {
			return k.r.reported(ctx, k.stream, name, err)
		}
	case <-late:
		name := k.step.name
		k.step = nil
		return k.r.reported(ctx, k.stream, name, domain.Errorf(domain.Unavailable, "the step %q does not end; it was abandoned", name))
	}
	return nil
}

// letGo ends what the keeper has under way. Agents go on.
func (k *jobKeeper) letGo() {
	if k.step != nil {
		k.step.cancel()
		k.step.late.Reset(stepGrace)
		select {
		case <-k.step.done: //nolint:errcheck // its outcome is dropped
		case <-k.step.late.C:
		}
		k.step.late.Stop()
	}
	if k.follower != nil {
		k.follower.stop()
	}
}

// look folds the job and begins the one next step. It reports whether nothing is
// left to wait for.
func (k *jobKeeper) look(ctx context.Context) (idle bool, err error) {
	s, err := k.r.deps.Folds.Job(ctx, k.id)
	if err != nil || !s.Exists() {
		return true, err
	}
	if err := k.r.keepTasksOf(ctx, s); err != nil {
		return false, k.r.reported(ctx, k.stream, "register the task", err)
	}
	current := s.Current()
	if current == nil || current.N != k.turn {
		k.newTurn(current)
	}
	if k.step != nil {
		if s.CancelRequested && k.step.name == stepBegin {
			k.step.cancel()
		}
		return false, nil
	}
	if current == nil {
		k.r.slots.release(k.id)
		return true, k.releaseEnded(ctx, s)
	}
	return k.next(ctx, s, current), nil
}

// newTurn forgets what was about another turn.
func (k *jobKeeper) newTurn(current *turn.State) {
	if k.follower != nil {
		k.follower.stop()
	}
	k.follower, k.sent, k.stopped, k.turn = nil, map[int]bool{}, false, 0
	if current != nil {
		k.turn = current.N
	}
}

// The names of the steps, for logs and ReactionFailed.
const (
	stepBegin   = "begin"
	stepCancel  = "cancel before the start"
	stepDeliver = "deliver an answer"
	stepStop    = "stop"
	stepClose   = "close"
)

// next begins the step that the turn's state asks for. It reports whether the
// keeper may rest: when the turn stands in line.
func (k *jobKeeper) next(ctx context.Context, s *job.State, t *turn.State) (rest bool) {
	if k.follower == nil && t.StartedAt.IsZero() {
		switch {
		case s.CancelRequested:
			k.begin(ctx, stepCancel, stopTimeout, func(ctx context.Context) error { return k.cancelUnstarted(ctx, s, t) })
		case k.r.slots.acquire(k.id):
			k.begin(ctx, stepBegin, beginTimeout, func(ctx context.Context) error { return k.start(ctx, s, t) })
		default:
			k.r.slots.join(k.id)
			if k.r.slots.acquire(k.id) {
				k.begin(ctx, stepBegin, beginTimeout, func(ctx context.Context) error { return k.start(ctx, s, t) })
				return false
			}
			return true
		}
		return false
	}
	if k.follower == nil {
		k.follow(ctx, s, t)
	}
	if end, ok := k.follower.ended(); ok {
		k.begin(ctx, stepClose, closeTimeout, func(ctx context.Context) error { return k.close(ctx, s, t, end) })
		return false
	}
	k.hold(s, t)
	if s.CancelRequested && !k.stopped {
		k.stopped = true
		k.begin(ctx, stepStop, stopTimeout, func(ctx context.Context) error {
			return k.r.deps.Agents.Stop(ctx, k.agent(s, t), domain.TurnOf(k.id, t.N))
		})
		return false
	}
	k.deliver(ctx, s, t)
	return false
}

// hold gives a turn that waits for an answer's slot to others, and takes one back
// when it goes on.
func (k *jobKeeper) hold(s *job.State, t *turn.State) {
	if s.Conversation.Status(t.N) == turn.StatusWaiting {
		k.r.slots.release(k.id)
		return
	}
	k.r.slots.take(k.id)
}

// deliver hands the agent an answer that it does not have yet.
func (k *jobKeeper) deliver(ctx context.Context, s *job.State, t *turn.State) {
	for _, q := range s.Questions {
		if q.Turn != t.N || q.Answer == nil || k.sent[q.Ask] || k.follower.delivered(q.Ask) {
			continue
		}
		k.sent[q.Ask] = true
		k.begin(ctx, stepDeliver, deliverTimeout, func(ctx context.Context) error {
			return k.r.deps.Agents.Answer(ctx, k.agent(s, t), domain.TurnOf(k.id, t.N), q.Ask, q.Answer)
		})
		return
	}
}

// begin does a step on a goroutine of its own, under a deadline.
func (k *jobKeeper) begin(ctx context.Context, name string, timeout time.Duration, do func(context.Context) error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	st := &step{name: name, cancel: cancel, done: make(chan error, 1), late: time.NewTimer(timeout + stepGrace)}
	k.step = st
	go func() {
		defer cancel()
		st.done <- guarded(func() error { return do(ctx) })
	}()
}

// guarded turns a panic of a step into its error.
func guarded(do func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = domain.Errorf(domain.Internal, "a fault in hangar: %v", p)
		}
	}()
	return do()
}

// agent is the name of the turn's agent: the one on record once it has started.
func (k *jobKeeper) agent(s *job.State, t *turn.State) string {
	if t.Agent != "" {
		return t.Agent
	}
	return s.Submitted.Agent
}

// releaseEnded lets go of what is still kept of turns that ended, after a server
// that died in between. An agent that runs all the same, started by that server and
// seen by none when the turn was ended, is stopped.
func (k *jobKeeper) releaseEnded(ctx context.Context, s *job.State) error {
	for i := range s.Turns {
		t := &s.Turns[i]
		id := domain.TurnOf(k.id, t.N)
		if t.End == nil || !k.r.leftover(id) {
			continue
		}
		ctx, cancel := context.WithTimeout(ctx, deliverTimeout)
		err := k.r.deps.Agents.Stop(ctx, k.agent(s, t), id)
		if err == nil {
			err = k.r.deps.Agents.Release(ctx, k.agent(s, t), id)
		}
		cancel()
		if err != nil {
			return k.r.reported(ctx, k.stream, "release", err)
		}
		k.r.released(id)
	}
	return nil
}
