// Package sqlite keeps the log in one SQLite file: the engine Hangar runs on unless
// it is told otherwise, one process writing and any number reading beside it.
//
// Every append is durable when it is answered: the write-ahead log is synced
// (synchronous=FULL) before a caller hears of it. One goroutine writes, and takes
// into one transaction all appends that wait for it, so that many callers share the
// cost of a sync. Positions are given by that goroutine in commit order, from one,
// without holes.
//
// Beside hangar.db stand hangar.db-wal and hangar.db-shm, which are SQLite's while
// the log is open, and hangar.db.lock, which names the process that writes. While
// the log is open, nothing else in this process may open the database file itself,
// not even to copy it: closing it again would drop SQLite's locks.
package sqlite

import (
	"context"
	"crypto/rand"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync"

	driversqlite "modernc.org/sqlite"

	"hangar/domain"
	"hangar/eventstore"
	"hangar/eventstore/chain"
	"hangar/migrations"
)

// Options say how a log is opened for writing. The zero value is good.
type Options struct {
	// Observer is told of every committed group; nil for none.
	Observer eventstore.Observer
	// Logger is told of what no caller is: an observer's panic, a checkpoint that
	// failed, a connection that was given up. Nil for none.
	Logger *slog.Logger
	// Holder names this process to a second one that tries to write. Empty for
	// "process" and its number.
	Holder string
	// MaxPages bounds the database, in pages of 4 KiB; an append that would need
	// more is refused, as on a full disk. Zero for SQLite's own bound.
	MaxPages int
	// Random is where the id of a new log comes from; nil for crypto/rand.
	Random io.Reader

	dial dial // a test's
}

const (
	// readers is how many reads run at once, at most.
	readers = 4
	// waiting is how many appends may wait for the writer before the next waits
	// for room.
	waiting = 1024
	// busyMillis is how long a connection waits for another's lock, in milliseconds:
	// for a reader in another process that recovers or closes the log.
	busyMillis = "5000"
	busy       = "&_pragma=busy_timeout(" + busyMillis + ")"
)

const (
	writerSetup = `
PRAGMA journal_mode = WAL;
PRAGMA synchronous = FULL;
PRAGMA wal_autocheckpoint = 0;
PRAGMA journal_size_limit = 67108864;
PRAGMA cache_size = -16384;
PRAGMA trusted_schema = OFF;`
	readerSetup = `
PRAGMA query_only = ON;
PRAGMA cache_size = -8192;
PRAGMA trusted_schema = OFF;`
)

// Store is the log, open for writing.
type Store struct {
	id     string
	tail   eventstore.Tail
	reads  *pool
	writer *writer
	lock   *lock

	mu     sync.RWMutex // held for reading while an append is handed over
	closed bool
	once   sync.Once
	err    error // of Close
}

var _ eventstore.Store = (*Store)(nil)

// Open opens the log in the file at path for writing, and makes it if there is
// none. A log that another process writes is refused with the name of that process
// (domain.Unavailable), one of a newer schema with a *migrations.NewerError.
//
// SQLite syncs with fdatasync from then on, in the whole process: as durable as
// fsync, and it writes no timestamps.
func Open(ctx context.Context, path string, o Options) (_ *Store, err error) {
	o.fill()
	_, _ = driversqlite.Fdatasync(true) // where it does not exist, fsync does as well
	lock, err := acquire(path+".lock", o.Holder)
	if err != nil {
		return nil, err
	}
	s := &Store{lock: lock}
	defer func() {
		if err != nil {
			_ = s.release() // the first error is the one to tell
		}
	}()
	if err := create(path); err != nil {
		return nil, err
	}
	if s.id, err = prepare(ctx, path, o.Random); err != nil {
		return nil, fmt.Errorf("open the log: %w", err)
	}
	s.reads = newPool(readers, func(ctx context.Context) (*conn, error) {
		return open(ctx, o.dial, dsn(path, "mode=rw"+busy), readerSetup)
	})
	s.writer = newWriter(path, o, &s.tail)
	head, err := s.writer.connect(ctx)
	if err != nil {
		return nil, fmt.Errorf("open the log: %w", err)
	}
	s.tail.Advance(head)
	go s.writer.run()
	return s, nil
}

func (o *Options) fill() {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Holder == "" {
		o.Holder = fmt.Sprintf("process %d", os.Getpid())
	}
	if o.Random == nil {
		o.Random = rand.Reader
	}
	if o.dial == nil {
		o.dial = dialDriver
	}
}

// create makes the file for its owner alone; SQLite gives its other files the same
// rights. One that exists is not touched.
func create(path string) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, os.ErrExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return f.Close()
}

// prepare brings the schema up to date and gives the log's id, made with the log.
func prepare(ctx context.Context, path string, random io.Reader) (id string, err error) {
	var seed [32]byte
	if _, err := io.ReadFull(random, seed[:]); err != nil {
		return "", err
	}
	db := sql.OpenDB(connector{dsn(path, "mode=rw"+busy+"&_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)")})
	defer func() { err = errors.Join(err, db.Close()) }()
	db.SetMaxOpenConns(1)
	if err := migrations.Up(ctx, db, migrations.Files, migrations.Log); err != nil {
		return "", err
	}
	if _, err := db.ExecContext(ctx, "INSERT OR IGNORE INTO log_meta(key, value) VALUES ('id', ?)", domain.ShortHash(seed[:])); err != nil {
		return "", err
	}
	return logID(ctx, db)
}

func logID(ctx context.Context, db *sql.DB) (id string, err error) {
	err = db.QueryRowContext(ctx, "SELECT value FROM log_meta WHERE key = 'id'").Scan(&id)
	return id, err
}

// connector is dialDriver for database/sql, which opens and migrates.
type connector struct{ dsn string }

func (c connector) Connect(ctx context.Context) (driver.Conn, error) { return dialDriver(ctx, c.dsn) }
func (c connector) Driver() driver.Driver                            { return &driversqlite.Driver{} }

// ID names the log.
func (s *Store) ID() string { return s.id }

// Append adds drafts to a stream. Their hashes are computed here, by the caller's
// own goroutine; the writer compares heads and stores.
func (s *Store) Append(ctx context.Context, stream eventstore.Stream, expected eventstore.Head, drafts ...eventstore.Draft) ([]eventstore.Record, error) {
	if err := eventstore.Check(stream, expected, drafts); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, refused(err)
	}
	r := newRequest(expected, chain.Seal(stream, expected, drafts))
	if err := s.submit(ctx, r); err != nil {
		return nil, err
	}
	select {
	case <-r.done:
		return r.answer()
	case <-ctx.Done():
	}
	select {
	case <-r.done: // just in time
		return r.answer()
	default:
		return nil, unknown(ctx.Err()) // the writer still has r
	}
}

// submit hands an append to the writer.
func (s *Store) submit(ctx context.Context, r *request) error {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.closed {
		return eventstore.ErrClosed
	}
	select {
	case s.writer.queue <- r:
		return nil
	default:
	}
	select {
	case s.writer.queue <- r:
		return nil
	case <-ctx.Done():
		return refused(ctx.Err())
	}
}

// ReadStream gives a part of a stream.
func (s *Store) ReadStream(ctx context.Context, stream eventstore.Stream, from int64, limit int) ([]eventstore.Record, error) {
	return s.reads.readStream(ctx, stream, from, limit)
}

// ReadAll gives a part of the order of all.
func (s *Store) ReadAll(ctx context.Context, after eventstore.Position, limit int) ([]eventstore.Record, error) {
	return s.reads.readAll(ctx, after, limit)
}

// Head gives the position of the newest record.
func (s *Store) Head(context.Context) (eventstore.Position, error) { return s.tail.Head() }

// Wait sleeps until there is a record after a position.
func (s *Store) Wait(ctx context.Context, after eventstore.Position) error {
	return s.tail.Wait(ctx, after)
}

// Close waits until the appends that were accepted are answered, then closes the
// files. A second Close gives what the first did.
func (s *Store) Close() error {
	s.once.Do(func() {
		s.mu.Lock()
		s.closed = true
		close(s.writer.queue)
		s.mu.Unlock()
		<-s.writer.stopped
		s.err = s.release()
	})
	return s.err
}

// release closes what is open, the writer's connection last: the last one to close
// folds the write-ahead log into the database.
func (s *Store) release() error {
	s.tail.Close()
	var errs []error
	if s.reads != nil {
		errs = append(errs, s.reads.close())
	}
	if s.writer != nil {
		errs = append(errs, s.writer.disconnect())
	}
	return errors.Join(append(errs, s.lock.release())...)
}
