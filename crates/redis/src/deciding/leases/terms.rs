//! Which limits are leased, for how long, and how many tokens at once.

use tidegate::{Limit, Meter, Nanos, Quota};

/// A bucket that fills faster is not leased: a round trip would take much of a lease's life.
const FILL_MIN: Nanos = Nanos::from_millis(20);

/// The shortest life of a lease.
const LIFE_MIN: Nanos = Nanos::from_millis(5);

/// The terms of the leases of one limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LeaseTerms {
    /// The life of a lease: at most the time in which the bucket fills. Two requests in that time, each for half of
    /// what is left, then get all that is refilled.
    pub(crate) life: Nanos,
    /// The most tokens that a node may hold: half of the bucket.
    pub(crate) max_held: u32,
}

impl LeaseTerms {
    /// `None` if the limit is not leased.
    pub(crate) fn of(limit: &Limit, life: Nanos) -> Option<LeaseTerms> {
        let Limit::Meter(Meter::TokenBucket(quota)) = limit else { return None };
        let fill = time_to_fill(quota);
        (fill >= FILL_MIN && life >= LIFE_MIN)
            .then(|| LeaseTerms { life: life.min(fill), max_held: quota.capacity().div_ceil(2) })
    }

    /// Half a life: the shortest time between two requests for a key.
    pub(crate) fn half_life(&self) -> Nanos {
        Nanos::new(self.life.get() / 2)
    }

    /// What one node may hold, and what is refilled during the life of a lease. The published bound is the smaller of
    /// the first times the number of nodes, and the second.
    pub(crate) fn bounds(&self, quota: &Quota) -> (u64, u64) {
        let (tokens, nanos) = (u128::from(quota.rate().tokens()), u128::from(quota.rate().nanos()));
        let comes_in = (tokens * u128::from(self.life.get())).div_ceil(nanos);
        (u64::from(self.max_held), u64::try_from(comes_in).unwrap_or(u64::MAX))
    }
}

/// The time in which an empty bucket fills, rounded down.
fn time_to_fill(quota: &Quota) -> Nanos {
    let (tokens, nanos) = (quota.rate().tokens(), quota.rate().nanos());
    let fill = u128::from(quota.capacity()) * u128::from(nanos) / u128::from(tokens);
    Nanos::new(u64::try_from(fill).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use tidegate::WindowQuota;

    use super::*;

    fn terms(rate: u64, capacity: u32) -> Option<LeaseTerms> {
        let quota = Quota::new(rate, Nanos::SECOND, capacity).unwrap();
        LeaseTerms::of(&Limit::from(quota), Nanos::from_millis(100))
    }

    #[test]
    fn a_lease_lives_no_longer_than_its_bucket_takes_to_fill() {
        assert_eq!(terms(100, 1_000), Some(LeaseTerms { life: Nanos::from_millis(100), max_held: 500 }));
        assert_eq!(terms(1_000, 25), Some(LeaseTerms { life: Nanos::from_millis(25), max_held: 13 }));
        assert_eq!(terms(1_000, 19), None, "too fast");
        let window = Limit::fixed_window(WindowQuota::new(10, Nanos::MINUTE).unwrap());
        assert_eq!(LeaseTerms::of(&window, Nanos::from_millis(100)), None);
    }

    #[test]
    fn the_bound_is_what_comes_in_or_what_nodes_hold() {
        let quota = Quota::new(1_001, Nanos::SECOND, 5_000).unwrap();
        let terms = LeaseTerms::of(&Limit::from(quota), Nanos::from_millis(100)).unwrap();
        assert_eq!(terms.bounds(&quota), (2_500, 101));
    }
}
