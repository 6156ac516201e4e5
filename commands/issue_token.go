package commands

import (
	"context"
	"time"

	"hangar/domain"
	"hangar/domain/access"
	"hangar/domain/event"
)

// IssueToken makes a token for a caller that does not have one yet.
type IssueToken struct {
	Owner     domain.Owner
	Scopes    access.Scopes
	ExpiresAt time.Time // zero for never
	// Token is one that was made before and may have been issued already: issuing
	// it again does nothing. Empty makes a new one.
	Token string
}

// IssueToken reserves the caller's name, which is never given out again, and
// makes the token. The token itself is returned and nowhere written down.
func (c *Commands) IssueToken(ctx context.Context, o Origin, t IssueToken) (token string, id domain.TokenID, err error) {
	if !domain.ValidName(string(t.Owner.Tenant)) {
		return "", "", domain.InvalidField("tenant", "%q is not a name: 1 to 64 of a-z, 0-9 and hyphen", t.Owner.Tenant)
	}
	if !domain.ValidName(string(t.Owner.Principal)) {
		return "", "", domain.InvalidField("name", "%q is not a name: 1 to 64 of a-z, 0-9 and hyphen", t.Owner.Principal)
	}
	if token = t.Token; token == "" {
		token = c.NewToken()
	}
	id, ok := access.IDOf(token)
	if !ok {
		return "", "", domain.InvalidField("token", "it does not look like a token")
	}
	reserved := access.PrincipalReserved{Tenant: t.Owner.Tenant, Principal: t.Owner.Principal, Token: id}
	l, err := create[reservation](ctx, c, access.PrincipalStream(t.Owner), o, reserved)
	if err != nil {
		return "", "", err
	}
	if l.state.token != id {
		return "", "", domain.InvalidField("name", "%q is taken in tenant %q; a name is never given out twice, choose another", t.Owner.Principal, t.Owner.Tenant)
	}
	if len(t.Scopes) == 0 {
		t.Scopes = access.Default
	}
	issued := access.TokenIssued{Tenant: t.Owner.Tenant, Principal: t.Owner.Principal, Scopes: t.Scopes}
	if !t.ExpiresAt.IsZero() {
		issued.ExpiresAt = domain.FormatTime(t.ExpiresAt)
	}
	if _, err := create[access.Token](ctx, c, access.TokenStream(id), o, issued); err != nil {
		return "", "", err
	}
	return token, id, nil
}

// NewToken makes a token that nobody has yet.
func (c *Commands) NewToken() string {
	var random [32]byte
	c.read(random[:])
	return access.NewToken(random)
}

// reservation is the fold of a principal's stream.
type reservation struct{ token domain.TokenID }

func (r *reservation) Evolve(e event.Event) {
	if d, ok := e.Data.(access.PrincipalReserved); ok {
		r.token = d.Token
	}
}

// RevokeToken ends a token. One that is not of the tenant looks like one that
// never was.
func (c *Commands) RevokeToken(ctx context.Context, o Origin, tenant domain.Tenant, id domain.TokenID, reason string) error {
	_, err := run[access.Token](ctx, c, access.TokenStream(id), o, func(t *access.Token) ([]event.Data, error) {
		if t.Owner.Tenant != tenant {
			t = &access.Token{}
		}
		return access.Decide(t, access.Revoke{Reason: c.redactor.Text(reason)})
	})
	return err
}
