//! How many requests limits admit.

use tidegate_core::{Algorithm, Nanos};

use crate::rules::Rule;

/// How many requests can be admitted at once, and how many a second. Every request takes at least one token, so these
/// are the tokens of limits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Reach {
    burst: u128,
    /// In billionths a second, rounded down, so that a third and two thirds do not become more than one.
    rate: u128,
}

/// `Reach::rate` of one request a second.
const ONE_A_SECOND: u128 = 1_000_000_000;

impl Reach {
    /// What one bucket of a limit admits.
    pub(super) fn of_bucket(rule: &Rule) -> Reach {
        let numbers = rule.numbers;
        let burst = match rule.limit.algorithm() {
            Algorithm::TokenBucket => u128::from(numbers.capacity),
            Algorithm::SlidingWindow | Algorithm::SlidingLog => u128::from(numbers.rate),
            // The end of one window and the beginning of the next.
            Algorithm::FixedWindow => 2 * u128::from(numbers.rate),
        };
        let a_second = u128::from(numbers.rate) * u128::from(Nanos::SECOND.get());
        let rate = a_second.saturating_mul(ONE_A_SECOND) / u128::from(numbers.window.get()).max(1);
        Reach { burst, rate }
    }

    /// What this many such buckets admit together.
    pub(super) fn times(self, buckets: u128) -> Reach {
        Reach { burst: self.burst.saturating_mul(buckets), rate: self.rate.saturating_mul(buckets) }
    }

    /// What two limits admit together, each its own requests.
    pub(super) fn plus(self, other: Reach) -> Reach {
        Reach { burst: self.burst.saturating_add(other.burst), rate: self.rate.saturating_add(other.rate) }
    }

    /// What two limits admit that both apply to the same requests.
    pub(super) fn min(self, other: Reach) -> Reach {
        Reach { burst: self.burst.min(other.burst), rate: self.rate.min(other.rate) }
    }

    /// Are there no more than `burst` at once and `rate` a second?
    pub(super) fn is_within(self, burst: u64, rate: u64) -> bool {
        self.burst <= u128::from(burst) && self.rate <= u128::from(rate) * ONE_A_SECOND
    }

    pub(super) fn burst(self) -> u128 {
        self.burst
    }

    /// Rounded up.
    pub(super) fn per_second(self) -> u128 {
        self.rate.div_ceil(ONE_A_SECOND)
    }
}
