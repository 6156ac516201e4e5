package projections

import (
	"context"
	"database/sql"

	"hangar/domain"
	"hangar/domain/event"
)

// rowsInMemory is how many streams that go on a table's view keeps folded.
const rowsInMemory = 8192

// StreamTable is a view with one row for each stream of a category: its state,
// written again whenever a page of the log touched it.
type StreamTable[S any] struct {
	// Table is the name of the view and of its table in views.db.
	Table string
	// Revision is the View's Version: it changes with the rows that Write writes.
	Revision int
	Category string
	Fold     *Fold[S]
	// Write inserts a stream's row or updates it. The ordinal is the position of
	// the stream's first record; a row keeps the one it was inserted with. A stream
	// without its beginning gets none: it is for `audit verify` to tell.
	Write func(ctx context.Context, tx *sql.Tx, s *S, ordinal domain.Position) error
}

// View makes the view, for one runner.
func (t StreamTable[S]) View() View {
	return &tableView[S]{t, NewRows(t.Fold, rowsInMemory)}
}

type tableView[S any] struct {
	StreamTable[S]
	rows *Rows[S]
}

func (v *tableView[S]) Name() string               { return v.Table }
func (v *tableView[S]) Version() int               { return v.Revision }
func (v *tableView[S]) Wants(category string) bool { return category == v.Category }

func (v *tableView[S]) Clear(ctx context.Context, tx *sql.Tx) error {
	v.rows.Reset()
	_, err := tx.ExecContext(ctx, "DELETE FROM "+v.Table) //nolint:gosec // a name out of this program
	return err
}

func (v *tableView[S]) Apply(ctx context.Context, tx *sql.Tx, events []event.Event, history History) error {
	touched, err := v.rows.Page(ctx, events, history)
	if err != nil {
		return err
	}
	for _, t := range touched {
		if err := v.Write(ctx, tx, t.State, t.First); err != nil {
			return err
		}
	}
	return nil
}
