package sqlite

import (
	"context"
	"fmt"
	"math"
	"sync"

	"hangar/eventstore"
)

// pageSize is how many records one query reads at most: no read transaction lasts
// longer than that, because while one does, the write-ahead log cannot start over.
const pageSize = 4096

// pool is a fixed number of reading connections, opened when first needed.
type pool struct {
	open   func(context.Context) (*conn, error)
	slots  chan *conn // nil for one that is not open
	closed chan struct{}
	once   sync.Once
}

func newPool(size int, open func(context.Context) (*conn, error)) *pool {
	p := &pool{open: open, slots: make(chan *conn, size), closed: make(chan struct{})}
	for range size {
		p.slots <- nil
	}
	return p
}

// with lends a connection to do. One that fails is not used again.
func (p *pool) with(ctx context.Context, do func(*conn) error) error {
	select {
	case <-p.closed:
		return eventstore.ErrClosed
	default:
	}
	select {
	case c := <-p.slots:
		c, err := p.use(ctx, c, do)
		p.slots <- c
		return err
	case <-p.closed:
		return eventstore.ErrClosed
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (p *pool) use(ctx context.Context, c *conn, do func(*conn) error) (_ *conn, err error) {
	if err := ctx.Err(); err != nil {
		return c, err
	}
	if c == nil {
		if c, err = p.open(ctx); err != nil {
			return nil, err
		}
	}
	if err := do(c); err != nil {
		_ = c.close()
		return nil, err
	}
	return c, nil
}

// close waits for the reads under way and closes every connection.
func (p *pool) close() (err error) {
	p.once.Do(func() {
		close(p.closed)
		for range cap(p.slots) {
			if c := <-p.slots; c != nil {
				if e := c.close(); err == nil {
					err = e
				}
			}
		}
	})
	return err
}

func (p *pool) readStream(ctx context.Context, stream eventstore.Stream, from int64, limit int) ([]eventstore.Record, error) {
	var records []eventstore.Record
	err := p.pages(ctx, limit, func(c *conn, n int) (int, error) {
		before := len(records)
		var err error
		records, err = c.readStream(stream, from+int64(before), n, records)
		return len(records) - before, err
	})
	return records, err
}

func (p *pool) readAll(ctx context.Context, after eventstore.Position, limit int) ([]eventstore.Record, error) {
	if after > math.MaxInt64 {
		return nil, nil
	}
	records := make([]eventstore.Record, 0, max(0, min(limit, pageSize)))
	err := p.pages(ctx, limit, func(c *conn, n int) (int, error) {
		before := len(records)
		if before > 0 {
			after = records[before-1].Position
		}
		var err error
		records, err = c.readAll(after, n, records)
		return len(records) - before, err
	})
	return records, err
}

// pages calls read for one page after the other, until limit records are read or a
// page is not full.
func (p *pool) pages(ctx context.Context, limit int, read func(c *conn, n int) (int, error)) error {
	for limit > 0 {
		n := min(limit, pageSize)
		var got int
		err := p.with(ctx, func(c *conn) (err error) {
			got, err = read(c, n)
			return err
		})
		switch {
		case err != nil:
			return readError(err)
		case got < n:
			return nil
		}
		limit -= got
	}
	return nil
}

// readError says what failed; the store's own answers and those of a context stay
// as they are.
func readError(err error) error {
	if isPlain(err) {
		return err
	}
	return fmt.Errorf("read the log: %w", err)
}
