-- Drafts of the policy that decide beside the policy in force, for comparison.
CREATE TABLE candidates (
    id         TEXT PRIMARY KEY,
    name       TEXT,
    text       BLOB NOT NULL,
    warnings   TEXT NOT NULL,
    created_at TEXT NOT NULL,
    ends_at    TEXT NOT NULL,
    promoted   INTEGER,
    author     TEXT NOT NULL,
    reason     TEXT
);

-- What each run of a node has found: a run is from the start of a candidate on a node to its end there.
CREATE TABLE candidate_runs (
    candidate TEXT NOT NULL REFERENCES candidates (id) ON DELETE CASCADE,
    run       TEXT NOT NULL,
    node      TEXT NOT NULL,
    seen      TEXT NOT NULL,
    found     TEXT NOT NULL,
    PRIMARY KEY (candidate, run)
);

-- The same by steps of time: counts that the node writes.
CREATE TABLE candidate_steps (
    candidate TEXT NOT NULL REFERENCES candidates (id) ON DELETE CASCADE,
    step      INTEGER NOT NULL,
    run       TEXT NOT NULL,
    counts    TEXT NOT NULL,
    PRIMARY KEY (candidate, step, run)
);
