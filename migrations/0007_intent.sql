-- What a group of actions intends, apart from how it fares: an answer shall not write all of it again. `numbers` of the
-- group says which action stands where: runs of [first, how many], kept while the group is open.
DROP VIEW actions;
CREATE TABLE intent (
    number  INTEGER PRIMARY KEY REFERENCES journal (number) ON DELETE CASCADE,
    actions TEXT NOT NULL
) STRICT;
INSERT INTO intent SELECT number, actions FROM journal;
ALTER TABLE journal ADD COLUMN numbers TEXT NOT NULL DEFAULT '[]';
UPDATE journal SET numbers = (SELECT json_group_array(json_array(value ->> 'action', 1)) FROM json_each(journal.actions))
    WHERE ended < total;
ALTER TABLE journal DROP COLUMN actions;

CREATE VIEW actions AS
SELECT j.number AS journal, datetime(j.started_at / 1000, 'unixepoch') AS at, a.value ->> 'op' AS op,
       a.value ->> 'address' AS address, j.scope, a.value ->> 'id' AS id, a.value ->> 'reason' AS reason,
       json_extract(j.outcomes, '$[' || a.key || '].outcome') AS outcome
FROM journal j JOIN intent i ON i.number = j.number, json_each(i.actions) a;

PRAGMA user_version = 7;
