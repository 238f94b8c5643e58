//! A policy that is tried out: what it reports, and what it counts in its own buckets.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering;

use tidegate::engine::beside::ComparisonTotals;
use tidegate_core::Nanos;
use tidegate_redis::{CallOutcome, CallVerb, StoreMode};

use super::served::ServerEvent;
use super::token_record::BucketRecord;
use super::{allowances, check_windows};
use crate::run::{RunNotes, ScenarioRun};
use crate::scenario::Scenario;
use crate::world::TaskId;
use crate::{Fault, FaultKind};

/// Every decision of a node is compared with that of its candidate, or counted as not compared. Where nothing fails and
/// nothing is leased, the report is what follows from the answers of the server, which the ledger has replayed. Returns how
/// many decisions differ.
pub(super) fn check_trials(
    run: &ScenarioRun,
    notes: &RunNotes,
    events: &[ServerEvent],
    violations: &mut Vec<String>,
) -> u64 {
    let mut differing = 0;
    let admitted = admitted_by_candidate(&run.scenario, events);
    for (&node, (trial, before)) in &notes.trials {
        // Of a node that is down, requests have ended without a decision.
        if run.limiter(node).is_none() {
            continue;
        }
        let decided: Vec<_> =
            notes.requests.iter().filter(|request| request.node == node).skip(*before).collect();
        let totals = trial.candidate.report().totals();
        let waiting = trial.waiting.load(Ordering::Relaxed);
        differing += totals.newly_denied + totals.newly_admitted;
        let compared = totals.both_admit + totals.both_deny + totals.newly_denied + totals.newly_admitted;
        let known = compared + totals.not_compared + waiting;
        // A client that survives its node may still ask the node as it was before.
        let has_ended =
            |fault: &Fault| matches!(fault.what, FaultKind::Crash(of) | FaultKind::Leave(of) if of == node);
        let is_short = known < decided.len() as u64 && !run.scenario.faults.iter().any(has_ended);
        if is_short || known > decided.len() as u64 {
            let decided = decided.len();
            violations.push(format!("node {node} has decided {decided} requests and compared {totals:?}"));
        }
        if !run.scenario.is_calm() || run.scenario.refuses_candidate {
            continue;
        }
        if totals.not_compared > 0 {
            violations.push(format!("node {node} could not compare, although nothing failed: {totals:?}"));
        }
        if is_exact(&run.scenario) {
            let pairs = decided
                .iter()
                .map(|request| (request.answer.allowed, admitted.contains(&(request.task, request.from))));
            let right = totals_of(pairs);
            if !is_report(&totals, &right, waiting) {
                violations
                    .push(format!("node {node} reports {totals:?} of a candidate, and right is {right:?}"));
            }
        }
    }
    differing
}

/// Does every admission of a candidate need a call, and one call only?
fn is_exact(scenario: &Scenario) -> bool {
    scenario.mode == StoreMode::Strict && !scenario.has_slots
}

/// The requests whose costs were taken from the candidate's buckets, by their task and their beginning.
fn admitted_by_candidate(scenario: &Scenario, events: &[ServerEvent]) -> BTreeSet<(TaskId, Nanos)> {
    let first = scenario.buckets().len();
    let is_candidates = |event: &&ServerEvent| match event {
        ServerEvent::Call(call) => {
            call.verb == CallVerb::Take
                && call.outcome == CallOutcome::Done
                && call.entries.iter().any(|entry| entry.bucket >= first)
        }
        _ => false,
    };
    let task = |event: &ServerEvent| match event {
        ServerEvent::Call(call) => call.task.map(|task| (task, call.began)),
        _ => None,
    };
    events.iter().filter(is_candidates).filter_map(task).collect()
}

/// The report of decisions of the policy in force and of the candidate.
fn totals_of(decisions: impl Iterator<Item = (bool, bool)>) -> ComparisonTotals {
    let mut totals = ComparisonTotals::default();
    for decision in decisions {
        match decision {
            (true, true) => totals.both_admit += 1,
            (false, false) => totals.both_deny += 1,
            (true, false) => totals.newly_denied += 1,
            (false, true) => totals.newly_admitted += 1,
        }
    }
    totals
}

/// Is it the right report, except for so many comparisons that are not finished?
fn is_report(totals: &ComparisonTotals, right: &ComparisonTotals, waiting: u64) -> bool {
    let counts = |totals: &ComparisonTotals| {
        [totals.both_admit, totals.both_deny, totals.newly_denied, totals.newly_admitted]
    };
    let (told, right) = (counts(totals), counts(right));
    let missing: Option<u64> = right.iter().zip(told).map(|(right, told)| right.checked_sub(told)).sum();
    missing == Some(waiting)
}

/// The windows and logs of a candidate admit no more than their own limits. Its token buckets are in the ledger.
pub(super) fn check_tried_windows(
    scenario: &Scenario,
    notes: &RunNotes,
    records: &[BucketRecord],
    violations: &mut Vec<String>,
) {
    let first = scenario.buckets().len();
    for (bucket, spec) in scenario.all_buckets().enumerate().skip(first) {
        let record = &records[bucket - first];
        // With slots, what one took may be handed back because another refused.
        let is_handed_back = record.given.iter().any(|&(_, tokens)| tokens < 0);
        if is_handed_back {
            continue;
        }
        let taken: Vec<(Nanos, u32)> =
            record.given.iter().map(|&(at, tokens)| (at, tokens.unsigned_abs() as u32)).collect();
        check_windows(scenario, (bucket, spec), &taken, &allowances(notes, bucket, record), violations);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_with_one_decision_in_another_place_is_wrong() {
        let decisions = [(true, true), (true, true), (true, false), (false, true), (false, false)];
        let right = totals_of(decisions.into_iter());
        assert!(is_report(&right, &right, 0));
        let fewer = ComparisonTotals { both_admit: right.both_admit - 1, ..right };
        assert!(is_report(&fewer, &right, 1), "one is not finished");
        assert!(!is_report(&fewer, &right, 0));
        let moved = ComparisonTotals { newly_denied: right.newly_denied + 1, ..fewer };
        assert!(!is_report(&moved, &right, 0));
        assert!(!is_report(&moved, &right, 1));
    }
}
