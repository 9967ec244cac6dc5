-- What was found changed by somebody else: when first, in which fields, and what became of it. An entry is open until
-- `ended_at`; a resource has one open entry at most. `action` is the last write that may have healed it, as in
-- journal.actions; `fields` is a JSON array of {path, remote, declared}.
CREATE TABLE drift (
    number     INTEGER PRIMARY KEY AUTOINCREMENT,
    scope      TEXT NOT NULL,
    id         TEXT NOT NULL,
    address    TEXT NOT NULL,
    manifest   TEXT NOT NULL,
    mode       TEXT NOT NULL CHECK (mode IN ('heal', 'warn', 'ignore')),
    missing    INTEGER NOT NULL CHECK (missing IN (0, 1)),
    fields     TEXT NOT NULL,
    first_seen INTEGER NOT NULL,
    action     INTEGER,
    ended_at   INTEGER,
    outcome    TEXT CHECK (outcome IN ('healed', 'gone', 'ignored')),
    CHECK ((ended_at IS NULL) = (outcome IS NULL))
) STRICT;
CREATE UNIQUE INDEX drift_open ON drift (scope, id) WHERE ended_at IS NULL;
CREATE INDEX drift_ended ON drift (ended_at) WHERE ended_at IS NOT NULL;

-- What is not healthy, as the last look found it; what is healthy has no row. An empty id is the scope as a whole.
CREATE TABLE health (
    scope   TEXT NOT NULL,
    id      TEXT NOT NULL,
    state   TEXT NOT NULL CHECK (state IN ('Suspended', 'Progressing', 'Missing', 'Degraded', 'Unknown')),
    message TEXT NOT NULL,
    since   INTEGER NOT NULL,
    PRIMARY KEY (scope, id)
) STRICT, WITHOUT ROWID;

-- The newest generation of a manifest of the scope that a complete pass looked at.
CREATE TABLE looked_at (
    scope      TEXT PRIMARY KEY,
    generation INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- Since when it is as declared, and since when it is healthy, where that is known.
ALTER TABLE inventory ADD COLUMN synced_at INTEGER;
ALTER TABLE inventory ADD COLUMN healthy_at INTEGER;

-- The generation before, for what was looked at then and not since.
ALTER TABLE manifest ADD COLUMN previous INTEGER;

CREATE VIEW drifts AS
SELECT number, address, scope, id, mode, datetime(first_seen / 1000, 'unixepoch') AS first_seen,
       coalesce(outcome, iif(mode = 'warn', 'reported', 'open')) AS outcome,
       datetime(ended_at / 1000, 'unixepoch') AS ended_at, action, missing, fields
FROM drift ORDER BY number DESC;

CREATE VIEW ailing AS
SELECT scope, nullif(id, '') AS id, state, message, datetime(since / 1000, 'unixepoch') AS since
FROM health ORDER BY scope, id;

PRAGMA user_version = 6;
