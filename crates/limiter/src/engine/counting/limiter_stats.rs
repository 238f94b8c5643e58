//! Read access to the policy and the counters of a limiter.

use std::ops::Deref;
use std::sync::Arc;

use arc_swap::Guard;
use tidegate_policy::RuleSet;

use super::counters::{RuleSnapshot, TrustHistogram};
use super::routes::RouteCount;
use super::stats::{BusyKeys, CountedLimits};
use super::unlimited::MissingCount;
use crate::engine::active::Active;
use crate::engine::limiter::Limiter;
use crate::engine::reason::Reason;
use crate::measure::DurationHistogram;

/// The policy in force at the time of the call. Drop it soon: holding the `arc_swap::Guard` slows other
/// readers.
pub struct RulesInForce(Guard<Arc<Active>>);

impl Deref for RulesInForce {
    type Target = RuleSet;

    fn deref(&self) -> &RuleSet {
        &self.0.rules
    }
}

impl<S, C> Limiter<S, C> {
    /// The policy in force.
    pub fn rules(&self) -> RulesInForce {
        RulesInForce(self.active.load())
    }

    /// How long admitted requests have waited in queues.
    pub fn queue_waits(&self) -> &DurationHistogram {
        &self.stats.queue_waits
    }

    /// The waits returned to denied requests, where a wait helps.
    pub fn retry_waits(&self) -> &DurationHistogram {
        &self.stats.retry_waits
    }

    /// How many requests burst detectors could not track, because no entry was free.
    pub fn untracked_bursts(&self) -> u64 {
        self.bursts.untracked()
    }

    /// The keys that took the most tokens. The counts are estimates, never too low: of all time, or since the last but one
    /// [`Limiter::start_busy_span`].
    pub fn top_consumers(&self, most: usize) -> BusyKeys {
        self.stats.top_consumers(most)
    }

    /// The keys that were denied most often, in the same time.
    pub fn top_denied(&self, most: usize) -> BusyKeys {
        self.stats.top_denied(most)
    }

    /// Starts a new span in which keys are counted. [`Limiter::top_consumers`] and [`Limiter::top_denied`] are of this span and
    /// of the one before: whoever starts one every half a minute sees the last minute.
    pub fn start_busy_span(&self) {
        self.stats.start_span();
    }

    /// The counters of each limit in force, by name.
    pub fn limit_counters(&self) -> Vec<(String, RuleSnapshot)> {
        self.stats.limits().limits
    }

    /// The counters of each limit in force, and the sum of those of tenants that are gone.
    pub fn counted_limits(&self) -> CountedLimits {
        self.stats.limits()
    }

    /// The decisions by route of the policy in force; empty if it has no `routes`.
    pub fn route_counts(&self) -> Vec<RouteCount> {
        self.active.load().routes.counts()
    }

    /// How many decisions had this reason.
    pub fn decided(&self, reason: Reason) -> u64 {
        self.stats.reasons.get(reason as usize)
    }

    /// What requests lacked that met no limit of the policy in force. A request counts once for each descriptor
    /// that kept a limit from applying to it. Allowlisted requests do not count.
    pub fn missing_counts(&self) -> Vec<MissingCount> {
        self.active.load().unlimited.counts()
    }

    /// How many warnings and how many blocks burst detectors have issued.
    pub fn burst_actions(&self) -> (u64, u64) {
        (self.stats.burst_actions.get(0), self.stats.burst_actions.get(1))
    }

    /// How many requests named a tenant that the policy does not know.
    pub fn unknown_tenants(&self) -> u64 {
        self.stats.unknown_tenants.get(0)
    }

    /// How many requests the limit of an ancestor has denied, rather than their own tenant's: one count for each
    /// generation of the policy's tenants that has descendants, from the roots down.
    pub fn tenant_contention(&self) -> Vec<u64> {
        let generations = self.active.load().rules.tenants().generations().saturating_sub(1);
        (0..generations as usize).map(|depth| self.stats.contention.get(depth)).collect()
    }

    /// The histogram of the trust of requests.
    pub fn trust(&self) -> &TrustHistogram {
        &self.stats.trust
    }
}
