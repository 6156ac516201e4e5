// Package job is a unit of work with a deliverable: a prompt given to an agent
// in a workspace, its turns, and what came of them. Decide and Evolve are pure.
package job

import (
	"encoding/json"
	"slices"
	"time"

	"hangar/domain"
	"hangar/domain/event"
	"hangar/domain/turn"
)

// Category is the category of a job's stream.
const Category = "job"

// Status is where a job stands, as people see it.
type Status string

// The statuses of a job.
const (
	Queued    Status = "queued"
	Starting  Status = "starting"
	Running   Status = "running"
	Waiting   Status = "waiting" // for an answer
	Completed Status = "completed"
	Failed    Status = "failed"
	Cancelled Status = "cancelled"
)

// Statuses lists them in the order of a job's life.
var Statuses = []Status{Queued, Starting, Running, Waiting, Completed, Failed, Cancelled}

// Final reports whether nothing more happens without a follow-up.
func (s Status) Final() bool { return s == Completed || s == Failed || s == Cancelled }

// Step is what the control plane is doing for the job.
type Step struct {
	Turn   int
	Name   string
	Status string
	At     time.Time
}

// Prompt is what one turn was asked.
type Prompt struct {
	Text         string
	OutputSchema json.RawMessage
	OpenPR       bool
}

// TaskAsked is a task that a caller asked for along with a turn.
type TaskAsked struct {
	turn.TaskRequest
	Turn     int
	Revision int64  // of the event that holds the request
	EventID  string // its id
}

// State is the fold of a job's stream. The zero value is a job that is not.
type State struct {
	ID        domain.JobID
	Owner     domain.Owner
	Submitted Submitted
	CreatedAt time.Time
	UpdatedAt time.Time
	// Correlation is that of the request which submitted the job.
	Correlation string
	// Revision, Hash and EventID are those of the stream's last record.
	Revision int64
	Hash     string
	EventID  string

	turn.Conversation
	Prompts []Prompt // by turn-1
	Step    Step
	Tasks   []TaskAsked // by n-1

	CancelRequested bool
	CancelReason    string
	// Finished is the newest end, nil while there is more to do.
	Finished *Finished
	// PR is the newest known, also while a later turn runs.
	PR         *PR
	FinishedAt time.Time

	closing        []int // turns ended by the newest closing command
	closingCommand domain.CommandID
}

// Exists reports whether the job was submitted.
func (s *State) Exists() bool { return s.ID != "" }

// Status gives where the job stands.
func (s *State) Status() Status {
	current := s.Current()
	if current == nil {
		if s.Finished == nil {
			return Queued
		}
		return Status(s.Finished.Status)
	}
	switch s.Conversation.Status(current.N) {
	case turn.StatusQueued:
		if s.Step.Turn == current.N {
			return Starting
		}
		return Queued
	case turn.StatusWaiting:
		return Waiting
	default:
		return Running
	}
}

// Done reports whether nothing more happens until somebody acts.
func (s *State) Done() bool {
	st := s.Status()
	return st.Final() || (st == Waiting && !s.CancelRequested)
}

// Prompt gives what the n-th turn was asked, nothing where the log lacks it.
func (s *State) Prompt(n int) Prompt {
	if n < 1 || n > len(s.Prompts) {
		return Prompt{}
	}
	return s.Prompts[n-1]
}

// Task finds the task asked for as the n-th of this job, nil for none.
func (s *State) Task(n int) *TaskAsked {
	if n < 1 || n > len(s.Tasks) {
		return nil
	}
	return &s.Tasks[n-1]
}

// Subject gives what a task bound to the turn needs to know.
func (s *State) Subject(n int) turn.Subject {
	sub := turn.Subject{ID: string(s.ID), Turn: n, Status: s.Conversation.Status(n), Revision: s.Revision, Hash: s.Hash, EventID: s.EventID}
	t := s.Turn(n)
	if t == nil {
		return sub
	}
	for _, q := range s.Questions {
		if q.Turn == n {
			sub.Questions = append(sub.Questions, q)
		}
	}
	sub.Message, sub.ChangedAt = t.Last, t.ChangedAt
	if s.Step.Turn == n {
		if t.Last == "" {
			sub.Message = s.Step.Name
		}
		if s.Step.At.After(sub.ChangedAt) {
			sub.Message, sub.ChangedAt = s.Step.Name, s.Step.At
		}
	}
	if t.End != nil {
		sub.Revision, sub.Hash, sub.Code = t.CloseRevision, t.CloseHash, t.End.Code
	}
	return sub
}

// Evolve takes one event into the state. The state given is left as it was.
func Evolve(s State, e event.Event) State {
	s.Conversation = s.Conversation.Clone()
	s.Evolve(e)
	return s
}

// Evolve takes one event into the state, in place: for a fold that nobody else
// holds.
func (s *State) Evolve(e event.Event) {
	s.Revision, s.Hash, s.EventID, s.UpdatedAt = e.Revision, e.Hash, e.ID, e.Time
	switch d := e.Data.(type) {
	case turn.Ended:
		if t := s.Turn(d.Turn); t == nil || t.End == nil {
			s.ending(d.Turn, e.Meta.CommandID)
		}
	case turn.Queued:
		if t := s.Turn(d.Turn); t == nil || t.End == nil {
			s.Finished = nil
		}
	}
	if s.Conversation.Evolve(e) {
		return
	}
	switch d := e.Data.(type) {
	case Submitted:
		if s.Exists() {
			return // a job is submitted once: whose it is never changes
		}
		s.ID, s.Owner, s.Submitted, s.CreatedAt = domain.JobID(e.Stream), e.Meta.Owner(), d, e.Time
		s.Correlation = e.Meta.CorrelationID
		s.setPrompt(1, Prompt{Text: d.Prompt, OutputSchema: d.OutputSchema, OpenPR: d.OpenPR})
		s.addTask(d.Task, 1, e)
	case FollowUpRequested:
		s.addTask(d.Task, d.Turn, e)
		open := s.Submitted.OpenPR
		if d.OpenPR != nil {
			open = *d.OpenPR
		}
		s.setPrompt(d.Turn, Prompt{Text: d.Prompt, OutputSchema: d.OutputSchema, OpenPR: open})
	case StepChanged:
		s.Step = Step{Turn: d.Turn, Name: d.Name, Status: d.Status, At: e.Time}
	case CancelRequested:
		s.CancelRequested, s.CancelReason = true, d.Reason
	case Finished:
		s.finish(d, e)
	}
}

// ending notes that a command ends a turn: the last record of its batch is where
// the turn's facts are frozen.
func (s *State) ending(n int, by domain.CommandID) {
	if s.closingCommand != by {
		s.closing, s.closingCommand = nil, by
	}
	s.closing = append(slices.Clone(s.closing), n)
}

func (s *State) finish(d Finished, e event.Event) {
	s.Finished, s.FinishedAt = &d, e.Time
	if s.Step.Turn == d.Turn && s.Step.Status == StepRunning {
		if s.Step.Status = StepDone; d.Status == turn.StatusFailed && d.Code != turn.AgentExited {
			s.Step.Status = StepFailed
		}
	}
	if d.Status != turn.StatusCancelled { // the wish came too late
		s.CancelRequested, s.CancelReason = false, ""
	}
	if d.PR != nil {
		s.PR = d.PR
	}
	if s.closingCommand != e.Meta.CommandID {
		return
	}
	for _, n := range s.closing {
		if t := s.Turn(n); t != nil {
			t.CloseRevision, t.CloseHash = e.Revision, e.Hash
		}
	}
	s.closing = nil
}

// maxGap bounds what one record of a damaged log can make a fold allocate.
const maxGap = 1000

// setPrompt keeps what a turn was asked when it was opened.
func (s *State) setPrompt(n int, p Prompt) {
	if n <= len(s.Prompts) || n > len(s.Prompts)+maxGap {
		return
	}
	prompts := make([]Prompt, n)
	copy(prompts, s.Prompts)
	prompts[n-1] = p
	s.Prompts = prompts
}

func (s *State) addTask(t *turn.TaskRequest, n int, e event.Event) {
	if t == nil || t.N != len(s.Tasks)+1 {
		return
	}
	s.Tasks = append(slices.Clone(s.Tasks), TaskAsked{TaskRequest: *t, Turn: n, Revision: e.Revision, EventID: e.ID})
}

// SizeBytes estimates what the state holds in memory, for caches.
func (s *State) SizeBytes() int {
	n := 1024 + 256*len(s.Tasks) + len(s.Submitted.OutputSchema)
	for _, p := range s.Prompts {
		n += 64 + len(p.Text) + len(p.OutputSchema)
	}
	for i := range s.Turns {
		t := &s.Turns[i]
		n += 256 + len(t.Last)
		if t.End != nil {
			n += 512 + len(t.End.Message) + len(t.End.Summary) + len(t.End.Result) + 128*len(t.End.Artifacts)
		}
	}
	for i := range s.Questions {
		q := &s.Questions[i]
		n += 256 + len(q.Text) + len(q.Answer) + len(q.Schema)
		for _, o := range q.Options {
			n += 16 + len(o)
		}
	}
	for _, m := range []map[string]string{s.Submitted.Env, s.Submitted.Labels} {
		for k, v := range m {
			n += 64 + len(k) + len(v)
		}
	}
	if s.PR != nil {
		n += 256 + len(s.PR.Body)
		for _, c := range s.PR.Commits {
			n += 64 + len(c.Subject)
		}
	}
	return n
}
