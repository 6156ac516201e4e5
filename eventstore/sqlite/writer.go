package sqlite

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"runtime/debug"
	"sync"

	"hangar/eventstore"
)

const (
	// maxGroup is how many records one transaction holds at most, unless a single
	// append holds more.
	maxGroup = 512
	// maxGroupBytes bounds the data of one transaction likewise: 8 MiB.
	maxGroupBytes = 8 << 20
	// pageBytes is the size of a page, SQLite's default.
	pageBytes = 4096
	// checkpointFrames is after how many pages in the write-ahead log, about, they
	// are copied into the database.
	checkpointFrames = 2000
	// starvedFrames is the length of a write-ahead log that readers have kept from
	// starting over, 128 MiB. They are then waited for, for starvedWait.
	starvedFrames = 16 * checkpointFrames
	// starvedWait is how long appends may be held up by that, in milliseconds.
	starvedWait = 100
)

// request is an append on its way through the writer.
type request struct {
	expected eventstore.Head
	sealed   []eventstore.Record
	bytes    int // of data and meta

	stored []eventstore.Record // the answer, with err
	err    error
	done   chan struct{} // of size one: the writer never waits for a caller
}

var requests = sync.Pool{New: func() any { return &request{done: make(chan struct{}, 1)} }}

func newRequest(expected eventstore.Head, sealed []eventstore.Record) *request {
	r := requests.Get().(*request)
	r.expected, r.sealed, r.bytes = expected, sealed, 0
	for i := range sealed {
		r.bytes += len(sealed[i].Data) + len(sealed[i].Meta)
	}
	return r
}

// answer gives what the writer answered and lets go of the request.
func (r *request) answer() ([]eventstore.Record, error) {
	records, err := r.stored, r.err
	r.sealed, r.stored, r.err = nil, nil, nil
	requests.Put(r)
	return records, err
}

// writer is the one goroutine that writes, and what belongs to it.
type writer struct {
	queue   chan *request
	stopped chan struct{} // closed when queue is closed and empty

	open     func(ctx context.Context) (*writeConn, error)
	tail     *eventstore.Tail
	observer eventstore.Observer
	logger   *slog.Logger

	conn    *writeConn // nil after an error, until the next group
	last    eventstore.Position
	heads   heads
	held    *request // did not fit into the last group
	frames  int      // in the write-ahead log since the last checkpoint, about
	written []eventstore.Record

	checkpointAt int
	starvedAt    int64
}

func newWriter(path string, o Options, tail *eventstore.Tail) *writer {
	return &writer{
		queue:   make(chan *request, waiting),
		stopped: make(chan struct{}),
		open: func(ctx context.Context) (*writeConn, error) {
			return openWriter(ctx, o.dial, dsn(path, "mode=rw"+busy), o.MaxPages)
		},
		tail:     tail,
		observer: o.Observer,
		logger:   o.Logger,

		checkpointAt: checkpointFrames,
		starvedAt:    starvedFrames,
	}
}

// connect opens the writing connection where there is none and gives the newest
// position.
func (w *writer) connect(ctx context.Context) (eventstore.Position, error) {
	if w.conn != nil {
		return w.last, nil
	}
	c, err := w.open(ctx)
	if err != nil {
		return 0, err
	}
	if w.last, err = c.head(ctx); err != nil {
		_ = c.close()
		return 0, err
	}
	w.heads.clear()
	w.conn = c
	return w.last, nil
}

func (w *writer) disconnect() error {
	c := w.conn
	if c == nil {
		return nil
	}
	w.conn = nil
	w.heads.clear()
	return c.close()
}

// run commits group after group until the queue is closed and empty.
func (w *writer) run() {
	defer close(w.stopped)
	var group []*request
	for {
		group = w.next(group[:0])
		if len(group) == 0 {
			return
		}
		w.commit(group)
		crowd := len(group) > 1
		clear(group)
		w.checkpoint()
		if crowd {
			// Let the callers just answered queue what they have next: the groups
			// grow, and an event costs a fifth less.
			runtime.Gosched()
		}
	}
}

// next waits for an append and takes along what else is queued, as far as the
// bounds of a group allow.
func (w *writer) next(group []*request) []*request {
	r := w.held
	if w.held = nil; r == nil {
		var open bool
		if r, open = <-w.queue; !open {
			return group
		}
	}
	records, bytes := 0, 0
	for {
		records += len(r.sealed)
		bytes += r.bytes
		if len(group) > 0 && (records > maxGroup || bytes > maxGroupBytes) {
			w.held = r
			return group
		}
		group = append(group, r)
		select {
		case next, open := <-w.queue:
			if !open {
				return group
			}
			r = next
		default:
			return group
		}
	}
}

// commit writes a group and answers its members. Where the group as a whole is
// refused, each member is tried alone: what one cannot write, another may.
func (w *writer) commit(group []*request) {
	ctx := context.Background()
	err := w.begin(ctx)
	if err == nil {
		err = w.transact(ctx, group)
		if errors.Is(err, eventstore.ErrRefused) && len(group) > 1 {
			for i := range group {
				w.commit(group[i : i+1])
			}
			return
		}
	}
	if err == nil && len(w.written) > 0 {
		w.observe()
		w.tail.Advance(w.last)
	}
	for _, r := range group {
		if err != nil {
			r.stored, r.err = nil, err
		}
		r.done <- struct{}{}
	}
}

// begin starts a transaction.
func (w *writer) begin(ctx context.Context) error {
	if _, err := w.connect(ctx); err != nil {
		return refused(err)
	}
	if err := w.conn.begin(ctx); err != nil {
		w.giveUp("begin", err)
		return refused(err)
	}
	return nil
}

// transact writes a group in the transaction that was begun, and ends it. With no
// error, each member has its own answer and w.written are the new records; with
// one, nothing that a member was told within the transaction holds.
func (w *writer) transact(ctx context.Context, group []*request) error {
	before := w.last
	w.written = w.written[:0]
	for _, r := range group {
		if err := w.add(ctx, r); err != nil {
			w.last = before
			w.heads.clear()
			w.rollback(ctx)
			return refused(err)
		}
	}
	if len(w.written) == 0 {
		w.rollback(ctx)
		return nil
	}
	if err := w.conn.commit(ctx); err != nil {
		w.giveUp("commit", err)
		return commitError(err)
	}
	return nil
}

func (w *writer) rollback(ctx context.Context) {
	if err := w.conn.rollback(ctx); err != nil {
		w.giveUp("rollback", err)
	}
}

// giveUp closes a connection whose state is not known. The next group opens another
// and reads again where the log and its streams end.
func (w *writer) giveUp(step string, cause error) {
	w.logger.Warn("the log's writing connection is given up", "step", step, "cause", cause)
	if err := w.disconnect(); err != nil {
		w.logger.Warn("the log's writing connection did not close", "cause", err)
	}
}

// add answers one member within the transaction. An error is the transaction's.
func (w *writer) add(ctx context.Context, r *request) error {
	stream := r.sealed[0].Stream
	actual, cached := w.heads.get(stream)
	if !cached {
		var err error
		if actual, err = w.conn.headOf(ctx, stream); err != nil {
			return err
		}
		w.heads.set(stream, actual)
	}
	if actual != r.expected {
		return w.settle(r, actual)
	}
	for i := range r.sealed {
		r.sealed[i].Position = w.last + 1
		if err := w.conn.insert(ctx, &r.sealed[i]); err != nil {
			return err
		}
		w.last++
	}
	r.stored, r.err = r.sealed, nil
	w.written = append(w.written, r.sealed...)
	w.frames += 2*len(r.sealed) + r.bytes/pageBytes
	end := &r.sealed[len(r.sealed)-1]
	w.heads.set(stream, eventstore.Head{Revision: end.Revision, Hash: end.Hash})
	return nil
}

// settle answers a member whose stream ends elsewhere.
func (w *writer) settle(r *request, actual eventstore.Head) error {
	var there []eventstore.Record
	if actual.Revision > r.expected.Revision {
		var err error
		there, err = w.conn.readStream(r.sealed[0].Stream, r.expected.Revision+1, len(r.sealed), nil)
		if err != nil {
			return err
		}
	}
	r.stored, r.err = eventstore.Settle(r.expected, actual, r.sealed, there)
	return nil
}

// observe tells the observer of the group just committed, in a slice of its own.
func (w *writer) observe() {
	if w.observer == nil {
		return
	}
	defer func() {
		if v := recover(); v != nil {
			w.logger.Error("the log's observer panicked", "panic", fmt.Sprintf("%T", v), "stack", string(debug.Stack()))
		}
	}()
	w.observer(append([]eventstore.Record(nil), w.written...))
}

// checkpoint copies the write-ahead log into the database from time to time: after
// the callers are answered, so that none waits for it.
func (w *writer) checkpoint() {
	if w.frames < w.checkpointAt || w.conn == nil {
		return
	}
	w.frames = 0
	length, err := w.conn.checkpoint(context.Background(), "PASSIVE")
	if err == nil && length > w.starvedAt {
		err = w.conn.startOver(context.Background())
	}
	if err != nil {
		w.logger.Warn("the log's checkpoint failed", "frames", length, "cause", err)
	}
}

// writeConn is the connection that writes.
type writeConn struct {
	*conn
	beginStmt, commitStmt, rollbackStmt, headStmt, insertStmt statement

	row  [11]driver.NamedValue
	name [1]driver.NamedValue
}

func openWriter(ctx context.Context, d dial, dsn string, maxPages int) (_ *writeConn, err error) {
	setup := writerSetup
	if maxPages > 0 {
		setup += fmt.Sprintf("\nPRAGMA max_page_count = %d;", maxPages)
	}
	base, err := open(ctx, d, dsn, setup)
	if err != nil {
		return nil, err
	}
	c := &writeConn{conn: base}
	for i := range c.row {
		c.row[i].Ordinal = i + 1
	}
	c.name[0].Ordinal = 1
	for _, p := range []struct {
		into  *statement
		query string
	}{
		{&c.beginStmt, "BEGIN IMMEDIATE"},
		{&c.commitStmt, "COMMIT"},
		{&c.rollbackStmt, "ROLLBACK"},
		{&c.headStmt, "SELECT revision, hash FROM events WHERE stream = ? ORDER BY revision DESC LIMIT 1"},
		{&c.insertStmt, "INSERT INTO events(position, stream, revision, id, type, version, time, data, meta, prev, hash) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"},
	} {
		if *p.into, err = c.prepare(p.query); err != nil {
			_ = c.close()
			return nil, err
		}
	}
	return c, nil
}

func (c *writeConn) close() error {
	var errs []error
	for _, s := range []statement{c.beginStmt, c.commitStmt, c.rollbackStmt, c.headStmt, c.insertStmt} {
		if s != nil {
			errs = append(errs, s.Close())
		}
	}
	return errors.Join(append(errs, c.conn.close())...)
}

func (c *writeConn) begin(ctx context.Context) error    { return run(ctx, c.beginStmt, nil) }
func (c *writeConn) commit(ctx context.Context) error   { return run(ctx, c.commitStmt, nil) }
func (c *writeConn) rollback(ctx context.Context) error { return run(ctx, c.rollbackStmt, nil) }

func run(ctx context.Context, s statement, args []driver.NamedValue) error {
	_, err := s.ExecContext(ctx, args)
	return err
}

// headOf reads where a stream ends.
func (c *writeConn) headOf(ctx context.Context, stream eventstore.Stream) (eventstore.Head, error) {
	c.name[0].Value = string(stream)
	var dest [2]driver.Value
	found, err := first(ctx, c.headStmt, c.name[:], dest[:])
	if err != nil || !found {
		return eventstore.NoStream, err
	}
	return eventstore.Head{Revision: integer(dest[0]), Hash: text(dest[1])}, nil
}

// insert writes one record.
func (c *writeConn) insert(ctx context.Context, r *eventstore.Record) error {
	v := &c.row
	v[0].Value = int64(r.Position) //nolint:gosec // the writer counts from one
	v[1].Value = string(r.Stream)
	v[2].Value = r.Revision
	v[3].Value = r.ID
	v[4].Value = r.Type
	v[5].Value = int64(r.Version)
	v[6].Value = r.Time
	v[7].Value = r.Data
	v[8].Value = r.Meta
	v[9].Value = r.Prev
	v[10].Value = r.Hash
	return run(ctx, c.insertStmt, v[:])
}

// checkpoint runs one and gives the length of the write-ahead log in frames.
func (c *writeConn) checkpoint(ctx context.Context, mode string) (length int64, err error) {
	var dest [3]driver.Value // busy, length, copied
	err = c.conn.row(ctx, "PRAGMA wal_checkpoint("+mode+")", dest[:])
	return integer(dest[1]), err
}

// startOver waits a little for the readers that keep the write-ahead log from
// starting over.
func (c *writeConn) startOver(ctx context.Context) error {
	if err := c.script(ctx, fmt.Sprintf("PRAGMA busy_timeout = %d", starvedWait)); err != nil {
		return err
	}
	_, err := c.checkpoint(ctx, "RESTART")
	return errors.Join(err, c.script(ctx, "PRAGMA busy_timeout = "+busyMillis))
}
