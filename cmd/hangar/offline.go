package main

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"

	"hangar/cmd/internal/config"
	"hangar/cmd/internal/datadir"
	"hangar/commands"
	"hangar/domain"
	"hangar/domain/redact"
	"hangar/eventstore/sqlite"
	"hangar/handlers/rest"
	"hangar/migrations"
	"hangar/projections"
	"hangar/projections/jobs"
	"hangar/projections/tasks"
	"hangar/projections/tokens"
)

// offline is a data folder that this command has to itself.
type offline struct {
	cfg      config.Config
	dir      *datadir.Dir
	lock     *datadir.Lock
	store    *sqlite.Store
	secrets  []domain.Secret
	commands *commands.Commands
}

// openOffline takes the data folder and opens its log. The log is one that was
// written under a secret that is there.
func openOffline(ctx context.Context, cfg config.Config) (_ offlineLog, err error) {
	l, err := takeFolder(ctx, cfg)
	if err != nil {
		return nil, err
	}
	if err := l.commands.OpenLog(ctx, l.store.ID(), l.secrets); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

// takeFolder is openOffline before the log was asked for its secret.
func takeFolder(ctx context.Context, cfg config.Config) (_ *offline, err error) {
	l := &offline{cfg: cfg}
	defer func() {
		if err != nil {
			err = errors.Join(err, l.Close())
		}
	}()
	if l.dir, err = datadir.Open(cfg.Data); err != nil {
		return nil, err
	}
	if l.lock, err = l.dir.Lock(); err != nil {
		return nil, err
	}
	if l.secrets = cfg.Secrets; len(l.secrets) == 0 {
		if l.secrets, err = l.dir.Secrets(rand.Reader); err != nil {
			return nil, err
		}
	}
	l.store, err = sqlite.Open(ctx, l.dir.Log(), sqlite.Options{Holder: fmt.Sprintf("pid %d", os.Getpid())})
	if err != nil {
		return nil, err
	}
	l.commands = l.newCommands()
	return l, nil
}

func (l *offline) newCommands() *commands.Commands {
	known := map[string]string{}
	for i, s := range l.secrets {
		known[fmt.Sprintf("server secret %d", i+1)] = s.Hex()
	}
	return commands.New(l.store, domain.SystemClock{}, rand.Reader, l.secrets[0], redact.New(l.secrets[0], known),
		commands.Settings{TaskTTL: l.cfg.Tasks.TTL, PollInterval: l.cfg.Tasks.PollInterval})
}

// Close gives the folder back.
func (l *offline) Close() error {
	var errs []error
	if l.store != nil {
		errs = append(errs, l.store.Close())
	}
	if l.lock != nil {
		errs = append(errs, l.lock.Release())
	}
	return errors.Join(errs...)
}

// Tokens are the tokens of the log.
func (l *offline) Tokens() rest.Tokens { return rest.LogTokens{Commands: l.commands, Log: l.store} }

// Views runs the views for as long as f takes.
func (l *offline) Views(ctx context.Context, f func(rest.Views) error) (err error) {
	db, err := projections.OpenViews(ctx, l.dir.Views(), func(ctx context.Context, db *sql.DB) error {
		return migrations.Up(ctx, db, migrations.ViewFiles, migrations.Views)
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	run, stop := context.WithCancel(ctx)
	var wg sync.WaitGroup
	defer func() { stop(); wg.Wait() }()
	var list offlineViews
	for _, v := range []projections.View{jobs.NewView(), tasks.NewView(), tokens.NewView()} {
		r := projections.NewRunner(v, l.store, db, slog.New(slog.DiscardHandler), nil)
		list.runners = append(list.runners, r)
		wg.Go(func() { r.Run(run) })
	}
	list.commands = l.commands
	head, err := l.store.Head(ctx)
	if err != nil {
		return err
	}
	for _, r := range list.runners {
		if err := r.CatchUp(ctx, head); err != nil && domain.CodeOf(err) != domain.Unavailable {
			return err // one that has halted says so in its status
		}
	}
	return f(list)
}

// offlineViews are views that run for one command.
type offlineViews struct {
	runners  []*projections.Runner
	commands *commands.Commands
}

// Status gives how each view stands.
func (v offlineViews) Status(ctx context.Context) ([]projections.Status, error) {
	var list []projections.Status
	for _, r := range v.runners {
		s, err := r.Status(ctx)
		if err != nil {
			return nil, err
		}
		list = append(list, s)
	}
	return list, nil
}

// Rebuild builds a view again, all of them for "", and writes down that it did.
func (v offlineViews) Rebuild(ctx context.Context, name string) error {
	var names []string
	found := false
	for _, r := range v.runners {
		names = append(names, r.Name())
		if name != "" && name != r.Name() {
			continue
		}
		found = true
		if err := r.Rebuild(ctx); err != nil {
			return err
		}
		if err := v.commands.RecordRebuild(ctx, r.Name(), "asked for"); err != nil {
			return err
		}
	}
	if !found {
		return domain.Errorf(domain.NotFound, "there is no view %q; there are: %s", name, strings.Join(names, ", "))
	}
	return nil
}

// rotateSecret makes another secret the log's newest, and gives its id.
func (sh *shell) rotateSecret(ctx context.Context, lost bool) (id string, err error) {
	cfg, err := config.Load(sh.flags, sh.getenv)
	if err != nil {
		return "", err
	}
	if len(cfg.Secrets) > 0 && !lost {
		return "", errors.New("the secrets are in HANGAR_SECRET: put a new one before those there (`openssl rand -hex 32` makes one) " +
			"and start the server, which then writes down the change by itself")
	}
	if _, err := datadir.Find(cfg.Data); err != nil {
		return "", err
	}
	l, err := takeFolder(ctx, cfg)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	opened := l.commands.OpenLog(ctx, l.store.ID(), l.secrets)
	switch {
	case lost && opened == nil:
		return "", errors.New("the secret that the log was written under is there; run `hangar secret rotate` without --lost")
	case !lost && opened != nil:
		return "", opened
	case !lost:
		if l.secrets, err = l.dir.AddSecret(rand.Reader); err != nil {
			return "", err
		}
	case domain.CodeOf(opened) != domain.Conflict:
		return "", opened
	}
	return l.secrets[0].ID(), l.commands.RotateSecret(ctx, l.secrets[0], lost)
}
