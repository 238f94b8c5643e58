//! Random limits, states and charges.

use tidegate::testing::Random;
use tidegate::{Cost, Limit, LogQuota, Meter, Nanos, Quota, WindowQuota};
use tidegate_redis::testing::countable;

/// Up to `most`, small ones as often as large ones.
pub fn spread(random: &mut Random, most: u64) -> u64 {
    let bits = random.below(65 - u64::from(most.leading_zeros()));
    (random.bits() & ((1_u64 << bits.min(63)) - 1)).min(most)
}

/// An instant between 2025 and 2050, a whole number of microseconds.
pub fn now(random: &mut Random) -> Nanos {
    let micros = 1_740_000_000_000_000 + random.below(790_000_000_000_000);
    let micros = if random.once_in(4) { micros / 1_000_000 * 1_000_000 } else { micros };
    Nanos::new(micros * 1_000)
}

pub fn limit(random: &mut Random) -> Limit {
    loop {
        let limit = match random.below(5) {
            0 | 1 => bucket(random),
            2 => window(random).map(Limit::sliding_window),
            3 => window(random).map(Limit::fixed_window),
            _ => log(random),
        };
        if let Some(limit) = limit.filter(countable) {
            return limit;
        }
    }
}

fn span(random: &mut Random) -> Nanos {
    let day = Nanos::DAY.get();
    let usual = [1_000_000, 10_000_000, 1_000_000_000, 60_000_000_000, 3_600_000_000_000, day, 7 * day];
    let rare = [30 * day, 366 * day, 1_000, 17_000_000, 1_234_567_000_000, 52 * day];
    Nanos::new(if random.once_in(4) { *random.pick(&rare) } else { *random.pick(&usual) })
}

fn bucket(random: &mut Random) -> Option<Limit> {
    let tokens = match random.below(4) {
        0 => *random.pick(&[1, 2, 3, 7, 11, 999_983, 999_999_999, 1_000_000_000]),
        1 => 1 + spread(random, 10),
        _ => 1 + spread(random, 2_000_000_000),
    };
    let capacity = if random.once_in(4) { u32::MAX } else { 1 + spread(random, 4_000_000_000) as u32 };
    Quota::new(tokens, span(random), capacity).ok().map(Limit::from)
}

fn window(random: &mut Random) -> Option<WindowQuota> {
    let limit = if random.once_in(4) { 1_000_000 } else { 1 + spread(random, 999_999) as u32 };
    WindowQuota::new(limit, span(random)).ok()
}

fn log(random: &mut Random) -> Option<Limit> {
    LogQuota::new(1 + spread(random, 9_999) as u32, span(random)).ok().map(Limit::from)
}

pub fn cost(random: &mut Random, limit: &Limit) -> Cost {
    let most = limit.capacity();
    Cost::new(match random.below(8) {
        0 => 0,
        1 => most,
        2 => most.saturating_add(1 + spread(random, 100) as u32),
        3 => most / 2,
        4 => u32::MAX,
        _ => 1 + spread(random, u64::from(most)) as u32,
    })
}

/// Mostly zero.
pub fn delay(random: &mut Random, limit: &Limit) -> Nanos {
    if !random.once_in(4) {
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
    Nanos::new(spread(random, most.min(30 * Nanos::DAY.get()) / 1_000) * 1_000)
}

/// A state that may be at `now`: often just where a cost begins to fit.
pub fn word(random: &mut Random, meter: &Meter, cost: Cost, now: Nanos) -> u64 {
    if random.once_in(4) {
        return 0;
    }
    match meter {
        Meter::TokenBucket(quota) => {
            let span = quota.ticks().token * u64::from(quota.capacity());
            let all = Cost::new(quota.capacity());
            let here = meter.charge(0, all, now).expect("a full bucket holds all") - span;
            if random.once_in(2) && cost.get() <= quota.capacity() {
                // Where the cost just fits, or just does not.
                let room = span - quota.ticks().token * u64::from(cost.get());
                return here + (room + random.below(3)).saturating_sub(1);
            }
            match random.below(3) {
                0 => here - spread(random, span.min(here)),
                1 => here + spread(random, span + span / 2),
                _ => here + random.below(span + 1),
            }
        }
        Meter::SlidingWindow(quota) | Meter::FixedWindow(quota) => {
            let here = now.get() / quota.length().get();
            let ahead = (10_000_000_000 / quota.length().get()).min(3);
            let number = here + random.below(ahead + 1) - random.below(4).min(here);
            let limit = u64::from(quota.limit());
            let fitting = limit.saturating_sub(u64::from(cost.get()));
            let count = if random.once_in(3) { fitting } else { spread(random, limit) };
            let before = spread(random, limit) as u32;
            // A trusted key may have used more than the limit.
            let (before, count) = match random.below(8) {
                0 => (quota.count_max() - before.min(quota.count_max()), count as u32),
                1 => (before, quota.count_max()),
                _ => (before, count as u32),
            };
            quota.word(number, before, count)
        }
    }
}

/// Random entries of a log at `now`.
pub fn log_entries(random: &mut Random, quota: &LogQuota, now: Nanos) -> Vec<(Nanos, u32)> {
    let count = spread(random, 40.min(u64::from(quota.limit())));
    let window = quota.window().get() / 1_000;
    let mut ats: Vec<u64> =
        (0..count).map(|_| now.get() / 1_000 + window / 10 - random.below(window + window / 3 + 1)).collect();
    ats.sort_unstable();
    ats.dedup();
    let mut left = quota.limit();
    let mut entries = Vec::new();
    for at in ats {
        let tokens =
            (1 + spread(random, u64::from(quota.limit()) / count.max(1))).min(u64::from(left)) as u32;
        if tokens > 0 {
            left -= tokens;
            entries.push((Nanos::new(at * 1_000), tokens));
        }
    }
    entries
}
