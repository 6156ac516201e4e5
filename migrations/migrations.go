// Package migrations holds the schemas of Hangar's databases, as numbered SQL that
// is only ever added to, and brings a database up to date with them.
//
// A folder holds NNNN_name.sql for one kind of database, from 0001 without a gap.
// A file that has been released is never changed. The number of the last one that
// a SQLite database has seen is its PRAGMA user_version, set in the transaction
// that ran the file, so a migration is done whole or not at all.
package migrations

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"strconv"
	"strings"
)

// Files are the migrations of every database, one folder each.
//
//go:embed sqlite
var Files embed.FS

// Log is the folder of the log in SQLite.
const Log = "sqlite"

// ErrForeign: the database holds tables and is not one of Hangar's.
var ErrForeign = errors.New("it holds tables of something else")

// NewerError says that a database was written by a newer Hangar than this one. It
// is left as it is.
type NewerError struct {
	Database string // the file's name, without its folder
	Version  int    // what the database has
	Known    int    // what this build knows
}

// Error names the database and both versions.
func (e *NewerError) Error() string {
	return fmt.Sprintf("%s has schema version %d and this build knows versions up to %d: a newer Hangar wrote it, use that one",
		e.Database, e.Version, e.Known)
}

// OlderError says that a database which may not be written would need migrating.
type OlderError struct {
	Database string // the file's name, without its folder
	Version  int    // what the database has, zero for none
	Known    int    // what this build needs
}

// Error names the database and both versions.
func (e *OlderError) Error() string {
	return fmt.Sprintf("%s has schema version %d and this build needs version %d: open it for writing once",
		e.Database, e.Version, e.Known)
}

// migration is one file.
type migration struct {
	version int
	name    string
	text    string
}

// Up brings a SQLite database to the newest version in dir, one transaction a
// file. It is safe to be run by several processes at once: each file is run by one
// of them. A database that is newer gives a *NewerError, one that is not Hangar's
// an error that wraps ErrForeign; neither is touched.
func Up(ctx context.Context, db *sql.DB, files fs.FS, dir string) error {
	all, err := load(files, dir)
	if err != nil {
		return err
	}
	conn, err := db.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	for _, m := range all {
		if err := m.run(ctx, conn); err != nil {
			return fmt.Errorf("migration %s: %w", m.name, err)
		}
	}
	return check(ctx, conn, len(all))
}

// Check reports whether a SQLite database is at the newest version in dir, and
// writes nothing: nil when it is, a *NewerError or an *OlderError when it is not.
func Check(ctx context.Context, db *sql.DB, files fs.FS, dir string) error {
	all, err := load(files, dir)
	if err != nil {
		return err
	}
	conn, err := db.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	return check(ctx, conn, len(all))
}

func check(ctx context.Context, conn *sql.Conn, known int) error {
	version, err := userVersion(ctx, conn)
	if err != nil {
		return err
	}
	switch {
	case version > known:
		return &NewerError{Database: fileName(ctx, conn), Version: version, Known: known}
	case version < known:
		return &OlderError{Database: fileName(ctx, conn), Version: version, Known: known}
	}
	return nil
}

// run applies one file, unless the database has seen it.
func (m migration) run(ctx context.Context, conn *sql.Conn) (err error) {
	version, err := userVersion(ctx, conn)
	if err != nil || version >= m.version {
		return err
	}
	if _, err := conn.ExecContext(ctx, "BEGIN IMMEDIATE"); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_, _ = conn.ExecContext(context.WithoutCancel(ctx), "ROLLBACK")
		}
	}()
	// Another process may have been here between the look and the lock.
	if version, err = userVersion(ctx, conn); err != nil {
		return err
	}
	if version < m.version {
		if err := m.apply(ctx, conn, version); err != nil {
			return err
		}
	}
	_, err = conn.ExecContext(ctx, "COMMIT")
	return err
}

func (m migration) apply(ctx context.Context, conn *sql.Conn, version int) error {
	if version == 0 {
		var tables int
		if err := conn.QueryRowContext(ctx, "SELECT count(*) FROM sqlite_schema").Scan(&tables); err != nil {
			return err
		}
		if tables > 0 {
			return fmt.Errorf("%s is no database of Hangar's: %w", fileName(ctx, conn), ErrForeign)
		}
	}
	if _, err := conn.ExecContext(ctx, m.text); err != nil {
		return err
	}
	_, err := conn.ExecContext(ctx, "PRAGMA user_version = "+strconv.Itoa(m.version))
	return err
}

func userVersion(ctx context.Context, conn *sql.Conn) (version int, err error) {
	err = conn.QueryRowContext(ctx, "PRAGMA user_version").Scan(&version)
	return version, err
}

// fileName gives the name of the main database's file for messages.
func fileName(ctx context.Context, conn *sql.Conn) string {
	var file string
	err := conn.QueryRowContext(ctx, "SELECT file FROM pragma_database_list WHERE name = 'main'").Scan(&file)
	if err != nil || file == "" {
		return "the database"
	}
	return filepath.Base(file)
}

// load reads the files of a folder in order, and sees that they count from one.
func load(files fs.FS, dir string) ([]migration, error) {
	names, err := fs.Glob(files, path.Join(dir, "*.sql"))
	if err != nil {
		return nil, err
	}
	all := make([]migration, 0, len(names))
	for i, name := range names { // sorted, as fs.Glob gives them
		base := path.Base(name)
		number, _, _ := strings.Cut(base, "_")
		version, err := strconv.Atoi(number)
		if err != nil || len(number) != 4 || version != i+1 {
			return nil, fmt.Errorf("migrations: %s/%s is not number %04d", dir, base, i+1)
		}
		text, err := fs.ReadFile(files, name)
		if err != nil {
			return nil, err
		}
		all = append(all, migration{version: version, name: base, text: string(text)})
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("migrations: no file in %s", dir)
	}
	return all, nil
}
