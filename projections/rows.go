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

// Page takes a page of events, and gives the streams they touched, in the order
// they were touched first, and the state of each after the page.
func (f *Rows[S]) Page(ctx context.Context, events []event.Event, history History) ([]domain.Stream, map[domain.Stream]*S, error) {
	var order []domain.Stream
	touched := map[domain.Stream]*S{}
	for _, e := range events {
		r, ok := f.states[e.Stream]
		if !ok || r.revision != e.Revision-1 {
			earlier, err := history(ctx, e.Stream, e.Revision)
			if err != nil {
				return nil, nil, err
			}
			r = &row[S]{}
			for _, old := range earlier {
				r.state = f.fold.Evolve(r.state, old)
			}
			f.states[e.Stream] = r
		}
		r.state, r.revision = f.fold.Evolve(r.state, e), e.Revision
		if _, again := touched[e.Stream]; !again {
			order = append(order, e.Stream)
		}
		touched[e.Stream] = &r.state
	}
	for stream, r := range f.states {
		if len(f.states) <= f.max && !f.fold.Final(&r.state) {
			continue
		}
		delete(f.states, stream)
	}
	return order, touched, nil
}

// Reset forgets everything, for a view that is built again.
func (f *Rows[S]) Reset() { clear(f.states) }
