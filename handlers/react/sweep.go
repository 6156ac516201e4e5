package react

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"hangar/domain"
	"hangar/domain/audit"
	"hangar/eventstore"
)

// The pace of what is done by the clock.
const (
	// expiryPace is how often handles whose time has come are ended. Every door
	// judges expiry by itself; this only writes it down.
	expiryPace = 10 * time.Second
	// livePace is how often every live task and unfinished job is looked at,
	// whether or not anything woke it.
	livePace = time.Minute
	// tidyPace is how often folders are looked through for what may go.
	tidyPace = 10 * time.Minute
	// expiryPage bounds how many handles one sweep ends before it looks again.
	expiryPage = 256
	// expiryPages bounds one sweep; the rest is due again at the next.
	expiryPages = 64
	// viewPause lets the tables catch up between two pages.
	viewPause = 100 * time.Millisecond
)

// resume wakes the keeper of everything unfinished, once the views know what that
// is. Queued jobs take their places in line first.
func (r *Reactions) resume(ctx context.Context) {
	if r.deps.CaughtUp != nil {
		if err := r.deps.CaughtUp(ctx); err != nil && ctx.Err() == nil {
			r.deps.Log.Error("the tables do not know the whole log; what they miss is not resumed", "error", err)
		}
	}
	live, err := r.deps.Jobs.Live(ctx)
	if err != nil && ctx.Err() == nil {
		r.deps.Log.Error("unfinished jobs cannot be listed", "error", err)
	}
	for _, l := range live {
		s, err := r.deps.Folds.Job(ctx, l.ID)
		if err != nil {
			continue // its keeper will say so
		}
		if current := s.Current(); current != nil && current.StartedAt.IsZero() {
			r.slots.enqueue(l.ID, domain.Position(l.Ordinal)) //nolint:gosec // a position as it was stored
		}
	}
	for _, l := range live {
		r.keepers.wake(domain.Stream(l.ID))
	}
	r.wakeLiveTasks(ctx)
	kept, err := r.deps.Agents.Kept(ctx)
	if err != nil {
		r.deps.Log.Warn("leftovers of agents cannot be listed", "error", err)
	}
	r.keptAtStart(kept)
	for _, id := range kept {
		j, _ := id.Split()
		r.keepers.wake(domain.Stream(j))
	}
}

func (r *Reactions) wakeLiveTasks(ctx context.Context) {
	live, err := r.deps.Tasks.Live(ctx)
	if err != nil && ctx.Err() == nil {
		r.deps.Log.Error("live tasks cannot be listed", "error", err)
	}
	for _, l := range live {
		r.keepers.wake(domain.Stream(l.ID))
	}
}

// sweep does what is due by the clock, until ctx ends.
func (r *Reactions) sweep(ctx context.Context) {
	var sinceLive, sinceTidy time.Duration
	for {
		pace := expiryPace + rand.N(expiryPace/10) //nolint:gosec // spread, not secrecy
		sleep(ctx, pace)
		if ctx.Err() != nil {
			return
		}
		r.expire(ctx)
		if sinceLive += pace; sinceLive >= livePace {
			sinceLive = 0
			r.wakeLiveTasks(ctx)
			r.wakeLiveJobs(ctx)
		}
		if sinceTidy += pace; sinceTidy >= tidyPace {
			sinceTidy = 0
			r.tidy(ctx)
		}
	}
}

func (r *Reactions) wakeLiveJobs(ctx context.Context) {
	live, err := r.deps.Jobs.Live(ctx)
	if err != nil && ctx.Err() == nil {
		r.deps.Log.Error("unfinished jobs cannot be listed", "error", err)
	}
	for _, l := range live {
		r.keepers.wake(domain.Stream(l.ID))
	}
}

// expire writes down the end of handles whose time has come. One that cannot be
// ended is said and passed over; a log that takes nothing ends the sweep.
func (r *Reactions) expire(ctx context.Context) {
	for range expiryPages {
		now := r.deps.Clock.Now()
		due, err := r.deps.Tasks.Due(ctx, now, expiryPage)
		if err != nil {
			r.deps.Log.Warn("due tasks cannot be listed", "error", err)
			return
		}
		for _, l := range due {
			err := r.deps.Commands.ExpireTask(ctx, l.ID, now)
			if ctx.Err() != nil {
				return
			}
			if err != nil {
				r.deps.Log.Warn("a task cannot be expired now", "error", err)
			}
			if errors.Is(err, eventstore.ErrRefused) || errors.Is(err, eventstore.ErrReadOnly) || errors.Is(err, eventstore.ErrClosed) {
				return
			}
		}
		if len(due) < expiryPage {
			return
		}
		sleep(ctx, viewPause) // until the table knows
	}
}

// tidy removes the workspaces of jobs that ended long ago. A later follow-up
// clones again.
func (r *Reactions) tidy(ctx context.Context) {
	kept, err := r.deps.Workspaces.Kept(ctx)
	if err != nil {
		r.deps.Log.Warn("workspaces cannot be listed", "error", err)
		return
	}
	for _, id := range kept {
		s, err := r.deps.Folds.Job(ctx, id)
		if err != nil || !s.Exists() || !s.Status().Final() {
			continue
		}
		if r.deps.Clock.Now().Sub(s.FinishedAt) > r.deps.Limits.Keep {
			if err := r.deps.Workspaces.Remove(ctx, id); err != nil {
				r.deps.Log.Warn("a workspace cannot be removed", "job", id, "error", err)
			}
		}
	}
}

// reported passes an error on, and writes it down once it keeps happening.
func (r *Reactions) reported(ctx context.Context, stream domain.Stream, step string, err error) error {
	if err == nil || ctx.Err() != nil {
		return err
	}
	if r.keepers.failures(stream) == reportAfter {
		subject := string(stream)
		if stream.Category() == taskCategory {
			subject = taskCategory // a handle is the client's to show
		}
		f := audit.ReactionFailed{Subject: subject, Step: step, Reason: err.Error()}
		if err := r.deps.Commands.RecordFailure(ctx, f); err != nil {
			r.deps.Log.Warn("a failure cannot be recorded", "error", err)
		}
	}
	return err
}
