// Package jobs is the table of jobs, behind lists and behind waking what is
// unfinished when a server starts. A single job is read from its own stream.
package jobs

import (
	"context"
	"database/sql"
	"encoding/json"
	"strings"

	"hangar/domain"
	"hangar/domain/job"
	"hangar/projections"
)

// NewView makes the view that keeps the table in step with the log.
func NewView() projections.View {
	return projections.StreamTable[job.State]{
		Table: "jobs", Revision: 1, Category: job.Category, Fold: projections.Jobs, Write: write,
	}.View()
}

func write(ctx context.Context, tx *sql.Tx, s *job.State, ordinal domain.Position) error {
	if !s.Exists() {
		return nil
	}
	labels, err := json.Marshal(s.Submitted.Labels)
	if err != nil {
		return err
	}
	status := s.Status()
	_, err = tx.ExecContext(ctx, `INSERT INTO jobs (id, ordinal, tenant, principal, status, final, repo, labels, created_at)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
		ON CONFLICT (id) DO UPDATE SET status = excluded.status, final = excluded.final`,
		s.ID, ordinal, s.Owner.Tenant, s.Owner.Principal, status, status.Final(), s.Submitted.Repo, string(labels),
		domain.FormatTime(s.CreatedAt))
	return err
}

// Query says which jobs a list shows, newest first. Zero fields do not restrict.
type Query struct {
	// Owner is the caller; AllOfTenant shows every job of its tenant.
	Owner       domain.Owner
	AllOfTenant bool
	Status      job.Status
	Repo        string
	LabelKey    string
	LabelValue  string
	// Before continues a list after the job with this ordinal.
	Before int64
	Limit  int
}

// Listed is one row of a list.
type Listed struct {
	ID      domain.JobID
	Ordinal int64
}

// Table reads the table.
type Table struct{ db *sql.DB }

// NewTable reads from an open views.db.
func NewTable(db *sql.DB) *Table { return &Table{db: db} }

// List gives at most Limit jobs, newest first.
func (t *Table) List(ctx context.Context, q Query) ([]Listed, error) {
	where, args := []string{"tenant = ?"}, []any{q.Owner.Tenant}
	add := func(on bool, clause string, values ...any) {
		if on {
			where, args = append(where, clause), append(args, values...)
		}
	}
	add(!q.AllOfTenant, "principal = ?", q.Owner.Principal)
	add(q.Status != "", "status = ?", q.Status)
	add(q.Repo != "", "repo = ?", q.Repo)
	add(q.LabelKey != "", "EXISTS (SELECT 1 FROM json_each(labels) WHERE key = ? AND value = ?)", q.LabelKey, q.LabelValue)
	add(q.Before > 0, "ordinal < ?", q.Before)
	return t.rows(ctx, `SELECT id, ordinal FROM jobs WHERE `+strings.Join(where, " AND ")+` ORDER BY ordinal DESC LIMIT ?`,
		append(args, q.Limit)...)
}

// Live gives the jobs that are not at an end, in the order of their submission.
func (t *Table) Live(ctx context.Context) ([]Listed, error) {
	return t.rows(ctx, `SELECT id, ordinal FROM jobs WHERE final = 0 ORDER BY ordinal`)
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
		if err := rows.Scan(&l.ID, &l.Ordinal); err != nil {
			return nil, err
		}
		list = append(list, l)
	}
	return list, rows.Err()
}
