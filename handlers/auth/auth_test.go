package auth

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"hangar/domain"
	"hangar/domain/access"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// tokens is an Authenticator with alice's token; some others fail in their way.
type tokens struct{}

var alice = Identity{Owner: domain.Owner{Tenant: "acme", Principal: "alice"}, Scopes: access.Scopes{access.Jobs}, TokenID: "t1"}

func (tokens) Authenticate(_ context.Context, token string) (Identity, error) {
	switch token {
	case "alices":
		return alice, nil
	case "store-down":
		return Identity{}, domain.Errorf(domain.Unavailable, "the store is away at 10.0.0.7")
	case "fault":
		return Identity{}, errors.New("disk on fire")
	}
	return Identity{}, domain.Errorf(domain.Unauthorized, "no such token")
}

// seen answers with who came in.
var seen = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
	id, ok := FromContext(r.Context())
	_ = json.NewEncoder(w).Encode(map[string]any{"principal": id.Owner.Principal, "ok": ok})
})

func get(h http.Handler, target string, change func(*http.Request)) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodPost, target, nil)
	r.Host = "127.0.0.1:7330"
	if change != nil {
		change(r)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func TestBearer(t *testing.T) {
	var log bytes.Buffer
	h := Bearer(tokens{}, Options{Log: slog.New(slog.NewTextHandler(&log, nil))})(seen)
	with := func(lines ...string) func(*http.Request) {
		return func(r *http.Request) { r.Header["Authorization"] = lines }
	}
	for _, c := range []struct {
		name   string
		target string
		change func(*http.Request)
		status int
		body   string
	}{
		{"a good token", "/mcp", with("Bearer alices"), 200, `"alice"`},
		{"the scheme in another case", "/mcp", with("bearer  alices "), 200, `"alice"`},
		{"none", "/mcp", nil, 401, "unauthorized"},
		{"an empty one", "/mcp", with("Bearer "), 401, "unauthorized"},
		{"another scheme", "/mcp", with("Basic YWxpY2VzOg=="), 401, "unauthorized"},
		{"one never issued", "/mcp", with("Bearer nope"), 401, "unauthorized"},
		{"in the query", "/mcp?access_token=alices&token=alices", nil, 401, "unauthorized"},
		{"in another header", "/mcp", func(r *http.Request) { r.Header.Set("X-Mcp-Auth", "Bearer alices") }, 401, "unauthorized"},
		{"two headers", "/mcp", with("Bearer alices", "Bearer nope"), 400, "invalid_request"},
		{"the store is away", "/mcp", with("Bearer store-down"), 503, "temporarily_unavailable"},
		{"a fault", "/mcp", with("Bearer fault"), 500, "internal error"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := get(h, c.target, c.change)
			if w.Code != c.status || !strings.Contains(w.Body.String(), c.body) {
				t.Errorf("%d %s", w.Code, w.Body)
			}
			if (w.Header().Get("WWW-Authenticate") != "") != (c.status == 401) {
				t.Errorf("WWW-Authenticate: %q", w.Header().Get("WWW-Authenticate"))
			}
			if strings.Contains(w.Body.String(), "10.0.0.7") || strings.Contains(w.Body.String(), "fire") {
				t.Errorf("the cause left: %s", w.Body)
			}
		})
	}
	if !strings.Contains(log.String(), "disk on fire") || strings.Contains(log.String(), "alices") {
		t.Errorf("log: %s", &log)
	}
}

// TestNoTokenIsTreatedAsABadOne, to the byte (field case 10).
func TestNoTokenIsTreatedAsABadOne(t *testing.T) {
	h := Bearer(tokens{}, Options{})(seen)
	none := get(h, "/mcp", nil)
	bad := get(h, "/mcp", func(r *http.Request) { r.Header.Set("Authorization", "Bearer nope") })
	if none.Body.String() != bad.Body.String() || none.Header().Get("WWW-Authenticate") != bad.Header().Get("WWW-Authenticate") {
		t.Errorf("%v %s\n%v %s", none.Header(), none.Body, bad.Header(), bad.Body)
	}
	want := `Bearer resource_metadata="http://127.0.0.1:7330/.well-known/oauth-protected-resource/mcp", scope="jobs sandboxes gateway"`
	if got := none.Header().Get("WWW-Authenticate"); got != want {
		t.Errorf("got %s", got)
	}
}

func TestChallengeNamesThePublicURL(t *testing.T) {
	h := Bearer(tokens{}, Options{PublicURL: "https://hangar.example/", Scopes: access.Scopes{access.Admin}})(seen)
	want := `Bearer resource_metadata="https://hangar.example/.well-known/oauth-protected-resource/mcp", scope="admin"`
	if got := get(h, "/mcp", nil).Header().Get("WWW-Authenticate"); got != want {
		t.Errorf("got %s", got)
	}
	// A Host that would break out of the quotes does not.
	h = Bearer(tokens{}, Options{})(seen)
	got := get(h, "/mcp", func(r *http.Request) { r.Host = "x\", error=\"y\r\n" }).Header().Get("WWW-Authenticate")
	if strings.Count(got, `"`) != 4 || strings.ContainsAny(got, "\r\n") {
		t.Errorf("got %q", got)
	}
}

func TestRequire(t *testing.T) {
	o := Options{}
	as := func(id *Identity) func(*http.Request) {
		return func(r *http.Request) {
			if id != nil {
				*r = *r.WithContext(WithIdentity(r.Context(), *id))
			}
		}
	}
	admin := Identity{Scopes: access.Scopes{access.Admin}}
	for _, c := range []struct {
		name   string
		id     *Identity
		needed []access.Scope
		status int
	}{
		{"reaches", &alice, []access.Scope{access.Jobs}, 200},
		{"reaches one of two", &alice, []access.Scope{access.Jobs, access.Consent}, 403},
		{"admin reaches all", &admin, []access.Scope{access.Jobs, access.Consent}, 200},
		{"nobody", nil, []access.Scope{access.Jobs}, 401},
	} {
		w := get(Require(o, c.needed...)(seen), "/v1", as(c.id))
		if w.Code != c.status {
			t.Errorf("%s: %d", c.name, w.Code)
		}
		if c.status == 403 {
			want := `Bearer error="insufficient_scope", scope="jobs consent", resource_metadata="http://127.0.0.1:7330/.well-known/oauth-protected-resource/mcp"`
			if got := w.Header().Get("WWW-Authenticate"); got != want {
				t.Errorf("got %s", got)
			}
		}
	}
}

func TestSites(t *testing.T) {
	local := Sites{Loopback: true, Hosts: []string{"hangar.local"}, Origins: []string{"https://console.example"}}
	public := Sites{Origins: []string{"https://console.example"}}
	for _, c := range []struct {
		sites        Sites
		host, origin string
		status       int
	}{
		{local, "127.0.0.1:7330", "", 200},
		{local, "127.8.9.1", "", 200},
		{local, "localhost:7330", "", 200},
		{local, "LOCALHOST", "", 200},
		{local, "[::1]:7330", "", 200},
		{local, "[::1]", "", 200},
		{local, "[::ffff:127.0.0.1]:1", "", 200},
		{local, "hangar.local:7330", "", 200},
		{local, "evil.example", "", 403},
		{local, "evil.example:7330", "http://evil.example", 403},
		{local, "127.0.0.1.evil.example", "", 403},
		{local, "localhost.evil.example", "", 403},
		{local, "169.254.169.254", "", 403},
		{local, "", "", 403},
		{local, "127.0.0.1:7330", "http://localhost:3000", 200},
		{local, "127.0.0.1:7330", "https://127.0.0.1", 200},
		{local, "127.0.0.1:7330", "http://[::1]:9", 200},
		{local, "127.0.0.1:7330", "https://console.example", 200},
		{local, "127.0.0.1:7330", "http://console.example", 403},
		{local, "127.0.0.1:7330", "http://evil.example", 403},
		{local, "127.0.0.1:7330", "http://localhost.evil.example", 403},
		{local, "127.0.0.1:7330", "http://localhost@evil.example", 403},
		{local, "127.0.0.1:7330", "null", 403},
		{local, "127.0.0.1:7330", "file://localhost", 403},
		{local, "127.0.0.1:7330", "://", 403},
		{public, "hangar.example", "", 200},
		{public, "hangar.example", "https://console.example", 200},
		{public, "hangar.example", "http://localhost:3000", 403},
	} {
		w := get(c.sites.Check(seen), "/mcp", func(r *http.Request) {
			r.Host = c.host
			if c.origin != "" {
				r.Header.Set("Origin", c.origin)
			}
		})
		if w.Code != c.status {
			t.Errorf("Host %q, Origin %q: %d, want %d", c.host, c.origin, w.Code, c.status)
		}
	}
}

func TestMetadata(t *testing.T) {
	o := Options{AuthorizationServers: []string{"https://login.example"}}
	for _, path := range []string{MetadataPath, MetadataPathMCP} {
		r := httptest.NewRequest(http.MethodGet, "http://127.0.0.1:7330"+path, nil)
		w := httptest.NewRecorder()
		o.Metadata().ServeHTTP(w, r)
		want := `{"resource":"http://127.0.0.1:7330/mcp","resource_name":"Hangar","authorization_servers":["https://login.example"],` +
			`"scopes_supported":["jobs","sandboxes","gateway","consent","admin"],"bearer_methods_supported":["header"]}`
		if w.Code != 200 || w.Body.String() != want || w.Header().Get("Content-Type") != "application/json" {
			t.Errorf("%s: %d %s", path, w.Code, w.Body)
		}
	}
	if w := get(o.Metadata(), MetadataPath, nil); w.Code != 405 {
		t.Errorf("POST: %d", w.Code)
	}
}
