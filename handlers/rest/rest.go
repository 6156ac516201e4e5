// Package rest is /v1: what the command line and scripts need of a server beyond
// MCP calls. Tokens, the list of tasks, what agents printed, the views.
package rest

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"time"

	"github.com/go-chi/chi/v5"

	"hangar/commands"
	"hangar/domain"
	"hangar/domain/access"
	"hangar/domain/job"
	"hangar/domain/task"
	"hangar/domain/turn"
	"hangar/projections"
	"hangar/projections/tasks"
)

// Identity is who a request speaks for.
type Identity struct {
	Owner  domain.Owner
	Scopes access.Scopes
}

// Tokens issues, ends and lists bearer tokens.
type Tokens interface {
	Issue(ctx context.Context, by domain.Owner, t commands.IssueToken) (token string, id domain.TokenID, err error)
	// Revoke ends a token of a tenant; NotFound for all others.
	Revoke(ctx context.Context, by domain.Owner, tenant domain.Tenant, id domain.TokenID, reason string) error
	// List gives every token ever issued in a tenant, oldest first.
	List(ctx context.Context, tenant domain.Tenant) ([]access.Token, error)
}

// TaskList is the table of tasks; *tasks.Table is one.
type TaskList interface {
	List(ctx context.Context, owner domain.Owner, allOfTenant bool, now time.Time, limit int) ([]tasks.Listed, error)
}

// States gives single jobs and tasks; *projections.Folds does.
type States interface {
	Job(ctx context.Context, id domain.JobID) (*job.State, error)
	Task(ctx context.Context, id domain.TaskID) (*task.State, error)
	Subject(ctx context.Context, t *task.State) (*job.State, turn.Subject, error)
}

// Outputs opens what the agent of a job's turn printed. Where nothing was kept the
// error is fs.ErrNotExist.
type Outputs interface {
	OpenOutput(id domain.JobID, turn int) (io.ReadSeekCloser, error)
}

// Views are the views that lists are read from.
type Views interface {
	Status(ctx context.Context) ([]projections.Status, error)
	// Rebuild builds a view from the log again, all of them for "", and returns
	// when they have caught up; NotFound, with the names there are, for others.
	Rebuild(ctx context.Context, name string) error
}

// Options are what the API stands on.
type Options struct {
	// Identity gives who a request speaks for, as whoever checked its token left
	// it in the context; ok is false for nobody, who reaches nothing.
	Identity func(ctx context.Context) (id Identity, ok bool)
	Tokens   Tokens
	Tasks    TaskList
	States   States
	Outputs  Outputs
	Views    Views
	Clock    domain.Clock
	Log      *slog.Logger
}

// Prefix is where the API is mounted.
const Prefix = "/v1"

// api is the API.
type api struct{ Options }

// New gives the API, to be mounted at Prefix behind what checks tokens.
func New(o Options) http.Handler {
	a := &api{o}
	r := chi.NewRouter()
	r.NotFound(a.serve(func(*request) error {
		return domain.Errorf(domain.NotFound, "there is nothing at this path")
	}))
	r.MethodNotAllowed(a.serve(func(r *request) error {
		return &statusError{http.StatusMethodNotAllowed, domain.Errorf(domain.Invalid, "%s is not served at this path", r.Method)}
	}))
	r.Post("/tokens", a.serve(a.issueToken))
	r.Get("/tokens", a.serve(a.listTokens))
	r.Delete("/tokens/{id}", a.serve(a.revokeToken))
	r.Get("/tasks", a.serve(a.listTasks))
	r.Get("/jobs/{id}/logs", a.serve(a.jobLogs))
	r.Get("/projections", a.serve(a.listViews))
	r.Post("/projections/rebuild", a.serve(a.rebuildViews))
	r.Post("/projections/{name}/rebuild", a.serve(a.rebuildViews))
	return r
}
