// Package turn is a conversation with an agent: turns one after another, their
// progress, the questions the agent asks and the answers it gets. It is embedded
// by every aggregate that holds such a conversation; today that is the job.
package turn

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"hangar/domain"
	"hangar/domain/event"
)

// Status is where a turn stands.
type Status string

// The statuses. Running and waiting alternate; the last three are final.
const (
	StatusQueued    Status = "queued"
	StatusRunning   Status = "running"
	StatusWaiting   Status = "waiting" // for an answer
	StatusCompleted Status = "completed"
	StatusFailed    Status = "failed"
	StatusCancelled Status = "cancelled"
)

// Final reports whether nothing follows.
func (s Status) Final() bool {
	return s == StatusCompleted || s == StatusFailed || s == StatusCancelled
}

// Question is one question of a conversation.
type Question struct {
	N, Turn int
	Ask     int // ordinal within its turn, from 1: how its journal names it
	Text    string
	Options []string
	Schema  json.RawMessage
	Kind    string
	AskedAt time.Time

	Answer    json.RawMessage // empty while open
	Via       string
	By        domain.Owner // who answered
	Withdrawn string       // the reason, empty while open
}

// Open reports whether an answer would still be taken.
func (q *Question) Open() bool { return q.Answer == nil && q.Withdrawn == "" }

// Key is the question's name on the wire, never used for another.
func (q *Question) Key() string { return fmt.Sprintf("answer-%d", q.N) }

// State is one turn.
type State struct {
	N         int
	Agent     string
	BootID    string
	QueuedAt  time.Time
	StartedAt time.Time
	EndedAt   time.Time
	Asks      int       // questions so far
	Last      string    // newest progress
	ChangedAt time.Time // when anything a reader sees last changed
	End       *Ended    // nil while it goes on
	// Close is the head of the stream at the last record of the turn's closing
	// batch; meaningful once End is set.
	CloseRevision int64
	CloseHash     string
}

// Conversation is the fold of the events of turns. The zero value has no turn.
type Conversation struct {
	Turns     []State
	Questions []Question // by N-1
}

// Turn gives the n-th turn, nil for none.
func (c *Conversation) Turn(n int) *State {
	if n < 1 || n > len(c.Turns) {
		return nil
	}
	return &c.Turns[n-1]
}

// Question gives the n-th question, nil for none.
func (c *Conversation) Question(n int) *Question {
	if n < 1 || n > len(c.Questions) {
		return nil
	}
	return &c.Questions[n-1]
}

// Open lists a turn's questions that wait for an answer, oldest first; turn 0
// lists those of all turns.
func (c *Conversation) Open(turn int) []Question {
	var open []Question
	for i := range c.Questions {
		if q := &c.Questions[i]; q.Open() && (turn == 0 || q.Turn == turn) {
			open = append(open, *q)
		}
	}
	return open
}

// Current gives the turn that runs or would run next: the first that has not
// ended, nil when all have.
func (c *Conversation) Current() *State {
	for i := range c.Turns {
		if c.Turns[i].End == nil {
			return &c.Turns[i]
		}
	}
	return nil
}

// Status gives where a turn stands.
func (c *Conversation) Status(n int) Status {
	t := c.Turn(n)
	switch {
	case t == nil:
		return ""
	case t.End != nil:
		return t.End.Status
	case t.StartedAt.IsZero():
		return StatusQueued
	case len(c.Open(n)) > 0:
		return StatusWaiting
	default:
		return StatusRunning
	}
}

// Evolve takes one event into the conversation, and reports whether it was one
// of a conversation. It accepts any order of events, so that a log cut or
// damaged anywhere still folds. What comes after a turn's end changes nothing.
func (c *Conversation) Evolve(e event.Event) bool {
	switch d := e.Data.(type) {
	case Queued:
		if t := c.at(d.Turn); t.End == nil {
			t.QueuedAt, t.ChangedAt = e.Time, e.Time
		}
	case Started:
		if t := c.at(d.Turn); t.End == nil {
			t.Agent, t.BootID, t.StartedAt, t.ChangedAt = d.Agent, d.BootID, e.Time, e.Time
		}
	case Progressed:
		if t := c.at(d.Turn); t.End == nil {
			t.Last, t.ChangedAt = d.Text, e.Time
		}
	case Asked:
		c.ask(d, e.Time)
	case Answered:
		if q := c.Question(d.N); q != nil && q.Open() {
			q.Answer, q.Via, q.By = d.Answer, d.Via, e.Meta.Owner()
			if q.Answer == nil {
				q.Answer = json.RawMessage("null") // answered all the same
			}
			c.at(q.Turn).ChangedAt = e.Time
		}
	case Withdrawn:
		if q := c.Question(d.N); q != nil && q.Open() {
			q.withdraw(d.Reason)
			c.at(q.Turn).ChangedAt = e.Time
		}
	case Ended:
		if t := c.at(d.Turn); t.End == nil {
			t.End, t.EndedAt, t.ChangedAt = &d, e.Time, e.Time
			t.CloseRevision, t.CloseHash = e.Revision, e.Hash
		}
	default:
		return false
	}
	return true
}

func (c *Conversation) ask(d Asked, at time.Time) {
	t := c.at(d.Turn)
	if t.End != nil || t.N == 0 || d.N < 1 || d.N > len(c.Questions)+maxGap {
		return
	}
	for len(c.Questions) < d.N {
		c.Questions = append(c.Questions, Question{N: len(c.Questions) + 1, Withdrawn: "lost"})
	}
	q := &c.Questions[d.N-1]
	if q.Turn != 0 {
		return // asked before: a key is never used for another question
	}
	t.Asks++
	t.ChangedAt = at
	*q = Question{N: d.N, Turn: d.Turn, Ask: t.Asks, Text: d.Text, Options: d.Options,
		Schema: d.Schema, Kind: d.Kind, AskedAt: at}
}

func (q *Question) withdraw(reason string) {
	if reason == "" {
		reason = "withdrawn"
	}
	q.Withdrawn = reason
}

// maxGap is how many turns or questions a log may lack in a row, at most: it
// bounds what one record of a damaged log can make a fold allocate.
const maxGap = 1000

// at gives the n-th turn, made if need be.
func (c *Conversation) at(n int) *State {
	if n < 1 || n > len(c.Turns)+maxGap {
		return &State{} // nobody's: a record that no hangar wrote
	}
	for len(c.Turns) < n {
		c.Turns = append(c.Turns, State{N: len(c.Turns) + 1})
	}
	return &c.Turns[n-1]
}

// Clone copies the conversation so that an evolving copy leaves the first alone.
func (c *Conversation) Clone() Conversation {
	return Conversation{Turns: slices.Clone(c.Turns), Questions: slices.Clone(c.Questions)}
}

// CheckAnswer says what is wrong with an answer to the question, nil when it is
// right. A question without a schema takes a JSON string, one of its options
// where it has any; what a schema demands is judged by the caller, who has a
// validator.
func (q *Question) CheckAnswer(answer json.RawMessage) error {
	answer = bytes.TrimSpace(answer)
	if len(answer) > MaxAnswerBytes {
		return domain.Errorf(domain.TooLarge, "%s: an answer has at most %d bytes", q.Key(), MaxAnswerBytes)
	}
	if len(q.Schema) > 0 {
		if len(answer) == 0 || answer[0] != '{' || !json.Valid(answer) {
			return domain.InvalidField(q.Key(), "the answer is an object, as the question's schema says")
		}
		return nil
	}
	var text *string
	if json.Unmarshal(answer, &text) != nil || text == nil {
		return domain.InvalidField(q.Key(), "the answer is a string")
	}
	if len(q.Options) > 0 && !slices.Contains(q.Options, *text) {
		return domain.InvalidField(q.Key(), "the answer is one of: %s", strings.Join(q.Options, ", "))
	}
	return nil
}

// MaxAnswerBytes bounds one answer, as the JSON it is recorded as.
const MaxAnswerBytes = 64 << 10

// FormSchema is the form that asks for the answer (SEP-2322, elicitation/create).
func (q *Question) FormSchema() json.RawMessage {
	if len(q.Schema) > 0 {
		return q.Schema
	}
	type prop struct {
		Type string   `json:"type"`
		Enum []string `json:"enum,omitempty"`
	}
	b, err := json.Marshal(struct {
		Type       string          `json:"type"`
		Properties map[string]prop `json:"properties"`
		Required   []string        `json:"required"`
	}{"object", map[string]prop{"answer": {"string", q.Options}}, []string{"answer"}})
	if err != nil {
		panic(err) // strings always encode
	}
	return b
}
