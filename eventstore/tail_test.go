package eventstore_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	"hangar/eventstore"
)

func TestTail(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var tail eventstore.Tail
		woken := make([]chan error, 4) // each waits for a record after its number
		for i := range woken {
			woken[i] = make(chan error, 1)
			go func() { woken[i] <- tail.Wait(t.Context(), eventstore.Position(i)) }()
		}
		synctest.Wait()
		tail.Advance(2)
		tail.Advance(1) // older news
		synctest.Wait()
		for i, c := range woken {
			select {
			case err := <-c:
				if i >= 2 || err != nil {
					t.Errorf("the wait for what is after %d ended with %v", i, err)
				}
			default:
				if i < 2 {
					t.Errorf("the wait for what is after %d goes on", i)
				}
			}
		}
		if head, err := tail.Head(); head != 2 || err != nil {
			t.Errorf("head is %d, %v", head, err)
		}
		tail.Close()
		for i := 2; i < len(woken); i++ {
			if err := <-woken[i]; !errors.Is(err, eventstore.ErrClosed) {
				t.Errorf("the close ended a wait with %v", err)
			}
		}
		if _, err := tail.Head(); !errors.Is(err, eventstore.ErrClosed) {
			t.Errorf("head after the close: %v", err)
		}
		if err := tail.Wait(context.Background(), 0); !errors.Is(err, eventstore.ErrClosed) {
			t.Errorf("wait after the close: %v", err)
		}
	})
}

// A task's stream is its handle, and errors are logged.
func TestConflictDoesNotNameTheStream(t *testing.T) {
	t.Parallel()
	err := &eventstore.ConflictError{Stream: "task-secret", Expected: eventstore.Head{Revision: 3}, Actual: 5}
	if got := err.Error(); strings.Contains(got, "secret") || !strings.Contains(got, "task") {
		t.Errorf("%q", got)
	}
}
