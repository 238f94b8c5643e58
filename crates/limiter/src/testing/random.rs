//! The source of randomness for tests, simulations, fuzzers and benchmarks, determined by a seed.

/// A random number generator (xoshiro256**), seeded by splitmix64. A seed must always give the same numbers,
/// because seeds of failed runs are kept.
#[derive(Clone, Debug)]
pub struct Random {
    state: [u64; 4],
}

impl Random {
    /// The generator for a seed.
    pub fn new(seed: u64) -> Random {
        let mut mixed = seed;
        let state = std::array::from_fn(|_| {
            mixed = mixed.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut word = mixed;
            word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            word ^ (word >> 31)
        });
        Random { state }
    }

    /// The next 64 bits.
    pub fn bits(&mut self) -> u64 {
        let [a, b, c, d] = self.state;
        let result = b.wrapping_mul(5).rotate_left(7).wrapping_mul(9);
        let (c, d) = (c ^ a, d ^ b);
        self.state = [a ^ d, b ^ c, c ^ (b << 17), d.rotate_left(45)];
        result
    }

    /// A number from `least` to `most`, both inclusive.
    ///
    /// # Panics
    /// The range is empty.
    pub fn between(&mut self, least: u64, most: u64) -> u64 {
        assert!(least <= most, "an empty range: {least} to {most}");
        let width = u128::from(most - least) + 1;
        least + ((u128::from(self.bits()) * width) >> 64) as u64
    }

    /// A number below `end`; zero if `end` is zero.
    pub fn below(&mut self, end: u64) -> u64 {
        ((u128::from(self.bits()) * u128::from(end)) >> 64) as u64
    }

    /// An index into a slice of this length; zero if it is empty.
    pub fn index(&mut self, len: usize) -> usize {
        self.below(len as u64) as usize
    }

    /// A number in `[0, 1)`.
    pub fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// True with a probability of one in `times`.
    pub fn once_in(&mut self, times: u64) -> bool {
        self.below(times) == 0
    }

    /// True with a probability of `per_mille` thousandths.
    pub fn chance(&mut self, per_mille: u64) -> bool {
        self.between(1, 1_000) <= per_mille
    }

    /// One of the items.
    ///
    /// # Panics
    /// There is none.
    pub fn pick<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        &of[self.index(of.len())]
    }

    /// A wait between independent arrivals, in nanoseconds: a whole number of microseconds, `mean` on average,
    /// and now and then much longer.
    pub fn wait_about(&mut self, mean_micros: u64) -> u64 {
        // The sum of a geometrically distributed number of terms: cheap, whole, and with a long tail.
        let mut wait = self.between(0, mean_micros);
        while self.chance(500) {
            wait += self.between(0, mean_micros);
        }
        wait.max(1) * 1_000
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_seed_gives_one_row_of_numbers() {
        let row = |seed| {
            let mut random = Random::new(seed);
            std::array::from_fn::<u64, 8, _>(|_| random.bits())
        };
        assert_eq!(row(7), row(7));
        assert_ne!(row(7), row(8));
    }

    #[test]
    fn a_seed_gives_the_same_numbers_for_ever() {
        let mut random = Random::new(42);
        let row: [u64; 3] = std::array::from_fn(|_| random.bits());
        assert_eq!(row, [0x1578_0b2e_0c2e_c716, 0x6104_d986_6d11_3a7e, 0xae17_5332_39e4_99a1]);
    }

    #[test]
    fn ranges_are_covered_and_kept() {
        let mut random = Random::new(1);
        let mut seen = [0_u32; 6];
        for _ in 0..6_000 {
            seen[random.between(0, 5) as usize] += 1;
        }
        assert!(seen.iter().all(|&count| (850..1_150).contains(&count)), "{seen:?}");
        assert_eq!(random.between(9, 9), 9);
        assert!(random.between(0, u64::MAX) > 0);
        assert_eq!((random.below(0), random.index(0), random.below(1)), (0, 0, 0));
        assert!((0..1_000).all(|_| (0.0..1.0).contains(&random.unit())));
        let once = (0..4_000).filter(|_| random.once_in(4)).count();
        assert!((850..1_150).contains(&once), "{once}");
    }

    #[test]
    fn waits_have_their_mean() {
        let mut random = Random::new(2);
        let sum: u64 = (0..10_000).map(|_| random.wait_about(1_000)).sum();
        let mean_micros = sum / 10_000 / 1_000;
        assert!((900..1_100).contains(&mean_micros), "{mean_micros}");
    }
}
