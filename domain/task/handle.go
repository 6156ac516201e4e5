package task

import (
	"crypto/hmac"
	"crypto/sha256"
	"strconv"

	"hangar/domain"
)

// Hangar is the target of the control plane's own tasks.
const Hangar = "hangar"

// Key is what one task is of its target. One key has exactly one handle.
type Key struct {
	Target string
	ID     string // the target's own task id; "<subject>/<n>" for the control plane
	// CreatedAt is the target's, byte for byte; empty for the control plane,
	// whose ids are never used again.
	CreatedAt string
	// Generation counts the times the target used this id, from 1.
	Generation int
}

// SubjectTask is the target's id of the n-th task asked of a subject.
func SubjectTask(subject string, n int) string { return subject + "/" + strconv.Itoa(n) }

// Handle derives the handle of a task: 130 bits of HMAC-SHA-256 under a key
// derived from the server's secret (domain.ForHandles). It cannot be guessed,
// never names two tasks, and is the same on every replica. Polling needs no key.
func Handle(key []byte, k Key) domain.TaskID {
	h := hmac.New(sha256.New, key)
	for _, part := range []string{k.Target, k.ID, k.CreatedAt} {
		h.Write([]byte(part))
		h.Write([]byte{0})
	}
	h.Write([]byte(strconv.Itoa(k.Generation)))
	return domain.TaskID(Category + "-" + domain.ShortHash(h.Sum(nil)))
}
