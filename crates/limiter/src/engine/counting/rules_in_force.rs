//! What a limiter has to tell about itself.

use std::ops::Deref;
use std::sync::Arc;

use arc_swap::Guard;
use tidegate_policy::RuleSet;

use super::counters::{RuleSnapshot, TrustHistogram};
use super::durations::DurationHistogram;
use super::stats::BusyKey;
use crate::engine::active::Active;
use crate::engine::decision::Reason;
use crate::engine::limiter::Limiter;

/// The policy that was in force when it was asked for. Keep it no longer than it
/// takes to read.
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

    /// How long those who were admitted after a wait have waited in queues.
    pub fn queue_waits(&self) -> &DurationHistogram {
        &self.stats.queue_waits
    }

    /// How long those who were refused were told to wait, where a wait will do.
    pub fn retry_waits(&self) -> &DurationHistogram {
        &self.stats.retry_waits
    }

    /// How many requests burst detectors could not watch, for want of room.
    pub fn untracked_bursts(&self) -> u64 {
        self.bursts.untracked()
    }

    /// The keys that took the most tokens; estimates that err on the high side.
    pub fn top_consumers(&self, most: usize) -> Vec<BusyKey> {
        self.stats.top_consumers(most)
    }

    /// The keys that were denied most often.
    pub fn top_denied(&self, most: usize) -> Vec<BusyKey> {
        self.stats.top_denied(most)
    }

    /// What each limit in force has said so far, by name.
    pub fn limit_counters(&self) -> Vec<(String, RuleSnapshot)> {
        self.stats.limits()
    }

    /// How many decisions were made for a reason.
    pub fn decided(&self, reason: Reason) -> u64 {
        self.stats.reasons.get(reason as usize)
    }

    /// How many warnings and how many blocks burst detectors have given.
    pub fn burst_actions(&self) -> (u64, u64) {
        (self.stats.burst_actions.get(0), self.stats.burst_actions.get(1))
    }

    /// How many requests named a tenant that the policy does not know.
    pub fn unknown_tenants(&self) -> u64 {
        self.stats.unknown_tenants.get(0)
    }

    /// How far callers were trusted.
    pub fn trust(&self) -> &TrustHistogram {
        &self.stats.trust
    }
}
