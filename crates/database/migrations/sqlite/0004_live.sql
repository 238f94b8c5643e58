-- What is done at run time beside the policy: clients that are blocked or exempt for a while, the kill switch, and what
-- every node has to do once. Each addition and each removal has a sequence of its own, so that nodes read what is new.
CREATE TABLE live_entries (
    id         TEXT PRIMARY KEY,
    sequence   INTEGER NOT NULL UNIQUE,
    kind       TEXT NOT NULL,
    body       TEXT NOT NULL, -- JSON
    ends_at    TEXT, -- NULL: when it is removed
    created_at TEXT NOT NULL,
    author     TEXT NOT NULL,
    reason     TEXT,
    removed_at TEXT
);
CREATE INDEX idx_live_entries_kind ON live_entries (kind);

-- One row: the last sequence, and a number that grows when a backup is restored.
CREATE TABLE live_head (
    id       INTEGER PRIMARY KEY CHECK (id = 1),
    epoch    INTEGER NOT NULL,
    sequence INTEGER NOT NULL
);
INSERT INTO live_head VALUES (1, 1, 0);
