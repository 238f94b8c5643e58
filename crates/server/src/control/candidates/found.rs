//! What nodes find of a candidate, and its sum over all nodes.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use tidegate::engine::beside::{
    ComparedExample, ComparisonSnapshot, ComparisonTotals, DecidedSide, DifferingDecisions,
};
use tidegate_database::{CandidateRun, CandidateStep};
use utoipa::ToSchema;

use crate::control::api::rfc3339;
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
        let keys = found.keys.iter().map(|key| FoundKey {
            limit: key.rule.to_string(),
            key: key.key.clone(),
            count: key.count,
            error: key.error,
        });
        FoundDifferences {
            by_limit: found.by_rule.iter().map(|(name, count)| (name.to_string(), *count)).collect(),
            by_others: found.by_others,
            keys: keys.take(KEYS_MAX).collect(),
            examples: found.examples.iter().rev().map(FoundExample::of).collect(),
        }
    }

    fn add(&mut self, other: FoundDifferences) {
        self.by_others = self.by_others.saturating_add(other.by_others);
        for (limit, count) in other.by_limit {
            let sum = match self.by_limit.len() < LIMITS_MAX {
                true => self.by_limit.entry(limit).or_default(),
                false => self.by_limit.get_mut(&limit).unwrap_or(&mut self.by_others),
            };
            *sum = sum.saturating_add(count);
        }
        for key in other.keys {
            match self.keys.iter_mut().find(|known| (&known.limit, &known.key) == (&key.limit, &key.key)) {
                Some(known) => {
                    known.count = known.count.saturating_add(key.count);
                    known.error = known.error.saturating_add(key.error);
                }
                None => self.keys.push(key),
            }
        }
        self.keys.sort_by(|one, other| {
            other.count.cmp(&one.count).then_with(|| (&one.limit, &one.key).cmp(&(&other.limit, &other.key)))
        });
        self.keys.truncate(KEYS_MAX);
        self.examples.extend(other.examples);
        self.examples.sort_by(|one, other| other.time.cmp(&one.time));
        self.examples.truncate(EXAMPLES_MAX);
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
        for run in runs {
            let Ok(found) = serde_json::from_str::<FoundOnNode>(&run.found) else { continue };
            report.totals.add(&found.totals);
            report.newly_denied.add(found.newly_denied);
            report.newly_admitted.add(found.newly_admitted);
            report.nodes.push(FoundNode {
                id: run.node,
                seen: rfc3339(run.seen),
                decisions: found.totals.sum(),
                error: found.error,
            });
        }
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
mod tests {
    use super::*;

    fn found(limit: &str, key: &str, count: u64) -> FoundDifferences {
        FoundDifferences {
            by_limit: BTreeMap::from([(limit.to_owned(), count)]),
            keys: vec![FoundKey { limit: limit.to_owned(), key: key.to_owned(), count, error: 0 }],
            ..FoundDifferences::default()
        }
    }

    #[test]
    fn what_nodes_find_is_added_up_and_stays_bounded() {
        let run = |node: &str, found: &FoundOnNode| CandidateRun {
            node: node.to_owned(),
            found: serde_json::to_string(found).unwrap(),
            ..CandidateRun::default()
        };
        let mut runs: Vec<CandidateRun> = (0..2_000)
            .map(|n| {
                let newly_denied = found(&format!("limit-{n}"), &n.to_string(), n);
                run("a", &FoundOnNode { newly_denied, ..FoundOnNode::default() })
            })
            .collect();
        let counts = FoundCounts { newly_denied: 5, both_admit: 1, ..FoundCounts::default() };
        let newly_denied = found("limit-1", "1", 5);
        runs.push(run("b", &FoundOnNode { totals: counts, newly_denied, ..FoundOnNode::default() }));
        runs.push(CandidateRun { found: "written by a newer version".to_owned(), ..CandidateRun::default() });
        let step = |step, counts: &FoundCounts| CandidateStep {
            step,
            counts: serde_json::to_string(counts).unwrap(),
        };
        let report = CandidateReport::new("c", runs, &[step(3, &counts), step(2, &counts), step(3, &counts)]);
        assert_eq!((report.totals, report.nodes.len()), (counts, 2_001));
        let differing = &report.newly_denied;
        assert_eq!((differing.by_limit.len(), differing.keys.len()), (LIMITS_MAX, KEYS_MAX));
        assert_eq!(differing.by_limit["limit-1"], 6);
        let all = differing.by_limit.values().sum::<u64>() + differing.by_others;
        assert_eq!(all, (0..2_000).sum::<u64>() + 5);
        assert_eq!(differing.keys[0].key, "1999");
        let steps: Vec<(&str, u64)> =
            report.steps.iter().map(|step| (&*step.time, step.counts.newly_denied)).collect();
        assert_eq!(steps, [("1970-01-01T00:01:00.000Z", 5), ("1970-01-01T00:01:30.000Z", 10)]);
    }
}
