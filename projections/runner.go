package projections

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v4"

	"hangar/domain"
	"hangar/domain/event"
)

// Bounds of a runner.
const (
	// pageSize is how many records a view takes in one transaction.
	pageSize = 1024
	// halfMinute bounds the wait between attempts while the log or views.db
	// cannot be used.
	longestRetry = 30 * time.Second
)

// Status is how one view stands.
type Status struct {
	View     string
	Position domain.Position // of the record it took last
	Head     domain.Position // of the log, when asked
	// Halted says why the view takes no more, "" while it does. The log stays as
	// it is and everything else goes on.
	Halted string
}

// Runner keeps one view in step with the log: in order, the rows and the
// checkpoint in one transaction. What it cannot read halts it, and it alone.
type Runner struct {
	view    View
	store   Reader
	db      *sql.DB
	log     *slog.Logger
	rebuilt func(view, reason string)

	mu       sync.Mutex
	position domain.Position
	halted   error
	moved    chan struct{}
	rebuild  chan chan error
}

// NewRunner makes the runner of a view. rebuilt is told, on the runner's own
// goroutine, when the view had to be built again; nil is nobody.
func NewRunner(v View, store Reader, db *sql.DB, log *slog.Logger, rebuilt func(view, reason string)) *Runner {
	if rebuilt == nil {
		rebuilt = func(string, string) {}
	}
	return &Runner{view: v, store: store, db: db, log: log.With("view", v.Name()), rebuilt: rebuilt,
		moved: make(chan struct{}), rebuild: make(chan chan error)}
}

// Name is the view's.
func (r *Runner) Name() string { return r.view.Name() }

// Run follows the log until ctx ends.
func (r *Runner) Run(ctx context.Context) {
	retry := backoff.NewExponentialBackOff()
	retry.InitialInterval, retry.MaxInterval, retry.MaxElapsedTime = 20*time.Millisecond, longestRetry, 0
	started := false
	for ctx.Err() == nil {
		err := r.step(ctx, &started)
		switch {
		case err == nil:
			retry.Reset()
			continue
		case ctx.Err() != nil:
			return
		case poison(err):
			r.halt(err)
			r.idle(ctx, &started, nil)
			continue
		}
		r.log.Warn("view cannot follow the log, trying again", "error", err)
		t := time.NewTimer(retry.NextBackOff())
		r.idle(ctx, &started, t.C)
		t.Stop()
	}
}

// step takes one page, or waits for one.
func (r *Runner) step(ctx context.Context, started *bool) error {
	if !*started {
		if err := r.start(ctx); err != nil {
			return err
		}
		*started = true
	}
	n, err := r.page(ctx)
	if err != nil || n > 0 {
		return err
	}
	return r.sleep(ctx, started)
}

// sleep waits for a record, or for somebody who wants the view built again.
func (r *Runner) sleep(ctx context.Context, started *bool) error {
	wait, cancel := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- r.store.Wait(wait, r.at()) }()
	defer func() { cancel() }()
	select {
	case err := <-done:
		return err
	case answer := <-r.rebuild:
		cancel()
		_ = <-done // the wait was given up
		r.restart(ctx, started, answer)
		return nil
	}
}

// idle does nothing but listen for a rebuild, until ctx or the timer ends.
func (r *Runner) idle(ctx context.Context, started *bool, timer <-chan time.Time) {
	select {
	case <-ctx.Done():
	case <-timer:
	case answer := <-r.rebuild:
		r.restart(ctx, started, answer)
	}
}

func (r *Runner) restart(ctx context.Context, started *bool, answer chan error) {
	err := r.clear(ctx)
	if err == nil {
		r.halt(nil)
		*started = true
		r.rebuilt(r.view.Name(), "asked for")
	}
	answer <- err
}

// Rebuild empties the view and builds it from the log again. It returns once the
// view has caught up with the log as it was when asked.
func (r *Runner) Rebuild(ctx context.Context) error {
	head, err := r.store.Head(ctx)
	if err != nil {
		return err
	}
	answer := make(chan error, 1)
	select {
	case r.rebuild <- answer:
	case <-ctx.Done():
		return ctx.Err()
	}
	if err := <-answer; err != nil {
		return err
	}
	return r.CatchUp(ctx, head)
}

// CatchUp waits until the view has taken the log up to a position. It returns the
// reason of a halted view at once.
func (r *Runner) CatchUp(ctx context.Context, to domain.Position) error {
	for {
		r.mu.Lock()
		position, halted, moved := r.position, r.halted, r.moved
		r.mu.Unlock()
		if halted != nil {
			return domain.Wrap(domain.Unavailable, halted, fmt.Sprintf(
				"the view %s has halted: %v; it will go on with the version of hangar that wrote this, or see `hangar projections status`", r.view.Name(), halted))
		}
		if position >= to {
			return nil
		}
		select {
		case <-moved:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Status gives how the view stands.
func (r *Runner) Status(ctx context.Context) (Status, error) {
	head, err := r.store.Head(ctx)
	r.mu.Lock()
	defer r.mu.Unlock()
	s := Status{View: r.view.Name(), Position: r.position, Head: head}
	if r.halted != nil {
		s.Halted = r.halted.Error()
	}
	return s, err
}

func (r *Runner) at() domain.Position {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.position
}

// move sets the position and wakes those who wait for it.
func (r *Runner) move(to domain.Position) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.position = to
	close(r.moved)
	r.moved = make(chan struct{})
}

func (r *Runner) halt(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.halted = err; err != nil {
		r.log.Error("view has halted", "position", r.position, "error", err)
	}
	close(r.moved)
	r.moved = make(chan struct{})
}

// poison reports whether trying again cannot help.
func poison(err error) bool {
	var unknown *event.UnknownError
	var bad *poisonError
	return errors.As(err, &unknown) || errors.As(err, &bad)
}

// poisonError is a record that cannot be read.
type poisonError struct {
	position domain.Position
	cause    error
}

func (e *poisonError) Error() string { return fmt.Sprintf("at position %d: %v", e.position, e.cause) }
func (e *poisonError) Unwrap() error { return e.cause }
