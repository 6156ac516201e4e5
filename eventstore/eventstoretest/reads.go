package eventstoretest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"hangar/eventstore"
)

// fill appends n events to a stream and returns them.
func (f *fixture) fill(s eventstore.Store, stream eventstore.Stream, n int) []eventstore.Record {
	f.Helper()
	var records []eventstore.Record
	for len(records) < n {
		batch := drafts(fmt.Sprintf("%s/%d", stream, len(records)), min(n-len(records), eventstore.MaxBatch))
		records = append(records, f.append(s, stream, eventstore.HeadOf(records), batch...)...)
	}
	return records
}

func streamPages(f *fixture) {
	s := f.open(nil)
	f.fill(s, "job-before", 3)
	records := f.fill(s, "job-a", 10)
	f.fill(s, "job-after", 3)
	n := len(records)
	for from := -1; from <= n+1; from++ {
		for _, limit := range []int{-1, 0, 1, 3, n, n + 5} {
			start := min(max(from, 0), n)
			want := records[start:min(n, start+max(limit, 0))]
			got, err := s.ReadStream(f.ctx, "job-a", int64(from), limit)
			if err != nil || !slices.Equal(got, want) {
				f.Fatalf("%d from %d: %d records, want %d (%v)", limit, from, len(got), len(want), err)
			}
		}
	}
}

// longStream is more than an engine reads at once.
const longStream = 4500

func allPages(f *fixture) {
	s := f.open(nil)
	records := f.fill(s, "job-before", 100)
	long := f.fill(s, "job-long", longStream)
	records = append(records, long...)
	records = append(records, f.fill(s, "job-after", 100)...)
	for i := 1; i < len(records); i++ {
		if records[i].Position <= records[i-1].Position {
			f.Fatalf("position %d after %d", records[i].Position, records[i-1].Position)
		}
	}
	if got := f.all(s); !slices.Equal(got, records) {
		f.Fatalf("in one read: %d records, want %d, or others", len(got), len(records))
	}
	for _, limit := range []int{700, longStream} {
		var got []eventstore.Record
		var after eventstore.Position
		for {
			page, err := s.ReadAll(f.ctx, after, limit)
			if err != nil || len(page) > limit {
				f.Fatalf("%d records of at most %d: %v", len(page), limit, err)
			}
			if len(page) == 0 {
				break
			}
			got = append(got, page...)
			after = page[len(page)-1].Position
		}
		if !slices.Equal(got, records) {
			f.Errorf("in pages of %d: %d records, want %d, or others", limit, len(got), len(records))
		}
	}
	if got := f.stream(s, "job-long"); !slices.Equal(got, long) {
		f.Errorf("a long stream: %d records", len(got))
	}
	last := records[len(records)-1].Position
	if head, err := s.Head(f.ctx); head != last || err != nil {
		f.Errorf("head is %d, want %d (%v)", head, last, err)
	}
	for _, limit := range []int{-1, 0} {
		if got, err := s.ReadAll(f.ctx, 0, limit); len(got) != 0 || err != nil {
			f.Errorf("a limit of %d: %d records, %v", limit, len(got), err)
		}
	}
	if got, err := s.ReadAll(f.ctx, ^eventstore.Position(0), 10); len(got) != 0 || err != nil {
		f.Errorf("after the last position there can be: %d records, %v", len(got), err)
	}
}

func tail(f *fixture) {
	s := f.open(nil)
	const writers, appends = 64, 12
	ctx, stop := context.WithCancel(f.ctx)
	defer stop()
	tailed := make(chan []eventstore.Record, 1)
	go func() { tailed <- follow(ctx, f, s) }()

	var mu sync.Mutex
	var acknowledged []eventstore.Record
	f.writers(writers, appends, s, func(records []eventstore.Record) {
		mu.Lock()
		defer mu.Unlock()
		acknowledged = append(acknowledged, records...)
	})
	last := f.append(s, "job-end", eventstore.NoStream, draft(endOfTail))
	acknowledged = append(acknowledged, last...)
	slices.SortFunc(acknowledged, func(a, b eventstore.Record) int {
		return int(a.Position) - int(b.Position)
	})
	got := <-tailed
	if !slices.Equal(got, acknowledged) {
		f.Errorf("the tail saw %d records of %d, or in another order", len(got), len(acknowledged))
	}
}

// endOfTail is the id of the record at which follow stops.
const endOfTail = "end of tail"

// follow reads the log as a tail does, until endOfTail.
func follow(ctx context.Context, f *fixture, s eventstore.Store) (seen []eventstore.Record) {
	var after eventstore.Position
	for {
		page, err := s.ReadAll(ctx, after, 100)
		if err == nil && len(page) == 0 {
			err = s.Wait(ctx, after)
		}
		if err != nil {
			f.Errorf("the tail at %d: %v", after, err)
			return seen
		}
		for _, r := range page {
			seen = append(seen, r)
			after = r.Position
			if r.ID == endOfTail {
				return seen
			}
		}
	}
}

// wait starts a Wait and returns when it waits, or has returned.
func (f *fixture) wait(ctx context.Context, s eventstore.Store, after eventstore.Position) <-chan error {
	f.Helper()
	w := newWaiting(ctx)
	done := make(chan error, 1)
	go func() { done <- s.Wait(w, after) }()
	select {
	case <-w.begun:
	case err := <-done:
		done <- err
	case <-f.ctx.Done():
		f.Fatal("the wait neither waits nor returns")
	}
	return done
}

func waits(f *fixture) {
	s := f.open(nil)
	early := f.wait(f.ctx, s, 0)
	select {
	case err := <-early:
		f.Fatalf("a wait on an empty log returned %v", err)
	default:
	}
	first := f.append(s, "job-a", eventstore.NoStream, draft("a0"))
	if err := <-early; err != nil {
		f.Errorf("woken with %v", err)
	}
	if err := s.Wait(f.ctx, 0); err != nil {
		f.Errorf("what is there already: %v", err)
	}

	ctx, cancel := context.WithCancel(f.ctx)
	given := f.wait(ctx, s, first[0].Position)
	cancel()
	if err := <-given; !errors.Is(err, context.Canceled) {
		f.Errorf("a cancelled wait returned %v", err)
	}
	last := f.wait(f.ctx, s, first[0].Position)
	if err := s.Close(); err != nil {
		f.Fatal(err)
	}
	if err := <-last; !errors.Is(err, eventstore.ErrClosed) {
		f.Errorf("the close ended a wait with %v", err)
	}
}

func cancelledReads(f *fixture) {
	s := f.open(nil)
	f.fill(s, "job-a", 3)
	ctx, cancel := context.WithCancel(f.ctx)
	cancel()
	if got, err := s.ReadStream(ctx, "job-a", 0, 10); !errors.Is(err, context.Canceled) {
		f.Errorf("ReadStream: %v, %v", got, err)
	}
	if got, err := s.ReadAll(ctx, 0, 10); !errors.Is(err, context.Canceled) {
		f.Errorf("ReadAll: %v, %v", got, err)
	}
	if err := s.Wait(ctx, 3); !errors.Is(err, context.Canceled) {
		f.Errorf("Wait: %v", err)
	}
	if got := f.stream(s, "job-a"); len(got) != 3 {
		f.Errorf("afterwards %d records are read", len(got))
	}
}

func closed(f *fixture) {
	s := f.open(nil)
	f.fill(s, "job-a", 3)
	for range 2 {
		if err := s.Close(); err != nil {
			f.Fatal(err)
		}
	}
	calls := map[string]func() error{
		"Append": func() error {
			_, err := s.Append(f.ctx, "job-b", eventstore.NoStream, draft("b0"))
			return err
		},
		"ReadStream": func() error { _, err := s.ReadStream(f.ctx, "job-a", 0, 1); return err },
		"ReadAll":    func() error { _, err := s.ReadAll(f.ctx, 0, 1); return err },
		"Head":       func() error { _, err := s.Head(f.ctx); return err },
		"Wait":       func() error { return s.Wait(f.ctx, 0) },
	}
	for name, call := range calls {
		if err := call(); !errors.Is(err, eventstore.ErrClosed) {
			f.Errorf("%s: %v", name, err)
		}
	}
	if s.ID() == "" {
		f.Error("no id any more")
	}
}
