-- What persons stopped. `extent` says what `name` names: nothing, a source, an entry, an address, or labels as
-- K=V,K=V. Nothing of it is written before `until`, or before it is resumed where there is none.
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

-- Scopes in which something was tracked when it began: what was changed by hand in them is held once its time is
-- over, until they were looked at.
CREATE TABLE suspension_scope (
    suspension TEXT NOT NULL REFERENCES suspension (id) ON DELETE CASCADE,
    scope      TEXT NOT NULL,
    PRIMARY KEY (suspension, scope)
) STRICT, WITHOUT ROWID;

CREATE VIEW suspended AS
SELECT id, extent, name, except_for, actor, reason, datetime(since / 1000, 'unixepoch') AS since,
       datetime(until / 1000, 'unixepoch') AS until,
       (SELECT count(*) FROM suspension_scope WHERE suspension = id) AS scopes
FROM suspension ORDER BY since, id;

PRAGMA user_version = 2;
