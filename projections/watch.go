package projections

import (
	"context"

	"hangar/domain"
)

// watch is who waits for a stream to change.
type watch struct {
	changed chan struct{}
	waiters int
}

func (w *watch) change() {
	close(w.changed)
	w.changed = make(chan struct{})
}

// Await waits until a stream's state is as wanted, and gives it. When ctx ends
// first it gives the newest state it has seen along with ctx's error, nil where it
// has seen none.
func Await[S any](ctx context.Context, f *Folds, fold *Fold[S], stream domain.Stream, until func(*S) bool) (*S, error) {
	f.mu.Lock()
	w, ok := f.watches[stream]
	if !ok {
		w = &watch{changed: make(chan struct{})}
		f.watches[stream] = w
	}
	w.waiters++
	f.mu.Unlock()
	defer func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		if w.waiters--; w.waiters == 0 {
			delete(f.watches, stream)
		}
	}()
	var state *S
	for {
		f.mu.Lock()
		changed := w.changed
		f.mu.Unlock()
		newer, err := Get(ctx, f, fold, stream)
		if err != nil && ctx.Err() != nil {
			return state, ctx.Err()
		}
		if state = newer; err != nil || until(state) {
			return state, err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return state, ctx.Err()
		}
	}
}
