-- Other addresses that a resource had, as a JSON array with the latest last: a commit that moved it may be taken back.
ALTER TABLE inventory ADD COLUMN formerly TEXT;

DROP VIEW tracked;
DROP VIEW inventory_now;
CREATE VIEW inventory_now AS
SELECT scope, id, manifest, address, file, template, applied, normalizer, deletion, writes, drift, merged,
       CASE WHEN state = 'applied' AND stamp <= (SELECT settled FROM inventory_stamp s WHERE s.scope = inventory.scope)
            THEN 'settled' ELSE state END AS state,
       recheck_at, written_at, revision, remote, depends_on, formerly, private, outputs,
       CASE WHEN state = 'applied' THEN coalesce(
            (SELECT settled_at FROM inventory_stamp s WHERE s.scope = inventory.scope AND inventory.stamp <= s.settled), synced_at)
            ELSE synced_at END AS synced_at,
       CASE WHEN state = 'applied' THEN coalesce(
            (SELECT settled_at FROM inventory_stamp s WHERE s.scope = inventory.scope AND inventory.stamp <= s.settled), healthy_at)
            ELSE healthy_at END AS healthy_at
FROM inventory;
CREATE VIEW tracked AS
SELECT address, scope, id, state, datetime(recheck_at / 1000, 'unixepoch') AS recheck_at,
       datetime(nullif(written_at, 0) / 1000, 'unixepoch') AS written_at, revision, manifest, file,
       deletion, writes, drift, merged, remote, depends_on, formerly, lower(hex(applied)) AS applied,
       private IS NOT NULL OR outputs IS NOT NULL AS sealed
FROM inventory_now;

PRAGMA user_version = 18;
