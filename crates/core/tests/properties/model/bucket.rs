//! The token bucket as a level in rational tokens at an instant.

use num_traits::{One, Zero};
use tidegate_core::{Carry, Cost, LimitDecision, Nanos, Outcome};

use super::{Limiter, Model};
use crate::exact::{Exact, ratio, read, round_down, told, whole, whole_tokens};

#[derive(Clone, Debug)]
pub(crate) struct Bucket {
    capacity: Exact,
    /// Tokens per nanosecond.
    rate: Exact,
    /// Nanoseconds per tick.
    tick: Exact,
    /// The level at `since`; above the capacity means full for some time.
    level: Exact,
    since: Exact,
}

impl Bucket {
    /// A full bucket of `capacity`, refilled by `tokens` per `window`.
    pub(crate) fn new(tokens: u64, window: Nanos, capacity: u32) -> Bucket {
        let (capacity, rate) = (whole(capacity), ratio(tokens, window.get()));
        let tick = tick(&rate, &capacity);
        Bucket { level: capacity.clone(), since: Exact::zero(), capacity, rate, tick }
    }

    /// `now` on the bucket's own clock.
    pub(crate) fn clock(&self, now: Nanos) -> Exact {
        round_down(&whole(read(now)), &self.tick)
    }

    /// The most that may be admitted from one instant to another.
    pub(crate) fn envelope(&self, from: Nanos, to: Nanos) -> Exact {
        &self.capacity + &self.rate * (self.clock(to) - self.clock(from))
    }

    /// The level, not clamped below zero: if the clock has stepped back, the level is negative until time
    /// catches up.
    fn level_at(&self, now: Nanos) -> Exact {
        let refilled = &self.level + &self.rate * (self.clock(now) - &self.since);
        refilled.min(self.capacity.clone())
    }

    fn set_level(&mut self, level: Exact, now: Nanos) {
        self.level = level;
        self.since = self.clock(now);
    }

    fn outcome(&self, level: &Exact, cost: &Exact) -> Outcome {
        if cost > &self.capacity {
            Outcome::Never
        } else if cost.is_zero() || cost <= level {
            Outcome::Allowed
        } else {
            Outcome::Denied { retry_after: told(&((cost - level) / &self.rate)) }
        }
    }

    fn standing(&self, outcome: Outcome, level: &Exact) -> LimitDecision {
        LimitDecision {
            outcome,
            limit: whole_tokens(&self.capacity),
            remaining: whole_tokens(level),
            reset_after: told(&((&self.capacity - level) / &self.rate)),
        }
    }

    /// The bucket `to`, untouched, with what is in this one at `at`. If the clock has stepped back, that is
    /// nothing until time catches up, to the nanosecond.
    pub(crate) fn carry(&self, to: Bucket, carry: Carry, at: Nanos) -> Bucket {
        let level = self.level_at(at);
        if carry == Carry::Reset {
            return to;
        }
        let mut carried = to;
        if level >= self.capacity {
            // Full since that instant, to the nanosecond.
            let full_at =
                told(&(&self.since + (&self.capacity - &self.level) / &self.rate).max(Exact::zero()));
            let level = carried.capacity.clone();
            carried.set_level(level, full_at.min(at));
            return carried;
        }
        if level < Exact::zero() {
            let caught_up = told(&(self.clock(at) - level / &self.rate));
            carried.set_level(Exact::zero(), caught_up);
            return carried;
        }
        let level = match carry {
            Carry::Proportional => level * &carried.capacity / &self.capacity,
            Carry::AsIs | Carry::Reset => level,
        };
        let tick_of_tokens = &carried.tick * &carried.rate;
        let level = round_down(&level, &tick_of_tokens).min(carried.capacity.clone());
        carried.set_level(level, at);
        carried
    }

    /// The same bucket at another trust, untouched, with what is in this one at `at`: the same number of
    /// tokens, at most the new capacity. What came in beyond its own capacity is available to a bucket that
    /// holds more.
    pub(crate) fn retrusted(&self, to: Bucket, at: Nanos) -> Bucket {
        if self.since.is_zero() && self.level == self.capacity {
            return to;
        }
        let level = &self.level + &self.rate * (self.clock(at) - &self.since);
        if level < self.capacity {
            return self.carry(to, Carry::AsIs, at);
        }
        let mut carried = to;
        let level = round_down(&level, &(&carried.tick * &carried.rate)).min(carried.capacity.clone());
        carried.set_level(level, at);
        carried
    }

    /// The same bucket with the numbers of another override, untouched, with what is in this one at `at`. A full bucket
    /// goes on filling from the instant at which it was full, in the new numbers.
    pub(crate) fn overridden(&self, to: Bucket, at: Nanos) -> Bucket {
        if self.since.is_zero() && self.level == self.capacity {
            return to;
        }
        if self.came_in(at) < self.capacity {
            return self.carry(to, Carry::AsIs, at);
        }
        let full_at = told(&(&self.since + (&self.capacity - &self.level) / &self.rate).max(Exact::zero()));
        let mut carried = to;
        let level = self.capacity.clone().min(carried.capacity.clone());
        carried.set_level(level, full_at.min(at));
        carried
    }

    /// How much it would hold at `now` without a capacity.
    pub(crate) fn came_in(&self, now: Nanos) -> Exact {
        &self.level + &self.rate * (self.clock(now) - &self.since)
    }
}

/// With `n` tokens per `w` nanoseconds in lowest terms, 1/n ns if the instants up to the end plus a fill time
/// then fit 64 bits; otherwise such that a token is ceil(w/n) ticks.
fn tick(rate: &Exact, capacity: &Exact) -> Exact {
    let (n, w) = (whole(rate.numer().clone()), whole(rate.denom().clone()));
    let last_instant = capacity / rate + whole(Nanos::END.get());
    if last_instant * &n <= whole(u64::MAX) {
        Exact::one() / n
    } else {
        let ticks_per_token = (&w / &n).ceil();
        w / (n * ticks_per_token)
    }
}

impl Limiter for Bucket {
    fn take(&mut self, cost: Cost, now: Nanos) -> LimitDecision {
        let (level, cost) = (self.level_at(now), whole(cost.get()));
        let outcome = self.outcome(&level, &cost);
        if outcome != Outcome::Allowed || cost.is_zero() {
            return self.standing(outcome, &level);
        }
        let level = level - cost;
        self.set_level(level.clone(), now);
        self.standing(outcome, &level)
    }

    fn peek(&self, cost: Cost, now: Nanos) -> LimitDecision {
        let level = self.level_at(now);
        self.standing(self.outcome(&level, &whole(cost.get())), &level)
    }

    fn refund(&mut self, cost: Cost, now: Nanos) {
        let level = self.level_at(now);
        if level < self.capacity {
            let refunded = (level + whole(cost.get())).min(self.capacity.clone());
            self.set_level(refunded, now);
        }
    }

    fn hand_back(&mut self, cost: Cost, charged_at: Nanos, now: Nanos) {
        // Empty for longer than that: other delayed charges are behind it. And nothing is added to a full
        // bucket.
        if self.level_at(now.max(charged_at)) < Exact::zero() || self.level_at(now) >= self.capacity {
            return;
        }
        let age = (self.clock(now) - self.clock(charged_at)).max(Exact::zero());
        self.level += (whole(cost.get()) - age * &self.rate).max(Exact::zero());
        // It is full from now on, not since a past instant.
        if self.came_in(now) > self.capacity {
            self.set_level(self.capacity.clone(), now);
        }
    }

    fn is_idle(&self, now: Nanos) -> bool {
        self.level_at(now) == self.capacity
    }
}

impl Model for Bucket {
    fn is_on_time(&self, _now: Nanos) -> bool {
        true
    }

    /// A wait begins at `now` rounded down to the tick and is itself rounded up. If a tick is not a whole part
    /// of a nanosecond, each of the two may add almost one.
    fn retry_slack(&self) -> u64 {
        if (Exact::one() / &self.tick).is_integer() { 1 } else { 2 }
    }
}
