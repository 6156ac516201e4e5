// Package memory is the log for tests: it keeps every record in memory, behaves as
// the durable engines do, and has no goroutine of its own, so it works inside a
// testing/synctest bubble. A restart is a Reopen.
package memory

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"

	"hangar/eventstore"
	"hangar/eventstore/chain"
)

// Options say how a log is opened. The zero value is a log with a random id and
// nobody watching.
type Options struct {
	// ID names the log; empty for a random one. Reopen keeps the log's.
	ID string
	// Observer is told of every committed group.
	Observer eventstore.Observer
	// Logger is told of an observer's panic; nil for none.
	Logger *slog.Logger
}

// Store is one opening of a log.
type Store struct {
	log      *contents
	observer eventstore.Observer
	logger   *slog.Logger
	tail     eventstore.Tail

	mu      sync.Mutex
	queue   []*request
	leading bool          // a caller of Append is committing what is queued
	idle    chan struct{} // closed by that caller when Close waits for it
	closed  bool
}

var _ eventstore.Store = (*Store)(nil)

// contents are the records, which outlive the Store they were written through.
type contents struct {
	id      string
	mu      sync.RWMutex
	all     []eventstore.Record
	streams map[eventstore.Stream][]eventstore.Record
}

// request is an append that waits for its answer.
type request struct {
	expected eventstore.Head
	records  []eventstore.Record // sealed; the stored ones once answered
	err      error
	done     chan struct{}
}

// Open makes an empty log.
func Open(o Options) *Store {
	if o.ID == "" {
		o.ID = strings.ToLower(rand.Text())
	}
	return open(&contents{id: o.ID, streams: map[eventstore.Stream][]eventstore.Record{}}, o)
}

// Reopen opens the log of a store once more, as a restart does. The store is
// closed by it.
func (s *Store) Reopen(o Options) *Store {
	_ = s.Close() // never fails
	return open(s.log, o)
}

func open(log *contents, o Options) *Store {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	s := &Store{log: log, observer: o.Observer, logger: o.Logger}
	s.tail.Advance(eventstore.Position(len(log.all)))
	return s
}

// ID names the log.
func (s *Store) ID() string { return s.log.id }

// Append adds drafts to a stream. One of the callers commits for all that have
// queued up meanwhile, so a caller that hangs up leaves its append to the others.
func (s *Store) Append(ctx context.Context, stream eventstore.Stream, expected eventstore.Head, drafts ...eventstore.Draft) ([]eventstore.Record, error) {
	if err := eventstore.Check(stream, expected, drafts); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("%w: %w", eventstore.ErrRefused, err)
	}
	r := &request{expected: expected, records: chain.Seal(stream, expected, drafts), done: make(chan struct{})}

	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil, eventstore.ErrClosed
	}
	s.queue = append(s.queue, r)
	lead := !s.leading
	s.leading = true
	s.mu.Unlock()

	if lead {
		s.lead()
		return r.records, r.err
	}
	select {
	case <-r.done:
		return r.records, r.err
	case <-ctx.Done():
		return nil, fmt.Errorf("%w: %w", eventstore.ErrUnknown, ctx.Err())
	}
}

// lead commits group after group until nothing is queued.
func (s *Store) lead() {
	for {
		s.mu.Lock()
		group := s.queue
		s.queue = nil
		if len(group) == 0 {
			s.leading = false
			if s.idle != nil {
				close(s.idle)
				s.idle = nil
			}
			s.mu.Unlock()
			return
		}
		s.mu.Unlock()
		s.commit(group)
	}
}

func (s *Store) commit(group []*request) {
	var written []eventstore.Record
	s.log.mu.Lock()
	for _, r := range group {
		var added bool
		if added, r.records, r.err = s.log.add(r); added {
			written = append(written, r.records...)
		}
	}
	s.log.mu.Unlock()

	if len(written) > 0 {
		s.observe(written)
		s.tail.Advance(written[len(written)-1].Position)
	}
	for _, r := range group {
		close(r.done)
	}
}

// add writes one append or says why not; its caller holds the lock.
func (c *contents) add(r *request) (added bool, stored []eventstore.Record, err error) {
	name := r.records[0].Stream
	stream := c.streams[name]
	if actual := eventstore.HeadOf(stream); actual != r.expected {
		place := r.expected.Revision + 1
		there := page(stream, place, len(r.records))
		stored, err = eventstore.Settle(r.expected, actual, r.records, there)
		return false, stored, err
	}
	for i := range r.records {
		r.records[i].Position = eventstore.Position(len(c.all) + 1)
		c.all = append(c.all, r.records[i])
	}
	c.streams[name] = append(stream, r.records...)
	return true, r.records, nil
}

func (s *Store) observe(records []eventstore.Record) {
	if s.observer == nil {
		return
	}
	defer func() {
		if v := recover(); v != nil {
			s.logger.Error("the log's observer panicked", "panic", fmt.Sprintf("%T", v))
		}
	}()
	s.observer(records)
}

// ReadStream gives a part of a stream.
func (s *Store) ReadStream(ctx context.Context, stream eventstore.Stream, from int64, limit int) ([]eventstore.Record, error) {
	if err := s.readable(ctx); err != nil {
		return nil, err
	}
	s.log.mu.RLock()
	defer s.log.mu.RUnlock()
	return page(s.log.streams[stream], from, limit), nil
}

// ReadAll gives a part of the order of all.
func (s *Store) ReadAll(ctx context.Context, after eventstore.Position, limit int) ([]eventstore.Record, error) {
	if err := s.readable(ctx); err != nil {
		return nil, err
	}
	s.log.mu.RLock()
	defer s.log.mu.RUnlock()
	from := int64(min(after, eventstore.Position(len(s.log.all)))) //nolint:gosec // not over the length of a slice
	return page(s.log.all, from, limit), nil
}

// page copies up to limit records from an index on.
func page(records []eventstore.Record, from int64, limit int) []eventstore.Record {
	from = max(from, 0)
	n := min(int64(limit), int64(len(records))-from)
	if n <= 0 {
		return nil
	}
	out := make([]eventstore.Record, n)
	copy(out, records[from:])
	return out
}

func (s *Store) readable(ctx context.Context) error {
	_, err := s.tail.Head()
	return errors.Join(err, ctx.Err())
}

// Head gives the position of the newest record.
func (s *Store) Head(context.Context) (eventstore.Position, error) { return s.tail.Head() }

// Wait sleeps until there is a record after a position.
func (s *Store) Wait(ctx context.Context, after eventstore.Position) error {
	return s.tail.Wait(ctx, after)
}

// Close ends waits and refuses further calls. The records stay, for Reopen.
func (s *Store) Close() error {
	s.mu.Lock()
	s.closed = true
	var idle chan struct{}
	if s.leading {
		if s.idle == nil {
			s.idle = make(chan struct{})
		}
		idle = s.idle
	}
	s.mu.Unlock()
	if idle != nil {
		<-idle
	}
	s.tail.Close()
	return nil
}
