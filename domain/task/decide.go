package task

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"hangar/domain"
	"hangar/domain/event"
	"hangar/domain/turn"
)

// Command is an intent about one task: one of the types below.
type Command interface{ command() }

type (
	// Create registers the task.
	Create struct{ Created }
	// Consent says that the answer to a key was taken by the subject.
	Consent struct {
		Key    string
		Answer json.RawMessage
		Via    string
	}
	// Refuse declines a question, which ends the task with the question as its
	// result. Subject is as it stands with the question open; a question that is
	// not open there is nobody's to refuse any more.
	Refuse struct {
		Key, Action, Reason, Via string
		Subject                  turn.Subject
	}
	// Cancel asks the task to end.
	Cancel struct{ Reason string }
	// Observe takes whatever the subject's state demands.
	Observe struct {
		Subject turn.Subject
		At      time.Time
	}
	// Expire ends the handle when its time has come.
	Expire struct{ At time.Time }
)

func (Create) command()  {}
func (Consent) command() {}
func (Refuse) command()  {}
func (Cancel) command()  {}
func (Observe) command() {}
func (Expire) command()  {}

// Unknown is the one answer for a task that is not the caller's, has expired or
// never was.
func Unknown() error { return domain.Errorf(domain.NotFound, "unknown task") }

// Decide gives the events that follow from a command, none where there is
// nothing left to say.
func Decide(s *State, c Command) ([]event.Data, error) {
	if create, ok := c.(Create); ok {
		if s.Exists() {
			return nil, domain.Errorf(domain.Conflict, "the task exists already")
		}
		return []event.Data{create.Created}, nil
	}
	if !s.Exists() {
		return nil, Unknown()
	}
	switch c := c.(type) {
	case Consent:
		if _, decided := s.Consents[c.Key]; decided || s.Ended() {
			return nil, nil
		}
		return []event.Data{granted(c.Key, c.Answer, c.Via)}, nil
	case Refuse:
		isIt := func(q turn.Question) bool { return q.Key() == c.Key }
		if _, decided := s.Consents[c.Key]; decided || s.Ended() || !slices.ContainsFunc(c.Subject.Open(), isIt) {
			return nil, nil
		}
		return refused(c), nil
	case Cancel:
		if s.CancelRequested || s.Ended() {
			return nil, nil
		}
		return []event.Data{CancelRequested(c)}, nil
	case Observe:
		return s.observe(c), nil
	case Expire:
		if deadline, ok := s.Deadline(); ok && !s.Expired && !c.At.Before(deadline) {
			return []event.Data{Expired{Deadline: domain.FormatTime(deadline)}}, nil
		}
		return nil, nil
	}
	return nil, fmt.Errorf("task: command %T is not one of a task's", c)
}

// granted is the same whether the answer comes from the client or from the log,
// which keeps JSON without the space between.
func granted(key string, answer json.RawMessage, via string) ConsentDecided {
	var compact bytes.Buffer
	if json.Compact(&compact, answer) == nil {
		answer = compact.Bytes()
	}
	return ConsentDecided{Key: key, Granted: true, Action: Accept, AnswerHash: domain.Sum(answer), Via: via}
}

func refused(c Refuse) []event.Data {
	return []event.Data{
		ConsentDecided{Key: c.Key, Action: c.Action, Reason: c.Reason, Via: c.Via},
		Completed{Subject: c.Subject.ID, AtRevision: c.Subject.Revision, SubjectHash: domain.Digest(c.Subject.Hash)},
	}
}

// observe is where the subject's truth becomes the task's: answers that came by
// any path, a question that nobody can be asked, and the end.
func (s *State) observe(c Observe) []event.Data {
	if s.Ended() {
		return nil
	}
	var batch []event.Data
	for _, q := range c.Subject.Questions {
		if _, decided := s.Consents[q.Key()]; !decided && q.Answer != nil {
			batch = append(batch, granted(q.Key(), q.Answer, q.Via))
		}
	}
	sub := c.Subject
	switch sub.Status {
	case turn.StatusCancelled:
		return append(batch, Cancelled{ObservedAt: domain.FormatTime(c.At)})
	case turn.StatusCompleted, turn.StatusFailed:
		if sub.Code == turn.ProtocolError {
			return append(batch, Failed{Code: -32603, Message: "the tool call failed", Reason: turn.ProtocolError})
		}
		return append(batch, Completed{Subject: sub.ID, AtRevision: sub.Revision,
			SubjectHash: domain.Digest(sub.Hash), IsError: sub.Status == turn.StatusFailed})
	case turn.StatusQueued, turn.StatusRunning, turn.StatusWaiting:
	}
	if s.Created.Capabilities.Form {
		return batch
	}
	for _, q := range sub.Open() {
		// What was decided is no longer open: sub was looked at before.
		if _, decided := s.Consents[q.Key()]; !decided {
			return append(batch, refused(Refuse{Key: q.Key(), Reason: ReasonNoElicitation, Subject: sub})...)
		}
	}
	return batch
}
