-- The state of one instance. Times are milliseconds since 1970 (UTC), hashes are blobs, a scope is written
-- PROVIDER/NAME and a manifest SOURCE/GROUP/KIND/NAMESPACE/NAME. The views at the end show the same for people:
-- tracked, problems, held, approvals, revisions, actions, history.
-- Invariant: the last statement of every migration sets user_version to its own number.

CREATE TABLE meta (
    key   TEXT PRIMARY KEY,
    value TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- Raised each time a process opens the database for writing; every transaction checks it.
CREATE TABLE epoch (
    only_row  INTEGER PRIMARY KEY CHECK (only_row = 1),
    epoch     INTEGER NOT NULL,
    opened_at INTEGER NOT NULL,
    pid       INTEGER NOT NULL,
    program   TEXT NOT NULL
) STRICT;
INSERT INTO epoch VALUES (1, 0, 0, 0, '');

-- Tracked resources: what this instance created or adopted, and what held when it was last applied.
CREATE TABLE inventory (
    scope      TEXT NOT NULL,
    id         TEXT NOT NULL,
    manifest   TEXT NOT NULL,
    address    TEXT NOT NULL,
    file       TEXT NOT NULL,
    content    BLOB NOT NULL,
    template   BLOB NOT NULL,
    applied    BLOB NOT NULL,
    normalizer INTEGER NOT NULL,
    deletion   TEXT NOT NULL CHECK (deletion IN ('delete', 'abandon', 'protect')),
    drift      TEXT NOT NULL CHECK (drift IN ('heal', 'warn', 'ignore')),
    merged     INTEGER NOT NULL CHECK (merged IN (0, 1)),
    state      TEXT NOT NULL CHECK (state IN ('applied', 'settled', 'pending')),
    recheck_at INTEGER,
    written_at INTEGER NOT NULL,
    revision   TEXT NOT NULL,
    remote     TEXT,
    depends_on TEXT,
    private    BLOB,
    outputs    BLOB,
    PRIMARY KEY (scope, id),
    CHECK ((state = 'pending') = (recheck_at IS NOT NULL))
) STRICT, WITHOUT ROWID;
CREATE INDEX inventory_manifest ON inventory (manifest);

-- The reverse of inventory.depends_on. The triggers keep both equal, and cost rows without edges nothing.
CREATE TABLE edge (
    manifest TEXT NOT NULL,
    scope    TEXT NOT NULL,
    id       TEXT NOT NULL,
    PRIMARY KEY (scope, id, manifest)
) STRICT, WITHOUT ROWID;
CREATE INDEX edge_manifest ON edge (manifest);
CREATE TRIGGER inventory_edges_insert AFTER INSERT ON inventory WHEN NEW.depends_on IS NOT NULL BEGIN
    INSERT OR IGNORE INTO edge SELECT value, NEW.scope, NEW.id FROM json_each(NEW.depends_on);
END;
CREATE TRIGGER inventory_edges_update AFTER UPDATE OF depends_on ON inventory
WHEN NEW.depends_on IS NOT OLD.depends_on BEGIN
    DELETE FROM edge WHERE scope = OLD.scope AND id = OLD.id;
    INSERT OR IGNORE INTO edge
        SELECT value, NEW.scope, NEW.id FROM json_each(coalesce(NEW.depends_on, '[]'));
END;
CREATE TRIGGER inventory_edges_delete AFTER DELETE ON inventory WHEN OLD.depends_on IS NOT NULL BEGIN
    DELETE FROM edge WHERE scope = OLD.scope AND id = OLD.id;
END;

-- One row per group of actions sent together. `actions` says what was intended, `outcomes` (same order) how it ended;
-- `rows` holds what the inventory shall become and goes when every action has an answer.
CREATE TABLE journal (
    number       INTEGER PRIMARY KEY AUTOINCREMENT,
    scope        TEXT NOT NULL,
    epoch        INTEGER NOT NULL,
    started_at   INTEGER NOT NULL,
    total        INTEGER NOT NULL,
    ended        INTEGER NOT NULL DEFAULT 0,
    outcomes     TEXT NOT NULL DEFAULT '[]',
    actions      TEXT NOT NULL,
    rows         TEXT
) STRICT;
CREATE INDEX journal_open ON journal (scope) WHERE ended < total;

-- Revisions in the order they came into force; the last one of a source is in force.
CREATE TABLE revision (
    number    INTEGER PRIMARY KEY AUTOINCREMENT,
    source    TEXT NOT NULL,
    commit_id TEXT NOT NULL,
    label     TEXT NOT NULL,
    author    TEXT NOT NULL,
    subject   TEXT NOT NULL,
    path      TEXT NOT NULL,
    at        INTEGER NOT NULL,
    manifests INTEGER NOT NULL,
    changed   INTEGER NOT NULL
) STRICT;
CREATE INDEX revision_source ON revision (source, number);

-- Manifests in force. The generation is the number of the revision that last changed the manifest: raised by
-- commit and rollback alike, and never used again after the manifest is gone.
CREATE TABLE manifest (
    source     TEXT NOT NULL,
    key        TEXT NOT NULL PRIMARY KEY,
    content    BLOB NOT NULL,
    generation INTEGER NOT NULL REFERENCES revision (number)
) STRICT, WITHOUT ROWID;
CREATE INDEX manifest_source ON manifest (source);

CREATE TABLE condition (
    scope    TEXT NOT NULL,
    position INTEGER NOT NULL,
    id       TEXT,
    address  TEXT,
    kind     TEXT NOT NULL CHECK (kind IN ('waiting', 'stalled', 'held', 'suspended')),
    reason   TEXT NOT NULL,
    message  TEXT NOT NULL,
    hint     TEXT,
    since    INTEGER NOT NULL,
    next_try INTEGER,
    PRIMARY KEY (scope, position)
) STRICT, WITHOUT ROWID;

-- The audit trail: hash = BLAKE3(hash of the row before ‖ this row as a JSON array, without the hash).
CREATE TABLE event (
    number   INTEGER PRIMARY KEY AUTOINCREMENT,
    at       INTEGER NOT NULL,
    kind     TEXT NOT NULL,
    scope    TEXT,
    address  TEXT,
    revision TEXT NOT NULL,
    actor    TEXT NOT NULL,
    reason   TEXT NOT NULL,
    message  TEXT NOT NULL,
    hash     BLOB NOT NULL
) STRICT;
CREATE TRIGGER event_is_append_only BEFORE UPDATE ON event BEGIN
    SELECT raise(ABORT, 'events are never changed');
END;

CREATE TABLE approval (
    digest  BLOB PRIMARY KEY,
    reason  TEXT NOT NULL,
    actor   TEXT NOT NULL,
    at      INTEGER NOT NULL,
    used_at INTEGER
) STRICT, WITHOUT ROWID;

CREATE TABLE hold (
    domain   TEXT PRIMARY KEY,
    digest   BLOB NOT NULL,
    reasons  TEXT NOT NULL,
    creates  INTEGER NOT NULL,
    updates  INTEGER NOT NULL,
    replaces INTEGER NOT NULL,
    deletes  INTEGER NOT NULL,
    revision TEXT NOT NULL,
    since    INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- A person's word on the ownership of one identity.
CREATE TABLE consent (
    scope    TEXT NOT NULL,
    id       TEXT NOT NULL,
    word     TEXT NOT NULL CHECK (word IN ('adopt', 'barred')),
    observed BLOB,
    instance TEXT,
    PRIMARY KEY (scope, id),
    CHECK ((word = 'adopt') = (observed IS NOT NULL))
) STRICT, WITHOUT ROWID;

CREATE TABLE claim (
    owner_scope TEXT NOT NULL,
    owner       TEXT NOT NULL,
    key         TEXT NOT NULL,
    provider    TEXT NOT NULL,
    kind        TEXT NOT NULL,
    spec        BLOB NOT NULL,
    lives       TEXT NOT NULL CHECK (lives IN ('while-pending', 'while-tracked')),
    scope       TEXT NOT NULL,
    id          TEXT NOT NULL,
    synced      INTEGER NOT NULL CHECK (synced IN (0, 1)),
    PRIMARY KEY (owner_scope, owner, key)
) STRICT, WITHOUT ROWID;
CREATE INDEX claim_scope ON claim (scope, id);

-- The version at which a scope was last seen whole and in sync; token is null where the scope is absent.
CREATE TABLE scope_version (
    scope     TEXT PRIMARY KEY,
    state     TEXT NOT NULL CHECK (state IN ('absent', 'at', 'unknown')),
    token     BLOB,
    foreigners INTEGER NOT NULL,
    CHECK ((state = 'at') = (token IS NOT NULL))
) STRICT, WITHOUT ROWID;

-- The revision of a source that was last found in sync as a whole.
CREATE TABLE converged (
    source    TEXT PRIMARY KEY,
    commit_id TEXT NOT NULL,
    inputs    BLOB NOT NULL
) STRICT, WITHOUT ROWID;

CREATE VIEW tracked AS
SELECT address, scope, id, state, datetime(recheck_at / 1000, 'unixepoch') AS recheck_at,
       datetime(nullif(written_at, 0) / 1000, 'unixepoch') AS written_at, revision, manifest, file,
       deletion, drift, merged, remote, depends_on, lower(hex(applied)) AS applied,
       private IS NOT NULL OR outputs IS NOT NULL AS sealed
FROM inventory;

CREATE VIEW problems AS
SELECT kind, scope, address, reason, message, hint, datetime(since / 1000, 'unixepoch') AS since,
       datetime(next_try / 1000, 'unixepoch') AS next_try
FROM condition ORDER BY scope, position;

CREATE VIEW held AS
SELECT domain, lower(hex(digest)) AS digest, creates, updates, replaces, deletes, revision,
       datetime(since / 1000, 'unixepoch') AS since, reasons
FROM hold;

CREATE VIEW approvals AS
SELECT lower(hex(digest)) AS digest, actor, reason, datetime(at / 1000, 'unixepoch') AS at,
       datetime(used_at / 1000, 'unixepoch') AS used_at
FROM approval;

CREATE VIEW revisions AS
SELECT number, datetime(at / 1000, 'unixepoch') AS at, source, label, author, subject, path, manifests, changed,
       commit_id
FROM revision ORDER BY number DESC;

CREATE VIEW actions AS
SELECT j.number AS journal, datetime(j.started_at / 1000, 'unixepoch') AS at, a.value ->> 'op' AS op,
       a.value ->> 'address' AS address, j.scope, a.value ->> 'id' AS id, a.value ->> 'reason' AS reason,
       json_extract(j.outcomes, '$[' || a.key || '].outcome') AS outcome
FROM journal j, json_each(j.actions) a;

CREATE VIEW history AS
SELECT number, datetime(at / 1000, 'unixepoch') AS at, kind, revision, scope, address, actor, reason, message
FROM event ORDER BY number DESC;

PRAGMA application_id = 1919118948; -- "rcnd"
PRAGMA user_version = 1;
