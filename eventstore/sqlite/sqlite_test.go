package sqlite_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"hangar/domain"
	"hangar/eventstore"
	"hangar/eventstore/chain"
	"hangar/eventstore/eventstoretest"
	"hangar/eventstore/sqlite"
)

func TestMain(m *testing.M) {
	if path := os.Getenv(crashLog); path != "" {
		writeUntilKilled(path)
	}
	goleak.VerifyTestMain(m)
}

// engine opens one file.
type engine struct{ path string }

func newEngine(t testing.TB) engine { return engine{filepath.Join(t.TempDir(), "hangar.db")} }

func (e engine) Open(t testing.TB, o eventstore.Observer) eventstore.Store {
	t.Helper()
	return e.with(t, sqlite.Options{Observer: o})
}

func (e engine) OpenBeside(t testing.TB) eventstore.Store {
	t.Helper()
	s, err := sqlite.OpenReadOnly(t.Context(), e.path)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func (e engine) with(t testing.TB, o sqlite.Options) *sqlite.Store {
	t.Helper()
	s, err := sqlite.Open(t.Context(), e.path, o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestStore(t *testing.T) {
	t.Parallel()
	eventstoretest.Run(t, func(t *testing.T) eventstoretest.Engine { return newEngine(t) })
}

func draft(id string) eventstore.Draft {
	return eventstore.Draft{
		ID: id, Type: "NodeBeat", Version: 1, Time: "2026-11-03T10:00:00.000000Z",
		Data: `{"id":"` + id + `"}`, Meta: "{}",
	}
}

func mustAppend(t testing.TB, s eventstore.Store, stream eventstore.Stream, head eventstore.Head, drafts ...eventstore.Draft) []eventstore.Record {
	t.Helper()
	records, err := s.Append(t.Context(), stream, head, drafts...)
	if err != nil {
		t.Fatal(err)
	}
	return records
}

func readAll(t testing.TB, s eventstore.Store) []eventstore.Record {
	t.Helper()
	records, err := s.ReadAll(t.Context(), 0, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	return records
}

func closeStore(t testing.TB, s eventstore.Store) {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestPositionsHaveNoHoles(t *testing.T) {
	t.Parallel()
	e := newEngine(t)
	s := e.with(t, sqlite.Options{})
	a := mustAppend(t, s, "node-a", eventstore.NoStream, draft("a0"), draft("a1"))
	if _, err := s.Append(t.Context(), "node-a", eventstore.NoStream, draft("x")); err == nil {
		t.Fatal("no conflict")
	}
	mustAppend(t, s, "node-b", eventstore.NoStream, draft("b0"))
	closeStore(t, s)
	s = e.with(t, sqlite.Options{})
	mustAppend(t, s, "node-a", eventstore.HeadOf(a), draft("a2"))
	for i, r := range readAll(t, s) {
		if r.Position != eventstore.Position(i+1) {
			t.Errorf("record %d is at position %d", i, r.Position)
		}
	}
	closeStore(t, s)
}

func TestSecondWriterIsRefusedByName(t *testing.T) {
	t.Parallel()
	e := newEngine(t)
	first := e.with(t, sqlite.Options{Holder: "hangar serve, process 4711"})
	_, err := sqlite.Open(t.Context(), e.path, sqlite.Options{})
	if domain.CodeOf(err) != domain.Unavailable || !strings.Contains(err.Error(), "hangar serve, process 4711") {
		t.Errorf("the second writer got %v", err)
	}
	mustAppend(t, first, "node-a", eventstore.NoStream, draft("a0"))
	closeStore(t, first)
	closeStore(t, e.with(t, sqlite.Options{}))
}

func TestFullDisk(t *testing.T) {
	t.Parallel()
	e := newEngine(t)
	s := e.with(t, sqlite.Options{MaxPages: 100})
	large := func(id string) eventstore.Draft {
		d := draft(id)
		d.Data = `{"text":"` + strings.Repeat("x", 64<<10) + `"}`
		return d
	}
	var acknowledged []eventstore.Record
	var err error
	for i := 0; err == nil && i < 20; i++ {
		var got []eventstore.Record
		got, err = s.Append(t.Context(), "node-a", eventstore.HeadOf(acknowledged), large(string(rune('a'+i))))
		acknowledged = append(acknowledged, got...)
	}
	if !errors.Is(err, eventstore.ErrRefused) || !strings.Contains(err.Error(), "full") {
		t.Fatalf("after %d records: %v", len(acknowledged), err)
	}
	if got := readAll(t, s); len(got) == 0 || !slices.Equal(got, acknowledged) {
		t.Errorf("%d records are read, %d acknowledged", len(got), len(acknowledged))
	}
	// What fits is still written, and what did not fit leaves no hole.
	acknowledged = append(acknowledged, mustAppend(t, s, "node-a", eventstore.HeadOf(acknowledged), draft("small"))...)
	if _, err := s.Append(t.Context(), "node-b", eventstore.NoStream, large("again")); !errors.Is(err, eventstore.ErrRefused) {
		t.Errorf("a large one got %v", err)
	}
	closeStore(t, s)

	s = e.with(t, sqlite.Options{})
	acknowledged = append(acknowledged, mustAppend(t, s, "node-b", eventstore.NoStream, large("again"))...)
	got := readAll(t, s)
	if !slices.Equal(got, acknowledged) {
		t.Errorf("with room again %d records are read, %d acknowledged", len(got), len(acknowledged))
	}
	if last := got[len(got)-1]; last.Position != eventstore.Position(len(got)) {
		t.Errorf("record %d is at position %d", len(got), last.Position)
	}
	closeStore(t, s)
}

func files(t testing.TB, dir string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	return names
}

func TestReadOnly(t *testing.T) {
	t.Parallel()
	e := newEngine(t)
	dir := filepath.Dir(e.path)
	if _, err := sqlite.OpenReadOnly(t.Context(), e.path); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("a file that is not there: %v", err)
	}
	if got := files(t, dir); len(got) != 0 {
		t.Fatalf("made %v", got)
	}
	s := e.with(t, sqlite.Options{})
	a := mustAppend(t, s, "node-a", eventstore.NoStream, draft("a0"))
	closeStore(t, s)
	before := files(t, dir)

	r := e.OpenBeside(t)
	if got := readAll(t, r); !slices.Equal(got, a) {
		t.Errorf("at rest: %v", got)
	}
	if _, err := r.Append(t.Context(), "node-a", eventstore.HeadOf(a), draft("a1")); !errors.Is(err, eventstore.ErrReadOnly) || !errors.Is(err, eventstore.ErrRefused) {
		t.Errorf("an append got %v", err)
	}
	if got := files(t, dir); !slices.Equal(got, before) {
		t.Errorf("a reader made %v of %v", got, before)
	}

	// A writer opens the file under the reader.
	s = e.with(t, sqlite.Options{})
	b := mustAppend(t, s, "node-a", eventstore.HeadOf(a), draft("a1"))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := r.Wait(ctx, a[0].Position); err != nil {
		t.Fatal(err)
	}
	if got := readAll(t, r); !slices.Equal(got, append(a, b...)) {
		t.Errorf("beside a writer: %v", got)
	}
	closeStore(t, s)
	if head, err := r.Head(t.Context()); head != b[0].Position || err != nil {
		t.Errorf("after the writer: %d, %v", head, err)
	}
	closeStore(t, r)
	closeStore(t, r)
	if _, err := r.Append(t.Context(), "node-a", eventstore.HeadOf(b), draft("a2")); !errors.Is(err, eventstore.ErrClosed) {
		t.Errorf("an append on a closed log got %v", err)
	}
}

// The file's rights are its owner's alone: prompts are in it.
func TestFileIsPrivate(t *testing.T) {
	t.Parallel()
	e := newEngine(t)
	s := e.with(t, sqlite.Options{})
	mustAppend(t, s, "node-a", eventstore.NoStream, draft("a0"))
	for _, name := range files(t, filepath.Dir(e.path)) {
		info, err := os.Stat(filepath.Join(filepath.Dir(e.path), name))
		if err != nil {
			t.Fatal(err)
		}
		if got := info.Mode().Perm(); got != 0o600 {
			t.Errorf("%s has mode %o", name, got)
		}
	}
	closeStore(t, s)
}

// A path may hold what means something in a URI.
func TestOddPath(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "a?b#c%41 d&mode=ro.db")
	s, err := sqlite.Open(t.Context(), path, sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	mustAppend(t, s, "node-a", eventstore.NoStream, draft("a0"))
	closeStore(t, s)
	if _, err := os.Stat(path); err != nil {
		t.Error(err)
	}
	r, err := sqlite.OpenReadOnly(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	if got := readAll(t, r); len(got) != 1 {
		t.Errorf("%d records", len(got))
	}
	closeStore(t, r)
}

// The log's id comes with the log, from the random source it is given.
func TestID(t *testing.T) {
	t.Parallel()
	e := newEngine(t)
	s := e.with(t, sqlite.Options{Random: strings.NewReader(strings.Repeat("a", 32))})
	id := s.ID()
	closeStore(t, s)
	s = e.with(t, sqlite.Options{Random: strings.NewReader(strings.Repeat("b", 32))})
	if s.ID() != id {
		t.Errorf("the id was %s and is %s", id, s.ID())
	}
	closeStore(t, s)
	other := newEngine(t).with(t, sqlite.Options{Random: strings.NewReader(strings.Repeat("b", 32))})
	if other.ID() == id {
		t.Errorf("two logs have the id %s", id)
	}
	closeStore(t, other)
	if _, err := sqlite.Open(t.Context(), newEngine(t).path, sqlite.Options{Random: strings.NewReader("short")}); err == nil {
		t.Error("opened without an id")
	}
}

func verifyAll(t testing.TB, records []eventstore.Record) {
	t.Helper()
	heads := map[eventstore.Stream]eventstore.Head{}
	for i, r := range records {
		head, ok := heads[r.Stream]
		if !ok {
			head = eventstore.NoStream
		}
		if err := chain.Verify(head, r); err != nil {
			t.Error(err)
		}
		if r.Position != eventstore.Position(i+1) {
			t.Fatalf("record %d is at position %d", i, r.Position)
		}
		heads[r.Stream] = eventstore.Head{Revision: r.Revision, Hash: r.Hash}
	}
}
