package sqlite

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	sqlite3 "modernc.org/sqlite/lib"

	"hangar/eventstore"
)

// disk is a driver that fails when it is told to.
type disk struct {
	mu     sync.Mutex
	fail   func(query string, args []driver.NamedValue) (err error, after bool)
	dialed atomic.Int64
	broken atomic.Bool
}

var errDisk = errors.New("the disk has a fault")

func (d *disk) dial(ctx context.Context, dsn string) (driver.Conn, error) {
	d.dialed.Add(1)
	if d.broken.Load() {
		return nil, errDisk
	}
	raw, err := dialDriver(ctx, dsn)
	if err != nil {
		return nil, err
	}
	return faultyConn{raw, d}, nil
}

// set lets statements fail: before they are run, or after they have been.
func (d *disk) set(fail func(query string, args []driver.NamedValue) (err error, after bool)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.fail = fail
}

// once lets the next statement fail that begins as given.
func (d *disk) once(prefix string, after bool) {
	done := false
	d.set(func(query string, _ []driver.NamedValue) (error, bool) {
		if done || !strings.HasPrefix(query, prefix) {
			return nil, false
		}
		done = true
		return errDisk, after
	})
}

func (d *disk) ask(query string, args []driver.NamedValue) (after bool, fault error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.fail == nil {
		return false, nil
	}
	fault, after = d.fail(query, args)
	return after, fault
}

type faultyConn struct {
	driver.Conn
	disk *disk
}

func (c faultyConn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	return c.Conn.(driver.ExecerContext).ExecContext(ctx, query, args)
}

func (c faultyConn) Prepare(query string) (driver.Stmt, error) {
	s, err := c.Conn.Prepare(query)
	if err != nil {
		return nil, err
	}
	return faultyStatement{s.(statement), query, c.disk}, nil
}

type faultyStatement struct {
	statement
	query string
	disk  *disk
}

func (s faultyStatement) ExecContext(ctx context.Context, args []driver.NamedValue) (driver.Result, error) {
	after, fault := s.disk.ask(s.query, args)
	if fault != nil && !after {
		return nil, fault
	}
	result, err := s.statement.ExecContext(ctx, args)
	return result, errors.Join(fault, err)
}

// faulty opens a new log on a disk that works, so far.
func faulty(t *testing.T, o Options) (*Store, *disk) {
	t.Helper()
	d := &disk{}
	o.dial = d.dial
	s, err := Open(t.Context(), filepath.Join(t.TempDir(), "hangar.db"), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s, d
}

func testDraft(id string) eventstore.Draft {
	return eventstore.Draft{
		ID: id, Type: "NodeBeat", Version: 1, Time: "2026-11-03T10:00:00.000000Z",
		Data: `{"id":"` + id + `"}`, Meta: "{}",
	}
}

// expect appends one event and checks how that ends.
func expect(t *testing.T, s *Store, stream eventstore.Stream, head eventstore.Head, id string, want error) []eventstore.Record {
	t.Helper()
	records, err := s.Append(t.Context(), stream, head, testDraft(id))
	if !errors.Is(err, want) {
		t.Fatalf("the append of %s: %v, %v", id, records, err)
	}
	return records
}

// positions checks that the log holds events of the given ids, without holes.
func positions(t *testing.T, s *Store, ids ...string) {
	t.Helper()
	records, err := s.ReadAll(t.Context(), 0, 1000)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for i, r := range records {
		got = append(got, r.ID)
		if r.Position != eventstore.Position(i+1) {
			t.Errorf("record %d is at position %d", i, r.Position)
		}
	}
	if !slices.Equal(got, ids) {
		t.Errorf("the log holds %v, want %v", got, ids)
	}
}

func TestCommitThatFails(t *testing.T) {
	t.Parallel()
	s, d := faulty(t, Options{})
	head := eventstore.HeadOf(expect(t, s, "node-a", eventstore.NoStream, "a0", nil))
	dialed := d.dialed.Load()

	d.once("COMMIT", false)
	expect(t, s, "node-a", head, "a1", eventstore.ErrUnknown)
	positions(t, s, "a0")
	// Nothing was written, so the same append is a first one.
	head = eventstore.HeadOf(expect(t, s, "node-a", head, "a1", nil))
	positions(t, s, "a0", "a1")
	if d.dialed.Load() <= dialed {
		t.Error("the connection was used again after a failed commit")
	}

	d.once("COMMIT", true)
	expect(t, s, "node-a", head, "a2", eventstore.ErrUnknown)
	positions(t, s, "a0", "a1", "a2")
	// It was written, so the same append is a repeated one, and another a conflict.
	var conflict *eventstore.ConflictError
	if _, err := s.Append(t.Context(), "node-a", head, testDraft("other")); !errors.As(err, &conflict) || conflict.Actual != 2 {
		t.Errorf("after an unknown outcome: %v", err)
	}
	expect(t, s, "node-a", head, "a2", nil)
	expect(t, s, "node-b", eventstore.NoStream, "b0", nil)
	positions(t, s, "a0", "a1", "a2", "b0")
}

func TestBrokenDisk(t *testing.T) {
	t.Parallel()
	s, d := faulty(t, Options{})
	expect(t, s, "node-a", eventstore.NoStream, "a0", nil)
	positions(t, s, "a0") // the readers' connection is open now
	d.broken.Store(true)
	d.once("BEGIN", false)
	expect(t, s, "node-b", eventstore.NoStream, "b0", eventstore.ErrRefused)
	expect(t, s, "node-b", eventstore.NoStream, "b0", errDisk)
	positions(t, s, "a0")
	d.broken.Store(false)
	expect(t, s, "node-b", eventstore.NoStream, "b0", nil)
	positions(t, s, "a0", "b0")
}

// hold is an observer that lets the log stand still in its first group.
func hold() (o eventstore.Observer, reached, pass chan struct{}) {
	reached, pass = make(chan struct{}), make(chan struct{})
	var once sync.Once
	return func([]eventstore.Record) {
		once.Do(func() {
			close(reached)
			<-pass
		})
	}, reached, pass
}

// group lets the log stand still, queues an append for each id (to a stream of its
// own), sets the fault, and gives the errors once the log has moved on.
func group(t *testing.T, ids []string, fault func(*disk)) (s *Store, errs map[string]error) {
	t.Helper()
	observer, reached, pass := hold()
	s, d := faulty(t, Options{Observer: observer})
	var wg sync.WaitGroup
	wg.Go(func() { expect(t, s, "node-first", eventstore.NoStream, "first", nil) })
	<-reached
	errs = map[string]error{}
	var mu sync.Mutex
	for i, id := range ids {
		wg.Go(func() {
			_, err := s.Append(t.Context(), eventstore.Stream("node-"+id), eventstore.NoStream, testDraft(id))
			mu.Lock()
			defer mu.Unlock()
			errs[id] = err
		})
		untilQueued(s, i+1)
	}
	fault(d)
	close(pass)
	wg.Wait()
	return s, errs
}

// untilQueued returns when n appends wait for the writer.
func untilQueued(s *Store, n int) {
	for len(s.writer.queue) < n {
		runtime.Gosched()
	}
}

func TestFailedCommitOfAGroup(t *testing.T) {
	t.Parallel()
	ids := []string{"a", "b", "c"}
	s, errs := group(t, ids, func(d *disk) { d.once("COMMIT", false) })
	for _, id := range ids {
		if !errors.Is(errs[id], eventstore.ErrUnknown) {
			t.Errorf("%s: %v", id, errs[id])
		}
	}
	positions(t, s, "first")
	expect(t, s, "node-b", eventstore.NoStream, "b", nil)
	positions(t, s, "first", "b")
}

func TestOneMemberThatCannotBeWritten(t *testing.T) {
	t.Parallel()
	s, errs := group(t, []string{"a", "poison", "c"}, func(d *disk) {
		d.set(func(query string, args []driver.NamedValue) (error, bool) {
			if strings.HasPrefix(query, "INSERT") && args[3].Value == "poison" {
				return errDisk, false
			}
			return nil, false
		})
	})
	if err := errs["poison"]; !errors.Is(err, eventstore.ErrRefused) || !errors.Is(err, errDisk) {
		t.Errorf("the poison got %v", err)
	}
	for _, id := range []string{"a", "c"} {
		if errs[id] != nil {
			t.Errorf("%s: %v", id, errs[id])
		}
	}
	positions(t, s, "first", "a", "c")
}

// When the queue is full, an append whose context ends was never taken.
func TestFullQueue(t *testing.T) {
	t.Parallel()
	observer, reached, pass := hold()
	s, _ := faulty(t, Options{Observer: observer})
	var wg sync.WaitGroup
	start := func(id string) {
		wg.Go(func() {
			if _, err := s.Append(t.Context(), eventstore.Stream("node-"+id), eventstore.NoStream, testDraft(id)); err != nil {
				t.Errorf("%s: %v", id, err)
			}
		})
	}
	start("first")
	<-reached
	for i := range waiting {
		start(fmt.Sprint(i))
	}
	untilQueued(s, waiting)
	ctx, cancel := context.WithCancel(t.Context())
	told := make(chan error)
	go func() {
		_, err := s.Append(ctx, "node-late", eventstore.NoStream, testDraft("late"))
		told <- err
	}()
	cancel()
	if err := <-told; !errors.Is(err, eventstore.ErrRefused) || !errors.Is(err, context.Canceled) {
		t.Errorf("the append that found no room got %v", err)
	}
	close(pass)
	wg.Wait()
	if got, err := s.ReadStream(t.Context(), "node-late", 0, 1); len(got) != 0 || err != nil {
		t.Errorf("%d records, %v", len(got), err)
	}
	if head, err := s.Head(t.Context()); head != waiting+1 || err != nil {
		t.Errorf("head is %d, %v", head, err)
	}
}

func TestGroupsAreBounded(t *testing.T) {
	t.Parallel()
	w := &writer{queue: make(chan *request, waiting)}
	put := func(records, bytes int) {
		w.queue <- &request{sealed: make([]eventstore.Record, records), bytes: bytes}
	}
	sizes := func() (sizes []int) {
		for _, r := range w.next(nil) {
			sizes = append(sizes, len(r.sealed))
		}
		return sizes
	}
	put(200, 0)
	put(200, 0)
	put(112, 0)
	put(1, 1)
	put(2, maxGroupBytes)
	put(3, 1)
	put(4, 0)
	close(w.queue)
	for _, want := range [][]int{{200, 200, 112}, {1}, {2}, {3, 4}, nil} {
		if got := sizes(); !slices.Equal(got, want) {
			t.Errorf("a group of %v, want %v", got, want)
		}
	}
}

func TestHeadsForget(t *testing.T) {
	t.Parallel()
	var h heads
	for i := range 3 * keptHeads {
		h.set(eventstore.Stream(fmt.Sprint(i)), eventstore.Head{Revision: int64(i)})
	}
	if head, ok := h.get(eventstore.Stream(fmt.Sprint(3*keptHeads - 1))); !ok || head.Revision != 3*keptHeads-1 {
		t.Error("the newest is forgotten")
	}
	if _, ok := h.get("0"); ok {
		t.Error("the oldest is kept")
	}
	if n := len(h.young) + len(h.old); n > 2*keptHeads {
		t.Errorf("%d are kept", n)
	}
	h.clear()
	if _, ok := h.get(eventstore.Stream(fmt.Sprint(3*keptHeads - 1))); ok {
		t.Error("cleared and still there")
	}
}

// A commit that finds no room was not made; any other failed one may have been.
func TestCommitError(t *testing.T) {
	t.Parallel()
	s, err := Open(t.Context(), filepath.Join(t.TempDir(), "hangar.db"), Options{MaxPages: 40})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	d := testDraft("a")
	d.Data = `{"text":"` + strings.Repeat("x", eventstore.MaxDataBytes-100) + `"}`
	_, full := s.Append(t.Context(), "node-a", eventstore.NoStream, d)
	if primaryCode(full) != sqlite3.SQLITE_FULL {
		t.Fatal(full)
	}
	cause := errors.Unwrap(full)
	if cause == nil {
		cause = full
	}
	if err := commitError(cause); !errors.Is(err, eventstore.ErrRefused) || errors.Is(err, eventstore.ErrUnknown) {
		t.Errorf("no room: %v", err)
	}
	if err := commitError(errDisk); !errors.Is(err, eventstore.ErrUnknown) || errors.Is(err, eventstore.ErrRefused) {
		t.Errorf("another fault: %v", err)
	}
}

// The write-ahead log starts over from time to time, also when a reader that never
// goes has let it grow: as soon as that one is gone.
func TestCheckpoints(t *testing.T) {
	t.Parallel()
	s, _ := faulty(t, Options{})
	s.writer.checkpointAt, s.writer.starvedAt = 50, 150
	wal := s.path(t) + "-wal"
	head := eventstore.NoStream
	write := func(frames int) {
		d := testDraft("")
		d.Data = `{"text":"` + strings.Repeat("x", 10*pageBytes) + `"}`
		for range frames / 10 {
			d.ID = fmt.Sprint(head.Revision)
			records, err := s.Append(t.Context(), "node-a", head, d)
			if err != nil {
				t.Fatal(err)
			}
			head = eventstore.HeadOf(records)
		}
	}
	size := func() int64 {
		info, err := os.Stat(wal)
		if err != nil {
			t.Fatal(err)
		}
		return info.Size() / pageBytes
	}
	write(400)
	if got := size(); got > 150 {
		t.Errorf("the write-ahead log has %d pages", got)
	}
	c, err := open(t.Context(), dialDriver, dsn(s.path(t), "mode=ro"), "BEGIN; SELECT * FROM events LIMIT 1")
	if err != nil {
		t.Fatal(err)
	}
	write(400)
	grown := size()
	if grown < 350 {
		t.Errorf("the write-ahead log has %d pages beside a reader", grown)
	}
	if err := c.close(); err != nil {
		t.Fatal(err)
	}
	write(400)
	if got := size(); got > grown+100 {
		t.Errorf("the write-ahead log has %d pages after the reader went, and had %d", got, grown)
	}
}

// path asks SQLite for the name of the log's file.
func (s *Store) path(t *testing.T) (path string) {
	t.Helper()
	var dest [3]driver.Value
	err := s.reads.with(t.Context(), func(c *conn) error {
		err := c.row(t.Context(), "PRAGMA database_list", dest[:])
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return text(dest[2])
}
