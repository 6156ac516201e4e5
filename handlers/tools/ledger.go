package tools

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"hangar/commands"
	"hangar/domain"
	"hangar/domain/access"
	"hangar/domain/event"
	"hangar/domain/job"
	"hangar/domain/task"
	"hangar/domain/turn"
	"hangar/handlers/mcp"
	"hangar/projections"
)

// MetaJob is the key of a task's _meta that names its job, so that the client
// can use the other tools on it meanwhile.
const MetaJob = "hangar/job"

// The methods, for who hears of denials.
const (
	methodGet    = "tasks/get"
	methodUpdate = "tasks/update"
	methodCancel = "tasks/cancel"
)

// statusBytes bounds a status message: it is one line for people.
const statusBytes = 1 << 10

// resultBytes is how much memory rendered results may take.
const resultBytes = 16 << 20

// renderer makes of a subject what the tool would have returned, for the task
// that was bound to the subject's n-th turn.
type renderer func(s *job.State, n int, t *task.State) (*mcp.Result, error)

// taskKind is what the ledger knows of a tool whose calls become tasks.
type taskKind struct {
	scope  access.Scope
	render renderer
}

// Ledger serves the control plane's own tasks. It holds nothing but rendered
// results: whose a task is and how it stands is folded from its stream and its
// subject's.
type Ledger struct {
	commands *commands.Commands
	folds    *projections.Folds
	records  Records
	denials  Denials
	clock    domain.Clock
	kinds    map[string]taskKind // by tool, fixed once it serves
	results  *results
}

var _ mcp.Tasks = (*Ledger)(nil)

func newLedger(d Deps) *Ledger {
	return &Ledger{commands: d.Commands, folds: d.Folds, records: d.Records, denials: d.Denials, clock: d.Clock,
		kinds: map[string]taskKind{}, results: newResults(resultBytes)}
}

// authorize is the one door to a task, before every read and every change: it
// gives the task where the caller may reach it and its handle is still served.
// What is another's, has expired or never was is one error after the same work.
func (l *Ledger) authorize(ctx context.Context, caller mcp.Caller, method string, id domain.TaskID) (*task.State, error) {
	t, err := l.folds.Task(ctx, id)
	if err != nil {
		return nil, err
	}
	if t.Visible(l.clock.Now()) && t.Created.Target == task.Hangar && reaches(caller, t.Created.Owner) {
		return t, nil
	}
	if t.Exists() {
		// One that never was had to be looked for in the log, this one perhaps not.
		if _, err := l.records.ReadStream(ctx, domain.Stream(id), 0, 1); err != nil {
			return nil, unreadable(err)
		}
	}
	if l.denials != nil {
		l.denials.Denied(caller, method, id)
	}
	return nil, task.Unknown()
}

// allow checks today's policy: an owner whose scopes no longer reach the tool
// gets nothing out of its tasks and puts nothing in. It may still cancel them.
func (l *Ledger) allow(caller mcp.Caller, t *task.State) error {
	kind, ok := l.kinds[t.Created.Tool]
	if ok && !caller.Scopes.Allow(kind.scope) {
		return domain.Errorf(domain.Forbidden, "this token does not reach the tool %s; it needs the scope %s", t.Created.Tool, kind.scope)
	}
	return nil
}

// Get gives a task as it stands.
func (l *Ledger) Get(ctx context.Context, caller mcp.Caller, id domain.TaskID) (*mcp.Task, error) {
	t, err := l.authorize(ctx, caller, methodGet, id)
	if err != nil {
		return nil, err
	}
	_, sub, err := l.folds.Subject(ctx, t)
	if err != nil {
		return nil, err
	}
	shown := t.Show(&sub)
	out := head(t, shown)
	switch shown.Status {
	case turn.StatusQueued, turn.StatusRunning, turn.StatusCancelled:
		return out, nil
	case turn.StatusFailed:
		out.Error, err = taskError(t.Failed)
		return out, err
	case turn.StatusWaiting:
		if err := l.allow(caller, t); err != nil {
			return nil, err
		}
		out.InputRequests, err = inputRequests(shown.Open)
		return out, err
	case turn.StatusCompleted:
		if err := l.allow(caller, t); err != nil {
			return nil, err
		}
		out.Result, err = l.result(ctx, t)
		return out, err
	}
	return nil, fmt.Errorf("a task is shown as %q", shown.Status)
}

// wireStatus is what each status is called outside.
var wireStatus = map[turn.Status]mcp.Status{
	turn.StatusQueued:    mcp.Working,
	turn.StatusRunning:   mcp.Working,
	turn.StatusWaiting:   mcp.InputRequests,
	turn.StatusCompleted: mcp.Completed,
	turn.StatusFailed:    mcp.Failed,
	turn.StatusCancelled: mcp.Cancelled,
}

// head gives what every answer about a task has.
func head(t *task.State, shown task.Snapshot) *mcp.Task {
	out := &mcp.Task{
		ID: t.Created.Handle, Status: wireStatus[shown.Status], StatusMessage: clip(shown.Message, statusBytes),
		CreatedAt: instant(shown.CreatedAt), LastUpdatedAt: instant(shown.LastUpdatedAt), PollIntervalMs: t.Created.PollIntervalMs,
	}
	if ttl := t.Created.TTLMs; ttl > 0 {
		out.TTLMs = &ttl
	}
	if id, _ := t.Subject(); id != "" {
		out.Meta = map[string]any{MetaJob: id}
	}
	return out
}

// handle gives a task as it leaves the call that made it: it works, and nothing
// is known yet.
func handle(t *task.State) *mcp.Task {
	return head(t, task.Snapshot{Status: turn.StatusRunning, Message: t.Created.Tool + " started",
		CreatedAt: t.CreatedAt, LastUpdatedAt: t.CreatedAt})
}

func taskError(f *task.Failed) (*mcp.TaskError, error) {
	data, err := mcp.Marshal(struct {
		Reason string `json:"reason"`
	}{f.Reason})
	return &mcp.TaskError{Code: f.Code, Message: f.Message, Data: data}, err
}

// inputRequests asks for the answers to the questions, each under its key.
func inputRequests(open []turn.Question) (map[string]mcp.InputRequest, error) {
	requests := make(map[string]mcp.InputRequest, len(open))
	for i := range open {
		params, err := elicitation(open[i].Text, open[i].FormSchema())
		if err != nil {
			return nil, err
		}
		requests[open[i].Key()] = mcp.InputRequest{Method: mcp.MethodElicit, Params: params}
	}
	return requests, nil
}

func elicitation(message string, schema json.RawMessage) (json.RawMessage, error) {
	return mcp.Marshal(struct {
		Mode    string          `json:"mode"`
		Message string          `json:"message"`
		Schema  json.RawMessage `json:"requestedSchema"`
	}{"form", message, schema})
}

// Cancel records that a task is to end. One that has ended stays as it is.
func (l *Ledger) Cancel(ctx context.Context, caller mcp.Caller, id domain.TaskID) error {
	t, err := l.authorize(ctx, caller, methodCancel, id)
	if err != nil || t.Ended() {
		return err
	}
	return l.commands.CancelTask(ctx, origin(caller, domain.DerivedCommand(string(id), "cancel")), id, "")
}

// result gives what the tool of a completed task would have returned, with the
// subject as it was then.
func (l *Ledger) result(ctx context.Context, t *task.State) (json.RawMessage, error) {
	if b, ok := l.results.get(t.Created.Handle); ok {
		return b, nil
	}
	s, err := l.subjectAt(ctx, t.Completed)
	if err != nil {
		return nil, err
	}
	_, n := t.Subject()
	asked := s.Task(n)
	if asked == nil {
		return nil, domain.Errorf(domain.Internal, "the subject of a task does not know it")
	}
	render := renderJob
	if kind, ok := l.kinds[t.Created.Tool]; ok {
		render = kind.render
	}
	r, err := render(s, asked.Turn, t)
	if err != nil {
		return nil, err
	}
	b, err := mcp.AppendResult(nil, r, nil)
	if err != nil {
		return nil, err
	}
	l.results.put(t.Created.Handle, b)
	return b, nil
}

// subjectAt folds a task's subject up to the revision its end was decided at, and
// makes sure that it is the very stream the decision was about.
func (l *Ledger) subjectAt(ctx context.Context, done *task.Completed) (*job.State, error) {
	s, err := l.folds.Job(ctx, domain.JobID(done.Subject))
	if err != nil {
		return nil, err
	}
	if s.Revision != done.AtRevision {
		s = &job.State{}
		err := l.scan(ctx, domain.Stream(done.Subject), func(e event.Event) bool {
			if e.Revision > done.AtRevision {
				return false
			}
			s.Evolve(e)
			return e.Revision < done.AtRevision
		})
		if err != nil {
			return nil, err
		}
	}
	if s.Revision != done.AtRevision || s.Hash != string(done.SubjectHash) {
		return nil, domain.Errorf(domain.Internal, "the stream of a task's subject is not the one its end was decided on; run `hangar audit verify`")
	}
	return s, nil
}

// scanPage is how many records one read of a stream gives.
const scanPage = 1000

// scan reads a stream from its beginning until see says that it has seen enough.
func (l *Ledger) scan(ctx context.Context, stream domain.Stream, see func(event.Event) bool) error {
	for from := int64(0); ; from += scanPage {
		page, err := l.records.ReadStream(ctx, stream, from, scanPage)
		if err != nil {
			return unreadable(err)
		}
		for _, r := range page {
			e, err := event.Decode(r)
			if err != nil {
				return unreadable(err)
			}
			if !see(e) {
				return nil
			}
		}
		if len(page) < scanPage {
			return nil
		}
	}
}

// unreadable says that the log cannot be read now, or not by this version.
func unreadable(err error) error {
	var known *domain.Error
	var unknown *event.UnknownError
	switch {
	case errors.As(err, &known), errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err
	case errors.As(err, &unknown):
		return domain.Errorf(domain.Unavailable, "%w", unknown)
	}
	return domain.Wrap(domain.Unavailable, err, "the event log cannot be read; try again later")
}
