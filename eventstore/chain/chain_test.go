package chain_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"hangar/domain"
	"hangar/eventstore"
	"hangar/eventstore/chain"
)

// golden is the vector that was computed outside this program, once and for all.
func golden(t *testing.T) []domain.Record {
	t.Helper()
	b, err := os.ReadFile("testdata/golden.json")
	if err != nil {
		t.Fatal(err)
	}
	var records []domain.Record
	if err := json.Unmarshal(b, &records); err != nil || len(records) != 2 {
		t.Fatal(len(records), err)
	}
	return records
}

func TestGolden(t *testing.T) {
	t.Parallel()
	records := golden(t)
	const first = "a2e8a8f0ec3213f8b8573d4541aea55f5dbe222632bdc2e1ea409856ec46a089"
	if got := chain.Hash(records[0]); got != first || records[0].Hash != first {
		t.Errorf("the golden record hashes to %s, want %s", got, first)
	}
	head := eventstore.NoStream
	for _, r := range records {
		if err := chain.Verify(head, r); err != nil {
			t.Error(err)
		}
		draft := eventstore.Draft{ID: r.ID, Type: r.Type, Version: r.Version, Time: r.Time, Data: r.Data, Meta: r.Meta}
		sealed := chain.Seal(r.Stream, head, []eventstore.Draft{draft})
		sealed[0].Position = r.Position
		if sealed[0] != r {
			t.Errorf("sealed %+v, want %+v", sealed[0], r)
		}
		head = eventstore.HeadOf(sealed)
	}
}

func TestVerifyFindsEveryChange(t *testing.T) {
	t.Parallel()
	records := golden(t)
	before := eventstore.HeadOf(records[:1])
	for name, change := range map[string]func(*domain.Record){
		"id":       func(r *domain.Record) { r.ID += "x" },
		"stream":   func(r *domain.Record) { r.Stream += "x" },
		"revision": func(r *domain.Record) { r.Revision++ },
		"type":     func(r *domain.Record) { r.Type = "TurnEnded" },
		"version":  func(r *domain.Record) { r.Version++ },
		"time":     func(r *domain.Record) { r.Time = strings.Replace(r.Time, "2026", "2027", 1) },
		"data":     func(r *domain.Record) { r.Data = strings.ReplaceAll(r.Data, " ", "") },
		"meta":     func(r *domain.Record) { r.Meta = "{}" },
		"prev":     func(r *domain.Record) { r.Prev = strings.Repeat("0", 64) },
		"hash":     func(r *domain.Record) { r.Hash = strings.ToUpper(r.Hash) },
		"prev and hash": func(r *domain.Record) {
			r.Prev = strings.Repeat("0", 64)
			r.Hash = chain.Hash(*r)
		},
		"revision and hash": func(r *domain.Record) {
			r.Revision++
			r.Hash = chain.Hash(*r)
		},
	} {
		r := records[1]
		change(&r)
		err := chain.Verify(before, r)
		var broken *chain.BrokenError
		if !errors.As(err, &broken) {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if broken.Position != r.Position || broken.Revision != r.Revision || broken.Stream != r.Stream || broken.Reason == "" {
			t.Errorf("%s: %+v", name, broken)
		}
		if strings.Contains(err.Error(), "aaaa") {
			t.Errorf("%s: %q names the stream", name, err)
		}
	}
	r := records[1]
	r.Position = 99 // an engine's, and not covered
	if err := chain.Verify(before, r); err != nil {
		t.Errorf("at another position: %v", err)
	}
	if err := chain.Verify(eventstore.NoStream, records[1]); err == nil {
		t.Error("a record whose predecessor is missing")
	}
}

// No two records have the same hash, however their fields are cut.
func TestFieldsDoNotRun(t *testing.T) {
	t.Parallel()
	field := rapid.StringMatching(`[a1]{0,3}`)
	record := rapid.Custom(func(t *rapid.T) domain.Record {
		return domain.Record{
			ID:       field.Draw(t, "id"),
			Stream:   domain.Stream(field.Draw(t, "stream")),
			Revision: rapid.Int64Range(0, 12).Draw(t, "revision"),
			Type:     field.Draw(t, "type"),
			Version:  rapid.IntRange(1, 12).Draw(t, "version"),
			Time:     field.Draw(t, "time"),
			Data:     field.Draw(t, "data"),
			Meta:     field.Draw(t, "meta"),
			Prev:     field.Draw(t, "prev"),
		}
	})
	rapid.Check(t, func(t *rapid.T) {
		a, b := record.Draw(t, "a"), record.Draw(t, "b")
		if same := a == b; same != (chain.Hash(a) == chain.Hash(b)) {
			t.Fatalf("%+v and %+v", a, b)
		}
	})
}

func TestSealAllocatesLittle(t *testing.T) {
	drafts := make([]eventstore.Draft, 10)
	for i := range drafts {
		drafts[i] = eventstore.Draft{ID: fmt.Sprint(i), Type: "X", Version: 1, Data: strings.Repeat("x", 300)}
	}
	// The records, and a hash each.
	if got := testing.AllocsPerRun(100, func() { chain.Seal("job-a", eventstore.NoStream, drafts) }); got > 12 {
		t.Errorf("%v allocations for 10 records", got)
	}
}

func BenchmarkSeal(b *testing.B) {
	drafts := []eventstore.Draft{{
		ID: "0190a1b2-0000-7000-8000-000000000000", Type: "TurnProgressed", Version: 1,
		Time: "2026-11-03T10:00:00.000000Z", Data: strings.Repeat("x", 300), Meta: strings.Repeat("x", 100),
	}}
	b.ReportAllocs()
	for b.Loop() {
		chain.Seal("job-aaaaaaaaaaaaaaaaaaaaaaaaaa", eventstore.NoStream, drafts)
	}
}
