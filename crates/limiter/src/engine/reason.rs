//! Why a decision was made.

use std::fmt;

/// Why a decision was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reason {
    /// All limits admit it.
    Ok,
    /// No limit applies.
    NoLimit,
    /// An entry of `allow` matches.
    Allowlisted,
    /// An entry of `block` matches.
    Blocked,
    /// A burst detector has blocked the key.
    BurstBlocked,
    /// A token bucket does not hold its cost.
    TokenBucketExceeded,
    /// A sliding window is full.
    SlidingWindowExceeded,
    /// A sliding log is full.
    SlidingLogExceeded,
    /// A fixed window is full.
    FixedWindowExceeded,
    /// It costs more than a limit can ever hold.
    CostExceedsCapacity,
    /// The queue is full.
    QueueFull,
    /// The wait in the queue would be, or was, too long.
    QueueTimeout,
    /// The store does not answer, and the limit is closed in that case.
    StoreUnavailable,
    /// The policy does not have the tenant, and denies unknown tenants.
    UnknownTenant,
    /// The request has an API key that is not known, has expired or is disabled.
    UnknownKey,
    /// The kill switch is on: everything is admitted.
    KillSwitch,
    /// The request has a credential, and it is invalid.
    InvalidCredentials,
    /// The request lacks a descriptor that a limit counts by, and the limit denies such requests.
    MissingKey,
}

impl Reason {
    /// All reasons; the index of a reason is its discriminant.
    pub const ALL: [Reason; 18] = [
        Reason::Ok,
        Reason::NoLimit,
        Reason::Allowlisted,
        Reason::Blocked,
        Reason::BurstBlocked,
        Reason::TokenBucketExceeded,
        Reason::SlidingWindowExceeded,
        Reason::SlidingLogExceeded,
        Reason::FixedWindowExceeded,
        Reason::CostExceedsCapacity,
        Reason::QueueFull,
        Reason::QueueTimeout,
        Reason::StoreUnavailable,
        Reason::UnknownTenant,
        Reason::UnknownKey,
        Reason::KillSwitch,
        Reason::InvalidCredentials,
        Reason::MissingKey,
    ];

    /// The name in JSON, headers and metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            Reason::Ok => "ok",
            Reason::NoLimit => "no_limit",
            Reason::Allowlisted => "allowlisted",
            Reason::Blocked => "blocked",
            Reason::BurstBlocked => "burst_blocked",
            Reason::TokenBucketExceeded => "token_bucket_exceeded",
            Reason::SlidingWindowExceeded => "sliding_window_exceeded",
            Reason::SlidingLogExceeded => "sliding_log_exceeded",
            Reason::FixedWindowExceeded => "fixed_window_exceeded",
            Reason::CostExceedsCapacity => "cost_exceeds_capacity",
            Reason::QueueFull => "queue_full",
            Reason::QueueTimeout => "queue_timeout",
            Reason::StoreUnavailable => "store_unavailable",
            Reason::UnknownTenant => "unknown_tenant",
            Reason::UnknownKey => "unknown_key",
            Reason::KillSwitch => "kill_switch",
            Reason::InvalidCredentials => "invalid_credentials",
            Reason::MissingKey => "missing_key",
        }
    }

    /// Is the service at fault, rather than the client over its limit?
    pub const fn is_unavailable(self) -> bool {
        matches!(self, Reason::QueueFull | Reason::QueueTimeout | Reason::StoreUnavailable)
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
