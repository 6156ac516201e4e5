// Package audit is what happened to the log itself: that it was opened, under
// which key, that a view was built again, that something kept failing.
package audit

import (
	"hangar/domain"
	"hangar/domain/event"
)

// Stream is the one stream of these events; its first record is the log's.
const Stream domain.Stream = "audit-log"

// The events of the log.
type (
	// StoreOpened: the log was made. It is its first record.
	StoreOpened struct {
		StoreID string `json:"store_id"`
		KeyID   string `json:"key_id"` // domain.Secret.ID of the server's secret
	}
	// SecretRotated: another secret is the newest. Lost says that the one before
	// could not be shown.
	SecretRotated struct {
		KeyID string `json:"key_id"`
		Lost  bool   `json:"lost,omitempty"`
	}
	// ProjectionRebuilt: a view was built from the log again.
	ProjectionRebuilt struct {
		View   string `json:"view"`
		Reason string `json:"reason"`
	}
	// ReactionFailed: what should follow from an event keeps failing.
	ReactionFailed struct {
		Subject string `json:"subject"` // a stream's name; of a task only its category
		Step    string `json:"step"`
		Reason  string `json:"reason"`
	}
)

// EventType is "StoreOpened".
func (StoreOpened) EventType() event.Type { return "StoreOpened" }

// EventType is "SecretRotated".
func (SecretRotated) EventType() event.Type { return "SecretRotated" }

// EventType is "ProjectionRebuilt".
func (ProjectionRebuilt) EventType() event.Type { return "ProjectionRebuilt" }

// EventType is "ReactionFailed".
func (ReactionFailed) EventType() event.Type { return "ReactionFailed" }

func init() {
	event.Register(StoreOpened{}, 1)
	event.Register(SecretRotated{}, 1)
	event.Register(ProjectionRebuilt{}, 1)
	event.Register(ReactionFailed{}, 1)
}

// State is the fold of the log's own stream.
type State struct {
	StoreID  string
	KeyIDs   []string // oldest first
	Failed   []ReactionFailed
	Revision int64
}

// maxFailed bounds how many failures the fold remembers, the newest.
const maxFailed = 100

// Evolve takes one event into the state, in place.
func (s *State) Evolve(e event.Event) {
	s.Revision = e.Revision
	switch d := e.Data.(type) {
	case StoreOpened:
		s.StoreID, s.KeyIDs = d.StoreID, append(s.KeyIDs, d.KeyID)
	case SecretRotated:
		s.KeyIDs = append(s.KeyIDs, d.KeyID)
	case ReactionFailed:
		if s.Failed = append(s.Failed, d); len(s.Failed) > maxFailed {
			s.Failed = s.Failed[1:]
		}
	}
}
