//! The sliding log as a plain history of what was admitted.

use tidegate_core::{Cost, LimitDecision, Nanos, Outcome};

use super::{Limiter, Model};
use crate::exact::{ratio, read, told, whole, whole_tokens};

#[derive(Clone, Debug)]
pub(crate) struct Log {
    limit: u32,
    window: u64,
    /// The most entries.
    room: usize,
    /// Instants, ascending, and what was admitted at each.
    admitted: Vec<(u64, u32)>,
}

impl Log {
    pub(crate) fn new(limit: u32, window: Nanos, room: usize) -> Log {
        Log { limit, window: window.get(), room, admitted: Vec::new() }
    }

    /// The number of entries.
    pub(crate) fn len(&self) -> usize {
        self.admitted.len()
    }

    /// The same history under another limit.
    pub(crate) fn with_limit(self, limit: u32) -> Log {
        Log { limit, ..self }
    }

    /// In proportion to another limit: the cost admitted up to each instant is scaled and rounded up.
    pub(crate) fn scaled(self, to: u32) -> Log {
        let up_to =
            |index: usize| self.admitted[..index].iter().map(|(_, cost)| u64::from(*cost)).sum::<u64>();
        let scaled_up_to = |index| ratio(up_to(index) * u64::from(to), self.limit).ceil();
        let scaled = |(index, (at, _)): (usize, &(u64, u32))| {
            (*at, whole_tokens(&(scaled_up_to(index + 1) - scaled_up_to(index))))
        };
        let admitted = self.admitted.iter().enumerate().map(scaled).filter(|(_, cost)| *cost > 0).collect();
        Log { limit: to, admitted, ..self }
    }

    /// The cost admitted in `(now − window, now]`.
    fn counted(&self, now: u128) -> u64 {
        self.admitted.iter().filter(|(at, _)| self.ends(*at) > now).map(|(_, cost)| u64::from(*cost)).sum()
    }

    /// When something admitted at `at` stops counting.
    fn ends(&self, at: u64) -> u128 {
        u128::from(at) + u128::from(self.window)
    }

    fn fits(&self, cost: u32, at: u128) -> bool {
        self.counted(at) + u64::from(cost) <= u64::from(self.limit)
    }

    fn outcome(&self, cost: u32, now: Nanos) -> Outcome {
        let now = u128::from(read(now));
        if cost > self.limit {
            Outcome::Never
        } else if cost == 0 || self.fits(cost, now) {
            Outcome::Allowed
        } else {
            let mut ends = self.admitted.iter().map(|(at, _)| self.ends(*at)).filter(|end| *end > now);
            let fits_at = ends.find(|end| self.fits(cost, *end)).expect("an empty log has room");
            Outcome::Denied { retry_after: told(&whole(fits_at - now)) }
        }
    }

    fn standing(&self, outcome: Outcome, now: Nanos) -> LimitDecision {
        let now = u128::from(read(now));
        let empty_at = self.admitted.last().map_or(now, |(at, _)| self.ends(*at));
        LimitDecision {
            outcome,
            limit: self.limit,
            remaining: u64::from(self.limit).saturating_sub(self.counted(now)) as u32,
            reset_after: told(&whole(empty_at.saturating_sub(now))),
        }
    }

    /// A charge, admitted or not, drops what no longer counts.
    fn forget(&mut self, now: Nanos) {
        let (window, now) = (u128::from(self.window), u128::from(read(now)));
        self.admitted.retain(|(at, _)| u128::from(*at) + window > now);
    }

    /// If the clock has stepped back, a cost counts from the newest instant on; in a full log the newest entry
    /// moves up to take it.
    fn push(&mut self, cost: u32, now: u64) {
        let full = self.len() == self.room;
        match self.admitted.last_mut() {
            Some((newest, held)) if *newest >= now || full => {
                *newest = now.max(*newest);
                *held += cost;
            }
            _ => self.admitted.push((now, cost)),
        }
    }
}

impl Limiter for Log {
    fn take(&mut self, cost: Cost, now: Nanos) -> LimitDecision {
        self.forget(now);
        let outcome = self.outcome(cost.get(), now);
        if outcome == Outcome::Allowed && cost > Cost::ZERO {
            self.push(cost.get(), read(now));
        }
        self.standing(outcome, now)
    }

    fn peek(&self, cost: Cost, now: Nanos) -> LimitDecision {
        self.standing(self.outcome(cost.get(), now), now)
    }

    fn refund(&mut self, cost: Cost, _now: Nanos) {
        let mut left = cost.get();
        for (_, held) in self.admitted.iter_mut().rev() {
            let given = left.min(*held);
            *held -= given;
            left -= given;
        }
        self.admitted.retain(|(_, cost)| *cost > 0);
    }

    fn hand_back(&mut self, cost: Cost, charged_at: Nanos, _now: Nanos) {
        let charged_at = read(charged_at);
        for (at, held) in &mut self.admitted {
            if *at == charged_at && *held >= cost.get() {
                *held -= cost.get();
            }
        }
        self.admitted.retain(|(_, cost)| *cost > 0);
    }

    fn is_idle(&self, now: Nanos) -> bool {
        self.counted(u128::from(read(now))) == 0
    }
}

impl Model for Log {
    fn is_on_time(&self, now: Nanos) -> bool {
        let behind = self.admitted.last().is_some_and(|(newest, _)| *newest > read(now));
        !behind && self.len() < self.room
    }
}
