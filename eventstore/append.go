package eventstore

import (
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"

	"hangar/domain"
)

// Check is what every engine asks of an append before it does anything: a stream
// with a name, an expected head that can be, one to MaxBatch drafts with an id of
// their own, a type, a version, a time in its stored form, and JSON objects for
// data and meta of at most MaxDataBytes each. What is wrong comes back as a
// *domain.Error, Invalid or TooLarge. Nothing is kept.
func Check(stream Stream, expected Head, drafts []Draft) error {
	switch {
	case !printable(string(stream)) || !strings.Contains(string(stream), "-"):
		return domain.InvalidField("stream", "want a category, a hyphen and an id of at most %d bytes in all", maxNameBytes)
	case expected.Revision < NoStream.Revision || (expected.Revision == NoStream.Revision && expected.Hash != ""):
		return domain.InvalidField("expected", "want NoStream or the head that was read")
	case len(drafts) == 0:
		return domain.InvalidField("drafts", "want at least one")
	case len(drafts) > MaxBatch:
		return domain.Errorf(domain.TooLarge, "an append of %d events is over the limit of %d", len(drafts), MaxBatch)
	}
	for i := range drafts {
		if err := drafts[i].check(); err != nil {
			return err
		}
		for j := range i {
			if drafts[i].ID == drafts[j].ID {
				return domain.InvalidField("id", "two events of one append have the same id")
			}
		}
	}
	return nil
}

// maxNameBytes bounds the names that are indexed: streams, ids and types.
const maxNameBytes = 255

func (d *Draft) check() error {
	switch {
	case !printable(d.Type):
		return domain.InvalidField("type", "an event needs a type of at most %d bytes", maxNameBytes)
	case !printable(d.ID):
		return domain.InvalidField("id", "%s needs an id of at most %d bytes", d.Type, maxNameBytes)
	case d.Version < 1:
		return domain.InvalidField("version", "%s needs the version of its schema, from 1", d.Type)
	case !storedTime(d.Time):
		return domain.InvalidField("time", "%s needs a time in RFC 3339, UTC, six decimals", d.Type)
	case len(d.Data) > MaxDataBytes:
		return tooLarge(d.Type, "data", len(d.Data))
	case len(d.Meta) > MaxDataBytes:
		return tooLarge(d.Type, "meta", len(d.Meta))
	case !jsonObject(d.Data):
		return domain.InvalidField("data", "the data of %s is not a JSON object", d.Type)
	case !jsonObject(d.Meta):
		return domain.InvalidField("meta", "the meta of %s is not a JSON object", d.Type)
	}
	return nil
}

func tooLarge(typ, what string, size int) error {
	return domain.Errorf(domain.TooLarge, "the %s of %s is %d bytes, over the limit of %d", what, typ, size, MaxDataBytes)
}

// printable reports whether s can name something in the log: not empty, UTF-8, no
// control characters, at most maxNameBytes long.
func printable(s string) bool {
	if s == "" || len(s) > maxNameBytes || !utf8.ValidString(s) {
		return false
	}
	for i := range len(s) {
		if s[i] < 0x20 || s[i] == 0x7f {
			return false
		}
	}
	return true
}

// storedTime reports whether s is of the form domain.FormatTime gives.
func storedTime(s string) bool {
	const form = "2006-01-02T15:04:05.000000Z"
	if len(s) != len(form) || s[len(form)-1] != 'Z' || s[len("2006-01-02T15:04:05")] != '.' {
		return false
	}
	_, err := domain.ParseTime(s)
	return err == nil
}

// jsonObject reports whether s is one JSON object in UTF-8, without white space
// around it.
func jsonObject(s string) bool {
	return len(s) >= 2 && s[0] == '{' && s[len(s)-1] == '}' && utf8.ValidString(s) && json.Valid([]byte(s))
}

// Settle answers an append whose stream does not end where the caller expected.
// wanted are the caller's records, actual is where the stream ends, and stored
// are the records at the place of wanted, from expected.Revision+1 on, as many as
// are there.
//
// The same ids at the same place are a repeated append: their stored records are
// returned. Where the log does not hold the record the caller expected to follow,
// the append is refused with ErrDiverged. Everything else is a *ConflictError.
func Settle(expected, actual Head, wanted, stored []Record) ([]Record, error) {
	followsOther := actual.Revision == expected.Revision && actual.Hash != expected.Hash ||
		len(stored) > 0 && stored[0].Prev != expected.Hash
	if followsOther {
		return nil, fmt.Errorf("%w: %w", ErrRefused, ErrDiverged)
	}
	if sameIDs(stored, wanted) {
		return stored, nil
	}
	return nil, &ConflictError{Stream: wanted[0].Stream, Expected: expected, Actual: actual.Revision}
}

func sameIDs(a, b []Record) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i].ID != b[i].ID {
			return false
		}
	}
	return true
}
