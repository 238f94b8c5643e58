//! Counters that threads increment without contention.
//!
//! Every counter has several shards, each in cache lines of its own; a thread adds to the shard it was
//! assigned, and a reader sums them. A sum may miss increments that happen while it is taken, and nothing else.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// The number of shards of each counter.
pub(crate) const SHARDS: usize = 8;
const _: () = assert!(SHARDS.is_power_of_two(), "threads are assigned to shards by masking");

/// Two cache lines, because processors fetch them in pairs.
const WORDS_PER_LINE: usize = 16;

/// The shard of this thread; threads are assigned round-robin.
pub(crate) fn shard_of_thread() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        static MINE: usize = NEXT.fetch_add(1, Ordering::Relaxed) & (SHARDS - 1);
    }
    // A thread that is ending has lost its thread-local value and uses the first shard.
    MINE.try_with(|mine| *mine).unwrap_or(0)
}

/// Counters that share no cache line with another shard.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Line([AtomicU64; WORDS_PER_LINE]);

/// A fixed number of counters, addressed by index: one per reason, action or kind of error.
#[derive(Debug)]
pub struct Totals {
    lines: Box<[Line]>,
    lines_per_shard: usize,
    len: usize,
}

impl Totals {
    /// `len` counters, all zero.
    pub fn new(len: usize) -> Totals {
        let lines_per_shard = len.div_ceil(WORDS_PER_LINE);
        let lines = (0..lines_per_shard * SHARDS).map(|_| Line::default()).collect();
        Totals { lines, lines_per_shard, len }
    }

    /// Adds one to counter `index`.
    ///
    /// # Panics
    /// There is no such counter.
    #[inline]
    pub fn add(&self, index: usize) {
        self.add_many(index, 1);
    }

    /// Adds `more` to counter `index`.
    ///
    /// # Panics
    /// There is no such counter.
    #[inline]
    pub fn add_many(&self, index: usize, more: u64) {
        self.word(shard_of_thread(), index).fetch_add(more, Ordering::Relaxed);
    }

    /// The value of counter `index`.
    ///
    /// # Panics
    /// There is no such counter.
    pub fn get(&self, index: usize) -> u64 {
        let shares = (0..SHARDS).map(|shard| self.word(shard, index).load(Ordering::Relaxed));
        shares.fold(0, u64::wrapping_add)
    }

    #[inline]
    fn word(&self, shard: usize, index: usize) -> &AtomicU64 {
        assert!(index < self.len, "counter {index} of {}", self.len);
        let line = shard * self.lines_per_shard + index / WORDS_PER_LINE;
        &self.lines[line].0[index % WORDS_PER_LINE]
    }
}

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
