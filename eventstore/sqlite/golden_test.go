package sqlite_test

import (
	"database/sql"
	"errors"
	"os"
	"testing"

	"hangar/domain"
	"hangar/eventstore"
	"hangar/eventstore/sqlite"
	"hangar/migrations"
)

// golden makes the log of the first schema at the engine's path.
func golden(t *testing.T, e engine, more string) {
	t.Helper()
	text, err := os.ReadFile("../../migrations/testdata/sqlite/0001.sql")
	if err != nil {
		t.Fatal(err)
	}
	db, err := sql.Open("sqlite", "file:"+e.path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.ExecContext(t.Context(), string(text)+more); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestGoldenLog(t *testing.T) {
	t.Parallel()
	e := newEngine(t)
	golden(t, e, "")
	s := e.with(t, sqlite.Options{})
	if s.ID() != "cccccccccccccccccccccccccc" {
		t.Errorf("the id is %s", s.ID())
	}
	records := readAll(t, s)
	if len(records) != 3 {
		t.Fatalf("%d records", len(records))
	}
	job := eventstore.Stream("job-aaaaaaaaaaaaaaaaaaaaaaaaaa")
	mustAppend(t, s, job, eventstore.Head{Revision: 1, Hash: records[2].Hash}, draft("next"))
	verifyAll(t, readAll(t, s))
	closeStore(t, s)
}

func TestNewerSchemaIsRefused(t *testing.T) {
	t.Parallel()
	e := newEngine(t)
	golden(t, e, "PRAGMA user_version = 99;")
	var newer *migrations.NewerError
	if _, err := sqlite.Open(t.Context(), e.path, sqlite.Options{}); !errors.As(err, &newer) || newer.Database != "hangar.db" {
		t.Errorf("for writing: %v", err)
	}
	if _, err := sqlite.OpenReadOnly(t.Context(), e.path); !errors.As(err, &newer) || newer.Version != 99 {
		t.Errorf("for reading: %v", err)
	}
}

func TestOtherFilesAreRefused(t *testing.T) {
	t.Parallel()
	e := newEngine(t)
	if err := os.WriteFile(e.path, []byte("not a database, and long enough to be read as one would be: "+string(make([]byte, 4096))), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := sqlite.Open(t.Context(), e.path, sqlite.Options{}); err == nil || domain.CodeOf(err) == domain.Unavailable {
		t.Errorf("for writing: %v", err)
	}
	if _, err := sqlite.OpenReadOnly(t.Context(), e.path); err == nil {
		t.Error("for reading: opened")
	}
	// The refusal lets go of what it took.
	if err := os.Remove(e.path); err != nil {
		t.Fatal(err)
	}
	closeStore(t, e.with(t, sqlite.Options{}))

	empty := newEngine(t)
	if err := os.WriteFile(empty.path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	var older *migrations.OlderError
	if _, err := sqlite.OpenReadOnly(t.Context(), empty.path); !errors.As(err, &older) {
		t.Errorf("an empty file: %v", err)
	}
}
