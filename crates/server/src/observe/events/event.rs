//! An event: what it says, and how it is written as a line of JSON.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use serde::Serialize;
use serde::ser::{SerializeMap, Serializer};
use tidegate::Nanos;
use tidegate_database::UnixMillis;

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum EventName {
    /// A limit denied requests.
    RateLimitExceeded,
    /// A limit with the algorithm `sliding_window` denied requests.
    SlidingWindowLimitExceeded,
    /// A burst detector warned a key.
    BurstDetectedWarning,
    /// A burst detector blocked a key.
    BurstDetectedBlocked,
    /// The policy was replaced.
    RateLimitConfigUpdated,
    /// The policy has a new entry in `allow`.
    RateLimitWhitelistAdded,
    /// Requests were denied by `block`, or because a burst detector has blocked their key.
    RequestBlocked,
    /// Requests named a tenant that the policy does not have.
    UnknownTenant,
    /// Requests were denied because their credential is invalid.
    InvalidCredentials,
    /// The shared store does not answer; limits decide without it.
    StoreFallbackBegan,
    /// The shared store answers again.
    StoreFallbackEnded,
    /// The kill switch was switched on or off.
    KillSwitchChanged,
    /// The penalty of a burst detector was lifted by hand.
    PenaltyLifted,
    /// A token of the admin API was created.
    TokenCreated,
    /// A token of the admin API was revoked.
    TokenRevoked,
    /// Somebody blocked a client beside the policy.
    KeyBlocked,
    /// Somebody exempted a client beside the policy.
    KeyAllowed,
    /// Somebody ended such a block or exemption.
    LiveEntryRemoved,
    /// Somebody told facts about a user, or outcomes of users' requests.
    TrustChanged,
    /// Somebody made buckets of a client unused.
    KeyReset,
    /// Somebody gave tokens to a bucket of a client.
    KeyGranted,
    /// Somebody gave a limit other numbers for some clients.
    OverrideAdded,
    /// Somebody ended such an override.
    OverrideRemoved,
    /// A draft of the policy was added, to decide beside the policy.
    CandidateAdded,
    /// Such a draft was removed.
    CandidateRemoved,
}

impl EventName {
    /// All of them; the index of a name is its discriminant.
    pub const ALL: [EventName; 25] = [
        EventName::RateLimitExceeded,
        EventName::SlidingWindowLimitExceeded,
        EventName::BurstDetectedWarning,
        EventName::BurstDetectedBlocked,
        EventName::RateLimitConfigUpdated,
        EventName::RateLimitWhitelistAdded,
        EventName::RequestBlocked,
        EventName::UnknownTenant,
        EventName::InvalidCredentials,
        EventName::StoreFallbackBegan,
        EventName::StoreFallbackEnded,
        EventName::KillSwitchChanged,
        EventName::PenaltyLifted,
        EventName::TokenCreated,
        EventName::TokenRevoked,
        EventName::KeyBlocked,
        EventName::KeyAllowed,
        EventName::LiveEntryRemoved,
        EventName::TrustChanged,
        EventName::KeyReset,
        EventName::KeyGranted,
        EventName::OverrideAdded,
        EventName::OverrideRemoved,
        EventName::CandidateAdded,
        EventName::CandidateRemoved,
    ];

    /// Its name in events.
    pub const fn as_str(self) -> &'static str {
        match self {
            EventName::RateLimitExceeded => "rate_limit_exceeded",
            EventName::SlidingWindowLimitExceeded => "sliding_window_limit_exceeded",
            EventName::BurstDetectedWarning => "burst_detected_warning",
            EventName::BurstDetectedBlocked => "burst_detected_blocked",
            EventName::RateLimitConfigUpdated => "rate_limit_config_updated",
            EventName::RateLimitWhitelistAdded => "rate_limit_whitelist_added",
            EventName::RequestBlocked => "request_blocked",
            EventName::UnknownTenant => "unknown_tenant",
            EventName::InvalidCredentials => "invalid_credentials",
            EventName::StoreFallbackBegan => "store_fallback_began",
            EventName::StoreFallbackEnded => "store_fallback_ended",
            EventName::KillSwitchChanged => "kill_switch_changed",
            EventName::PenaltyLifted => "penalty_lifted",
            EventName::TokenCreated => "token_created",
            EventName::TokenRevoked => "token_revoked",
            EventName::KeyBlocked => "key_blocked",
            EventName::KeyAllowed => "key_allowed",
            EventName::LiveEntryRemoved => "live_entry_removed",
            EventName::TrustChanged => "trust_changed",
            EventName::KeyReset => "key_reset",
            EventName::KeyGranted => "key_granted",
            EventName::OverrideAdded => "override_added",
            EventName::OverrideRemoved => "override_removed",
            EventName::CandidateAdded => "candidate_added",
            EventName::CandidateRemoved => "candidate_removed",
        }
    }

    /// How serious it is.
    pub const fn severity(self) -> EventSeverity {
        match self {
            EventName::RateLimitExceeded
            | EventName::SlidingWindowLimitExceeded
            | EventName::BurstDetectedWarning
            | EventName::RequestBlocked
            | EventName::UnknownTenant
            | EventName::InvalidCredentials
            | EventName::KillSwitchChanged => EventSeverity::Warning,
            EventName::BurstDetectedBlocked | EventName::StoreFallbackBegan => EventSeverity::Error,
            EventName::RateLimitConfigUpdated
            | EventName::RateLimitWhitelistAdded
            | EventName::StoreFallbackEnded
            | EventName::PenaltyLifted
            | EventName::TokenCreated
            | EventName::TokenRevoked
            | EventName::KeyBlocked
            | EventName::KeyAllowed
            | EventName::LiveEntryRemoved
            | EventName::TrustChanged
            | EventName::KeyReset
            | EventName::KeyGranted
            | EventName::OverrideAdded
            | EventName::OverrideRemoved
            | EventName::CandidateAdded
            | EventName::CandidateRemoved => EventSeverity::Info,
        }
    }
}

impl fmt::Display for EventName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// How serious an event is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventSeverity {
    /// Normal operation.
    Info,
    /// A client or a change that somebody may want to look at.
    Warning,
    /// A client was shut out, or a part of the system fails.
    Error,
}

impl EventSeverity {
    /// Its name in events.
    pub const fn as_str(self) -> &'static str {
        match self {
            EventSeverity::Info => "info",
            EventSeverity::Warning => "warning",
            EventSeverity::Error => "error",
        }
    }
}

/// An event. What is not known, or differs among the occurrences that it stands for, is `None`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditEvent {
    /// What happened.
    pub name: EventName,
    /// How often it happened.
    pub count: u64,
    /// When it happened first, by the wall clock.
    pub first: Nanos,
    /// When it happened last.
    pub last: Nanos,
    /// Who did it, if somebody did it through the admin API.
    pub actor: Option<Box<str>>,
    /// The user.
    pub user: Option<Box<str>>,
    /// The client application.
    pub client: Option<Box<str>>,
    /// The client's address.
    pub ip: Option<IpAddr>,
    /// The tenant.
    pub tenant: Option<Box<str>>,
    /// The key of the bucket or the detector; of values that may be credentials a few characters and a hash.
    pub key: Option<Box<str>>,
    /// The name of the limit or the detector.
    pub limit: Option<Box<str>>,
    /// The limit's algorithm; `block` or `burst` for what was blocked; what was changed.
    pub kind: Option<&'static str>,
    /// Why requests were denied, as in decisions.
    pub reason: Option<Box<str>>,
    /// The route, or the path.
    pub endpoint: Option<Box<str>>,
    /// What was left in the bucket at the last occurrence.
    pub remaining: Option<u64>,
    /// After how long the last of the denied requests may be repeated, in milliseconds.
    pub retry_after_ms: Option<u64>,
    /// The node that it happened on.
    pub node: Option<Arc<str>>,
    /// The version of the policy in force.
    pub policy_version: Option<u64>,
    /// The trace of one of the requests.
    pub trace_id: Option<Box<str>>,
    /// Did the user violate a limit each time? That lowers the user's trust score.
    pub is_violation: bool,
}

impl AuditEvent {
    /// An event that happened once.
    pub fn new(name: EventName, at: Nanos) -> AuditEvent {
        AuditEvent {
            name,
            count: 1,
            first: at,
            last: at,
            actor: None,
            user: None,
            client: None,
            ip: None,
            tenant: None,
            key: None,
            limit: None,
            kind: None,
            reason: None,
            endpoint: None,
            remaining: None,
            retry_after_ms: None,
            node: None,
            policy_version: None,
            trace_id: None,
            is_violation: false,
        }
    }

    /// Adds the occurrences of another event of this name. What differs between the two is removed; numbers that
    /// change with every request are those of the later one.
    pub fn absorb(&mut self, other: &AuditEvent) {
        let is_later = other.last >= self.last;
        self.count = self.count.saturating_add(other.count);
        (self.first, self.last) = (self.first.min(other.first), self.last.max(other.last));
        if is_later {
            (self.remaining, self.retry_after_ms) = (other.remaining, other.retry_after_ms);
        }
        keep_equal(&mut self.actor, &other.actor);
        keep_equal(&mut self.user, &other.user);
        keep_equal(&mut self.client, &other.client);
        keep_equal(&mut self.ip, &other.ip);
        keep_equal(&mut self.tenant, &other.tenant);
        keep_equal(&mut self.key, &other.key);
        keep_equal(&mut self.limit, &other.limit);
        keep_equal(&mut self.kind, &other.kind);
        keep_equal(&mut self.reason, &other.reason);
        keep_equal(&mut self.endpoint, &other.endpoint);
        keep_equal(&mut self.policy_version, &other.policy_version);
        self.is_violation &= other.is_violation;
        if self.trace_id.is_none() {
            self.trace_id.clone_from(&other.trace_id);
        }
    }

    /// Appends the event as a line of JSON.
    pub fn write_line(&self, out: &mut Vec<u8>) {
        serde_json::to_writer(&mut *out, self).expect("text and numbers can be written to memory");
        out.push(b'\n');
    }
}

fn keep_equal<T: PartialEq>(mine: &mut Option<T>, other: &Option<T>) {
    if mine != other {
        *mine = None;
    }
}

impl Serialize for AuditEvent {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut line = to.serialize_map(None)?;
        line.serialize_entry("time", &rfc3339(self.last))?;
        line.serialize_entry("event", self.name.as_str())?;
        line.serialize_entry("severity", self.name.severity().as_str())?;
        line.serialize_entry("count", &self.count)?;
        line.serialize_entry("first", &rfc3339(self.first))?;
        line.serialize_entry("last", &rfc3339(self.last))?;
        let mut entry = |name: &str, value: Option<&str>| match value {
            Some(value) => line.serialize_entry(name, value),
            None => Ok(()),
        };
        entry("actor", self.actor.as_deref())?;
        entry("user", self.user.as_deref())?;
        entry("client", self.client.as_deref())?;
        entry("ip", self.ip.map(|ip| ip.to_string()).as_deref())?;
        entry("tenant", self.tenant.as_deref())?;
        entry("key", self.key.as_deref())?;
        entry("limit", self.limit.as_deref())?;
        entry("kind", self.kind)?;
        entry("reason", self.reason.as_deref())?;
        entry("endpoint", self.endpoint.as_deref())?;
        if self.is_violation {
            line.serialize_entry("violation", &true)?;
        }
        if let Some(remaining) = self.remaining {
            line.serialize_entry("remaining", &remaining)?;
        }
        if let Some(wait) = self.retry_after_ms {
            line.serialize_entry("retry_after_ms", &wait)?;
        }
        if let Some(node) = &self.node {
            line.serialize_entry("node", &**node)?;
        }
        if let Some(version) = self.policy_version {
            line.serialize_entry("policy_version", &version)?;
        }
        if let Some(trace) = &self.trace_id {
            line.serialize_entry("trace_id", &**trace)?;
        }
        line.end()
    }
}

/// A time of the wall clock, with milliseconds.
fn rfc3339(at: Nanos) -> String {
    UnixMillis::new(i64::try_from(at.get() / 1_000_000).unwrap_or(i64::MAX)).to_text()
}
