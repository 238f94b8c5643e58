//! The sliding window: the count of this window plus the weight of the one before it.
//!
//! A cost is admitted if and only if `before·(1 − progress) + now + cost ≤ limit`, compared as integers without
//! rounding. [`WindowQuota`] describes the state word.

use crate::window::WindowCounts;
use crate::{Cost, LimitDecision, Nanos, Outcome, WindowQuota};

/// The state after counting `cost`, or `None` if the window cannot admit it. A cost of zero always fits and
/// leaves the state unchanged.
#[inline(never)]
#[must_use = "the charge counts only once the returned state is stored"]
pub fn charge(state: u64, quota: &WindowQuota, cost: Cost, now: Nanos) -> Option<u64> {
    let counts = WindowCounts::read(state, quota, now);
    match judge(&counts, quota, cost, now) {
        Outcome::Allowed if cost == Cost::ZERO => Some(state),
        Outcome::Allowed => Some(WindowCounts { now: counts.now + cost.get(), ..counts }.word(quota)),
        Outcome::Denied { .. } | Outcome::Never => None,
    }
}

/// Counts `cost` if the window can admit it. A denial or a cost of zero leaves the state unchanged (`None`).
pub fn take(state: u64, quota: &WindowQuota, cost: Cost, now: Nanos) -> (LimitDecision, Option<u64>) {
    match charge(state, quota, cost, now) {
        Some(next) => (peek(next, quota, Cost::ZERO, now), (next != state).then_some(next)),
        None => (peek(state, quota, cost, now), None),
    }
}

/// The decision that [`take`] would return, without counting anything.
#[inline(never)]
pub fn peek(state: u64, quota: &WindowQuota, cost: Cost, now: Nanos) -> LimitDecision {
    let counts = WindowCounts::read(state, quota, now);
    standing(&counts, quota, judge(&counts, quota, cost, now), now)
}

/// A delayed [`charge`]: made at `now`, counted at `at`, which is not before `now`. It uses up the window for
/// requests before `at` too.
#[must_use = "the charge counts only once the returned state is stored"]
pub fn charge_ahead(state: u64, quota: &WindowQuota, cost: Cost, now: Nanos, at: Nanos) -> Option<u64> {
    let counts = read_ahead(state, quota, now, at);
    match judge(&counts, quota, cost, at) {
        Outcome::Allowed if cost == Cost::ZERO => Some(state),
        Outcome::Allowed => Some(WindowCounts { now: counts.now + cost.get(), ..counts }.word(quota)),
        Outcome::Denied { .. } | Outcome::Never => None,
    }
}

/// The decision on [`charge_ahead`], without counting anything; its waits begin at `at`.
pub fn peek_ahead(state: u64, quota: &WindowQuota, cost: Cost, now: Nanos, at: Nanos) -> LimitDecision {
    let counts = read_ahead(state, quota, now, at);
    standing(&counts, quota, judge(&counts, quota, cost, at), at)
}

/// The counts as of `at`. The word has no bits for the counts that fade before a later window begins, so
/// everything that counts now is treated as fading in that later window.
fn read_ahead(state: u64, quota: &WindowQuota, now: Nanos, at: Nanos) -> WindowCounts {
    let (current, later) = (WindowCounts::read(state, quota, now), WindowCounts::read(state, quota, at));
    if current.number == later.number {
        return later;
    }
    WindowCounts { before: later.before.max(used(&current, quota).min(quota.count_max())), ..later }
}

/// Gives `cost` back from the newest counts, which stop at zero.
#[must_use = "the new state must be stored"]
pub fn refund(state: u64, quota: &WindowQuota, cost: Cost, now: Nanos) -> u64 {
    WindowCounts::read(state, quota, now).refund(cost.get()).word(quota)
}

/// Undoes a charge made at `charged_at`, as if it had never been made.
#[must_use = "the new state must be stored"]
pub fn hand_back(state: u64, quota: &WindowQuota, cost: Cost, charged_at: Nanos, now: Nanos) -> u64 {
    WindowCounts::read(state, quota, now).hand_back(quota, cost.get(), charged_at, now).word(quota)
}

/// Does nothing count any more? Then the state can be dropped without losing anything.
pub fn is_idle(state: u64, quota: &WindowQuota, now: Nanos) -> bool {
    let counts = WindowCounts::read(state, quota, now);
    counts.before == 0 && counts.now == 0
}

/// A key that had more trust earlier may have used more than the limit: all of it stays counted, but each
/// window weighs at most the limit.
fn judge(counts: &WindowCounts, quota: &WindowQuota, cost: Cost, now: Nanos) -> Outcome {
    let (counts, now) = (&counts.capped(quota.limit()), now.min(Nanos::END));
    if cost == Cost::ZERO {
        return Outcome::Allowed;
    }
    if cost.get() > quota.limit() {
        return Outcome::Never;
    }
    let length = u128::from(quota.length().get());
    let left = quota.length().get() - counts.elapsed;
    let weight = u128::from(counts.before) * u128::from(left);
    let wanted = u128::from(counts.now) + u128::from(cost.get());
    if weight + wanted * length <= u128::from(quota.limit()) * length {
        return Outcome::Allowed;
    }
    Outcome::Denied { retry_after: admits_at(counts, quota, cost).saturating_sub(now) }
}

/// The first instant at which a denied cost fits, if nothing else is counted.
fn admits_at(counts: &WindowCounts, quota: &WindowQuota, cost: Cost) -> Nanos {
    let room = quota.limit() - cost.get();
    if counts.now <= room {
        // It fits once the previous window has faded enough.
        let faded = fades_to(counts.before, room - counts.now, quota.length().get());
        counts.start(quota).saturating_add(Nanos::new(faded))
    } else {
        // It fits in the next window, once this one has faded enough.
        let faded = fades_to(counts.now, room, quota.length().get());
        counts.end(quota).saturating_add(Nanos::new(faded))
    }
}

/// How far into a window the count `before` has faded to `room`, for `before > room`:
/// `length − floor(room·length / before)`, with 64-bit divisions only.
fn fades_to(before: u32, room: u32, length: u64) -> u64 {
    let (before, room) = (u64::from(before), u64::from(room));
    length - (room * (length / before) + room * (length % before) / before)
}

/// The used tokens, rounded up: the faded part of the previous window is rounded down, so the part that still
/// weighs is rounded up.
fn used(counts: &WindowCounts, quota: &WindowQuota) -> u32 {
    counts.now + (counts.before - quota.share(counts.before, counts.elapsed))
}

fn standing(counts: &WindowCounts, quota: &WindowQuota, outcome: Outcome, now: Nanos) -> LimitDecision {
    let (counts, now) = (&counts.capped(quota.limit()), now.min(Nanos::END));
    let empty_at = match (counts.now, counts.before) {
        (0, 0) => now,
        (0, _) => counts.end(quota),
        _ => counts.end(quota).saturating_add(quota.length()),
    };
    LimitDecision {
        outcome,
        limit: quota.limit(),
        remaining: quota.limit().saturating_sub(used(counts, quota)),
        reset_after: empty_at.saturating_sub(now),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn quota() -> WindowQuota {
        WindowQuota::new(100, Nanos::MINUTE).unwrap()
    }

    fn at(millis: u64) -> Nanos {
        Nanos::from_secs(60_000_000).saturating_add(Nanos::from_millis(millis))
    }

    #[test]
    fn the_window_before_fades() {
        let (_, state) = take(0, &quota(), Cost::new(100), at(0));
        let state = state.unwrap();
        assert_eq!(peek(state, &quota(), Cost::ONE, at(60_000)).remaining, 0);
        assert_eq!(peek(state, &quota(), Cost::ONE, at(90_000)).remaining, 50);
        assert!(is_idle(state, &quota(), at(120_000)));
        assert!(!is_idle(state, &quota(), at(119_999)));
    }

    #[test]
    fn the_limit_itself_is_admitted_and_one_more_is_not() {
        let (first, state) = take(0, &quota(), Cost::new(100), at(0));
        assert_eq!((first.is_allowed(), first.remaining), (true, 0));
        let (second, none) = take(state.unwrap(), &quota(), Cost::ONE, at(1));
        assert_eq!((second.is_allowed(), none), (false, None));
        // The next window must have faded by one in a hundred.
        assert_eq!(second.wait(), Some(Nanos::from_millis(60_599)));
        assert_eq!(second.reset_after, Nanos::from_millis(119_999));
    }

    #[test]
    fn a_step_back_over_a_boundary_never_refills() {
        let (_, state) = take(0, &quota(), Cost::new(60), at(0));
        let (_, state) = take(state.unwrap(), &quota(), Cost::new(40), at(60_000));
        let back = peek(state.unwrap(), &quota(), Cost::ONE, at(30_000));
        assert_eq!((back.is_allowed(), back.remaining), (false, 0));
        let wait = back.wait().unwrap();
        let later = at(30_000).saturating_add(wait);
        assert!(peek(state.unwrap(), &quota(), Cost::ONE, later).is_allowed());
    }

    #[test]
    fn refunds_come_from_the_newest() {
        let (_, state) = take(0, &quota(), Cost::new(40), at(0));
        let (_, state) = take(state.unwrap(), &quota(), Cost::new(10), at(60_000));
        let state = refund(state.unwrap(), &quota(), Cost::new(15), at(60_000));
        assert_eq!(peek(state, &quota(), Cost::ONE, at(60_000)).remaining, 65);
        assert_eq!(refund(state, &quota(), Cost::MAX, at(60_000)), 0);
    }
}
