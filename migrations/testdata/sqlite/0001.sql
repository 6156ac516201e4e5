-- A log as schema version 1 left it: what every later version must still read.
PRAGMA application_id = 1212629330;
PRAGMA user_version = 1;
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
INSERT INTO log_meta VALUES('id','cccccccccccccccccccccccccc');
INSERT INTO events VALUES(1,'job-aaaaaaaaaaaaaaaaaaaaaaaaaa',0,'5f0c7f0e-1f5a-5f7b-9d0a-3f2b1c4d5e6f','JobSubmitted',1,'2026-11-03T10:00:00.000001Z','{"prompt":"Grüße, 世界 😀","timeout_minutes":30}','{"tenant":"acme","principal":"ci","command_id":"01936b2e-7c00-7a11-8f00-0242ac120002"}','','a2e8a8f0ec3213f8b8573d4541aea55f5dbe222632bdc2e1ea409856ec46a089');
INSERT INTO events VALUES(2,'task-bbbbbbbbbbbbbbbbbbbbbbbbbb',0,'6f0c7f0e-1f5a-5f7b-9d0a-3f2b1c4d5e6f','TaskCreated',1,'2026-11-03T10:00:00.000002Z','{"handle":"x","ttl_ms":60000}','{}','','22c8bb0a16a7ccb4a220fe46beda62a08146098c56d8851170fe6bee7aeec95a');
INSERT INTO events VALUES(3,'job-aaaaaaaaaaaaaaaaaaaaaaaaaa',1,'7f0c7f0e-1f5a-5f7b-9d0a-3f2b1c4d5e6f','TurnQueued',2,'2026-11-03T10:00:00.000003Z','{ "turn" : "job-aaaaaaaaaaaaaaaaaaaaaaaaaa.1" }','{"tenant":"acme","principal":"ci","command_id":"01936b2e-7c00-7a11-8f00-0242ac120002"}','a2e8a8f0ec3213f8b8573d4541aea55f5dbe222632bdc2e1ea409856ec46a089','b9ebf8d9f68a08d33ea2fabbc0bee1979bc5497803681bd5b9a4529cf5854ad7');
