-- A scope that was written as a whole is seen to be as written as a whole: one mark for it, and no change of each of its
-- rows. A row that is `applied` counts as `settled` since `settled_at` where its stamp is at most `settled`; it was written
-- since where it is more. `inventory_now` says so, and is what to read.
ALTER TABLE inventory ADD COLUMN stamp INTEGER NOT NULL DEFAULT 0;
ALTER TABLE inventory_stamp ADD COLUMN settled INTEGER;
ALTER TABLE inventory_stamp ADD COLUMN settled_at INTEGER;

CREATE VIEW inventory_now AS
SELECT scope, id, manifest, address, file, template, applied, normalizer, deletion, drift, merged,
       CASE WHEN state = 'applied' AND stamp <= (SELECT settled FROM inventory_stamp s WHERE s.scope = inventory.scope)
            THEN 'settled' ELSE state END AS state,
       recheck_at, written_at, revision, remote, depends_on, private, outputs,
       CASE WHEN state = 'applied' THEN coalesce(
            (SELECT settled_at FROM inventory_stamp s WHERE s.scope = inventory.scope AND inventory.stamp <= s.settled), synced_at)
            ELSE synced_at END AS synced_at,
       CASE WHEN state = 'applied' THEN coalesce(
            (SELECT settled_at FROM inventory_stamp s WHERE s.scope = inventory.scope AND inventory.stamp <= s.settled), healthy_at)
            ELSE healthy_at END AS healthy_at
FROM inventory;

DROP VIEW tracked;
CREATE VIEW tracked AS
SELECT address, scope, id, state, datetime(recheck_at / 1000, 'unixepoch') AS recheck_at,
       datetime(nullif(written_at, 0) / 1000, 'unixepoch') AS written_at, revision, manifest, file,
       deletion, drift, merged, remote, depends_on, lower(hex(applied)) AS applied,
       private IS NOT NULL OR outputs IS NOT NULL AS sealed
FROM inventory_now;

PRAGMA user_version = 9;
