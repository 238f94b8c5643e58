-- Lists that are filtered by limit, event or kind, newest first.
CREATE INDEX idx_violation_limit ON rate_limit_violations (limit_name, requested_at, violation_id)
    WHERE limit_name IS NOT NULL;
CREATE INDEX idx_violation_event ON rate_limit_violations (event, requested_at, violation_id);
CREATE INDEX idx_violation_kind ON rate_limit_violations (kind, requested_at, violation_id) WHERE kind IS NOT NULL;
CREATE INDEX idx_audit_limit ON audit_entries (limit_name, time, seq) WHERE limit_name IS NOT NULL;
CREATE INDEX idx_audit_event ON audit_entries (event, time, seq);
CREATE INDEX idx_audit_kind ON audit_entries (kind, time, seq) WHERE kind IS NOT NULL;
