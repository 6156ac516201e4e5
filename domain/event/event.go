// Package event says what an event is: its type, the version of the type's
// schema, its data, and who caused it. It holds the registry of all types and
// turns stored records into events, old versions upcast on the way.
package event

import (
	"time"

	"hangar/domain"
)

// Type names what happened, in the past tense.
type Type string

// Data is the payload of one type of event: a plain struct whose JSON is what
// the log holds.
type Data interface {
	EventType() Type
}

// Meta says who caused an event and what it follows from.
type Meta struct {
	Tenant        domain.Tenant    `json:"tenant,omitempty"`
	Principal     domain.Principal `json:"principal,omitempty"`
	CommandID     domain.CommandID `json:"command_id"`
	CorrelationID string           `json:"correlation_id,omitempty"`
	CausationID   string           `json:"causation_id,omitempty"` // the record this one follows from
	Traceparent   string           `json:"traceparent,omitempty"`
}

// Owner gives who caused the event.
func (m Meta) Owner() domain.Owner { return domain.Owner{Tenant: m.Tenant, Principal: m.Principal} }

// Event is one thing that happened, as folds read it.
type Event struct {
	ID       string
	Stream   domain.Stream
	Revision int64
	Position domain.Position
	Time     time.Time
	Hash     string
	Meta     Meta
	Data     Data
}
