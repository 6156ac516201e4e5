package projections

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"

	_ "modernc.org/sqlite" // the driver behind views.db

	"hangar/domain"
	"hangar/domain/event"
)

// View is one table built from the log: what its package contributes to a Runner.
type View interface {
	// Name names the view, for checkpoints and people.
	Name() string
	// Version changes whenever the code would give other rows for the same log;
	// the view is then built again.
	Version() int
	// Wants reports whether the view takes records of a category; others are not
	// even decoded.
	Wants(category string) bool
	// Apply takes a page of events, in order, in the transaction that also moves
	// the checkpoint. history gives a stream's earlier events where the view
	// needs them.
	Apply(ctx context.Context, tx *sql.Tx, events []event.Event, history History) error
	// Clear empties the view's tables.
	Clear(ctx context.Context, tx *sql.Tx) error
}

// History gives the events of a stream before a revision, oldest first.
type History func(ctx context.Context, stream domain.Stream, before int64) ([]event.Event, error)

// Migrate brings the schema of views.db up to date; cmd gives the one of package
// migrations.
type Migrate func(ctx context.Context, db *sql.DB) error

// OpenViews opens views.db, made if it is not there. It may be deleted at any time
// while it is closed: the views are then built again.
func OpenViews(ctx context.Context, path string, migrate Migrate) (*sql.DB, error) {
	if f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600); err == nil { // else SQLite says why
		f.Close()
	}
	q := url.Values{"_pragma": {"journal_mode(WAL)", "synchronous(NORMAL)", "busy_timeout(5000)"}, "_txlock": {"immediate"}}
	db, err := sql.Open("sqlite", "file:"+(&url.URL{Path: path}).EscapedPath()+"?"+q.Encode())
	if err != nil {
		return nil, err
	}
	if err := migrate(ctx, db); err != nil {
		err = fmt.Errorf("%s cannot be opened: %w (it holds nothing of its own: where it is damaged, remove it, and it is built from the log again)",
			filepath.Base(path), err)
		return nil, errors.Join(err, db.Close())
	}
	return db, nil
}
