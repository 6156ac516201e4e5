package rest

import (
	"context"
	"net/http"
	"slices"
	"strings"

	"github.com/go-chi/chi/v5"

	"hangar/commands"
	"hangar/domain"
	"hangar/domain/access"
	"hangar/domain/event"
)

// NewToken is the body of POST /v1/tokens.
type NewToken struct {
	Name string `json:"name"`
	// Tenant may be left out; it is the caller's.
	Tenant domain.Tenant `json:"tenant,omitempty"`
	Scopes access.Scopes `json:"scopes,omitempty"` // none are access.Default
}

// Issued is the answer to it. The token is shown this once.
type Issued struct {
	Token string `json:"token"`
	TokenView
}

// TokenView is a token as it is listed: all but itself.
type TokenView struct {
	ID        domain.TokenID   `json:"id"`
	Tenant    domain.Tenant    `json:"tenant"`
	Name      domain.Principal `json:"name"`
	Scopes    access.Scopes    `json:"scopes"`
	IssuedAt  string           `json:"issued_at"`
	ExpiresAt string           `json:"expires_at,omitempty"`
	Revoked   bool             `json:"revoked,omitempty"`
}

// TokenList is the answer to GET /v1/tokens.
type TokenList struct {
	Tokens []TokenView `json:"tokens"`
}

// ViewToken gives a token as it is listed.
func ViewToken(t access.Token) TokenView {
	v := TokenView{ID: t.ID, Tenant: t.Owner.Tenant, Name: t.Owner.Principal, Scopes: t.Scopes,
		IssuedAt: domain.FormatTime(t.IssuedAt), Revoked: t.Revoked}
	if !t.ExpiresAt.IsZero() {
		v.ExpiresAt = domain.FormatTime(t.ExpiresAt)
	}
	return v
}

// Check completes what was asked for, and says what is wrong with it.
func (n *NewToken) Check(tenant domain.Tenant) error {
	if n.Tenant == "" {
		n.Tenant = tenant
	}
	if n.Name == "" {
		return domain.InvalidField("name", "it is missing; it says who will use the token")
	}
	for field, name := range map[string]string{"name": n.Name, "tenant": string(n.Tenant)} {
		if !domain.ValidName(name) {
			return domain.InvalidField(field, "%q is not a name: 1 to 64 of a-z, 0-9 and hyphen", name)
		}
	}
	for _, s := range n.Scopes {
		if !slices.Contains(access.All, s) {
			return domain.InvalidField("scopes", "%q is not one of %s", s, scopeNames())
		}
	}
	if len(n.Scopes) == 0 {
		n.Scopes = access.Default
	}
	return nil
}

func scopeNames() string {
	names := make([]string, len(access.All))
	for i, s := range access.All {
		names[i] = string(s)
	}
	return strings.Join(names, ", ")
}

func (a *api) issueToken(r *request) error {
	if err := r.require(access.Admin); err != nil {
		return err
	}
	var n NewToken
	if err := r.read(&n); err != nil {
		return err
	}
	if err := n.Check(r.Owner.Tenant); err != nil {
		return err
	}
	if n.Tenant != r.Owner.Tenant {
		return domain.Errorf(domain.Forbidden, "tenant: this token makes tokens of the tenant %q alone; "+
			"one of another tenant is made by its administrator, or by `hangar token create` while no server runs", r.Owner.Tenant)
	}
	token, id, err := a.Tokens.Issue(r.Context(), r.Owner, commands.IssueToken{
		Owner: domain.Owner{Tenant: n.Tenant, Principal: domain.Principal(n.Name)}, Scopes: n.Scopes})
	if err != nil {
		return err
	}
	answer(r.w, http.StatusCreated, Issued{Token: token, TokenView: TokenView{ID: id, Tenant: n.Tenant,
		Name: domain.Principal(n.Name), Scopes: n.Scopes, IssuedAt: domain.FormatTime(a.Clock.Now())}})
	return nil
}

func (a *api) listTokens(r *request) error {
	if err := r.require(access.Admin); err != nil {
		return err
	}
	if err := r.known(); err != nil {
		return err
	}
	list, err := a.Tokens.List(r.Context(), r.Owner.Tenant)
	if err != nil {
		return err
	}
	out := TokenList{Tokens: make([]TokenView, len(list))}
	for i, t := range list {
		out.Tokens[i] = ViewToken(t)
	}
	answer(r.w, http.StatusOK, out)
	return nil
}

func (a *api) revokeToken(r *request) error {
	if err := r.require(access.Admin); err != nil {
		return err
	}
	if err := r.known("reason"); err != nil {
		return err
	}
	id := domain.TokenID(chi.URLParam(r.Request, "id"))
	if err := a.Tokens.Revoke(r.Context(), r.Owner, r.Owner.Tenant, id, r.URL.Query().Get("reason")); err != nil {
		return err
	}
	r.w.WriteHeader(http.StatusNoContent)
	return nil
}

// LogReader reads the log in the order of all.
type LogReader interface {
	ReadAll(ctx context.Context, after domain.Position, limit int) ([]domain.Record, error)
}

// LogTokens are the tokens as the log has them.
type LogTokens struct {
	Commands *commands.Commands
	Log      LogReader
}

var _ Tokens = LogTokens{}

// Issue makes a token.
func (l LogTokens) Issue(ctx context.Context, by domain.Owner, t commands.IssueToken) (string, domain.TokenID, error) {
	return l.Commands.IssueToken(ctx, commands.Origin{Owner: by, ID: l.Commands.NewID()}, t)
}

// Revoke ends a token.
func (l LogTokens) Revoke(ctx context.Context, by domain.Owner, tenant domain.Tenant, id domain.TokenID, reason string) error {
	if !domain.ValidID(access.TokenCategory, access.TokenCategory+"-"+string(id)) {
		return domain.Errorf(domain.NotFound, "unknown token")
	}
	return l.Commands.RevokeToken(ctx, commands.Origin{Owner: by, ID: l.Commands.NewID()}, tenant, id, reason)
}

// tokenPage is how many records one read of the log gives.
const tokenPage = 256

// List gives the tokens of a tenant, all tenants' for "". It reads the whole log:
// people list tokens, and seldom.
func (l LogTokens) List(ctx context.Context, tenant domain.Tenant) ([]access.Token, error) {
	found := map[domain.Stream]*access.Token{}
	var order []*access.Token
	for after := domain.Position(0); ; {
		page, err := l.Log.ReadAll(ctx, after, tokenPage)
		if err != nil {
			return nil, domain.Wrap(domain.Unavailable, err, "the event log cannot be read; try again later")
		}
		for _, r := range page {
			after = r.Position
			if r.Stream.Category() != access.TokenCategory {
				continue
			}
			e, err := event.Decode(r)
			if err != nil {
				continue // one token that cannot be read hides no other
			}
			t, ok := found[r.Stream]
			if !ok {
				t = &access.Token{}
				found[r.Stream] = t
				order = append(order, t)
			}
			t.Evolve(e)
		}
		if len(page) < tokenPage {
			break
		}
	}
	var list []access.Token
	for _, t := range order {
		if t.ID != "" && (tenant == "" || t.Owner.Tenant == tenant) {
			list = append(list, *t)
		}
	}
	return list, nil
}
