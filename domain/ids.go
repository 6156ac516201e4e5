package domain

import (
	"crypto/sha256"
	"encoding/base32"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
)

// CommandID is the id of one intent: a UUID. A command whose id a stream has
// seen decides nothing more there.
type CommandID string

// TaskID is what a client holds of a task, and the name of its stream:
// "task-" and 26 base32 characters.
type TaskID string

// JobID names a job and its stream: "job-" and 26 base32 characters.
type JobID string

// TokenID names a bearer token without giving it away: 26 base32 characters
// of its SHA-256.
type TokenID string

// TurnID is one turn of a job: "<job id>.<n>", n from 1.
type TurnID string

// Digest is a SHA-256 in 64 lower-case hex digits.
type Digest string

// Sum gives the digest of b.
func Sum(b []byte) Digest {
	sum := sha256.Sum256(b)
	return Digest(hex.EncodeToString(sum[:]))
}

// idChars is how many base32 characters of a hash make an id: 130 bits.
const idChars = 26

var base32Lower = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)

// ShortHash gives the first 26 base32 characters of a hash, the form of every id.
func ShortHash(sum []byte) string { return base32Lower.EncodeToString(sum)[:idChars] }

// EntityID derives the id of a new entity from the command that makes it, so
// that a repeated command names the same entity.
func EntityID(category string, id CommandID) string {
	sum := sha256.Sum256([]byte(id))
	return category + "-" + ShortHash(sum[:])
}

// TurnOf names the n-th turn of a subject.
func TurnOf(job JobID, n int) TurnID { return TurnID(fmt.Sprintf("%s.%d", job, n)) }

// Split gives the job and the number of the turn; n is 0 where id is not a turn's.
func (id TurnID) Split() (job JobID, n int) {
	j, num, ok := strings.Cut(string(id), ".")
	if !ok {
		return "", 0
	}
	n, err := strconv.Atoi(num)
	if err != nil || n < 1 || strconv.Itoa(n) != num {
		return "", 0
	}
	return JobID(j), n
}

// ValidID reports whether s is a category, a hyphen and 26 base32 characters.
func ValidID(category, s string) bool {
	rest, ok := strings.CutPrefix(s, category+"-")
	if !ok || len(rest) != idChars {
		return false
	}
	return strings.Trim(rest, "abcdefghijklmnopqrstuvwxyz234567") == ""
}

// recordNamespace is the UUIDv5 namespace of record ids. Fixed for ever.
var recordNamespace = [16]byte{0x6e, 0x1c, 0x5a, 0x27, 0x0b, 0x9d, 0x4f, 0x11, 0x9a, 0x52, 0x33, 0x4c, 0x81, 0x7f, 0x20, 0xd6}

// commandNamespace is the UUIDv5 namespace of derived command ids. Fixed for ever.
var commandNamespace = [16]byte{0xa4, 0x37, 0x0e, 0x51, 0x6d, 0x0a, 0x4c, 0x8e, 0x83, 0x1b, 0x75, 0xf2, 0x19, 0xc8, 0x44, 0x0e}

// RecordID gives the id of the index-th record that a command appends to stream.
// A retry writes the same ids, which is how the store knows it for one.
func RecordID(id CommandID, stream Stream, index int) string {
	return uuid5(recordNamespace, string(id)+"\x00"+string(stream)+"\x00"+strconv.Itoa(index))
}

// DerivedCommand gives the id of a command that follows from other things: an
// owner, a tool and an idempotency key; an event and a step; a supervisor's boot
// id and a line's number. The parts are joined by a zero byte.
func DerivedCommand(parts ...string) CommandID {
	return CommandID(uuid5(commandNamespace, strings.Join(parts, "\x00")))
}
