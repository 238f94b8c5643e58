//! One limit, of any algorithm.

use core::fmt;

use crate::window::WindowCounts;
use crate::{Cost, LimitDecision, LogQuota, Nanos, Quota, WindowQuota};
use crate::{fixed_window, sliding_window, token_bucket};

/// How a limit counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Algorithm {
    /// A sustained rate, with bursts.
    TokenBucket,
    /// The count of this window plus the part of the previous one that still weighs.
    SlidingWindow,
    /// Every admitted request is stored with its instant.
    SlidingLog,
    /// One counter per window.
    FixedWindow,
}

/// What happens to the tokens when a limit's numbers are edited. A full bucket stays full in any case.
///
/// Window algorithms count what was used: `AsIs` keeps the counts, capped at the new limit; `Proportional`
/// keeps their fraction of the limit. If the algorithm changes, or the window length of a window algorithm,
/// counting starts anew.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Carry {
    /// As many tokens as before, at most the new capacity.
    #[default]
    AsIs,
    /// The same fraction of the capacity, rounded down.
    Proportional,
    /// Start full.
    Reset,
}

/// A limit whose state is one 64-bit word; zero is the state of an untouched key.
// `repr(u64)` keeps the tag in a word of its own: that costs 8 bytes and saves unpacking it in every decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub enum Meter {
    /// See [`token_bucket`].
    TokenBucket(Quota),
    /// See [`sliding_window`].
    SlidingWindow(WindowQuota),
    /// See [`fixed_window`].
    FixedWindow(WindowQuota),
}

impl Meter {
    /// The quota, if this meter counts in windows. Window meters use the wall clock, since their windows begin
    /// at round times of the day; a token bucket uses a monotonic clock.
    #[inline(always)]
    pub const fn windows(&self) -> Option<&WindowQuota> {
        match self {
            Meter::TokenBucket(_) => None,
            Meter::SlidingWindow(quota) | Meter::FixedWindow(quota) => Some(quota),
        }
    }

    /// The state after taking `cost`, or `None` if the limit cannot admit it. A cost of zero leaves the state
    /// unchanged.
    #[inline(always)]
    #[must_use = "the charge counts only once the returned state is stored"]
    pub fn charge(&self, state: u64, cost: Cost, now: Nanos) -> Option<u64> {
        match self {
            Meter::TokenBucket(quota) => token_bucket::charge(state, quota, cost, now),
            Meter::SlidingWindow(quota) => sliding_window::charge(state, quota, cost, now),
            Meter::FixedWindow(quota) => fixed_window::charge(state, quota, cost, now),
        }
    }

    /// The decision on a [`Meter::charge`], from its result: `Ok` with the state after the charge, or `Err`
    /// with the state that could not admit the cost.
    #[inline(always)]
    pub fn decision(&self, charged: Result<u64, u64>, cost: Cost, now: Nanos) -> LimitDecision {
        match charged {
            Ok(state) => self.peek(state, Cost::ZERO, now),
            Err(state) => self.peek(state, cost, now),
        }
    }

    /// Takes `cost` if the limit can admit it; `None` means that the state is unchanged.
    pub fn take(&self, state: u64, cost: Cost, now: Nanos) -> (LimitDecision, Option<u64>) {
        match self.charge(state, cost, now) {
            Some(next) => (self.decision(Ok(next), cost, now), (next != state).then_some(next)),
            None => (self.decision(Err(state), cost, now), None),
        }
    }

    /// The decision that [`Meter::take`] would return, without taking anything.
    #[inline(always)]
    pub fn peek(&self, state: u64, cost: Cost, now: Nanos) -> LimitDecision {
        match self {
            Meter::TokenBucket(quota) => token_bucket::peek(state, quota, cost, now),
            Meter::SlidingWindow(quota) => sliding_window::peek(state, quota, cost, now),
            Meter::FixedWindow(quota) => fixed_window::peek(state, quota, cost, now),
        }
    }

    /// Gives `cost` back, never above the capacity.
    #[must_use = "the new state must be stored"]
    pub fn refund(&self, state: u64, cost: Cost, now: Nanos) -> u64 {
        match self {
            Meter::TokenBucket(quota) => token_bucket::refund(state, quota, cost, now),
            Meter::SlidingWindow(quota) => sliding_window::refund(state, quota, cost, now),
            Meter::FixedWindow(quota) => fixed_window::refund(state, quota, cost, now),
        }
    }

    /// Undoes a charge made at `charged_at`, as if it had never been made.
    #[must_use = "the new state must be stored"]
    pub fn hand_back(&self, state: u64, cost: Cost, charged_at: Nanos, now: Nanos) -> u64 {
        match self {
            Meter::TokenBucket(quota) => token_bucket::hand_back(state, quota, cost, charged_at, now),
            Meter::SlidingWindow(quota) => sliding_window::hand_back(state, quota, cost, charged_at, now),
            Meter::FixedWindow(quota) => fixed_window::hand_back(state, quota, cost, charged_at, now),
        }
    }

    /// Is nothing used? Then the state can be dropped without losing anything.
    #[inline]
    pub fn is_idle(&self, state: u64, now: Nanos) -> bool {
        match self {
            Meter::TokenBucket(quota) => token_bucket::is_full(state, quota, now),
            Meter::SlidingWindow(quota) => sliding_window::is_idle(state, quota, now),
            Meter::FixedWindow(quota) => fixed_window::is_idle(state, quota, now),
        }
    }

    /// [`Meter::is_idle`] for a key whose trust may rise up to the maximum at any time; `plain` is the capacity
    /// without trust. The state must be idle at the highest trust too: were it dropped earlier, a more trusted
    /// request would find a full bucket and be given the difference.
    #[inline]
    pub fn is_idle_at_any_trust(&self, state: u64, plain: u32, now: Nanos) -> bool {
        match self {
            Meter::TokenBucket(quota) => token_bucket::is_full_up_to(state, quota, 2 * u64::from(plain), now),
            Meter::SlidingWindow(_) | Meter::FixedWindow(_) => self.is_idle(state, now),
        }
    }

    /// [`Meter::is_idle`] for a key that may next be charged with other numbers, of which a bucket takes at most
    /// `longest_fill` to fill. It must have been full for that long: were it dropped earlier, it would be full in those
    /// numbers at once.
    #[inline]
    pub fn is_idle_for(&self, state: u64, longest_fill: Nanos, now: Nanos) -> bool {
        match self {
            Meter::TokenBucket(quota) => {
                // A later `now` is read as the end before anything is subtracted from it.
                let then = now.min(Nanos::END).saturating_sub(longest_fill);
                state == 0 || token_bucket::is_full(state, quota, then)
            }
            Meter::SlidingWindow(_) | Meter::FixedWindow(_) => self.is_idle(state, now),
        }
    }

    /// How much longer [`Meter::is_idle_at_any_trust`] takes than [`Meter::is_idle`].
    pub fn extra_idle_time(&self, plain: u32) -> Nanos {
        match self {
            Meter::TokenBucket(quota) => {
                let more = (2 * u64::from(plain)).saturating_sub(u64::from(quota.capacity()));
                quota.nanos_of(more.saturating_mul(quota.token()))
            }
            Meter::SlidingWindow(_) | Meter::FixedWindow(_) => Nanos::ZERO,
        }
    }

    /// Carries a state over to the same meter at another trust, as of `at`. A bucket keeps its tokens, at most
    /// the new capacity (see [`token_bucket::carry_trust`]); windows keep their counts.
    #[must_use = "the new state must be stored"]
    pub fn carry_trust(&self, state: u64, to: &Meter, at: Nanos) -> u64 {
        match (self, to) {
            (Meter::TokenBucket(from), Meter::TokenBucket(to)) => {
                token_bucket::carry_trust(state, from, to, at)
            }
            (Meter::SlidingWindow(from), Meter::SlidingWindow(to))
            | (Meter::FixedWindow(from), Meter::FixedWindow(to))
                if from.length() == to.length() =>
            {
                WindowCounts::read(state, from, at).capped(to.count_max()).word(to)
            }
            _ => 0,
        }
    }

    /// Carries a state over to the same meter with the numbers of another override, as of `at`. A bucket keeps its
    /// tokens, at most the new capacity (see [`token_bucket::carry_override`]); windows keep their counts, at most twice
    /// the new limit.
    #[must_use = "the new state must be stored"]
    pub fn carry_override(&self, state: u64, to: &Meter, at: Nanos) -> u64 {
        match (self, to) {
            (Meter::TokenBucket(from), Meter::TokenBucket(to)) => {
                token_bucket::carry_override(state, from, to, at)
            }
            _ => self.carry_trust(state, to, at),
        }
    }

    /// The time until a state, if it stays in its own variant, holds `cost` for a charge by `to`, at another trust or
    /// (`is_overridden`) in the numbers of another override; `None` for windows, where staying makes no difference.
    pub fn time_until_held(
        &self,
        state: u64,
        (to, is_overridden): (&Meter, bool),
        cost: Cost,
        now: Nanos,
    ) -> Option<Nanos> {
        match (self, to) {
            (Meter::TokenBucket(from), Meter::TokenBucket(to))
                if is_overridden && cost.get() > from.capacity() =>
            {
                Some(token_bucket::time_until_held_in(state, from, to, cost, now))
            }
            // Only a bucket refills at a rate that depends on trust; the counts of a window are the same
            // whenever they are carried over.
            (Meter::TokenBucket(quota), _) => Some(token_bucket::time_until_held(state, quota, cost, now)),
            (Meter::SlidingWindow(_) | Meter::FixedWindow(_), _) => None,
        }
    }

    /// Carries a state over to the meter that replaces this one at `at`.
    #[must_use = "the new state must be stored"]
    pub fn carry(&self, state: u64, to: &Meter, carry: Carry, at: Nanos) -> u64 {
        match (self, to, carry) {
            (_, _, Carry::Reset) => 0,
            (Meter::TokenBucket(from), Meter::TokenBucket(to), Carry::AsIs) => {
                token_bucket::carry_as_is(state, from, to, at)
            }
            (Meter::TokenBucket(from), Meter::TokenBucket(to), Carry::Proportional) => {
                token_bucket::carry_proportional(state, from, to, at)
            }
            (Meter::SlidingWindow(from), Meter::SlidingWindow(to), _) => {
                carry_counts(state, from, to, carry, at)
            }
            (Meter::FixedWindow(from), Meter::FixedWindow(to), _) => {
                carry_counts(fixed_window::refund(state, from, Cost::ZERO, at), from, to, carry, at)
            }
            _ => 0,
        }
    }
}

fn carry_counts(state: u64, from: &WindowQuota, to: &WindowQuota, carry: Carry, at: Nanos) -> u64 {
    if from.length() != to.length() {
        return 0;
    }
    let counts = WindowCounts::read(state, from, at);
    let counts = match carry {
        Carry::Proportional => counts.scaled(from.limit(), to.limit()),
        Carry::AsIs | Carry::Reset => counts.capped(to.limit()),
    };
    counts.word(to)
}

/// A limit of any algorithm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// A limit whose state is one word.
    Meter(Meter),
    /// A [`sliding_log`](crate::sliding_log), whose state is a list.
    Log(LogQuota),
}

impl Limit {
    /// A token bucket.
    pub const fn token_bucket(quota: Quota) -> Limit {
        Limit::Meter(Meter::TokenBucket(quota))
    }

    /// A sliding window.
    pub const fn sliding_window(quota: WindowQuota) -> Limit {
        Limit::Meter(Meter::SlidingWindow(quota))
    }

    /// A fixed window.
    pub const fn fixed_window(quota: WindowQuota) -> Limit {
        Limit::Meter(Meter::FixedWindow(quota))
    }

    /// A sliding log.
    pub const fn sliding_log(quota: LogQuota) -> Limit {
        Limit::Log(quota)
    }

    /// The meter, if the state is one word.
    #[inline]
    pub const fn meter(&self) -> Option<&Meter> {
        match self {
            Limit::Meter(meter) => Some(meter),
            Limit::Log(_) => None,
        }
    }

    /// How it counts.
    pub const fn algorithm(&self) -> Algorithm {
        match self {
            Limit::Meter(Meter::TokenBucket(_)) => Algorithm::TokenBucket,
            Limit::Meter(Meter::SlidingWindow(_)) => Algorithm::SlidingWindow,
            Limit::Meter(Meter::FixedWindow(_)) => Algorithm::FixedWindow,
            Limit::Log(_) => Algorithm::SlidingLog,
        }
    }

    /// The most that can be taken at once.
    pub const fn capacity(&self) -> u32 {
        match self {
            Limit::Meter(Meter::TokenBucket(quota)) => quota.capacity(),
            Limit::Meter(Meter::SlidingWindow(quota) | Meter::FixedWindow(quota)) => quota.limit(),
            Limit::Log(quota) => quota.limit(),
        }
    }
}

impl From<Quota> for Meter {
    fn from(quota: Quota) -> Meter {
        Meter::TokenBucket(quota)
    }
}

impl From<Quota> for Limit {
    fn from(quota: Quota) -> Limit {
        Limit::token_bucket(quota)
    }
}

impl From<LogQuota> for Limit {
    fn from(quota: LogQuota) -> Limit {
        Limit::Log(quota)
    }
}

impl From<Meter> for Limit {
    fn from(meter: Meter) -> Limit {
        Limit::Meter(meter)
    }
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Limit::Meter(Meter::TokenBucket(quota)) => write!(f, "token bucket, {quota}"),
            Limit::Meter(Meter::SlidingWindow(quota)) => write!(f, "sliding window, {quota}"),
            Limit::Meter(Meter::FixedWindow(quota)) => write!(f, "fixed window, {quota}"),
            Limit::Log(quota) => write!(f, "sliding log, {quota}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Nanos = Nanos::from_secs(1_800_000_000);

    fn windows(limit: u32) -> Meter {
        Meter::SlidingWindow(WindowQuota::new(limit, Nanos::MINUTE).unwrap())
    }

    #[test]
    fn windows_keep_what_was_used() {
        let (old, new) = (windows(100), windows(200));
        let state = old.take(0, Cost::new(80), NOW).1.unwrap();
        let left = |meter: &Meter, state| meter.peek(state, Cost::ONE, NOW).remaining;
        assert_eq!(left(&new, old.carry(state, &new, Carry::AsIs, NOW)), 120);
        assert_eq!(left(&new, old.carry(state, &new, Carry::Proportional, NOW)), 40);
        assert_eq!(left(&new, old.carry(state, &new, Carry::Reset, NOW)), 200);
        let less = windows(50);
        assert_eq!(left(&less, old.carry(state, &less, Carry::AsIs, NOW)), 0);
    }

    #[test]
    fn another_algorithm_or_length_starts_anew() {
        let old = windows(100);
        let state = old.take(0, Cost::new(80), NOW).1.unwrap();
        let hour = Meter::SlidingWindow(WindowQuota::new(100, Nanos::HOUR).unwrap());
        let fixed = Meter::FixedWindow(WindowQuota::new(100, Nanos::MINUTE).unwrap());
        let bucket = Meter::TokenBucket(Quota::per_minute(100).unwrap());
        for other in [hour, fixed, bucket] {
            assert_eq!(old.carry(state, &other, Carry::AsIs, NOW), 0);
        }
    }
}
