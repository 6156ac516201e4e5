package projections

import (
	"context"
	"database/sql"
	"errors"

	"hangar/domain"
	"hangar/domain/event"
)

// start finds out how far the view is. A checkpoint of another log, of another
// version of the view, or at a record that is not there any more means that the
// view is built again.
func (r *Runner) start(ctx context.Context) error {
	var storeID, stream, hash string
	var version int
	var position domain.Position
	var revision int64
	err := r.db.QueryRowContext(ctx, `SELECT version, store_id, position, stream, revision, hash FROM checkpoints WHERE view = ?`,
		r.view.Name()).Scan(&version, &storeID, &position, &stream, &revision, &hash)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return r.clear(ctx)
	case err != nil:
		return err
	case version != r.view.Version():
		return r.again(ctx, "the view's code changed")
	case storeID != r.store.ID():
		return r.again(ctx, "it was built from another log")
	}
	records, err := r.store.ReadStream(ctx, domain.Stream(stream), revision, 1)
	if err != nil {
		return err
	}
	if len(records) != 1 || records[0].Hash != hash || records[0].Position != position {
		return r.again(ctx, "the log went back behind the view")
	}
	r.move(position)
	return nil
}

// again empties the view because of what start found.
func (r *Runner) again(ctx context.Context, reason string) error {
	r.log.Warn("view is built again", "reason", reason)
	if err := r.clear(ctx); err != nil {
		return err
	}
	r.rebuilt(r.view.Name(), reason)
	return nil
}

func (r *Runner) clear(ctx context.Context) error {
	err := r.transact(ctx, func(tx *sql.Tx) error {
		if err := r.view.Clear(ctx, tx); err != nil {
			return err
		}
		_, err := tx.ExecContext(ctx, `DELETE FROM checkpoints WHERE view = ?`, r.view.Name())
		return err
	})
	if err == nil {
		r.move(0)
	}
	return err
}

// page takes the next records, and tells how many.
func (r *Runner) page(ctx context.Context) (int, error) {
	records, err := r.store.ReadAll(ctx, r.at(), pageSize)
	if err != nil || len(records) == 0 {
		return 0, err
	}
	var events []event.Event
	for _, rec := range records {
		if !r.view.Wants(rec.Stream.Category()) {
			continue
		}
		e, err := event.Decode(rec)
		if err != nil {
			return 0, &poisonError{position: rec.Position, cause: err}
		}
		events = append(events, e)
	}
	last := records[len(records)-1]
	err = r.transact(ctx, func(tx *sql.Tx) error {
		if len(events) > 0 {
			if err := r.view.Apply(ctx, tx, events, r.history); err != nil {
				return err
			}
		}
		_, err := tx.ExecContext(ctx, `INSERT INTO checkpoints (view, version, store_id, position, stream, revision, hash)
			VALUES (?, ?, ?, ?, ?, ?, ?)
			ON CONFLICT (view) DO UPDATE SET version = excluded.version, store_id = excluded.store_id,
			position = excluded.position, stream = excluded.stream, revision = excluded.revision, hash = excluded.hash`,
			r.view.Name(), r.view.Version(), r.store.ID(), last.Position, last.Stream, last.Revision, last.Hash)
		return err
	})
	if err != nil {
		return 0, err
	}
	r.move(last.Position)
	return len(records), nil
}

func (r *Runner) transact(ctx context.Context, do func(*sql.Tx) error) error {
	tx, err := r.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() //nolint:errcheck // after a commit it does nothing
	if err := do(tx); err != nil {
		return err
	}
	return tx.Commit()
}

// history reads the events of a stream before a revision.
func (r *Runner) history(ctx context.Context, stream domain.Stream, before int64) ([]event.Event, error) {
	var events []event.Event
	for from := int64(0); from < before; {
		records, err := r.store.ReadStream(ctx, stream, from, int(min(before-from, foldPage)))
		if err != nil {
			return nil, err
		}
		if len(records) == 0 {
			break
		}
		for _, rec := range records {
			e, err := event.Decode(rec)
			if err != nil {
				return nil, &poisonError{position: rec.Position, cause: err}
			}
			events = append(events, e)
		}
		from = records[len(records)-1].Revision + 1
	}
	return events, nil
}
