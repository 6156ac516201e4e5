package audit

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"hangar/domain"
	"hangar/domain/event"
	"hangar/domain/job"
	"hangar/domain/task"
)

// RenderJob shows a job as a client is shown one.
type RenderJob func(s *job.State) (json.RawMessage, error)

// RenderTask shows a task as tasks/get would have answered at a moment of the
// past, to its owner. The task is served then.
type RenderTask func(ctx context.Context, p *Past, t *task.State) (json.RawMessage, error)

// Past is the log as it was at some moment.
type Past struct {
	At  time.Time
	log Reader
	o   *Options
}

// ReadStream reads a stream as it was.
func (p *Past) ReadStream(ctx context.Context, stream domain.Stream, from int64, limit int) ([]domain.Record, error) {
	page, err := p.log.ReadStream(ctx, stream, from, limit)
	for i := range page {
		if !p.o.within(&page[i]) {
			return page[:i], err
		}
	}
	return page, err
}

// Options say what to replay, how far, and how to show it.
type Options struct {
	// Task or Stream: whose records; neither is all.
	Task   domain.TaskID
	Stream domain.Stream
	// At or Position is where the story stops, and how things stood then is told.
	// Zero is the end.
	At       time.Time
	Position domain.Position
	// JSON gives one record a line instead of a story for people.
	JSON bool
	// Zone is what people's times are in; nil is UTC.
	Zone *time.Location
	// RenderJob and RenderTask are needed for JSON with At or Position.
	RenderJob  RenderJob
	RenderTask RenderTask
}

// Replay tells what happened, in the order it was written down. Of a task it is
// what happened to the task and to its job.
func Replay(ctx context.Context, r Reader, w io.Writer, o Options) error {
	records, err := o.records(ctx, r)
	if err != nil {
		return err
	}
	out := bufio.NewWriter(w)
	show := storyTeller(out, o.Zone)
	if o.JSON {
		show = lineWriter(out)
	}
	var last domain.Record
	for {
		record, err := records.next(ctx)
		if err != nil {
			return fmt.Errorf("read the log: %w", err)
		}
		if record == nil || !o.within(record) {
			break
		}
		if err := show(record); err != nil {
			return err
		}
		last = *record
	}
	if o.bounded() {
		if err := o.showState(ctx, r, out, &last); err != nil {
			return err
		}
	}
	return out.Flush()
}

// records gives a cursor over what was asked for; NotFound where there is nothing.
func (o *Options) records(ctx context.Context, r Reader) (cursor, error) {
	switch {
	case o.Task != "":
		created, err := o.first(ctx, r, domain.Stream(o.Task))
		if err != nil || created == nil {
			return nil, orUnknown(err, "unknown task")
		}
		cursors := []cursor{streamOf(r, domain.Stream(o.Task))}
		if subject := subjectOf(created); subject != "" {
			cursors = append(cursors, streamOf(r, subject))
		}
		return &merged{cursors: cursors}, nil
	case o.Stream != "":
		if first, err := o.first(ctx, r, o.Stream); err != nil || first == nil {
			return nil, orUnknown(err, "unknown stream")
		}
		return streamOf(r, o.Stream), nil
	}
	return all(r), nil
}

func (o *Options) first(ctx context.Context, r Reader, stream domain.Stream) (*domain.Record, error) {
	return streamOf(r, stream).next(ctx)
}

func orUnknown(err error, message string) error {
	if err != nil {
		return fmt.Errorf("read the log: %w", err)
	}
	return domain.Errorf(domain.NotFound, "%s", message)
}

// subjectOf gives the stream of what a task is about, "" where it cannot be known.
func subjectOf(created *domain.Record) domain.Stream {
	e, err := event.Decode(*created)
	if err != nil {
		return ""
	}
	t := task.Evolve(task.State{}, e)
	id, _ := t.Subject()
	return domain.Stream(id)
}

func (o *Options) bounded() bool { return o.Position != 0 || !o.At.IsZero() }

// within reports whether a record is before the stop.
func (o *Options) within(r *domain.Record) bool {
	if o.Position != 0 && r.Position > o.Position {
		return false
	}
	return o.At.IsZero() || r.Time <= domain.FormatTime(o.At) // the form is as ordered as time is
}

// lineWriter writes each record as one line of JSON, under its own names.
func lineWriter(w io.Writer) func(*domain.Record) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	return func(r *domain.Record) error { return e.Encode(r) }
}
