//! The token bucket, whose state is one word.
//!
//! The state is the instant at which the bucket will be full again, in the quota's own ticks. Zero, or any
//! instant that has passed, is a full bucket: an untouched key needs no entry, and a full bucket need not be
//! stored.
//!
//! Every function is pure: the same state, quota, cost and `now` give the same result. If `now` steps back, the
//! bucket looks emptier until time catches up; it is never refilled by that.

use crate::{Cost, LimitDecision, Nanos, Outcome, Quota};

/// A quota at an instant: the functions of this module, with `now` converted to ticks once.
#[derive(Clone, Copy, Debug)]
pub struct QuotaAt<'q> {
    quota: &'q Quota,
    now: u64,
}

impl<'q> QuotaAt<'q> {
    /// The quota at `now`.
    #[inline(always)]
    pub fn new(quota: &'q Quota, now: Nanos) -> QuotaAt<'q> {
        QuotaAt { quota, now: quota.ticks_at(now) }
    }

    /// See [`charge`].
    #[inline(always)]
    #[must_use = "the charge counts only once the returned state is stored"]
    pub fn charge(self, state: u64, cost: Cost) -> Option<u64> {
        if cost == Cost::ZERO {
            return Some(state);
        }
        let room = room_for(self.quota, cost)?;
        let missing = state.saturating_sub(self.now);
        (missing <= room).then(|| self.now + missing + (self.quota.span() - room))
    }

    /// See [`peek`].
    #[inline(always)]
    pub fn peek(self, state: u64, cost: Cost) -> LimitDecision {
        let missing = state.saturating_sub(self.now);
        let outcome = match room_for(self.quota, cost) {
            Some(room) if missing <= room || cost == Cost::ZERO => Outcome::Allowed,
            Some(room) => wait(self.quota, missing - room),
            None => Outcome::Never,
        };
        standing(self.quota, outcome, missing)
    }

    /// The decision on a [`charge`], from its result: `Ok` with the state after the charge, or `Err` with the
    /// state that did not hold the cost.
    #[inline(always)]
    pub fn decision(self, charged: Result<u64, u64>, cost: Cost) -> LimitDecision {
        match charged {
            Ok(state) => self.peek(state, Cost::ZERO),
            Err(state) => self.denied(state, cost),
        }
    }

    /// The decision on a cost that the bucket does not hold: what [`QuotaAt::peek`] returns, without asking again.
    #[inline(always)]
    fn denied(self, state: u64, cost: Cost) -> LimitDecision {
        let missing = state.saturating_sub(self.now);
        let outcome = match room_for(self.quota, cost) {
            Some(room) => wait(self.quota, missing.saturating_sub(room)),
            None => Outcome::Never,
        };
        let level = self.quota.span().saturating_sub(missing);
        // Most denied buckets hold less than one token, so most denials need no division.
        let remaining = if level < self.quota.token() { 0 } else { self.quota.tokens_in(level) };
        let reset_after = self.quota.nanos_of(missing);
        LimitDecision { outcome, limit: self.quota.capacity(), remaining, reset_after }
    }
}

/// The state after taking `cost`, or `None` if the bucket does not hold it. A cost of zero is always held and
/// leaves the state unchanged.
#[inline(always)]
#[must_use = "the charge counts only once the returned state is stored"]
pub fn charge(state: u64, quota: &Quota, cost: Cost, now: Nanos) -> Option<u64> {
    QuotaAt::new(quota, now).charge(state, cost)
}

/// Takes `cost` if the bucket holds it. A denial or a cost of zero leaves the state unchanged (`None`).
pub fn take(state: u64, quota: &Quota, cost: Cost, now: Nanos) -> (LimitDecision, Option<u64>) {
    let moment = QuotaAt::new(quota, now);
    match moment.charge(state, cost) {
        Some(next) => (moment.decision(Ok(next), cost), (next != state).then_some(next)),
        None => (moment.decision(Err(state), cost), None),
    }
}

/// The decision that [`take`] would return, without taking anything: `remaining` and `reset_after` describe the
/// bucket as it is.
#[inline(always)]
pub fn peek(state: u64, quota: &Quota, cost: Cost, now: Nanos) -> LimitDecision {
    QuotaAt::new(quota, now).peek(state, cost)
}

/// Gives `cost` tokens back, never above the capacity.
#[inline]
#[must_use = "the new state must be stored"]
pub fn refund(state: u64, quota: &Quota, cost: Cost, now: Nanos) -> u64 {
    let now = quota.ticks_at(now);
    if state <= now { state } else { state.saturating_sub(ticks_of(quota, cost)).max(now) }
}

/// Undoes a charge of `cost` made at `charged_at`, as if it had never been made.
///
/// A plain refund would be wrong: if the bucket has been full since the charge, the cost has already been
/// refilled, and a refund on top would admit it twice. So whatever may have been refilled since the charge is
/// subtracted from what is handed back. `now` must not be before anything that the bucket has seen since the
/// charge, or the age of the charge would be computed too low. If it is, because other delayed charges are
/// queued behind this one, nothing is handed back: the later charges keep their instants, and the state word
/// cannot represent a gap before them. Nothing is added to a full bucket either.
///
/// The instants of delayed charges are whole nanoseconds, rounded up from ticks. A charge that is handed back
/// after its tick but before that nanosecond can add what the bucket refills in between, less than two
/// nanoseconds' worth, to what is admitted.
#[must_use = "the new state must be stored"]
pub fn hand_back(state: u64, quota: &Quota, cost: Cost, charged_at: Nanos, now: Nanos) -> u64 {
    let (charged_at, now) = (quota.ticks_at(charged_at), quota.ticks_at(now));
    if state <= now || state > now.max(charged_at) + quota.span() {
        return state;
    }
    let aged = ticks_of(quota, cost).saturating_sub(now.saturating_sub(charged_at));
    state.saturating_sub(aged).max(now)
}

/// The time until the bucket holds `cost`, computed as if the `delayed` tokens that have been charged ahead of
/// time were still in it; and the state of the bucket.
///
/// For callers that charge ahead one after the other but use their charges in another order, or later. A bucket
/// holds no more than its capacity: if those callers leave it full, the overflow is lost, and all delayed
/// charges move to after `now` by that amount. Without that, a charge counted now would find tokens that belong
/// to them.
pub fn pace(state: u64, quota: &Quota, cost: Cost, delayed: u64, now: Nanos) -> (Nanos, u64) {
    let now = quota.ticks_at(now);
    let delayed = delayed.saturating_mul(quota.token());
    let next = state.max(now.saturating_add(delayed));
    let missing = next.saturating_sub(delayed).saturating_sub(now);
    let short = missing.saturating_add(ticks_of(quota, cost)).saturating_sub(quota.span());
    (quota.nanos_of(short), next)
}

/// Is the bucket full? Then the state can be dropped without losing anything.
#[inline]
pub fn is_full(state: u64, quota: &Quota, now: Nanos) -> bool {
    state <= quota.ticks_at(now)
}

/// The time until `cost` tokens have come in, even if that is more than the capacity: tokens beyond the
/// capacity are available to the same key at a higher trust, see [`carry_trust`].
pub fn time_until_held(state: u64, quota: &Quota, cost: Cost, now: Nanos) -> Nanos {
    let held_at = (u128::from(state) + u128::from(cost.get()) * u128::from(quota.token()))
        .saturating_sub(u128::from(quota.span()));
    let missing = held_at.saturating_sub(u128::from(quota.ticks_at(now)));
    quota.nanos_of(u64::try_from(missing).unwrap_or(u64::MAX))
}

/// The time until a state that stays in the numbers of one override holds `cost` for a charge in those of another, of
/// which the cost is above the capacity of `from`: until it is full, and then until the rest has come in at the rate of
/// `to`, as [`carry_override`] counts it.
pub fn time_until_held_in(state: u64, from: &Quota, to: &Quota, cost: Cost, now: Nanos) -> Nanos {
    let full_at = from.nanos_of(state);
    let rest = u64::from(cost.get().saturating_sub(from.capacity())).saturating_mul(to.token());
    let held_at = to.nanos_of(to.ticks_at(full_at).saturating_add(rest));
    held_at.max(full_at).saturating_sub(now)
}

/// Is the bucket full, and would a bucket of `capacity` tokens that refills at the same rate be full too? Then
/// the state can be dropped without losing anything, even if the key is next charged at that higher trust.
#[inline]
pub fn is_full_up_to(state: u64, quota: &Quota, capacity: u64, now: Nanos) -> bool {
    let more = capacity.saturating_sub(u64::from(quota.capacity())).saturating_mul(quota.token());
    state == 0 || state.saturating_add(more) <= quota.ticks_at(now)
}

/// Carries the tokens over to the quota of another trust: the same number of tokens, at most the new capacity.
///
/// A full bucket is not full at a higher trust: it holds what it held, plus what has come in since at its own
/// rate. If it became full there, a key whose trust alternates would be given the difference of the two
/// capacities each time. A bucket that has been full for long enough is full at every trust, like one that was
/// never used.
#[must_use = "the new state must be stored"]
pub fn carry_trust(state: u64, from: &Quota, to: &Quota, at: Nanos) -> u64 {
    let now = from.ticks_at(at);
    if state > now {
        return carry(state, from, to, at, to.token(), from.token());
    }
    if state == 0 {
        return 0;
    }
    let level = u128::from(from.span()) + u128::from(now - state);
    // The level may exceed the new capacity by far: only whether it is below matters, and by how much.
    match level.checked_mul(u128::from(to.token())).map(|level| level / u128::from(from.token())) {
        Some(level) if level < u128::from(to.span()) => to.ticks_at(at) + (to.span() - level as u64),
        _ => to.ticks_at(at),
    }
}

/// Carries the tokens over to the numbers of another override: the same number of tokens, at most the new capacity.
///
/// A full bucket holds what it held, plus what has come in since at the rate of the new numbers. So a key that is
/// charged with one and then with the other is never given more than the larger numbers alone would give, and a bucket
/// that has been full for as long as the new numbers take to fill is full, like one that was never used.
#[must_use = "the new state must be stored"]
pub fn carry_override(state: u64, from: &Quota, to: &Quota, at: Nanos) -> u64 {
    if state == 0 || state > from.ticks_at(at) {
        return if state == 0 { 0 } else { carry(state, from, to, at, to.token(), from.token()) };
    }
    let full_since = to.ticks_at(from.nanos_of(state)).min(to.ticks_at(at));
    let held = u128::from(from.capacity()) * u128::from(to.token());
    full_since + u128::from(to.span()).saturating_sub(held) as u64
}

/// Carries the tokens over to another quota that takes effect at `at`: the same number of tokens, at most the
/// new capacity. A full bucket stays full.
#[must_use = "the new state must be stored"]
pub fn carry_as_is(state: u64, from: &Quota, to: &Quota, at: Nanos) -> u64 {
    carry(state, from, to, at, to.token(), from.token())
}

/// Carries the same fraction of the capacity over to another quota, rounded down.
#[must_use = "the new state must be stored"]
pub fn carry_proportional(state: u64, from: &Quota, to: &Quota, at: Nanos) -> u64 {
    carry(state, from, to, at, to.span(), from.span())
}

/// If the clock has stepped back, the old bucket is empty until time catches up, and so is the new one: the
/// debt is an amount of time, not a number of tokens of either quota.
fn carry(state: u64, from: &Quota, to: &Quota, at: Nanos, num: u64, den: u64) -> u64 {
    let missing = state.saturating_sub(from.ticks_at(at));
    if missing == 0 {
        // Full since that instant and no earlier; `carry_trust` depends on it.
        return to.ticks_at(from.nanos_of(state)).min(to.ticks_at(at));
    }
    let Some(level) = from.span().checked_sub(missing) else {
        let empty_until = from.nanos_of(state - from.span());
        return to.ticks_at(empty_until) + to.span();
    };
    let level = u128::from(level) * u128::from(num) / u128::from(den);
    to.ticks_at(at) + u128::from(to.span()).saturating_sub(level) as u64
}

/// The most ticks that may be missing while the bucket still holds `cost`; `None` if the cost is above the
/// capacity.
#[inline(always)]
fn room_for(quota: &Quota, cost: Cost) -> Option<u64> {
    (cost.get() <= quota.capacity()).then(|| quota.span() - ticks_of_held(quota, cost))
}

#[inline(always)]
fn ticks_of_held(quota: &Quota, cost: Cost) -> u64 {
    u64::from(cost.get()) * quota.token()
}

/// A cost in ticks, which may be above the capacity.
#[inline]
fn ticks_of(quota: &Quota, cost: Cost) -> u64 {
    u64::from(cost.get()).saturating_mul(quota.token())
}

#[inline(always)]
fn wait(quota: &Quota, ticks: u64) -> Outcome {
    Outcome::Denied { retry_after: quota.nanos_of(ticks) }
}

#[inline(always)]
fn standing(quota: &Quota, outcome: Outcome, missing: u64) -> LimitDecision {
    LimitDecision {
        outcome,
        limit: quota.capacity(),
        remaining: quota.tokens_in(quota.span().saturating_sub(missing)),
        reset_after: quota.nanos_of(missing),
    }
}

#[cfg(test)]
mod tests;
