//! Which event becomes which row.

use tidegate_database::{AuditEntry, PersonalData, RecordBatch, Violation};

use crate::control::startup::unix_millis;
use crate::observe::{AuditEvent, EventName};

/// Is it about requests that were denied by a limit or by `block`? Those are violations. They are not part of the audit:
/// there are many, and any client can cause them.
pub(super) fn is_denial(name: EventName) -> bool {
    matches!(
        name,
        EventName::RateLimitExceeded | EventName::SlidingWindowLimitExceeded | EventName::RequestBlocked
    )
}

/// Is it about requests of clients that somebody may want to look at? Clients can cause any number of them.
pub(super) fn is_suspicion(name: EventName) -> bool {
    matches!(
        name,
        EventName::BurstDetectedWarning
            | EventName::BurstDetectedBlocked
            | EventName::UnknownTenant
            | EventName::InvalidCredentials
    )
}

/// The rows of events.
pub(super) fn batch(events: &[AuditEvent]) -> RecordBatch {
    let (denials, others): (Vec<&AuditEvent>, Vec<&AuditEvent>) =
        events.iter().partition(|event| is_denial(event.name));
    RecordBatch {
        entries: others.into_iter().map(entry).collect(),
        violations: denials.into_iter().map(violation).collect(),
        ..RecordBatch::default()
    }
}

fn violation(event: &AuditEvent) -> Violation {
    let last = unix_millis(event.last);
    Violation {
        event: event.name.as_str().to_owned(),
        bucket_key: owned(event.key.as_deref()),
        user_id: owned(event.user.as_deref()),
        ip: event.ip,
        endpoint: owned(event.endpoint.as_deref()),
        requested_at: last,
        tokens_at_time: event.remaining.map(|remaining| remaining as f64),
        limit_name: owned(event.limit.as_deref()),
        tenant: owned(event.tenant.as_deref()),
        client: owned(event.client.as_deref()),
        kind: owned(event.kind),
        reason: owned(event.reason.as_deref()),
        count: event.count,
        first: unix_millis(event.first),
        last,
        retry_after_ms: event.retry_after_ms,
        node: owned(event.node.as_deref()),
        policy_version: event.policy_version,
        trace_id: owned(event.trace_id.as_deref()),
    }
}

/// The entry of the audit about an event.
pub(crate) fn entry(event: &AuditEvent) -> AuditEntry {
    let last = unix_millis(event.last);
    AuditEntry {
        time: last,
        event: event.name.as_str().to_owned(),
        severity: event.name.severity().as_str().to_owned(),
        node: owned(event.node.as_deref()),
        policy_version: event.policy_version,
        actor: None,
        count: event.count,
        first: unix_millis(event.first),
        last,
        limit_name: owned(event.limit.as_deref()),
        kind: owned(event.kind),
        endpoint: owned(event.endpoint.as_deref()),
        remaining: event.remaining,
        retry_after_ms: event.retry_after_ms,
        trace_id: owned(event.trace_id.as_deref()),
        reason: owned(event.reason.as_deref()),
        personal: PersonalData {
            user_id: owned(event.user.as_deref()),
            client: owned(event.client.as_deref()),
            ip: event.ip.map(|ip| ip.to_string()),
            tenant: owned(event.tenant.as_deref()),
            bucket_key: owned(event.key.as_deref()),
            detail: None,
        },
    }
}

fn owned(text: Option<&str>) -> Option<String> {
    text.map(str::to_owned)
}
