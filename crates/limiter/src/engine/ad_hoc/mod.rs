//! Ad hoc buckets: they belong to no policy; each request brings its own numbers. [`sets`] keeps the buckets of
//! one node in memory, [`requests`] adds them to a [`Limiter`](super::Limiter) and its shared store.

mod requests;
mod sets;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use arc_swap::ArcSwap;
use tidegate_core::{Cost, Nanos, Outcome, QuotaError};
use tidegate_policy::{Policy, RuleSet};

use self::sets::{NumberSets, SETS_MAX};
use super::active::Active;
use super::counting::counters::{RuleCounters, RuleOutcome, RuleSnapshot};
use super::counting::stats::Stats;
use super::decision::{Decision, Refuser, RuleStanding, Ruling};
use super::observe::{AdHocDenial, Observer};
use super::reason::Reason;
use crate::charge::TimedCost;
use crate::memory::HashedKey;
use crate::{Clock, Intent, Memory, MemoryError, MemoryOptions, MemoryStats, MonotonicClock};

pub use requests::{AdHocAnswer, AdHocRequest};

/// The only limit that these decisions name. Its two descriptors make its tier `custom`.
const POLICY: &str = "version: 1\nlimits: [{ name: throttle, key: [user, client], sustained: { rate: 1 }, headers: [x-ratelimit] }]\n";

/// The numbers of an ad hoc bucket: `rate` tokens per `window`, at most `capacity` at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct AdHocLimit {
    /// The most tokens at once.
    pub capacity: u32,
    /// Tokens refilled per window.
    pub rate: u64,
    /// The window.
    pub window: Nanos,
}

/// Why an ad hoc bucket could not decide.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AdHocError {
    /// The key is empty.
    #[error("the key is empty; use a key that identifies the client")]
    EmptyKey,
    /// The numbers are out of range.
    #[error(transparent)]
    Numbers(#[from] QuotaError),
    /// The limiter was built without memory for ad hoc buckets.
    #[error("this limiter has no ad hoc buckets; build it with `Limiter::with_ad_hoc`")]
    NotKept,
    /// Too many different limits are in use at once.
    #[error(
        "more than {0} different ad hoc limits have buckets that are not full yet; use fewer different limits, or \
         wait until some are idle"
    )]
    TooMany(usize),
}

/// Ad hoc buckets in the memory of this process. A bucket is identified by its key and its numbers.
///
/// Memory is bounded: keys take what [`MemoryOptions`] allow, and at most 65,536 different limits exist at
/// once, with about a kilobyte each: 64 MiB. A limit that was not used for as long as its buckets take to fill
/// is removed to make room for others, without loss, because all of its buckets are full. So a new limit is
/// refused only while more than 57,344 others were used that recently. Whenever there are 65,536, removing idle
/// ones takes a scan of the key memory, during which decisions wait: some milliseconds for a million keys.
///
/// ```
/// use tidegate::engine::{AdHocBuckets, AdHocLimit};
/// use tidegate::{Cost, MemoryOptions, MonotonicClock, Nanos};
///
/// let throttle = AdHocBuckets::new(MemoryOptions::default(), MonotonicClock::new())?;
/// let limit = AdHocLimit { capacity: 2, rate: 30, window: Nanos::MINUTE };
/// assert!(throttle.check(b"alice", limit, Cost::new(2))?.is_allowed());
/// let denied = throttle.check(b"alice", limit, Cost::ONE)?;
/// assert_eq!((denied.violated_rule(), denied.retry_after_secs()), (Some("throttle"), Some(2)));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct AdHocBuckets<C = MonotonicClock> {
    sets: NumberSets<C>,
    counters: RuleCounters,
    set: ArcSwap<Active>,
    /// Is told of denials.
    pub(super) observer: Option<Arc<dyn Observer>>,
}

impl<C: Clock> AdHocBuckets<C> {
    /// Buckets in memory of this size, on this clock. The memory is mapped at once, and used when touched.
    ///
    /// # Errors
    /// The memory cannot be allocated.
    pub fn new(options: MemoryOptions, clock: C) -> Result<AdHocBuckets<C>, MemoryError> {
        AdHocBuckets::with_sets_max(options, clock, SETS_MAX)
    }

    fn with_sets_max(
        options: MemoryOptions,
        clock: C,
        sets_max: usize,
    ) -> Result<AdHocBuckets<C>, MemoryError> {
        let rules: RuleSet = Policy::parse(POLICY).expect("a valid policy").into();
        let names = Stats::new().names_of(&rules);
        let store = Memory::with_clock(MemoryOptions { max_keys: 1, max_log_entries: 0 }, &clock)?;
        let set = Active::bind(rules, &store, &names, 1, clock.now()).expect("one limit");
        Ok(AdHocBuckets {
            sets: NumberSets::new(options, clock, sets_max)?,
            counters: RuleCounters::new(),
            set: ArcSwap::from_pointee(set),
            observer: None,
        })
    }

    /// Takes `cost` from the bucket of `key`, if the bucket holds it.
    ///
    /// # Errors
    /// The key is empty, the numbers are invalid, or too many different limits are in use at once.
    pub fn take(
        &self,
        key: &[u8],
        limit: AdHocLimit,
        cost: Cost,
        now: Nanos,
    ) -> Result<tidegate_core::LimitDecision, AdHocError> {
        let decision = self.take_uncounted(key, limit, cost, now)?;
        self.count(key, &decision, now);
        Ok(decision)
    }

    /// Does what [`Store::charge`](crate::Store::charge) does for this intent. Takes are counted.
    pub(super) fn apply(
        &self,
        intent: Intent,
        key: &[u8],
        limit: AdHocLimit,
        cost: Cost,
        now: Nanos,
    ) -> Result<tidegate_core::LimitDecision, AdHocError> {
        match intent {
            Intent::Take => self.take(key, limit, cost, now),
            Intent::Peek => self.peek(key, limit, cost, now),
            Intent::Refund => self.refund(key, limit, cost, now),
            Intent::HandBack => {
                self.hand_back(key, limit, cost, now);
                self.peek(key, limit, Cost::ZERO, now)
            }
            Intent::Reset => {
                self.with(key, limit, now, |memory, key| memory.reset(key, now))?;
                self.peek(key, limit, Cost::ZERO, now)
            }
        }
    }

    pub(super) fn take_uncounted(
        &self,
        key: &[u8],
        limit: AdHocLimit,
        cost: Cost,
        now: Nanos,
    ) -> Result<tidegate_core::LimitDecision, AdHocError> {
        self.with(key, limit, now, |memory, key| memory.take(key, cost, now))
    }

    /// The decision that [`AdHocBuckets::take`] would return, without taking or counting anything.
    ///
    /// # Errors
    /// As for [`AdHocBuckets::take`].
    pub fn peek(
        &self,
        key: &[u8],
        limit: AdHocLimit,
        cost: Cost,
        now: Nanos,
    ) -> Result<tidegate_core::LimitDecision, AdHocError> {
        self.with(key, limit, now, |memory, key| memory.peek(key, TimedCost::now(cost), now))
    }

    /// Gives `cost` back to the bucket of `key`, never above the capacity, and returns its state after that.
    ///
    /// # Errors
    /// As for [`AdHocBuckets::take`].
    pub fn refund(
        &self,
        key: &[u8],
        limit: AdHocLimit,
        cost: Cost,
        now: Nanos,
    ) -> Result<tidegate_core::LimitDecision, AdHocError> {
        self.with(key, limit, now, |memory, key| {
            memory.refund(key, cost, now);
            memory.peek(key, TimedCost::now(Cost::ZERO), now)
        })
    }

    /// Undoes a take made at `taken_at`, as if it had never been made.
    pub(super) fn hand_back(&self, key: &[u8], limit: AdHocLimit, cost: Cost, taken_at: Nanos) {
        // If the limit has been removed since, the bucket is full anyway.
        let _ = self.with(key, limit, taken_at, |memory, key| {
            memory.hand_back(key, TimedCost::now(cost), taken_at);
        });
    }

    /// [`AdHocBuckets::take`] at the current time, as a full [`Decision`] for headers and bodies; its limit is
    /// called `throttle`.
    ///
    /// # Errors
    /// As for [`AdHocBuckets::take`].
    pub fn check(&self, key: &[u8], limit: AdHocLimit, cost: Cost) -> Result<Decision, AdHocError> {
        let now = self.sets.clock().now();
        let decision = self.take(key, limit, cost, now)?;
        Ok(self.to_decision(decision, now))
    }

    /// The full [`Decision`] for the decision of a bucket. The rule in it has numbers of its own, which are not
    /// those of the bucket; the standing has those of the bucket.
    pub fn to_decision(&self, decision: tidegate_core::LimitDecision, now: Nanos) -> Decision {
        let mut ruling = Ruling::admitted(now, Reason::Ok);
        let wall = self.sets.clock().wall_at(now);
        if !decision.is_allowed() {
            let never = decision.is_never();
            let reason = if never { Reason::CostExceedsCapacity } else { Reason::TokenBucketExceeded };
            let until = decision.wait().map(|wait| now.saturating_add(wait));
            ruling = Ruling::refused(now, reason, Refuser::Rule(0), until);
        }
        ruling.wall = wall;
        ruling.standings.push(RuleStanding { rule: 0, decision, queued: false });
        ruling.tightest = Some(0);
        Decision::new(self.set.load(), ruling)
    }

    /// [`AdHocBuckets::to_decision`] while the kill switch admits everything, whatever the bucket holds.
    pub(super) fn decision_under_kill_switch(
        &self,
        decision: tidegate_core::LimitDecision,
        now: Nanos,
    ) -> Decision {
        let mut ruling = Ruling::admitted(now, Reason::KillSwitch);
        ruling.wall = self.sets.clock().wall_at(now);
        ruling.standings.push(RuleStanding { rule: 0, decision, queued: false });
        ruling.tightest = Some(0);
        Decision::new(self.set.load(), ruling)
    }

    /// Denies a request whose numbers admit nothing. There is no bucket for them, so no wait helps.
    pub(super) fn refuse(&self, now: Nanos) -> Decision {
        let (outcome, reset_after) = (Outcome::Never, Nanos::ZERO);
        let decision = tidegate_core::LimitDecision { outcome, limit: 0, remaining: 0, reset_after };
        self.count(&[], &decision, now);
        self.to_decision(decision, now)
    }

    /// How many requests were admitted and denied.
    pub fn counters(&self) -> RuleSnapshot {
        self.counters.snapshot()
    }

    /// How full the memory is, and counters of what happened.
    pub fn stats(&self) -> MemoryStats {
        self.sets.stats()
    }

    fn with<R>(
        &self,
        key: &[u8],
        limit: AdHocLimit,
        now: Nanos,
        act: impl Fn(&Memory<Arc<C>>, HashedKey<'_>) -> R,
    ) -> Result<R, AdHocError> {
        if key.is_empty() {
            return Err(AdHocError::EmptyKey);
        }
        self.sets.with(&limit, now, |memory, version| act(memory, HashedKey::new(version, key)))
    }

    /// Counts a decision on a request of `key`, and tells the observer if it is a denial.
    #[inline]
    pub(super) fn count(&self, key: &[u8], decision: &tidegate_core::LimitDecision, now: Nanos) {
        if decision.is_allowed() {
            self.counters.count(RuleOutcome::Allowed);
            return;
        }
        self.counters.count(RuleOutcome::Denied);
        if let Some(observer) = &self.observer {
            observer.observe_ad_hoc(&AdHocDenial { key, decision, at: now });
        }
    }
}
