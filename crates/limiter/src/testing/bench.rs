//! A store under test, with short methods for what the checks do.

use super::{Charge, Harness, Store};
use crate::{
    Carry, Cost, Intent, Limit, LimitDecision, LimitRef, LimitVariant, LogQuota, Nanos, Quota, Verdict,
    WindowQuota,
};

/// The instant at which the checks begin: the start of a minute.
pub(super) const START: Nanos = Nanos::from_secs(1_800_000_000);
/// Enough keys for every check that does not need too many.
pub(super) const ROOMY: usize = 10_000;

/// `millis` after the start.
pub(super) fn at(millis: u64) -> Nanos {
    START.saturating_add(Nanos::from_millis(millis))
}

/// `nanos` after the start, rounded up to a microsecond, the resolution of every store.
pub(super) fn at_nanos(nanos: u64) -> Nanos {
    START.saturating_add(Nanos::new(nanos.next_multiple_of(1_000)))
}

pub(super) fn bucket(rate: u64, window: Nanos, capacity: u32) -> Limit {
    Quota::new(rate, window, capacity).expect("the suite's quotas are in range").into()
}

pub(super) fn sliding_window(limit: u32, window: Nanos) -> Limit {
    Limit::sliding_window(WindowQuota::new(limit, window).expect("the suite's quotas are in range"))
}

pub(super) fn fixed_window(limit: u32, window: Nanos) -> Limit {
    Limit::fixed_window(WindowQuota::new(limit, window).expect("the suite's quotas are in range"))
}

pub(super) fn sliding_log(limit: u32, window: Nanos) -> Limit {
    LogQuota::new(limit, window).expect("the suite's quotas are in range").into()
}

/// One limit of each algorithm, each of 10 per minute.
pub(super) fn ten_a_minute() -> [Limit; 4] {
    [
        bucket(10, Nanos::MINUTE, 10),
        sliding_window(10, Nanos::MINUTE),
        fixed_window(10, Nanos::MINUTE),
        sliding_log(10, Nanos::MINUTE),
    ]
}

/// One limit of each algorithm, each of 10 per hour, the bucket first.
pub(super) fn ten_an_hour() -> [Limit; 4] {
    [
        bucket(10, Nanos::HOUR, 10),
        sliding_window(10, Nanos::HOUR),
        fixed_window(10, Nanos::HOUR),
        sliding_log(10, Nanos::HOUR),
    ]
}

pub(super) struct Bench<'h, H: Harness> {
    harness: &'h H,
    store: H::Store,
}

impl<'h, H: Harness> Bench<'h, H> {
    pub(super) fn new(harness: &'h H) -> Bench<'h, H> {
        Bench::with_keys(harness, ROOMY)
    }

    pub(super) fn with_keys(harness: &'h H, max_keys: usize) -> Bench<'h, H> {
        Bench { harness, store: harness.store(max_keys) }
    }

    pub(super) fn limit(&self, name: &str, limit: Limit) -> LimitRef {
        self.edit(name, limit, Carry::AsIs, START)
    }

    pub(super) fn edit(&self, name: &str, limit: Limit, carry: Carry, now: Nanos) -> LimitRef {
        self.store.limit(name, limit, carry, now).expect("a new store can hold limits")
    }

    pub(super) fn store(&self) -> &H::Store {
        &self.store
    }

    pub(super) fn variant(&self, limit: &LimitRef, trust: u8) -> LimitRef {
        self.store.variant(limit, LimitVariant::at_trust(trust)).expect("the suite's quotas can be scaled")
    }

    pub(super) fn overridden(&self, limit: &LimitRef, numbers: impl Into<LimitVariant>) -> LimitRef {
        self.store.variant(limit, numbers.into()).expect("the suite's quotas can be overridden")
    }

    pub(super) fn charge(&self, intent: Intent, charges: &[Charge<'_>], now: Nanos) -> Verdict {
        let answer = self.harness.run(self.store.charge(intent, charges, now));
        let verdict = answer.expect("the store is available during the suite");
        assert_eq!(verdict.decisions.len(), charges.len(), "one decision a charge");
        for decision in &verdict.decisions {
            assert!(decision.remaining <= decision.limit, "more left than there is: {decision:?}");
        }
        verdict
    }

    fn one(&self, intent: Intent, limit: &LimitRef, key: &[u8], cost: u32, now: Nanos) -> LimitDecision {
        let verdict = self.charge(intent, &[Charge::new(limit, key, Cost::new(cost))], now);
        if intent != Intent::Refund {
            assert_eq!(verdict.allowed, verdict.decisions[0].is_allowed());
        }
        verdict.decisions[0]
    }

    pub(super) fn take(&self, limit: &LimitRef, key: &[u8], cost: u32, now: Nanos) -> LimitDecision {
        self.one(Intent::Take, limit, key, cost, now)
    }

    pub(super) fn peek(&self, limit: &LimitRef, key: &[u8], cost: u32, now: Nanos) -> LimitDecision {
        self.one(Intent::Peek, limit, key, cost, now)
    }

    pub(super) fn refund(&self, limit: &LimitRef, key: &[u8], cost: u32, now: Nanos) -> LimitDecision {
        self.one(Intent::Refund, limit, key, cost, now)
    }

    /// Tokens left, rounded down.
    pub(super) fn left(&self, limit: &LimitRef, key: &[u8], now: Nanos) -> u32 {
        self.peek(limit, key, 1, now).remaining
    }

    /// Takes one at a time until denied, at most `most` times.
    pub(super) fn drain(&self, limit: &LimitRef, key: &[u8], most: u32, now: Nanos) -> u32 {
        (0..most).take_while(|_| self.take(limit, key, 1, now).is_allowed()).count() as u32
    }
}
