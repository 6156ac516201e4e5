package sqlite

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"hangar/eventstore"
	"hangar/migrations"
)

// pollEvery is how often a log that another process writes is looked at.
const pollEvery = 200 * time.Millisecond

// ReadOnly is the log, open for reading, beside a process that writes it or alone.
// It never writes, makes no file and keeps no other process from anything.
type ReadOnly struct {
	id    string
	tail  eventstore.Tail
	reads *pool
	stop  chan struct{}
	ended chan struct{} // closed when the poll has ended
	once  sync.Once
	err   error // of Close
}

var _ eventstore.Store = (*ReadOnly)(nil)

// OpenReadOnly opens the log in the file at path for reading. A file that does not
// exist gives an error that is fs.ErrNotExist, a schema other than this build's a
// *migrations.NewerError or *migrations.OlderError.
func OpenReadOnly(ctx context.Context, path string) (_ *ReadOnly, err error) {
	if _, err := os.Stat(path); err != nil {
		return nil, err
	}
	s := &ReadOnly{
		reads: newPool(readers, func(ctx context.Context) (*conn, error) { return openReadOnly(ctx, path) }),
		stop:  make(chan struct{}),
		ended: make(chan struct{}),
	}
	defer func() {
		if err != nil {
			_ = s.reads.close()
		}
	}()
	if s.id, err = inspect(ctx, path); err != nil {
		return nil, fmt.Errorf("open the log: %w", err)
	}
	if err := s.look(ctx); err != nil {
		return nil, err
	}
	go s.poll()
	return s, nil
}

// openReadOnly makes a connection that cannot write. A database without a
// write-ahead log beside it is complete and at rest, and is read as such: SQLite
// would otherwise make the write-ahead log in order to find it empty.
func openReadOnly(ctx context.Context, path string) (*conn, error) {
	name, resting := readOnlyDSN(path)
	c, err := open(ctx, dialDriver, name, readerSetup)
	if err == nil && resting {
		c.resting = path
	}
	return c, err
}

func readOnlyDSN(path string) (name string, resting bool) {
	if beingWritten(path) {
		return dsn(path, "mode=ro"+busy), false
	}
	return dsn(path, "mode=ro&immutable=1"), true
}

// beingWritten reports whether a database has a write-ahead log beside it: a writer
// has it open, or left it in a hurry.
func beingWritten(path string) bool {
	_, err := os.Stat(path + "-wal")
	return !errors.Is(err, os.ErrNotExist)
}

// stale reports whether the connection reads a file as one at rest which a writer
// has opened since.
func (c *conn) stale() bool { return c.resting != "" && beingWritten(c.resting) }

// inspect checks the schema and gives the log's id.
func inspect(ctx context.Context, path string) (id string, err error) {
	name, _ := readOnlyDSN(path)
	db := sql.OpenDB(connector{name})
	defer func() { err = errors.Join(err, db.Close()) }()
	db.SetMaxOpenConns(1)
	if err := migrations.Check(ctx, db, migrations.Files, migrations.Log); err != nil {
		return "", err
	}
	return logID(ctx, db)
}

// poll looks for what other processes have written, until the store is closed.
func (s *ReadOnly) poll() {
	defer close(s.ended)
	ticker := time.NewTicker(pollEvery)
	defer ticker.Stop()
	for {
		select {
		case <-s.stop:
			return
		case <-ticker.C:
			// An error is one that the next read gives to somebody who asked.
			_ = s.look(context.Background())
		}
	}
}

// look moves the tail to the newest record.
func (s *ReadOnly) look(ctx context.Context) error {
	var head eventstore.Position
	err := s.reads.with(ctx, func(c *conn) error {
		changed, err := c.changed(ctx)
		if err == nil && changed {
			head, err = c.head(ctx)
		}
		return err
	})
	if err != nil {
		return readError(err)
	}
	s.tail.Advance(head)
	return nil
}

// changed reports whether the database was changed by another connection since the
// last call on this one; the first call says so too.
func (c *conn) changed(ctx context.Context) (bool, error) {
	var dest [1]driver.Value
	if err := c.row(ctx, "PRAGMA data_version", dest[:]); err != nil {
		return false, err
	}
	before := c.version
	c.version = integer(dest[0])
	return c.version != before, nil
}

// ID names the log.
func (s *ReadOnly) ID() string { return s.id }

// Append refuses: the error is ErrRefused and ErrReadOnly.
func (s *ReadOnly) Append(context.Context, eventstore.Stream, eventstore.Head, ...eventstore.Draft) ([]eventstore.Record, error) {
	if _, err := s.tail.Head(); err != nil {
		return nil, err
	}
	return nil, refused(eventstore.ErrReadOnly)
}

// ReadStream gives a part of a stream.
func (s *ReadOnly) ReadStream(ctx context.Context, stream eventstore.Stream, from int64, limit int) ([]eventstore.Record, error) {
	return s.reads.readStream(ctx, stream, from, limit)
}

// ReadAll gives a part of the order of all.
func (s *ReadOnly) ReadAll(ctx context.Context, after eventstore.Position, limit int) ([]eventstore.Record, error) {
	return s.reads.readAll(ctx, after, limit)
}

// Head gives the position of the newest record there is now.
func (s *ReadOnly) Head(ctx context.Context) (eventstore.Position, error) {
	if err := s.look(ctx); err != nil {
		return 0, err
	}
	return s.tail.Head()
}

// Wait sleeps until there is a record after a position. It hears of one at most
// pollEvery after it was written.
func (s *ReadOnly) Wait(ctx context.Context, after eventstore.Position) error {
	return s.tail.Wait(ctx, after)
}

// Close ends waits and refuses further calls. A second Close gives what the first
// did.
func (s *ReadOnly) Close() error {
	s.once.Do(func() {
		s.tail.Close()
		close(s.stop)
		<-s.ended
		s.err = s.reads.close()
	})
	return s.err
}
