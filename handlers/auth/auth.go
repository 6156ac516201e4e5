// Package auth decides at the door whether an HTTP request may come in: whose
// bearer token it shows, from which site it was sent, and where a client that has
// no token learns what it needs.
package auth

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"strings"

	"hangar/domain"
	"hangar/domain/access"
)

// Identity is who a token speaks for.
type Identity struct {
	Owner   domain.Owner
	Scopes  access.Scopes
	TokenID domain.TokenID
}

// Authenticator knows the tokens. For one that was never issued, has expired or
// was revoked the error is Unauthorized, without saying which.
type Authenticator interface {
	Authenticate(ctx context.Context, token string) (Identity, error)
}

// Options are what the door needs to know.
type Options struct {
	// PublicURL is where clients reach the server, without a path: for
	// "https://hangar.example", MCP is at https://hangar.example/mcp. Empty means
	// whatever host the request named, which is right on loopback.
	PublicURL string
	// Scopes are what a challenge asks for; nil is access.Default.
	Scopes access.Scopes
	// AuthorizationServers are listed in the metadata. Hangar's own tokens come
	// from its command line, so there may be none.
	AuthorizationServers []string
	Log                  *slog.Logger // nil discards
}

type identityKey struct{}

// WithIdentity puts an identity into a context, as Bearer does.
func WithIdentity(ctx context.Context, id Identity) context.Context {
	return context.WithValue(ctx, identityKey{}, id)
}

// FromContext gives the identity that Bearer found; ok is false behind no Bearer.
func FromContext(ctx context.Context) (id Identity, ok bool) {
	id, ok = ctx.Value(identityKey{}).(Identity)
	return id, ok
}

// Bearer lets through requests that show a valid token in the Authorization
// header, and nowhere else (basic/authorization). No token and a bad one get one
// and the same 401.
func Bearer(a Authenticator, o Options) func(http.Handler) http.Handler {
	log := o.log()
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			token, malformed := bearerToken(r.Header)
			if malformed {
				refuse(w, http.StatusBadRequest, "invalid_request", "there is more than one Authorization header")
				return
			}
			if token == "" {
				o.challenge(w, r)
				return
			}
			id, err := a.Authenticate(r.Context(), token)
			switch domain.CodeOf(err) {
			case "":
				next.ServeHTTP(w, r.WithContext(WithIdentity(r.Context(), id)))
			case domain.Unauthorized, domain.NotFound, domain.Invalid:
				o.challenge(w, r)
			case domain.Unavailable:
				refuse(w, http.StatusServiceUnavailable, "temporarily_unavailable", "tokens cannot be checked now")
			default:
				log.ErrorContext(r.Context(), "checking a token failed", "error", err)
				refuse(w, http.StatusInternalServerError, "server_error", "internal error")
			}
		})
	}
}

// bearerToken gives the token of an Authorization header, "" where there is none
// or one of another scheme.
func bearerToken(h http.Header) (token string, malformed bool) {
	lines := h["Authorization"]
	if len(lines) > 1 {
		return "", true
	}
	if len(lines) == 0 {
		return "", false
	}
	scheme, rest, _ := strings.Cut(lines[0], " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return "", false
	}
	return strings.TrimSpace(rest), false
}

// challenge is the 401 that tells a client where to learn what it needs (RFC
// 9728, section 5.1).
func (o Options) challenge(w http.ResponseWriter, r *http.Request) {
	scopes := o.Scopes
	if scopes == nil {
		scopes = access.Default
	}
	w.Header().Set("WWW-Authenticate", "Bearer resource_metadata="+quoted(o.metadataURL(r))+", scope="+quoted(scopeList(scopes)))
	refuse(w, http.StatusUnauthorized, "unauthorized", "a valid bearer token is needed: make one with `hangar token create`")
}

// Forbid is the 403 for a token whose scopes do not reach what was asked; needed
// are all that the operation needs (RFC 6750, section 3.1).
func (o Options) Forbid(w http.ResponseWriter, r *http.Request, needed ...access.Scope) {
	w.Header().Set("WWW-Authenticate", `Bearer error="insufficient_scope", scope=`+quoted(scopeList(needed))+
		", resource_metadata="+quoted(o.metadataURL(r)))
	refuse(w, http.StatusForbidden, "insufficient_scope", "this needs a token with the scope "+scopeList(needed))
}

// Require lets through identities whose scopes reach all that are needed. It
// stands behind Bearer; without an identity it refuses with the 401.
func Require(o Options, needed ...access.Scope) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			id, ok := FromContext(r.Context())
			if !ok {
				o.challenge(w, r)
				return
			}
			for _, s := range needed {
				if !id.Scopes.Allow(s) {
					o.Forbid(w, r, needed...)
					return
				}
			}
			next.ServeHTTP(w, r)
		})
	}
}

func (o Options) log() *slog.Logger {
	if o.Log == nil {
		return slog.New(slog.DiscardHandler)
	}
	return o.Log
}

func scopeList(scopes []access.Scope) string {
	names := make([]string, len(scopes))
	for i, s := range scopes {
		names[i] = string(s)
	}
	return strings.Join(names, " ")
}

// quoted gives s as a quoted-string of RFC 9110, without what cannot stand in one.
func quoted(s string) string {
	return `"` + strings.Map(func(r rune) rune {
		if r < ' ' || r == '"' || r == '\\' || r > '~' {
			return -1
		}
		return r
	}, s) + `"`
}

// refuse answers with an error in the form of RFC 6749, section 5.2.
func refuse(w http.ResponseWriter, status int, code, description string) {
	body, err := json.Marshal(map[string]string{"error": code, "error_description": description})
	if err != nil {
		panic(err) // two strings always marshal
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(body) // a client that is gone has nothing to be told
}
