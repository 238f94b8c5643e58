//! Which numbers a limit has for a key at a node, by what the scenario has told the node and not by what the node does.

use tidegate_core::{Limit, Meter, Nanos, Quota};

use super::naive_bucket::NaiveNumbers;
use crate::run::RunNotes;
use crate::scenario::overrides::OverrideChange;
use crate::scenario::{LimitSpec, Scenario};

/// How long a store may still charge in numbers that were in force: the longest life of a lease, and some more.
const LAST_USED: Nanos = Nanos::from_secs(2);

/// The numbers of all buckets at all nodes.
pub(super) struct NumbersInForce<'r> {
    /// The limit of each bucket.
    specs: Vec<&'r LimitSpec>,
    /// When which node was told of a change.
    told: &'r [(Nanos, usize, OverrideChange)],
}

impl<'r> NumbersInForce<'r> {
    pub(super) fn new(scenario: &'r Scenario, notes: &'r RunNotes) -> NumbersInForce<'r> {
        NumbersInForce { specs: scenario.all_buckets().collect(), told: &notes.overrides }
    }

    /// The name of a bucket's limit.
    pub(super) fn name(&self, bucket: usize) -> &str {
        &self.specs[bucket].name
    }

    /// The numbers of a token bucket as the policy has them.
    pub(super) fn plain(&self, bucket: usize) -> Option<NaiveNumbers> {
        self.quota(bucket).map(|quota| NaiveNumbers::of(quota, 100))
    }

    /// The numbers that a node may charge a bucket by, if it was sent at `sent` by a task that began at `began`.
    pub(super) fn may_be_used(&self, bucket: usize, node: usize, (began, sent): (Nanos, Nanos)) -> Vec<u16> {
        let mut hundredths: Vec<u16> =
            self.last_told(node, began).map(|change| self.of(change, bucket)).collect();
        if hundredths.is_empty() {
            hundredths.push(100);
        }
        let meanwhile = self.told.iter().filter(|(at, of, _)| *of == node && began <= *at && *at <= sent);
        hundredths.extend(meanwhile.map(|(_, _, change)| self.of(change, bucket)));
        hundredths
    }

    /// The numbers that the maintenance of a store may still use.
    pub(super) fn recently_used(&self, bucket: usize, node: usize, sent: Nanos) -> Vec<u16> {
        self.may_be_used(bucket, node, (sent.saturating_sub(LAST_USED), sent))
    }

    /// Which of these hundredths are the numbers that a call had; `None` if none of them are.
    pub(super) fn which(&self, bucket: usize, limit: &Limit, hundredths: &[u16]) -> Option<NaiveNumbers> {
        let (plain, Limit::Meter(Meter::TokenBucket(used))) = (self.quota(bucket)?, limit) else {
            return None;
        };
        let mut numbers = hundredths.iter().map(|&times| NaiveNumbers::of(plain, times));
        numbers.find(|numbers| numbers.are_those_of(used))
    }

    /// All numbers of a bucket's limit that a node knows of, those for other keys included.
    pub(super) fn known(&self, bucket: usize, node: usize, at: Nanos) -> Vec<NaiveNumbers> {
        let Some(quota) = self.quota(bucket) else { return Vec::new() };
        let others = self.last_told(node, at).flat_map(|change| [change.busiest, change.others]).flatten();
        std::iter::once(100).chain(others).map(|times| NaiveNumbers::of(quota, times)).collect()
    }

    fn last_told(&self, node: usize, at: Nanos) -> impl Iterator<Item = &OverrideChange> {
        let last = self.told.iter().rfind(move |(when, of, _)| *of == node && *when <= at);
        last.map(|(_, _, change)| change).into_iter()
    }

    /// Overrides are about the first limit; its first key is the busiest.
    fn of(&self, change: &OverrideChange, bucket: usize) -> u16 {
        let times = if bucket == 0 { change.busiest } else { change.others };
        times.unwrap_or(100)
    }

    fn quota(&self, bucket: usize) -> Option<&'r Quota> {
        match &self.specs[bucket].limit {
            Limit::Meter(Meter::TokenBucket(quota)) => Some(quota),
            _ => None,
        }
    }

    /// Is the limit of a bucket counted in the numbers of the policy?
    pub(super) fn is_plain(&self, bucket: usize, limit: &Limit) -> bool {
        self.specs[bucket].limit == *limit
    }
}
