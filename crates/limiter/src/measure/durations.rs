//! A histogram of durations that threads fill without contention.

use tidegate_core::Nanos;

use super::Totals;

/// Counts durations in buckets whose bounds grow by 1, 2.5, 5, 10: from 100 ns to 500 s, or within a part of that.
///
/// ```
/// use tidegate::Nanos;
/// use tidegate::measure::DurationHistogram;
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
    /// One counter for each, then one for longer durations.
    bounds: &'static [Nanos],
}

const BUCKETS: usize = 30;
const SUM: usize = BUCKETS + 1;

static ALL_BOUNDS: [Nanos; BUCKETS] = DurationHistogram::BOUNDS;

impl DurationHistogram {
    /// The inclusive upper bounds that buckets can have. Longer durations are counted too, but have no bucket of
    /// their own.
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

    /// With all of the bounds.
    pub fn new() -> DurationHistogram {
        DurationHistogram::between(Nanos::ZERO, Nanos::MAX)
    }

    /// With the bounds from `shortest` to `longest`, both included: each bucket is a time series, so a histogram has
    /// none where its durations do not lie.
    pub fn between(shortest: Nanos, longest: Nanos) -> DurationHistogram {
        let from = ALL_BOUNDS.partition_point(|bound| *bound < shortest);
        let to = ALL_BOUNDS.partition_point(|bound| *bound <= longest).max(from);
        DurationHistogram { totals: Totals::new(SUM + 1), bounds: &ALL_BOUNDS[from..to] }
    }

    /// Counts a duration.
    #[inline]
    pub fn record(&self, took: Nanos) {
        self.totals.add(self.bounds.partition_point(|bound| *bound < took));
        self.totals.add_many(SUM, took.get());
    }

    /// Counts several operations that took this long together, each with an equal part of it.
    pub fn record_together(&self, count: u64, took: Nanos) {
        if let Some(share) = took.get().checked_div(count) {
            self.totals.add_many(self.bounds.partition_point(|bound| bound.get() < share), count);
            self.totals.add_many(SUM, took.get());
        }
    }

    /// The current values.
    pub fn snapshot(&self) -> DurationSnapshot {
        let counts = std::array::from_fn(|bucket| self.totals.get(bucket));
        DurationSnapshot { bounds: self.bounds, counts, sum: Nanos::new(self.totals.get(SUM)) }
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
    bounds: &'static [Nanos],
    counts: [u64; BUCKETS + 1],
    sum: Nanos,
}

impl DurationSnapshot {
    /// For each bound, the number of durations that are not longer.
    pub fn cumulative(&self) -> impl Iterator<Item = (Nanos, u64)> + '_ {
        let running = self.counts.iter().scan(0_u64, |so_far, count| {
            *so_far += count;
            Some(*so_far)
        });
        self.bounds.iter().copied().zip(running)
    }

    /// The number of durations in each bucket, with its bound; the last one has no bound.
    pub fn buckets(&self) -> impl Iterator<Item = (Option<Nanos>, u64)> + '_ {
        let bounds = self.bounds.iter().copied().map(Some).chain(std::iter::once(None));
        bounds.zip(self.counts.iter().copied())
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
    #[test]
    fn a_part_of_the_bounds_counts_what_lies_outside_too() {
        let histogram = DurationHistogram::between(Nanos::new(10_000), Nanos::from_millis(1));
        for nanos in [1, 10_000, 10_001, 1_000_000, 1_000_001] {
            histogram.record(Nanos::new(nanos));
        }
        histogram.record_together(2, Nanos::from_secs(2));
        let seen = histogram.snapshot();
        let up_to: Vec<(u64, u64)> = seen.cumulative().map(|(bound, count)| (bound.get(), count)).collect();
        assert_eq!((up_to[0], up_to[1], up_to[up_to.len() - 1]), ((10_000, 2), (25_000, 3), (1_000_000, 4)));
        assert_eq!((up_to.len(), seen.count(), seen.sum().get()), (7, 7, 2_002_020_003));
        let buckets: Vec<(Option<Nanos>, u64)> = seen.buckets().collect();
        assert_eq!((buckets[0], buckets[7]), ((Some(Nanos::new(10_000)), 2), (None, 3)));
        assert_eq!(buckets.iter().map(|(_, count)| count).sum::<u64>(), seen.count());
        let none = DurationHistogram::between(Nanos::SECOND, Nanos::ZERO);
        none.record(Nanos::SECOND);
        assert_eq!((none.snapshot().cumulative().count(), none.snapshot().count()), (0, 1));
    }
}
