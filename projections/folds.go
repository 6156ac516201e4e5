// Package projections builds what is read from what happened. Folds keeps the
// states of single streams up to date in memory, in the very goroutine that
// commits, so that whatever was acknowledged is found; views are tables for lists
// and searches, built in order behind it, one package each.
package projections

import (
	"container/list"
	"context"
	"errors"
	"sync"

	"hangar/domain"
	"hangar/domain/event"
	"hangar/eventstore"
)

// FoldBytes is how much memory folded states may take, estimated: 64 MiB.
const FoldBytes = 64 << 20

// Reader is what a projection needs of the log.
type Reader interface {
	ID() string
	ReadStream(ctx context.Context, stream domain.Stream, from int64, limit int) ([]domain.Record, error)
	ReadAll(ctx context.Context, after domain.Position, limit int) ([]domain.Record, error)
	Head(ctx context.Context) (domain.Position, error)
	Wait(ctx context.Context, after domain.Position) error
}

// Fold says how the streams of one category become states of type S.
type Fold[S any] struct {
	// Evolve gives the state after an event and leaves the one given alone: a
	// state that was handed out never changes.
	Evolve func(S, event.Event) S
	// Size estimates the memory of a state in bytes.
	Size func(*S) int
	// Final reports whether little more is expected of the stream; such states
	// are the first to be forgotten.
	Final func(*S) bool
}

// Folds holds the states of the streams that were read, each at its stream's
// newest revision: it is told of every commit. It holds what was asked for and
// fits, never that something is missing.
type Folds struct {
	store Reader
	max   int

	mu      sync.Mutex
	entries map[domain.Stream]*entry
	live    list.List // of *entry, most recently used first
	final   list.List
	bytes   int
	watches map[domain.Stream]*watch
}

type entry struct {
	stream   domain.Stream
	state    folded
	revision int64
	at       *list.Element
	in       *list.List
	size     int

	loading bool
	ready   chan struct{}   // closed when loading is over
	pending []domain.Record // committed while loading
}

// folded is a state with its fold, the type forgotten.
type folded interface {
	evolve(e event.Event) folded
	size() int
	final() bool
}

type of[S any] struct {
	fold  *Fold[S]
	state *S
}

func (o of[S]) evolve(e event.Event) folded {
	next := o.fold.Evolve(*o.state, e)
	return of[S]{o.fold, &next}
}
func (o of[S]) size() int   { return o.fold.Size(o.state) }
func (o of[S]) final() bool { return o.fold.Final(o.state) }

// NewFolds makes an empty cache over a log, holding at most max bytes.
func NewFolds(store Reader, max int) *Folds {
	return &Folds{store: store, max: max, entries: map[domain.Stream]*entry{}, watches: map[domain.Stream]*watch{}}
}

// Get gives the state of a stream at its newest revision, the zero state for a
// stream that has no record. The state is shared: do not change it.
func Get[S any](ctx context.Context, f *Folds, fold *Fold[S], stream domain.Stream) (*S, error) {
	for {
		f.mu.Lock()
		e, ok := f.entries[stream]
		switch {
		case ok && !e.loading:
			state := e.state.(of[S]).state //nolint:forcetypeassert // one fold a category
			e.in.MoveToFront(e.at)
			f.mu.Unlock()
			return state, nil
		case ok:
			ready := e.ready
			f.mu.Unlock()
			select {
			case <-ready:
				continue
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}
		e = &entry{stream: stream, loading: true, ready: make(chan struct{}), revision: -1}
		f.entries[stream] = e
		f.mu.Unlock()
		var zero S
		state, err := f.load(ctx, e, of[S]{fold, &zero})
		if err != nil || state == nil {
			return nil, err
		}
		return state.(of[S]).state, nil //nolint:forcetypeassert // as it went in
	}
}

// load reads a stream for an entry that was put in as loading, and publishes it.
func (f *Folds) load(ctx context.Context, e *entry, state folded) (folded, error) {
	state, revision, err := f.read(ctx, e.stream, state)

	f.mu.Lock()
	defer f.mu.Unlock()
	defer close(e.ready)
	e.loading = false
	if err == nil {
		for _, r := range e.pending {
			if r.Revision != revision+1 {
				continue
			}
			var ev event.Event
			if ev, err = event.Decode(r); err != nil {
				break
			}
			state, revision = state.evolve(ev), r.Revision
		}
	}
	e.pending = nil
	if err != nil || revision < 0 {
		delete(f.entries, e.stream)
		return state, readError(err)
	}
	e.state, e.revision = state, revision
	f.place(e)
	return state, nil
}

// foldPage is how many records one read of a stream gives.
const foldPage = 1000

func (f *Folds) read(ctx context.Context, stream domain.Stream, state folded) (folded, int64, error) {
	revision := int64(-1)
	for {
		page, err := f.store.ReadStream(ctx, stream, revision+1, foldPage)
		if err != nil {
			return nil, -1, err
		}
		for _, r := range page {
			ev, err := event.Decode(r)
			if err != nil {
				return nil, -1, err
			}
			state, revision = state.evolve(ev), r.Revision
		}
		if len(page) < foldPage {
			return state, revision, nil
		}
	}
}

// readError tells callers what a stream that cannot be folded means.
func readError(err error) error {
	var unknown *event.UnknownError
	var known *domain.Error
	switch {
	case err == nil, errors.As(err, &known):
		return err
	case errors.As(err, &unknown):
		return domain.Errorf(domain.Unavailable, "%w", unknown)
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err
	default:
		return domain.Wrap(domain.Unavailable, err, "the event log cannot be read; try again later")
	}
}

// place puts an entry into the list it belongs to and forgets what no longer
// fits, ended streams first.
func (f *Folds) place(e *entry) {
	want := &f.live
	if e.state.final() {
		want = &f.final
	}
	if e.in != want {
		if e.in != nil {
			e.in.Remove(e.at)
		}
		e.in, e.at = want, want.PushFront(e)
	}
	size := e.state.size()
	f.bytes += size - e.size
	e.size = size
	for f.bytes > f.max && f.live.Len()+f.final.Len() > 1 {
		oldest := f.final.Back()
		if oldest == nil || oldest.Value == e {
			oldest = f.live.Back()
		}
		if oldest == nil || oldest.Value == e {
			return
		}
		f.drop(oldest.Value.(*entry)) //nolint:forcetypeassert // the lists hold nothing else
	}
}

func (f *Folds) drop(e *entry) {
	delete(f.entries, e.stream)
	if e.in != nil {
		e.in.Remove(e.at)
		f.bytes -= e.size
	}
}

// Observe takes a committed group; it is the log's eventstore.Observer. An entry
// it cannot continue is forgotten and read again when asked for.
func (f *Folds) Observe(records []eventstore.Record) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := range records {
		r := &records[i]
		if e, ok := f.entries[r.Stream]; ok {
			f.take(e, r)
		}
		if w, ok := f.watches[r.Stream]; ok {
			w.change()
		}
	}
}

func (f *Folds) take(e *entry, r *domain.Record) {
	if e.loading {
		e.pending = append(e.pending, *r)
		return
	}
	if r.Revision <= e.revision {
		return
	}
	defer func() {
		if recover() != nil {
			f.drop(e)
		}
	}()
	ev, err := event.Decode(*r)
	if err != nil || r.Revision != e.revision+1 {
		f.drop(e)
		return
	}
	e.state, e.revision = e.state.evolve(ev), r.Revision
	f.place(e)
}

// Forget drops everything: after the log was found to have gone back.
func (f *Folds) Forget() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, e := range f.entries {
		if !e.loading {
			f.drop(e)
		}
	}
}
