//! A token bucket: tokens at an instant, refilled at a rate up to a capacity.

use num_traits::ToPrimitive;

use super::exact::{Exact, ceil, floor, whole};
use super::meter::Quota;

/// The level of tokens, and the instant of the last change. After a charge in advance the instant is in the future, and
/// until then the level is in effect below zero.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Bucket {
    tokens: Exact,
    at: Exact,
    quota: Quota,
}

/// The level, the nanoseconds until the bucket is full, and the time until it holds the cost.
///
/// A bucket that was last charged in other numbers refills at their rate until it is charged again, and a denial does
/// not charge. A request that waits as long as a denial says must be admitted, so the wait is the longer one of both
/// numbers, and the bucket is not full before.
pub(crate) fn look(bucket: Option<&Bucket>, quota: &Quota, cost: i128, now: i128) -> (Exact, i128, Exact) {
    let here = level(bucket, quota, now);
    let times = |level: &Exact, rate: &Exact| {
        let until = |tokens: i128| ((whole(tokens) - level) / rate).max(whole(0));
        (ceil(&until(quota.capacity)), until(cost.min(quota.capacity)))
    };
    let (mut full_in, mut enough_in) = times(&here, &quota.rate);
    let names_a_wait = cost > 0 && here < whole(cost) && cost <= quota.capacity;
    if let Some(other) = bucket.filter(|bucket| names_a_wait && bucket.quota != *quota) {
        let held_in = |tokens: i128| other.held_in(tokens, quota, now);
        full_in = full_in.max(ceil(&held_in(quota.capacity)));
        enough_in = enough_in.max(held_in(cost));
    }
    (here, full_in, enough_in)
}

/// The bucket after taking the cost.
pub(crate) fn charge(bucket: Option<&Bucket>, quota: &Quota, cost: i128, now: i128) -> Bucket {
    let tokens = level(bucket, quota, now) - whole(cost);
    Bucket { tokens, at: Clock::of(quota).reads(now), quota: quota.clone() }
}

fn level(bucket: Option<&Bucket>, quota: &Quota, now: i128) -> Exact {
    // A new bucket is full.
    let Some(bucket) = bucket else { return whole(quota.capacity) };
    let level = bucket.came_in(now);
    if bucket.quota == *quota {
        return level.min(whole(quota.capacity));
    }
    if level < whole(0) {
        // A charge in advance is owed until an instant, to the nanosecond, whatever the numbers.
        let clock = Clock::of(quota);
        let empty_until = ceil(&(&bucket.at - &bucket.tokens / &bucket.quota.rate));
        return &quota.rate * (clock.reads(now) - clock.reads(empty_until));
    }
    if bucket.quota.overridden != quota.overridden && level >= whole(bucket.quota.capacity) {
        // Full since an instant, to the nanosecond; since then it fills up in the new numbers.
        let full_at = bucket.full_at().min(now);
        let clock = Clock::of(quota);
        let since = clock.reads(now) - clock.reads(full_at);
        let held = whole(bucket.quota.capacity) + &quota.rate * since;
        return held.min(whole(quota.capacity));
    }
    // In other numbers: the same number of tokens, up to the capacity there.
    Clock::of(quota).rounds_down(&level).min(whole(quota.capacity))
}

impl Bucket {
    /// The override in whose numbers it was last charged.
    pub(crate) fn overridden(&self) -> Option<&str> {
        self.quota.overridden.as_deref()
    }

    /// Has so much come in by an instant, even if that is more than the capacity?
    pub(crate) fn has_received(&self, tokens: i128, by: i128) -> bool {
        self.came_in(by) >= whole(tokens)
    }

    /// Is it full at an instant?
    pub(crate) fn is_full(&self, at: i128) -> bool {
        self.has_received(self.quota.capacity, at)
    }

    /// The time until a bucket that is not charged meanwhile holds so many tokens for a charge by `quota`.
    fn held_in(&self, tokens: i128, quota: &Quota, now: i128) -> Exact {
        if self.quota.overridden == quota.overridden || tokens <= self.quota.capacity {
            return ((whole(tokens) - self.came_in(now)) / &self.quota.rate).max(whole(0));
        }
        // It is full at an instant, to the nanosecond; from then on it fills up in the new numbers.
        let full_at = self.full_at();
        let rest = whole(tokens - self.quota.capacity) / &quota.rate;
        (Clock::of(quota).reads(full_at) + rest).max(whole(full_at)) - whole(now)
    }

    /// The instant at which it is full, rounded up to the nanosecond.
    fn full_at(&self) -> i128 {
        let missing = whole(self.quota.capacity) - &self.tokens;
        ceil(&(&self.at + missing / &self.quota.rate))
    }

    /// The level, and what has come in since the bucket was full: a request with more trust may take that.
    fn came_in(&self, now: i128) -> Exact {
        let elapsed = Clock::of(&self.quota).reads(now) - &self.at;
        &self.tokens + &self.quota.rate * elapsed
    }
}

/// The clock of a quota: a token takes a whole number of its ticks.
struct Clock {
    ticks_per_nano: Exact,
    ticks_per_token: i128,
}

/// The last instant that exists, ninety years after the epoch.
const END: i128 = 90 * 8_766 * 3_600 * 1_000_000_000;

impl Clock {
    fn of(quota: &Quota) -> Clock {
        let tokens = quota.rate.numer().to_i128().expect("a small rate");
        let nanos = quota.rate.denom().to_i128().expect("a small window");
        if quota.capacity * nanos + END * tokens <= i128::from(u64::MAX) {
            return Clock { ticks_per_nano: whole(tokens), ticks_per_token: nanos };
        }
        let ticks_per_token = ceil(&Exact::new(nanos.into(), tokens.into()));
        Clock { ticks_per_nano: Exact::new((tokens * ticks_per_token).into(), nanos.into()), ticks_per_token }
    }

    /// An instant, rounded down to the tick.
    fn reads(&self, now: i128) -> Exact {
        (whole(now) * &self.ticks_per_nano).floor() / &self.ticks_per_nano
    }

    /// Tokens, rounded down to a multiple of what one tick adds.
    fn rounds_down(&self, tokens: &Exact) -> Exact {
        whole(floor(&(tokens * whole(self.ticks_per_token)))) / whole(self.ticks_per_token)
    }
}

#[cfg(test)]
mod tests {
    use super::super::exact::{Wait, fraction};
    use super::super::meter::{self, Algorithm};
    use super::*;

    fn per_second(rate: i128, capacity: i128) -> Quota {
        let rate = fraction(rate, 1_000_000_000);
        Quota { algorithm: Algorithm::TokenBucket, rate, window: 1_000_000_000, capacity, overridden: None }
    }

    #[test]
    fn a_third_of_a_second_is_exact() {
        let quota = per_second(3, 1);
        let used = meter::charge(None, &quota, 1, 0);
        let wait = meter::look(Some(&used), &quota, 1, 0).wait;
        assert_eq!(wait, Wait::For(333_333_334));
        assert!(!meter::look(Some(&used), &quota, 1, 333_333_333).admits);
        assert!(meter::look(Some(&used), &quota, 1, 333_333_334).admits);
    }

    #[test]
    fn a_stretched_tick_still_refills_exactly() {
        let quota = per_second(999_983, 10);
        let used = meter::charge(None, &quota, 10, 0);
        assert_eq!(meter::look(Some(&used), &quota, 0, 10_000).remaining, 9);
        assert!(meter::look(Some(&used), &quota, 10, 10_001).admits);
        let clock = Clock::of(&quota);
        assert_eq!(clock.reads(1_000_000_000), whole(1_000_000_000));
        assert!(clock.reads(1_000) <= whole(1_000));
    }

    #[test]
    fn tokens_are_carried_and_fullness_is_not() {
        let (small, large) = (per_second(1, 10), per_second(2, 20));
        let full_again = meter::charge(None, &small, 1, 0);
        let left = |second: i128| meter::look(Some(&full_again), &large, 0, second * 1_000_000_000).remaining;
        assert_eq!([left(0), left(1), left(2), left(11), left(60)], [9, 10, 11, 20, 20]);
        let nearly = meter::charge(None, &large, 1, 0);
        assert_eq!(meter::look(Some(&nearly), &small, 0, 0).remaining, 10, "capped");
    }

    #[test]
    fn a_reservation_reads_as_nothing_left() {
        let quota = per_second(1, 2);
        let empty = meter::charge(None, &quota, 2, 0);
        let reserved = meter::charge(Some(&empty), &quota, 2, 2_000_000_000);
        let reading = meter::look(Some(&reserved), &quota, 1, 0);
        assert_eq!((reading.remaining, reading.reset), (0, 4_000_000_000));
        assert_eq!(reading.wait, Wait::For(3_000_000_000));
    }
}
