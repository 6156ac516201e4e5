package eventstore

import (
	"context"
	"sync"
)

// Tail is the part of an engine that those who wait for new records sleep on: the
// position of the newest record and a signal that it moved. The zero value is the
// tail of an empty log. It holds no goroutine and may be used concurrently.
type Tail struct {
	mu     sync.Mutex
	head   Position
	closed bool
	moved  chan struct{} // made by the first that waits, closed when head moves
}

// Advance says that the newest record is at head, and wakes those who wait for
// it. An older position changes nothing.
func (t *Tail) Advance(head Position) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if head > t.head {
		t.head = head
		t.wake()
	}
}

// Head gives the position of the newest record, or ErrClosed.
func (t *Tail) Head() (Position, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return 0, ErrClosed
	}
	return t.head, nil
}

// Wait is Store.Wait.
func (t *Tail) Wait(ctx context.Context, after Position) error {
	for {
		moved, err := t.watch(after)
		if moved == nil {
			return err
		}
		select {
		case <-moved:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// watch gives the channel to wait on, or nil and the answer.
func (t *Tail) watch(after Position) (<-chan struct{}, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.closed:
		return nil, ErrClosed
	case t.head > after:
		return nil, nil
	case t.moved == nil:
		t.moved = make(chan struct{})
	}
	return t.moved, nil
}

// Close ends every wait, now and later, with ErrClosed.
func (t *Tail) Close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.closed = true
	t.wake()
}

func (t *Tail) wake() {
	if t.moved != nil {
		close(t.moved)
		t.moved = nil
	}
}
