// Package chain is the log's evidence within a stream: every record holds the
// hash of the one before it, so no record can be changed, left out or put in
// without every later hash being wrong.
//
// # The hash
//
// It is the SHA-256 of nine fields in this order, each as its length in bytes
// (eight bytes, big-endian) followed by its UTF-8 bytes:
//
//	id, stream, revision, type, version, time, data, meta, prev
//
// revision and version are written in decimal, data and meta are the exact texts
// that are stored, prev is the hash of the record before it in the stream and
// empty at revision 0. A hash is written as 64 lower-case hex digits. The position
// is not covered: it is the engine's, and differs from one to the next.
//
// A verifier in another language needs nothing else; testdata/golden.json holds
// a record and its hash to try it on.
package chain

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"strconv"
	"sync"

	"hangar/domain"
	"hangar/eventstore"
)

// Seal makes the records that continue a stream after head: it sets revision,
// prev and hash, and leaves the position to the engine. The drafts are not kept.
func Seal(stream domain.Stream, head eventstore.Head, drafts []eventstore.Draft) []domain.Record {
	records := make([]domain.Record, len(drafts))
	buf := getBuffer()
	defer putBuffer(buf)
	for i := range drafts {
		d, r := &drafts[i], &records[i]
		r.ID, r.Stream, r.Revision = d.ID, stream, head.Revision+1
		r.Type, r.Version, r.Time = d.Type, d.Version, d.Time
		r.Data, r.Meta, r.Prev = d.Data, d.Meta, head.Hash
		r.Hash = hash(buf, r)
		head = eventstore.Head{Revision: r.Revision, Hash: r.Hash}
	}
	return records
}

// Hash computes the hash of a record from its other fields, in 64 lower-case hex
// digits. The Hash field itself is not read.
func Hash(r domain.Record) string {
	buf := getBuffer()
	defer putBuffer(buf)
	return hash(buf, &r)
}

// BrokenError says which record of a chain is wrong, and how.
type BrokenError struct {
	Stream   domain.Stream
	Revision int64
	Position domain.Position
	// Reason is what does not fit, in a few words for people.
	Reason string
}

// Error names the record by its position and the stream's category, never by the
// stream's id: a task's stream is its handle.
func (e *BrokenError) Error() string {
	return fmt.Sprintf("the record at position %d (revision %d of a %s stream) is wrong: %s",
		e.Position, e.Revision, e.Stream.Category(), e.Reason)
}

// Verify checks a record against the head of its stream before it, NoStream for
// the first: that it follows, that it points back to that head, and that its hash
// is its own. What is wrong comes back as a *BrokenError. The caller sees to it
// that before is of the same stream.
func Verify(before eventstore.Head, r domain.Record) error {
	broken := func(reason string) error {
		return &BrokenError{Stream: r.Stream, Revision: r.Revision, Position: r.Position, Reason: reason}
	}
	switch {
	case r.Revision != before.Revision+1:
		return broken(fmt.Sprintf("revision %d was due", before.Revision+1))
	case r.Prev != before.Hash:
		return broken("it does not point to the record before it")
	case r.Hash != Hash(r):
		return broken("its hash is not that of its contents")
	}
	return nil
}

func hash(buf *[]byte, r *domain.Record) string {
	b := (*buf)[:0]
	b = appendText(b, r.ID)
	b = appendText(b, string(r.Stream))
	b = appendDecimal(b, r.Revision)
	b = appendText(b, r.Type)
	b = appendDecimal(b, int64(r.Version))
	b = appendText(b, r.Time)
	b = appendText(b, r.Data)
	b = appendText(b, r.Meta)
	b = appendText(b, r.Prev)
	*buf = b
	sum := sha256.Sum256(b)
	var digits [2 * sha256.Size]byte
	hex.Encode(digits[:], sum[:])
	return string(digits[:])
}

func appendText(b []byte, s string) []byte {
	b = binary.BigEndian.AppendUint64(b, uint64(len(s)))
	return append(b, s...)
}

func appendDecimal(b []byte, n int64) []byte {
	var digits [20]byte
	d := strconv.AppendInt(digits[:0], n, 10)
	b = binary.BigEndian.AppendUint64(b, uint64(len(d)))
	return append(b, d...)
}

// keptBuffer is the largest buffer, in bytes, that is kept for the next hash: the
// text of a record as large as one may be.
const keptBuffer = 2*eventstore.MaxDataBytes + 4<<10

var buffers = sync.Pool{New: func() any { b := make([]byte, 0, 4<<10); return &b }}

func getBuffer() *[]byte { return buffers.Get().(*[]byte) }

func putBuffer(b *[]byte) {
	if cap(*b) <= keptBuffer {
		buffers.Put(b)
	}
}
