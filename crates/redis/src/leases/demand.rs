//! How much of a key this node is asked for.

use tidegate::Nanos;

/// So many requests in the half life before make a key hot.
const HOT: u32 = 3;

/// Counts requests and what they cost, by half lives that begin at multiples of their length.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Demand {
    period: u64,
    requests: u32,
    cost: u32,
    requests_before: u32,
    /// What was asked for in a half life, on average over the last few.
    average: u32,
}

impl Demand {
    /// Somebody asks.
    pub(super) fn count(&mut self, cost: u32, half: Nanos, now: Nanos) {
        self.turn_to(now.get() / half.get());
        self.requests = self.requests.saturating_add(1);
        self.cost = self.cost.saturating_add(cost);
    }

    /// What was counted last would not have been admitted anyhow.
    pub(super) fn uncount(&mut self, cost: u32) {
        self.requests = self.requests.saturating_sub(1);
        self.cost = self.cost.saturating_sub(cost);
    }

    /// Is the key asked for so often that a lease pays?
    pub(super) fn is_hot(&self) -> bool {
        self.requests_before >= HOT
    }

    /// What will be asked for during a life, if all goes on as it did.
    pub(super) fn of_a_life(&self) -> u32 {
        self.average.saturating_mul(2)
    }

    fn turn_to(&mut self, period: u64) {
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
            // Nobody asked for a while, or the clock stepped back.
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
        assert_eq!(demand.of_a_life(), 400);
        count(&mut demand, 2, 1_099);
        count(&mut demand, 1, 1_100);
        assert!(demand.is_hot(), "three again");
        assert_eq!(demand.of_a_life(), 206);
        count(&mut demand, 1, 1_150);
        assert!(!demand.is_hot());
    }

    #[test]
    fn idle_keys_are_cold_again() {
        let mut demand = Demand::default();
        count(&mut demand, 100, 1_000);
        count(&mut demand, 100, 1_100);
        assert!(!demand.is_hot() && demand.of_a_life() == 0);
        count(&mut demand, 1, 900);
        assert!(!demand.is_hot(), "a step back starts anew");
    }
}
