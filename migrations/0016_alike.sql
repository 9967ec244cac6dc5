-- What all actions of a group have in common is there once, and in none of them: `op`, `manifest`, `reason` and `revision`,
-- and below `row` what all rows have in common where there are several.
DROP VIEW actions;
ALTER TABLE intent ADD COLUMN common TEXT NOT NULL DEFAULT '{}';
CREATE VIEW actions AS
SELECT j.number AS journal, datetime(j.started_at / 1000, 'unixepoch') AS at, coalesce(a.value ->> 'op', i.common ->> 'op') AS op,
       a.value ->> 'address' AS address, j.scope, a.value ->> 'id' AS id,
       coalesce(a.value ->> 'reason', i.common ->> 'reason', '') AS reason,
       json_extract(j.outcomes, '$[' || a.key || '].outcome') AS outcome
FROM journal j JOIN intent i ON i.number = j.number, json_each(i.actions) a;

PRAGMA user_version = 16;
