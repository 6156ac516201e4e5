package domain

import "strings"

// Position is a record's place in the order of all. It is given by the engine,
// opaque and ordered: compare positions of one store, never add to them. Zero
// is before the first record.
type Position uint64

// Stream is a stream's name: its category, a hyphen, an id.
type Stream string

// Category gives the part before the first hyphen.
func (s Stream) Category() string { c, _, _ := strings.Cut(string(s), "-"); return c }

// Record is one stored event, as the log keeps it. Time, Data and Meta are the
// exact texts that Hash was computed over; Position is not covered by it.
type Record struct {
	ID       string   `json:"id"`
	Stream   Stream   `json:"stream"`
	Revision int64    `json:"revision"` // 0.. within the stream
	Position Position `json:"position"`
	Type     string   `json:"type"`
	Version  int      `json:"version"` // of the type's schema, from 1
	Time     string   `json:"time"`    // RFC 3339, UTC, six decimals
	Data     string   `json:"data"`    // a JSON object
	Meta     string   `json:"meta"`    // a JSON object
	Prev     string   `json:"prev"`    // hash of the record before it in the stream, "" at revision 0
	Hash     string   `json:"hash"`    // 64 lower-case hex digits
}
