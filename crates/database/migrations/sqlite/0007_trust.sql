-- What is known about users beside violations: facts about the account and outcomes of requests, as JSON. Each change of
-- a row gives it a new sequence, so that nodes read what is new.
CREATE TABLE trust_accounts (
    user_id  TEXT PRIMARY KEY,
    sequence INTEGER NOT NULL UNIQUE,
    body     TEXT, -- NULL: nothing is known any more
    ends_at  TEXT -- when it says nothing any more; NULL: never
);
CREATE INDEX idx_trust_accounts_ends ON trust_accounts (ends_at) WHERE ends_at IS NOT NULL;

-- One row: the last sequence, and a number that grows when everything has to be read anew.
CREATE TABLE trust_head (
    id       INTEGER PRIMARY KEY CHECK (id = 1),
    epoch    INTEGER NOT NULL,
    sequence INTEGER NOT NULL
);
INSERT INTO trust_head VALUES (1, 1, 0);

-- Whether anything is known about a tenant, and lists of one tenant, newest first.
CREATE INDEX idx_tokens_tenant ON tokens (tenant) WHERE tenant IS NOT NULL;
CREATE INDEX idx_violation_tenant ON rate_limit_violations (tenant, requested_at, violation_id)
    WHERE tenant IS NOT NULL;
CREATE INDEX idx_audit_tenant ON audit_entries (tenant, time, seq) WHERE tenant IS NOT NULL;

-- Random keys that only the database has: that of the cursors of lists.
CREATE TABLE secrets (
    name  TEXT PRIMARY KEY,
    value BLOB NOT NULL
);
INSERT INTO secrets VALUES ('cursors', randomblob(32));
