package projections

import (
	"context"

	"hangar/domain"
	"hangar/domain/event"
)

// Rows folds the streams of a view along with it, so that a row is always a
// state's: the same code that decides also says what a list shows. It remembers
// the streams it met last, and reads the history of others. It belongs to one
// runner's goroutine.
type Rows[S any] struct {
	fold   *Fold[S]
	states map[domain.Stream]*row[S]
	max    int
}

type row[S any] struct {
	state    S
	revision int64
}

// NewRows makes a fold that remembers at most max streams.
func NewRows[S any](fold *Fold[S], max int) *Rows[S] {
	return &Rows[S]{fold: fold, states: map[domain.Stream]*row[S]{}, max: max}
}

// Touched is a stream that a page of events touched.
type Touched[S any] struct {
	// State is the stream's after the page.
	State *S
	// First is the position of its first record, where that is in the page; a row
	// keeps it from then on.
	First domain.Position
}

// Page takes a page of events, and gives the streams they touched, in the order
// they were touched first.
func (f *Rows[S]) Page(ctx context.Context, events []event.Event, history History) ([]*Touched[S], error) {
	var order []*Touched[S]
	touched := map[domain.Stream]*Touched[S]{}
	for _, e := range events {
		r, err := f.row(ctx, e, history)
		if err != nil {
			return nil, err
		}
		r.state, r.revision = f.fold.Evolve(r.state, e), e.Revision
		t, again := touched[e.Stream]
		if !again {
			t = &Touched[S]{State: &r.state}
			touched[e.Stream] = t
			order = append(order, t)
		}
		if e.Revision == 0 {
			t.First = e.Position
		}
	}
	f.forget()
	return order, nil
}

// row gives a stream as it is before an event.
func (f *Rows[S]) row(ctx context.Context, e event.Event, history History) (*row[S], error) {
	if r, ok := f.states[e.Stream]; ok && r.revision == e.Revision-1 {
		return r, nil
	}
	earlier, err := history(ctx, e.Stream, e.Revision)
	if err != nil {
		return nil, err
	}
	r := &row[S]{}
	for _, old := range earlier {
		r.state = f.fold.Evolve(r.state, old)
	}
	f.states[e.Stream] = r
	return r, nil
}

// forget drops the streams that ended, and any others above the bound.
func (f *Rows[S]) forget() {
	for stream, r := range f.states {
		if f.fold.Final(&r.state) || len(f.states) > f.max {
			delete(f.states, stream)
		}
	}
}

// Reset forgets everything, for a view that is built again.
func (f *Rows[S]) Reset() { clear(f.states) }
