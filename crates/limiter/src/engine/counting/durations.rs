//! A histogram of durations that threads fill without contention.

use tidegate_core::Nanos;

use super::counters::Totals;

/// Counts durations in buckets whose bounds grow by 1, 2.5, 5, 10 from 100 ns to 500 s.
///
/// ```
/// use tidegate::Nanos;
/// use tidegate::engine::counting::durations::DurationHistogram;
///
/// let waits = DurationHistogram::new();
/// waits.record(Nanos::from_millis(3));
/// let seen = waits.snapshot();
/// assert_eq!((seen.count(), seen.sum()), (1, Nanos::from_millis(3)));
/// assert_eq!(seen.cumulative().find(|(_, count)| *count == 1), Some((Nanos::from_millis(5), 1)));
/// ```
#[derive(Debug)]
pub struct DurationHistogram {
    totals: Totals,
}

const BUCKETS: usize = 30;

/// The counter of durations beyond the last bound.
const BEYOND: usize = BUCKETS;
const SUM: usize = BUCKETS + 1;

impl DurationHistogram {
    /// The inclusive upper bounds of the buckets. Longer durations are counted too, but have no bucket of their
    /// own.
    pub const BOUNDS: [Nanos; BUCKETS] = {
        let mut bounds = [Nanos::ZERO; BUCKETS];
        let (mut decade, mut index) = (100, 0);
        while index < BUCKETS {
            bounds[index] = Nanos::new(decade);
            bounds[index + 1] = Nanos::new(decade / 10 * 25);
            bounds[index + 2] = Nanos::new(decade * 5);
            decade *= 10;
            index += 3;
        }
        bounds
    };

    /// All zero.
    pub fn new() -> DurationHistogram {
        DurationHistogram { totals: Totals::new(SUM + 1) }
    }

    /// Counts a duration.
    #[inline]
    pub fn record(&self, took: Nanos) {
        self.totals.add(Self::BOUNDS.partition_point(|bound| *bound < took));
        self.totals.add_many(SUM, took.get());
    }

    /// Counts several operations that took this long together, each with an equal part of it.
    pub fn record_together(&self, count: u64, took: Nanos) {
        if let Some(share) = took.get().checked_div(count) {
            self.totals.add_many(Self::BOUNDS.partition_point(|bound| bound.get() < share), count);
            self.totals.add_many(SUM, took.get());
        }
    }

    /// The current values.
    pub fn snapshot(&self) -> DurationSnapshot {
        let counts = std::array::from_fn(|bucket| self.totals.get(bucket));
        DurationSnapshot { counts, sum: Nanos::new(self.totals.get(SUM)) }
    }
}

impl Default for DurationHistogram {
    fn default() -> DurationHistogram {
        DurationHistogram::new()
    }
}

/// The values of a [`DurationHistogram`] at one time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DurationSnapshot {
    counts: [u64; BEYOND + 1],
    sum: Nanos,
}

impl DurationSnapshot {
    /// For each bound, the number of durations that are not longer.
    pub fn cumulative(&self) -> impl Iterator<Item = (Nanos, u64)> + '_ {
        let running = self.counts.iter().scan(0_u64, |so_far, count| {
            *so_far += count;
            Some(*so_far)
        });
        DurationHistogram::BOUNDS.into_iter().zip(running)
    }

    /// The number of durations.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// The sum of all durations.
    pub fn sum(&self) -> Nanos {
        self.sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bounds_go_up_from_a_tenth_of_a_microsecond_to_500_seconds() {
        let bounds = DurationHistogram::BOUNDS;
        assert_eq!(bounds.map(Nanos::get)[..5], [100, 250, 500, 1_000, 2_500]);
        assert_eq!(bounds[BUCKETS - 1], Nanos::from_secs(500));
        assert!(bounds.is_sorted_by(|a, b| a < b));
    }

    #[test]
    fn a_duration_on_a_bound_belongs_below_it_and_the_longest_are_counted_too() {
        let histogram = DurationHistogram::new();
        for nanos in [0, 100, 101, 250, 600_000_000_000] {
            histogram.record(Nanos::new(nanos));
        }
        let seen = histogram.snapshot();
        let up_to: Vec<u64> = seen.cumulative().map(|(_, count)| count).collect();
        assert_eq!((up_to[0], up_to[1], up_to[2], up_to[BUCKETS - 1]), (2, 4, 4, 4));
        assert_eq!((seen.count(), seen.sum().get()), (5, 600_000_000_451));
    }
}
