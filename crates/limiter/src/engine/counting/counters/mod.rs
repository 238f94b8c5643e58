//! The counters of limits: outcomes, what was left, and the trust of requests.

pub use crate::measure::Totals;
use crate::measure::WORDS_PER_LINE;
pub(crate) use crate::measure::{SHARDS, shard_of_thread};

/// The outcome of a request for one limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RuleOutcome {
    /// Admitted.
    Allowed,
    /// Denied by this limit.
    Denied,
    /// Would have been denied if the limit were enforced.
    ShadowDenied,
    /// Admitted beyond the limit, marked as degraded.
    Degraded,
    /// Admitted after a wait.
    Queued,
}

impl RuleOutcome {
    /// All of them.
    pub const ALL: [RuleOutcome; 5] = [
        RuleOutcome::Allowed,
        RuleOutcome::Denied,
        RuleOutcome::ShadowDenied,
        RuleOutcome::Degraded,
        RuleOutcome::Queued,
    ];

    /// The label in metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            RuleOutcome::Allowed => "allowed",
            RuleOutcome::Denied => "denied",
            RuleOutcome::ShadowDenied => "shadow_denied",
            RuleOutcome::Degraded => "degraded",
            RuleOutcome::Queued => "queued",
        }
    }
}

/// The counters of one limit: outcomes, and how much of it was left.
#[derive(Debug)]
pub struct RuleCounters {
    totals: Totals,
}

impl Default for RuleCounters {
    fn default() -> RuleCounters {
        RuleCounters::new()
    }
}

impl RuleCounters {
    const RATIOS: usize = RuleOutcome::ALL.len();
    const RATIO_SUM: usize = Self::RATIOS + RatioHistogram::BOUNDS_PERCENT.len();
    const WORDS: usize = Self::RATIO_SUM + 1;

    /// All zero.
    pub fn new() -> RuleCounters {
        const { assert!(RuleCounters::WORDS <= WORDS_PER_LINE, "a limit's counters share one line") }
        RuleCounters { totals: Totals::new(Self::WORDS) }
    }

    /// Counts an outcome.
    #[inline]
    pub fn count(&self, outcome: RuleOutcome) {
        self.totals.add(outcome as usize);
    }

    /// Counts how much of the limit was left after a decision.
    #[inline]
    pub fn count_remaining(&self, remaining: u32, limit: u32) {
        self.totals.add(Self::RATIOS + RatioHistogram::bucket(remaining, limit));
        self.totals.add_many(Self::RATIO_SUM, RatioHistogram::millionths(remaining, limit));
    }

    /// The current values.
    pub fn snapshot(&self) -> RuleSnapshot {
        let of = |outcome: RuleOutcome| self.totals.get(outcome as usize);
        let counts = std::array::from_fn(|bucket| self.totals.get(Self::RATIOS + bucket));
        RuleSnapshot {
            allowed: of(RuleOutcome::Allowed),
            denied: of(RuleOutcome::Denied),
            shadow_denied: of(RuleOutcome::ShadowDenied),
            degraded: of(RuleOutcome::Degraded),
            queued: of(RuleOutcome::Queued),
            remaining: RatioHistogram { counts, sum_millionths: self.totals.get(Self::RATIO_SUM) },
        }
    }
}

/// The values of a limit's counters at one time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RuleSnapshot {
    /// Admitted.
    pub allowed: u64,
    /// Denied.
    pub denied: u64,
    /// Would have been denied.
    pub shadow_denied: u64,
    /// Admitted beyond the limit.
    pub degraded: u64,
    /// Admitted after a wait.
    pub queued: u64,
    /// How much was left, as a fraction of the limit.
    pub remaining: RatioHistogram,
}

impl RuleSnapshot {
    /// Adds the values of another limit.
    pub fn add(&mut self, other: &RuleSnapshot) {
        self.allowed += other.allowed;
        self.denied += other.denied;
        self.shadow_denied += other.shadow_denied;
        self.degraded += other.degraded;
        self.queued += other.queued;
        self.remaining.add(&other.remaining);
    }

    /// The count of one outcome.
    pub const fn get(&self, outcome: RuleOutcome) -> u64 {
        match outcome {
            RuleOutcome::Allowed => self.allowed,
            RuleOutcome::Denied => self.denied,
            RuleOutcome::ShadowDenied => self.shadow_denied,
            RuleOutcome::Degraded => self.degraded,
            RuleOutcome::Queued => self.queued,
        }
    }
}

/// A histogram of the fraction of a limit that was left.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RatioHistogram {
    counts: [u64; RatioHistogram::BOUNDS_PERCENT.len()],
    sum_millionths: u64,
}

impl RatioHistogram {
    /// The inclusive upper bounds of the buckets. The first bucket counts limits that were used up.
    pub const BOUNDS_PERCENT: [u32; 9] = [0, 1, 5, 10, 25, 50, 75, 90, 100];

    /// The bucket of a fraction, without dividing. A limit of zero, or a remainder above the limit, counts as
    /// full.
    #[inline]
    fn bucket(remaining: u32, limit: u32) -> usize {
        if limit == 0 {
            return Self::BOUNDS_PERCENT.len() - 1;
        }
        let hundredfold = u64::from(remaining.min(limit)) * 100;
        let is_below = |bound: &&u32| u64::from(**bound) * u64::from(limit) < hundredfold;
        Self::BOUNDS_PERCENT.iter().filter(is_below).count()
    }

    /// The fraction in millionths, rounded down.
    #[inline]
    fn millionths(remaining: u32, limit: u32) -> u64 {
        if limit == 0 { 1_000_000 } else { u64::from(remaining.min(limit)) * 1_000_000 / u64::from(limit) }
    }

    fn add(&mut self, other: &RatioHistogram) {
        self.counts.iter_mut().zip(other.counts).for_each(|(sum, more)| *sum += more);
        self.sum_millionths += other.sum_millionths;
    }

    /// The sum of all fractions, in millionths.
    pub fn sum_millionths(&self) -> u64 {
        self.sum_millionths
    }

    /// The number of values in each bucket, with the bucket's upper bound in percent.
    pub fn buckets(&self) -> impl Iterator<Item = (u32, u64)> + '_ {
        Self::BOUNDS_PERCENT.into_iter().zip(self.counts)
    }

    /// The number of values.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// The fraction, in percent, that `permille` thousandths of all values do not exceed: the upper bound of
    /// the bucket that contains this value. `None` if nothing was counted.
    pub fn quantile(&self, permille: u32) -> Option<u32> {
        let all = u128::from(self.count());
        let rank = (all * u128::from(permille.min(1_000))).div_ceil(1_000).max(1);
        let mut so_far = 0_u128;
        self.buckets().find_map(|(bound, count)| {
            so_far += u128::from(count);
            (so_far >= rank).then_some(bound)
        })
    }
}

/// A histogram of the trust of requests, in tenths.
#[derive(Debug)]
pub struct TrustHistogram {
    totals: Totals,
}

impl Default for TrustHistogram {
    fn default() -> TrustHistogram {
        TrustHistogram::new()
    }
}

impl TrustHistogram {
    /// The number of buckets: zero, then one for each tenth.
    pub const BUCKETS: usize = 11;

    /// All zero.
    pub fn new() -> TrustHistogram {
        TrustHistogram { totals: Totals::new(Self::BUCKETS + 1) }
    }

    /// Counts the trust of a request in hundredths; more than 100 counts as 100.
    #[inline]
    pub fn count(&self, hundredths: u8) {
        let hundredths = hundredths.min(100);
        self.totals.add(usize::from(hundredths.div_ceil(10)));
        self.totals.add_many(Self::BUCKETS, u64::from(hundredths));
    }

    /// The number of values in each bucket. The upper bound of bucket n is n tenths, inclusive.
    pub fn buckets(&self) -> [u64; Self::BUCKETS] {
        std::array::from_fn(|tenths| self.totals.get(tenths))
    }

    /// The sum of all values, in hundredths.
    pub fn sum_hundredths(&self) -> u64 {
        self.totals.get(Self::BUCKETS)
    }
}

#[cfg(test)]
mod tests;
