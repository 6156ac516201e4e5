package audit

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"hangar/domain"
	"hangar/domain/event"
	"hangar/domain/job"
	"hangar/domain/task"
	"hangar/domain/turn"
)

// unknownTask is what tasks/get answers once a handle is no longer served.
const unknownTask = `{"error":{"code":-32602,"message":"unknown task"}}`

// showState tells how things stood at the stop. Only a task and a job have a
// state that is shown; last is the last record before the stop.
func (o *Options) showState(ctx context.Context, r Reader, w io.Writer, last *domain.Record) error {
	v, err := o.stateAt(ctx, r)
	if err != nil || v.Task == nil && v.Subject == nil {
		return err
	}
	at := o.At
	if at.IsZero() {
		at, _ = domain.ParseTime(last.Time)
	}
	if o.JSON {
		return o.writeState(w, v, at)
	}
	return tellState(w, v, at)
}

// stateAt folds what was asked for, up to the stop.
func (o *Options) stateAt(ctx context.Context, r Reader) (v TaskState, err error) {
	stream := o.Stream
	if o.Task != "" {
		stream = domain.Stream(o.Task)
	}
	switch stream.Category() {
	case task.Category:
		v.Task = &task.State{}
		if err := o.fold(ctx, r, stream, -1, v.Task.Evolve); err != nil {
			return v, err
		}
		id, _ := v.Task.Subject()
		stream = domain.Stream(id)
	case job.Category:
	default:
		return v, nil
	}
	if stream == "" {
		return v, nil
	}
	v.Subject = &job.State{}
	if err := o.fold(ctx, r, stream, -1, v.Subject.Evolve); err != nil {
		return v, err
	}
	if v.Task != nil && v.Task.Completed != nil {
		v.Done = &job.State{}
		err = o.fold(ctx, r, stream, v.Task.Completed.AtRevision, v.Done.Evolve)
	}
	return v, err
}

// fold reads a stream up to the stop, and no further than a revision, where that
// is not -1.
func (o *Options) fold(ctx context.Context, r Reader, stream domain.Stream, revision int64, evolve func(event.Event)) error {
	records := streamOf(r, stream)
	for {
		record, err := records.next(ctx)
		if err != nil {
			return fmt.Errorf("read the log: %w", err)
		}
		if record == nil || !o.within(record) || revision >= 0 && record.Revision > revision {
			return nil
		}
		e, err := event.Decode(*record)
		if err != nil {
			return fmt.Errorf("how things stood cannot be told: %w", err)
		}
		evolve(e)
	}
}

// writeState writes the state as the last line of JSON.
func (o *Options) writeState(w io.Writer, v TaskState, at time.Time) (err error) {
	if o.RenderJob == nil || o.RenderTask == nil {
		return errors.New("audit: no renderer of states was given")
	}
	var line struct {
		State struct {
			Task json.RawMessage `json:"task,omitempty"`
			Job  json.RawMessage `json:"job,omitempty"`
		} `json:"state"`
	}
	switch {
	case v.Task == nil:
	case !v.Task.Visible(at):
		line.State.Task = json.RawMessage(unknownTask)
	default:
		if line.State.Task, err = o.RenderTask(v); err != nil {
			return fmt.Errorf("the state of the task: %w", err)
		}
	}
	if v.Subject != nil && v.Subject.Exists() {
		if line.State.Job, err = o.RenderJob(v.Subject); err != nil {
			return fmt.Errorf("the state of the job: %w", err)
		}
	}
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	return e.Encode(line)
}

// tellState tells the state in a few words.
func tellState(w io.Writer, v TaskState, at time.Time) error {
	fmt.Fprintln(w, "\nhow things stood then:")
	if v.Task != nil {
		fmt.Fprintf(w, "  task %s\n", taskInWords(v, at))
	}
	if v.Subject != nil && v.Subject.Exists() {
		fmt.Fprintf(w, "  job  %s\n", jobInWords(v.Subject))
	}
	return nil
}

func taskInWords(v TaskState, at time.Time) string {
	if !v.Task.Visible(at) {
		return "not served: unknown task"
	}
	var sub turn.Subject
	if v.Subject != nil {
		if _, n := v.Task.Subject(); v.Subject.Task(n) != nil {
			sub = v.Subject.Subject(v.Subject.Task(n).Turn)
		}
	}
	shown := v.Task.Show(&sub)
	status := string(shown.Status)
	switch shown.Status { //nolint:exhaustive // the rest are called the same outside
	case turn.StatusRunning:
		status = "working"
	case turn.StatusWaiting:
		status = "input_required"
	}
	return status + ": " + quoted(shown.Message)
}

func jobInWords(s *job.State) string {
	text := string(s.Status())
	for _, q := range s.Open(0) {
		text += fmt.Sprintf("; %s open: %s", q.Key(), quoted(q.Text))
	}
	if f := s.Finished; f != nil && f.Message != "" {
		text += ": " + quoted(f.Message)
	}
	return text
}
