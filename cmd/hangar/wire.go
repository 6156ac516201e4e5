package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"time"

	"hangar/cmd/internal/app"
	"hangar/cmd/internal/config"
	"hangar/cmd/internal/datadir"
	"hangar/domain"
	"hangar/domain/access"
	"hangar/domain/job"
	"hangar/domain/task"
	"hangar/eventstore/sqlite"
	"hangar/handlers/audit"
	"hangar/handlers/mcp"
	"hangar/handlers/rest"
	"hangar/handlers/tools"
	"hangar/projections"
)

// server is what serve runs.
type server interface {
	Run(ctx context.Context) error
	Close() error
}

// newServer makes a server. It tells people on notices that it is ready, and on
// its first start how to connect.
func newServer(cfg config.Config, log *slog.Logger, notices io.Writer, fixtures bool) (server, error) {
	return app.New(cfg, app.Options{Log: log, Notices: notices, Fixtures: fixtures})
}

// logReader is the log, open for reading beside a server or without one.
type logReader interface {
	audit.Reader
	// Dense: the engine gives positions without holes.
	Dense() bool
	Close() error
}

// offlineLog is the log, open for writing while no server runs.
type offlineLog interface {
	Tokens() rest.Tokens
	// Views runs the views, and gives them to f once they have caught up.
	Views(ctx context.Context, f func(rest.Views) error) error
	Close() error
}

type denseReader struct{ *sqlite.ReadOnly }

func (denseReader) Dense() bool { return true }

// withReader opens the log for reading, for f.
func (sh *shell) withReader(ctx context.Context, f func(logReader) error) (err error) {
	path, err := config.DataFolder(sh.flags, sh.getenv)
	if err != nil {
		return err
	}
	dir, err := datadir.Find(path)
	if err != nil {
		return err
	}
	store, err := sqlite.OpenReadOnly(ctx, dir.Log())
	if errors.Is(err, fs.ErrNotExist) {
		return errNoLog
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	return f(denseReader{store})
}

// withLog opens the log for writing, under the data folder's lock, for f.
func (sh *shell) withLog(ctx context.Context, f func(offlineLog) error) (err error) {
	cfg, err := config.Load(sh.flags, sh.getenv)
	if err != nil {
		return err
	}
	l, err := app.OpenOffline(ctx, cfg)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	return f(l)
}

func renderJob(s *job.State) (json.RawMessage, error) { return mcp.Marshal(tools.JobOut(s)) }

// renderTask asks the ledger that serves tasks/get, put into the past.
func renderTask(ctx context.Context, p *audit.Past, t *task.State) (json.RawMessage, error) {
	folds := projections.NewFolds(pastLog{Past: p}, projections.FoldBytes)
	ledger := tools.New(tools.Deps{Folds: folds, Records: p, Clock: pastClock(p.At), Secret: domain.NewSecret([32]byte{})}).Tasks()
	caller := mcp.Caller{Owner: t.Created.Owner, Scopes: access.Scopes{access.Admin}}
	shown, err := ledger.Get(ctx, caller, t.Created.Handle)
	if err != nil {
		return nil, fmt.Errorf("as tasks/get would answer: %w", err)
	}
	return mcp.AppendTask(nil, shown, nil)
}

// pastLog is a past as folds read it, stream by stream; the rest of a log is not
// asked of it.
type pastLog struct {
	*audit.Past
	projections.Reader
}

func (l pastLog) ReadStream(ctx context.Context, stream domain.Stream, from int64, limit int) ([]domain.Record, error) {
	return l.Past.ReadStream(ctx, stream, from, limit)
}

// pastClock stands still.
type pastClock time.Time

func (c pastClock) Now() time.Time { return time.Time(c) }

// rotateSecret makes another secret the log's newest, and gives its id.
func (sh *shell) rotateSecret(ctx context.Context, lost bool) (string, error) {
	cfg, err := config.Load(sh.flags, sh.getenv)
	if err != nil {
		return "", err
	}
	return app.RotateSecret(ctx, cfg, lost)
}
