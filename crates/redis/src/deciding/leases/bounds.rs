//! The published bound: by how many tokens leases can exceed a limit.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tidegate::{Limit, LimitRef, Meter, Nanos};

use super::terms::LeaseTerms;

/// How long the numbers of a limit at some trust count after their last lease.
const LEASED_LATELY: Nanos = Nanos::from_secs(60);

/// For each leased limit, by its name: the most tokens that a node may hold of a bucket, and the most that are refilled
/// during the life of a lease. The bound is the smaller of the first times the number of nodes, and the second.
#[derive(Debug, Default)]
pub(super) struct Bounds(Mutex<PublishedBounds>);

#[derive(Debug, Default)]
struct PublishedBounds {
    bounds: BTreeMap<String, Bound>,
    /// The number of the last batch of limits that were registered together.
    batches: u64,
}

/// The current numbers of a limit, and earlier ones that still count.
#[derive(Clone, Copy, Debug, Default)]
struct Bound {
    /// The numbers of the limit itself.
    named: Pair,
    /// The batch in which it was registered; zero if it was not.
    batch: u64,
    /// The numbers of recent leases, perhaps at some trust.
    leased: Expiring,
    /// The numbers from before the last edit, while leases from then may be alive.
    before: Expiring,
}

type Pair = (u64, u64);

/// Numbers that count until an instant.
#[derive(Clone, Copy, Debug, Default)]
struct Expiring {
    pair: Pair,
    until: Nanos,
}

impl Expiring {
    fn at(self, now: Nanos) -> Pair {
        if now < self.until { self.pair } else { Pair::default() }
    }
}

impl Bound {
    fn at(&self, now: Nanos) -> Pair {
        larger(self.named, larger(self.leased.at(now), self.before.at(now)))
    }
}

impl Bounds {
    /// Registers a batch of limits. Leases under their earlier numbers live for `life` at most. A limit that was in an
    /// earlier batch with one of these, and is missing now, was removed from the policy.
    pub(super) fn name_all(&self, limits: &[(&LimitRef, Option<LeaseTerms>)], life: Nanos, now: Nanos) {
        let mut all = self.lock();
        let PublishedBounds { bounds, batches } = &mut *all;
        *batches += 1;
        let known = limits.iter().filter_map(|(limit, _)| bounds.get(limit.name()));
        let replaced: BTreeSet<u64> = known.map(|bound| bound.batch).filter(|&batch| batch > 0).collect();
        for bound in bounds.values_mut().filter(|bound| replaced.contains(&bound.batch)) {
            let before = Expiring { pair: bound.at(now), until: now.saturating_add(life) };
            *bound = Bound { before, ..Bound::default() };
        }
        for (limit, terms) in limits {
            if let Some(named) = numbers(limit.limit(), *terms) {
                let bound = bounds.entry(limit.name().to_owned()).or_default();
                (bound.named, bound.batch) = (named, *batches);
            }
        }
        bounds.retain(|_, bound| bound.at(now) != Pair::default());
    }

    /// A limit is about to be leased: perhaps at a trust with larger numbers, perhaps an ad hoc limit that was never
    /// named.
    pub(super) fn lease(&self, limit: &LimitRef, terms: LeaseTerms, now: Nanos) {
        let Some(pair) = numbers(limit.limit(), Some(terms)) else { return };
        let bounds = &mut self.lock().bounds;
        if !bounds.contains_key(limit.name()) {
            bounds.insert(limit.name().to_owned(), Bound::default());
        }
        if let Some(bound) = bounds.get_mut(limit.name()) {
            let pair = larger(pair, bound.leased.at(now));
            bound.leased = Expiring { pair, until: now.saturating_add(LEASED_LATELY) };
        }
    }

    /// The bounds for `nodes` nodes.
    pub(super) fn all(&self, nodes: u32, now: Nanos) -> Vec<(String, u64)> {
        let bound = |(holds, comes_in): Pair| holds.saturating_mul(nodes.into()).min(comes_in);
        let bounds = &mut self.lock().bounds;
        bounds.retain(|_, bound| bound.at(now) != Pair::default());
        bounds.iter().map(|(name, numbers)| (name.clone(), bound(numbers.at(now)))).collect()
    }

    fn lock(&self) -> MutexGuard<'_, PublishedBounds> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn larger(one: Pair, other: Pair) -> Pair {
    (one.0.max(other.0), one.1.max(other.1))
}

fn numbers(limit: &Limit, terms: Option<LeaseTerms>) -> Option<Pair> {
    match limit {
        Limit::Meter(Meter::TokenBucket(quota)) => terms.map(|terms| terms.bounds(quota)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use tidegate::Quota;

    use super::*;

    const LIFE: Nanos = Nanos::from_millis(100);

    fn at(millis: u64) -> Nanos {
        Nanos::from_millis(millis)
    }

    fn limit(name: &str, rate: u64) -> (LimitRef, LeaseTerms) {
        let limit = Limit::from(Quota::new(rate, Nanos::SECOND, 10_000).unwrap());
        let terms = LeaseTerms::of(&limit, LIFE).unwrap();
        (LimitRef::new(name, limit, 1), terms)
    }

    fn name(bounds: &Bounds, limits: &[(LimitRef, LeaseTerms)], now: Nanos) {
        let limits: Vec<_> = limits.iter().map(|(limit, terms)| (limit, Some(*terms))).collect();
        bounds.name_all(&limits, LIFE, now);
    }

    fn published(bounds: &Bounds, now: Nanos) -> Vec<u64> {
        bounds.all(1, now).into_iter().map(|(_, bound)| bound).collect()
    }

    #[test]
    fn what_is_leased_at_a_trust_counts_through_an_edit_and_after_it() {
        let (bounds, plain, (trusted, terms)) = (Bounds::default(), [limit("a", 1_000)], limit("a", 2_000));
        name(&bounds, &plain, at(0));
        assert_eq!(published(&bounds, at(0)), [100]);
        bounds.lease(&trusted, terms, at(10));
        assert_eq!(published(&bounds, at(10)), [200]);
        // The limit has not changed, and its leases stay alive.
        name(&bounds, &plain, at(20));
        assert_eq!(published(&bounds, at(119)), [200]);
        bounds.lease(&trusted, terms, at(60));
        assert_eq!(published(&bounds, at(10_000)), [200]);
        assert_eq!(published(&bounds, at(60_060)), [100], "nobody has leased it for a minute");
    }

    #[test]
    fn larger_numbers_are_published_while_leases_under_them_live() {
        let bounds = Bounds::default();
        name(&bounds, &[limit("a", 2_000)], at(0));
        name(&bounds, &[limit("a", 1_000)], at(10));
        let (less, terms) = limit("a", 1_000);
        bounds.lease(&less, terms, at(20));
        assert_eq!(published(&bounds, at(109)), [200]);
        assert_eq!(published(&bounds, at(110)), [100]);
    }

    #[test]
    fn limits_that_are_named_one_by_one_stay() {
        let bounds = Bounds::default();
        for (limit, now) in [(limit("a", 1_000), 0), (limit("b", 2_000), 10), (limit("b", 3_000), 20)] {
            name(&bounds, &[limit], at(now));
        }
        assert_eq!(published(&bounds, at(1_000)), [100, 300]);
    }

    #[test]
    fn a_limit_that_is_no_more_is_published_for_a_life() {
        let bounds = Bounds::default();
        name(&bounds, &[limit("a", 1_000), limit("b", 2_000)], at(0));
        name(&bounds, &[limit("b", 2_000)], at(10));
        assert_eq!(published(&bounds, at(109)), [100, 200]);
        assert_eq!(published(&bounds, at(110)), [200]);
    }
}
