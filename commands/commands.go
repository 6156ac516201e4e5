// Package commands is what can be asked of Hangar: one file a verb. A command
// loads a stream, decides, appends, and tries again where somebody else was
// faster. It records intent and never touches the outside world; acting on what
// is recorded is for the keepers of handlers/react.
package commands

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/cenkalti/backoff/v4"

	"hangar/domain"
	"hangar/domain/event"
	"hangar/domain/redact"
	"hangar/eventstore"
)

// Bounds of a command.
const (
	// appendTimeout is how long a command goes on by itself, detached from the
	// request that made it.
	appendTimeout = 15 * time.Second
	// loadPage is how many records one read of a stream gives.
	loadPage = 1000
)

// Settings are what a command needs to know of the configuration.
type Settings struct {
	TaskTTL      time.Duration // 24 h
	PollInterval time.Duration // 5 s
}

// Commands carries out commands. It is safe for concurrent use.
type Commands struct {
	store     eventstore.Store
	clock     domain.Clock
	random    io.Reader
	redactor  *redact.Redactor
	handleKey []byte
	settings  Settings
}

// New makes the commands of one log. random is cryptographic; secret is the
// server's newest.
func New(store eventstore.Store, clock domain.Clock, random io.Reader, secret domain.Secret, r *redact.Redactor, s Settings) *Commands {
	return &Commands{store: store, clock: clock, random: random, redactor: r,
		handleKey: secret.Key(domain.ForHandles), settings: s}
}

// Origin says who wants something and what it follows from: it goes into each
// record's meta.
type Origin struct {
	// Owner is the caller; its principal is empty where Hangar itself acts.
	Owner domain.Owner
	// ID is the command's. A command whose id a stream has seen decides nothing.
	ID            domain.CommandID
	CorrelationID string
	CausationID   string
	Traceparent   string
}

// NewID gives a random command id, for what has no name of its own.
func (c *Commands) NewID() domain.CommandID {
	var b [10]byte
	c.read(b[:])
	return domain.CommandID(domain.NewUUID(c.clock.Now(), b))
}

// read fills b; a source of randomness that fails leaves nothing safe to do.
func (c *Commands) read(b []byte) {
	if _, err := io.ReadFull(c.random, b); err != nil {
		panic(fmt.Sprintf("no randomness: %v", err))
	}
}

// follow gives the origin of what Hangar does because of a record. Its id follows
// from that record and the step taken.
func follow(tenant domain.Tenant, correlation, cause string, steps ...string) Origin {
	return Origin{Owner: domain.Owner{Tenant: tenant}, CorrelationID: correlation, CausationID: cause,
		ID: domain.DerivedCommand(append([]string{cause}, steps...)...)}
}

// detach gives a context that the caller's hang-up does not end, with a deadline
// of its own.
func detach(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), appendTimeout)
}

// fold is a state that takes events in place.
type fold[S any] interface {
	*S
	Evolve(e event.Event)
}

// loaded is a stream, folded.
type loaded[S any] struct {
	state S
	head  eventstore.Head
	// last is the id of the newest record, the cause of what follows from it.
	last string
	seen map[domain.CommandID]bool
	// repeated is whether an earlier run of the same command had written.
	repeated bool
}

func (l *loaded[S]) take(evolve func(event.Event), r eventstore.Record) error {
	e, err := event.Decode(r)
	if err != nil {
		return unreadable(err)
	}
	evolve(e)
	l.head, l.last = eventstore.Head{Revision: r.Revision, Hash: r.Hash}, r.ID
	if l.seen == nil {
		l.seen = map[domain.CommandID]bool{}
	}
	l.seen[e.Meta.CommandID] = true
	return nil
}

// unreadable says that a stream cannot be folded, with the cause for callers
// where it is a type that only a newer version knows.
func unreadable(err error) error {
	if unknown, ok := errors.AsType[*event.UnknownError](err); ok {
		return domain.Errorf(domain.Unavailable, "%w", unknown)
	}
	return domain.Wrap(domain.Internal, err, "the log holds a record that cannot be read")
}

func load[S any, P fold[S]](ctx context.Context, c *Commands, stream domain.Stream) (*loaded[S], error) {
	l := &loaded[S]{head: eventstore.NoStream}
	for {
		page, err := c.store.ReadStream(ctx, stream, l.head.Revision+1, loadPage)
		if err != nil {
			return nil, unavailable(err)
		}
		for _, r := range page {
			if err := l.take(P(&l.state).Evolve, r); err != nil {
				return nil, err
			}
		}
		if len(page) < loadPage {
			return l, nil
		}
	}
}

// unavailable says that the log cannot be used now.
func unavailable(err error) error {
	if _, ok := errors.AsType[*domain.Error](err); ok {
		return err
	}
	if errors.Is(err, eventstore.ErrRefused) || errors.Is(err, eventstore.ErrReadOnly) {
		return domain.Wrap(domain.Unavailable, err, "the event log cannot be written (disk full or read-only); nothing was done, try again later")
	}
	return domain.Wrap(domain.Unavailable, err, "the event log is not available; try again later")
}

// drafts builds the records of data, under ids that a repeat of the command
// would give them again.
func (c *Commands) drafts(stream domain.Stream, o Origin, data []event.Data) ([]eventstore.Draft, error) {
	meta, err := event.EncodeMeta(event.Meta{Tenant: o.Owner.Tenant, Principal: o.Owner.Principal, CommandID: o.ID,
		CorrelationID: o.CorrelationID, CausationID: o.CausationID, Traceparent: o.Traceparent})
	if err != nil {
		return nil, err
	}
	at := domain.FormatTime(c.clock.Now())
	list := make([]eventstore.Draft, len(data))
	for i, d := range data {
		t, version, text, err := event.Encode(d)
		if err != nil {
			return nil, domain.Wrap(domain.Internal, err, "an event cannot be written down")
		}
		list[i] = eventstore.Draft{ID: domain.RecordID(o.ID, stream, i), Type: string(t), Version: version, Time: at, Data: text, Meta: meta}
	}
	return list, nil
}

// run carries out a command on a stream: load, decide, append; again on a
// conflict and where the outcome is not known, since a load then tells.
func run[S any, P fold[S]](ctx context.Context, c *Commands, stream domain.Stream, o Origin,
	decide func(s *S) ([]event.Data, error),
) (*loaded[S], error) {
	ctx, cancel := detach(ctx)
	defer cancel()
	wait := retries(ctx)
	tried := false
	for {
		l, err := load[S, P](ctx, c, stream)
		if err != nil {
			return nil, err
		}
		if l.seen[o.ID] {
			l.repeated = !tried
			return l, nil
		}
		data, err := decide(&l.state)
		if err != nil || len(data) == 0 {
			return l, err
		}
		list, err := c.drafts(stream, o, data)
		if err != nil {
			return nil, err
		}
		err = appendTo[S, P](ctx, c, stream, l, list)
		if err == nil {
			return l, nil
		}
		if !again(err) || pause(ctx, wait) != nil {
			return nil, unavailable(err)
		}
		tried = tried || errors.Is(err, eventstore.ErrUnknown)
	}
}

// create carries out the command that makes a stream, without reading first. The
// stored records decide: those of an earlier run of the same command are the
// same entity.
func create[S any, P fold[S]](ctx context.Context, c *Commands, stream domain.Stream, o Origin, data ...event.Data) (*loaded[S], error) {
	ctx, cancel := detach(ctx)
	defer cancel()
	wait := retries(ctx)
	list, err := c.drafts(stream, o, data)
	if err != nil {
		return nil, err
	}
	for {
		l := &loaded[S]{head: eventstore.NoStream}
		err := appendTo[S, P](ctx, c, stream, l, list)
		if err == nil && !l.repeated {
			return l, nil
		}
		var conflict *eventstore.ConflictError
		if err == nil || errors.As(err, &conflict) {
			l, err = load[S, P](ctx, c, stream)
			if err == nil {
				l.repeated = true
			}
			return l, err
		}
		if !again(err) || pause(ctx, wait) != nil {
			return nil, unavailable(err)
		}
	}
}

// appendTo adds drafts to a stream that was loaded, and takes in what is stored:
// not the drafts where the same command had written before.
func appendTo[S any, P fold[S]](ctx context.Context, c *Commands, stream domain.Stream, l *loaded[S], list []eventstore.Draft) error {
	stored, err := c.store.Append(ctx, stream, l.head, list...)
	if err != nil {
		return err
	}
	for i, r := range stored {
		if r.Time != list[i].Time || r.Data != list[i].Data {
			l.repeated = true
		}
		if err := l.take(P(&l.state).Evolve, r); err != nil {
			return err
		}
	}
	return nil
}

func again(err error) bool {
	var conflict *eventstore.ConflictError
	return errors.As(err, &conflict) || errors.Is(err, eventstore.ErrUnknown)
}

// retries is the pace at which a command that lost a race tries again.
func retries(ctx context.Context) backoff.BackOff {
	b := backoff.NewExponentialBackOff()
	b.InitialInterval = time.Millisecond
	b.MaxInterval = 100 * time.Millisecond
	b.MaxElapsedTime = 0 // ctx ends it
	return backoff.WithContext(b, ctx)
}

func pause(ctx context.Context, b backoff.BackOff) error {
	d := b.NextBackOff()
	if d == backoff.Stop {
		return ctx.Err()
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}
