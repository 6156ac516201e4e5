-- The log: every event that was ever appended, in the order of all.
--
-- time, data and meta are the exact texts that hash was computed over (how is
-- described in eventstore/chain). Read it with: sqlite3 -readonly
PRAGMA application_id = 0x48474152; -- "HGAR"

CREATE TABLE log_meta(
  key   TEXT PRIMARY KEY,
  value TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE events(
  position INTEGER PRIMARY KEY,  -- from 1, in commit order, without holes
  stream   TEXT    NOT NULL,     -- category-id
  revision INTEGER NOT NULL,     -- from 0 within the stream
  id       TEXT    NOT NULL,
  type     TEXT    NOT NULL,
  version  INTEGER NOT NULL,     -- of the type's schema
  time     TEXT    NOT NULL,     -- RFC 3339, UTC, six decimals
  data     TEXT    NOT NULL,     -- a JSON object
  meta     TEXT    NOT NULL,     -- a JSON object
  prev     TEXT    NOT NULL,     -- hash of the record before it in the stream, '' at revision 0
  hash     TEXT    NOT NULL      -- 64 lower-case hex digits
) STRICT;

CREATE UNIQUE INDEX events_stream ON events(stream, revision);

CREATE TRIGGER events_stay BEFORE DELETE ON events
BEGIN SELECT raise(ABORT, 'the log is append-only'); END;

CREATE TRIGGER events_keep BEFORE UPDATE ON events
BEGIN SELECT raise(ABORT, 'the log is append-only'); END;
