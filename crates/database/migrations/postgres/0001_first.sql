-- Versions of the whole policy. The one with the highest number is active.
CREATE TABLE policy_versions (
    version  BIGINT PRIMARY KEY,
    parent   BIGINT REFERENCES policy_versions (version),
    sha256   BYTEA NOT NULL,
    author   TEXT NOT NULL,
    reason   TEXT,
    time     TIMESTAMPTZ NOT NULL,
    warnings TEXT NOT NULL,
    text     BYTEA -- the document as written, as zlib data; NULL when it is too old to be kept
);
CREATE INDEX idx_policy_versions_text ON policy_versions (version) WHERE text IS NOT NULL;

-- The limits of the active version, for people to read. Rows are never deleted.
CREATE TABLE rate_limit_rules (
    rule_id         BIGSERIAL PRIMARY KEY,
    key_pattern     TEXT NOT NULL,
    scope           TEXT NOT NULL,
    rate_per_second DOUBLE PRECISION NOT NULL,
    burst_capacity  BIGINT NOT NULL,
    plan            TEXT, -- NULL: all plans
    is_active       BOOLEAN NOT NULL DEFAULT TRUE,
    description     TEXT,
    created_at      TIMESTAMPTZ NOT NULL,
    limit_name      TEXT NOT NULL
);
-- No plan is also equal to no plan. Names of plans are not empty, so '' stands for none.
CREATE UNIQUE INDEX idx_rate_limit_rules_pattern ON rate_limit_rules (key_pattern, coalesce(plan, ''));
CREATE INDEX idx_rate_limit_rules_name ON rate_limit_rules (limit_name);

-- Denials; one row for equal ones of a few seconds.
CREATE TABLE rate_limit_violations (
    violation_id   BIGSERIAL PRIMARY KEY,
    bucket_key     TEXT,
    user_id        TEXT,
    ip_address     INET,
    endpoint       TEXT,
    requested_at   TIMESTAMPTZ NOT NULL,
    tokens_at_time DOUBLE PRECISION,
    rule_id        BIGINT REFERENCES rate_limit_rules (rule_id), -- NULL: a limit of a tenant
    limit_name     TEXT,
    tenant         TEXT,
    client         TEXT,
    event          TEXT NOT NULL,
    kind           TEXT,
    reason         TEXT,
    count          BIGINT NOT NULL,
    first_at       TIMESTAMPTZ NOT NULL,
    last_at        TIMESTAMPTZ NOT NULL,
    retry_after_ms BIGINT,
    node           TEXT,
    policy_version BIGINT,
    trace_id       TEXT
);
CREATE INDEX idx_violation_user ON rate_limit_violations (user_id, requested_at DESC);
CREATE INDEX idx_violation_ip ON rate_limit_violations (ip_address, requested_at DESC);
CREATE INDEX idx_violation_time ON rate_limit_violations (requested_at, violation_id);

-- Changes and security events, append-only, each with a hash over the one before.
CREATE TABLE audit_entries (
    seq            BIGINT PRIMARY KEY,
    time           TIMESTAMPTZ NOT NULL,
    event          TEXT NOT NULL,
    severity       TEXT NOT NULL,
    node           TEXT,
    policy_version BIGINT,
    actor          TEXT,
    count          BIGINT NOT NULL,
    first_at       TIMESTAMPTZ NOT NULL,
    last_at        TIMESTAMPTZ NOT NULL,
    limit_name     TEXT,
    kind           TEXT,
    endpoint       TEXT,
    remaining      BIGINT,
    retry_after_ms BIGINT,
    trace_id       TEXT,
    reason         TEXT,
    bytes          BIGINT NOT NULL,
    -- What may tell who somebody is. Erasing sets these and the salt to NULL.
    user_id        TEXT,
    client         TEXT,
    ip             TEXT,
    tenant         TEXT,
    bucket_key     TEXT,
    detail         TEXT,
    person_salt    BYTEA,
    person_hash    BYTEA NOT NULL,
    erased_at      TIMESTAMPTZ,
    hash           BYTEA NOT NULL
);
CREATE INDEX idx_audit_time ON audit_entries (time, seq);
CREATE INDEX idx_audit_user ON audit_entries (user_id) WHERE user_id IS NOT NULL;

-- One row: the end of the chain, and the last entry that was removed from its beginning.
CREATE TABLE audit_head (
    id          INTEGER PRIMARY KEY CHECK (id = 1),
    seq         BIGINT NOT NULL,
    hash        BYTEA NOT NULL,
    anchor_seq  BIGINT NOT NULL,
    anchor_hash BYTEA NOT NULL,
    bytes       BIGINT NOT NULL
);
INSERT INTO audit_head VALUES (1, 0, decode(repeat('00', 32), 'hex'), 0, decode(repeat('00', 32), 'hex'), 0);

CREATE TABLE tokens (
    id           TEXT PRIMARY KEY,
    sha256       BYTEA NOT NULL UNIQUE,
    role         TEXT NOT NULL,
    tenant       TEXT,
    description  TEXT,
    created_at   TIMESTAMPTZ NOT NULL,
    created_by   TEXT NOT NULL,
    expires_at   TIMESTAMPTZ,
    revoked_at   TIMESTAMPTZ,
    last_used_at TIMESTAMPTZ
);
CREATE INDEX idx_tokens_created ON tokens (created_at, id);

CREATE TABLE sessions (
    hash       BYTEA PRIMARY KEY,
    token_id   TEXT NOT NULL REFERENCES tokens (id) ON DELETE CASCADE,
    created_at TIMESTAMPTZ NOT NULL,
    expires_at TIMESTAMPTZ NOT NULL
);
CREATE INDEX idx_sessions_token ON sessions (token_id);
CREATE INDEX idx_sessions_expires ON sessions (expires_at);

CREATE TABLE nodes (
    id      TEXT PRIMARY KEY,
    version BIGINT,
    since   TIMESTAMPTZ NOT NULL,
    seen    TIMESTAMPTZ NOT NULL,
    error   TEXT,
    address TEXT
);

CREATE TABLE idempotent_answers (
    key_hash     BYTEA PRIMARY KEY,
    request_hash BYTEA NOT NULL,
    status       BIGINT NOT NULL,
    body         TEXT NOT NULL,
    created_at   TIMESTAMPTZ NOT NULL
);
CREATE INDEX idx_idempotent_answers_created ON idempotent_answers (created_at);
