//! Chooses which limits get their own metric series.
//!
//! The limits of all tenants are summed under the name `tenant`, unless the settings ask for each: who a tenant is may
//! be nobody's business who can read the metrics, and a policy may have tens of thousands of them. In any case the page
//! must stay small. A limit that has its own series keeps it as long as the limit is in the policy, so that no counter
//! goes back; limits beyond the maximum are summed under the name `(other)`.

use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};

use tidegate::engine::counting::counters::{RatioHistogram, RuleOutcome, RuleSnapshot};
use tidegate::engine::{CountedLimits, TENANT_PREFIX};

/// How many limits can have their own series.
pub const LIMIT_SERIES_MAX: usize = 1_000;

/// The name of the sum of all other limits. No limit can have this name.
pub const OTHER: &str = "(other)";

/// The name of the sum of all tenants' limits. A limit of the policy that has this name is counted with them.
pub(crate) const TENANT: &str = "tenant";

/// The names under which a limit may be found among the series, the first one that exists.
pub(crate) fn series_of(limit: &str, by_tenant: bool) -> impl Iterator<Item = &str> {
    let sum = (!by_tenant && limit.starts_with(TENANT_PREFIX)).then_some(TENANT);
    [sum.unwrap_or(limit), OTHER].into_iter()
}

/// The names of the limits that have their own series.
#[derive(Debug, Default)]
pub(crate) struct LimitSeriesSet {
    names: Mutex<HashSet<String>>,
}

/// The series of one limit, or of all limits without their own series.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LimitSeries {
    pub(crate) name: String,
    pub(crate) outcomes: [u64; RuleOutcome::ALL.len()],
    pub(crate) remaining: [(u32, u64); RatioHistogram::BOUNDS_PERCENT.len()],
    pub(crate) remaining_sum_millionths: u64,
}

impl LimitSeries {
    fn new(name: String, counted: &RuleSnapshot) -> LimitSeries {
        let mut remaining = RatioHistogram::BOUNDS_PERCENT.map(|bound| (bound, 0));
        remaining.iter_mut().zip(counted.remaining.buckets()).for_each(|(to, bucket)| *to = bucket);
        LimitSeries {
            name,
            outcomes: RuleOutcome::ALL.map(|outcome| counted.get(outcome)),
            remaining,
            remaining_sum_millionths: counted.remaining.sum_millionths(),
        }
    }

    fn add(&mut self, other: &LimitSeries) {
        self.outcomes.iter_mut().zip(other.outcomes).for_each(|(sum, more)| *sum += more);
        self.remaining.iter_mut().zip(other.remaining).for_each(|(sum, more)| sum.1 += more.1);
        self.remaining_sum_millionths += other.remaining_sum_millionths;
    }

    /// The number of decisions.
    pub(crate) fn remaining_count(&self) -> u64 {
        self.remaining.iter().map(|(_, count)| count).sum()
    }

    fn used(&self) -> u64 {
        self.outcomes.iter().sum()
    }
}

impl LimitSeriesSet {
    /// The series to export, by name; those of tenants only if `by_tenant`, else one sum of them.
    pub(crate) fn choose(&self, counted: CountedLimits, by_tenant: bool) -> Vec<LimitSeries> {
        if by_tenant {
            return self.choose_most_used(counted.limits);
        }
        let CountedLimits { mut limits, former_tenants: mut sum } = counted;
        let mut has_tenants = sum != RuleSnapshot::default();
        limits.retain(|(name, counted)| {
            let is_tenant = name.starts_with(TENANT_PREFIX);
            if is_tenant {
                has_tenants = true;
                sum.add(counted);
            }
            !is_tenant
        });
        let mut chosen = self.choose_most_used(limits);
        if has_tenants {
            let tenants = LimitSeries::new(TENANT.to_owned(), &sum);
            match chosen.iter_mut().find(|limit| limit.name == TENANT) {
                Some(namesake) => namesake.add(&tenants),
                None => chosen.push(tenants),
            }
        }
        chosen
    }

    /// A series for each limit, or for as many as can have one, and last the sum of the others.
    fn choose_most_used(&self, counted: Vec<(String, RuleSnapshot)>) -> Vec<LimitSeries> {
        let all: Vec<LimitSeries> =
            counted.into_iter().map(|(name, counted)| LimitSeries::new(name, &counted)).collect();
        let mut named = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() <= LIMIT_SERIES_MAX {
            named.clear();
            named.extend(all.iter().map(|limit| limit.name.clone()));
            return all;
        }
        let known: HashSet<&str> = all.iter().map(|limit| limit.name.as_str()).collect();
        named.retain(|name| known.contains(name.as_str()));
        // Free series go to the most used limits. Unused limits wait: when one gets a series later, it moves only
        // counts of zero out of the sum of the others, which therefore never falls.
        let is_new = |limit: &&LimitSeries| limit.used() > 0 && !named.contains(&limit.name);
        let mut new: Vec<&LimitSeries> = all.iter().filter(is_new).collect();
        new.sort_by_key(|limit| std::cmp::Reverse(limit.used()));
        let free = LIMIT_SERIES_MAX - named.len();
        named.extend(new.into_iter().take(free).map(|limit| limit.name.clone()));
        let (mut chosen, others): (Vec<LimitSeries>, Vec<LimitSeries>) =
            all.into_iter().partition(|limit| named.contains(&limit.name));
        let mut rest = LimitSeries::new(OTHER.to_owned(), &RuleSnapshot::default());
        others.iter().for_each(|limit| rest.add(limit));
        chosen.push(rest);
        chosen
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn used(name: &str, allowed: u64) -> (String, RuleSnapshot) {
        (name.to_owned(), RuleSnapshot { allowed, ..RuleSnapshot::default() })
    }

    fn numbered(count: usize, allowed: impl Fn(usize) -> u64) -> Vec<(String, RuleSnapshot)> {
        (0..count).map(|number| used(&format!("{number:05}"), allowed(number))).collect()
    }

    #[test]
    fn few_are_all_told_even_the_unused() {
        let chosen = LimitSeriesSet::default().choose_most_used(numbered(LIMIT_SERIES_MAX, |_| 0));
        assert_eq!(chosen.len(), LIMIT_SERIES_MAX);
        assert!(chosen.iter().all(|limit| limit.name != OTHER));
    }

    #[test]
    fn of_many_the_most_used_and_a_sum_are_told() {
        let chosen = LimitSeriesSet::default()
            .choose_most_used(numbered(LIMIT_SERIES_MAX + 500, |number| number as u64));
        assert_eq!(chosen.len(), LIMIT_SERIES_MAX + 1);
        assert_eq!(chosen[0].name, "00500");
        let rest = chosen.last().expect("there is a sum");
        assert_eq!((rest.name.as_str(), rest.outcomes[0]), (OTHER, (0..500).sum::<u64>()));
    }

    #[test]
    fn who_is_told_of_stays_and_the_sum_does_not_fall() {
        let limits = LimitSeriesSet::default();
        let rest = |chosen: &[LimitSeries]| chosen.last().expect("there is a sum").outcomes[0];
        let first = limits.choose_most_used(numbered(LIMIT_SERIES_MAX + 500, |number| (number < 900).into()));
        assert_eq!((first.len(), rest(&first)), (901, 0), "unused limits get no series");
        let second = limits
            .choose_most_used(numbered(LIMIT_SERIES_MAX + 500, |number| if number < 900 { 1 } else { 9 }));
        assert_eq!((second.len(), rest(&second)), (LIMIT_SERIES_MAX + 1, 500 * 9));
        assert!(first[..900].iter().all(|limit| second.iter().any(|other| other.name == limit.name)));
    }

    #[test]
    fn tenants_are_one_series_unless_asked_for() {
        let counted = || CountedLimits {
            limits: [("a", 1), ("tenant:x", 2), ("tenant:y", 3)].map(|(name, n)| used(name, n)).into(),
            former_tenants: used("tenant:gone", 4).1,
        };
        let told = |counted, by_tenant| -> Vec<(String, u64)> {
            let chosen = LimitSeriesSet::default().choose(counted, by_tenant);
            chosen.into_iter().map(|limit| (limit.name, limit.outcomes[0])).collect()
        };
        let expected = |told: &[(&str, u64)]| -> Vec<(String, u64)> {
            told.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect()
        };
        assert_eq!(told(counted(), false), expected(&[("a", 1), (TENANT, 9)]));
        assert_eq!(told(counted(), true), expected(&[("a", 1), ("tenant:x", 2), ("tenant:y", 3)]));
        let namesake = CountedLimits { limits: vec![used(TENANT, 5)], ..counted() };
        assert_eq!(told(namesake, false), expected(&[(TENANT, 9)]), "no series comes twice");
        let none = CountedLimits { limits: vec![used("a", 1)], ..CountedLimits::default() };
        assert_eq!(told(none, false), expected(&[("a", 1)]));
        assert_eq!(series_of("tenant:x", false).collect::<Vec<_>>(), [TENANT, OTHER]);
        assert_eq!(series_of("tenant:x", true).collect::<Vec<_>>(), ["tenant:x", OTHER]);
    }
}
