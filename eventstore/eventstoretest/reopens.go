package eventstoretest

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"hangar/eventstore"
	"hangar/eventstore/chain"
)

func closeWaits(f *fixture) {
	g := newGate()
	s := f.engine.Open(f.T, g.observe)
	first := f.stall(s, g)
	var accepted []<-chan answer
	for i := range 8 {
		accepted = append(accepted, f.start(f.ctx, s, eventstore.Stream(fmt.Sprintf("job-%d", i)), eventstore.NoStream, draft("x")))
	}
	closed := make(chan error, 1)
	go func() { closed <- s.Close() }()
	close(g.pass)
	if err := <-closed; err != nil {
		f.Error(err)
	}
	// What the log holds now is all there will be.
	if got := f.all(f.open(nil)); len(got) != len(accepted)+1 {
		f.Errorf("%d records are stored, %d appends were accepted", len(got), len(accepted)+1)
	}
	for i, done := range append(accepted, first) {
		if a := f.await(done); a.err != nil {
			f.Errorf("append %d, accepted before the close: %v", i, a.err)
		}
	}
}

func closeUnderLoad(f *fixture) {
	s := f.engine.Open(f.T, nil)
	const writers = 16
	var mu sync.Mutex
	acknowledged := map[eventstore.Stream]int64{}
	var wg sync.WaitGroup
	var answers atomic.Int64
	busy := make(chan struct{})
	for w := range writers {
		wg.Go(func() {
			stream := eventstore.Stream(fmt.Sprintf("job-w%d", w))
			head := eventstore.NoStream
			for i := 0; ; i++ {
				records, err := s.Append(f.ctx, stream, head, drafts(fmt.Sprintf("%s/%d", stream, i), 2)...)
				if err != nil {
					if !errors.Is(err, eventstore.ErrClosed) {
						f.Errorf("%s: %v", stream, err)
					}
					return
				}
				head = eventstore.HeadOf(records)
				mu.Lock()
				acknowledged[stream] = head.Revision
				mu.Unlock()
				if answers.Add(1) == 4*writers {
					close(busy)
				}
			}
		})
	}
	<-busy
	if err := s.Close(); err != nil {
		f.Error(err)
	}
	wg.Wait()

	s = f.open(nil)
	for stream, last := range acknowledged {
		records := f.stream(s, stream)
		if got := eventstore.HeadOf(records).Revision; got != last {
			f.Errorf("%s ends at revision %d, acknowledged is %d", stream, got, last)
		}
		f.verify(records)
	}
}

func reopen(f *fixture) {
	s := f.engine.Open(f.T, nil)
	id := s.ID()
	f.fill(s, "job-a", 3)
	f.fill(s, "job-b", 2)
	want := f.all(s)
	if err := s.Close(); err != nil {
		f.Fatal(err)
	}
	var seen []eventstore.Record
	s = f.open(func(group []eventstore.Record) { seen = append(seen, group...) })
	if s.ID() != id {
		f.Errorf("the log's id was %s and is %s", id, s.ID())
	}
	if got := f.all(s); !slices.Equal(got, want) {
		f.Error(cmp.Diff(want, got))
	}
	if head, err := s.Head(f.ctx); err != nil || head != want[len(want)-1].Position {
		f.Errorf("head is %d, %v", head, err)
	}
	if err := s.Wait(f.ctx, want[0].Position); err != nil {
		f.Errorf("what is there already: %v", err)
	}
	a := f.stream(s, "job-a")
	if got := f.append(s, "job-a", eventstore.NoStream, drafts("job-a/0", 3)...); !slices.Equal(got, a) {
		f.Errorf("a retry after the restart:\n%s", cmp.Diff(a, got))
	}
	next := f.append(s, "job-a", eventstore.HeadOf(a), draft("next"))
	if !slices.Equal(seen, next) {
		f.Errorf("the observer was told of %d records", len(seen))
	}
	f.verify(f.stream(s, "job-a"))
	if next[0].Position <= want[len(want)-1].Position {
		f.Errorf("position %d is given a second time", next[0].Position)
	}
}

func beside(f *fixture) {
	shared, ok := f.engine.(Shared)
	if !ok {
		f.Fatal("the engine is not Shared")
	}
	s := f.open(nil)
	before := f.fill(s, "job-a", 3)
	other := shared.OpenBeside(f.T)
	f.Cleanup(func() {
		if err := other.Close(); err != nil {
			f.Error(err)
		}
	})
	if other.ID() != s.ID() {
		f.Errorf("one log has the ids %s and %s", s.ID(), other.ID())
	}
	if got := f.all(other); !slices.Equal(got, before) {
		f.Error(cmp.Diff(before, got))
	}
	last := before[len(before)-1].Position
	for i := range 3 {
		woken := f.wait(f.ctx, other, last)
		written := f.append(s, "job-b", eventstore.HeadOf(f.stream(s, "job-b")), draft(fmt.Sprintf("b%d", i)))
		if err := <-woken; err != nil {
			f.Fatalf("the second opening waits: %v", err)
		}
		got, err := other.ReadAll(f.ctx, last, 10)
		if err != nil || !slices.Equal(got, written) {
			f.Fatalf("the second opening reads %v, %v", got, err)
		}
		last = written[0].Position
		if head, err := other.Head(f.ctx); head != last || err != nil {
			f.Errorf("the second opening ends at %d, want %d (%v)", head, last, err)
		}
	}
}

// property runs random appends, right and wrong ones, new and repeated ones, next
// to a model, and compares all that can be read.
func property(f *fixture) {
	s := f.engine.Open(f.T, nil)
	run := 0
	rapid.Check(f.T, func(t *rapid.T) {
		run++
		start, err := s.Head(f.ctx)
		if err != nil {
			t.Fatal(err)
		}
		m := &model{f: f, store: s, run: run, start: start, streams: map[eventstore.Stream][]eventstore.Record{}}
		t.Repeat(map[string]func(*rapid.T){
			"append": m.append,
			"stale":  m.stale,
			"repeat": m.repeat,
			"reopen": m.reopen,
			"":       m.checkNew,
		})
		s = m.store
		m.check(t)
	})
	if err := s.Close(); err != nil {
		f.Error(err)
	}
}

// model is what the log ought to hold since the start of a run.
type model struct {
	f       *fixture
	store   eventstore.Store
	run     int
	start   eventstore.Position
	next    int
	checked int // how many of all checkNew has seen
	all     []eventstore.Record
	streams map[eventstore.Stream][]eventstore.Record
	batches [][]eventstore.Record
}

func (m *model) name(t *rapid.T) eventstore.Stream {
	return eventstore.Stream(fmt.Sprintf("job-run%d.%d", m.run, rapid.IntRange(0, 3).Draw(t, "stream")))
}

func (m *model) drafts(t *rapid.T) []eventstore.Draft {
	m.next++
	return drafts(fmt.Sprintf("%d/%d", m.run, m.next), rapid.IntRange(1, 4).Draw(t, "events"))
}

func (m *model) append(t *rapid.T) {
	name := m.name(t)
	records, err := m.store.Append(m.f.ctx, name, eventstore.HeadOf(m.streams[name]), m.drafts(t)...)
	if err != nil {
		t.Fatal(err)
	}
	m.all = append(m.all, records...)
	m.streams[name] = append(m.streams[name], records...)
	m.batches = append(m.batches, records)
}

func (m *model) stale(t *rapid.T) {
	name := m.name(t)
	stream := m.streams[name]
	if len(stream) == 0 {
		t.Skip("no stream")
	}
	head := eventstore.HeadOf(stream[:rapid.IntRange(0, len(stream)-1).Draw(t, "head")])
	var conflict *eventstore.ConflictError
	if got, err := m.store.Append(m.f.ctx, name, head, m.drafts(t)...); !errors.As(err, &conflict) || conflict.Actual != int64(len(stream)-1) {
		t.Fatalf("%v, %v", got, err)
	}
}

func (m *model) repeat(t *rapid.T) {
	if len(m.batches) == 0 {
		t.Skip("nothing to repeat")
	}
	batch := rapid.SampledFrom(m.batches).Draw(t, "batch")
	again := make([]eventstore.Draft, len(batch))
	for i, r := range batch {
		again[i] = draft(r.ID)
	}
	head := eventstore.Head{Revision: batch[0].Revision - 1, Hash: batch[0].Prev}
	if got, err := m.store.Append(m.f.ctx, batch[0].Stream, head, again...); err != nil || !slices.Equal(got, batch) {
		t.Fatalf("%v, %v", got, err)
	}
}

func (m *model) reopen(t *rapid.T) {
	if rapid.IntRange(0, 19).Draw(t, "often") > 0 {
		t.Skip("seldom")
	}
	if err := m.store.Close(); err != nil {
		t.Fatal(err)
	}
	m.store = m.f.engine.Open(m.f.T, nil)
}

// checkNew looks at the end of the order of all.
func (m *model) checkNew(t *rapid.T) {
	after := m.start
	if m.checked > 0 {
		after = m.all[m.checked-1].Position
	}
	got, err := m.store.ReadAll(m.f.ctx, after, 1000)
	if want := m.all[m.checked:]; err != nil || !slices.Equal(got, want) {
		t.Fatalf("the end of the order of all: %v\n%s", err, cmp.Diff(want, got))
	}
	m.checked = len(m.all)
}

// check looks at everything.
func (m *model) check(t *rapid.T) {
	got, err := m.store.ReadAll(m.f.ctx, m.start, 1<<20)
	if err != nil || !slices.Equal(got, m.all) {
		t.Fatalf("the order of all: %v\n%s", err, cmp.Diff(m.all, got))
	}
	for name, want := range m.streams {
		got, err := m.store.ReadStream(m.f.ctx, name, 0, 1<<20)
		if err != nil || !slices.Equal(got, want) {
			t.Fatalf("%s: %v\n%s", name, err, cmp.Diff(want, got))
		}
		head := eventstore.NoStream
		for _, r := range got {
			if err := chain.Verify(head, r); err != nil {
				t.Fatal(err)
			}
			head = eventstore.Head{Revision: r.Revision, Hash: r.Hash}
		}
	}
}
