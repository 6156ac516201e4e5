package task_test

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"hangar/domain"
	"hangar/domain/event"
	"hangar/domain/job"
	"hangar/domain/task"
	"hangar/domain/turn"
)

// ledger is one job with its tasks, as their streams. Every command goes the way
// it goes in the product: through Decide, the encoding and Evolve.
type ledger struct {
	t        *rapid.T
	now      time.Time
	commands int
	job      *stream[job.State]
	tasks    []*registered
	journals map[int][]turn.Line
	// seen are the subjects that somebody has looked at, some long ago.
	seen []kept[turn.Subject]
}

// registered is a task's stream, and what was shown of it when it ended.
type registered struct {
	*stream[task.State]
	asked   *job.TaskAsked
	atEnd   string
	subject turn.Subject // as it was at the end
}

// stream is the log of one aggregate, and every state that was handed out.
type stream[S any] struct {
	name    domain.Stream
	evolve  func(S, event.Event) S // a new value
	inPlace func(*S, event.Event)  // the fold of one that nobody else holds
	records []domain.Record
	events  []event.Event
	state   S // by evolve
	fold    S // by inPlace
	kept    []kept[S]
}

// kept is a value, with what it was when it was handed out.
type kept[S any] struct {
	value S
	text  string
}

// dump writes a value out with everything it points to, exported or not.
func dump(v any) string {
	var b strings.Builder
	write(&b, reflect.ValueOf(v))
	return b.String()
}

func write(b *strings.Builder, v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		if v.IsNil() {
			b.WriteString("nil")
			return
		}
		write(b, v.Elem())
	case reflect.Struct:
		b.WriteString("{")
		for i := range v.NumField() {
			if name := v.Type().Field(i).Name; name != "loc" { // of a time: it has no state of ours
				b.WriteString(name + ":")
				write(b, v.Field(i))
				b.WriteString(" ")
			}
		}
		b.WriteString("}")
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			fmt.Fprintf(b, "%q", v.Bytes())
			return
		}
		b.WriteString("[")
		for i := range v.Len() {
			write(b, v.Index(i))
			b.WriteString(" ")
		}
		b.WriteString("]")
	case reflect.Map:
		keys := v.MapKeys()
		slices.SortFunc(keys, func(a, b reflect.Value) int { return strings.Compare(a.String(), b.String()) })
		for _, k := range keys {
			b.WriteString(k.String() + "=")
			write(b, v.MapIndex(k))
			b.WriteString(" ")
		}
	case reflect.String:
		b.WriteString(strconv.Quote(v.String()))
	case reflect.Int, reflect.Int64:
		b.WriteString(strconv.FormatInt(v.Int(), 10))
	default:
		fmt.Fprintf(b, "%#v", v)
	}
}

// diff compares two values with what they do not export.
func diff(a, b any) string {
	return cmp.Diff(a, b, cmp.Exporter(func(reflect.Type) bool { return true }))
}

func newJob(name domain.Stream) *stream[job.State] {
	return &stream[job.State]{name: name, evolve: job.Evolve, inPlace: (*job.State).Evolve}
}

func newTask(name domain.Stream) *stream[task.State] {
	return &stream[task.State]{name: name, evolve: task.Evolve, inPlace: (*task.State).Evolve}
}

// add appends a batch and folds it, as one command does.
func (s *stream[S]) add(id domain.CommandID, at time.Time, batch []event.Data) {
	meta, err := event.EncodeMeta(event.Meta{Tenant: "acme", Principal: "alice", CommandID: id, CorrelationID: "c-1"})
	if err != nil {
		panic(err)
	}
	for i, d := range batch {
		typ, version, data, err := event.Encode(d)
		if err != nil {
			panic(err)
		}
		r := domain.Record{ID: domain.RecordID(id, s.name, i), Stream: s.name, Revision: int64(len(s.records)),
			Type: string(typ), Version: version, Time: domain.FormatTime(at), Data: data, Meta: meta}
		if len(s.records) > 0 {
			r.Prev = s.records[len(s.records)-1].Hash
		}
		r.Hash = string(domain.Sum([]byte(r.ID + r.Data + r.Prev)))
		s.records = append(s.records, r)
		e := decode(r)
		s.events = append(s.events, e)
		s.state = s.evolve(s.state, e)
		s.inPlace(&s.fold, e)
		s.kept = append(s.kept, kept[S]{s.state, dump(s.state)})
	}
}

func decode(r domain.Record) event.Event {
	e, err := event.Decode(r)
	if err != nil {
		panic(err)
	}
	return e
}

// replay folds records anew, in both ways.
func (s *stream[S]) replay(records []domain.Record) (value, inPlace S) {
	for _, r := range records {
		e := decode(r)
		value = s.evolve(value, e)
		s.inPlace(&inPlace, e)
	}
	return value, inPlace
}

// decide asks twice and sees to it that asking changes nothing: neither the state
// nor the command.
func decide[S, C any](t *rapid.T, f func(*S, C) ([]event.Data, error), s *S, c C) ([]event.Data, error) {
	before := dump(s) + dump(c)
	first, err := f(s, c)
	second, again := f(s, c)
	if d := cmp.Diff(first, second); d != "" || fmt.Sprint(err) != fmt.Sprint(again) {
		t.Fatalf("%T is decided otherwise the second time: %v, %v\n%s", c, err, again, d)
	}
	if after := dump(s) + dump(c); after != before {
		t.Fatalf("deciding %T changed its state or itself:\n%s\n%s", c, before, after)
	}
	if err != nil && len(first) > 0 {
		t.Fatalf("%T gives events and an error: %v", c, err)
	}
	return first, err
}

func newLedger(t *rapid.T) *ledger {
	return &ledger{t: t, now: time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC), journals: map[int][]turn.Line{},
		job: newJob(domain.Stream(domain.EntityID(job.Category, "submit")))}
}

// id names the next command.
func (l *ledger) id() domain.CommandID {
	l.commands++
	return domain.DerivedCommand("test", fmt.Sprint(l.commands))
}

// do carries out a command on the job; the error is a refusal.
func (l *ledger) do(c job.Command) error {
	open := l.unended()
	batch, err := decide(l.t, job.Decide, &l.job.state, c)
	if err != nil {
		l.refused(err)
		return err
	}
	l.job.add(l.id(), l.now, batch)
	l.checkJobBatch(open, batch)
	return nil
}

// on carries out a command on a task.
func (l *ledger) on(r *registered, c task.Command) {
	batch, err := decide(l.t, task.Decide, &r.state, c)
	if err != nil {
		l.refused(err)
		return
	}
	was := r.state.Ended()
	r.add(l.id(), l.now, batch)
	if r.state.Ended() && !was {
		r.subject = l.look(r.asked.Turn)
		r.atEnd = dump(r.state.Show(&r.subject))
	}
}

// refused checks that a refusal is one that a caller may read.
func (l *ledger) refused(err error) {
	switch code := domain.CodeOf(err); code {
	case domain.Invalid, domain.NotFound, domain.Conflict, domain.TooLarge:
	default:
		l.t.Fatalf("a refusal with the code %s: %v", code, err)
	}
}

// look takes the subject of a turn as it stands, and remembers it.
func (l *ledger) look(n int) turn.Subject {
	sub := l.job.state.Subject(n)
	l.seen = append(l.seen, kept[turn.Subject]{sub, dump(sub)})
	return sub
}

// unended counts the turns that go on.
func (l *ledger) unended() (n int) {
	for i := range l.job.state.Turns {
		if l.job.state.Turns[i].End == nil {
			n++
		}
	}
	return n
}
