//! The fixed window: one counter per window, reset when the window ends.
//!
//! Simple, and known to admit up to twice the limit around a window boundary; use a token bucket or a sliding
//! window where that matters. [`WindowQuota`] describes the state word.

use crate::window::WindowCounts;
use crate::{Cost, LimitDecision, Nanos, Outcome, WindowQuota};

/// The state after counting `cost`, or `None` if the window cannot admit it. A cost of zero always fits and
/// leaves the state unchanged.
#[inline(never)]
#[must_use = "the charge counts only once the returned state is stored"]
pub fn charge(state: u64, quota: &WindowQuota, cost: Cost, now: Nanos) -> Option<u64> {
    let counts = read(state, quota, now);
    match judge(&counts, quota, cost, now) {
        Outcome::Allowed if cost == Cost::ZERO => Some(state),
        Outcome::Allowed => Some(counted(counts, cost).word(quota)),
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
    let counts = read(state, quota, now);
    standing(&counts, quota, judge(&counts, quota, cost, now), now)
}

/// A delayed [`charge`]: made at `now`, counted at `at`, which is not before `now`. What is used now stays
/// counted beside it until `at`.
#[must_use = "the charge counts only once the returned state is stored"]
pub fn charge_ahead(state: u64, quota: &WindowQuota, cost: Cost, now: Nanos, at: Nanos) -> Option<u64> {
    let (current, later) = (read(state, quota, now), read(state, quota, at));
    match judge(&later, quota, cost, at) {
        Outcome::Allowed if cost == Cost::ZERO => Some(state),
        Outcome::Allowed => {
            let counts = counted(later, cost);
            let kept = if current.number < later.number { used(&current) } else { current.before };
            Some(WindowCounts { before: counts.before.max(kept), ..counts }.word(quota))
        }
        Outcome::Denied { .. } | Outcome::Never => None,
    }
}

/// Gives `cost` back; the count stops at zero.
#[must_use = "the new state must be stored"]
pub fn refund(state: u64, quota: &WindowQuota, cost: Cost, now: Nanos) -> u64 {
    read(state, quota, now).refund(cost.get()).word(quota)
}

/// Undoes a charge made at `charged_at`, as if it had never been made.
#[must_use = "the new state must be stored"]
pub fn hand_back(state: u64, quota: &WindowQuota, cost: Cost, charged_at: Nanos, now: Nanos) -> u64 {
    read(state, quota, now).hand_back(quota, cost.get(), charged_at, now).word(quota)
}

/// Does nothing count any more? Then the state can be dropped without losing anything.
pub fn is_idle(state: u64, quota: &WindowQuota, now: Nanos) -> bool {
    used(&read(state, quota, now)) == 0
}

/// The counts that matter at `now`. The previous window does not count, unless a delayed charge lies in a
/// window that has not begun yet: then `before` holds what counts until that window begins.
fn read(state: u64, quota: &WindowQuota, now: Nanos) -> WindowCounts {
    let counts = WindowCounts::read(state, quota, now);
    if counts.before == 0 || counts.is_ahead_of(quota, now) {
        counts
    } else {
        WindowCounts { before: 0, ..counts }
    }
}

/// If both windows count, the fuller one decides.
fn used(counts: &WindowCounts) -> u32 {
    counts.now.max(counts.before)
}

/// If both windows count, the cost is counted in both.
fn counted(counts: WindowCounts, cost: Cost) -> WindowCounts {
    let before = if counts.before == 0 { 0 } else { counts.before + cost.get() };
    WindowCounts { before, now: counts.now + cost.get(), ..counts }
}

fn judge(counts: &WindowCounts, quota: &WindowQuota, cost: Cost, now: Nanos) -> Outcome {
    let now = now.min(Nanos::END);
    if cost.get() > quota.limit() {
        Outcome::Never
    } else if cost == Cost::ZERO || used(counts).saturating_add(cost.get()) <= quota.limit() {
        Outcome::Allowed
    } else if counts.now.saturating_add(cost.get()) <= quota.limit() {
        Outcome::Denied { retry_after: counts.start(quota).saturating_sub(now) }
    } else {
        Outcome::Denied { retry_after: counts.end(quota).saturating_sub(now) }
    }
}

fn standing(counts: &WindowCounts, quota: &WindowQuota, outcome: Outcome, now: Nanos) -> LimitDecision {
    let now = now.min(Nanos::END);
    LimitDecision {
        outcome,
        limit: quota.limit(),
        remaining: quota.limit().saturating_sub(used(counts)),
        reset_after: counts.end(quota).saturating_sub(now),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_is_forgotten_at_its_end() {
        let quota = WindowQuota::new(10, Nanos::SECOND).unwrap();
        let at = |millis| Nanos::from_secs(1_000).saturating_add(Nanos::from_millis(millis));
        let (first, state) = take(0, &quota, Cost::new(10), at(250));
        assert_eq!((first.remaining, first.reset_after), (0, Nanos::from_millis(750)));
        let state = state.unwrap();
        let denied = take(state, &quota, Cost::ONE, at(999)).0;
        assert_eq!(denied.wait(), Some(Nanos::MILLISECOND));
        assert!(is_idle(state, &quota, at(1_000)));
        assert!(take(state, &quota, Cost::new(10), at(1_000)).0.is_allowed());
        assert!(take(state, &quota, Cost::new(11), at(1_000)).0.is_never());
    }

    #[test]
    fn a_step_back_over_a_boundary_never_refills() {
        let quota = WindowQuota::new(10, Nanos::SECOND).unwrap();
        let (_, state) = take(0, &quota, Cost::new(10), Nanos::from_secs(1_000));
        let back = peek(state.unwrap(), &quota, Cost::ONE, Nanos::from_secs(900));
        assert_eq!(back.wait(), Some(Nanos::from_secs(101)));
    }
}
