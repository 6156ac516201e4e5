package migrations_test

import (
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/fstest"

	"go.uber.org/goleak"
	_ "modernc.org/sqlite"

	"hangar/migrations"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func open(t *testing.T, path string) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+path+"?_pragma=busy_timeout(10000)")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return db
}

func fresh(t *testing.T) *sql.DB {
	t.Helper()
	return open(t, filepath.Join(t.TempDir(), "hangar.db"))
}

func exec(t *testing.T, db *sql.DB, text string) {
	t.Helper()
	if _, err := db.ExecContext(t.Context(), text); err != nil {
		t.Fatal(err)
	}
}

// rows gives what a query gives, a line a row.
func rows(t *testing.T, db *sql.DB, query string) (lines []string) {
	t.Helper()
	r, err := db.QueryContext(t.Context(), query)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	columns, err := r.Columns()
	if err != nil {
		t.Fatal(err)
	}
	for r.Next() {
		values := make([]any, len(columns))
		for i := range values {
			values[i] = new(any)
		}
		if err := r.Scan(values...); err != nil {
			t.Fatal(err)
		}
		var line strings.Builder
		for _, v := range values {
			fmt.Fprintf(&line, "%v|", *v.(*any))
		}
		lines = append(lines, line.String())
	}
	if err := r.Err(); err != nil {
		t.Fatal(err)
	}
	return lines
}

const schema = "SELECT type, name, sql FROM sqlite_schema ORDER BY type, name"

func version(t *testing.T, db *sql.DB) string {
	t.Helper()
	return rows(t, db, "PRAGMA user_version")[0]
}

// files are two migrations of some database.
func files() fstest.MapFS {
	return fstest.MapFS{
		"some/0001_first.sql":  {Data: []byte("CREATE TABLE a(x INTEGER) STRICT; INSERT INTO a VALUES (1);")},
		"some/0002_second.sql": {Data: []byte("CREATE TABLE b(x INTEGER) STRICT; INSERT INTO a VALUES (2);")},
		"other/0001_x.sql":     {Data: []byte("CREATE TABLE other(x INTEGER) STRICT;")},
	}
}

func TestUp(t *testing.T) {
	t.Parallel()
	db := fresh(t)
	for range 2 { // the second time there is nothing to do
		if err := migrations.Up(t.Context(), db, files(), "some"); err != nil {
			t.Fatal(err)
		}
		if got := rows(t, db, "SELECT x FROM a"); !slices.Equal(got, []string{"1|", "2|"}) {
			t.Errorf("a holds %v", got)
		}
		if got := version(t, db); got != "2|" {
			t.Errorf("version %s", got)
		}
	}
	if err := migrations.Check(t.Context(), db, files(), "some"); err != nil {
		t.Error(err)
	}
	if got := len(rows(t, db, schema)); got != 2 {
		t.Errorf("%d tables", got)
	}
}

func TestUpFromTheMiddle(t *testing.T) {
	t.Parallel()
	db := fresh(t)
	first := files()
	delete(first, "some/0002_second.sql")
	if err := migrations.Up(t.Context(), db, first, "some"); err != nil {
		t.Fatal(err)
	}
	err := migrations.Check(t.Context(), db, files(), "some")
	var older *migrations.OlderError
	if !errors.As(err, &older) || *older != (migrations.OlderError{Database: "hangar.db", Version: 1, Known: 2}) {
		t.Errorf("before: %v", err)
	}
	if err := migrations.Up(t.Context(), db, files(), "some"); err != nil {
		t.Fatal(err)
	}
	if got := rows(t, db, "SELECT x FROM a"); !slices.Equal(got, []string{"1|", "2|"}) {
		t.Errorf("a holds %v", got)
	}
}

func TestNewerDatabaseIsLeftAlone(t *testing.T) {
	t.Parallel()
	db := fresh(t)
	exec(t, db, "CREATE TABLE theirs(x); PRAGMA user_version = 3")
	before := rows(t, db, schema)
	for name, do := range map[string]func() error{
		"Up":    func() error { return migrations.Up(t.Context(), db, files(), "some") },
		"Check": func() error { return migrations.Check(t.Context(), db, files(), "some") },
	} {
		err := do()
		var newer *migrations.NewerError
		if !errors.As(err, &newer) || *newer != (migrations.NewerError{Database: "hangar.db", Version: 3, Known: 2}) {
			t.Errorf("%s: %v", name, err)
		}
		if err == nil || !strings.Contains(err.Error(), "hangar.db") {
			t.Errorf("%s does not name the database: %v", name, err)
		}
	}
	if got := rows(t, db, schema); !slices.Equal(got, before) || version(t, db) != "3|" {
		t.Errorf("the database was changed: %v", got)
	}
}

func TestForeignDatabaseIsLeftAlone(t *testing.T) {
	t.Parallel()
	db := fresh(t)
	exec(t, db, "CREATE TABLE theirs(x)")
	before := rows(t, db, schema)
	if err := migrations.Up(t.Context(), db, files(), "some"); !errors.Is(err, migrations.ErrForeign) || !strings.Contains(err.Error(), "hangar.db") {
		t.Errorf("got %v", err)
	}
	if got := rows(t, db, schema); !slices.Equal(got, before) || version(t, db) != "0|" {
		t.Errorf("the database was changed: %v", got)
	}
}

func TestFailedMigrationLeavesNothing(t *testing.T) {
	t.Parallel()
	db := fresh(t)
	broken := files()
	broken["some/0002_second.sql"] = &fstest.MapFile{Data: []byte("CREATE TABLE b(x INTEGER) STRICT; INSERT INTO nowhere VALUES (2);")}
	err := migrations.Up(t.Context(), db, broken, "some")
	if err == nil || !strings.Contains(err.Error(), "0002_second.sql") {
		t.Fatalf("got %v", err)
	}
	if got := version(t, db); got != "1|" {
		t.Errorf("version %s", got)
	}
	if got := rows(t, db, schema); len(got) != 1 {
		t.Errorf("left behind: %v", got)
	}
	if err := migrations.Up(t.Context(), db, files(), "some"); err != nil {
		t.Errorf("once it is mended: %v", err)
	}
}

func TestNumbersHaveNoGap(t *testing.T) {
	t.Parallel()
	for _, names := range [][]string{
		{},
		{"0002_second.sql"},
		{"0001_first.sql", "0003_third.sql"},
		{"0001_first.sql", "0001_again.sql"},
		{"1_first.sql"},
		{"first.sql"},
	} {
		m := fstest.MapFS{}
		for _, name := range names {
			m["some/"+name] = &fstest.MapFile{Data: []byte("SELECT 1")}
		}
		db := fresh(t)
		if err := migrations.Up(t.Context(), db, m, "some"); err == nil {
			t.Errorf("%v is accepted", names)
		}
		if got := version(t, db); got != "0|" {
			t.Errorf("%v: version %s", names, got)
		}
	}
}

func TestSeveralAtOnce(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "hangar.db")
	var wg sync.WaitGroup
	for range 8 {
		db := open(t, path)
		wg.Go(func() {
			if err := migrations.Up(t.Context(), db, files(), "some"); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if got := rows(t, open(t, path), "SELECT x FROM a"); !slices.Equal(got, []string{"1|", "2|"}) {
		t.Errorf("a holds %v", got)
	}
}

// Every version that was ever released has a golden database. Brought up to date,
// it has the schema of a new one and holds what it held.
func TestUpgradeFromEveryVersion(t *testing.T) {
	t.Parallel()
	for dir, contents := range map[string][]string{
		migrations.Log: {
			"SELECT key, value FROM log_meta ORDER BY key",
			"SELECT position, stream, revision, id, type, version, time, data, meta, prev, hash FROM events ORDER BY position",
		},
	} {
		names, err := migrations.Files.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		newest := fresh(t)
		if err := migrations.Up(t.Context(), newest, migrations.Files, dir); err != nil {
			t.Fatal(err)
		}
		for i := range names {
			t.Run(fmt.Sprintf("%s from %d", dir, i+1), func(t *testing.T) {
				text, err := os.ReadFile(filepath.Join("testdata", dir, fmt.Sprintf("%04d.sql", i+1)))
				if err != nil {
					t.Fatal("a released version needs its golden file: ", err)
				}
				db := fresh(t)
				exec(t, db, string(text))
				var before [][]string
				for _, query := range contents {
					held := rows(t, db, query)
					if len(held) == 0 {
						t.Errorf("the golden file has nothing for %q", query)
					}
					before = append(before, held)
				}
				if err := migrations.Up(t.Context(), db, migrations.Files, dir); err != nil {
					t.Fatal(err)
				}
				for i, query := range contents {
					if got := rows(t, db, query); !slices.Equal(got, before[i]) {
						t.Errorf("%q was %v and is %v", query, before[i], got)
					}
				}
				for _, query := range []string{schema, "PRAGMA user_version", "PRAGMA application_id"} {
					if got, want := rows(t, db, query), rows(t, newest, query); !slices.Equal(got, want) {
						t.Errorf("%q gives %v, in a new database %v", query, got, want)
					}
				}
			})
		}
	}
}

// The log's tables refuse to be changed, whoever asks.
func TestLogIsAppendOnly(t *testing.T) {
	t.Parallel()
	db := fresh(t)
	text, err := os.ReadFile("testdata/sqlite/0001.sql")
	if err != nil {
		t.Fatal(err)
	}
	exec(t, db, string(text))
	for _, change := range []string{
		"DELETE FROM events WHERE position = 2",
		"UPDATE events SET data = '{}' WHERE position = 2",
	} {
		if _, err := db.ExecContext(t.Context(), change); err == nil || !strings.Contains(err.Error(), "append-only") {
			t.Errorf("%s: %v", change, err)
		}
	}
}
