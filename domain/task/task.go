// Package task is the ledger's aggregate: whose a task is, under which tool
// contract it was made, how each decision about it fell, and how it ended. It
// executes nothing and holds no result; those stay with its subject.
package task

import (
	"maps"
	"math"
	"strings"
	"time"

	"hangar/domain/event"
	"hangar/domain/turn"
)

// Category is the category of a task's stream, and the beginning of its handle.
const Category = "task"

// State is the fold of a task's stream. The zero value is a task that is not.
type State struct {
	Created   Created
	CreatedAt time.Time
	Revision  int64
	Hash      string
	EventID   string // of the stream's last record
	// Correlation is that of the request which made the task.
	Correlation string

	Consents        map[string]ConsentDecided // by key
	CancelRequested bool

	// At most one of the three is set, once: what comes later is not an end.
	Completed *Completed
	Failed    *Failed
	Cancelled *Cancelled
	EndedAt   time.Time
	// Denied is whether the end followed from a refused question.
	Denied bool

	Expired bool
}

// Exists reports whether the task was registered.
func (s *State) Exists() bool { return s.Created.Handle != "" }

// Ended reports whether the task is at a final status.
func (s *State) Ended() bool { return s.Completed != nil || s.Failed != nil || s.Cancelled != nil }

// Deadline is when the handle stops being served; ok is false for a task that
// lives without limit.
func (s *State) Deadline() (at time.Time, ok bool) {
	if s.Created.TTLMs <= 0 || s.Created.TTLMs > maxTTLMs {
		return time.Time{}, false
	}
	return s.CreatedAt.Add(time.Duration(s.Created.TTLMs) * time.Millisecond), true
}

// maxTTLMs is the longest life that can be reckoned with, 292 years.
const maxTTLMs = math.MaxInt64 / int64(time.Millisecond)

// Visible is the one judge of expiry, for every door: whether the handle is
// served at an instant, also before anybody has written down that it is not.
func (s *State) Visible(now time.Time) bool {
	if !s.Exists() || s.Expired {
		return false
	}
	deadline, ok := s.Deadline()
	return !ok || now.Before(deadline)
}

// Subject gives the stream and, for a control-plane task, the ordinal of the
// request in it.
func (s *State) Subject() (id string, n int) {
	subject, num, ok := strings.Cut(s.Created.TargetTaskID, "/")
	if !ok || s.Created.Target != Hangar {
		return "", 0
	}
	for _, c := range num {
		if c < '0' || c > '9' || n > 1e6 {
			return "", 0
		}
		n = n*10 + int(c-'0')
	}
	return subject, n
}

// Evolve takes one event into the state. The state given is left as it was.
func Evolve(s State, e event.Event) State {
	s.Consents = maps.Clone(s.Consents)
	s.Evolve(e)
	return s
}

// Evolve takes one event into the state, in place: for a fold that nobody else
// holds.
func (s *State) Evolve(e event.Event) {
	s.Revision, s.Hash, s.EventID = e.Revision, e.Hash, e.ID
	switch d := e.Data.(type) {
	case Created:
		if s.Exists() {
			return // a task is registered once: whose it is never changes
		}
		s.Created, s.CreatedAt, s.Correlation = d, e.Time, e.Meta.CorrelationID
	case ConsentDecided:
		if s.Consents == nil {
			s.Consents = map[string]ConsentDecided{}
		}
		if _, decided := s.Consents[d.Key]; !decided {
			s.Consents[d.Key] = d
			s.Denied = s.Denied || (!d.Granted && !s.Ended())
		}
	case CancelRequested:
		s.CancelRequested = true
	case Completed:
		if !s.Ended() {
			s.Completed, s.EndedAt = &d, e.Time
		}
	case Failed:
		if !s.Ended() {
			s.Failed, s.EndedAt = &d, e.Time
		}
	case Cancelled:
		if !s.Ended() {
			s.Cancelled, s.EndedAt = &d, e.Time
		}
	case Expired:
		s.Expired = true
	}
}

// SizeBytes estimates what the state holds in memory, for caches.
func (s *State) SizeBytes() int { return 1024 + 256*len(s.Consents) }

// Snapshot is what a client is shown of a task.
type Snapshot struct {
	Status        turn.Status // working stands as StatusRunning, input_required as StatusWaiting
	Message       string
	CreatedAt     time.Time
	LastUpdatedAt time.Time
	Open          []turn.Question // outstanding, while waiting
}

// Show gives what a client is shown: a final status only once it is on record,
// everything else from the subject.
func (s *State) Show(sub *turn.Subject) Snapshot {
	v := Snapshot{Status: turn.StatusRunning, CreatedAt: s.CreatedAt, LastUpdatedAt: s.EndedAt}
	tool := s.Created.Tool
	switch {
	case s.Completed != nil:
		v.Status, v.Message = turn.StatusCompleted, tool+" completed"
		if s.Completed.IsError {
			v.Message = tool + " failed"
		}
		if s.Denied {
			v.Message = tool + " ended with an open question"
		}
		return v
	case s.Failed != nil:
		v.Status, v.Message = turn.StatusFailed, s.Failed.Message
		return v
	case s.Cancelled != nil:
		v.Status, v.Message = turn.StatusCancelled, tool+" cancelled"
		return v
	}
	v.LastUpdatedAt, v.Message = s.CreatedAt, tool+" started"
	if sub.ChangedAt.After(v.LastUpdatedAt) {
		v.LastUpdatedAt = sub.ChangedAt
	}
	if sub.Message != "" {
		v.Message = sub.Message
	}
	if open := sub.Open(); len(open) > 0 && s.Created.Capabilities.Form {
		v.Status, v.Open, v.Message = turn.StatusWaiting, open, open[0].Text
	}
	return v
}
