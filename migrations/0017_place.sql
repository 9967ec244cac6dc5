-- The place that the entry of a scope pointed to when all that is tracked of the scope was found there.
CREATE TABLE scope_place (
    scope TEXT PRIMARY KEY,
    place BLOB NOT NULL
) STRICT, WITHOUT ROWID;

PRAGMA user_version = 17;
