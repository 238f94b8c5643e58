//! Counters that threads increment without contention.
//!
//! Every counter has several shards, each in cache lines of its own; a thread adds to the shard it was
//! assigned, and a reader sums them. A sum may miss increments that happen while it is taken, and nothing else.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// The number of shards of each counter.
pub(crate) const SHARDS: usize = 8;
const _: () = assert!(SHARDS.is_power_of_two(), "threads are assigned to shards by masking");

/// Two cache lines, because processors fetch them in pairs.
pub(crate) const WORDS_PER_LINE: usize = 16;

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
