package tools

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"hangar/domain"
	"hangar/domain/access"
	"hangar/domain/event"
	"hangar/domain/job"
	"hangar/domain/turn"
	"hangar/handlers/mcp"
	"hangar/projections"
)

const getEvents = "get_events"

// Bounds on one answer of get_events. Events are as large as what was said to a
// job, so their bytes are bounded besides their number.
const (
	defaultEvents  = 50
	maxEvents      = 500
	maxEventsBytes = 256 << 10
	eventsPage     = 200   // records read at once
	maxWaitSeconds = 86400 // what is taken; the server's own bound cuts it
)

// ourselves is the actor of what the server did by itself.
const ourselves = "hangar"

// jobEvents are the types in a job's stream.
var jobEvents = typesOf(job.Submitted{}, job.FollowUpRequested{}, job.StepChanged{}, job.CancelRequested{}, job.Finished{},
	turn.Queued{}, turn.Started{}, turn.Progressed{}, turn.Asked{}, turn.Answered{}, turn.Withdrawn{}, turn.Ended{})

func typesOf(data ...event.Data) []string {
	var list []string
	for _, d := range data {
		list = append(list, string(d.EventType()))
	}
	return list
}

// eventsView is what get_events answers.
type eventsView struct {
	Events []eventView `json:"events"`
	// Next is the cursor behind the last event that was looked at.
	Next string `json:"next"`
	// More: there are events after Next already.
	More bool `json:"more"`
	// Done: that was all, and nothing more happens until somebody acts.
	Done bool `json:"done"`
}

// eventView is one event; Seq is its number within the job, from 1.
type eventView struct {
	Seq   int64           `json:"seq"`
	At    string          `json:"at"`
	Type  string          `json:"type"`
	Actor string          `json:"actor"`
	Text  string          `json:"text,omitempty"`
	Data  json.RawMessage `json:"data"`
}

var eventsSchema = definition(`{"type":"object","properties":{
	"events":{"type":"array","items":{"type":"object","properties":{
		"seq":{"type":"integer"},"at":{"type":"string"},"type":{"type":"string"},
		"actor":{"type":"string"},"text":{"type":"string"},"data":{"type":"object"}},
		"required":["seq","at","type","actor","data"]}},
	"next":{"type":"string","description":"Pass as after to go on"},
	"more":{"type":"boolean"},
	"done":{"type":"boolean","description":"Nothing more happens until you act"}},
	"required":["events","next","more","done"]}`)

func (c *Catalogue) eventsTool() *mcp.Tool {
	in := definition(`{"type":"object","properties":{
		"job_id":{"type":"string"},
		"after":{"type":"string","description":"next of the answer before"},
		"types":{"type":"array","items":{"type":"string"},"description":"Such as QuestionAsked, TurnEnded; default all"},
		"limit":{"type":"integer","minimum":1,"maximum":` + strconv.Itoa(maxEvents) + `},
		"wait_seconds":{"type":"number","minimum":0,"description":"Wait for one while there is none"}},
		"required":["job_id"]}`)
	return &mcp.Tool{
		Name:        getEvents,
		Description: "What happened to a job, oldest first. With wait_seconds it answers at the next event or once the job is done.",
		InputSchema: in, OutputSchema: eventsSchema,
		ReadOnly: true, Idempotent: true, Budget: mcp.Wait, Scope: access.Jobs,
		Handle: c.events(inputsOf(getEvents, in)),
	}
}

// eventsQuery is what a call of get_events asks for.
type eventsQuery struct {
	id    domain.JobID
	after int64 // the seq of the last event seen
	types []string
	limit int
	wait  time.Duration
}

func (c *Catalogue) eventsQuery(in inputs, raw json.RawMessage) (q eventsQuery, err error) {
	var a struct {
		JobID string   `json:"job_id"`
		After string   `json:"after"`
		Types []string `json:"types"`
		Limit *float64 `json:"limit"`
		Wait  *float64 `json:"wait_seconds"`
	}
	if err := in.read(raw, &a); err != nil {
		return q, err
	}
	if q.id, err = checkJobID(a.JobID); err != nil {
		return q, err
	}
	if a.After != "" {
		if q.after, err = strconv.ParseInt(a.After, 10, 64); err != nil || q.after < 0 {
			return q, domain.InvalidField("after", "%q is not a cursor; pass next as get_events gave it, or leave it out to begin at the first event",
				clip(a.After, maxNameBytes))
		}
	}
	for _, t := range a.Types {
		if !slices.Contains(jobEvents, t) {
			return q, domain.InvalidField("types", "%q is not a type of event of a job; there are: %s", clip(t, maxNameBytes), strings.Join(jobEvents, ", "))
		}
	}
	q.types = a.Types
	if q.limit, err = whole("limit", a.Limit, defaultEvents, 1, maxEvents); err != nil {
		return q, err
	}
	if a.Wait != nil {
		if *a.Wait < 0 || *a.Wait > maxWaitSeconds {
			return q, domain.InvalidField("wait_seconds", "%v is not from 0 to %d", *a.Wait, maxWaitSeconds)
		}
		q.wait = min(time.Duration(*a.Wait*float64(time.Second)), c.Wait)
	}
	return q, nil
}

func (c *Catalogue) events(in inputs) mcp.Handler {
	return func(ctx context.Context, call *mcp.Call) (mcp.Outcome, error) {
		q, err := c.eventsQuery(in, call.Arguments)
		if err != nil {
			return nil, err
		}
		s, err := c.permitted(ctx, call, string(q.id))
		if err != nil {
			return nil, err
		}
		if q.after > s.Revision+1 {
			return nil, domain.InvalidField("after", "%d is behind the job's last event, %d", q.after, s.Revision+1)
		}
		wait, cancel := context.WithTimeout(ctx, q.wait)
		defer cancel()
		for {
			v, next, err := c.readEvents(ctx, &q)
			if err != nil {
				return nil, err
			}
			if s, err = c.Folds.Job(ctx, q.id); err != nil {
				return nil, err
			}
			v.Next, v.More = strconv.FormatInt(next, 10), next <= s.Revision
			v.Done = !v.More && s.Done()
			if len(v.Events) > 0 || v.Done || wait.Err() != nil {
				return structured(v)
			}
			q.after = next
			_, err = projections.Await(wait, c.Folds, projections.Jobs, domain.Stream(q.id),
				func(s *job.State) bool { return s.Revision >= next })
			if err != nil && !errors.Is(err, context.DeadlineExceeded) {
				return nil, err
			}
			if err := ctx.Err(); err != nil {
				return nil, err
			}
		}
	}
}

// readEvents reads a job's own stream on from where the caller is. next is the seq
// of the last event looked at, whether it was wanted or not.
func (c *Catalogue) readEvents(ctx context.Context, q *eventsQuery) (v eventsView, next int64, err error) {
	v.Events, next = []eventView{}, q.after
	size := 0
	for {
		records, err := c.Records.ReadStream(ctx, domain.Stream(q.id), next, eventsPage)
		if err != nil {
			return v, next, domain.Wrap(domain.Unavailable, err, "the job's events cannot be read now")
		}
		for i := range records {
			r := &records[i]
			if len(q.types) == 0 || slices.Contains(q.types, r.Type) {
				if size += len(r.Data); len(v.Events) == q.limit || (len(v.Events) > 0 && size > maxEventsBytes) {
					return v, next, nil
				}
				e, err := viewEvent(r)
				if err != nil {
					return v, next, err
				}
				v.Events = append(v.Events, e)
			}
			next = r.Revision + 1
		}
		if len(records) < eventsPage {
			return v, next, nil
		}
	}
}

// viewEvent gives a record as callers see it: without the values of an
// environment, which are sealed, and without what a task's request is made of.
func viewEvent(r *domain.Record) (eventView, error) {
	e, err := event.Decode(*r)
	if err != nil {
		return eventView{}, err
	}
	v := eventView{Seq: r.Revision + 1, At: r.Time, Type: r.Type, Actor: string(e.Meta.Principal)}
	if v.Actor == "" {
		v.Actor = ourselves
	}
	data := any(e.Data)
	switch d := e.Data.(type) {
	case job.Submitted:
		v.Text = d.Title
		if v.Text == "" {
			v.Text = firstLine(d.Prompt)
		}
		names := []string{}
		for name := range d.Env {
			names = append(names, name)
		}
		slices.Sort(names)
		d.Task, d.Env = nil, nil
		data = struct {
			job.Submitted
			Env []string `json:"env,omitempty"`
		}{d, names}
	case job.FollowUpRequested:
		v.Text, d.Task = firstLine(d.Prompt), nil
		data = d
	default:
		v.Text = sayEvent(e.Data)
	}
	v.Data, err = mcp.Marshal(data)
	return v, err
}

// sayEvent says what an event is about in a line, "" where its type says it all.
func sayEvent(data event.Data) string {
	switch d := data.(type) {
	case job.StepChanged:
		return d.Name + ": " + d.Status
	case job.CancelRequested:
		return d.Reason
	case job.Finished:
		return outcomeLine(string(d.Status), d.Message)
	case turn.Started:
		return d.Agent
	case turn.Progressed:
		return d.Text
	case turn.Asked:
		return d.Text
	case turn.Answered:
		return string(d.Answer)
	case turn.Withdrawn:
		return d.Reason
	case turn.Ended:
		return outcomeLine(string(d.Status), d.Summary)
	}
	return ""
}

func outcomeLine(status, more string) string {
	if more == "" {
		return status
	}
	return status + ": " + more
}
