//! The stored bytes of a state: two doubles and the text, or a log's text and its entries.

use tidegate_core::{Limit, Meter, Nanos, Quota, WindowQuota};

use super::bucket::{BucketState, StoredValue};

const SECOND: u64 = Nanos::SECOND.get();
const MICRO: u64 = 1_000;

/// The stored bytes, as an answer has them for a migration.
pub(super) fn raw(stored: &StoredValue) -> Vec<u8> {
    let mut value = Vec::new();
    match (&stored.state, &stored.limit) {
        (BucketState::Word(word), Limit::Meter(meter)) => {
            let (first, second) = pair(meter, *word, stored.written);
            put(&mut value, first);
            put(&mut value, second);
            value.extend_from_slice(stored.text.as_bytes());
        }
        (BucketState::Log(log), _) => {
            value.extend_from_slice(stored.text.as_bytes());
            value.push(b'\n');
            let mut sum = 0_u32;
            for (at, tokens) in log.entries() {
                sum = sum.wrapping_add(tokens);
                put(&mut value, at.get() / MICRO);
                put(&mut value, tokens.into());
                put(&mut value, sum.into());
            }
        }
        _ => value.extend_from_slice(b"nonsense"),
    }
    value
}

fn put(value: &mut Vec<u8>, number: u64) {
    value.extend_from_slice(&(number as f64).to_le_bytes());
}

fn pair(meter: &Meter, word: u64, written: Nanos) -> (u64, u64) {
    match meter {
        Meter::TokenBucket(quota) => {
            let base = Period::of(quota).ticks;
            (word / base, word % base)
        }
        Meter::SlidingWindow(quota) | Meter::FixedWindow(quota) => {
            let (number, before, now) = quota.counts(word, written);
            (number, u64::from(before) << 20 | u64::from(now))
        }
    }
}

/// The shortest span of whole seconds that is a whole number of a bucket's ticks.
struct Period {
    seconds: u64,
    ticks: u64,
}

impl Period {
    fn of(quota: &Quota) -> Period {
        let ticks = quota.ticks();
        let mut divisor = (ticks.nanos, SECOND);
        while divisor.1 != 0 {
            divisor = (divisor.1, divisor.0 % divisor.1);
        }
        Period { seconds: ticks.nanos / divisor.0, ticks: SECOND / divisor.0 * ticks.ticks }
    }
}

/// The replacement of a state that lies too far in the future to be valid: used up as of now. `None` if it is valid.
pub(super) fn replacement_if_too_far(limit: &Limit, kept: &BucketState, now: Nanos) -> Option<BucketState> {
    match (limit, kept) {
        (Limit::Meter(meter @ Meter::TokenBucket(quota)), BucketState::Word(word)) => {
            let all = tidegate_core::Cost::new(quota.capacity());
            let empty = meter.charge(0, all, now).expect("an untouched bucket holds its capacity");
            let span = u64::from(quota.capacity()) * quota.ticks().token;
            let period = Period::of(quota);
            let far = 2 * (span / period.ticks + 1) + Nanos::DAY.get().div_ceil(period.seconds * SECOND);
            let now = (empty - span) / period.ticks;
            (word / period.ticks > now + far).then_some(BucketState::Word(empty))
        }
        (
            Limit::Meter(meter @ (Meter::SlidingWindow(quota) | Meter::FixedWindow(quota))),
            BucketState::Word(word),
        ) => {
            let here = now.get() / quota.length().get();
            let (number, before, counted) = quota.counts(*word, now);
            let is_far = before + counted > 0 && number > here + far_windows(meter, quota);
            is_far.then(|| BucketState::Word(quota.word(here, quota.limit(), quota.limit())))
        }
        (Limit::Log(quota), BucketState::Log(log)) => {
            let far = Nanos::new(2 * quota.window().get()).saturating_add(Nanos::DAY);
            let newest = log.entries().last().map_or(Nanos::ZERO, |(at, _)| at);
            let all = tidegate_core::sliding_log::Log::from_entries([(now, quota.limit())]);
            (newest > now.saturating_add(far)).then_some(BucketState::Log(all))
        }
        _ => None,
    }
}

/// Two windows and a day, or one minute where the number of a window wraps.
fn far_windows(meter: &Meter, quota: &WindowQuota) -> u64 {
    let sees_all = meter.as_of(Nanos::ZERO, Nanos::END) == Nanos::END;
    match sees_all {
        true => 2 + Nanos::DAY.get().div_ceil(quota.length().get()),
        false => Nanos::MINUTE.get().div_ceil(quota.length().get()),
    }
}
