// Package tokens is the table of bearer tokens, behind their list. Whether a token
// is valid is read from its own stream.
package tokens

import (
	"context"
	"database/sql"
	"encoding/json"

	"hangar/domain"
	"hangar/domain/access"
	"hangar/domain/event"
	"hangar/projections"
)

// rowsInMemory is how many tokens the view keeps folded.
const rowsInMemory = 256

// View keeps the table in step with the log.
type View struct {
	rows *projections.Rows[access.Token]
}

// NewView makes the view, for one runner.
func NewView() *View {
	return &View{rows: projections.NewRows(projections.Tokens, rowsInMemory)}
}

// Name is "tokens".
func (*View) Name() string { return "tokens" }

// Version is that of the rows this code writes.
func (*View) Version() int { return 1 }

// Wants takes the streams of tokens.
func (*View) Wants(category string) bool { return category == access.TokenCategory }

// Clear empties the table.
func (v *View) Clear(ctx context.Context, tx *sql.Tx) error {
	v.rows.Reset()
	_, err := tx.ExecContext(ctx, `DELETE FROM tokens`)
	return err
}

// Apply writes a row for each token that a page touched.
func (v *View) Apply(ctx context.Context, tx *sql.Tx, events []event.Event, history projections.History) error {
	touched, err := v.rows.Page(ctx, events, history)
	if err != nil {
		return err
	}
	for _, t := range touched {
		if err := write(ctx, tx, t.State, t.First); err != nil {
			return err
		}
	}
	return nil
}

func write(ctx context.Context, tx *sql.Tx, t *access.Token, ordinal domain.Position) error {
	if t.ID == "" {
		return nil // a stream without its beginning is for `audit verify` to tell
	}
	scopes, err := json.Marshal(t.Scopes)
	if err != nil {
		return err
	}
	var expires string
	if !t.ExpiresAt.IsZero() {
		expires = domain.FormatTime(t.ExpiresAt)
	}
	_, err = tx.ExecContext(ctx, `INSERT INTO tokens (id, ordinal, tenant, principal, scopes, issued_at, expires_at, revoked)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?)
		ON CONFLICT (id) DO UPDATE SET revoked = excluded.revoked`,
		t.ID, ordinal, t.Owner.Tenant, t.Owner.Principal, string(scopes), domain.FormatTime(t.IssuedAt), expires, t.Revoked)
	return err
}

// Table reads the table.
type Table struct{ db *sql.DB }

// NewTable reads from an open views.db.
func NewTable(db *sql.DB) *Table { return &Table{db: db} }

// List gives every token ever issued in a tenant, all tenants' for "", oldest
// first.
func (t *Table) List(ctx context.Context, tenant domain.Tenant) ([]access.Token, error) {
	rows, err := t.db.QueryContext(ctx, `SELECT id, tenant, principal, scopes, issued_at, expires_at, revoked FROM tokens
		WHERE tenant = ? OR ? = '' ORDER BY ordinal`, tenant, tenant)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var list []access.Token
	for rows.Next() {
		var tok access.Token
		var scopes, issued, expires string
		if err := rows.Scan(&tok.ID, &tok.Owner.Tenant, &tok.Owner.Principal, &scopes, &issued, &expires, &tok.Revoked); err != nil {
			return nil, err
		}
		if err := json.Unmarshal([]byte(scopes), &tok.Scopes); err != nil {
			return nil, err
		}
		tok.IssuedAt, _ = domain.ParseTime(issued)
		tok.ExpiresAt, _ = domain.ParseTime(expires) // '' is never
		list = append(list, tok)
	}
	return list, rows.Err()
}
