//! What nodes find of a candidate, and its sum over all nodes.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use tidegate::engine::beside::{
    ComparedExample, ComparisonSnapshot, ComparisonTotals, DecidedSide, DifferingDecisions, DifferingKey,
};
use tidegate_database::{CandidateRun, CandidateStep};
use utoipa::ToSchema;

use crate::control::api::rfc3339;
use crate::control::glance::busy::{KeyCount, KeyCounts};
use crate::control::glance::last_hour::STEP_SECS;
use crate::control::startup::unix_millis;

/// How many keys of each kind a report has.
const KEYS_MAX: usize = 50;

/// How many examples of each kind a report has.
const EXAMPLES_MAX: usize = 32;

/// How many limits a report counts by.
const LIMITS_MAX: usize = 1_000;

/// How many decisions the candidate would make otherwise.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub(crate) struct FoundCounts {
    /// Both policies admit the request.
    both_admit: u64,
    /// Both deny it.
    both_deny: u64,
    /// The policy in force admits it, the candidate denies it.
    newly_denied: u64,
    /// The policy in force denies it, the candidate admits it.
    newly_admitted: u64,
    /// One of them could not be decided: the store did not answer, there was too much to do, or the policy in force
    /// refused the client before it was identified and the candidate would not have.
    not_compared: u64,
}

/// Decisions that differ in one direction.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub(crate) struct FoundDifferences {
    /// How many, by what denies: the name of a limit or detector, `block` or a reason.
    by_limit: BTreeMap<String, u64>,
    /// How many are denied by limits that are not listed, since there are too many.
    by_others: u64,
    /// The keys with the most of them, most first. Values that may be secrets are shown as a few characters and a hash.
    keys: Vec<FoundKey>,
    /// No other key has more.
    #[serde(default)]
    others_at_most: u64,
    /// Some of them, newest first.
    examples: Vec<FoundExample>,
}

/// A key whose requests are decided otherwise.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub(crate) struct FoundKey {
    /// What denies them.
    limit: String,
    /// The key.
    key: String,
    /// How many requests; never too low.
    count: u64,
    /// By how much the count may be too high.
    error: u64,
}

/// A request that is decided otherwise.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub(crate) struct FoundExample {
    /// When.
    #[schema(format = DateTime)]
    time: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    tenant: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    user: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    client: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ip: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    method: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    path: Option<String>,
    /// How the policy in force has decided it.
    live: FoundDecision,
    /// How the candidate would have.
    candidate: FoundDecision,
}

/// A decision in an example.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub(crate) struct FoundDecision {
    allowed: bool,
    reason: String,
    /// What denies it.
    #[serde(skip_serializing_if = "Option::is_none")]
    limit: Option<String>,
    /// The key of that limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<String>,
}

/// What a node has found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct FoundOnNode {
    totals: FoundCounts,
    newly_denied: FoundDifferences,
    newly_admitted: FoundDifferences,
    /// Why the candidate cannot run there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

/// What all nodes have found of a candidate.
#[derive(Debug, Default, Serialize, ToSchema)]
pub(crate) struct CandidateReport {
    /// The candidate.
    id: String,
    /// How many decisions.
    totals: FoundCounts,
    /// Requests that the candidate denies and the policy in force admits; by the limits of the candidate.
    newly_denied: FoundDifferences,
    /// Requests that the candidate admits and the policy in force denies; by the limits of the policy in force.
    newly_admitted: FoundDifferences,
    /// The last day, in steps of half a minute in which there were decisions, oldest first.
    steps: Vec<FoundStep>,
    /// The nodes that run it or have run it; a node that was started again is there once for each start.
    nodes: Vec<FoundNode>,
}

/// A step of half a minute.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct FoundStep {
    /// When it began.
    #[schema(format = DateTime)]
    time: String,
    #[serde(flatten)]
    counts: FoundCounts,
}

/// A node that runs a candidate, or has run it.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct FoundNode {
    /// Its name.
    id: String,
    /// When it last wrote what it has found; it does when there is something new.
    #[schema(format = DateTime)]
    seen: String,
    /// How many decisions it has compared, or could not.
    decisions: u64,
    /// Why the candidate cannot run there.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

impl FoundCounts {
    fn of(totals: ComparisonTotals) -> FoundCounts {
        let ComparisonTotals { both_admit, both_deny, newly_denied, newly_admitted, not_compared } = totals;
        FoundCounts { both_admit, both_deny, newly_denied, newly_admitted, not_compared }
    }

    /// What came between two readings.
    pub(super) fn between(before: ComparisonTotals, after: ComparisonTotals) -> FoundCounts {
        let (before, mut counts) = (FoundCounts::of(before), FoundCounts::of(after));
        counts.zip(&before, u64::saturating_sub);
        counts
    }

    pub(super) fn add(&mut self, other: &FoundCounts) {
        self.zip(other, u64::saturating_add);
    }

    fn zip(&mut self, other: &FoundCounts, with: fn(u64, u64) -> u64) {
        self.both_admit = with(self.both_admit, other.both_admit);
        self.both_deny = with(self.both_deny, other.both_deny);
        self.newly_denied = with(self.newly_denied, other.newly_denied);
        self.newly_admitted = with(self.newly_admitted, other.newly_admitted);
        self.not_compared = with(self.not_compared, other.not_compared);
    }

    fn sum(&self) -> u64 {
        self.both_admit + self.both_deny + self.newly_denied + self.newly_admitted + self.not_compared
    }
}

impl FoundOnNode {
    pub(super) fn of(snapshot: &ComparisonSnapshot) -> FoundOnNode {
        FoundOnNode {
            totals: FoundCounts::of(snapshot.totals),
            newly_denied: FoundDifferences::of(&snapshot.newly_denied),
            newly_admitted: FoundDifferences::of(&snapshot.newly_admitted),
            error: None,
        }
    }

    /// The candidate cannot run on this node.
    pub(super) fn failed(error: &str) -> FoundOnNode {
        FoundOnNode { error: Some(error.to_owned()), ..FoundOnNode::default() }
    }
}

impl FoundDifferences {
    fn of(found: &DifferingDecisions) -> FoundDifferences {
        let count = |key: &DifferingKey| KeyCount {
            limit: key.rule.to_string(),
            key: key.key.clone(),
            count: key.count,
            error: key.error,
            ..KeyCount::default()
        };
        let counts = KeyCounts::new(found.keys.iter().map(count).collect(), found.others_at_most);
        let mut differences = FoundDifferences {
            by_limit: found.by_rule.iter().map(|(name, count)| (name.to_string(), *count)).collect(),
            by_others: found.by_others,
            examples: found.examples.iter().rev().map(FoundExample::of).collect(),
            ..FoundDifferences::default()
        };
        differences.set_keys(counts);
        differences
    }

    /// Takes the first keys of these counts.
    fn set_keys(&mut self, counts: KeyCounts) {
        let first = counts.first(KEYS_MAX);
        self.others_at_most = first.others_at_most();
        let key = |KeyCount { limit, key, count, error, .. }| FoundKey { limit, key, count, error };
        self.keys = first.into_keys().map(key).collect();
    }

    /// Removes its keys.
    fn take_keys(&mut self) -> KeyCounts {
        let keys = std::mem::take(&mut self.keys);
        let count = |FoundKey { limit, key, count, error }| KeyCount {
            limit,
            key,
            count,
            error,
            ..KeyCount::default()
        };
        KeyCounts::new(keys.into_iter().map(count).collect(), self.others_at_most)
    }

    /// The sum of what several runs have found, whatever their order.
    fn sum(runs: impl Iterator<Item = FoundDifferences>) -> FoundDifferences {
        let (mut sum, mut counts) = (FoundDifferences::default(), Vec::new());
        for mut run in runs {
            counts.push(run.take_keys());
            sum.by_others = sum.by_others.saturating_add(run.by_others);
            for (limit, count) in run.by_limit {
                let sum = sum.by_limit.entry(limit).or_default();
                *sum = sum.saturating_add(count);
            }
            sum.examples.extend(run.examples);
            sum.examples.sort_by_cached_key(|example| {
                (Reverse(example.time.clone()), serde_json::to_string(example).unwrap_or_default())
            });
            sum.examples.truncate(EXAMPLES_MAX);
        }
        // Only here: what is beyond the bounds of a part of the runs may be within those of all.
        if sum.by_limit.len() > LIMITS_MAX {
            let mut by_count: Vec<(String, u64)> = std::mem::take(&mut sum.by_limit).into_iter().collect();
            by_count.sort_by_key(|(_, count)| Reverse(*count));
            let others = by_count.split_off(LIMITS_MAX).into_iter().map(|(_, count)| count);
            sum.by_others = others.fold(sum.by_others, u64::saturating_add);
            sum.by_limit = by_count.into_iter().collect();
        }
        sum.set_keys(KeyCounts::sum(counts.iter()));
        sum
    }
}

impl FoundExample {
    fn of(example: &ComparedExample) -> FoundExample {
        let text = |text: &Option<Box<str>>| text.as_deref().map(str::to_owned);
        FoundExample {
            time: rfc3339(unix_millis(example.at)),
            tenant: text(&example.tenant),
            user: text(&example.user),
            client: text(&example.client),
            ip: example.ip.map(|ip| ip.to_string()),
            method: text(&example.method),
            path: text(&example.path),
            live: FoundDecision::of(&example.live),
            candidate: FoundDecision::of(&example.candidate),
        }
    }
}

impl FoundDecision {
    fn of(side: &DecidedSide) -> FoundDecision {
        FoundDecision {
            allowed: side.allowed,
            reason: side.reason.as_str().to_owned(),
            limit: side.rule.as_deref().map(str::to_owned),
            key: side.key.as_deref().map(str::to_owned),
        }
    }
}

impl CandidateReport {
    /// The sum of what all runs have found. What a newer version of the program has written is left out.
    pub(crate) fn new(id: &str, runs: Vec<CandidateRun>, steps: &[CandidateStep]) -> CandidateReport {
        let mut report = CandidateReport { id: id.to_owned(), ..CandidateReport::default() };
        let (mut newly_denied, mut newly_admitted) = (Vec::new(), Vec::new());
        for run in runs {
            let Ok(found) = serde_json::from_str::<FoundOnNode>(&run.found) else { continue };
            report.totals.add(&found.totals);
            newly_denied.push(found.newly_denied);
            newly_admitted.push(found.newly_admitted);
            report.nodes.push(FoundNode {
                id: run.node,
                seen: rfc3339(run.seen),
                decisions: found.totals.sum(),
                error: found.error,
            });
        }
        report.newly_denied = FoundDifferences::sum(newly_denied.into_iter());
        report.newly_admitted = FoundDifferences::sum(newly_admitted.into_iter());
        let mut sums: BTreeMap<u64, FoundCounts> = BTreeMap::new();
        for step in steps {
            if let Ok(counts) = serde_json::from_str(&step.counts) {
                sums.entry(step.step).or_default().add(&counts);
            }
        }
        let shown = |(step, counts)| FoundStep {
            time: rfc3339(tidegate_database::UnixMillis::new((step * STEP_SECS * 1_000) as i64)),
            counts,
        };
        report.steps = sums.into_iter().map(shown).collect();
        report
    }
}

#[cfg(test)]
mod tests;
