package sqlite

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strings"

	driversqlite "modernc.org/sqlite"

	"hangar/eventstore"
)

// The engine talks to the driver's connections directly, not through database/sql:
// its statements are few and prepared once, and a record has eleven columns, each
// of which database/sql would convert twice.

// dial opens a driver connection. It is a variable of the store, so that a test
// can put a failing disk in its place.
type dial func(ctx context.Context, dsn string) (driver.Conn, error)

func dialDriver(ctx context.Context, dsn string) (driver.Conn, error) {
	connector, err := driversqlite.NewConnector(dsn)
	if err != nil {
		return nil, err
	}
	return connector.Connect(ctx)
}

// dsn names a database file to the driver, with SQLite's own URI parameters.
func dsn(path string, parameters string) string {
	return "file:" + (&url.URL{Path: path}).EscapedPath() + "?" + parameters
}

// conn is one connection, used by one goroutine at a time.
type conn struct {
	raw    driver.Conn
	stream statement
	all    statement

	resting string // the path of a database that is read as one at rest, or ""
	version int64  // what changed saw last
}

// statement is what the driver's prepared statements can do.
type statement interface {
	driver.Stmt
	driver.StmtExecContext
	driver.StmtQueryContext
}

// selected is a record as it is read. The short texts come as one, because the
// driver's cost is by the column: a record is read in four fifths of the time.
// They hold no control character (eventstore.Check), so char(31) parts them.
const selected = "position, revision, version, data, meta, " +
	"stream||char(31)||id||char(31)||type||char(31)||time||char(31)||prev||char(31)||hash"

const selectedCount = 6

// open makes a connection that reads. setup are the pragmas it starts with.
func open(ctx context.Context, d dial, dsn, setup string) (_ *conn, err error) {
	raw, err := d(ctx, dsn)
	if err != nil {
		return nil, err
	}
	c := &conn{raw: raw}
	defer func() {
		if err != nil {
			_ = c.close()
		}
	}()
	if err := c.script(ctx, setup); err != nil {
		return nil, err
	}
	if c.stream, err = c.prepare("SELECT " + selected + " FROM events WHERE stream = ? AND revision >= ? ORDER BY revision LIMIT ?"); err != nil {
		return nil, err
	}
	c.all, err = c.prepare("SELECT " + selected + " FROM events WHERE position > ? ORDER BY position LIMIT ?")
	return c, err
}

func (c *conn) close() error {
	var errs []error
	for _, s := range []statement{c.stream, c.all} {
		if s != nil {
			errs = append(errs, s.Close())
		}
	}
	return errors.Join(append(errs, c.raw.Close())...)
}

func (c *conn) prepare(query string) (statement, error) {
	s, err := c.raw.Prepare(query)
	if err != nil {
		return nil, err
	}
	st, ok := s.(statement)
	if !ok {
		return nil, errors.Join(fmt.Errorf("a %T cannot be used", s), s.Close())
	}
	return st, nil
}

// script runs statements whose rows do not matter.
func (c *conn) script(ctx context.Context, text string) error {
	execer, ok := c.raw.(driver.ExecerContext)
	if !ok {
		return fmt.Errorf("a %T cannot be used", c.raw)
	}
	_, err := execer.ExecContext(ctx, text, nil)
	return err
}

// row runs a query and reads its first row, if there is one.
func (c *conn) row(ctx context.Context, query string, dest []driver.Value) error {
	s, err := c.prepare(query)
	if err != nil {
		return err
	}
	defer s.Close()
	_, err = first(ctx, s, nil, dest)
	return err
}

func first(ctx context.Context, s statement, args []driver.NamedValue, dest []driver.Value) (bool, error) {
	rows, err := s.QueryContext(ctx, args)
	if err != nil {
		return false, err
	}
	err = rows.Next(dest)
	if closing := rows.Close(); err == nil {
		err = closing
	}
	if errors.Is(err, io.EOF) {
		return false, nil
	}
	return err == nil, err
}

// head gives the newest position, zero for an empty log.
func (c *conn) head(ctx context.Context) (eventstore.Position, error) {
	var dest [1]driver.Value
	if err := c.row(ctx, "SELECT coalesce(max(position), 0) FROM events", dest[:]); err != nil {
		return 0, err
	}
	return position(dest[0]), nil
}

// readStream appends up to limit records of a stream to records.
func (c *conn) readStream(stream eventstore.Stream, from int64, limit int, records []eventstore.Record) ([]eventstore.Record, error) {
	return read(c.stream, records, string(stream), from, int64(limit))
}

// readAll appends up to limit records after a position to records.
func (c *conn) readAll(after eventstore.Position, limit int, records []eventstore.Record) ([]eventstore.Record, error) {
	return read(c.all, records, int64(after), int64(limit)) //nolint:gosec // readers refuse what is over int64
}

// read runs a query of what is selected. It takes no context: the driver would start a
// goroutine for each query to watch it, and a page is short.
func read(s statement, records []eventstore.Record, args ...any) ([]eventstore.Record, error) {
	var named [3]driver.NamedValue
	for i, a := range args {
		named[i] = driver.NamedValue{Ordinal: i + 1, Value: a}
	}
	rows, err := s.QueryContext(context.Background(), named[:len(args)])
	if err != nil {
		return records, err
	}
	defer rows.Close()
	var dest [selectedCount]driver.Value
	for {
		if err := rows.Next(dest[:]); err != nil {
			if errors.Is(err, io.EOF) {
				return records, nil
			}
			return records, err
		}
		records = append(records, record(&dest))
	}
}

// record reads a row of what is selected. The table is STRICT: the kinds are
// certain.
func record(row *[selectedCount]driver.Value) eventstore.Record {
	r := eventstore.Record{
		Position: position(row[0]),
		Revision: integer(row[1]),
		Version:  int(integer(row[2])),
		Data:     text(row[3]),
		Meta:     text(row[4]),
	}
	stream, rest, _ := strings.Cut(text(row[5]), "\x1f")
	r.Stream = eventstore.Stream(stream)
	r.ID, rest, _ = strings.Cut(rest, "\x1f")
	r.Type, rest, _ = strings.Cut(rest, "\x1f")
	r.Time, rest, _ = strings.Cut(rest, "\x1f")
	r.Prev, r.Hash, _ = strings.Cut(rest, "\x1f")
	return r
}

func text(v driver.Value) string   { s, _ := v.(string); return s }
func integer(v driver.Value) int64 { n, _ := v.(int64); return n }

func position(v driver.Value) eventstore.Position {
	return eventstore.Position(max(integer(v), 0))
}
