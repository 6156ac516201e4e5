package app

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"strings"
	"time"

	"hangar/domain"
	"hangar/domain/access"
	"hangar/eventstore"
	"hangar/handlers/auth"
	"hangar/handlers/rest"
	"hangar/projections"
	"hangar/projections/tasks"
	"hangar/projections/tokens"
)

// rest is /v1 over this server's parts.
func (a *App) rest() http.Handler {
	return rest.New(rest.Options{
		Identity: func(ctx context.Context) (rest.Identity, bool) {
			id, ok := auth.FromContext(ctx)
			return rest.Identity{Owner: id.Owner, Scopes: id.Scopes}, ok
		},
		Tokens: &tokenList{rest.LogTokens{Commands: a.commands, Log: a.store}, tokens.NewTable(a.views), a.runners.of("tokens"), a.store},
		Tasks:  &taskList{a.taskTable, a.runners.of("tasks"), a.store},
		States: a.folds, Outputs: a.outputs, Views: a.runners, Clock: a.opts.Clock, Log: a.opts.Log,
	})
}

// runners are the runners of all views.
type runners []*projections.Runner

func (l runners) of(name string) *projections.Runner {
	for _, r := range l {
		if r.Name() == name {
			return r
		}
	}
	panic("there is no view " + name)
}

// Status gives how each view stands.
func (l runners) Status(ctx context.Context) ([]projections.Status, error) {
	var list []projections.Status
	for _, r := range l {
		s, err := r.Status(ctx)
		if err != nil {
			return nil, err
		}
		list = append(list, s)
	}
	return list, nil
}

// Rebuild builds a view again, all of them for "".
func (l runners) Rebuild(ctx context.Context, name string) error {
	var names []string
	found := false
	for _, r := range l {
		names = append(names, r.Name())
		if name == "" || name == r.Name() {
			found = true
			if err := r.Rebuild(ctx); err != nil {
				return err
			}
		}
	}
	if !found {
		return domain.Errorf(domain.NotFound, "there is no view %q; there are: %s", name, strings.Join(names, ", "))
	}
	return nil
}

// tokenList is the table of tokens, a little later where it is behind.
type tokenList struct {
	rest.LogTokens
	table  *tokens.Table
	runner *projections.Runner
	store  eventstore.Store
}

func (l *tokenList) List(ctx context.Context, tenant domain.Tenant) ([]access.Token, error) {
	if err := fresh(ctx, l.runner, l.store); err != nil {
		return nil, err
	}
	return l.table.List(ctx, tenant)
}

// taskList is the table of tasks, a little later where it is behind.
type taskList struct {
	*tasks.Table
	runner *projections.Runner
	store  eventstore.Store
}

func (l *taskList) List(ctx context.Context, owner domain.Owner, allOfTenant bool, now time.Time, limit int) ([]tasks.Listed, error) {
	if err := fresh(ctx, l.runner, l.store); err != nil {
		return nil, err
	}
	return l.Table.List(ctx, owner, allOfTenant, now, limit)
}

// OpenOutput opens what a turn's agent printed.
func (o *outputs) OpenOutput(id domain.JobID, n int) (io.ReadSeekCloser, error) {
	f, err := o.open(domain.TurnOf(id, n))
	if domain.CodeOf(err) == domain.NotFound {
		return nil, errors.Join(fs.ErrNotExist, err)
	}
	return f, err
}
