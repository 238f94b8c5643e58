//! The crate's own limits behind the models' interface.

use tidegate_core::sliding_log::{Log, LogGrowth};
use tidegate_core::{Cost, LimitDecision, LogQuota, Meter, Nanos};

use crate::model::Limiter;

/// A limit whose state is a word.
#[derive(Clone, Debug)]
pub(crate) struct Word {
    pub(crate) meter: Meter,
    pub(crate) state: u64,
}

impl Word {
    pub(crate) fn new(meter: Meter) -> Word {
        Word { meter, state: 0 }
    }
}

impl Limiter for Word {
    fn take(&mut self, cost: Cost, now: Nanos) -> LimitDecision {
        let (decision, next) = self.meter.take(self.state, cost, now);
        let charged = decision.is_allowed() && cost > Cost::ZERO;
        assert_eq!(next.is_some(), charged, "an admitted cost, and nothing else, changes the state");
        self.state = next.unwrap_or(self.state);
        decision
    }

    fn peek(&self, cost: Cost, now: Nanos) -> LimitDecision {
        self.meter.peek(self.state, cost, now)
    }

    fn refund(&mut self, cost: Cost, now: Nanos) {
        self.state = self.meter.refund(self.state, cost, now);
    }

    fn hand_back(&mut self, cost: Cost, charged_at: Nanos, now: Nanos) {
        self.state = self.meter.hand_back(self.state, cost, charged_at, now);
    }

    fn is_idle(&self, now: Nanos) -> bool {
        self.meter.is_idle(self.state, now)
    }
}

/// A log with at most this many entries.
#[derive(Clone, Debug)]
pub(crate) struct Bounded {
    pub(crate) quota: LogQuota,
    pub(crate) log: Log,
    pub(crate) most: usize,
}

impl Bounded {
    pub(crate) fn new(quota: LogQuota, most: usize) -> Bounded {
        Bounded { quota, log: Log::default(), most }
    }
}

impl Limiter for Bounded {
    fn take(&mut self, cost: Cost, now: Nanos) -> LimitDecision {
        self.log.forget(&self.quota, now);
        let room = if self.log.len() < self.most { LogGrowth::Grow } else { LogGrowth::Full };
        self.log.take(&self.quota, cost, now, room)
    }

    fn peek(&self, cost: Cost, now: Nanos) -> LimitDecision {
        self.log.peek(&self.quota, cost, now)
    }

    fn refund(&mut self, cost: Cost, _now: Nanos) {
        self.log.refund(cost);
    }

    fn hand_back(&mut self, cost: Cost, charged_at: Nanos, _now: Nanos) {
        self.log.hand_back(cost, charged_at);
    }

    fn is_idle(&self, now: Nanos) -> bool {
        let mut log = self.log.clone();
        log.forget(&self.quota, now);
        log.is_empty()
    }
}
