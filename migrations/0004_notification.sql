-- What receivers of notifications are told. A trouble is a scope, a guard domain or a source, and why it is not
-- well; its text is no part of its identity. `body` is JSON: provider, source, since, cause, hint, count.
CREATE TABLE trouble (
    subject TEXT NOT NULL,
    topic   TEXT NOT NULL,
    reason  TEXT NOT NULL,
    body    TEXT NOT NULL,
    seen_at INTEGER NOT NULL,
    gone_at INTEGER,
    PRIMARY KEY (subject, topic, reason)
) STRICT, WITHOUT ROWID;

-- Which receiver was told of which trouble, until it is told that it is over.
CREATE TABLE announcement (
    receiver TEXT NOT NULL,
    subject  TEXT NOT NULL,
    topic    TEXT NOT NULL,
    reason   TEXT NOT NULL,
    at       INTEGER NOT NULL,
    PRIMARY KEY (receiver, subject, topic, reason)
) STRICT, WITHOUT ROWID;

-- Messages that were decided and not delivered yet, in order.
CREATE TABLE outbox (
    number     INTEGER PRIMARY KEY AUTOINCREMENT,
    receiver   TEXT NOT NULL,
    message    TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    attempts   INTEGER NOT NULL DEFAULT 0,
    next_try   INTEGER NOT NULL
) STRICT;
CREATE INDEX outbox_receiver ON outbox (receiver, number);

-- What the forge of a source was told of a commit; `delivered` is 0 while it has to be told yet.
CREATE TABLE commit_status (
    source      TEXT NOT NULL,
    commit_id   TEXT NOT NULL,
    state       TEXT NOT NULL CHECK (state IN ('pending', 'success', 'failure', 'error')),
    description TEXT NOT NULL,
    decided_at  INTEGER NOT NULL,
    delivered   INTEGER NOT NULL CHECK (delivered IN (0, 1)),
    PRIMARY KEY (source, commit_id)
) STRICT, WITHOUT ROWID;

PRAGMA user_version = 4;
