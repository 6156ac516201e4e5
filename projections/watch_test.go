package projections_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"hangar/domain"
	"hangar/projections"
)

func has(text string) func(*said) bool {
	return func(s *said) bool { return strings.Contains(s.texts, text) }
}

// awaiting begins to wait for a text, and gives what came of it.
func awaiting(ctx context.Context, f *projections.Folds, stream domain.Stream, text string) <-chan awaited {
	got := make(chan awaited, 1)
	go func() {
		s, err := projections.Await(ctx, f, saids, stream, has(text))
		got <- awaited{s, err}
	}()
	synctest.Wait()
	return got
}

type awaited struct {
	state *said
	err   error
}

func (a awaited) String() string {
	switch {
	case a.err != nil && a.state == nil:
		return a.err.Error()
	case a.err != nil:
		return a.state.texts + a.err.Error()
	default:
		return strings.TrimSpace(a.state.texts)
	}
}

func nobodyWaits(t *testing.T, f *projections.Folds) {
	t.Helper()
	if _, _, watches := f.Held(); watches != 0 {
		t.Errorf("%d streams are watched by nobody", watches)
	}
}

func TestAwaitGivesWhatIsThere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := newScribe()
		f := projections.NewFolds(log, 1<<20)
		log.store("job-a", "1")
		check(t, "at once", (<-awaiting(t.Context(), f, "job-a", "1")).String(), "1")
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		check(t, "with its time over", (<-awaiting(ended, f, "job-a", "1")).String(), "1")
		nobodyWaits(t, f)
	})
}

// Everybody who waits is woken, also for a stream that did not exist, and by a
// change that its state was not ready for.
func TestAwaitIsWokenByWhatItWaitsFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := newScribe()
		f := projections.NewFolds(log, 1<<20)
		one, two, other := awaiting(t.Context(), f, "job-a", "2"), awaiting(t.Context(), f, "job-a", "3"), awaiting(t.Context(), f, "job-b", "2")
		f.Observe(log.store("job-a", "1"))
		synctest.Wait()
		select {
		case got := <-one:
			t.Errorf("woken by another change it has %v", got)
		default:
		}
		f.Observe(log.store("job-a", "2"))
		check(t, "the first", (<-one).String(), "1 2")
		f.Observe(log.store("job-a", "3", "4"))
		check(t, "the second", (<-two).String(), "1 2 3 4")
		f.Observe(log.store("job-b", "2"))
		check(t, "the other", (<-other).String(), "2")
		nobodyWaits(t, f)
	})
}

// An entry that is dropped under a waiter's feet wakes it like any change.
func TestAwaitOutlivesWhatIsForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := newScribe()
		f := projections.NewFolds(log, 1<<20)
		log.store("job-a", "1")
		got := awaiting(t.Context(), f, "job-a", "3")
		f.Forget()
		log.store("job-a", "2") // a gap, where an entry is held
		f.Observe(log.store("job-a", "3"))
		check(t, "after it", (<-got).String(), "1 2 3")
		nobodyWaits(t, f)
	})
}

func TestAwaitEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := newScribe()
		f := projections.NewFolds(log, 1<<20)
		log.store("job-a", "1")
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		got := awaiting(ctx, f, "job-a", "9")
		f.Observe(log.store("job-a", "2"))
		began := time.Now()
		a := <-got
		if !errors.Is(a.err, context.DeadlineExceeded) || a.state == nil || a.state.texts != "1 2 " || time.Since(began) != time.Minute {
			t.Errorf("after %v it gives %v", time.Since(began), a)
		}
		nobodyWaits(t, f)
	})
}

// With its time over in the middle of a read, it gives the newest state that it
// has seen.
func TestAwaitEndsInTheMiddleOfARead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := newScribe()
		f := projections.NewFolds(log, 1<<20)
		log.store("job-a", "1")
		ctx, cancel := context.WithCancel(t.Context())
		got := awaiting(ctx, f, "job-a", "9")
		log.before = func(int) error { <-ctx.Done(); return ctx.Err() }
		log.store("job-a", "2")
		f.Observe(log.store("job-a", "3")) // a gap: it reads again
		synctest.Wait()
		cancel()
		check(t, "then", (<-got).String(), "1 context canceled")
		first := awaiting(ctx, f, "job-b", "9")
		check(t, "with nothing seen", (<-first).String(), "context canceled")
		nobodyWaits(t, f)
	})
}

func TestAwaitTellsErrorsOfTheLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := newScribe()
		f := projections.NewFolds(log, 1<<20)
		got := awaiting(t.Context(), f, "job-a", "9")
		told := log.store("job-a", "boom")
		f.Observe(told)
		if a := <-got; domain.CodeOf(a.err) != domain.Unavailable || a.state != nil {
			t.Errorf("it gives %v", a)
		}
		nobodyWaits(t, f)
	})
}
