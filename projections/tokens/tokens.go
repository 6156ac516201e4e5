// Package tokens is the table of bearer tokens, behind their list. Whether a token
// is valid is read from its own stream.
package tokens

import (
	"context"
	"database/sql"
	"encoding/json"

	"hangar/domain"
	"hangar/domain/access"
	"hangar/projections"
)

// NewView makes the view that keeps the table in step with the log.
func NewView() projections.View {
	return projections.StreamTable[access.Token]{
		Table: "tokens", Revision: 1, Category: access.TokenCategory, Fold: projections.Tokens, Write: write,
	}.View()
}

func write(ctx context.Context, tx *sql.Tx, t *access.Token, ordinal domain.Position) error {
	if t.ID == "" {
		return nil
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
