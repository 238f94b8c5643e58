//! Counting what happens, without threads getting into each other's way.
//!
//! Every counter exists a few times over, each in cache lines of its own; a
//! thread adds to the one it was dealt, and a reader sums them. A sum taken while
//! others count may miss what is just being added, and nothing else.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// How many times each counter exists.
pub(crate) const SHARDS: usize = 8;
const _: () = assert!(SHARDS.is_power_of_two(), "threads are dealt to shards by masking");

/// Two cache lines: processors fetch them in pairs.
const WORDS_PER_LINE: usize = 16;

/// The shard of this thread: threads are dealt to them in turn.
pub(crate) fn shard_of_thread() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        static MINE: usize = NEXT.fetch_add(1, Ordering::Relaxed) & (SHARDS - 1);
    }
    // A thread that is just ending has lost its place and takes the first.
    MINE.try_with(|mine| *mine).unwrap_or(0)
}

/// Counters that no other shard's share a cache line with.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Line([AtomicU64; WORDS_PER_LINE]);

/// A fixed number of counters, told apart by a number that the caller gives
/// them: reasons, actions, kinds of errors.
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

    /// One more for counter `index`.
    ///
    /// # Panics
    /// If there is no such counter.
    #[inline]
    pub fn add(&self, index: usize) {
        self.add_many(index, 1);
    }

    /// `more` for counter `index`.
    ///
    /// # Panics
    /// If there is no such counter.
    #[inline]
    pub fn add_many(&self, index: usize, more: u64) {
        self.word(shard_of_thread(), index).fetch_add(more, Ordering::Relaxed);
    }

    /// What counter `index` has come to.
    ///
    /// # Panics
    /// If there is no such counter.
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

/// What came of a request, as one limit saw it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RuleOutcome {
    /// Admitted.
    Allowed,
    /// Refused by this limit.
    Denied,
    /// Would have been refused, were the limit enforced.
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

    /// The word that metrics use.
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

    /// The sums as of now.
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

/// What the counters of a limit had come to at one time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RuleSnapshot {
    /// Admitted.
    pub allowed: u64,
    /// Refused.
    pub denied: u64,
    /// Would have been refused.
    pub shadow_denied: u64,
    /// Admitted beyond the limit.
    pub degraded: u64,
    /// Admitted after a wait.
    pub queued: u64,
    /// How much was left, as a share of the limit.
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

/// How often which share of a limit was left.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RatioHistogram {
    counts: [u64; RatioHistogram::BOUNDS_PERCENT.len()],
    sum_millionths: u64,
}

impl RatioHistogram {
    /// The upper bounds of the buckets, each part of its bucket. The first holds
    /// what was quite used up.
    pub const BOUNDS_PERCENT: [u32; 9] = [0, 1, 5, 10, 25, 50, 75, 90, 100];

    /// The bucket of a share, without dividing. What is no share (of a limit of
    /// nothing, or above the limit) counts as full.
    #[inline]
    fn bucket(remaining: u32, limit: u32) -> usize {
        if limit == 0 {
            return Self::BOUNDS_PERCENT.len() - 1;
        }
        let hundredfold = u64::from(remaining.min(limit)) * 100;
        let is_below = |bound: &&u32| u64::from(**bound) * u64::from(limit) < hundredfold;
        Self::BOUNDS_PERCENT.iter().filter(is_below).count()
    }

    /// The share in millionths, rounded down.
    #[inline]
    fn millionths(remaining: u32, limit: u32) -> u64 {
        if limit == 0 { 1_000_000 } else { u64::from(remaining.min(limit)) * 1_000_000 / u64::from(limit) }
    }

    /// The sum of all shares, in millionths.
    pub fn sum_millionths(&self) -> u64 {
        self.sum_millionths
    }

    /// How many there are in each bucket, by its upper bound in percent.
    pub fn buckets(&self) -> impl Iterator<Item = (u32, u64)> + '_ {
        Self::BOUNDS_PERCENT.into_iter().zip(self.counts)
    }

    /// How many there are in all.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// The share, in percent, that so many thousandths of all did not exceed: the
    /// upper bound of the bucket in which that one is. `None` if nothing was
    /// counted.
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

/// How far the callers were trusted, in tenths.
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
    /// The number of buckets: nothing, then one for each tenth.
    pub const BUCKETS: usize = 11;

    /// All zero.
    pub fn new() -> TrustHistogram {
        TrustHistogram { totals: Totals::new(Self::BUCKETS + 1) }
    }

    /// Counts a request's trust in hundredths; more than a hundred is a hundred.
    #[inline]
    pub fn count(&self, hundredths: u8) {
        let hundredths = hundredths.min(100);
        self.totals.add(usize::from(hundredths.div_ceil(10)));
        self.totals.add_many(Self::BUCKETS, u64::from(hundredths));
    }

    /// How many there are in each bucket. Bucket n reaches up to n tenths, those
    /// included.
    pub fn buckets(&self) -> [u64; Self::BUCKETS] {
        std::array::from_fn(|tenths| self.totals.get(tenths))
    }

    /// The sum of all that was counted, in hundredths.
    pub fn sum_hundredths(&self) -> u64 {
        self.totals.get(Self::BUCKETS)
    }
}

#[cfg(test)]
mod tests;
