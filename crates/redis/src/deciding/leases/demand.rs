//! The demand for a key on this node.

use tidegate::Nanos;

/// This many requests in the last half life make a key hot.
const HOT_REQUESTS: u32 = 3;

/// Counts requests and their costs in periods of half a lease's life.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Demand {
    period: u64,
    requests: u32,
    cost: u32,
    requests_before: u32,
    /// The cost in a period: a moving average.
    average: u32,
}

impl Demand {
    /// Counts a request.
    pub(super) fn count(&mut self, cost: u32, half_life: Nanos, now: Nanos) {
        self.advance_to(now.get() / half_life.get());
        self.requests = self.requests.saturating_add(1);
        self.cost = self.cost.saturating_add(cost);
    }

    /// Removes the last request: another limit refused it.
    pub(super) fn uncount(&mut self, cost: u32) {
        self.requests = self.requests.saturating_sub(1);
        self.cost = self.cost.saturating_sub(cost);
    }

    /// Is the key used so often that a lease saves calls?
    pub(super) fn is_hot(&self) -> bool {
        self.requests_before >= HOT_REQUESTS
    }

    /// The expected cost during one life of a lease.
    pub(super) fn per_life(&self) -> u32 {
        self.average.saturating_mul(2)
    }

    fn advance_to(&mut self, period: u64) {
        let passed = period.wrapping_sub(self.period);
        match passed {
            0 => return,
            1 => {
                self.requests_before = self.requests;
                self.average = match self.average {
                    0 => self.cost,
                    average => ((u64::from(average) + u64::from(self.cost)).div_ceil(2)) as u32,
                };
            }
            // No requests for a while, or the clock stepped back.
            _ => *self = Demand::default(),
        }
        (self.period, self.requests, self.cost) = (period, 0, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HALF: Nanos = Nanos::from_millis(50);

    fn count(demand: &mut Demand, requests: u32, millis: u64) {
        (0..requests).for_each(|_| demand.count(2, HALF, Nanos::from_millis(millis)));
    }

    #[test]
    fn three_requests_in_the_half_life_before_make_a_key_hot() {
        let mut demand = Demand::default();
        count(&mut demand, 100, 1_000);
        assert!(!demand.is_hot(), "a burst in one half life is not");
        count(&mut demand, 1, 1_050);
        assert!(demand.is_hot());
        assert_eq!(demand.per_life(), 400);
        count(&mut demand, 2, 1_099);
        count(&mut demand, 1, 1_100);
        assert!(demand.is_hot(), "three again");
        assert_eq!(demand.per_life(), 206);
        count(&mut demand, 1, 1_150);
        assert!(!demand.is_hot());
    }

    #[test]
    fn idle_keys_are_cold_again() {
        let mut demand = Demand::default();
        count(&mut demand, 100, 1_000);
        count(&mut demand, 100, 1_100);
        assert!(!demand.is_hot() && demand.per_life() == 0);
        count(&mut demand, 1, 900);
        assert!(!demand.is_hot(), "a step back starts anew");
    }
}
