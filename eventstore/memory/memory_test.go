package memory_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"hangar/eventstore"
	"hangar/eventstore/eventstoretest"
	"hangar/eventstore/memory"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// engine opens the same log each time.
type engine struct{ store *memory.Store }

func (e *engine) Open(_ testing.TB, o eventstore.Observer) eventstore.Store {
	if e.store == nil {
		e.store = memory.Open(memory.Options{Observer: o})
	} else {
		e.store = e.store.Reopen(memory.Options{Observer: o})
	}
	return e.store
}

func TestStore(t *testing.T) {
	t.Parallel()
	eventstoretest.Run(t, func(*testing.T) eventstoretest.Engine { return &engine{} })
}

func draft(id string) eventstore.Draft {
	return eventstore.Draft{ID: id, Type: "NodeBeat", Version: 1, Time: "2026-11-03T10:00:00.000000Z", Data: "{}", Meta: "{}"}
}

func TestIDs(t *testing.T) {
	t.Parallel()
	a, b := memory.Open(memory.Options{}), memory.Open(memory.Options{})
	if a.ID() == b.ID() {
		t.Errorf("two logs have the id %s", a.ID())
	}
	if got := memory.Open(memory.Options{ID: "fixed"}).Reopen(memory.Options{ID: "other"}).ID(); got != "fixed" {
		t.Errorf("a reopened log has the id %q", got)
	}
}

// In a bubble a wait is durable: time moves on while a tail sleeps, and nothing of
// the store is left when the bubble ends.
func TestInBubble(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := memory.Open(memory.Options{})
		woken := make(chan error, 1)
		go func() { woken <- s.Wait(t.Context(), 0) }()
		synctest.Wait()

		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		if err := s.Wait(ctx, 5); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the wait ended with %v", err)
		}
		records, err := s.Append(t.Context(), "node-a", eventstore.NoStream, draft("a"))
		if err != nil {
			t.Fatal(err)
		}
		if err := <-woken; err != nil {
			t.Errorf("woken with %v", err)
		}

		s = s.Reopen(memory.Options{})
		if _, err := s.Append(t.Context(), "node-a", eventstore.HeadOf(records), draft("b")); err != nil {
			t.Error(err)
		}
		if got, err := s.ReadAll(t.Context(), 0, 10); len(got) != 2 || err != nil {
			t.Errorf("%d records after a restart, %v", len(got), err)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
}

// A store that is being written through the observer's stall is closed only when
// what was accepted is answered.
func TestCloseWaits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		pass := make(chan struct{})
		s := memory.Open(memory.Options{Observer: func([]eventstore.Record) { <-pass }})
		answered := make(chan error, 1)
		go func() {
			_, err := s.Append(t.Context(), "node-a", eventstore.NoStream, draft("a"))
			answered <- err
		}()
		synctest.Wait()
		closed := make(chan struct{})
		go func() { _ = s.Close(); close(closed) }()
		synctest.Wait()
		select {
		case <-closed:
			t.Fatal("closed in the middle of an append")
		default:
		}
		close(pass)
		<-closed
		if err := <-answered; err != nil {
			t.Error(err)
		}
	})
}
