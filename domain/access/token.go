package access

import (
	"crypto/sha256"
	"encoding/base64"
	"strings"
	"time"

	"hangar/domain"
	"hangar/domain/event"
)

// Categories of the streams of this package.
const (
	TokenCategory     = "access"
	PrincipalCategory = "principal"
	DenialsCategory   = "denials"
)

// tokenPrefix begins every token, so that one is known for what it is wherever
// it turns up.
const tokenPrefix = "hgr_"

// NewToken makes a token of 256 random bits.
func NewToken(random [32]byte) string {
	return tokenPrefix + base64.RawURLEncoding.EncodeToString(random[:])
}

// IDOf gives a token's id, by which it is looked up: the token itself is never
// stored. ok is false for what cannot be a token.
func IDOf(token string) (id domain.TokenID, ok bool) {
	if len(token) != len(tokenPrefix)+43 || token[:len(tokenPrefix)] != tokenPrefix {
		return "", false
	}
	sum := sha256.Sum256([]byte(token))
	return domain.TokenID(domain.ShortHash(sum[:])), true
}

// TokenStream is where a token's events are.
func TokenStream(id domain.TokenID) domain.Stream {
	return domain.Stream(TokenCategory + "-" + string(id))
}

// PrincipalStream is where a caller's name is reserved.
func PrincipalStream(o domain.Owner) domain.Stream {
	return domain.Stream(PrincipalCategory + "-" + string(o.Tenant) + "." + string(o.Principal))
}

// DenialsStream is where it stands that a caller asked for what is not its own.
func DenialsStream(o domain.Owner) domain.Stream {
	return domain.Stream(DenialsCategory + "-" + string(o.Tenant) + "." + string(o.Principal))
}

// The events of access.
type (
	// PrincipalReserved: a name was given out, for ever. Token is the id of the
	// token it was given to, so that a repeated command knows its own.
	PrincipalReserved struct {
		Tenant    domain.Tenant    `json:"tenant"`
		Principal domain.Principal `json:"principal"`
		Token     domain.TokenID   `json:"token"`
	}
	// TokenIssued: a token may be used.
	TokenIssued struct {
		Tenant    domain.Tenant    `json:"tenant"`
		Principal domain.Principal `json:"principal"`
		Scopes    Scopes           `json:"scopes"`
		ExpiresAt string           `json:"expires_at,omitempty"`
	}
	// TokenRevoked: it may not any more.
	TokenRevoked struct {
		Reason string `json:"reason,omitempty"`
	}
	// AccessDenied: a caller asked for a task that is not its own, has expired or
	// never was. TaskHash is of what it asked for.
	AccessDenied struct {
		Method   string        `json:"method"`
		TaskHash domain.Digest `json:"task_hash"`
	}
)

// EventType is "PrincipalReserved".
func (PrincipalReserved) EventType() event.Type { return "PrincipalReserved" }

// EventType is "TokenIssued".
func (TokenIssued) EventType() event.Type { return "TokenIssued" }

// EventType is "TokenRevoked".
func (TokenRevoked) EventType() event.Type { return "TokenRevoked" }

// EventType is "AccessDenied".
func (AccessDenied) EventType() event.Type { return "AccessDenied" }

func init() {
	event.Register(PrincipalReserved{}, 1)
	event.Register(TokenIssued{}, 1)
	event.Register(TokenRevoked{}, 1)
	event.Register(AccessDenied{}, 1)
}

// Token is the fold of a token's stream. The zero value is no token.
type Token struct {
	ID        domain.TokenID
	Owner     domain.Owner
	Scopes    Scopes
	IssuedAt  time.Time
	ExpiresAt time.Time // zero for never
	Revoked   bool
	Revision  int64
}

// Evolve takes one event into the token. The token given is left as it was.
func Evolve(t Token, e event.Event) Token { t.Evolve(e); return t }

// Evolve takes one event into the token, in place.
func (t *Token) Evolve(e event.Event) {
	t.Revision = e.Revision
	switch d := e.Data.(type) {
	case TokenIssued:
		id, ok := strings.CutPrefix(string(e.Stream), TokenCategory+"-")
		if !ok || t.ID != "" {
			return // nobody's, or a second one: what a token may reach never changes
		}
		t.ID = domain.TokenID(id)
		t.Owner, t.Scopes, t.IssuedAt = domain.Owner{Tenant: d.Tenant, Principal: d.Principal}, d.Scopes, e.Time
		if d.ExpiresAt != "" {
			if t.ExpiresAt, _ = domain.ParseTime(d.ExpiresAt); t.ExpiresAt.IsZero() {
				t.ExpiresAt = e.Time // what cannot be read has passed
			}
		}
	case TokenRevoked:
		t.Revoked = true
	}
}

// Valid reports whether the token may be used at an instant.
func (t *Token) Valid(now time.Time) bool {
	return t.ID != "" && !t.Revoked && (t.ExpiresAt.IsZero() || now.Before(t.ExpiresAt))
}

// SizeBytes estimates what the token holds in memory, for caches.
func (t *Token) SizeBytes() int { return 512 }

// Command is an intent about a token: Issue or Revoke.
type Command interface{ command() }

type (
	// Issue makes the token usable.
	Issue struct{ TokenIssued }
	// Revoke ends it.
	Revoke struct{ Reason string }
)

func (Issue) command()  {}
func (Revoke) command() {}

// Decide gives the events that follow from a command.
func Decide(t *Token, c Command) ([]event.Data, error) {
	switch c := c.(type) {
	case Issue:
		if t.ID != "" {
			return nil, domain.Errorf(domain.Conflict, "the token exists already")
		}
		return []event.Data{c.TokenIssued}, nil
	case Revoke:
		if t.ID == "" {
			return nil, domain.Errorf(domain.NotFound, "unknown token")
		}
		if t.Revoked {
			return nil, nil
		}
		return []event.Data{TokenRevoked(c)}, nil
	}
	return nil, domain.Errorf(domain.Internal, "unknown command")
}
