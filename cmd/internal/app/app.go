package app

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"hangar/cmd/internal/config"
	"hangar/cmd/internal/datadir"
	"hangar/commands"
	"hangar/domain"
	"hangar/domain/redact"
	"hangar/eventstore"
	"hangar/eventstore/sqlite"
	"hangar/handlers/mcp"
	"hangar/handlers/ops"
	"hangar/handlers/react"
	"hangar/handlers/sandbox/local"
	"hangar/handlers/supervisor"
	"hangar/handlers/tools"
	"hangar/migrations"
	"hangar/projections"
	"hangar/projections/jobs"
	"hangar/projections/tasks"
	"hangar/projections/tokens"
)

// Options are what a server is given besides its configuration. The zero value is
// a server as people run it.
type Options struct {
	Log    *slog.Logger // nil discards
	Clock  domain.Clock // nil is the wall clock
	Random io.Reader    // nil is crypto/rand
	// Notices is where people are told what they need to know: that the server is
	// ready, how to connect. Nil tells nobody.
	Notices io.Writer
	// Fixtures serves the conformance suite's tools, without authentication, from
	// a data folder that must be temporary.
	Fixtures bool
	// Executable is the hangar binary that supervisors are started from, "" for
	// the one that runs.
	Executable string
	// Hook is called at named points of a job's life, for tests that die there.
	Hook func(point string)
	// MaxLogPages bounds the log in pages of 4 KiB, for tests of a full disk.
	MaxLogPages int
}

// App is one server: made by New, run by Run, given back by Close.
type App struct {
	cfg   config.Config
	opts  Options
	dir   *datadir.Dir
	lock  *datadir.Lock
	store *sqlite.Store
	views *sql.DB

	folds     *projections.Folds
	commands  *commands.Commands
	runners   runners
	taskTable *tasks.Table
	jobTable  *jobs.Table
	agents    *agents
	outputs   *outputs
	catalogue *tools.Catalogue
	registry  *mcp.Registry // of what is served, there before anything is
	denials   *denials
	reactions *react.Reactions
	health    *ops.Health

	listener net.Listener // TCP
	local    net.Listener // the local socket, nil for fixtures
	server   *http.Server
	serving  atomic.Bool
	rebuilds chan rebuild
	stopping context.CancelFunc // of requests' contexts

	closeOnce sync.Once
}

// New opens the data folder, the log and the views, and listens. Nothing runs
// until Run. What New opened is given back by Close, or by itself on an error.
func New(cfg config.Config, opts Options) (_ *App, err error) {
	opts.fill()
	if opts.Fixtures {
		cfg.DefaultAgent = "scripted"
		cfg.Agents = map[string]config.Agent{cfg.DefaultAgent: {Kind: config.KindScripted}}
	}
	a := &App{cfg: cfg, opts: opts, rebuilds: make(chan rebuild, 16)}
	defer func() {
		if err != nil {
			a.Close()
		}
	}()
	ctx := context.Background()
	if opts.Fixtures && !loopback(cfg.Listen) {
		return nil, domain.InvalidField("listen", "fixtures are served on a loopback address alone, not on %s", cfg.Listen)
	}
	secrets, err := a.open(ctx)
	if err != nil {
		return nil, err
	}
	if err := a.build(ctx, secrets); err != nil {
		return nil, err
	}
	return a, a.listen(ctx)
}

func (o *Options) fill() {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Clock == nil {
		o.Clock = domain.SystemClock{}
	}
	if o.Random == nil {
		o.Random = rand.Reader
	}
	if o.Notices == nil {
		o.Notices = io.Discard
	}
}

// open takes the data folder and opens what is in it.
func (a *App) open(ctx context.Context) (secrets []domain.Secret, err error) {
	if a.dir, err = datadir.Open(a.cfg.Data); err != nil {
		return nil, err
	}
	if a.lock, err = a.dir.Lock(); err != nil {
		return nil, err
	}
	if err := a.dir.Make(); err != nil {
		return nil, err
	}
	if secrets, err = loadSecrets(a.cfg, a.dir, a.opts.Random, false); err != nil {
		return nil, err
	}
	a.store, err = sqlite.Open(ctx, a.dir.Log(), sqlite.Options{
		Observer: func(r []eventstore.Record) { a.folds.Observe(r) },
		Logger:   a.opts.Log, Holder: fmt.Sprintf("pid %d", os.Getpid()), MaxPages: a.opts.MaxLogPages, Random: a.opts.Random,
	})
	if err != nil {
		return nil, err
	}
	a.folds = projections.NewFolds(a.store, projections.FoldBytes)
	a.views, err = projections.OpenViews(ctx, a.dir.Views(), migrateViews)
	return secrets, err
}

func migrateViews(ctx context.Context, db *sql.DB) error {
	return migrations.Up(ctx, db, migrations.ViewFiles, migrations.Views)
}

// loadSecrets gives the server's secrets, newest first. They are made along with
// the log; beside a log that is there already, one that is missing was lost, and
// only lost takes a new one for it.
func loadSecrets(cfg config.Config, dir *datadir.Dir, random io.Reader, lost bool) ([]domain.Secret, error) {
	if len(cfg.Secrets) > 0 {
		return cfg.Secrets, nil
	}
	_, noSecret := os.Stat(dir.SecretFile())
	_, noLog := os.Stat(dir.Log())
	if errors.Is(noSecret, fs.ErrNotExist) && noLog == nil && !lost {
		return nil, domain.Errorf(domain.Conflict, "%s is missing, and the log was written under it: put it back, give it by HANGAR_SECRET, "+
			"or run `hangar secret rotate --lost` if it is gone for good", dir.SecretFile())
	}
	return dir.Secrets(random)
}

func newCommands(cfg config.Config, store eventstore.Store, secrets []domain.Secret, opts Options) *commands.Commands {
	known := map[string]string{}
	for i, s := range secrets {
		known[fmt.Sprintf("server secret %d", i+1)] = s.Hex()
	}
	return commands.New(store, opts.Clock, opts.Random, secrets[0], redact.New(secrets[0], known, secrets[1:]...),
		commands.Settings{TaskTTL: cfg.Tasks.TTL, PollInterval: cfg.Tasks.PollInterval})
}

// build puts the parts together.
func (a *App) build(ctx context.Context, secrets []domain.Secret) error {
	a.commands = newCommands(a.cfg, a.store, secrets, a.opts)
	if err := a.commands.OpenLog(ctx, a.store.ID(), secrets); err != nil {
		return err
	}
	client, err := supervisor.New(supervisor.Options{Data: a.dir.Path(), Read: a.cfg.Sandbox.Read, Executable: a.opts.Executable})
	if err != nil {
		return err
	}
	if a.agents, err = newAgents(a.cfg, a.dir, client, string(a.commands.NewID()), a.opts.Clock); err != nil {
		return err
	}
	places, err := local.New(a.dir.Path())
	if err != nil {
		return err
	}
	a.outputs = &outputs{dir: a.dir, client: client}
	a.jobTable, a.taskTable = jobs.NewTable(a.views), tasks.NewTable(a.views)
	a.runners = newRunners(a.store, a.views, a.opts.Log, a.noteRebuild)
	a.health = ops.New(a.store, a.serving.Load, a.runners)
	a.denials = newDenials(a.commands, a.opts.Clock, a.opts.Log)
	repos := newRepositories(a.cfg, a.dir, client)
	a.catalogue = tools.New(tools.Deps{
		Commands: a.commands, Folds: a.folds, Records: a.store, Jobs: &jobList{a.jobTable, a.runners.of("jobs"), a.store},
		Repos: repos, Artifacts: &artifacts{a.dir}, Denials: a.denials, Clock: a.opts.Clock, Secret: secrets[0],
		Agents: a.agents.registry.Names(), DefaultAgent: a.cfg.DefaultAgent, Wait: a.cfg.MCP.ToolWait, About: a.about(),
	})
	a.reactions = react.New(react.Deps{
		Store: a.store, Commands: a.commands, Folds: a.folds, Jobs: a.jobTable, Tasks: a.taskTable, Agents: a.agents,
		Workspaces: &workspaces{a.dir, places}, Repositories: repos,
		Limits: react.Limits{Running: a.cfg.Limits.Running, Timeout: a.cfg.Jobs.Timeout, Keep: a.cfg.Jobs.Keep},
		Clock:  a.opts.Clock, Log: a.opts.Log, CaughtUp: a.caughtUp, Hook: a.opts.Hook,
	})
	return nil
}

// newRunners makes the runner of every view there is.
func newRunners(store projections.Reader, db *sql.DB, log *slog.Logger, rebuilt func(view, reason string)) runners {
	var list runners
	for _, v := range []projections.View{jobs.NewView(), tasks.NewView(), tokens.NewView()} {
		list = append(list, projections.NewRunner(v, store, db, log, rebuilt))
	}
	return list
}

// viewsWait is how long a start waits for the views, 30 s. After that, what they
// miss is found when it is woken or by the clock.
const viewsWait = 30 * time.Second

// caughtUp waits until every view knows the log as it is now.
func (a *App) caughtUp(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, viewsWait)
	defer cancel()
	head, err := a.store.Head(ctx)
	if err != nil {
		return err
	}
	var errs []error
	for _, r := range a.runners {
		errs = append(errs, r.CatchUp(ctx, head))
	}
	return errors.Join(errs...)
}

// rebuild is a view that was built again, to be written down.
type rebuild struct{ view, reason string }

func (a *App) noteRebuild(view, reason string) {
	select {
	case a.rebuilds <- rebuild{view, reason}:
	default: // a log that cannot keep up has said so by then
	}
}

// recordRebuilds writes down what noteRebuild noted, until ctx ends. A log that
// went back also makes what is held in memory worthless.
func (a *App) recordRebuilds(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case r := <-a.rebuilds:
			a.folds.Forget()
			if err := a.commands.RecordRebuild(ctx, r.view, r.reason); err != nil {
				a.opts.Log.Warn("a rebuild cannot be recorded", "view", r.view, "error", err)
			}
		}
	}
}

// Run serves until ctx ends, and then lets requests finish and gives everything
// back that it started. Agents go on: they are not the server's.
func (a *App) Run(ctx context.Context) error {
	if err := a.firstStart(ctx); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	behind, stopBehind := context.WithCancel(context.WithoutCancel(ctx))
	var wg sync.WaitGroup
	failed := make(chan error, 4)
	start := func(run func(context.Context) error) {
		wg.Go(func() {
			if err := run(behind); err != nil && behind.Err() == nil {
				failed <- err
			}
		})
	}
	for _, r := range a.runners {
		start(func(ctx context.Context) error { r.Run(ctx); return nil })
	}
	start(a.reactions.Run)
	start(func(ctx context.Context) error { a.denials.run(ctx); return nil })
	start(func(ctx context.Context) error { a.recordRebuilds(ctx); return nil })
	a.serve(&wg, failed)
	var err error
	select {
	case <-ctx.Done():
	case err = <-failed:
	}
	a.shutdown()
	stopBehind()
	wg.Wait()
	return err
}

// Close gives back what New opened.
func (a *App) Close() (err error) {
	a.closeOnce.Do(func() {
		var errs []error
		if a.listener != nil {
			errs = append(errs, notClosed(a.listener.Close()))
		}
		if a.local != nil {
			errs = append(errs, notClosed(a.local.Close()))
		}
		if a.agents != nil {
			errs = append(errs, a.agents.close())
		}
		if a.views != nil {
			errs = append(errs, a.views.Close())
		}
		if a.store != nil {
			errs = append(errs, a.store.Close())
		}
		if a.lock != nil {
			errs = append(errs, a.lock.Release())
		}
		err = errors.Join(errs...)
	})
	return err
}

func notClosed(err error) error {
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

// URL is where MCP is served.
func (a *App) URL() string { return "http://" + a.listener.Addr().String() + "/mcp" }

// loopback reports whether an address is of this machine alone.
func loopback(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return false
	}
	if strings.EqualFold(host, "localhost") {
		return true
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}

// listWait is how long a list waits for its table to know what was acknowledged
// before the list was asked for.
const listWait = 500 * time.Millisecond

// jobList is the table of jobs, a little later where it is behind.
type jobList struct {
	*jobs.Table
	runner *projections.Runner
	store  eventstore.Store
}

// List gives jobs, newest first. A table that has halted says so.
func (l *jobList) List(ctx context.Context, q jobs.Query) ([]jobs.Listed, error) {
	if err := fresh(ctx, l.runner, l.store); err != nil {
		return nil, err
	}
	return l.Table.List(ctx, q)
}

// fresh waits a little for a view that is behind. Only one that has halted is an
// error: a list that is a moment old is still a list.
func fresh(ctx context.Context, r *projections.Runner, store eventstore.Store) error {
	head, err := store.Head(ctx)
	if err != nil {
		return err
	}
	wait, cancel := context.WithTimeout(ctx, listWait)
	defer cancel()
	if err := r.CatchUp(wait, head); err != nil && wait.Err() == nil {
		return err
	}
	return nil
}
