-- All migrations as one, for a new database. Never edited by hand: a test compares it with what they come to, and
-- tells how to write it anew.

CREATE TABLE meta (
    key   TEXT PRIMARY KEY,
    value TEXT NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE epoch (
    only_row  INTEGER PRIMARY KEY CHECK (only_row = 1),
    epoch     INTEGER NOT NULL,
    opened_at INTEGER NOT NULL,
    pid       INTEGER NOT NULL,
    program   TEXT NOT NULL
) STRICT;
CREATE TABLE inventory (
    scope      TEXT NOT NULL,
    id         TEXT NOT NULL,
    manifest   TEXT NOT NULL,
    address    TEXT NOT NULL,
    file       TEXT NOT NULL,
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
    outputs    BLOB, synced_at INTEGER, healthy_at INTEGER, stamp INTEGER NOT NULL DEFAULT 0, writes TEXT NOT NULL DEFAULT 'sync'
    CHECK (writes IN ('observe', 'create-only', 'upsert-only', 'sync')), formerly TEXT,
    PRIMARY KEY (scope, id),
    CHECK ((state = 'pending') = (recheck_at IS NOT NULL))
) STRICT, WITHOUT ROWID;
CREATE TABLE edge (
    manifest TEXT NOT NULL,
    scope    TEXT NOT NULL,
    id       TEXT NOT NULL,
    PRIMARY KEY (scope, id, manifest)
) STRICT, WITHOUT ROWID;
CREATE TABLE journal (
    number       INTEGER PRIMARY KEY AUTOINCREMENT,
    scope        TEXT NOT NULL,
    epoch        INTEGER NOT NULL,
    started_at   INTEGER NOT NULL,
    total        INTEGER NOT NULL,
    ended        INTEGER NOT NULL DEFAULT 0,
    outcomes     TEXT NOT NULL DEFAULT '[]',
    rows         TEXT
, numbers TEXT NOT NULL DEFAULT '[]') STRICT;
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
CREATE TABLE manifest (
    source     TEXT NOT NULL,
    key        TEXT NOT NULL PRIMARY KEY,
    content    BLOB NOT NULL,
    generation INTEGER NOT NULL REFERENCES revision (number)
, pins INTEGER NOT NULL DEFAULT 0, previous INTEGER) STRICT, WITHOUT ROWID;
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
    next_try INTEGER, declared BLOB,
    PRIMARY KEY (scope, position)
) STRICT, WITHOUT ROWID;
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
, once TEXT) STRICT, WITHOUT ROWID;
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
CREATE TABLE scope_version (
    scope     TEXT PRIMARY KEY,
    state     TEXT NOT NULL CHECK (state IN ('absent', 'at', 'unknown')),
    token     BLOB,
    foreigners INTEGER NOT NULL,
    CHECK ((state = 'at') = (token IS NOT NULL))
) STRICT, WITHOUT ROWID;
CREATE TABLE converged (
    source    TEXT PRIMARY KEY,
    commit_id TEXT NOT NULL,
    inputs    BLOB NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE suspension (
    id     TEXT PRIMARY KEY,
    extent TEXT NOT NULL CHECK (extent IN ('all', 'source', 'provider', 'address', 'labels')),
    name   TEXT NOT NULL,
    except_for TEXT NOT NULL,
    reason TEXT NOT NULL,
    actor  TEXT NOT NULL,
    since  INTEGER NOT NULL,
    until  INTEGER
) STRICT, WITHOUT ROWID;
CREATE TABLE suspension_scope (
    suspension TEXT NOT NULL REFERENCES suspension (id) ON DELETE CASCADE,
    scope      TEXT NOT NULL,
    PRIMARY KEY (suspension, scope)
) STRICT, WITHOUT ROWID;
CREATE TABLE pin (
    scope     TEXT NOT NULL,
    id        TEXT NOT NULL,
    address   TEXT NOT NULL,
    manifest  TEXT NOT NULL,
    commit_id TEXT NOT NULL,
    label     TEXT NOT NULL,
    template  BLOB,
    content   BLOB,
    declared  INTEGER NOT NULL,
    reason    TEXT NOT NULL,
    actor     TEXT NOT NULL,
    since     INTEGER NOT NULL,
    until     INTEGER,
    PRIMARY KEY (scope, id)
) STRICT, WITHOUT ROWID;
CREATE TABLE trouble (
    subject TEXT NOT NULL,
    topic   TEXT NOT NULL,
    reason  TEXT NOT NULL,
    body    TEXT NOT NULL,
    seen_at INTEGER NOT NULL,
    gone_at INTEGER,
    PRIMARY KEY (subject, topic, reason)
) STRICT, WITHOUT ROWID;
CREATE TABLE announcement (
    receiver TEXT NOT NULL,
    subject  TEXT NOT NULL,
    topic    TEXT NOT NULL,
    reason   TEXT NOT NULL,
    at       INTEGER NOT NULL,
    PRIMARY KEY (receiver, subject, topic, reason)
) STRICT, WITHOUT ROWID;
CREATE TABLE outbox (
    number     INTEGER PRIMARY KEY AUTOINCREMENT,
    receiver   TEXT NOT NULL,
    message    TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    attempts   INTEGER NOT NULL DEFAULT 0,
    next_try   INTEGER NOT NULL
) STRICT;
CREATE TABLE commit_status (
    source      TEXT NOT NULL,
    commit_id   TEXT NOT NULL,
    state       TEXT NOT NULL CHECK (state IN ('pending', 'success', 'failure', 'error')),
    description TEXT NOT NULL,
    decided_at  INTEGER NOT NULL,
    delivered   INTEGER NOT NULL CHECK (delivered IN (0, 1)),
    PRIMARY KEY (source, commit_id)
) STRICT, WITHOUT ROWID;
CREATE TABLE document (
    scope    TEXT NOT NULL,
    manifest TEXT NOT NULL,
    content  BLOB NOT NULL,
    PRIMARY KEY (scope, manifest)
) STRICT, WITHOUT ROWID;
CREATE TABLE inventory_stamp (
    scope TEXT NOT NULL PRIMARY KEY,
    stamp INTEGER NOT NULL
, settled INTEGER, settled_at INTEGER) STRICT, WITHOUT ROWID;
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
CREATE TABLE health (
    scope   TEXT NOT NULL,
    id      TEXT NOT NULL,
    state   TEXT NOT NULL CHECK (state IN ('Suspended', 'Progressing', 'Missing', 'Degraded', 'Unknown')),
    message TEXT NOT NULL,
    since   INTEGER NOT NULL,
    PRIMARY KEY (scope, id)
) STRICT, WITHOUT ROWID;
CREATE TABLE looked_at (
    scope      TEXT PRIMARY KEY,
    generation INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE intent (
    number  INTEGER PRIMARY KEY REFERENCES journal (number) ON DELETE CASCADE,
    actions TEXT NOT NULL
, common TEXT NOT NULL DEFAULT '{}') STRICT;
CREATE TABLE begun (
    domain TEXT PRIMARY KEY,
    digest BLOB NOT NULL,
    reason TEXT NOT NULL,
    actor  TEXT NOT NULL,
    at     INTEGER NOT NULL,
    used_at INTEGER NOT NULL,
    steps  TEXT NOT NULL,
    manifests TEXT NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE "consent" (
    scope    TEXT NOT NULL,
    id       TEXT NOT NULL,
    word     TEXT NOT NULL CHECK (word IN ('adopt', 'barred', 'let-go')),
    observed BLOB,
    instance TEXT,
    PRIMARY KEY (scope, id),
    CHECK ((word = 'adopt') = (observed IS NOT NULL))
) STRICT, WITHOUT ROWID;
CREATE TABLE "approval" (
    digest  BLOB NOT NULL,
    reason  TEXT NOT NULL,
    actor   TEXT NOT NULL,
    at      INTEGER NOT NULL,
    used_at INTEGER,
    PRIMARY KEY (digest, at)
) STRICT, WITHOUT ROWID;
CREATE TABLE scope_place (
    scope TEXT PRIMARY KEY,
    place BLOB NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX edge_manifest ON edge (manifest);
CREATE INDEX journal_open ON journal (scope) WHERE ended < total;
CREATE INDEX revision_source ON revision (source, number);
CREATE INDEX manifest_source ON manifest (source);
CREATE INDEX claim_scope ON claim (scope, id);
CREATE INDEX outbox_receiver ON outbox (receiver, number);
CREATE UNIQUE INDEX drift_open ON drift (scope, id) WHERE ended_at IS NULL;
CREATE INDEX drift_ended ON drift (ended_at) WHERE ended_at IS NOT NULL;
CREATE INDEX inventory_outputs ON inventory (manifest) WHERE outputs IS NOT NULL;

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
CREATE TRIGGER event_is_append_only BEFORE UPDATE ON event BEGIN
    SELECT raise(ABORT, 'events are never changed');
END;

CREATE VIEW problems AS
SELECT kind, scope, address, reason, message, hint, datetime(since / 1000, 'unixepoch') AS since,
       datetime(next_try / 1000, 'unixepoch') AS next_try
FROM condition ORDER BY scope, position;
CREATE VIEW revisions AS
SELECT number, datetime(at / 1000, 'unixepoch') AS at, source, label, author, subject, path, manifests, changed,
       commit_id
FROM revision ORDER BY number DESC;
CREATE VIEW history AS
SELECT number, datetime(at / 1000, 'unixepoch') AS at, kind, revision, scope, address, actor, reason, message
FROM event ORDER BY number DESC;
CREATE VIEW suspended AS
SELECT id, extent, name, except_for, actor, reason, datetime(since / 1000, 'unixepoch') AS since,
       datetime(until / 1000, 'unixepoch') AS until,
       (SELECT count(*) FROM suspension_scope WHERE suspension = id) AS scopes
FROM suspension ORDER BY since, id;
CREATE VIEW pinned AS
SELECT address, scope, id, label, actor, reason, datetime(since / 1000, 'unixepoch') AS since,
       datetime(until / 1000, 'unixepoch') AS until
FROM pin ORDER BY scope, id;
CREATE VIEW drifts AS
SELECT number, address, scope, id, mode, datetime(first_seen / 1000, 'unixepoch') AS first_seen,
       coalesce(outcome, iif(mode = 'warn', 'reported', 'open')) AS outcome,
       datetime(ended_at / 1000, 'unixepoch') AS ended_at, action, missing, fields
FROM drift ORDER BY number DESC;
CREATE VIEW ailing AS
SELECT scope, nullif(id, '') AS id, state, message, datetime(since / 1000, 'unixepoch') AS since
FROM health ORDER BY scope, id;
CREATE VIEW held AS
SELECT domain, lower(hex(digest)) AS digest, creates, updates, replaces, deletes, revision,
       datetime(since / 1000, 'unixepoch') AS since, reasons, once
FROM hold;
CREATE VIEW approvals AS
SELECT lower(hex(digest)) AS digest, actor, reason, datetime(at / 1000, 'unixepoch') AS at,
       datetime(used_at / 1000, 'unixepoch') AS used_at
FROM approval;
CREATE VIEW actions AS
SELECT j.number AS journal, datetime(j.started_at / 1000, 'unixepoch') AS at, coalesce(a.value ->> 'op', i.common ->> 'op') AS op,
       a.value ->> 'address' AS address, j.scope, a.value ->> 'id' AS id,
       coalesce(a.value ->> 'reason', i.common ->> 'reason', '') AS reason,
       json_extract(j.outcomes, '$[' || a.key || '].outcome') AS outcome
FROM journal j JOIN intent i ON i.number = j.number, json_each(i.actions) a;
CREATE VIEW inventory_now AS
SELECT scope, id, manifest, address, file, template, applied, normalizer, deletion, writes, drift, merged,
       CASE WHEN state = 'applied' AND stamp <= (SELECT settled FROM inventory_stamp s WHERE s.scope = inventory.scope)
            THEN 'settled' ELSE state END AS state,
       recheck_at, written_at, revision, remote, depends_on, formerly, private, outputs,
       CASE WHEN state = 'applied' THEN coalesce(
            (SELECT settled_at FROM inventory_stamp s WHERE s.scope = inventory.scope AND inventory.stamp <= s.settled), synced_at)
            ELSE synced_at END AS synced_at,
       CASE WHEN state = 'applied' THEN coalesce(
            (SELECT settled_at FROM inventory_stamp s WHERE s.scope = inventory.scope AND inventory.stamp <= s.settled), healthy_at)
            ELSE healthy_at END AS healthy_at
FROM inventory;
CREATE VIEW tracked AS
SELECT address, scope, id, state, datetime(recheck_at / 1000, 'unixepoch') AS recheck_at,
       datetime(nullif(written_at, 0) / 1000, 'unixepoch') AS written_at, revision, manifest, file,
       deletion, writes, drift, merged, remote, depends_on, formerly, lower(hex(applied)) AS applied,
       private IS NOT NULL OR outputs IS NOT NULL AS sealed
FROM inventory_now;

INSERT INTO epoch VALUES (1, 0, 0, 0, '');
PRAGMA application_id = 1919118948;
PRAGMA user_version = 18;
