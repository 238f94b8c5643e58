//! Over any interval, no more is spent than the capacity and what the rate adds meanwhile.

use tidegate_core::{Nanos, Quota};

/// How far above its envelope a bucket was at worst, exactly.
///
/// The most that is spent beyond the rate in any interval that ends now is the larger of nothing and what it was
/// for the last spend, less what the rate has added since, and the spend. So one pass looks at all intervals. A
/// fault whose price is known is paid by those intervals that it lies in, so those that began before it are told
/// apart from those that begin after it. With leases it is also paid by those that begin within a lease's life
/// after it: a bucket that was made full by a fault stands beside leases that were taken from it before.
#[derive(Clone, Debug)]
pub struct Envelope {
    /// Tokens of the rate in…
    tokens: i128,
    /// …so many nanoseconds.
    nanos: i128,
    capacity: i128,
    /// How long after a fault intervals that begin still pay for it.
    lasts: Nanos,
    /// All of these in tokens times `nanos`. Intervals that began before a fault, one for each of them…
    before: Vec<i128>,
    /// …and those that begin after the last.
    level: i128,
    /// What those pay that begin now, and until when.
    paid: i128,
    paid_until: Nanos,
    worst: i128,
    last: Nanos,
}

/// Something after which so much more may be spent: a fault whose price is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Allowance {
    /// What was taken last is forgotten: at most a capacity.
    Capacity,
    /// The server's clock has jumped forward by so much.
    Jump(Nanos),
    /// Two servers give for so long, leases included: a capacity, and what the rate gives in that time.
    TwoMasters(Nanos),
}

impl Envelope {
    /// Of a bucket from which nothing has been spent, and whose leases live so long at most.
    pub fn new(quota: &Quota, lease: Nanos) -> Envelope {
        Envelope {
            tokens: i128::from(quota.rate().tokens()),
            nanos: i128::from(quota.rate().nanos()),
            capacity: i128::from(quota.capacity()),
            lasts: lease,
            before: Vec::new(),
            level: 0,
            paid: 0,
            paid_until: Nanos::ZERO,
            worst: 0,
            last: Nanos::ZERO,
        }
    }

    /// So much is spent; instants must not go back.
    pub fn spend(&mut self, at: Nanos, tokens: u32) {
        self.pass(at);
        let spent = i128::from(tokens) * self.nanos;
        self.level += spent;
        self.before.iter_mut().for_each(|level| *level += spent);
        let highest = self.before.iter().copied().max().unwrap_or(0).max(self.level);
        self.worst = self.worst.max(highest);
    }

    /// Something happens whose price is known.
    pub fn relieve(&mut self, at: Nanos, relief: Allowance) {
        self.pass(at);
        let capacity = self.capacity * self.nanos;
        let by = match relief {
            Allowance::Capacity => capacity,
            Allowance::Jump(by) => capacity.min(i128::from(by.get()) * self.tokens),
            Allowance::TwoMasters(span) => capacity + i128::from(span.get()) * self.tokens,
        };
        let lasts = match relief {
            Allowance::TwoMasters(span) => span.max(self.lasts),
            Allowance::Capacity | Allowance::Jump(_) => self.lasts,
        };
        self.before.iter_mut().for_each(|level| *level -= by);
        self.level -= by;
        self.paid += by;
        self.paid_until = at.saturating_add(lasts);
    }

    fn pass(&mut self, at: Nanos) {
        if self.paid > 0 && self.paid_until <= at {
            self.add_rate(self.paid_until);
            self.before.push(self.level);
            (self.level, self.paid) = (0, 0);
        }
        self.add_rate(at);
    }

    fn add_rate(&mut self, at: Nanos) {
        let refilled = i128::from(at.saturating_sub(self.last).get()) * self.tokens;
        self.level = (self.level - refilled).max(-self.paid);
        self.before.iter_mut().for_each(|level| *level -= refilled);
        self.last = at;
    }

    /// By how many tokens the envelope was exceeded at worst, rounded up. What a nanosecond adds is no excess:
    /// buckets count in ticks of up to one.
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
        envelope.relieve(at(0), Allowance::Jump(Nanos::from_millis(200)));
        envelope.spend(at(0), 2);
        assert_eq!(envelope.excess(), 0);
        envelope.relieve(at(0), Allowance::Capacity);
        envelope.spend(at(0), 6);
        assert_eq!(envelope.excess(), 1);
    }

    #[test]
    fn two_masters_give_twice_while_there_are_two() {
        let mut envelope = ten_a_second();
        envelope.relieve(at(0), Allowance::TwoMasters(Nanos::from_millis(500)));
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
        envelope.relieve(at(0), Allowance::Capacity);
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
        envelope.relieve(at(0), Allowance::Capacity);
        envelope.spend(at(0), 5);
        assert_eq!(envelope.excess(), 0);
        envelope.spend(at(100), 1);
        assert_eq!(envelope.excess(), 0);
        envelope.spend(at(100), 4);
        assert_eq!(envelope.excess(), 4, "what is spent after the fault alone is too much");
    }
}
