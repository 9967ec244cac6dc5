-- What is left of a plan that a person consented to and that was begun, by guard domain: the rest of it needs no other word.
-- `steps` is JSON: the hashes of the guarded steps of each scope, one text of hexadecimal digits for all of a scope. So is
-- `manifests`: the content of the manifests that they are of, null for one that was gone.
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

PRAGMA user_version = 8;
