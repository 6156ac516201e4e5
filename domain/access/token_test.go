package access_test

import (
	"strings"
	"testing"
	"time"

	"hangar/domain"
	"hangar/domain/access"
	"hangar/domain/event"
)

var noon = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)

// golden is the token of 32 bytes that count from 0. Its id is permanent: the
// log has its stream.
const (
	golden   = "hgr_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8"
	goldenID = "z5ypzifg25kokybkzy5l3oqky5"
)

func TestTokensAreGolden(t *testing.T) {
	var random [32]byte
	for i := range random {
		random[i] = byte(i)
	}
	if got := access.NewToken(random); got != golden {
		t.Errorf("the token is %s", got)
	}
	id, ok := access.IDOf(golden)
	if !ok || id != goldenID || access.TokenStream(id) != "access-"+goldenID {
		t.Errorf("its id is %s, %t", id, ok)
	}
	if got := access.PrincipalStream(domain.Owner{Tenant: "acme", Principal: "ci-bot"}); got != "principal-acme.ci-bot" {
		t.Errorf("its name is reserved at %s", got)
	}
}

func TestIDOfWhatIsNoToken(t *testing.T) {
	for _, s := range []string{"", "hgr_", golden[:len(golden)-1], golden + "A", strings.ToUpper(golden), "xyz" + golden[3:], strings.Repeat("A", len(golden))} {
		if id, ok := access.IDOf(s); ok || id != "" {
			t.Errorf("%q is taken for the token %s", s, id)
		}
	}
}

func fold(events ...event.Event) *access.Token {
	t := &access.Token{}
	for i, e := range events {
		e.Revision = int64(i)
		t.Evolve(e)
	}
	return t
}

func issued(expires string) event.Event {
	return event.Event{Stream: "access-" + goldenID, Time: noon,
		Data: access.TokenIssued{Tenant: "acme", Principal: "alice", Scopes: access.Default, ExpiresAt: expires}}
}

func TestValid(t *testing.T) {
	revoked := event.Event{Stream: "access-" + goldenID, Time: noon, Data: access.TokenRevoked{}}
	for _, c := range []struct {
		name   string
		token  *access.Token
		at     time.Time
		valid  bool
		exists bool
	}{
		{"never issued", fold(), noon, false, false},
		{"without end", fold(issued("")), noon.Add(1e6 * time.Hour), true, true},
		{"before its end", fold(issued("2026-05-01T13:00:00.000000Z")), noon.Add(time.Hour - 1), true, true},
		{"at its end", fold(issued("2026-05-01T13:00:00.000000Z")), noon.Add(time.Hour), false, true},
		{"with an end that cannot be read", fold(issued("soon")), noon, false, true},
		{"revoked", fold(issued(""), revoked), noon, false, true},
		{"revoked before it was issued", fold(revoked, issued("")), noon, false, true},
		{"of another stream", fold(event.Event{Stream: "x", Data: access.TokenIssued{Tenant: "acme"}}), noon, false, false},
		{"of no stream", fold(event.Event{Data: access.TokenIssued{Tenant: "acme"}}), noon, false, false},
	} {
		if got := c.token.Valid(c.at); got != c.valid {
			t.Errorf("a token %s is valid: %t", c.name, got)
		}
		if (c.token.ID != "") != c.exists {
			t.Errorf("a token %s has the id %q", c.name, c.token.ID)
		}
	}
}

// A second TokenIssued in a stream would widen what its holder may reach.
func TestATokenIsIssuedOnce(t *testing.T) {
	again := event.Event{Stream: "access-" + goldenID, Time: noon, Data: access.TokenIssued{Tenant: "evil", Principal: "eve", Scopes: access.All}}
	token := fold(issued(""), again)
	if token.Owner != (domain.Owner{Tenant: "acme", Principal: "alice"}) || token.Scopes.Admin() {
		t.Errorf("it has become %+v", token)
	}
}

func TestDecide(t *testing.T) {
	none, live := fold(), fold(issued(""))
	dead := access.Evolve(*live, event.Event{Data: access.TokenRevoked{}})
	for _, c := range []struct {
		name    string
		token   *access.Token
		command access.Command
		events  int
		code    domain.Code
	}{
		{"issue", none, access.Issue{}, 1, ""},
		{"issue again", live, access.Issue{}, 0, domain.Conflict},
		{"issue after it was revoked", &dead, access.Issue{}, 0, domain.Conflict},
		{"revoke", live, access.Revoke{}, 1, ""},
		{"revoke again", &dead, access.Revoke{}, 0, ""},
		{"revoke what is not", none, access.Revoke{}, 0, domain.NotFound},
		{"nothing", live, nil, 0, domain.Internal},
	} {
		batch, err := access.Decide(c.token, c.command)
		if len(batch) != c.events || domain.CodeOf(err) != c.code {
			t.Errorf("%s: %v, %v", c.name, batch, err)
		}
	}
	if live.Revoked {
		t.Error("what was taken by a copy changed the first")
	}
}

func TestScopes(t *testing.T) {
	for _, s := range access.All {
		if !(access.Scopes{access.Admin}).Allow(s) {
			t.Errorf("an administrator does not reach %s", s)
		}
		if (access.Scopes{}).Allow(s) || (access.Scopes)(nil).Allow(s) {
			t.Errorf("no scope reaches %s", s)
		}
		if (access.Scopes{s}).Allow(s) != true {
			t.Errorf("%s does not reach itself", s)
		}
	}
	if access.Default.Allow(access.Admin) || access.Default.Allow(access.Consent) || access.Default.Admin() {
		t.Error("the default reaches what must be given by name")
	}
	if (access.Scopes{access.Consent}).Allow(access.Jobs) {
		t.Error("one scope reaches another")
	}
}
