-- Several persons may consent to one plan: the first that counts is the one it is carried out for, whatever was said after it.
DROP VIEW approvals;
CREATE TABLE given (
    digest  BLOB NOT NULL,
    reason  TEXT NOT NULL,
    actor   TEXT NOT NULL,
    at      INTEGER NOT NULL,
    used_at INTEGER,
    PRIMARY KEY (digest, at)
) STRICT, WITHOUT ROWID;
INSERT INTO given SELECT digest, reason, actor, at, used_at FROM approval;
DROP TABLE approval;
ALTER TABLE given RENAME TO approval;
CREATE VIEW approvals AS
SELECT lower(hex(digest)) AS digest, actor, reason, datetime(at / 1000, 'unixepoch') AS at,
       datetime(used_at / 1000, 'unixepoch') AS used_at
FROM approval;

PRAGMA user_version = 15;
