package projections_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"hangar/domain"
	"hangar/domain/event"
	"hangar/domain/turn"
	"hangar/projections"
)

// said is what a stream of progress folds to. "end" makes it final, "boom" makes
// the fold panic.
type said struct {
	texts    string
	revision int64
}

var saids = &projections.Fold[said]{
	Evolve: func(s said, e event.Event) said {
		text := e.Data.(turn.Progressed).Text
		if text == "boom" {
			panic("boom")
		}
		return said{s.texts + text + " ", e.Revision}
	},
	Size:  func(s *said) int { return len(s.texts) },
	Final: func(s *said) bool { return strings.Contains(s.texts, "end") },
}

// scribe is a log that a test writes by hand: what is stored and what was told
// to the cache are two things.
type scribe struct {
	projections.Reader
	mu      sync.Mutex
	streams map[domain.Stream][]domain.Record
	reads   int
	// before is called before each read, with the number of it; nil for nothing.
	before func(n int) error
	// hide is how many of a stream's newest records a read does not see.
	hide int
}

func newScribe() *scribe { return &scribe{streams: map[domain.Stream][]domain.Record{}} }

// store adds records that nobody is told of yet.
func (s *scribe) store(stream domain.Stream, texts ...string) []domain.Record {
	s.mu.Lock()
	defer s.mu.Unlock()
	from := len(s.streams[stream])
	for _, text := range texts {
		s.streams[stream] = append(s.streams[stream], domain.Record{ID: "r", Stream: stream, Revision: int64(len(s.streams[stream])),
			Type: "TurnProgressed", Version: 1, Time: "2026-05-01T12:00:00.000000Z", Data: fmt.Sprintf(`{"turn":1,"text":%q}`, text), Meta: "{}"})
	}
	return s.streams[stream][from:]
}

func (s *scribe) ReadStream(ctx context.Context, stream domain.Stream, from int64, limit int) ([]domain.Record, error) {
	s.mu.Lock()
	s.reads++
	n, before := s.reads, s.before
	list := s.streams[stream]
	list = list[:max(len(list)-s.hide, 0)]
	s.mu.Unlock()
	if before != nil {
		if err := before(n); err != nil {
			return nil, err
		}
	}
	if from > int64(len(list)) {
		from = int64(len(list))
	}
	list = list[from:]
	return list[:min(limit, len(list))], ctx.Err()
}

func (s *scribe) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.reads
}

// get gives a stream's state as text, or its error.
func get(f *projections.Folds, stream domain.Stream) string {
	s, err := projections.Get(context.Background(), f, saids, stream)
	if err != nil {
		return string(domain.CodeOf(err)) + ": " + err.Error()
	}
	return strings.TrimSpace(s.texts)
}

func check(t *testing.T, what, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("%s it is %q, want %q", what, got, want)
	}
}

func TestAStateIsReadOnceAndThenTold(t *testing.T) {
	log := newScribe()
	f := projections.NewFolds(log, 1<<20)
	log.store("job-a", "1", "2")
	check(t, "read", get(f, "job-a"), "1 2")
	first, err := projections.Get(t.Context(), f, saids, "job-a")
	if err != nil {
		t.Fatal(err)
	}
	f.Observe(log.store("job-a", "3"))
	f.Observe(log.store("job-b", "x"))
	check(t, "told", get(f, "job-a"), "1 2 3")
	f.Observe(log.streams["job-a"]) // told again
	check(t, "told twice", get(f, "job-a"), "1 2 3")
	if first.texts != "1 2 " {
		t.Errorf("the state handed out has become %q", first.texts)
	}
	if n := log.count(); n != 1 {
		t.Errorf("the stream was read %d times", n)
	}
}

func TestLongStreamsAreReadToTheirEnd(t *testing.T) {
	log := newScribe()
	f := projections.NewFolds(log, 1<<20)
	for i := range 2000 {
		log.store("job-a", fmt.Sprint(i))
	}
	if got := get(f, "job-a"); !strings.HasSuffix(got, " 1999") || strings.Count(got, " ") != 1999 {
		t.Errorf("it ends with %q", got[len(got)-10:])
	}
}

func TestNothingIsHeldOfWhatIsNot(t *testing.T) {
	log := newScribe()
	f := projections.NewFolds(log, 1<<20)
	for range 3 {
		check(t, "asked for", get(f, "job-none"), "")
	}
	if entries, bytes, _ := f.Held(); entries != 0 || bytes != 0 || log.count() != 3 {
		t.Errorf("%d entries of %d bytes are held, after %d reads", entries, bytes, log.count())
	}
	f.Observe(log.store("job-none", "1"))
	check(t, "once it is", get(f, "job-none"), "1")
}

// A gap, a record that cannot be read and a fold that panics drop the entry; the
// next reader reads again and is told what is wrong, if it still is.
func TestWhatCannotBeContinuedIsReadAgain(t *testing.T) {
	for _, c := range []struct {
		name, text string
		damage     func(*domain.Record)
		want       string
	}{
		{"a gap", "4", nil, "1 2 3 4"},
		{"a type that is not known", "3", func(r *domain.Record) { r.Type, r.Version = "TurnSailed", 4 }, "unavailable: event type TurnSailed (version 4) is not known to this version of hangar"},
		{"a record that cannot be read", "3", func(r *domain.Record) { r.Data = "{" }, "unavailable: the event log cannot be read; try again later"},
		{"a fold that panics", "boom", nil, "unavailable: the event log cannot be read; try again later"},
	} {
		log := newScribe()
		f := projections.NewFolds(log, 1<<20)
		log.store("job-a", "1", "2")
		get(f, "job-a")
		if c.name == "a gap" {
			log.store("job-a", "3")
		}
		told := log.store("job-a", c.text)
		if c.damage != nil {
			c.damage(&log.streams["job-a"][len(log.streams["job-a"])-1])
		}
		f.Observe(told)
		if entries, bytes, _ := f.Held(); entries != 0 || bytes != 0 {
			t.Errorf("%s: %d entries of %d bytes are held", c.name, entries, bytes)
		}
		for range 2 { // and nobody waits for a read that never ended
			check(t, c.name+":", get(f, "job-a"), c.want)
		}
		f.Observe(log.store("job-b", "x"))
		check(t, "beside "+c.name, get(f, "job-b"), "x")
	}
}

func TestErrorsOfTheLogAreToldAndNotHeld(t *testing.T) {
	log := newScribe()
	f := projections.NewFolds(log, 1<<20)
	log.store("job-a", "1")
	for _, c := range []struct {
		err  error
		want string
	}{
		{errors.New("disk I/O error (10)"), "unavailable: the event log cannot be read; try again later"},
		{domain.Errorf(domain.Unavailable, "the log is moving"), "unavailable: the log is moving"},
		{context.Canceled, "internal: context canceled"},
	} {
		log.before = func(int) error { return c.err }
		check(t, "failing", get(f, "job-a"), c.want)
		log.before = nil
		check(t, "again", get(f, "job-a"), "1")
		f.Forget()
	}
}

func TestForget(t *testing.T) {
	log := newScribe()
	f := projections.NewFolds(log, 1<<20)
	log.store("job-a", "1", "2")
	get(f, "job-a")
	log.streams["job-a"] = log.streams["job-a"][:1] // it went back
	f.Forget()
	if entries, bytes, _ := f.Held(); entries != 0 || bytes != 0 {
		t.Errorf("%d entries of %d bytes are held", entries, bytes)
	}
	check(t, "after it", get(f, "job-a"), "1")
}

// during runs a case in which things happen while a stream that holds "1 2" is
// being read. Each read waits for a word on gate.
func during(t *testing.T, f func(t *testing.T, log *scribe, folds *projections.Folds, begin func() <-chan string, gate chan<- error)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		log := newScribe()
		log.store("job-a", "1", "2")
		gate := make(chan error)
		log.before = func(int) error { return <-gate }
		folds := projections.NewFolds(log, 1<<20)
		begin := func() <-chan string {
			got := make(chan string, 1)
			go func() { got <- get(folds, "job-a") }()
			synctest.Wait() // until it reads, or waits for who does
			return got
		}
		f(t, log, folds, begin, gate)
	})
}

func TestWhatIsToldDuringAReadCounts(t *testing.T) {
	during(t, func(t *testing.T, log *scribe, f *projections.Folds, begin func() <-chan string, gate chan<- error) {
		first, second := begin(), begin()
		f.Observe(log.store("job-a", "3"))
		f.Observe(log.store("job-a", "4", "5"))
		gate <- nil
		check(t, "for who read", <-first, "1 2 3 4 5")
		check(t, "for who waited", <-second, "1 2 3 4 5")
		check(t, "later", get(f, "job-a"), "1 2 3 4 5")
		if n := log.count(); n != 1 {
			t.Errorf("the stream was read %d times", n)
		}
	})
}

func TestAStreamThatBeginsDuringAReadCounts(t *testing.T) {
	during(t, func(t *testing.T, log *scribe, f *projections.Folds, begin func() <-chan string, gate chan<- error) {
		log.streams["job-a"] = nil
		first := begin()
		f.Observe(log.store("job-a", "1"))
		gate <- nil
		check(t, "for who read", <-first, "1")
		check(t, "later", get(f, "job-a"), "1")
	})
}

// What was told is never forgotten because the read that it fell into was too
// old: the stream is read on.
func TestAReadThatIsTooOldIsReadOn(t *testing.T) {
	during(t, func(t *testing.T, log *scribe, f *projections.Folds, begin func() <-chan string, gate chan<- error) {
		first := begin()
		log.store("job-a", "3") // told before the entry was there
		f.Observe(log.store("job-a", "4"))
		gate <- nil
		gate <- nil
		check(t, "for who read", <-first, "1 2 3 4")
	})
	during(t, func(t *testing.T, log *scribe, f *projections.Folds, begin func() <-chan string, gate chan<- error) {
		first := begin()
		log.store("job-a", "3")
		f.Observe(log.store("job-a", "4"))
		log.hide = 2 // and a log that does not give what it told of
		for range 4 {
			gate <- nil
		}
		check(t, "for who read", <-first, "unavailable: the event log cannot be read; try again later")
		log.hide, log.before = 0, nil
		check(t, "later", get(f, "job-a"), "1 2 3 4")
	})
}

func TestWhatCannotBeReadDuringAReadIsTold(t *testing.T) {
	during(t, func(t *testing.T, log *scribe, f *projections.Folds, begin func() <-chan string, gate chan<- error) {
		first := begin()
		f.Observe(log.store("job-a", "boom"))
		gate <- nil
		check(t, "for who read", <-first, "unavailable: the event log cannot be read; try again later")
		if entries, _, _ := f.Held(); entries != 0 {
			t.Error("an entry is held")
		}
	})
}

func TestForgottenDuringAReadItIsReadAnew(t *testing.T) {
	during(t, func(t *testing.T, log *scribe, f *projections.Folds, begin func() <-chan string, gate chan<- error) {
		first := begin()
		f.Observe(log.store("job-a", "3"))
		log.streams["job-a"] = nil // it went back
		log.store("job-a", "x")
		f.Forget()
		gate <- nil
		gate <- nil
		check(t, "for who read", <-first, "x")
		check(t, "later", get(f, "job-a"), "x")
	})
}

// Who reads for others and is given up, or fails, takes nobody with it.
func TestAReaderThatFailsLeavesTheOthers(t *testing.T) {
	for _, fault := range []error{context.Canceled, errors.New("disk I/O error")} {
		during(t, func(t *testing.T, _ *scribe, _ *projections.Folds, begin func() <-chan string, gate chan<- error) {
			first, second := begin(), begin()
			gate <- fault
			if got := <-first; got == "1 2" {
				t.Error("who failed got it all the same")
			}
			gate <- nil
			check(t, "for who waited", <-second, "1 2")
		})
	}
}

func TestWhoWaitsForAReadMayGiveUp(t *testing.T) {
	during(t, func(t *testing.T, _ *scribe, f *projections.Folds, begin func() <-chan string, gate chan<- error) {
		first := begin()
		ctx, cancel := context.WithCancel(t.Context())
		gone := make(chan error, 1)
		go func() { _, err := projections.Get(ctx, f, saids, "job-a"); gone <- err }()
		synctest.Wait()
		cancel()
		if err := <-gone; !errors.Is(err, context.Canceled) {
			t.Errorf("it gave up with %v", err)
		}
		gate <- nil
		check(t, "for who read", <-first, "1 2")
	})
}

// held lists which of some streams need no read.
func held(log *scribe, f *projections.Folds, streams ...domain.Stream) string {
	var list []string
	for _, s := range streams {
		before := log.count()
		if get(f, s); log.count() == before {
			list = append(list, string(s))
		}
	}
	return strings.Join(list, " ")
}

func TestEndedStreamsAreForgottenFirst(t *testing.T) {
	log := newScribe()
	f := projections.NewFolds(log, 30)
	log.store("a-1", "live")       // 5 bytes
	log.store("a-2", "x", "end")   // 6 bytes
	log.store("a-3", "end")        // 4 bytes
	log.store("a-4", "live", "on") // 8 bytes
	for _, s := range []domain.Stream{"a-1", "a-2", "a-3", "a-4", "a-2"} {
		get(f, s)
	}
	log.store("a-5", "12345678901") // 12 bytes, 35 in all
	get(f, "a-5")
	if _, bytes, _ := f.Held(); bytes != 25 {
		t.Errorf("%d bytes are held", bytes)
	}
	check(t, "of all", held(log, f, "a-1", "a-4", "a-5"), "a-1 a-4 a-5")
}

// The bound holds however an entry grows, wherever it stands.
func TestTheBoundHolds(t *testing.T) {
	for _, streams := range [][]domain.Stream{{"a-1", "a-2", "a-3"}, {"a-3", "a-2", "a-1"}} {
		for _, ending := range []string{"", " end"} {
			log := newScribe()
			f := projections.NewFolds(log, 45)
			for _, s := range []domain.Stream{"a-1", "a-2", "a-3"} {
				log.store(s, "123456789"+ending)
			}
			for _, s := range streams {
				get(f, s)
			}
			f.Observe(log.store("a-1", "123456789 123456789"))
			if _, bytes, _ := f.Held(); bytes > 45 {
				t.Errorf("read %v, %q: %d bytes are held of 45", streams, ending, bytes)
			}
			check(t, "what grew:", held(log, f, "a-1"), "a-1")
		}
	}
	log := newScribe()
	f := projections.NewFolds(log, 40)
	log.store("a-1", strings.Repeat("x", 100))
	log.store("a-2", "y")
	for range 2 {
		check(t, "one that is too large", get(f, "a-1"), strings.Repeat("x", 100))
	}
	get(f, "a-2")
	if entries, bytes, _ := f.Held(); entries != 1 || bytes != 2 {
		t.Errorf("beside it %d entries of %d bytes are held", entries, bytes)
	}
}
