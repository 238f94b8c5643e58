-- The last batch of records that each writer has written: a batch that is sent again is not written again.
CREATE TABLE record_writers (
    id         BLOB PRIMARY KEY,
    batch      INTEGER NOT NULL,
    written_at TEXT NOT NULL
);

-- Work that one node at a time does.
CREATE TABLE leases (
    name       TEXT PRIMARY KEY,
    holder     TEXT NOT NULL,
    expires_at TEXT NOT NULL
);
