-- The rows of a manifest are asked for what they put out. Of the others, as a rule all, an index was written for nobody.
DROP INDEX inventory_manifest;
CREATE INDEX inventory_outputs ON inventory (manifest) WHERE outputs IS NOT NULL;

PRAGMA user_version = 10;
