-- Hash of what was declared, where the remote refused just that: it says so until something else is declared.
ALTER TABLE condition ADD COLUMN declared BLOB;

PRAGMA user_version = 13;
