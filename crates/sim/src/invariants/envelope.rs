//! The envelope *B + R·t*: over any interval, no more tokens are spent than the capacity and the refill meanwhile.

use tidegate_core::{Nanos, Quota};

/// Measures exactly how far a bucket exceeded its envelope at worst.
///
/// `level` is the most tokens spent beyond the refill in any interval that ends now. After a spend it is the level at
/// the last spend, less the refill since, but at least zero, plus the spend. So one pass covers all intervals.
///
/// Some faults allow more to be spent, by a known number of tokens (an [`Allowance`]). An allowance applies to the
/// intervals that contain the fault, so intervals that began before a fault are tracked apart from later ones. With
/// leases it also applies to intervals that begin within a lease's life after the fault: a bucket that a fault made
/// full exists beside leases that were taken from it before.
#[derive(Clone, Debug)]
pub struct Envelope {
    /// The rate: tokens…
    tokens: i128,
    /// …in this many nanoseconds.
    nanos: i128,
    capacity: i128,
    /// For how long after a fault a new interval still has its allowance.
    lasts: Nanos,
    /// The levels of intervals that began before a fault, one for each fault. These and the next are in tokens times
    /// `nanos`.
    before: Vec<i128>,
    /// The level of intervals that begin after the last fault.
    level: i128,
    /// The allowance of intervals that begin now, and until when they have it.
    allowed: i128,
    allowed_until: Nanos,
    worst: i128,
    last: Nanos,
}

/// How much more may be spent because of a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Allowance {
    /// The server lost its state: one capacity more.
    Capacity,
    /// The server's clock jumped forward by this much: the refill during that time more.
    Jump(Nanos),
    /// So many tokens were put into the bucket, at most up to its capacity.
    Granted(u32),
    /// Two masters give tokens for this long, leases included: one capacity and the refill during that time more.
    TwoMasters(Nanos),
}

impl Envelope {
    /// The envelope of an untouched bucket, whose leases live for `lease` at most.
    pub fn new(quota: &Quota, lease: Nanos) -> Envelope {
        Envelope {
            tokens: i128::from(quota.rate().tokens()),
            nanos: i128::from(quota.rate().nanos()),
            capacity: i128::from(quota.capacity()),
            lasts: lease,
            before: Vec::new(),
            level: 0,
            allowed: 0,
            allowed_until: Nanos::ZERO,
            worst: 0,
            last: Nanos::ZERO,
        }
    }

    /// Tokens are spent; instants must not go back.
    pub fn spend(&mut self, at: Nanos, tokens: u32) {
        self.pass(at);
        let spent = i128::from(tokens) * self.nanos;
        self.level += spent;
        self.before.iter_mut().for_each(|level| *level += spent);
        let highest = self.before.iter().copied().max().unwrap_or(0).max(self.level);
        self.worst = self.worst.max(highest);
    }

    /// A fault allows more to be spent.
    pub fn allow(&mut self, at: Nanos, allowance: Allowance) {
        self.pass(at);
        let capacity = self.capacity * self.nanos;
        let by = match allowance {
            Allowance::Capacity => capacity,
            Allowance::Granted(tokens) => capacity.min(i128::from(tokens) * self.nanos),
            Allowance::Jump(by) => capacity.min(i128::from(by.get()) * self.tokens),
            Allowance::TwoMasters(span) => capacity + i128::from(span.get()) * self.tokens,
        };
        let lasts = match allowance {
            Allowance::TwoMasters(span) => span.max(self.lasts),
            Allowance::Capacity | Allowance::Granted(_) | Allowance::Jump(_) => self.lasts,
        };
        self.before.iter_mut().for_each(|level| *level -= by);
        self.level -= by;
        self.allowed += by;
        self.allowed_until = at.saturating_add(lasts);
    }

    fn pass(&mut self, at: Nanos) {
        if self.allowed > 0 && self.allowed_until <= at {
            self.add_rate(self.allowed_until);
            self.before.push(self.level);
            (self.level, self.allowed) = (0, 0);
        }
        self.add_rate(at);
    }

    fn add_rate(&mut self, at: Nanos) {
        let refilled = i128::from(at.saturating_sub(self.last).get()) * self.tokens;
        self.level = (self.level - refilled).max(-self.allowed);
        self.before.iter_mut().for_each(|level| *level -= refilled);
        self.last = at;
    }

    /// By how many tokens the envelope was exceeded at worst, rounded up. The refill of one nanosecond is no excess:
    /// buckets count in ticks of up to one nanosecond.
    pub fn excess(&self) -> u64 {
        let above = (self.worst - self.capacity * self.nanos - self.tokens).max(0);
        (above as u128).div_ceil(self.nanos as u128) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Nanos {
        Nanos::from_millis(1_000_000 + millis)
    }

    #[test]
    fn what_is_granted_is_within_it_and_no_more() {
        let mut envelope = ten_a_second();
        envelope.spend(at(0), 5);
        envelope.allow(at(0), Allowance::Granted(3));
        envelope.spend(at(0), 3);
        assert_eq!(envelope.excess(), 0);
        envelope.spend(at(0), 1);
        assert_eq!(envelope.excess(), 1);
        let mut envelope = ten_a_second();
        envelope.spend(at(0), 5);
        envelope.allow(at(0), Allowance::Granted(1_000));
        envelope.spend(at(0), 6);
        assert_eq!(envelope.excess(), 1, "a bucket does not hold more than its capacity");
    }

    fn ten_a_second() -> Envelope {
        Envelope::new(&Quota::new(10, Nanos::SECOND, 5).expect("in range"), Nanos::ZERO)
    }

    #[test]
    fn the_capacity_and_the_rate_are_within_it() {
        let mut envelope = ten_a_second();
        envelope.spend(at(0), 5);
        for step in 1..100 {
            envelope.spend(at(step * 100), 1);
        }
        assert_eq!(envelope.excess(), 0);
        envelope.spend(at(9_900), 1);
        assert_eq!(envelope.excess(), 1);
    }

    #[test]
    fn the_worst_interval_is_found_wherever_it_begins() {
        let mut envelope = ten_a_second();
        envelope.spend(at(0), 1);
        envelope.spend(at(60_000), 4);
        envelope.spend(at(60_100), 4);
        assert_eq!(envelope.excess(), 2, "seven after a tenth of a second, less five");
        envelope.spend(at(120_000), 5);
        assert_eq!(envelope.excess(), 2);
    }

    #[test]
    fn a_fault_whose_price_is_known_costs_that() {
        let mut envelope = ten_a_second();
        envelope.spend(at(0), 5);
        envelope.allow(at(0), Allowance::Jump(Nanos::from_millis(200)));
        envelope.spend(at(0), 2);
        assert_eq!(envelope.excess(), 0);
        envelope.allow(at(0), Allowance::Capacity);
        envelope.spend(at(0), 6);
        assert_eq!(envelope.excess(), 1);
    }

    #[test]
    fn two_masters_give_twice_while_there_are_two() {
        let mut envelope = ten_a_second();
        envelope.allow(at(0), Allowance::TwoMasters(Nanos::from_millis(500)));
        envelope.spend(at(0), 10);
        for step in 1..=5 {
            envelope.spend(at(step * 100), 2);
        }
        assert_eq!(envelope.excess(), 0);
        for step in 6..50 {
            envelope.spend(at(step * 100), 1);
        }
        assert_eq!(envelope.excess(), 0);
        envelope.spend(at(5_000), 3);
        assert_eq!(envelope.excess(), 2);
    }

    #[test]
    fn leases_from_before_a_fault_are_spent_after_it() {
        let quota = Quota::new(10, Nanos::SECOND, 5).expect("in range");
        let mut envelope = Envelope::new(&quota, Nanos::from_millis(100));
        envelope.allow(at(0), Allowance::Capacity);
        envelope.spend(at(50), 10);
        assert_eq!(envelope.excess(), 0);
        envelope.spend(at(1_000), 5);
        assert_eq!(envelope.excess(), 0);
        envelope.spend(at(1_000), 1);
        assert_eq!(envelope.excess(), 1);
    }

    #[test]
    fn a_fault_before_anything_is_spent_is_paid_for_too() {
        let mut envelope = ten_a_second();
        envelope.spend(at(0), 1);
        envelope.allow(at(0), Allowance::Capacity);
        envelope.spend(at(0), 5);
        assert_eq!(envelope.excess(), 0);
        envelope.spend(at(100), 1);
        assert_eq!(envelope.excess(), 0);
        envelope.spend(at(100), 4);
        assert_eq!(envelope.excess(), 4, "what is spent after the fault alone is too much");
    }
}
