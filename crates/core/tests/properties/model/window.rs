//! The aligned windows as a plain history of what was admitted.

use std::ops::RangeInclusive;

use num_traits::{One, Zero};
use tidegate_core::{Carry, Cost, LimitDecision, Nanos, Outcome};

use super::{Limiter, Model};
use crate::exact::{Exact, ratio, read, told, whole, whole_tokens};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Sliding,
    Fixed,
}

#[derive(Clone, Debug)]
pub(crate) struct Windows {
    kind: Kind,
    limit: u32,
    length: u64,
    /// What was admitted and when, on the windows' own clock.
    admitted: Vec<(u64, u32)>,
    /// The last instant at which the history was changed.
    changed: Option<u64>,
}

impl Windows {
    pub(crate) fn new(kind: Kind, limit: u32, length: Nanos) -> Windows {
        Windows { kind, limit, length: length.get(), admitted: Vec::new(), changed: None }
    }

    fn window(&self, at: u64) -> u64 {
        at / self.length
    }

    /// The instant that `now` counts as: before the window that was last changed, time stands at that window's
    /// start, so that a step back never refills.
    fn clock(&self, now: Nanos) -> u64 {
        let now = read(now);
        let behind = self.changed.filter(|changed| self.window(*changed) > self.window(now));
        behind.map_or(now, |changed| self.window(changed) * self.length)
    }

    fn admitted_in(&self, window: u64) -> u32 {
        let inside = self.admitted.iter().filter(|(at, _)| self.window(*at) == window);
        inside.map(|(_, cost)| cost).sum()
    }

    /// The weight of the previous window when this one begins.
    fn before(&self, window: u64) -> u32 {
        match self.kind {
            Kind::Sliding => window.checked_sub(1).map_or(0, |before| self.admitted_in(before)),
            Kind::Fixed => 0,
        }
    }

    fn estimate(&self, at: u64) -> Exact {
        let window = self.window(at);
        let progress = ratio(at - window * self.length, self.length);
        whole(self.before(window)) * (Exact::one() - progress) + whole(self.admitted_in(window))
    }

    /// The first instant from `at` on at which `cost` fits.
    fn fits_at(&self, cost: u32, at: u64) -> Exact {
        let first = self.window(at);
        for window in first..=first + 2 {
            let room = whole(self.limit) - whole(cost) - whole(self.admitted_in(window));
            let before = whole(self.before(window));
            let progress = if before.is_zero() { Exact::zero() } else { Exact::one() - &room / before };
            if room >= Exact::zero() && progress < Exact::one() {
                let fits = (whole(window) + progress.max(Exact::zero())) * whole(self.length);
                return fits.max(whole(at));
            }
        }
        unreachable!("two windows on, nothing counts")
    }

    /// When nothing admitted up to `at` counts any more; a fixed window always returns its own end.
    fn empty_at(&self, at: u64) -> Exact {
        let window = self.window(at);
        let end = match self.kind {
            Kind::Fixed => window + 1,
            Kind::Sliding if self.admitted_in(window) > 0 => window + 2,
            Kind::Sliding if self.before(window) > 0 => window + 1,
            Kind::Sliding => return whole(at),
        };
        whole(end) * whole(self.length)
    }

    fn outcome(&self, cost: u32, now: Nanos) -> Outcome {
        let at = self.clock(now);
        if cost > self.limit {
            Outcome::Never
        } else if cost == 0 || self.estimate(at) + whole(cost) <= whole(self.limit) {
            Outcome::Allowed
        } else {
            Outcome::Denied { retry_after: told(&(self.fits_at(cost, at) - whole(read(now)))) }
        }
    }

    fn standing(&self, outcome: Outcome, now: Nanos) -> LimitDecision {
        let at = self.clock(now);
        let reset = self.empty_at(at).max(whole(read(now))) - whole(read(now));
        LimitDecision {
            outcome,
            limit: self.limit,
            remaining: whole_tokens(&(whole(self.limit) - self.estimate(at))),
            reset_after: told(&reset),
        }
    }

    /// Removes up to `cost` from what was admitted in `windows`, the newest first.
    fn give_back(&mut self, cost: u32, windows: RangeInclusive<u64>) {
        let (length, mut left) = (self.length, cost);
        for (at, held) in self.admitted.iter_mut().rev() {
            if windows.contains(&(*at / length)) {
                let given = left.min(*held);
                *held -= given;
                left -= given;
            }
        }
    }

    /// A key on which nothing counts is like an untouched one.
    fn note_change(&mut self, at: u64) {
        self.changed = Some(at);
        if self.nothing_counts(at) {
            self.admitted.clear();
            self.changed = None;
        }
    }

    fn nothing_counts(&self, at: u64) -> bool {
        self.counting(at).all(|window| self.admitted_in(window) == 0)
    }

    /// The windows that count at `at`.
    fn counting(&self, at: u64) -> RangeInclusive<u64> {
        let current = self.window(at);
        match self.kind {
            Kind::Sliding => current.saturating_sub(1)..=current,
            Kind::Fixed => current..=current,
        }
    }

    /// The windows `to`, untouched, with what counts in these at `now`.
    pub(crate) fn carry(&self, to: Windows, carry: Carry, now: Nanos) -> Windows {
        if self.kind != to.kind || self.length != to.length || carry == Carry::Reset {
            return to;
        }
        let at = self.clock(now);
        let window = self.window(at);
        let convert = |count: u32| match carry {
            Carry::Proportional => {
                let scaled = ratio(u64::from(count) * u64::from(to.limit), self.limit);
                whole_tokens(&scaled.ceil()).min(to.limit)
            }
            Carry::AsIs | Carry::Reset => count.min(to.limit),
        };
        let (before, current) = (convert(self.before(window)), convert(self.admitted_in(window)));
        let mut carried = to;
        if before > 0 {
            carried.admitted.push(((window - 1) * self.length, before));
        }
        carried.admitted.push((at, current));
        carried.note_change(at);
        carried
    }
}

impl Limiter for Windows {
    fn take(&mut self, cost: Cost, now: Nanos) -> LimitDecision {
        let outcome = self.outcome(cost.get(), now);
        if outcome == Outcome::Allowed && cost > Cost::ZERO {
            let at = self.clock(now);
            self.admitted.push((at, cost.get()));
            self.note_change(at);
        }
        self.standing(outcome, now)
    }

    fn peek(&self, cost: Cost, now: Nanos) -> LimitDecision {
        self.standing(self.outcome(cost.get(), now), now)
    }

    fn refund(&mut self, cost: Cost, now: Nanos) {
        let at = self.clock(now);
        self.give_back(cost.get(), self.counting(at));
        self.note_change(at);
    }

    fn hand_back(&mut self, cost: Cost, charged_at: Nanos, now: Nanos) {
        let (at, charged) = (self.clock(now), self.window(read(charged_at)));
        // Before the window that was last changed, the previous one is left alone.
        let behind = self.window(at) > self.window(read(now));
        if self.counting(at).contains(&charged) && (charged == self.window(at) || !behind) {
            self.give_back(cost.get(), charged..=charged);
        }
        self.note_change(at);
    }

    fn is_idle(&self, now: Nanos) -> bool {
        self.nothing_counts(self.clock(now))
    }
}

impl Model for Windows {
    fn is_on_time(&self, now: Nanos) -> bool {
        self.clock(now) == read(now)
    }
}
