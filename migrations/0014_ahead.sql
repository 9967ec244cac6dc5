-- What will be held once a window opens or a person resumes it, in words; null for what is held now.
ALTER TABLE hold ADD COLUMN once TEXT;

DROP VIEW held;
CREATE VIEW held AS
SELECT domain, lower(hex(digest)) AS digest, creates, updates, replaces, deletes, revision,
       datetime(since / 1000, 'unixepoch') AS since, reasons, once
FROM hold;

PRAGMA user_version = 14;
