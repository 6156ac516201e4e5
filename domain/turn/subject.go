package turn

import "time"

// Subject is what a task needs to know of the turn it is bound to. Its owner's
// fold makes it; the ledger never looks further.
type Subject struct {
	ID   string // the subject's id and stream
	Turn int
	// Status is the turn's; cancelled also where its subject was cancelled.
	Status Status
	// Code says why it failed, "" while it has not.
	Code string
	// Message is the newest step or progress, "" before the first.
	Message string
	// Questions are all of this turn, in the order they were asked.
	Questions []Question
	// ChangedAt is when anything that a task shows last changed.
	ChangedAt time.Time
	// Revision and Hash are the head of the subject's stream; once the turn has
	// ended, the last record of its closing batch.
	Revision int64
	Hash     string
	// EventID is the id of the newest record of the stream: the cause of what
	// follows from this state.
	EventID string
}

// Open lists the questions that wait for an answer, oldest first.
func (s *Subject) Open() []Question {
	var open []Question
	for _, q := range s.Questions {
		if q.Open() {
			open = append(open, q)
		}
	}
	return open
}
