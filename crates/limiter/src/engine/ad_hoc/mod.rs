//! Ad-hoc buckets: they belong to no policy, and whoever asks brings the numbers.

mod asking;
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
use super::decision::{Decision, Reason, Refuser, RuleStanding, Ruling};
use crate::charge::TimedCost;
use crate::memory::HashedKey;
use crate::{Clock, Intent, Memory, MemoryError, MemoryOptions, MemoryStats, MonotonicClock};

pub use asking::{AdHocAnswer, AdHocRequest};

/// The one limit that decisions name. Two descriptors make its tier `custom`.
const POLICY: &str = "version: 1\nlimits: [{ name: throttle, key: [user, client], sustained: { rate: 1 }, headers: [x-ratelimit] }]\n";

/// The numbers of an ad-hoc bucket: `rate` tokens in each `window`, at most `capacity` at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct AdHocLimit {
    /// The most tokens at once.
    pub capacity: u32,
    /// Tokens that come in a window.
    pub rate: u64,
    /// The window.
    pub window: Nanos,
}

/// Why there is no decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AdHocError {
    /// The key is empty.
    #[error("the key is empty; name whom the bucket is for")]
    EmptyKey,
    /// The numbers make no limit.
    #[error(transparent)]
    Numbers(#[from] QuotaError),
    /// The limiter was made without room for them.
    #[error("this limiter keeps no ad-hoc buckets; make it with `Limiter::with_ad_hoc`")]
    NotKept,
    /// Too many different limits are in use at once.
    #[error(
        "more than {0} different sets of numbers have buckets that are not full yet, and there is no room for \
         another; \
         use fewer different numbers, or wait until some have been idle"
    )]
    TooMany(usize),
}

/// Ad-hoc buckets in this process's memory. A bucket's identity is its key and its numbers.
///
/// Memory is bounded: keys take what [`MemoryOptions`] allow, and up to 65,536
/// different sets of numbers are told apart at once, about a kilobyte each: 64 MiB.
/// Numbers that nobody has used for as long as their buckets take to fill make way
/// for others, without loss: all of their buckets are full. So new numbers are
/// refused only while more than 57,344 sets have been in use that lately. Whenever
/// 65,536 are there, making way takes a walk through the memory of the keys, which
/// decisions wait for: some milliseconds for a million keys.
///
/// ```
/// use tidegate::engine::{AdHocBuckets, AdHocLimit};
/// use tidegate::{Cost, MemoryOptions, MonotonicClock, Nanos};
///
/// let throttle = AdHocBuckets::new(MemoryOptions::default(), MonotonicClock::new());
/// let limit = AdHocLimit { capacity: 2, rate: 30, window: Nanos::MINUTE };
/// assert!(throttle.check(b"alice", limit, Cost::new(2))?.is_allowed());
/// let denied = throttle.check(b"alice", limit, Cost::ONE)?;
/// assert_eq!((denied.violated_rule(), denied.retry_after_secs()), (Some("throttle"), Some(2)));
/// # Ok::<(), tidegate::engine::AdHocError>(())
/// ```
#[derive(Debug)]
pub struct AdHocBuckets<C = MonotonicClock> {
    sets: NumberSets<C>,
    counters: RuleCounters,
    set: ArcSwap<Active>,
}

impl<C: Clock> AdHocBuckets<C> {
    /// With room for so much, on this clock. Memory is reserved at once, and used when touched.
    ///
    /// # Panics
    /// Where [`AdHocBuckets::try_new`] fails.
    pub fn new(options: MemoryOptions, clock: C) -> AdHocBuckets<C> {
        AdHocBuckets::try_new(options, clock).unwrap_or_else(|error| panic!("{error}"))
    }

    /// The same, for sizes that may be too much for the system.
    ///
    /// # Errors
    /// When the memory cannot be reserved.
    pub fn try_new(options: MemoryOptions, clock: C) -> Result<AdHocBuckets<C>, MemoryError> {
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
        })
    }

    /// Takes `cost` from the bucket of `key`, if it holds that.
    ///
    /// # Errors
    /// When the key is empty, there is no such limit, or too many different ones at once.
    pub fn take(
        &self,
        key: &[u8],
        limit: AdHocLimit,
        cost: Cost,
        now: Nanos,
    ) -> Result<tidegate_core::LimitDecision, AdHocError> {
        let decision = self.take_uncounted(key, limit, cost, now)?;
        self.count(decision.is_allowed());
        Ok(decision)
    }

    /// What [`Store::charge`](crate::Store::charge) is asked to do, done here. Takes are counted.
    pub(super) fn act(
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

    /// What [`AdHocBuckets::take`] would say, with nothing taken or counted.
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

    /// Gives `cost` back to the bucket of `key`, never above the capacity, and tells what it holds then.
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

    /// Takes back what was taken at `taken_at`, as if it had not been.
    pub(super) fn hand_back(&self, key: &[u8], limit: AdHocLimit, cost: Cost, taken_at: Nanos) {
        // Where the numbers have moved on since, the bucket is full anyway.
        let _ = self.with(key, limit, taken_at, |memory, key| {
            memory.hand_back(key, TimedCost::now(cost), taken_at);
        });
    }

    /// [`AdHocBuckets::take`] as of now, with all that can be told of a decision; its limit is called `throttle`.
    ///
    /// # Errors
    /// As for [`AdHocBuckets::take`].
    pub fn check(&self, key: &[u8], limit: AdHocLimit, cost: Cost) -> Result<Decision, AdHocError> {
        let now = self.sets.clock().now();
        let decision = self.take(key, limit, cost, now)?;
        Ok(self.told(decision, now))
    }

    /// What one of its buckets says, as a decision. The numbers that the decision's rule has are not
    /// those of the bucket; what the bucket says of itself is.
    pub fn told(&self, decision: tidegate_core::LimitDecision, now: Nanos) -> Decision {
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
        ruling.speaker = Some(0);
        Decision::new(self.set.load(), ruling)
    }

    /// The same where the kill switch admits everything, whatever the bucket says.
    pub(super) fn told_under_kill_switch(
        &self,
        decision: tidegate_core::LimitDecision,
        now: Nanos,
    ) -> Decision {
        let mut ruling = Ruling::admitted(now, Reason::KillSwitch);
        ruling.wall = self.sets.clock().wall_at(now);
        ruling.standings.push(RuleStanding { rule: 0, decision, queued: false });
        ruling.speaker = Some(0);
        Decision::new(self.set.load(), ruling)
    }

    /// Refuses by numbers that admit nothing. They make no bucket, so no wait will do.
    pub(super) fn refuse(&self, now: Nanos) -> Decision {
        self.count(false);
        let (outcome, reset_after) = (Outcome::Never, Nanos::ZERO);
        self.told(tidegate_core::LimitDecision { outcome, limit: 0, remaining: 0, reset_after }, now)
    }

    /// How often buckets have admitted and denied.
    pub fn counters(&self) -> RuleSnapshot {
        self.counters.snapshot()
    }

    /// How full it is and what it has been through.
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

    pub(super) fn count(&self, allowed: bool) {
        self.counters.count(if allowed { RuleOutcome::Allowed } else { RuleOutcome::Denied });
    }
}
