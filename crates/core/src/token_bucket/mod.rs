//! The token bucket in one word.
//!
//! The state is the instant at which the bucket will be full again, in the
//! quota's own ticks. Zero, or any instant that has passed, is a full bucket:
//! an untouched key needs no entry and a full bucket carries no information.
//!
//! Every function is pure: the same state, quota, cost and `now` give the same
//! answer. A `now` that steps back is read as it stands: the bucket looks
//! emptier until time catches up, and is never refilled by it.

use crate::{Cost, LimitDecision, Nanos, Outcome, Quota};

/// A quota at an instant: the same functions, with `now` converted once.
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

    /// The decision on a [`charge`], from its outcome: `Ok` with the state after
    /// it, `Err` with the state that did not hold the cost.
    #[inline(always)]
    pub fn decision(self, charged: Result<u64, u64>, cost: Cost) -> LimitDecision {
        match charged {
            Ok(state) => self.peek(state, Cost::ZERO),
            Err(state) => self.peek(state, cost),
        }
    }
}

/// The state after taking `cost`, or `None` if the bucket does not hold it.
/// A cost of zero is always held and leaves the state as it is.
#[inline(always)]
pub fn charge(state: u64, quota: &Quota, cost: Cost, now: Nanos) -> Option<u64> {
    QuotaAt::new(quota, now).charge(state, cost)
}

/// Takes `cost` if the bucket holds it. A denial, and a cost of zero, leaves
/// the state as it is (`None`).
pub fn take(state: u64, quota: &Quota, cost: Cost, now: Nanos) -> (LimitDecision, Option<u64>) {
    let moment = QuotaAt::new(quota, now);
    match moment.charge(state, cost) {
        Some(next) => (moment.decision(Ok(next), cost), (next != state).then_some(next)),
        None => (moment.decision(Err(state), cost), None),
    }
}

/// What [`take`] would say, with nothing taken: `remaining` and `reset_after`
/// describe the bucket as it is.
#[inline(always)]
pub fn peek(state: u64, quota: &Quota, cost: Cost, now: Nanos) -> LimitDecision {
    QuotaAt::new(quota, now).peek(state, cost)
}

/// Puts `cost` tokens back, never above the capacity.
#[inline]
pub fn refund(state: u64, quota: &Quota, cost: Cost, now: Nanos) -> u64 {
    let now = quota.ticks_at(now);
    if state <= now { state } else { state.saturating_sub(ticks_of(quota, cost)).max(now) }
}

/// Hands back a charge of `cost` made at `charged_at` as if it had not been
/// made.
///
/// A plain refund would not do: a bucket that has been full since has already
/// made the charge good, and a refund on top would admit it twice. What time
/// may have made good is therefore left out. `now` must not lie before what the
/// bucket has seen since the charge, or its age would be told too low. Where it
/// does, because others have taken places behind the charge, nothing is handed
/// back: their places stay where they are, and a gap before them is nothing that
/// the state could tell. Nor is anything put into a bucket that is full.
///
/// Places are told in whole nanoseconds, rounded up. What is handed back after the
/// tick of such a place and before the nanosecond that was told can add what comes
/// in between them, less than two nanoseconds' worth, to what is admitted.
pub fn hand_back(state: u64, quota: &Quota, cost: Cost, charged_at: Nanos, now: Nanos) -> u64 {
    let (charged_at, now) = (quota.ticks_at(charged_at), quota.ticks_at(now));
    if state <= now || state > now.max(charged_at) + quota.span() {
        return state;
    }
    let aged = ticks_of(quota, cost).saturating_sub(now.saturating_sub(charged_at));
    state.saturating_sub(aged).max(now)
}

/// How long until the bucket holds `cost` if the `reserved` tokens that are taken from it ahead of their time were
/// still in it; and its state.
///
/// For those who have reserved one after the other and go in another order, or later. A bucket holds no more than its
/// capacity: where those who have reserved let it stand full, what runs over is lost, and all that is reserved moves
/// behind `now` by as much. Until then a charge as of now would find tokens that are theirs.
pub fn pace(state: u64, quota: &Quota, cost: Cost, reserved: u64, now: Nanos) -> (Nanos, u64) {
    let now = quota.ticks_at(now);
    let reserved = reserved.saturating_mul(quota.token());
    let next = state.max(now.saturating_add(reserved));
    let missing = next.saturating_sub(reserved).saturating_sub(now);
    let short = missing.saturating_add(ticks_of(quota, cost)).saturating_sub(quota.span());
    (quota.nanos_of(short), next)
}

/// Is the bucket full? Then forgetting it loses nothing.
#[inline]
pub fn is_full(state: u64, quota: &Quota, now: Nanos) -> bool {
    state <= quota.ticks_at(now)
}

/// How long until the bucket has seen `cost` tokens come in, be that more than
/// it holds itself: what is beyond its capacity is there for a bucket of the same
/// key that is trusted more, see [`carry_trust`].
pub fn holds_in(state: u64, quota: &Quota, cost: Cost, now: Nanos) -> Nanos {
    let held_at = (u128::from(state) + u128::from(cost.get()) * u128::from(quota.token()))
        .saturating_sub(u128::from(quota.span()));
    let missing = held_at.saturating_sub(u128::from(quota.ticks_at(now)));
    quota.nanos_of(u64::try_from(missing).unwrap_or(u64::MAX))
}

/// Is the bucket full, and would one of `capacity` tokens be that went on filling
/// at the same rate? Then forgetting it loses nothing to whoever is trusted so
/// much more.
#[inline]
pub fn is_full_up_to(state: u64, quota: &Quota, capacity: u64, now: Nanos) -> bool {
    let more = capacity.saturating_sub(u64::from(quota.capacity())).saturating_mul(quota.token());
    state == 0 || state.saturating_add(more) <= quota.ticks_at(now)
}

/// Carries the tokens over to the quota of another trust: as many tokens, at most
/// that capacity.
///
/// A full bucket is not full for somebody who is trusted more: it holds what it
/// held, and what has come in since at its own rate. Were it full there, whoever
/// is trusted in turns more and less would be given the difference of the two
/// capacities each time. A bucket that was full for long enough is full at every
/// trust, like one that was never used.
pub fn carry_trust(state: u64, from: &Quota, to: &Quota, at: Nanos) -> u64 {
    let now = from.ticks_at(at);
    if state > now {
        return carry(state, from, to, at, to.token(), from.token());
    }
    if state == 0 {
        return 0;
    }
    let level = u128::from(from.span()) + u128::from(now - state);
    // The level in tokens may be large: all that matters is where it is below the new capacity.
    match level.checked_mul(u128::from(to.token())).map(|level| level / u128::from(from.token())) {
        Some(level) if level < u128::from(to.span()) => to.ticks_at(at) + (to.span() - level as u64),
        _ => to.ticks_at(at),
    }
}

/// Carries the tokens over to another quota that takes effect at `at`: as many
/// tokens, at most the new capacity. A full bucket stays full.
pub fn carry_as_is(state: u64, from: &Quota, to: &Quota, at: Nanos) -> u64 {
    carry(state, from, to, at, to.token(), from.token())
}

/// Carries the same share of the capacity over to another quota, rounded down.
pub fn carry_proportional(state: u64, from: &Quota, to: &Quota, at: Nanos) -> u64 {
    carry(state, from, to, at, to.span(), from.span())
}

/// Where the clock has stepped back, the bucket is empty until time catches up,
/// and so is the new one: what is owed is time, not tokens of either quota.
fn carry(state: u64, from: &Quota, to: &Quota, at: Nanos, num: u64, den: u64) -> u64 {
    let missing = state.saturating_sub(from.ticks_at(at));
    if missing == 0 {
        // Full since then, and no longer: see `carry_trust`.
        return to.ticks_at(from.nanos_of(state)).min(to.ticks_at(at));
    }
    let Some(level) = from.span().checked_sub(missing) else {
        let empty_until = from.nanos_of(state - from.span());
        return to.ticks_at(empty_until) + to.span();
    };
    let level = u128::from(level) * u128::from(num) / u128::from(den);
    to.ticks_at(at) + u128::from(to.span()).saturating_sub(level) as u64
}

/// How many ticks may be missing for `cost` still to be there; `None` if the
/// bucket never holds so much.
#[inline(always)]
fn room_for(quota: &Quota, cost: Cost) -> Option<u64> {
    (cost.get() <= quota.capacity()).then(|| quota.span() - ticks_of_held(quota, cost))
}

#[inline(always)]
fn ticks_of_held(quota: &Quota, cost: Cost) -> u64 {
    u64::from(cost.get()) * quota.token()
}

/// A cost in ticks, be it above the capacity.
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
