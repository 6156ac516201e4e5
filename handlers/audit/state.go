package audit

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
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
	p := &Past{At: o.At, log: r, o: o}
	if p.At.IsZero() {
		p.At, _ = domain.ParseTime(last.Time)
	}
	v, err := o.stateAt(ctx, p)
	if err != nil || v.task == nil && v.job == nil {
		return err
	}
	if o.JSON {
		return o.writeState(ctx, w, p, v)
	}
	return tellState(w, v, p.At)
}

// state is how a task and its job stood; nil for what was not asked for.
type state struct {
	task *task.State
	job  *job.State
}

// stateAt folds what was asked for.
func (o *Options) stateAt(ctx context.Context, p *Past) (v state, err error) {
	stream := o.Stream
	if o.Task != "" {
		stream = domain.Stream(o.Task)
	}
	if stream.Category() == task.Category {
		v.task = &task.State{}
		if err := fold(ctx, p, stream, v.task.Evolve); err != nil {
			return v, err
		}
		id, _ := v.task.Subject()
		stream = domain.Stream(id)
	}
	if stream.Category() == job.Category {
		v.job = &job.State{}
		err = fold(ctx, p, stream, v.job.Evolve)
	}
	return v, err
}

// fold reads a stream to its end.
func fold(ctx context.Context, p *Past, stream domain.Stream, evolve func(event.Event)) error {
	for from := int64(0); ; {
		page, err := p.ReadStream(ctx, stream, from, pageRecords)
		if err != nil {
			return fmt.Errorf("read the log: %w", err)
		}
		for _, r := range page {
			e, err := event.Decode(r)
			if err != nil {
				return fmt.Errorf("how things stood cannot be told: %w", err)
			}
			evolve(e)
			from = r.Revision + 1
		}
		if len(page) < pageRecords {
			return nil
		}
	}
}

// writeState writes the state as the last line of JSON.
func (o *Options) writeState(ctx context.Context, w io.Writer, p *Past, v state) (err error) {
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
	case v.task == nil:
	case !v.task.Visible(p.At):
		line.State.Task = json.RawMessage(unknownTask)
	default:
		if line.State.Task, err = o.RenderTask(ctx, p, v.task); err != nil {
			return fmt.Errorf("the state of the task: %w", err)
		}
	}
	if v.job != nil && v.job.Exists() {
		if line.State.Job, err = o.RenderJob(v.job); err != nil {
			return fmt.Errorf("the state of the job: %w", err)
		}
	}
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	return e.Encode(line)
}

// tellState tells the state in a few words.
func tellState(w io.Writer, v state, at time.Time) error {
	fmt.Fprintln(w, "\nhow things stood then:")
	if v.task != nil {
		fmt.Fprintf(w, "  task %s\n", taskInWords(v, at))
	}
	if v.job != nil && v.job.Exists() {
		fmt.Fprintf(w, "  job  %s\n", jobInWords(v.job))
	}
	return nil
}

func taskInWords(v state, at time.Time) string {
	if !v.task.Visible(at) {
		return "not served: unknown task"
	}
	var sub turn.Subject
	if v.job != nil {
		if _, n := v.task.Subject(); v.job.Task(n) != nil {
			sub = v.job.Subject(v.job.Task(n).Turn)
		}
	}
	shown := v.task.Show(&sub)
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
	parts := []string{string(s.Status())}
	for _, q := range s.Open(0) {
		parts = append(parts, q.Key()+" open: "+quoted(q.Text))
	}
	text := strings.Join(parts, "; ")
	if f := s.Finished; f != nil && f.Message != "" {
		text += ": " + quoted(f.Message)
	}
	return text
}
