package sqlite

import (
	"context"
	"errors"
	"fmt"

	driversqlite "modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"hangar/eventstore"
)

func refused(cause error) error { return fmt.Errorf("%w: %w", eventstore.ErrRefused, cause) }

func unknown(cause error) error { return fmt.Errorf("%w: %w", eventstore.ErrUnknown, cause) }

// commitError says what a failed COMMIT means. When the disk had no room, the frame
// that makes a transaction one was not written. After anything else (a failed sync
// above all) it may be found, or not, when the log is opened again.
func commitError(cause error) error {
	if primaryCode(cause) == sqlite3.SQLITE_FULL {
		return refused(cause)
	}
	return unknown(cause)
}

// primaryCode gives SQLite's result code of an error, zero where there is none.
func primaryCode(err error) int {
	if e, ok := errors.AsType[*driversqlite.Error](err); ok {
		return e.Code() & 0xff
	}
	return 0
}

// isPlain reports whether an error needs no more words: it is one of the store's
// answers or its caller's own.
func isPlain(err error) bool {
	return errors.Is(err, eventstore.ErrClosed) ||
		errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}
