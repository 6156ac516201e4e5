package projections_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"hangar/domain"
	"hangar/eventstore"
	"hangar/eventstore/memory"
	"hangar/projections"
)

// Whatever is asked, told, forgotten and evicted in between: a state is the fold
// of its stream up to a revision that is never behind what was told, and one that
// was handed out never changes.
func TestAnyInterleavingOfReadsAndCommits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const most = 40
		log := newScribe()
		f := projections.NewFolds(log, most)
		var untold [][]domain.Record // groups, in commit order
		told := map[domain.Stream]int{}
		type handed struct {
			state *said
			text  string
		}
		var handedOut []handed
		streams := rapid.SampledFrom([]domain.Stream{"a-1", "a-2", "a-3", "a-4"})
		texts := rapid.SliceOfN(rapid.SampledFrom([]string{"x", "0123456789", "end"}), 1, 3)
		tell := func() {
			f.Observe(untold[0])
			for _, r := range untold[0] {
				told[r.Stream]++
			}
			untold = untold[1:]
		}
		t.Repeat(map[string]func(*rapid.T){
			"": func(t *rapid.T) {
				if entries, bytes, _ := f.Held(); bytes > most && entries > 1 {
					t.Fatalf("%d entries hold %d bytes of %d", entries, bytes, most)
				}
				for _, h := range handedOut {
					if h.state.texts != h.text {
						t.Fatalf("a state handed out as %q has become %q", h.text, h.state.texts)
					}
				}
			},
			"store": func(t *rapid.T) {
				untold = append(untold, log.store(streams.Draw(t, "stream"), texts.Draw(t, "texts")...))
			},
			"tell": func(t *rapid.T) {
				if len(untold) == 0 {
					t.Skip("all is told")
				}
				tell()
			},
			"store and tell": func(t *rapid.T) { // as an engine does
				untold = append(untold, log.store(streams.Draw(t, "stream"), texts.Draw(t, "texts")...))
				for len(untold) > 0 {
					tell()
				}
			},
			"get": func(t *rapid.T) {
				stream := streams.Draw(t, "stream")
				s, err := projections.Get(context.Background(), f, saids, stream)
				if err != nil {
					t.Fatal(err)
				}
				n := 0 // records the state is of
				if s.texts != "" {
					n = int(s.revision) + 1
				}
				if n < told[stream] || n > len(log.streams[stream]) {
					t.Fatalf("of %s %d records were stored and %d told, and it is of %d", stream, len(log.streams[stream]), told[stream], n)
				}
				if want := fold(log.streams[stream][:n]); s.texts != want {
					t.Fatalf("of %s at revision %d it is %q, want %q", stream, n-1, s.texts, want)
				}
				handedOut = append(handedOut, handed{s, s.texts})
			},
			"forget": func(*rapid.T) { f.Forget() },
		})
	})
}

// fold gives the texts of records.
func fold(records []domain.Record) string {
	var b strings.Builder
	for _, r := range records {
		text := strings.TrimSuffix(strings.SplitAfter(r.Data, `"text":"`)[1], `"}`)
		b.WriteString(text + " ")
	}
	return b.String()
}

// With writers, readers and evictions at once, who has written reads what it
// wrote, and everybody reads a fold of the log.
func TestWhatWasWrittenIsRead(t *testing.T) {
	var f *projections.Folds
	store := memory.Open(memory.Options{Observer: func(r []eventstore.Record) { f.Observe(r) }})
	f = projections.NewFolds(store, 600)
	const streams, appends = 6, 60
	name := func(i int) domain.Stream { return domain.Stream(fmt.Sprint("a-", i%streams)) }

	done := make(chan struct{})
	var writers, readers sync.WaitGroup
	for i := range streams {
		writers.Go(func() {
			head := eventstore.NoStream
			for n := range appends {
				d := eventstore.Draft{ID: fmt.Sprintf("r-%d-%d", i, n), Type: "TurnProgressed", Version: 1, Time: "2026-05-01T12:00:00.000000Z",
					Data: fmt.Sprintf(`{"turn":1,"text":"%d"}`, n), Meta: "{}"}
				stored, err := store.Append(context.Background(), name(i), head, d)
				if err != nil {
					t.Error(err)
					return
				}
				head = eventstore.HeadOf(stored)
				s, err := projections.Get(context.Background(), f, saids, name(i))
				if err != nil || s.revision < head.Revision || strings.Count(s.texts, " ") != int(s.revision)+1 {
					t.Errorf("at revision %d it reads %+v, %v", head.Revision, s, err)
					return
				}
			}
		})
	}
	for i := range 4 {
		readers.Go(func() {
			last := map[domain.Stream]int64{}
			for n := 0; ; n++ {
				select {
				case <-done:
					return
				default:
				}
				s, err := projections.Get(context.Background(), f, saids, name(i+n))
				if err != nil {
					t.Error(err)
					return
				}
				if s.revision < last[name(i+n)] {
					t.Errorf("%s went back from revision %d to %d", name(i+n), last[name(i+n)], s.revision)
					return
				}
				last[name(i+n)] = s.revision
				if n%50 == 0 && i == 0 {
					f.Forget()
				}
			}
		})
	}
	writers.Wait()
	close(done)
	readers.Wait()
	for i := range streams {
		records, err := store.ReadStream(context.Background(), name(i), 0, 1000)
		if err != nil {
			t.Fatal(err)
		}
		check(t, "in the end", get(f, name(i))+" ", fold(records))
	}
}
