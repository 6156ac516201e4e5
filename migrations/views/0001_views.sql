-- Everything here is built from the log and may be deleted at any time.

-- How far each view is: the place of the record it took last, with its hash, so
-- that a log which went back is noticed.
CREATE TABLE checkpoints (
	view     TEXT    NOT NULL PRIMARY KEY,
	version  INTEGER NOT NULL, -- of the view's code; another one means another table
	store_id TEXT    NOT NULL,
	position INTEGER NOT NULL,
	stream   TEXT    NOT NULL, -- of the record at the position
	revision INTEGER NOT NULL,
	hash     TEXT    NOT NULL
) STRICT;

CREATE TABLE jobs (
	id         TEXT    NOT NULL PRIMARY KEY,
	ordinal    INTEGER NOT NULL, -- position of the first record: the order of submission
	tenant     TEXT    NOT NULL,
	principal  TEXT    NOT NULL,
	status     TEXT    NOT NULL,
	final      INTEGER NOT NULL,
	repo       TEXT    NOT NULL,
	labels     TEXT    NOT NULL, -- a JSON object
	created_at TEXT    NOT NULL
) STRICT;
CREATE INDEX jobs_mine ON jobs (tenant, principal, ordinal);
CREATE INDEX jobs_live ON jobs (ordinal) WHERE final = 0;

CREATE TABLE tasks (
	id         TEXT    NOT NULL PRIMARY KEY,
	ordinal    INTEGER NOT NULL,
	tenant     TEXT    NOT NULL,
	principal  TEXT    NOT NULL,
	tool       TEXT    NOT NULL,
	subject    TEXT    NOT NULL, -- the stream of its subject, '' for a relayed task
	status     TEXT    NOT NULL, -- live, completed, failed or cancelled
	expired    INTEGER NOT NULL,
	deadline   TEXT    NOT NULL, -- '' for none
	created_at TEXT    NOT NULL
) STRICT;
CREATE INDEX tasks_mine ON tasks (tenant, principal, ordinal);
CREATE INDEX tasks_subject ON tasks (subject);
CREATE INDEX tasks_due ON tasks (deadline) WHERE expired = 0 AND deadline <> '';
CREATE INDEX tasks_live ON tasks (ordinal) WHERE status = 'live' AND expired = 0;

CREATE TABLE tokens (
	id         TEXT    NOT NULL PRIMARY KEY,
	ordinal    INTEGER NOT NULL,
	tenant     TEXT    NOT NULL,
	principal  TEXT    NOT NULL,
	scopes     TEXT    NOT NULL, -- a JSON array
	issued_at  TEXT    NOT NULL,
	expires_at TEXT    NOT NULL, -- '' for never
	revoked    INTEGER NOT NULL
) STRICT;
CREATE INDEX tokens_of ON tokens (tenant, ordinal);
