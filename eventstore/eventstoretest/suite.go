// Package eventstoretest is the one suite that every engine of the log passes. It
// tells what eventstore.Store promises, case by case, and an engine that passes it
// may take the place of any other.
package eventstoretest

import (
	"context"
	"fmt"
	"testing"
	"time"

	"hangar/eventstore"
	"hangar/eventstore/chain"
)

// Engine is one log of the engine under test, empty at first.
type Engine interface {
	// Open opens the log for writing, with an observer or nil. The suite closes
	// what it opens. An Open after a Close finds what was written before.
	Open(t testing.TB, observer eventstore.Observer) eventstore.Store
}

// Shared is an Engine whose log can be open more than once.
type Shared interface {
	Engine
	// OpenBeside opens the log a second time, at least for reading, while the
	// store that Open gave is open too.
	OpenBeside(t testing.TB) eventstore.Store
}

// Run runs every case in parallel, each on a log of its own that fresh makes. Cases
// that need a Shared engine run where fresh gives one.
func Run(t *testing.T, fresh func(t *testing.T) Engine) {
	cases := []struct {
		name string
		run  func(*fixture)
	}{
		{"an empty log", emptyLog},
		{"expectations are exact", exactExpectations},
		{"a log that went back is refused", divergedLog},
		{"a batch is written whole or not at all", atomicBatch},
		{"the same ids twice give the stored records", sameIDs},
		{"what is stored is what was given", exactTexts},
		{"wrong drafts are refused", wrongDrafts},
		{"data over the limit is refused by name", oversizedData},
		{"a context that is over writes nothing", deadContext},
		{"a caller that hangs up leaves its append", hangUp},
		{"conflicts inside one group", conflictsInGroup},
		{"the observer sees every group in order, before answers", observerOrder},
		{"the observer's panic is contained", observerPanic},
		{"pages of a stream", streamPages},
		{"pages of the order of all", allPages},
		{"a tail under 64 writers misses nothing", tail},
		{"waits", waits},
		{"reads end with their context", cancelledReads},
		{"a closed log refuses calls", closed},
		{"a close waits for what was accepted", closeWaits},
		{"a close loses nothing that was acknowledged", closeUnderLoad},
		{"a reopened log keeps all", reopen},
		{"any run of appends is consistent", property},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.run(newFixture(t, fresh(t)))
		})
	}
	if _, ok := fresh(t).(Shared); !ok {
		return
	}
	t.Run("a second opening sees what is written", func(t *testing.T) {
		t.Parallel()
		beside(newFixture(t, fresh(t)))
	})
}

// patience bounds every case of the suite, so that one which waits for ever fails
// with what it waits for. It is far more than any needs on a busy machine.
const patience = 3 * time.Minute

// fixture is what a case works with.
type fixture struct {
	*testing.T
	engine Engine
	ctx    context.Context
}

func newFixture(t *testing.T, e Engine) *fixture {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return &fixture{T: t, engine: e, ctx: ctx}
}

// open opens the log and closes it at the end of the case.
func (f *fixture) open(o eventstore.Observer) eventstore.Store {
	f.Helper()
	s := f.engine.Open(f.T, o)
	f.Cleanup(func() {
		if err := s.Close(); err != nil {
			f.Errorf("close: %v", err)
		}
	})
	return s
}

// append appends what must succeed.
func (f *fixture) append(s eventstore.Store, stream eventstore.Stream, head eventstore.Head, drafts ...eventstore.Draft) []eventstore.Record {
	f.Helper()
	records, err := s.Append(f.ctx, stream, head, drafts...)
	if err != nil {
		f.Fatalf("append at revision %d: %v", head.Revision+1, err)
	}
	if len(records) != len(drafts) {
		f.Fatalf("%d records for %d drafts", len(records), len(drafts))
	}
	return records
}

// stream reads a stream whole.
func (f *fixture) stream(s eventstore.Store, name eventstore.Stream) []eventstore.Record {
	f.Helper()
	records, err := s.ReadStream(f.ctx, name, 0, 1<<20)
	if err != nil {
		f.Fatalf("read a stream: %v", err)
	}
	return records
}

// all reads the log whole.
func (f *fixture) all(s eventstore.Store) []eventstore.Record {
	f.Helper()
	records, err := s.ReadAll(f.ctx, 0, 1<<20)
	if err != nil {
		f.Fatalf("read all: %v", err)
	}
	return records
}

// verify checks a whole stream's chain.
func (f *fixture) verify(records []eventstore.Record) {
	f.Helper()
	head := eventstore.NoStream
	for _, r := range records {
		if err := chain.Verify(head, r); err != nil {
			f.Error(err)
		}
		head = eventstore.Head{Revision: r.Revision, Hash: r.Hash}
	}
}

// draft makes an event whose id is the given one.
func draft(id string) eventstore.Draft {
	return eventstore.Draft{
		ID:      id,
		Type:    "TurnProgressed",
		Version: 1,
		Time:    "2026-11-03T10:00:00.000001Z",
		Data:    fmt.Sprintf(`{"text":%q}`, id),
		Meta:    `{"tenant":"acme"}`,
	}
}

// drafts makes n events whose ids begin with the given text.
func drafts(id string, n int) []eventstore.Draft {
	out := make([]eventstore.Draft, n)
	for i := range out {
		out[i] = draft(fmt.Sprintf("%s/%d", id, i))
	}
	return out
}

// waiting is a context that tells when somebody has begun to wait on it: when an
// append that it was given to is on its way and no longer in the caller's hands.
type waiting struct {
	context.Context
	begun chan struct{}
}

func newWaiting(ctx context.Context) waiting { return waiting{ctx, make(chan struct{}, 1)} }

// Done tells, and is the context's.
func (w waiting) Done() <-chan struct{} {
	select {
	case w.begun <- struct{}{}:
	default:
	}
	return w.Context.Done()
}

// gate is an observer that holds the log still, from the first group on until it
// is opened.
type gate struct {
	reached chan struct{}
	pass    chan struct{}
}

func newGate() *gate { return &gate{reached: make(chan struct{}, 1), pass: make(chan struct{})} }

func (g *gate) observe([]eventstore.Record) {
	select {
	case g.reached <- struct{}{}:
	default:
	}
	<-g.pass
}
