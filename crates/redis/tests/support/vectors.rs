//! Random limits, states and questions.

use tidegate::{Cost, Limit, LogQuota, Meter, Nanos, Quota, WindowQuota};
use tidegate_redis::testing::countable;

/// One seed, one sequence (SplitMix64).
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.0;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^ (word >> 31)
    }

    /// Below `end`.
    pub fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    pub fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len() as u64) as usize]
    }

    pub fn chance(&mut self, one_in: u64) -> bool {
        self.below(one_in) == 0
    }

    /// Up to `most`, small ones as often as large ones.
    pub fn spread(&mut self, most: u64) -> u64 {
        let bits = self.below(65 - u64::from(most.leading_zeros()));
        (self.next() & ((1_u64 << bits.min(63)) - 1)).min(most)
    }

    /// An instant between 2025 and 2050, a whole number of microseconds.
    pub fn now(&mut self) -> Nanos {
        let micros = 1_740_000_000_000_000 + self.below(790_000_000_000_000);
        let micros = if self.chance(4) { micros / 1_000_000 * 1_000_000 } else { micros };
        Nanos::new(micros * 1_000)
    }

    pub fn limit(&mut self) -> Limit {
        loop {
            let limit = match self.below(5) {
                0 | 1 => self.bucket(),
                2 => self.window().map(Limit::sliding_window),
                3 => self.window().map(Limit::fixed_window),
                _ => self.log(),
            };
            if let Some(limit) = limit.filter(countable) {
                return limit;
            }
        }
    }

    fn span(&mut self) -> Nanos {
        let day = Nanos::DAY.get();
        let usual = [1_000_000, 10_000_000, 1_000_000_000, 60_000_000_000, 3_600_000_000_000, day, 7 * day];
        let rare = [30 * day, 366 * day, 1_000, 17_000_000, 1_234_567_000_000, 52 * day];
        Nanos::new(if self.chance(4) { self.pick(&rare) } else { self.pick(&usual) })
    }

    fn bucket(&mut self) -> Option<Limit> {
        let tokens = match self.below(4) {
            0 => self.pick(&[1, 2, 3, 7, 11, 999_983, 999_999_999, 1_000_000_000]),
            1 => 1 + self.spread(10),
            _ => 1 + self.spread(2_000_000_000),
        };
        let capacity = if self.chance(4) { u32::MAX } else { 1 + self.spread(4_000_000_000) as u32 };
        Quota::new(tokens, self.span(), capacity).ok().map(Limit::from)
    }

    fn window(&mut self) -> Option<WindowQuota> {
        let limit = if self.chance(4) { 1_000_000 } else { 1 + self.spread(999_999) as u32 };
        WindowQuota::new(limit, self.span()).ok()
    }

    fn log(&mut self) -> Option<Limit> {
        LogQuota::new(1 + self.spread(9_999) as u32, self.span()).ok().map(Limit::from)
    }

    pub fn cost(&mut self, limit: &Limit) -> Cost {
        let most = limit.capacity();
        Cost::new(match self.below(8) {
            0 => 0,
            1 => most,
            2 => most.saturating_add(1 + self.spread(100) as u32),
            3 => most / 2,
            4 => u32::MAX,
            _ => 1 + self.spread(u64::from(most)) as u32,
        })
    }

    /// Mostly none.
    pub fn delay(&mut self, limit: &Limit) -> Nanos {
        if !self.chance(4) {
            return Nanos::ZERO;
        }
        let most = match limit {
            Limit::Meter(Meter::TokenBucket(quota)) => {
                let nanos = u128::from(quota.capacity()) * u128::from(quota.rate().nanos());
                (nanos / u128::from(quota.rate().tokens())) as u64
            }
            Limit::Meter(Meter::SlidingWindow(quota) | Meter::FixedWindow(quota)) => quota.length().get() * 2,
            Limit::Log(quota) => quota.window().get() * 2,
        };
        Nanos::new(self.spread(most.min(30 * Nanos::DAY.get()) / 1_000) * 1_000)
    }

    /// A state that may be at `now`: often just where a cost begins to fit.
    pub fn word(&mut self, meter: &Meter, cost: Cost, now: Nanos) -> u64 {
        if self.chance(4) {
            return 0;
        }
        match meter {
            Meter::TokenBucket(quota) => {
                let span = quota.ticks().token * u64::from(quota.capacity());
                let all = Cost::new(quota.capacity());
                let here = meter.charge(0, all, now).expect("a full bucket holds all") - span;
                if self.chance(2) && cost.get() <= quota.capacity() {
                    // Where the cost just fits, or just does not.
                    let room = span - quota.ticks().token * u64::from(cost.get());
                    return here + (room + self.below(3)).saturating_sub(1);
                }
                match self.below(3) {
                    0 => here - self.spread(span.min(here)),
                    1 => here + self.spread(span + span / 2),
                    _ => here + self.below(span + 1),
                }
            }
            Meter::SlidingWindow(quota) | Meter::FixedWindow(quota) => {
                let here = now.get() / quota.length().get();
                let ahead = (10_000_000_000 / quota.length().get()).min(3);
                let number = here + self.below(ahead + 1) - self.below(4).min(here);
                let limit = u64::from(quota.limit());
                let fitting = limit.saturating_sub(u64::from(cost.get()));
                let count = if self.chance(3) { fitting } else { self.spread(limit) };
                let before = self.spread(limit) as u32;
                // Somebody who was trusted may have used more.
                let (before, count) = match self.below(8) {
                    0 => (quota.count_max() - before.min(quota.count_max()), count as u32),
                    1 => (before, quota.count_max()),
                    _ => (before, count as u32),
                };
                quota.word(number, before, count)
            }
        }
    }

    /// What a log may have at `now`.
    pub fn log_entries(&mut self, quota: &LogQuota, now: Nanos) -> Vec<(Nanos, u32)> {
        let count = self.spread(40.min(u64::from(quota.limit())));
        let window = quota.window().get() / 1_000;
        let mut ats: Vec<u64> = (0..count)
            .map(|_| now.get() / 1_000 + window / 10 - self.below(window + window / 3 + 1))
            .collect();
        ats.sort_unstable();
        ats.dedup();
        let mut left = quota.limit();
        let mut entries = Vec::new();
        for at in ats {
            let tokens =
                (1 + self.spread(u64::from(quota.limit()) / count.max(1))).min(u64::from(left)) as u32;
            if tokens > 0 {
                left -= tokens;
                entries.push((Nanos::new(at * 1_000), tokens));
            }
        }
        entries
    }
}
