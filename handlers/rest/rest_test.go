package rest_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"hangar/commands"
	"hangar/domain"
	"hangar/domain/access"
	"hangar/domain/job"
	"hangar/domain/redact"
	"hangar/domain/turn"
	"hangar/eventstore"
	"hangar/eventstore/memory"
	"hangar/handlers/rest"
	"hangar/projections"
	"hangar/projections/tasks"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type clock struct{}

func (clock) Now() time.Time { return time.Date(2026, 12, 1, 10, 0, 0, 0, time.UTC) }

// counter is randomness that a test can predict.
type counter struct{ n byte }

func (c *counter) Read(p []byte) (int, error) {
	for i := range p {
		c.n++
		p[i] = c.n
	}
	return len(p), nil
}

type identityKey struct{}

// fixture is an API over a log in memory, called as whoever it is told.
type fixture struct {
	t        *testing.T
	store    eventstore.Store
	commands *commands.Commands
	folds    *projections.Folds
	views    *views
	output   map[domain.TurnID]string
	log      bytes.Buffer
	handler  http.Handler
}

type views struct {
	err     error
	rebuilt []string
	panics  bool
}

func (v *views) Status(context.Context) ([]projections.Status, error) {
	if v.panics {
		panic("views: secret detail")
	}
	return []projections.Status{{View: "jobs", Position: 3, Head: 4, Halted: "why"}}, v.err
}

func (v *views) Rebuild(_ context.Context, name string) error {
	if name == "none" {
		return domain.InvalidField("name", "there is no view %q", name)
	}
	v.rebuilt = append(v.rebuilt, name)
	return nil
}

func (f *fixture) OpenOutput(id domain.JobID, n int) (io.ReadSeekCloser, error) {
	text, ok := f.output[domain.TurnOf(id, n)]
	if !ok {
		return nil, fs.ErrNotExist
	}
	return struct {
		io.ReadSeeker
		io.Closer
	}{strings.NewReader(text), io.NopCloser(nil)}, nil
}

// list stands for the table of tasks.
type list []tasks.Listed

func (l *list) List(context.Context, domain.Owner, bool, time.Time, int) ([]tasks.Listed, error) {
	return *l, nil
}

var (
	ann  = rest.Identity{Owner: domain.Owner{Tenant: "acme", Principal: "ann"}, Scopes: access.Scopes{access.Admin}}
	bob  = rest.Identity{Owner: domain.Owner{Tenant: "acme", Principal: "bob"}, Scopes: access.Default}
	eve  = rest.Identity{Owner: domain.Owner{Tenant: "evil", Principal: "eve"}, Scopes: access.Scopes{access.Admin}}
	none = rest.Identity{}
)

func setup(t *testing.T, l *list) *fixture {
	t.Helper()
	f := &fixture{t: t, views: &views{}, output: map[domain.TurnID]string{}}
	var folds *projections.Folds
	store := memory.Open(memory.Options{Observer: func(r []eventstore.Record) { folds.Observe(r) }})
	folds = projections.NewFolds(store, 1<<20)
	f.store, f.folds = store, folds
	t.Cleanup(func() { _ = store.Close() })
	secret := domain.NewSecret([32]byte{1})
	f.commands = commands.New(store, clock{}, &counter{}, secret, redact.New(secret, nil), commands.Settings{TaskTTL: time.Hour, PollInterval: time.Second})
	f.handler = http.StripPrefix(rest.Prefix, rest.New(rest.Options{
		Identity: func(ctx context.Context) (rest.Identity, bool) {
			id, ok := ctx.Value(identityKey{}).(rest.Identity)
			return id, ok
		},
		Tokens: rest.LogTokens{Commands: f.commands, Log: store}, Tasks: l, States: folds, Outputs: f, Views: f.views,
		Clock: clock{}, Log: slog.New(slog.NewTextHandler(&f.log, nil)),
	}))
	return f
}

// call sends a request as somebody, and gives the status and the body.
func (f *fixture) call(as rest.Identity, method, path, body string, header ...string) (int, string, http.Header) {
	f.t.Helper()
	r := httptest.NewRequestWithContext(f.t.Context(), method, path, strings.NewReader(body))
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	if as.Owner != (domain.Owner{}) {
		r = r.WithContext(context.WithValue(r.Context(), identityKey{}, as))
	}
	w := httptest.NewRecorder()
	f.handler.ServeHTTP(w, r)
	return w.Code, w.Body.String(), w.Header()
}

func TestTokens(t *testing.T) {
	t.Parallel()
	f := setup(t, &list{})
	status, body, _ := f.call(ann, "POST", "/v1/tokens", `{"name":"ci"}`)
	var issued rest.Issued
	if err := json.Unmarshal([]byte(body), &issued); err != nil || status != http.StatusCreated {
		t.Fatalf("%d %s", status, body)
	}
	if id, ok := access.IDOf(issued.Token); !ok || id != issued.ID || issued.Tenant != "acme" || len(issued.Scopes) != 3 {
		t.Errorf("issued %+v", issued)
	}
	if status, body, _ := f.call(eve, "POST", "/v1/tokens", `{"name":"spy","scopes":["jobs"]}`); status != http.StatusCreated {
		t.Fatalf("%d %s", status, body)
	}
	_, body, _ = f.call(ann, "GET", "/v1/tokens", "")
	var got rest.TokenList
	if err := json.Unmarshal([]byte(body), &got); err != nil || len(got.Tokens) != 1 || got.Tokens[0].ID != issued.ID || strings.Contains(body, issued.Token) {
		t.Errorf("list: %s", body)
	}
	path := "/v1/tokens/" + string(issued.ID)
	if status, body, _ := f.call(eve, "DELETE", path, ""); status != http.StatusNotFound || !strings.Contains(body, "unknown token") {
		t.Errorf("another tenant's token: %d %s", status, body)
	}
	if status, body, _ := f.call(ann, "DELETE", path+"?reason=lost", ""); status != http.StatusNoContent || body != "" {
		t.Errorf("revoke: %d %s", status, body)
	}
	if s, err := f.folds.Token(t.Context(), issued.ID); err != nil || !s.Revoked {
		t.Errorf("after the revoke: %+v, %v", s, err)
	}
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	f := setup(t, &list{})
	f.views.err = errors.New("disk on fire")
	if status, body, _ := f.call(ann, "POST", "/v1/tokens", `{"name":"taken"}`); status != http.StatusCreated {
		t.Fatalf("%d %s", status, body)
	}
	for _, c := range []struct {
		as                 rest.Identity
		method, path, body string
		status             int
		want               string
	}{
		{none, "GET", "/v1/tokens", "", 401, `"code":"unauthorized"`},
		{none, "GET", "/v1/nowhere", "", 401, `"code":"unauthorized"`},
		{bob, "GET", "/v1/tokens", "", 403, "scope admin"},
		{bob, "POST", "/v1/tokens", `{"name":"x"}`, 403, "scope admin"},
		{bob, "DELETE", "/v1/tokens/x", "", 403, "scope admin"},
		{bob, "GET", "/v1/projections", "", 403, "scope admin"},
		{bob, "POST", "/v1/projections/jobs/rebuild", "", 403, "scope admin"},
		{ann, "POST", "/v1/tokens", `{"name":"taken"}`, 400, `"field":"name"`},
		{ann, "POST", "/v1/tokens", `{"name":"No Name"}`, 400, `"field":"name"`},
		{ann, "POST", "/v1/tokens", `{}`, 400, `"field":"name"`},
		{ann, "POST", "/v1/tokens", `{"name":1}`, 400, `"field":"name"`},
		{ann, "POST", "/v1/tokens", `{"name":"x","scopes":["root"]}`, 400, `"field":"scopes"`},
		{ann, "POST", "/v1/tokens", `{"name":"x","scopes":"jobs"}`, 400, `not a JSON array`},
		{ann, "POST", "/v1/tokens", `{"name":"x","colour":1}`, 400, `"field":"colour"`},
		{ann, "POST", "/v1/tokens", `{"name":"x"} {}`, 400, "more follows"},
		{ann, "POST", "/v1/tokens", `[]`, 400, "JSON object"},
		{ann, "POST", "/v1/tokens", `{`, 400, "not JSON"},
		{ann, "POST", "/v1/tokens", `{"name":"x","tenant":"other"}`, 403, "tenant"},
		{ann, "POST", "/v1/tokens", `{"name":"` + strings.Repeat("x", 70_000) + `"}`, 413, "65536"},
		{ann, "POST", "/v1/tokens", "", 415, "application/json"},
		{ann, "GET", "/v1/tokens?x=1", "", 400, `"field":"x"`},
		{ann, "DELETE", "/v1/tokens/../secret", "", 404, "not_found"},
		{ann, "PUT", "/v1/tokens", "", 405, "PUT"},
		{ann, "GET", "/v1/nowhere", "", 404, "not_found"},
		{ann, "GET", "/v1/tasks?limit=0", "", 400, `"field":"limit"`},
		{ann, "GET", "/v1/jobs/job-x/logs", "", 404, "unknown job"},
		{ann, "GET", "/v1/jobs/job-x/logs?turn=x", "", 400, `"field":"turn"`},
		{ann, "POST", "/v1/projections/none/rebuild", "", 400, `"field":"name"`},
		{ann, "GET", "/v1/projections", "", 500, "internal error"},
	} {
		status, body, h := f.call(c.as, c.method, c.path, c.body)
		if status != c.status || !strings.Contains(body, c.want) || h.Get("Content-Type") != "application/json" {
			t.Errorf("%s %s %.60s: %d %s, want %d with %s", c.method, c.path, c.body, status, body, c.status, c.want)
		}
	}
	if !strings.Contains(f.log.String(), "disk on fire") {
		t.Errorf("the cause is not in the log: %s", f.log.String())
	}
}

func TestPanicIsAnError(t *testing.T) {
	t.Parallel()
	f := setup(t, &list{})
	f.views.panics = true
	status, body, _ := f.call(ann, "GET", "/v1/projections", "")
	if status != http.StatusInternalServerError || strings.Contains(body, "secret detail") {
		t.Errorf("%d %s", status, body)
	}
	if !strings.Contains(f.log.String(), "secret detail") {
		t.Errorf("the log does not say it: %s", f.log.String())
	}
}

func TestViews(t *testing.T) {
	t.Parallel()
	f := setup(t, &list{})
	const want = `{"projections":[{"name":"jobs","position":3,"head":4,"halted":"why"}]}` + "\n"
	for _, c := range [][2]string{{"GET", "/v1/projections"}, {"POST", "/v1/projections/rebuild"}, {"POST", "/v1/projections/jobs/rebuild"}} {
		if status, body, _ := f.call(ann, c[0], c[1], ""); status != http.StatusOK || body != want {
			t.Errorf("%s: %d %s", c, status, body)
		}
	}
	if got := strings.Join(f.views.rebuilt, ","); got != ",jobs" {
		t.Errorf("rebuilt %q", got)
	}
}

// submit makes a job of bob's with a task, whose agent has begun.
func (f *fixture) submit() (domain.JobID, domain.TaskID) {
	f.t.Helper()
	ctx := f.t.Context()
	r, err := f.commands.SubmitJob(ctx, commands.Origin{Owner: bob.Owner, ID: f.commands.NewID()}, commands.SubmitJob{Submitted: job.Submitted{
		Prompt: "p", Agent: "shell", Task: f.commands.Request(turn.TaskRequest{Owner: bob.Owner, Tool: "submit_job", Capabilities: turn.Capabilities{Form: true}})}})
	if err != nil {
		f.t.Fatal(err)
	}
	task, err := f.commands.CreateTask(ctx, r.Job, r.Asked)
	if err != nil {
		f.t.Fatal(err)
	}
	return r.Job.ID, task.Created.Handle
}

func (f *fixture) line(id domain.JobID, l turn.Line) {
	f.t.Helper()
	s, err := f.folds.Job(f.t.Context(), id)
	if err == nil {
		l.BootID = "b"
		_, err = f.commands.RecordLine(f.t.Context(), s, job.Record{Turn: 1, Agent: "shell", Line: l})
	}
	if err != nil {
		f.t.Fatal(err)
	}
}

func TestTasksAreTheCallersOwn(t *testing.T) {
	t.Parallel()
	l := &list{}
	f := setup(t, l)
	id, handle := f.submit()
	f.line(id, turn.Line{N: 1, Kind: turn.LineStarted})
	f.line(id, turn.Line{N: 2, Kind: turn.LineAsked, Text: "Which?"})
	*l = list{{ID: handle, Owner: bob.Owner}}
	for who, c := range map[string]struct {
		as rest.Identity
		n  int
	}{"owner": {bob, 1}, "administrator": {ann, 1}, "other tenant": {eve, 0}} {
		_, body, _ := f.call(c.as, "GET", "/v1/tasks?limit=5", "")
		var got rest.TaskViews
		if err := json.Unmarshal([]byte(body), &got); err != nil || got.Tasks == nil || len(got.Tasks) != c.n {
			t.Errorf("%s: %s", who, body)
			continue
		}
		if c.n == 1 && (got.Tasks[0].ID != handle || got.Tasks[0].Status != "input_required" || got.Tasks[0].Message != "Which?" || got.Tasks[0].Job != string(id)) {
			t.Errorf("%s: %s", who, body)
		}
	}
}

func TestLogs(t *testing.T) {
	t.Parallel()
	f := setup(t, &list{})
	id, _ := f.submit()
	path := "/v1/jobs/" + string(id) + "/logs"
	if status, body, _ := f.call(bob, "GET", path, ""); status != http.StatusNotFound || !strings.Contains(body, "no agent has begun") {
		t.Errorf("before the agent: %d %s", status, body)
	}
	f.line(id, turn.Line{N: 1, Kind: turn.LineStarted})
	if status, body, _ := f.call(bob, "GET", path, ""); status != http.StatusNotFound || !strings.Contains(body, "was kept") {
		t.Errorf("without output: %d %s", status, body)
	}
	f.output[domain.TurnOf(id, 1)] = "one\ntwo\n"
	status, body, h := f.call(bob, "GET", path, "")
	if status != http.StatusOK || body != "one\ntwo\n" || h.Get(rest.TurnHeader) != string(id)+".1" || !strings.HasPrefix(h.Get("Content-Type"), "text/plain") {
		t.Errorf("%d %q %v", status, body, h)
	}
	if status, body, _ := f.call(ann, "GET", path+"?turn=1", "", "Range", "bytes=-4"); status != http.StatusPartialContent || body != "two\n" {
		t.Errorf("the end: %d %q", status, body)
	}
	if status, _, _ := f.call(eve, "GET", path, ""); status != http.StatusNotFound {
		t.Errorf("another tenant: %d", status)
	}
	if status, _, _ := f.call(bob, "GET", path+"?turn=2", ""); status != http.StatusNotFound {
		t.Errorf("a turn that is not: %d", status)
	}
}

func FuzzNewToken(f *testing.F) {
	f.Add(`{"name":"x"}`)
	f.Add(`{"name":"x","scopes":["jobs"],"tenant":"t"}`)
	f.Add(`{"scopes":[{}]}`)
	f.Add(`{"name":"x"}{}`)
	f.Fuzz(func(t *testing.T, body string) {
		x := setup(t, &list{})
		status, answer, _ := x.call(ann, "POST", "/v1/tokens", body, "Content-Type", "application/json")
		if !json.Valid([]byte(answer)) || status >= 500 {
			t.Errorf("%q: %d %s", body, status, answer)
		}
	})
}
