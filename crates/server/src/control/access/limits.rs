//! How often the admin API may be called, and how often a wrong token may be tried. Tidegate limits itself.

use std::net::IpAddr;

use tidegate::{Cost, Keyed, LimitDecision, MemoryError, MemoryOptions, Quota};

use super::AccessError;
use crate::bounds::budget::client_network;
use crate::bounds::{
    API_CALLERS_MAX, API_CALLS_BURST, API_CALLS_PER_SECOND, FAILED_LOGINS_BURST, FAILED_LOGINS_PER_MINUTE,
    OPEN_CALLS_BURST, OPEN_CALLS_PER_SECOND,
};

/// The limits of the admin API. Each holds a bounded number of keys.
pub(super) struct AccessLimits {
    /// Calls of one token.
    callers: Keyed<str>,
    /// Calls without a token, by address.
    addresses: Keyed<IpAddr>,
    /// Wrong tokens, by address.
    failures: Keyed<IpAddr>,
}

impl AccessLimits {
    pub(super) fn new() -> Result<AccessLimits, MemoryError> {
        let quota = |quota: Result<Quota, _>, burst| {
            quota.and_then(|quota| quota.with_capacity(burst)).expect("the bounds are positive")
        };
        let options = MemoryOptions { max_keys: API_CALLERS_MAX, max_log_entries: 1 };
        let clock = tidegate::MonotonicClock::new;
        let callers = quota(Quota::per_second(API_CALLS_PER_SECOND), API_CALLS_BURST);
        let addresses = quota(Quota::per_second(OPEN_CALLS_PER_SECOND), OPEN_CALLS_BURST);
        let failures = quota(Quota::per_minute(FAILED_LOGINS_PER_MINUTE), FAILED_LOGINS_BURST);
        Ok(AccessLimits {
            callers: Keyed::with(callers, options, clock())?,
            addresses: Keyed::with(addresses, options, clock())?,
            failures: Keyed::with(failures, options, clock())?,
        })
    }

    /// Counts a call of somebody who is known.
    pub(super) fn call_of(&self, actor: &str) -> Result<(), AccessError> {
        check(self.callers.take(actor, Cost::ONE), "calls of the admin API")
    }

    /// Counts a call that needs no token, or has none.
    pub(super) fn call_from(&self, address: IpAddr) -> Result<(), AccessError> {
        check(
            self.addresses.take(&client_network(address), Cost::ONE),
            "calls of the admin API without a token",
        )
    }

    /// Counts a token that is wrong, or that may be.
    pub(super) fn failure_from(&self, address: IpAddr) -> Result<(), AccessError> {
        check(self.failures.take(&client_network(address), Cost::ONE), "wrong tokens")
    }

    /// It was right after all.
    pub(super) fn no_failure_from(&self, address: IpAddr) {
        self.failures.refund(&client_network(address), Cost::ONE);
    }
}

fn check(decision: LimitDecision, what: &'static str) -> Result<(), AccessError> {
    if decision.is_allowed() {
        return Ok(());
    }
    let wait =
        decision.retry_after().wait().map_or(1, |wait| wait.as_secs() + u64::from(wait.subsec_nanos() > 0));
    Err(AccessError::TooMany { what, retry_after: wait.max(1) })
}

impl std::fmt::Debug for AccessLimits {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AccessLimits").finish_non_exhaustive()
    }
}
