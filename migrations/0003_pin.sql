-- Resources that a person keeps at an earlier revision. `template` is what the newest revision declared when it was
-- pinned, none where it declared nothing, and `content` its manifest as written: once both are something else the pin
-- is over. `declared` says whether the earlier revision declared it: if not, it is pinned away.
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

-- How often what is pinned of a manifest changed: a plan from before writes nothing to it, as with a new revision.
ALTER TABLE manifest ADD COLUMN pins INTEGER NOT NULL DEFAULT 0;

CREATE VIEW pinned AS
SELECT address, scope, id, label, actor, reason, datetime(since / 1000, 'unixepoch') AS since,
       datetime(until / 1000, 'unixepoch') AS until
FROM pin ORDER BY scope, id;

PRAGMA user_version = 3;
