package app

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"

	"hangar/cmd/internal/config"
	"hangar/cmd/internal/datadir"
	"hangar/commands"
	"hangar/domain"
	"hangar/eventstore/sqlite"
	"hangar/handlers/rest"
	"hangar/projections"
)

// Offline is a data folder that a command has to itself, with no server running.
type Offline struct {
	cfg      config.Config
	opts     Options
	dir      *datadir.Dir
	lock     *datadir.Lock
	store    *sqlite.Store
	secrets  []domain.Secret
	commands *commands.Commands
}

// OpenOffline takes the data folder and opens its log for writing. The log is one
// that was written under a secret that is there.
func OpenOffline(ctx context.Context, cfg config.Config) (*Offline, error) {
	l, err := takeFolder(ctx, cfg, false)
	if err != nil {
		return nil, err
	}
	if err := l.commands.OpenLog(ctx, l.store.ID(), l.secrets); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

// takeFolder is OpenOffline before the log was asked for its secret.
func takeFolder(ctx context.Context, cfg config.Config, lost bool) (_ *Offline, err error) {
	l := &Offline{cfg: cfg}
	l.opts.fill()
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
	if l.secrets, err = loadSecrets(cfg, l.dir, l.opts.Random, lost); err != nil {
		return nil, err
	}
	l.store, err = sqlite.Open(ctx, l.dir.Log(), sqlite.Options{Holder: fmt.Sprintf("pid %d", os.Getpid())})
	if err != nil {
		return nil, err
	}
	l.commands = newCommands(cfg, l.store, l.secrets, l.opts)
	return l, nil
}

// Close gives the folder back.
func (l *Offline) Close() error {
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
func (l *Offline) Tokens() rest.Tokens { return rest.LogTokens{Commands: l.commands, Log: l.store} }

// Views runs the views for as long as f takes, once they have caught up.
func (l *Offline) Views(ctx context.Context, f func(rest.Views) error) (err error) {
	db, err := projections.OpenViews(ctx, l.dir.Views(), migrateViews)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	run, stop := context.WithCancel(ctx)
	var wg sync.WaitGroup
	defer func() { stop(); wg.Wait() }()
	list := newRunners(l.store, db, l.opts.Log, nil)
	for _, r := range list {
		wg.Go(func() { r.Run(run) })
	}
	head, err := l.store.Head(ctx)
	if err != nil {
		return err
	}
	for _, r := range list {
		if err := r.CatchUp(ctx, head); err != nil && domain.CodeOf(err) != domain.Unavailable {
			return err // one that has halted says so in its status
		}
	}
	return f(&offlineViews{list, l.commands})
}

// offlineViews write down themselves that they were built again.
type offlineViews struct {
	runners
	commands *commands.Commands
}

func (v *offlineViews) Rebuild(ctx context.Context, name string) error {
	if err := v.runners.Rebuild(ctx, name); err != nil {
		return err
	}
	for _, r := range v.runners {
		if name == "" || name == r.Name() {
			if err := v.commands.RecordRebuild(ctx, r.Name(), "asked for"); err != nil {
				return err
			}
		}
	}
	return nil
}

// RotateSecret makes another secret the log's newest, and gives its id. With lost,
// the one that the log was written under cannot be found any more, and the log
// takes the one that is there.
func RotateSecret(ctx context.Context, cfg config.Config, lost bool) (id string, err error) {
	if len(cfg.Secrets) > 0 && !lost {
		return "", errors.New("the secrets are in HANGAR_SECRET: put a new one before those there (`openssl rand -hex 32` makes one) " +
			"and start the server, which then writes down the change by itself")
	}
	if _, err := datadir.Find(cfg.Data); err != nil {
		return "", err
	}
	l, err := takeFolder(ctx, cfg, lost)
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
		if l.secrets, err = l.dir.AddSecret(l.opts.Random); err != nil {
			return "", err
		}
	case domain.CodeOf(opened) != domain.Conflict:
		return "", opened
	}
	return l.secrets[0].ID(), l.commands.RotateSecret(ctx, l.secrets[0], lost)
}
