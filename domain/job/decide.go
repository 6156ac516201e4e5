package job

import (
	"encoding/json"
	"fmt"
	"strings"

	"hangar/domain"
	"hangar/domain/event"
	"hangar/domain/turn"
)

// Command is an intent about one job: one of the types below.
type Command interface{ command() }

type (
	// Submit asks for the job. The task's ordinal is given by Decide.
	Submit struct{ Submitted }
	// FollowUp says more to the job: it answers the oldest open question, else it
	// opens a turn.
	FollowUp struct {
		Prompt       string
		OutputSchema json.RawMessage
		OpenPR       *bool
		Task         *turn.TaskRequest
	}
	// Cancel asks the job to end.
	Cancel struct{ Reason string }
	// Answer answers a question. The first answer wins, whatever its path.
	Answer struct {
		N      int
		Answer json.RawMessage
		Via    string
	}
	// ChangeStep tells what the control plane does for the turn.
	ChangeStep struct {
		Turn         int
		Name, Status string
	}
	// Record takes one line of a turn's journal.
	Record struct {
		Turn  int
		Agent string
		Line  turn.Line
	}
	// Close ends a turn with everything that came of it; and the job, unless
	// another turn waits.
	Close struct {
		Ended   turn.Ended
		Message string // why it failed, for people
		PR      *PR
	}
)

func (Submit) command()     {}
func (FollowUp) command()   {}
func (Cancel) command()     {}
func (Answer) command()     {}
func (ChangeStep) command() {}
func (Record) command()     {}
func (Close) command()      {}

// Decide gives the events that follow from a command, none where there is
// nothing left to say. A *domain.Error says what the state does not allow and
// what would be possible.
func Decide(s *State, c Command) ([]event.Data, error) {
	if submit, ok := c.(Submit); ok {
		return s.submit(submit)
	}
	if !s.Exists() {
		return nil, Unknown()
	}
	switch c := c.(type) {
	case FollowUp:
		return s.followUp(c)
	case Cancel:
		if s.CancelRequested || s.Status().Final() {
			return nil, nil
		}
		return []event.Data{CancelRequested(c)}, nil
	case Answer:
		q := s.Question(c.N)
		if q == nil || !q.Open() {
			return nil, nil
		}
		if err := q.CheckAnswer(c.Answer); err != nil {
			return nil, err
		}
		return []event.Data{turn.Answered{Turn: q.Turn, N: q.N, Answer: c.Answer, Via: c.Via}}, nil
	case ChangeStep:
		t := s.Turn(c.Turn)
		if t == nil || t.End != nil || (s.Step.Turn == c.Turn && s.Step.Name == c.Name && s.Step.Status == c.Status) {
			return nil, nil
		}
		return []event.Data{StepChanged(c)}, nil
	case Record:
		return s.record(c), nil
	case Close:
		return s.close(c)
	}
	return nil, fmt.Errorf("job: command %T is not one of a job's", c)
}

// Unknown is the answer about a job that is not there, or not the caller's.
func Unknown() error { return domain.Errorf(domain.NotFound, "unknown job") }

func (s *State) submit(c Submit) ([]event.Data, error) {
	if s.Exists() {
		return nil, domain.Errorf(domain.Conflict, "the job exists already")
	}
	if c.Task != nil {
		task := *c.Task
		task.N = 1
		c.Task = &task
	}
	return []event.Data{c.Submitted, turn.Queued{Turn: 1}}, nil
}

func (s *State) followUp(c FollowUp) ([]event.Data, error) {
	if s.CancelRequested || s.Status() == Cancelled {
		return nil, domain.Errorf(domain.Conflict, "the job is %s: a cancelled job takes no follow-up; submit a new one", s.cancelState())
	}
	req := FollowUpRequested{Prompt: c.Prompt, OutputSchema: c.OutputSchema, OpenPR: c.OpenPR}
	if c.Task != nil {
		task := *c.Task
		task.N = len(s.Tasks) + 1
		req.Task = &task
	}
	if open := s.Open(0); len(open) > 0 {
		q := open[0]
		answer, err := answerFrom(&q, c.Prompt)
		if err != nil {
			return nil, err
		}
		req.Turn = q.Turn
		return []event.Data{req, turn.Answered{Turn: q.Turn, N: q.N, Answer: answer, Via: turn.ViaFollowUp}}, nil
	}
	req.Turn = len(s.Turns) + 1
	return []event.Data{req, turn.Queued{Turn: req.Turn}}, nil
}

func (s *State) cancelState() string {
	if s.Status().Final() {
		return "cancelled"
	}
	return "being cancelled"
}

// answerFrom reads a prompt as the answer to a question: as it is, or as the
// JSON object that the question's schema wants.
func answerFrom(q *turn.Question, prompt string) (json.RawMessage, error) {
	answer := json.RawMessage(prompt)
	if len(q.Schema) == 0 {
		b, err := json.Marshal(strings.TrimRight(prompt, "\n"))
		if err != nil {
			return nil, err
		}
		answer = b
	} else if !json.Valid(answer) {
		return nil, domain.InvalidField("prompt", "the open question %s wants a JSON object as its schema says", q.Key())
	}
	if err := q.CheckAnswer(answer); err != nil {
		return nil, domain.InvalidField("prompt", "it answers the open question %s: %s", q.Key(), strings.TrimPrefix(err.Error(), q.Key()+": "))
	}
	return answer, nil
}

// record turns a journal line into the event it stands for. Lines that tell
// nothing by themselves wait for the turn's end.
func (s *State) record(c Record) []event.Data {
	t := s.Turn(c.Turn)
	if t == nil || t.End != nil {
		return nil
	}
	switch c.Line.Kind {
	case turn.LineStarted:
		if t.StartedAt.IsZero() {
			return []event.Data{turn.Started{Turn: c.Turn, Agent: c.Agent, BootID: c.Line.BootID}}
		}
	case turn.LineStep:
		return []event.Data{turn.Progressed{Turn: c.Turn, Text: c.Line.Text}}
	case turn.LineAsked:
		if c.Line.Ask > 0 && c.Line.Ask <= t.Asks {
			return nil // read again
		}
		return []event.Data{turn.Asked{Turn: c.Turn, N: len(s.Questions) + 1, Text: c.Line.Text,
			Options: c.Line.Options, Schema: c.Line.Schema, Kind: turn.KindQuestion}}
	case turn.LineAnswered, turn.LineResult, turn.LineArtifact, turn.LinePR, turn.LineExited:
	}
	return nil
}

// close is the closing batch of a turn. A cancelled job ends the turns that
// wait behind it too.
func (s *State) close(c Close) ([]event.Data, error) {
	t := s.Turn(c.Ended.Turn)
	if t == nil || t.End != nil {
		return nil, nil
	}
	if !c.Ended.Status.Final() {
		return nil, domain.Errorf(domain.Internal, "a turn ends completed, failed or cancelled, not %q", c.Ended.Status)
	}
	batch := append(s.withdraw(t.N, c.Ended.Status), c.Ended)
	fin := Finished{Turn: t.N, Status: c.Ended.Status, Code: c.Ended.Code, Message: c.Message, PR: c.PR}
	for i := range s.Turns {
		other := &s.Turns[i]
		if other.End != nil || other.N == t.N {
			continue
		}
		if !s.CancelRequested {
			return batch, nil // the job goes on
		}
		batch = append(batch, s.withdraw(other.N, turn.StatusCancelled)...)
		batch = append(batch, turn.Ended{Turn: other.N, Status: turn.StatusCancelled, StopReason: "cancelled"})
		fin.Turn, fin.Status, fin.Code = max(fin.Turn, other.N), turn.StatusCancelled, ""
	}
	return append(batch, fin), nil
}

// withdraw closes the questions that a turn leaves open.
func (s *State) withdraw(n int, status turn.Status) []event.Data {
	var batch []event.Data
	for _, q := range s.Open(n) {
		batch = append(batch, turn.Withdrawn{Turn: n, N: q.N, Reason: string(status)})
	}
	return batch
}
