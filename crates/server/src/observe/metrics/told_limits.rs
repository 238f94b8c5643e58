//! Which limits have series of their own.
//!
//! A policy may have a limit for each of tens of thousands of tenants, and a page of metrics must stay
//! readable. A limit that has series keeps them for as long as the policy has the limit, so that no
//! counter jumps; the others are summed under one name.

use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};

use tidegate::engine::counting::counters::{RatioHistogram, RuleOutcome, RuleSnapshot};

/// How many limits have series of their own.
pub const LIMITS_TOLD_MAX: usize = 1_000;

/// The name under which the rest is summed. No limit can be called so.
pub const OTHER: &str = "(other)";

/// The limits that have series.
#[derive(Debug, Default)]
pub(crate) struct LimitSeriesSet {
    names: Mutex<HashSet<String>>,
}

/// What is told of one limit, or of all that have no series of their own.
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
        remaining.iter_mut().zip(counted.remaining.buckets()).for_each(|(told, bucket)| *told = bucket);
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

    /// How many decisions there were.
    pub(crate) fn remaining_count(&self) -> u64 {
        self.remaining.iter().map(|(_, count)| count).sum()
    }

    fn used(&self) -> u64 {
        self.outcomes.iter().sum()
    }
}

impl LimitSeriesSet {
    /// The limits to tell of, by name, and at the end the sum of the others if there are any.
    pub(crate) fn choose(&self, counted: Vec<(String, RuleSnapshot)>) -> Vec<LimitSeries> {
        let all: Vec<LimitSeries> =
            counted.into_iter().map(|(name, counted)| LimitSeries::new(name, &counted)).collect();
        let mut told = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() <= LIMITS_TOLD_MAX {
            told.clear();
            told.extend(all.iter().map(|limit| limit.name.clone()));
            return all;
        }
        let known: HashSet<&str> = all.iter().map(|limit| limit.name.as_str()).collect();
        told.retain(|name| known.contains(name.as_str()));
        // Free places go to those that are used the most. The unused wait: one that is told of later
        // begins at zero, so the sum of the others does not fall.
        let is_new = |limit: &&LimitSeries| limit.used() > 0 && !told.contains(&limit.name);
        let mut new: Vec<&LimitSeries> = all.iter().filter(is_new).collect();
        new.sort_by_key(|limit| std::cmp::Reverse(limit.used()));
        let free = LIMITS_TOLD_MAX - told.len();
        told.extend(new.into_iter().take(free).map(|limit| limit.name.clone()));
        let (mut chosen, others): (Vec<LimitSeries>, Vec<LimitSeries>) =
            all.into_iter().partition(|limit| told.contains(&limit.name));
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
        let told = LimitSeriesSet::default().choose(numbered(LIMITS_TOLD_MAX, |_| 0));
        assert_eq!(told.len(), LIMITS_TOLD_MAX);
        assert!(told.iter().all(|limit| limit.name != OTHER));
    }

    #[test]
    fn of_many_the_most_used_and_a_sum_are_told() {
        let told = LimitSeriesSet::default().choose(numbered(LIMITS_TOLD_MAX + 500, |number| number as u64));
        assert_eq!(told.len(), LIMITS_TOLD_MAX + 1);
        assert_eq!(told[0].name, "00500");
        let rest = told.last().expect("there is a sum");
        assert_eq!((rest.name.as_str(), rest.outcomes[0]), (OTHER, (0..500).sum::<u64>()));
    }

    #[test]
    fn who_is_told_of_stays_and_the_sum_does_not_fall() {
        let limits = LimitSeriesSet::default();
        let rest = |told: &[LimitSeries]| told.last().expect("there is a sum").outcomes[0];
        let first = limits.choose(numbered(LIMITS_TOLD_MAX + 500, |number| (number < 900).into()));
        assert_eq!((first.len(), rest(&first)), (901, 0), "the unused are not told of");
        let second =
            limits.choose(numbered(LIMITS_TOLD_MAX + 500, |number| if number < 900 { 1 } else { 9 }));
        assert_eq!((second.len(), rest(&second)), (LIMITS_TOLD_MAX + 1, 500 * 9));
        assert!(first[..900].iter().all(|limit| second.iter().any(|other| other.name == limit.name)));
    }
}
