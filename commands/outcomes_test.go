package commands_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"hangar/commands"
	"hangar/domain"
	"hangar/domain/job"
	"hangar/domain/turn"
	"hangar/eventstore"
)

type spoiler = func(ctx context.Context, call int64, do func() ([]eventstore.Record, error)) ([]eventstore.Record, error)

// verbs are the two ways a command goes: one makes its stream, one reads it.
var verbs = map[string]func(b *bench, ctx context.Context, id domain.JobID) (commands.JobResult, error){
	"submit": func(b *bench, ctx context.Context, _ domain.JobID) (commands.JobResult, error) {
		return b.SubmitJob(ctx, origin("second"), b.submission("hash-2"))
	},
	"follow up": func(b *bench, ctx context.Context, id domain.JobID) (commands.JobResult, error) {
		return b.FollowUpJob(ctx, origin("second"), commands.FollowUpJob{Job: id, FollowUp: job.FollowUp{Prompt: "more"}}, nil)
	},
}

// each runs a case for each verb, in a bubble, on a log that holds a job.
func each(t *testing.T, f func(t *testing.T, b *bench, do func(context.Context) (commands.JobResult, error))) {
	for name, verb := range verbs {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t)
				s := b.submit()
				b.store.calls.Store(0)
				f(t, b, func(ctx context.Context) (commands.JobResult, error) { return verb(b, ctx, s.ID) })
			})
		})
	}
}

// fails gives a spoiler that fails the first n appends, written all the same or
// not.
func fails(n int64, with error, written bool) spoiler {
	return func(_ context.Context, call int64, do func() ([]eventstore.Record, error)) ([]eventstore.Record, error) {
		if call > n {
			return do()
		}
		if written {
			if _, err := do(); err != nil {
				return nil, err
			}
		}
		return nil, fmt.Errorf("%w: connection reset", with)
	}
}

// An append whose outcome is not known is looked for: found, it is the command's
// own; not found, it is made.
func TestAnUnknownOutcomeIsFoundOut(t *testing.T) {
	for _, written := range []bool{true, false} {
		each(t, func(t *testing.T, b *bench, do func(context.Context) (commands.JobResult, error)) {
			b.store.spoil = fails(1, eventstore.ErrUnknown, written)
			r, err := do(t.Context())
			if err != nil || r.Repeated {
				t.Fatalf("written: %t: repeated: %t, %v", written, r.Repeated, err)
			}
			records := b.records(domain.Stream(r.Job.ID))
			if n := count(b.types(domain.Stream(r.Job.ID)), "TurnQueued"); r.Job.Revision != int64(len(records)-1) || n != len(r.Job.Turns) {
				t.Errorf("written: %t: the job is at %d with %d turns, the log at %d with %d", written, r.Job.Revision, len(r.Job.Turns), len(records)-1, n)
			}
		})
	}
}

func TestAnOutcomeThatStaysUnknownIsTold(t *testing.T) {
	each(t, func(t *testing.T, b *bench, do func(context.Context) (commands.JobResult, error)) {
		b.store.spoil = fails(1<<40, eventstore.ErrUnknown, false)
		began := time.Now()
		_, err := do(t.Context())
		is(t, "no outcome", err, domain.Unavailable, "not available")
		if !errors.Is(err, eventstore.ErrUnknown) {
			t.Errorf("its cause is %v", errors.Unwrap(err))
		}
		if strings.Contains(err.Error(), "connection reset") {
			t.Errorf("the caller is told of internals: %v", err)
		}
		if took := time.Since(began); took != 15*time.Second {
			t.Errorf("it was given up after %v", took)
		}
		if n := b.store.calls.Load(); n < 100 || n > 1000 {
			t.Errorf("it was tried %d times in 15 s", n)
		}
	})
}

func TestARefusedAppendIsUnavailableAndDoesNothing(t *testing.T) {
	for _, cause := range []error{eventstore.ErrRefused, eventstore.ErrReadOnly, eventstore.ErrClosed} {
		each(t, func(t *testing.T, b *bench, do func(context.Context) (commands.JobResult, error)) {
			before := b.all()
			b.store.spoil = fails(1, cause, false)
			_, err := do(t.Context())
			is(t, "refused", err, domain.Unavailable, "try again later")
			if !errors.Is(err, cause) || strings.Contains(err.Error(), "connection reset") {
				t.Errorf("it says %v", err)
			}
			if n := b.store.calls.Load(); n != 1 || b.all() != before {
				t.Errorf("after a refusal it tried %d times", n)
			}
			if _, err := do(t.Context()); err != nil { // the same call may succeed later
				t.Errorf("later it says %v", err)
			}
		})
	}
}

// A caller that hangs up in mid-append leaves a command that is done all the same,
// or one that was never begun; here, done.
func TestACallerThatHangsUpLeavesItDone(t *testing.T) {
	each(t, func(t *testing.T, b *bench, do func(context.Context) (commands.JobResult, error)) {
		ctx, hangUp := context.WithCancel(t.Context())
		b.store.spoil = func(ctx context.Context, _ int64, do func() ([]eventstore.Record, error)) ([]eventstore.Record, error) {
			hangUp()
			if err := ctx.Err(); err != nil {
				t.Errorf("the append was given up with its caller: %v", err)
			}
			if deadline, ok := ctx.Deadline(); !ok || time.Until(deadline) != 15*time.Second {
				t.Errorf("the append has %v", time.Until(deadline))
			}
			return do()
		}
		r, err := do(ctx)
		if err != nil || ctx.Err() == nil {
			t.Fatal(err)
		}
		if n := len(b.records(domain.Stream(r.Job.ID))); int64(n-1) != r.Job.Revision {
			t.Errorf("the job is at %d, the log at %d", r.Job.Revision, n-1)
		}
	})
}

// Somebody else is faster every time but the last: the command decides again on
// what it finds, and its answer is of the newest state.
func TestALostRaceIsRunAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		s := b.submit()
		b.store.calls.Store(0)
		racing := false
		b.store.spoil = func(_ context.Context, _ int64, do func() ([]eventstore.Record, error)) ([]eventstore.Record, error) {
			if !racing && len(b.records(domain.Stream(s.ID))) < 6 {
				racing = true
				if _, err := b.FollowUpJob(t.Context(), origin(fmt.Sprint("other", b.store.calls.Load())), commands.FollowUpJob{Job: s.ID, FollowUp: job.FollowUp{Prompt: "faster"}}, nil); err != nil {
					t.Error(err)
				}
				racing = false
			}
			return do()
		}
		r, err := b.FollowUpJob(t.Context(), origin("mine"), commands.FollowUpJob{Job: s.ID, FollowUp: job.FollowUp{Prompt: "mine"}}, nil)
		if err != nil || r.Repeated || len(r.Job.Turns) != 4 || r.Job.Prompt(4).Text != "mine" {
			t.Errorf("it gives %d turns, %v", len(r.Job.Turns), err)
		}
	})
}

// Another command that empties a race of its reason is told as it stands.
func TestALostRaceMayRefuse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		s := b.submit()
		b.store.spoil = func(_ context.Context, call int64, do func() ([]eventstore.Record, error)) ([]eventstore.Record, error) {
			if call == 2 {
				if _, err := b.CancelJob(t.Context(), origin("cancel"), s.ID, "", nil); err != nil {
					t.Error(err)
				}
			}
			return do()
		}
		_, err := b.FollowUpJob(t.Context(), origin("mine"), commands.FollowUpJob{Job: s.ID, FollowUp: job.FollowUp{Prompt: "mine"}}, nil)
		is(t, "a follow-up of what was cancelled meanwhile", err, domain.Conflict, "being cancelled")
		if got := b.types(domain.Stream(s.ID)); got != "JobSubmitted TurnQueued JobCancelRequested" {
			t.Errorf("the log has %s", got)
		}
	})
}

func TestPermitIsAskedOfTheNewestState(t *testing.T) {
	b := newBench(t)
	s := b.submit()
	denied := job.Unknown()
	_, err := b.FollowUpJob(t.Context(), origin("x"), commands.FollowUpJob{Job: s.ID, FollowUp: job.FollowUp{Prompt: "x"}}, func(*job.State) error { return denied })
	is(t, "not permitted", err, domain.NotFound, "unknown job")
	_, err = b.CancelJob(t.Context(), origin("y"), "job-none", "", func(s *job.State) error {
		if s.Exists() {
			t.Error("a job that is not exists")
		}
		return nil
	})
	is(t, "a job that is not", err, domain.NotFound, "unknown job")
	if got := b.types(domain.Stream(s.ID)); got != "JobSubmitted TurnQueued" {
		t.Errorf("the log has %s", got)
	}
}

// A stream that holds what this version does not know is told by name; the log is
// left as it is.
func TestAStreamThatCannotBeFoldedIsTold(t *testing.T) {
	for typ, c := range map[string]struct {
		version int
		data    string
		code    domain.Code
		says    string
	}{
		"JobSailed":          {3, `{}`, domain.Unavailable, "event type JobSailed (version 3) is not known"},
		"JobStepChanged":     {9, `{}`, domain.Unavailable, "JobStepChanged is at version 9, and this version of hangar knows it up to 1"},
		"JobCancelRequested": {1, `{"reason":7}`, domain.Internal, "cannot be read"},
	} {
		b := newBench(t)
		s := b.submit()
		d := eventstore.Draft{ID: "foreign", Type: typ, Version: c.version, Time: "2026-05-01T12:00:00.000000Z", Data: c.data, Meta: "{}"}
		if _, err := b.store.Append(t.Context(), domain.Stream(s.ID), eventstore.Head{Revision: s.Revision, Hash: s.Hash}, d); err != nil {
			t.Fatal(err)
		}
		_, err := b.CancelJob(t.Context(), origin("x"), s.ID, "", nil)
		is(t, typ, err, c.code, c.says)
		if n := len(b.records(domain.Stream(s.ID))); n != 3 {
			t.Errorf("the log has %d records", n)
		}
	}
}

func TestWhatIsTooLargeIsRefusedByName(t *testing.T) {
	b := newBench(t)
	big := b.submission("h")
	big.Prompt = strings.Repeat("x", commands.MaxPromptBytes+1)
	_, err := b.SubmitJob(t.Context(), origin("a"), big)
	is(t, "a long prompt", err, domain.TooLarge, "prompt", "196609", "196608")
	big.Prompt = strings.Repeat("\"", commands.MaxPromptBytes) // twice as long once it is written down
	_, err = b.SubmitJob(t.Context(), origin("b"), big)
	is(t, "a prompt that is long in the log", err, domain.TooLarge, "JobSubmitted")
	s := b.submit()
	_, err = b.FollowUpJob(t.Context(), origin("c"), commands.FollowUpJob{Job: s.ID, FollowUp: job.FollowUp{Prompt: strings.Repeat("x", commands.MaxPromptBytes+1)}}, nil)
	is(t, "a long follow-up", err, domain.TooLarge, "prompt")
}

// An end is recorded in any case: a result that does not fit is left out, and the
// turn says so.
func TestAnEndIsRecordedWithoutWhatDoesNotFit(t *testing.T) {
	for status, want := range map[turn.Status]turn.Status{turn.StatusCompleted: turn.StatusFailed, turn.StatusCancelled: turn.StatusCancelled} {
		b := newBench(t)
		s := b.submit()
		after, err := b.CloseTurn(t.Context(), s, job.Close{Ended: turn.Ended{Turn: 1, Status: status, Result: []byte(`"` + strings.Repeat("x", 300<<10) + `"`)}})
		if err != nil {
			t.Fatal(err)
		}
		end := after.Turn(1).End
		if end == nil || end.Status != want || end.Result != nil || !strings.Contains(end.Message, "the result was left out") || !strings.Contains(end.Message, "TurnEnded") {
			t.Errorf("closed %s it ended %+v", status, end)
		}
	}
}
