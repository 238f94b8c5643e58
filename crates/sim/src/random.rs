//! The one source of chance: a seed, and all that follows from it.

/// A generator of numbers (xoshiro256**), seeded by splitmix64.
#[derive(Clone, Debug)]
pub struct Random {
    state: [u64; 4],
}

impl Random {
    /// The numbers that follow from `seed`.
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

    /// A number from `least` to `most`, both included.
    pub fn between(&mut self, least: u64, most: u64) -> u64 {
        debug_assert!(least <= most, "an empty range");
        let width = u128::from(most - least) + 1;
        least + ((u128::from(self.bits()) * width) >> 64) as u64
    }

    /// True so many times in a thousand.
    pub fn chance(&mut self, per_mille: u64) -> bool {
        self.between(1, 1_000) <= per_mille
    }

    /// One of them.
    pub fn pick<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        &of[self.between(0, of.len() as u64 - 1) as usize]
    }

    /// About `mean` on the average, and now and then much longer: a whole number of microseconds in
    /// nanoseconds, as waits between independent arrivals are.
    pub fn wait_about(&mut self, mean_micros: u64) -> u64 {
        // The sum of a geometric number of halves: cheap, whole, and long in the tail.
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
    fn ranges_are_covered_and_kept() {
        let mut random = Random::new(1);
        let mut seen = [0_u32; 6];
        for _ in 0..6_000 {
            seen[random.between(0, 5) as usize] += 1;
        }
        assert!(seen.iter().all(|&count| (850..1_150).contains(&count)), "{seen:?}");
        assert_eq!(random.between(9, 9), 9);
        assert!(random.between(0, u64::MAX) > 0);
    }

    #[test]
    fn waits_have_their_mean() {
        let mut random = Random::new(2);
        let sum: u64 = (0..10_000).map(|_| random.wait_about(1_000)).sum();
        let mean_micros = sum / 10_000 / 1_000;
        assert!((900..1_100).contains(&mean_micros), "{mean_micros}");
    }
}
