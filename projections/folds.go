// Package projections builds what is read from what happened. Folds keeps the
// states of single streams up to date in memory, in the very goroutine that
// commits, so that whatever was acknowledged is found; views are tables for lists
// and searches, built in order behind it, one package each.
package projections

import (
	"container/list"
	"context"
	"errors"
	"fmt"
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
	// forgotten is whether what was read so far counts no more.
	forgotten bool
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

// rereads is how often a load looks again for records that were committed and
// were not there yet when it read.
const rereads = 3

// load reads a stream for an entry that was put in as loading, and publishes it.
func (f *Folds) load(ctx context.Context, e *entry, zero folded) (folded, error) {
	state, revision, err := f.read(ctx, e.stream, zero, -1)

	f.mu.Lock()
	defer f.mu.Unlock()
	defer close(e.ready)
	for tries := 0; err == nil; tries++ {
		var gap bool
		if e.forgotten {
			state, revision, e.forgotten = zero, -1, false
		} else if state, revision, gap, err = follow(state, revision, e.pending); err != nil || !gap {
			break
		}
		if tries == rereads {
			err = fmt.Errorf("a %s stream was read up to revision %d and is known to go on", e.stream.Category(), revision)
			break
		}
		f.mu.Unlock()
		state, revision, err = f.read(ctx, e.stream, state, revision)
		f.mu.Lock()
	}
	e.loading, e.pending = false, nil
	if err != nil || revision < 0 {
		delete(f.entries, e.stream)
		return state, readError(err)
	}
	e.state, e.revision = state, revision
	f.place(e)
	return state, nil
}

// follow takes records that were committed while a stream was read. gap is
// whether some are missing between what was read and them.
func follow(state folded, revision int64, records []domain.Record) (_ folded, _ int64, gap bool, err error) {
	for i := range records {
		r := &records[i]
		if r.Revision <= revision {
			continue
		}
		if r.Revision != revision+1 {
			return state, revision, true, nil
		}
		if state, err = take(state, r); err != nil {
			return nil, -1, false, err
		}
		revision = r.Revision
	}
	return state, revision, false, nil
}

// take gives the state after a record. A fold that panics is an error like a
// record that cannot be read: the one stream's, and nobody else's.
func take(state folded, r *domain.Record) (next folded, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("the fold of %s panics: %v", r.Type, p)
		}
	}()
	ev, err := event.Decode(*r)
	if err != nil {
		return nil, err
	}
	return state.evolve(ev), nil
}

// foldPage is how many records one read of a stream gives.
const foldPage = 1000

// read takes the records of a stream after a revision.
func (f *Folds) read(ctx context.Context, stream domain.Stream, state folded, revision int64) (folded, int64, error) {
	for {
		page, err := f.store.ReadStream(ctx, stream, revision+1, foldPage)
		if err != nil {
			return nil, -1, err
		}
		for i := range page {
			if state, err = take(state, &page[i]); err != nil {
				return nil, -1, err
			}
			revision = page[i].Revision
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
	for f.bytes > f.max {
		oldest := f.oldestBut(e)
		if oldest == nil {
			return
		}
		f.drop(oldest)
	}
}

// oldestBut gives the entry to forget next: the one longest unused among those
// that are final, else among the others, and never the one given.
func (f *Folds) oldestBut(e *entry) *entry {
	for _, in := range []*list.List{&f.final, &f.live} {
		for at := in.Back(); at != nil; at = at.Prev() {
			if other := at.Value.(*entry); other != e { //nolint:forcetypeassert // the lists hold nothing else
				return other
			}
		}
	}
	return nil
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
			f.advance(e, r)
		}
		if w, ok := f.watches[r.Stream]; ok {
			w.change()
		}
	}
}

func (f *Folds) advance(e *entry, r *domain.Record) {
	if e.loading {
		e.pending = append(e.pending, *r)
		return
	}
	if r.Revision <= e.revision {
		return
	}
	if r.Revision != e.revision+1 {
		f.drop(e)
		return
	}
	state, err := take(e.state, r)
	if err != nil {
		f.drop(e)
		return
	}
	e.state, e.revision = state, r.Revision
	f.place(e)
}

// Forget drops everything: after the log was found to have gone back. What is
// being read is read anew.
func (f *Folds) Forget() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, e := range f.entries {
		if e.loading {
			e.forgotten, e.pending = true, nil
			continue
		}
		f.drop(e)
	}
}
