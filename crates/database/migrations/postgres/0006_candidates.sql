-- Drafts of the policy that decide beside the policy in force, for comparison.
CREATE TABLE candidates (
    id         TEXT PRIMARY KEY,
    name       TEXT,
    text       BYTEA NOT NULL,
    warnings   TEXT NOT NULL,
    created_at TIMESTAMPTZ NOT NULL,
    ends_at    TIMESTAMPTZ NOT NULL,
    promoted   BIGINT,
    author     TEXT NOT NULL,
    reason     TEXT
);

-- What each run of a node has found: a run is from the start of a candidate on a node to its end there.
CREATE TABLE candidate_runs (
    candidate TEXT NOT NULL REFERENCES candidates (id) ON DELETE CASCADE,
    run       TEXT NOT NULL,
    node      TEXT NOT NULL,
    seen      TIMESTAMPTZ NOT NULL,
    found     TEXT NOT NULL,
    PRIMARY KEY (candidate, run)
);

-- The same by steps of time: counts that the node writes.
CREATE TABLE candidate_steps (
    candidate TEXT NOT NULL REFERENCES candidates (id) ON DELETE CASCADE,
    step      BIGINT NOT NULL,
    run       TEXT NOT NULL,
    counts    TEXT NOT NULL,
    PRIMARY KEY (candidate, step, run)
);
