-- From which document of a manifest a scope was last planned: what tells an upgrade of the program from a commit. It was
-- a column of every row, and a change of one record rewrote all rows of its manifest.
CREATE TABLE document (
    scope    TEXT NOT NULL,
    manifest TEXT NOT NULL,
    content  BLOB NOT NULL,
    PRIMARY KEY (scope, manifest)
) STRICT, WITHOUT ROWID;
INSERT INTO document SELECT scope, manifest, max(content) FROM inventory WHERE content <> zeroblob(length(content))
    GROUP BY scope, manifest;
ALTER TABLE inventory DROP COLUMN content;

-- Raised by each transaction that changes rows of a scope: what a process has read of them stands as long as this does.
CREATE TABLE inventory_stamp (
    scope TEXT NOT NULL PRIMARY KEY,
    stamp INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

PRAGMA user_version = 5;
