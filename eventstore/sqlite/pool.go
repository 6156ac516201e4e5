package sqlite

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"

	"hangar/eventstore"
)

// pageSize is how many records one query reads at most: no read transaction lasts
// longer than that, because while one does, the write-ahead log cannot start over.
const pageSize = 4096

// pool is a bounded number of reading connections, opened when needed. The one that
// was used last is used next: its cache is warm.
type pool struct {
	open   func(context.Context) (*conn, error)
	places chan struct{} // one is held for each connection in use
	closed chan struct{}
	once   sync.Once

	mu   sync.Mutex
	idle []*conn
}

func newPool(size int, open func(context.Context) (*conn, error)) *pool {
	return &pool{open: open, places: make(chan struct{}, size), closed: make(chan struct{})}
}

// with lends a connection to do, which may be called again where what it read
// cannot be trusted. A connection that fails is not used again.
func (p *pool) with(ctx context.Context, do func(*conn) error) error {
	select {
	case <-p.closed:
		return eventstore.ErrClosed
	default:
	}
	select {
	case p.places <- struct{}{}:
	case <-p.closed:
		return eventstore.ErrClosed
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-p.places }()
	c, err := p.use(ctx, p.take(), do)
	p.put(c)
	return err
}

func (p *pool) take() (c *conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if last := len(p.idle) - 1; last >= 0 {
		c, p.idle = p.idle[last], p.idle[:last]
	}
	return c
}

func (p *pool) put(c *conn) {
	if c == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.idle = append(p.idle, c)
}

// use calls do with a connection, a new one for nil, and gives the one to keep.
func (p *pool) use(ctx context.Context, c *conn, do func(*conn) error) (_ *conn, err error) {
	for {
		if err := ctx.Err(); err != nil {
			return c, err
		}
		if c != nil && c.stale() {
			_ = c.close() // it only read
			c = nil
		}
		if c == nil {
			if c, err = p.open(ctx); err != nil {
				return nil, err
			}
		}
		err := do(c)
		if c.stale() {
			continue // what was read may be half of what the writer changed
		}
		if err != nil {
			_ = c.close()
			return nil, err
		}
		return c, nil
	}
}

// close waits for the reads under way and closes every connection.
func (p *pool) close() (err error) {
	p.once.Do(func() {
		close(p.closed)
		for range cap(p.places) {
			p.places <- struct{}{}
		}
		for c := p.take(); c != nil; c = p.take() {
			err = errors.Join(err, c.close())
		}
	})
	return err
}

func (p *pool) readStream(ctx context.Context, stream eventstore.Stream, from int64, limit int) ([]eventstore.Record, error) {
	from = max(from, 0)
	return p.pages(ctx, limit, func(c *conn, records []eventstore.Record, n int) ([]eventstore.Record, error) {
		return c.readStream(stream, from+int64(len(records)), n, records)
	})
}

func (p *pool) readAll(ctx context.Context, after eventstore.Position, limit int) ([]eventstore.Record, error) {
	if after > math.MaxInt64 {
		return nil, nil
	}
	return p.pages(ctx, limit, func(c *conn, records []eventstore.Record, n int) ([]eventstore.Record, error) {
		if len(records) > 0 {
			after = records[len(records)-1].Position
		}
		return c.readAll(after, n, records)
	})
}

// pages calls read for one page after the other, until limit records are read or a
// page is not full. read appends up to n records to those before.
func (p *pool) pages(ctx context.Context, limit int, read func(c *conn, before []eventstore.Record, n int) ([]eventstore.Record, error)) (records []eventstore.Record, err error) {
	for limit > 0 {
		n := min(limit, pageSize)
		before := records
		if err := p.with(ctx, func(c *conn) (err error) {
			records, err = read(c, before, n)
			return err
		}); err != nil {
			return nil, readError(err)
		}
		got := len(records) - len(before)
		if got < n {
			break
		}
		limit -= got
	}
	return records, nil
}

// readError says what failed; the store's own answers and those of a context stay
// as they are.
func readError(err error) error {
	if err == nil || isPlain(err) {
		return err
	}
	return fmt.Errorf("read the log: %w", err)
}
