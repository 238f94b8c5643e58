//! One bucket of the model: its state, and the effect of each verb on it.

use std::sync::Arc;

use tidegate_core::sliding_log::{Log, LogGrowth};
use tidegate_core::{Cost, Limit, LogQuota, Meter, Nanos, Outcome};
use tidegate_redis::{BucketEntry, LogState, State};

/// The value under a key.
#[derive(Clone, Debug)]
pub(super) struct StoredValue {
    pub(super) text: Arc<str>,
    pub(super) limit: Limit,
    pub(super) state: BucketState,
    /// When it was written.
    pub(super) written: Nanos,
    /// When it expires.
    pub(super) until: Nanos,
}

impl StoredValue {
    pub(super) fn is_junk(&self) -> bool {
        matches!(self.state, BucketState::Junk)
    }
}

/// The state of a bucket.
#[derive(Clone, Debug, Default)]
pub(super) enum BucketState {
    /// Of a meter.
    Word(u64),
    /// Of a sliding log.
    Log(Log),
    /// An invalid value.
    #[default]
    Junk,
}

impl PartialEq for BucketState {
    fn eq(&self, other: &BucketState) -> bool {
        match (self, other) {
            (BucketState::Word(mine), BucketState::Word(other)) => mine == other,
            (BucketState::Log(mine), BucketState::Log(other)) => mine.entries().eq(other.entries()),
            _ => false,
        }
    }
}

impl BucketState {
    pub(super) fn untouched(limit: &Limit) -> BucketState {
        match limit {
            Limit::Meter(_) => BucketState::Word(0),
            Limit::Log(_) => BucketState::Log(Log::default()),
        }
    }

    pub(super) fn migrated(state: &State) -> BucketState {
        match state {
            State::Word(word) => BucketState::Word(*word),
            State::Log(log) => BucketState::Log(Log::from_entries(log.entries.iter().copied())),
        }
    }

    /// The state in an answer.
    pub(super) fn answer_state(&self, entry: &BucketEntry, now: Nanos) -> State {
        match (self, &entry.limit) {
            (BucketState::Log(log), Limit::Log(quota)) => {
                State::Log(log_state(log, quota, entry.cost, now.saturating_add(entry.delay)))
            }
            (_, Limit::Log(_)) => {
                State::Log(LogState { empty_at: now.saturating_add(entry.delay), ..LogState::default() })
            }
            (BucketState::Word(word), Limit::Meter(_)) => State::Word(*word),
            (_, Limit::Meter(_)) => State::Word(0),
        }
    }

    /// Takes a cost if it fits.
    pub(super) fn charge(&mut self, limit: &Limit, cost: Cost, now: Nanos, delay: Nanos) -> bool {
        match (self, limit) {
            (BucketState::Word(word), Limit::Meter(meter)) => {
                match meter.charge_ahead(*word, cost, now, delay) {
                    Some(next) => {
                        *word = next;
                        true
                    }
                    None => false,
                }
            }
            // Old entries of a log are removed only when it is written.
            (BucketState::Log(_), Limit::Log(_)) if cost == Cost::ZERO => true,
            (BucketState::Log(log), Limit::Log(quota)) => {
                let mut next = log.clone();
                let at = now.saturating_add(delay);
                let fits = next.take_ahead(quota, cost, now, at, LogGrowth::Grow).is_allowed();
                if fits {
                    *log = next;
                }
                fits
            }
            _ => false,
        }
    }

    /// The whole tokens left in a token bucket; zero for others, which are not leased.
    pub(super) fn left(&self, limit: &Limit, now: Nanos) -> u32 {
        match (self, limit) {
            (BucketState::Word(word), Limit::Meter(meter @ Meter::TokenBucket(_))) => {
                meter.peek(*word, Cost::ZERO, now).remaining
            }
            _ => 0,
        }
    }

    pub(super) fn refund(&mut self, limit: &Limit, cost: Cost, now: Nanos) {
        match (self, limit) {
            (BucketState::Word(word), Limit::Meter(meter)) => *word = meter.refund(*word, cost, now),
            (BucketState::Log(log), Limit::Log(quota)) => {
                log.forget(quota, now);
                log.refund(cost);
            }
            _ => {}
        }
    }

    pub(super) fn hand_back(&mut self, entry: &BucketEntry, now: Nanos) {
        match (self, &entry.limit) {
            // A full bucket is not rewritten, in case the clock steps back.
            (BucketState::Word(word), Limit::Meter(meter @ Meter::TokenBucket(_)))
                if meter.is_idle(*word, now) => {}
            (BucketState::Word(word), Limit::Meter(meter)) => {
                let charged_at = meter.as_of(entry.charged_at, entry.delay);
                *word = meter.hand_back(*word, entry.cost, charged_at, now);
            }
            (BucketState::Log(log), Limit::Log(quota)) => {
                log.forget(quota, now);
                log.hand_back(entry.cost, entry.charged_at.saturating_add(entry.delay));
            }
            _ => {}
        }
    }

    /// The time until it is untouched again.
    pub(super) fn full_in(&self, limit: &Limit, now: Nanos) -> Nanos {
        match (self, limit) {
            (BucketState::Word(word), Limit::Meter(meter)) => meter.peek(*word, Cost::ZERO, now).reset_after,
            (BucketState::Log(log), Limit::Log(quota)) => log.empty_at(quota, now).saturating_sub(now),
            _ => Nanos::ZERO,
        }
    }
}

fn log_state(log: &Log, quota: &LogQuota, cost: Cost, at: Nanos) -> LogState {
    let counts = |(charged, _): &(Nanos, u32)| charged.saturating_add(quota.window()) > at;
    let fits_at = match log.peek(quota, cost, at).outcome {
        Outcome::Denied { retry_after } => at.saturating_add(retry_after),
        Outcome::Allowed | Outcome::Never => Nanos::ZERO,
    };
    LogState {
        counted: log.entries().filter(counts).map(|(_, tokens)| tokens).sum(),
        empty_at: log.empty_at(quota, at),
        fits_at,
        entries: Vec::new(),
    }
}
