//! The sequence of keys in a measurement: generated before anything is timed, and the same in every run.

use tidegate::testing::Random;

/// `count` numbers below `keys`, uniformly distributed.
pub(crate) fn uniform(keys: u32, count: usize, seed: u64) -> Vec<u32> {
    let mut random = Random::new(seed);
    (0..count).map(|_| random.below(keys.into()) as u32).collect()
}

/// Numbers with a Zipf distribution: the share of the k-th most popular is proportional to 1/k.
#[derive(Debug)]
pub(crate) struct Zipf {
    /// The cumulative share up to each rank.
    sums: Vec<f64>,
    /// The number at each rank; popular numbers are shuffled, because neighbours would share cache
    /// lines where the number is an index into memory.
    by_rank: Vec<u32>,
}

impl Zipf {
    pub(crate) fn new(keys: u32) -> Zipf {
        let mut sum = 0.0;
        let sums = (1..=keys).map(|rank| {
            sum += 1.0 / f64::from(rank);
            sum
        });
        Zipf { sums: sums.collect(), by_rank: shuffled(keys) }
    }

    pub(crate) fn draw(&self, count: usize, seed: u64) -> Vec<u32> {
        let mut random = Random::new(seed);
        (0..count).map(|_| self.by_rank[self.rank(random.unit())]).collect()
    }

    /// The rank, from zero, that a point in `[0, 1)` falls on.
    fn rank(&self, point: f64) -> usize {
        let target = point * self.sums.last().copied().unwrap_or_default();
        self.sums.partition_point(|&sum| sum <= target).min(self.sums.len() - 1)
    }
}

fn shuffled(end: u32) -> Vec<u32> {
    let mut numbers: Vec<u32> = (0..end).collect();
    let mut random = Random::new(u64::from(end));
    for last in (1..end).rev() {
        numbers.swap(last as usize, random.index(last as usize + 1));
    }
    numbers
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uniform_reaches_everything_alike() {
        let mut counts = [0_u32; 10];
        uniform(10, 100_000, 1).iter().for_each(|&number| counts[number as usize] += 1);
        assert!(counts.iter().all(|count| (9_500..10_500).contains(count)), "{counts:?}");
        assert_eq!(uniform(10, 100, 7), uniform(10, 100, 7), "the same in every run");
        assert_ne!(uniform(10, 100, 7), uniform(10, 100, 8));
    }

    #[test]
    fn zipf_gives_each_rank_its_share() {
        let zipf = Zipf::new(1_000);
        let drawn = 1_000_000;
        let mut counts = vec![0_u32; 1_000];
        zipf.draw(drawn, 3).iter().for_each(|&number| counts[number as usize] += 1);
        let harmonic: f64 = (1..=1_000).map(|rank| 1.0 / f64::from(rank)).sum();
        for rank in [1, 2, 10, 100] {
            let expected = drawn as f64 / f64::from(rank) / harmonic;
            let seen = f64::from(counts[zipf.by_rank[rank as usize - 1] as usize]);
            assert!((seen / expected - 1.0).abs() < 0.1, "rank {rank}: {seen} of {expected}");
        }
        assert!(counts.iter().all(|&count| count > 0), "and leaves nobody out");
    }

    #[test]
    fn zipf_has_a_place_for_every_point() {
        let zipf = Zipf::new(3);
        assert_eq!(zipf.rank(0.0), 0);
        assert_eq!(zipf.rank(0.54), 0, "the first has 6 of 11");
        assert_eq!(zipf.rank(0.55), 1);
        assert_eq!(zipf.rank(1.0), 2, "rounding must not lead out of the table");
    }

    #[test]
    fn shuffling_keeps_every_number() {
        let mut numbers = shuffled(1_000);
        assert!(!numbers.is_sorted());
        numbers.sort_unstable();
        assert!(numbers.into_iter().eq(0..1_000));
    }
}
