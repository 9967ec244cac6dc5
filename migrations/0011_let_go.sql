-- What was tracked once and was left to others with our mark on it: the mark alone gives nothing back.
CREATE TABLE consent_new (
    scope    TEXT NOT NULL,
    id       TEXT NOT NULL,
    word     TEXT NOT NULL CHECK (word IN ('adopt', 'barred', 'let-go')),
    observed BLOB,
    instance TEXT,
    PRIMARY KEY (scope, id),
    CHECK ((word = 'adopt') = (observed IS NOT NULL))
) STRICT, WITHOUT ROWID;
INSERT INTO consent_new SELECT scope, id, word, observed, instance FROM consent;
DROP TABLE consent;
ALTER TABLE consent_new RENAME TO consent;

PRAGMA user_version = 11;
