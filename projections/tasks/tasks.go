// Package tasks is the table of tasks, behind lists, behind expiry, and behind
// waking what is live when a server starts. A single task is read from its own
// stream.
package tasks

import (
	"context"
	"database/sql"
	"time"

	"hangar/domain"
	"hangar/domain/task"
	"hangar/projections"
)

// NewView makes the view that keeps the table in step with the log.
func NewView() projections.View {
	return projections.StreamTable[task.State]{
		Table: "tasks", Revision: 1, Category: task.Category, Fold: projections.Tasks, Write: write,
	}.View()
}

// The statuses of a row: a final one, or live.
const live = "live"

func status(s *task.State) string {
	switch {
	case s.Completed != nil:
		return "completed"
	case s.Failed != nil:
		return "failed"
	case s.Cancelled != nil:
		return "cancelled"
	default:
		return live
	}
}

func write(ctx context.Context, tx *sql.Tx, s *task.State, ordinal domain.Position) error {
	if !s.Exists() {
		return nil
	}
	var deadline string
	if at, ok := s.Deadline(); ok {
		deadline = domain.FormatTime(at)
	}
	subject, _ := s.Subject()
	_, err := tx.ExecContext(ctx, `INSERT INTO tasks (id, ordinal, tenant, principal, tool, subject, status, expired, deadline, created_at)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
		ON CONFLICT (id) DO UPDATE SET status = excluded.status, expired = excluded.expired, deadline = excluded.deadline`,
		s.Created.Handle, ordinal, s.Created.Owner.Tenant, s.Created.Owner.Principal, s.Created.Tool, subject, status(s),
		s.Expired, deadline, domain.FormatTime(s.CreatedAt))
	return err
}

// Listed is one row of a list.
type Listed struct {
	ID      domain.TaskID
	Owner   domain.Owner
	Tool    string
	Subject domain.Stream
	Status  string // live, completed, failed or cancelled
	Created string
}

// Table reads the table.
type Table struct{ db *sql.DB }

// NewTable reads from an open views.db.
func NewTable(db *sql.DB) *Table { return &Table{db: db} }

const columns = `SELECT id, tenant, principal, tool, subject, status, created_at FROM tasks `

// List gives a caller's tasks that are still served at an instant, newest first;
// allOfTenant gives every one of its tenant.
func (t *Table) List(ctx context.Context, owner domain.Owner, allOfTenant bool, now time.Time, limit int) ([]Listed, error) {
	return t.rows(ctx, columns+`WHERE tenant = ? AND (principal = ? OR ?) AND expired = 0 AND (deadline = '' OR deadline > ?)
		ORDER BY ordinal DESC LIMIT ?`, owner.Tenant, owner.Principal, allOfTenant, domain.FormatTime(now), limit)
}

// Live gives the tasks that are not at an end, in the order of their making.
func (t *Table) Live(ctx context.Context) ([]Listed, error) {
	return t.rows(ctx, columns+`WHERE status = 'live' AND expired = 0 ORDER BY ordinal`)
}

// Due gives at most limit tasks whose time has come and that nobody has expired.
func (t *Table) Due(ctx context.Context, now time.Time, limit int) ([]Listed, error) {
	return t.rows(ctx, columns+`WHERE expired = 0 AND deadline <> '' AND deadline <= ? ORDER BY deadline LIMIT ?`,
		domain.FormatTime(now), limit)
}

// Of gives the live tasks of a subject.
func (t *Table) Of(ctx context.Context, subject domain.Stream) ([]Listed, error) {
	return t.rows(ctx, columns+`WHERE subject = ? AND status = 'live'`, subject)
}

func (t *Table) rows(ctx context.Context, query string, args ...any) ([]Listed, error) {
	rows, err := t.db.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var list []Listed
	for rows.Next() {
		var l Listed
		if err := rows.Scan(&l.ID, &l.Owner.Tenant, &l.Owner.Principal, &l.Tool, &l.Subject, &l.Status, &l.Created); err != nil {
			return nil, err
		}
		list = append(list, l)
	}
	return list, rows.Err()
}
