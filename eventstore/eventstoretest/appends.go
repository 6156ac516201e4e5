package eventstoretest

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"hangar/domain"
	"hangar/eventstore"
)

func emptyLog(f *fixture) {
	s := f.open(nil)
	if head, err := s.Head(f.ctx); head != 0 || err != nil {
		f.Errorf("head is %d, %v", head, err)
	}
	if got := f.all(s); len(got) != 0 {
		f.Errorf("%d records", len(got))
	}
	if got := f.stream(s, "job-none"); len(got) != 0 {
		f.Errorf("%d records in a stream that does not exist", len(got))
	}
	if s.ID() == "" {
		f.Error("no id")
	}
}

func exactExpectations(f *fixture) {
	s := f.open(nil)
	first := f.append(s, "job-a", eventstore.NoStream, draft("a0"))
	if r := first[0]; r.Revision != 0 || r.Prev != "" || r.Position == 0 {
		f.Errorf("the first record is %+v", r)
	}
	second := f.append(s, "job-a", eventstore.HeadOf(first), draft("a1"))
	if r := second[0]; r.Revision != 1 || r.Prev != first[0].Hash || r.Position <= first[0].Position {
		f.Errorf("the second record is %+v", r)
	}
	end := eventstore.HeadOf(second)
	wrong := map[string]struct {
		stream   eventstore.Stream
		expected eventstore.Head
		actual   int64
	}{
		"no stream, and there is one": {"job-a", eventstore.NoStream, 1},
		"a head that was passed":      {"job-a", eventstore.HeadOf(first), 1},
		"a head not reached yet":      {"job-a", eventstore.Head{Revision: 7, Hash: end.Hash}, 1},
		"a head of no stream":         {"job-b", end, -1},
	}
	for name, c := range wrong {
		f.Run(name, func(t *testing.T) {
			records, err := s.Append(f.ctx, c.stream, c.expected, draft("other"))
			var conflict *eventstore.ConflictError
			if !errors.As(err, &conflict) {
				t.Fatalf("%v, %v", records, err)
			}
			want := eventstore.ConflictError{Stream: c.stream, Expected: c.expected, Actual: c.actual}
			if *conflict != want {
				t.Errorf("%+v, want %+v", *conflict, want)
			}
		})
	}
	if got := f.all(s); !slices.Equal(got, slices.Concat(first, second)) {
		f.Errorf("a conflict wrote something: %v", got)
	}
}

func divergedLog(f *fixture) {
	s := f.open(nil)
	stored := f.append(s, "job-a", eventstore.NoStream, drafts("a", 2)...)
	other := strings.Repeat("0", 64)
	for _, expected := range []eventstore.Head{
		{Revision: 1, Hash: other},
		{Revision: 1},
		{Revision: 0, Hash: other},
	} {
		records, err := s.Append(f.ctx, "job-a", expected, draft("a/1"))
		if !errors.Is(err, eventstore.ErrRefused) || !errors.Is(err, eventstore.ErrDiverged) {
			f.Errorf("expecting %+v: %v, %v", expected, records, err)
		}
	}
	if got := f.all(s); !slices.Equal(got, stored) {
		f.Errorf("a refused append wrote something: %v", got)
	}
}

func atomicBatch(f *fixture) {
	s := f.open(nil)
	batch := f.append(s, "job-a", eventstore.NoStream, drafts("a", eventstore.MaxBatch)...)
	f.verify(batch)
	for i, r := range batch {
		if r.Revision != int64(i) || i > 0 && r.Position <= batch[i-1].Position {
			f.Fatalf("record %d is at revision %d, position %d", i, r.Revision, r.Position)
		}
	}
	head := eventstore.HeadOf(batch)
	bad := drafts("b", 3)
	bad[2].Data = "[]"
	for name, batch := range map[string][]eventstore.Draft{
		"none":           {},
		"one too many":   drafts("c", eventstore.MaxBatch+1),
		"a bad member":   bad,
		"the same twice": {draft("d"), draft("e"), draft("d")},
	} {
		records, err := s.Append(f.ctx, "job-a", head, batch...)
		if code := domain.CodeOf(err); code != domain.Invalid && code != domain.TooLarge {
			f.Errorf("%s: %v, %v", name, records, err)
		}
	}
	if got := f.stream(s, "job-a"); !slices.Equal(got, batch) {
		f.Errorf("%d records are stored, want %d", len(got), len(batch))
	}
}

func sameIDs(f *fixture) {
	s := f.open(nil)
	stored := f.append(s, "job-a", eventstore.NoStream, drafts("a", 3)...)
	again := drafts("a", 3)
	for i := range again { // a retry may come with other times and data
		again[i].Data = `{"text":"said again"}`
		again[i].Time = "2026-11-03T11:00:00.000000Z"
	}
	repeat := func(when string, expected eventstore.Head, want []eventstore.Record, drafts ...eventstore.Draft) {
		f.Helper()
		got, err := s.Append(f.ctx, "job-a", expected, drafts...)
		if err != nil || !slices.Equal(got, want) {
			f.Errorf("%s: %v\n%s", when, err, cmp.Diff(want, got))
		}
	}
	repeat("at the end", eventstore.NoStream, stored, again...)

	grown := f.append(s, "job-a", eventstore.HeadOf(stored), drafts("b", 2)...)
	repeat("after the stream has grown", eventstore.NoStream, stored, again...)
	repeat("in the middle", eventstore.HeadOf(stored[:2]), stored[2:], again[2:]...)
	repeat("the later batch", eventstore.HeadOf(stored), grown, drafts("b", 2)...)

	for name, batch := range map[string][]eventstore.Draft{
		"longer than what is stored": append(slices.Clone(again), drafts("b", 3)...),
		"only partly the same":       {again[0], again[1], draft("c")},
		"in another order":           {again[1], again[0], again[2]},
	} {
		var conflict *eventstore.ConflictError
		if got, err := s.Append(f.ctx, "job-a", eventstore.NoStream, batch...); !errors.As(err, &conflict) {
			f.Errorf("%s: %v, %v", name, got, err)
		}
	}
	if got := f.all(s); !slices.Equal(got, slices.Concat(stored, grown)) {
		f.Errorf("a repeated append wrote something:\n%s", cmp.Diff(slices.Concat(stored, grown), got))
	}
}

func exactTexts(f *fixture) {
	s := f.open(nil)
	d := eventstore.Draft{
		ID:      "0190a1b2-0000-7000-8000-000000000001",
		Type:    "JobSubmitted",
		Version: 12,
		Time:    "2026-11-03T10:00:00.000001Z",
		Data:    "{ \"b\":1.0, \"a\" : \"\\u0000 \\ud83d\\ude00 😀 ü\",\n\t\"n\":12345678901234567890 , \"b\":2}",
		Meta:    `{"z":null,"a":{}}`,
	}
	got := f.append(s, "job-ä.1", eventstore.NoStream, d)[0]
	want := eventstore.Record{
		ID: d.ID, Stream: "job-ä.1", Position: got.Position, Type: d.Type, Version: d.Version,
		Time: d.Time, Data: d.Data, Meta: d.Meta, Hash: got.Hash,
	}
	if got != want {
		f.Error(cmp.Diff(want, got))
	}
	f.verify([]eventstore.Record{got})
	if read := f.stream(s, "job-ä.1"); !slices.Equal(read, []eventstore.Record{want}) {
		f.Error(cmp.Diff([]eventstore.Record{want}, read))
	}
	if read := f.all(s); !slices.Equal(read, []eventstore.Record{want}) {
		f.Error(cmp.Diff([]eventstore.Record{want}, read))
	}
}

func wrongDrafts(f *fixture) {
	s := f.open(nil)
	for name, spoil := range map[string]func(*eventstore.Draft){
		"no id":                 func(d *eventstore.Draft) { d.ID = "" },
		"a long id":             func(d *eventstore.Draft) { d.ID = strings.Repeat("x", 300) },
		"no type":               func(d *eventstore.Draft) { d.Type = "" },
		"a type of two lines":   func(d *eventstore.Draft) { d.Type = "Turn\nEnded" },
		"version zero":          func(d *eventstore.Draft) { d.Version = 0 },
		"no time":               func(d *eventstore.Draft) { d.Time = "" },
		"a time to the second":  func(d *eventstore.Draft) { d.Time = "2026-11-03T10:00:00Z" },
		"a time somewhere":      func(d *eventstore.Draft) { d.Time = "2026-11-03T10:00:00.0+01:00" },
		"no data":               func(d *eventstore.Draft) { d.Data = "" },
		"data that is a list":   func(d *eventstore.Draft) { d.Data = "[1]" },
		"data cut off":          func(d *eventstore.Draft) { d.Data = `{"text":"}` },
		"two objects":           func(d *eventstore.Draft) { d.Data = `{}{}` },
		"data not in UTF-8":     func(d *eventstore.Draft) { d.Data = "{\"text\":\"\xff\"}" },
		"no meta":               func(d *eventstore.Draft) { d.Meta = "" },
		"meta that is a string": func(d *eventstore.Draft) { d.Meta = `"x"` },
	} {
		d := draft("a0")
		spoil(&d)
		records, err := s.Append(f.ctx, "job-a", eventstore.NoStream, d)
		if domain.CodeOf(err) != domain.Invalid {
			f.Errorf("%s: %v, %v", name, records, err)
		}
	}
	for _, stream := range []eventstore.Stream{"", "job", "job-a\n", eventstore.Stream("job-" + strings.Repeat("x", 300))} {
		if records, err := s.Append(f.ctx, stream, eventstore.NoStream, draft("a0")); domain.CodeOf(err) != domain.Invalid {
			f.Errorf("stream %q: %v, %v", stream, records, err)
		}
	}
	for _, head := range []eventstore.Head{{Revision: -2}, {Revision: -1, Hash: "x"}} {
		if records, err := s.Append(f.ctx, "job-a", head, draft("a0")); domain.CodeOf(err) != domain.Invalid {
			f.Errorf("expecting %+v: %v, %v", head, records, err)
		}
	}
	if got := f.all(s); len(got) != 0 {
		f.Errorf("%d records are stored", len(got))
	}
}

func oversizedData(f *fixture) {
	s := f.open(nil)
	const frame = `{"text":""}`
	sized := func(n int) string { return `{"text":"` + strings.Repeat("x", n-len(frame)) + `"}` }

	d := draft("a0")
	d.Type, d.Data = "TurnEnded", sized(eventstore.MaxDataBytes+1)
	_, err := s.Append(f.ctx, "job-a", eventstore.NoStream, d)
	if domain.CodeOf(err) != domain.TooLarge {
		f.Fatal(err)
	}
	for _, part := range []string{"TurnEnded", "262144", "262145"} {
		if !strings.Contains(err.Error(), part) {
			f.Errorf("%q does not name %s", err, part)
		}
	}
	d.Data = sized(eventstore.MaxDataBytes)
	stored := f.append(s, "job-a", eventstore.NoStream, d)
	if got := f.all(s); !slices.Equal(got, stored) {
		f.Error("the largest record is not read as it was written")
	}
}
