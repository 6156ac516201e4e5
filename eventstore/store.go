// Package eventstore is the log: an append-only record of everything that
// happened, in streams and in one order of all.
//
// Store is the seam between Hangar and the database that keeps the log. Each
// engine has a package of its own below this one, and all of them pass the one
// suite in eventstoretest. Only cmd imports engines.
package eventstore

import (
	"context"
	"errors"
	"fmt"

	"hangar/domain"
)

// Record is one stored event.
type Record = domain.Record

// Position is a place in the order of all.
type Position = domain.Position

// Stream is a stream's name.
type Stream = domain.Stream

// Draft is an event about to be appended: the caller's part of a Record.
type Draft struct {
	ID      string
	Type    string
	Version int
	Time    string // RFC 3339, UTC, six decimals
	Data    string // a JSON object
	Meta    string // a JSON object
}

// Head is where a stream ends: the revision and hash of its last record. An
// append expects one, so the writer needs no cache to continue the chain.
type Head struct {
	Revision int64
	Hash     string
}

// NoStream is the head of a stream that has no record.
var NoStream = Head{Revision: -1}

// HeadOf gives the head of a stream that was read to its end, oldest first.
func HeadOf(records []Record) Head {
	if len(records) == 0 {
		return NoStream
	}
	last := records[len(records)-1]
	return Head{Revision: last.Revision, Hash: last.Hash}
}

// Limits of a single append, the same on every engine.
const (
	// MaxDataBytes bounds the data of one event: 256 KiB. What is larger is
	// refused by name; artifacts are for bulk.
	MaxDataBytes = 256 << 10
	// MaxBatch bounds how many records one append may hold.
	MaxBatch = 256
)

// Store is a log. All methods may be called concurrently.
type Store interface {
	// ID names this log; checkpoints are only good for the log they were taken
	// from. It is made with the log and never changes.
	ID() string

	// Append adds drafts to one stream, all or none, and returns what is stored
	// once it is durable. expected is NoStream or the head the caller has read.
	//
	// Where the same ids already stand at the same place, the stored records are
	// returned and nothing is written, also when the stream has grown since.
	//
	// Errors: *ConflictError when the stream ends elsewhere; ErrRefused when
	// nothing was written; ErrUnknown when it may have been (load again, then
	// decide). A context that ends while the append waits or is being written
	// gives ErrUnknown too, and the write goes on. An append that Check finds
	// wrong gives its *domain.Error. The outcome of one append never depends on
	// that of another which happens to be written with it.
	Append(ctx context.Context, stream Stream, expected Head, drafts ...Draft) ([]Record, error)

	// ReadStream gives up to limit records of a stream from the revision on,
	// oldest first. A stream that does not exist is empty, not an error. Fewer
	// than limit means that the stream ended there; a limit below one gives none.
	ReadStream(ctx context.Context, stream Stream, from int64, limit int) ([]Record, error)

	// ReadAll gives up to limit records after a position, in the order of all.
	// Zero is the start. A record is never seen before one that stands in front
	// of it, so a reader that goes on from the last position misses nothing.
	ReadAll(ctx context.Context, after Position, limit int) ([]Record, error)

	// Head gives the position of the newest record, zero for an empty log.
	Head(ctx context.Context) (Position, error)

	// Wait returns nil as soon as a record after the position exists, at once if
	// it does already; it is how a tail sleeps. It returns ctx's error when ctx
	// ends, and ErrClosed when the store is closed.
	Wait(ctx context.Context, after Position) error

	// Close ends waits and refuses further calls with ErrClosed, after the
	// appends that were accepted are durable. A second Close does nothing.
	Close() error
}

// Observer is told of every committed group, in commit order, by the goroutine
// that commits and before the callers of Append are answered. It must be quick,
// may read, and must not append: the log stands still until it returns. The slice
// is its own to keep. Its panic is the engine's to contain. Each engine takes one
// in its options.
type Observer func([]Record)

var (
	// ErrRefused: nothing was written and the cause is wrapped (a full disk, a
	// read-only log).
	ErrRefused = errors.New("the log refused the append")
	// ErrDiverged: the log does not hold the record that the caller expected to
	// continue from. It went back to an older copy, or was rewritten; what was
	// read from it before is worth nothing. Always together with ErrRefused.
	ErrDiverged = errors.New("the log no longer holds what was read from it")
	// ErrUnknown: whether the append was written is not known.
	ErrUnknown = errors.New("the outcome of the append is not known")
	// ErrClosed: the store was closed.
	ErrClosed = errors.New("the log is closed")
	// ErrReadOnly: the log was opened for reading.
	ErrReadOnly = errors.New("the log is open for reading only")
)

// ConflictError says that a stream does not end where the caller believed.
type ConflictError struct {
	Stream   Stream
	Expected Head
	// Actual is the revision of the stream's last record, -1 for no stream.
	Actual int64
}

// Error names the stream's category, never its id: a task's stream is its handle.
func (e *ConflictError) Error() string {
	return fmt.Sprintf("a %s stream ends at revision %d, not %d", e.Stream.Category(), e.Actual, e.Expected.Revision)
}
