package eventstoretest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"hangar/eventstore"
)

func deadContext(f *fixture) {
	s := f.open(nil)
	ctx, cancel := context.WithCancel(f.ctx)
	cancel()
	records, err := s.Append(ctx, "job-a", eventstore.NoStream, draft("a0"))
	if !errors.Is(err, eventstore.ErrRefused) || !errors.Is(err, context.Canceled) {
		f.Errorf("%v, %v", records, err)
	}
	f.append(s, "job-b", eventstore.NoStream, draft("b0"))
	if got := f.stream(s, "job-a"); len(got) != 0 {
		f.Errorf("%d records are stored", len(got))
	}
}

// answer is what an append gave.
type answer struct {
	records []eventstore.Record
	err     error
}

// start begins an append and returns when it is on its way.
func (f *fixture) start(ctx context.Context, s eventstore.Store, stream eventstore.Stream, head eventstore.Head, drafts ...eventstore.Draft) <-chan answer {
	f.Helper()
	w := newWaiting(ctx)
	done := make(chan answer, 1)
	go func() {
		records, err := s.Append(w, stream, head, drafts...)
		done <- answer{records, err}
	}()
	select {
	case <-w.begun:
	case a := <-done:
		done <- a
	case <-f.ctx.Done():
		f.Fatal("the append neither waits nor returns")
	}
	return done
}

// stall starts an append and returns when the log stands still in its observer.
func (f *fixture) stall(s eventstore.Store, g *gate) <-chan answer {
	f.Helper()
	done := make(chan answer, 1)
	go func() {
		records, err := s.Append(f.ctx, "job-first", eventstore.NoStream, draft("first"))
		done <- answer{records, err}
	}()
	select {
	case <-g.reached:
	case <-f.ctx.Done():
		f.Fatal("the observer is not called")
	}
	return done
}

func (f *fixture) await(done <-chan answer) answer {
	f.Helper()
	select {
	case a := <-done:
		return a
	case <-f.ctx.Done():
		f.Fatal("the append does not return")
		return answer{}
	}
}

func hangUp(f *fixture) {
	g := newGate()
	s := f.open(g.observe)
	first := f.stall(s, g)

	ctx, cancel := context.WithCancel(f.ctx)
	before := f.start(f.ctx, s, "job-b", eventstore.NoStream, draft("b0"))
	left := f.start(ctx, s, "job-a", eventstore.NoStream, drafts("a", 2)...)
	after := f.start(f.ctx, s, "job-c", eventstore.NoStream, draft("c0"))
	cancel()
	if a := f.await(left); !errors.Is(a.err, eventstore.ErrUnknown) || !errors.Is(a.err, context.Canceled) {
		f.Errorf("the caller that hung up got %v, %v", a.records, a.err)
	}
	close(g.pass)
	for name, done := range map[string]<-chan answer{"first": first, "before": before, "after": after} {
		if a := f.await(done); a.err != nil {
			f.Errorf("%s: %v", name, a.err)
		}
	}
	// The write goes on: nothing was in front of the last answer but it.
	got := f.stream(s, "job-a")
	if len(got) != 2 {
		f.Fatalf("%d records are stored, want 2", len(got))
	}
	f.verify(got)
	again := f.append(s, "job-a", eventstore.NoStream, drafts("a", 2)...)
	if !slices.Equal(got, again) {
		f.Error("a retry does not give the records that are stored")
	}
}

func conflictsInGroup(f *fixture) {
	g := newGate()
	s := f.open(g.observe)
	first := f.stall(s, g)

	const rivals, others = 8, 8
	var contested, twins, free []<-chan answer
	for i := range rivals {
		contested = append(contested, f.start(f.ctx, s, "job-contested", eventstore.NoStream, drafts(fmt.Sprintf("rival%d", i), 2)...))
		twins = append(twins, f.start(f.ctx, s, "job-twins", eventstore.NoStream, drafts("twin", 3)...))
	}
	for i := range others {
		free = append(free, f.start(f.ctx, s, eventstore.Stream(fmt.Sprintf("job-free%d", i)), eventstore.NoStream, draft("x")))
	}
	close(g.pass)

	var won []eventstore.Record
	for i, done := range contested {
		a := f.await(done)
		var conflict *eventstore.ConflictError
		switch {
		case a.err == nil && won == nil:
			won = a.records
		case !errors.As(a.err, &conflict):
			f.Errorf("rival %d: %v, %v", i, a.records, a.err)
		case conflict.Actual != 1 || conflict.Expected != eventstore.NoStream:
			f.Errorf("rival %d: %+v", i, conflict)
		}
	}
	if got := f.stream(s, "job-contested"); len(won) != 2 || !slices.Equal(got, won) {
		f.Errorf("%d records are stored, the winner has %d", len(got), len(won))
	}
	stored := f.stream(s, "job-twins")
	for i, done := range twins {
		if a := f.await(done); a.err != nil || len(a.records) != 3 || !slices.Equal(a.records, stored) {
			f.Errorf("twin %d: %v, %v", i, a.records, a.err)
		}
	}
	for i, done := range append(free, first) {
		if a := f.await(done); a.err != nil {
			f.Errorf("append %d that has no rival: %v", i, a.err)
		}
	}
}

func observerOrder(f *fixture) {
	var mu sync.Mutex
	var seen []eventstore.Record
	known := map[string]bool{}
	var s eventstore.Store
	var opened atomic.Bool
	s = f.open(func(group []eventstore.Record) {
		if opened.Load() { // an observer may read, and finds the group there
			last := group[len(group)-1]
			if got, err := s.ReadStream(f.ctx, last.Stream, last.Revision, 1); err != nil || len(got) != 1 || got[0] != last {
				f.Errorf("a read in the observer: %v, %v", got, err)
			}
		}
		mu.Lock()
		defer mu.Unlock()
		seen = append(seen, group...)
		for _, r := range group {
			known[r.ID] = true
		}
	})
	opened.Store(true)

	f.writers(16, 20, s, func(records []eventstore.Record) {
		mu.Lock()
		defer mu.Unlock()
		for _, r := range records {
			if !known[r.ID] {
				f.Errorf("the append of %s is answered before it is observed", r.ID)
			}
		}
	})
	head := eventstore.HeadOf(f.stream(s, "job-w0"))
	retried := f.stream(s, "job-w0")[:1]
	f.append(s, "job-w0", eventstore.NoStream, eventstore.Draft{
		ID: retried[0].ID, Type: "X", Version: 1, Time: retried[0].Time, Data: "{}", Meta: "{}",
	})
	if _, err := s.Append(f.ctx, "job-w0", eventstore.NoStream, draft("late")); err == nil {
		f.Error("no conflict")
	}
	f.append(s, "job-w0", head, draft("last"))
	if all := f.all(s); !slices.Equal(seen, all) {
		f.Errorf("the observer saw %d records, the log holds %d, or in another order", len(seen), len(all))
	}
}

func observerPanic(f *fixture) {
	calls := 0
	s := f.open(func([]eventstore.Record) {
		calls++
		panic("the observer's own business")
	})
	first := f.append(s, "job-a", eventstore.NoStream, draft("a0"))
	f.append(s, "job-a", eventstore.HeadOf(first), draft("a1"))
	if got := f.stream(s, "job-a"); len(got) != 2 || calls != 2 {
		f.Errorf("%d records are stored after %d calls", len(got), calls)
	}
	if err := s.Wait(f.ctx, first[0].Position); err != nil {
		f.Errorf("the tail stands still: %v", err)
	}
}

// writers lets a number of writers append a number of times each, one to three
// events at a time to a stream of its own (job-w0, ...), and hands each answer to
// check.
func (f *fixture) writers(writers, appends int, s eventstore.Store, check func([]eventstore.Record)) {
	f.Helper()
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			stream := eventstore.Stream(fmt.Sprintf("job-w%d", w))
			head := eventstore.NoStream
			for i := range appends {
				records, err := s.Append(f.ctx, stream, head, drafts(fmt.Sprintf("%s/%d", stream, i), 1+(w+i)%3)...)
				if err != nil {
					f.Errorf("%s: %v", stream, err)
					return
				}
				head = eventstore.HeadOf(records)
				check(records)
			}
		})
	}
	wg.Wait()
}
