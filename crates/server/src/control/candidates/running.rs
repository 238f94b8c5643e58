//! A candidate on this node: its engine, and what it has found since the last write.

use std::collections::BTreeMap;
use std::sync::Arc;

use tidegate::engine::beside::{BackgroundWork, Candidate, ComparisonTotals};
use tidegate::{Clock, Memory, MemoryOptions, MonotonicClock, Nanos};
use tidegate_database::{CandidateRun, CandidateStep, UnixMillis};
use tokio::runtime::Handle;
use tokio::sync::Semaphore;

use super::found::{FoundCounts, FoundOnNode};
use crate::bounds::{CANDIDATE_STEPS_MAX, CANDIDATE_WAITING_MAX};
use crate::control::glance::last_hour::HistoryStep;
use crate::control::startup::unix_millis;
use crate::node::Node;
use crate::node::store::NodeStore;
use crate::serve::reload::policy_file;

/// What the names of candidates' limits begin with in the store. No limit of a policy has such a name.
pub(crate) const CANDIDATE_PREFIX: &str = "candidate\u{1e}";

/// A candidate in the engine of a node.
pub(crate) type NodeCandidate = Candidate<NodeStore, MonotonicClock>;

/// A candidate on this node.
#[derive(Debug)]
pub(super) struct RunningCandidate {
    pub(super) id: String,
    pub(super) ends_at: UnixMillis,
    /// The id of this run: what an earlier process of this node has found is kept apart.
    run: String,
    /// The engine, or why it cannot run here.
    pub(super) candidate: Result<Arc<NodeCandidate>, String>,
    /// What was known at the last look.
    seen: ComparisonTotals,
    /// The steps that are not written yet, and the newest one.
    steps: BTreeMap<u64, FoundCounts>,
    /// Has something been found that is not written?
    is_new: bool,
}

impl RunningCandidate {
    pub(super) fn new(
        id: String,
        ends_at: UnixMillis,
        run: String,
        candidate: Result<Arc<NodeCandidate>, String>,
    ) -> RunningCandidate {
        let (seen, steps) = (ComparisonTotals::default(), BTreeMap::new());
        RunningCandidate { id, ends_at, run, candidate, seen, steps, is_new: true }
    }

    /// Adds what was found since the last look to the step of now.
    pub(super) fn look(&mut self, wall: Nanos) {
        let Ok(candidate) = &self.candidate else { return };
        let totals = candidate.report().totals();
        if totals != self.seen {
            self.steps
                .entry(HistoryStep::at(wall))
                .or_default()
                .add(&FoundCounts::between(self.seen, totals));
            (self.seen, self.is_new) = (totals, true);
            // Those of a day, while the database does not answer.
            while self.steps.len() as u64 > CANDIDATE_STEPS_MAX {
                self.steps.pop_first();
            }
        }
    }

    /// What is to be written; `None` if nothing is new.
    pub(super) fn unwritten(
        &mut self,
        node: &str,
        wall: Nanos,
    ) -> Option<(CandidateRun, Vec<CandidateStep>)> {
        self.look(wall);
        if !self.is_new {
            return None;
        }
        let found = match &self.candidate {
            Ok(candidate) => FoundOnNode::of(&candidate.report().snapshot()),
            Err(error) => FoundOnNode::failed(error),
        };
        let run = CandidateRun {
            candidate: self.id.clone(),
            run: self.run.clone(),
            node: node.to_owned(),
            seen: unix_millis(wall),
            found: serde_json::to_string(&found).expect("it is plain JSON"),
        };
        let step = |(step, counts): (&u64, &FoundCounts)| CandidateStep {
            step: *step,
            counts: serde_json::to_string(counts).expect("it is plain JSON"),
        };
        Some((run, self.steps.iter().map(step).collect()))
    }

    /// Notes that what was to be written of this run is written. The newest step is kept, since more may come to it.
    pub(super) fn note_written(&mut self, run: &CandidateRun) {
        if self.run != run.run {
            return;
        }
        self.is_new = false;
        while self.steps.len() > 1 {
            self.steps.pop_first();
        }
    }
}

/// Compiles a candidate for this node, on the store that nodes share or in memory of its own.
pub(super) fn compile(node: &Node, id: &str, text: &str) -> Result<NodeCandidate, String> {
    let compiled = policy_file::compile(text, node.settings(), node.clock().wall());
    let (rules, _) = compiled.map_err(|problems| policy_file::on_one_line("candidate", &problems))?;
    let store = match node.limiter().store() {
        NodeStore::Shared(shared) => NodeStore::Shared(Arc::clone(shared)),
        NodeStore::Local(_) => {
            // Of its own, so that its keys take no room from those of the policy in force.
            let options = MemoryOptions { max_keys: node.settings().max_keys, ..MemoryOptions::default() };
            let memory = Memory::with_clock(options, node.clock().clone());
            NodeStore::Local(memory.map_err(|error| error.to_string())?)
        }
    };
    let made = node.limiter().candidate(rules, store, &format!("{CANDIDATE_PREFIX}{id}\u{1e}"), background());
    made.map_err(|error| error.to_string())
}

/// Finishes comparisons on the runtime of whoever decides, up to a number at once.
fn background() -> BackgroundWork {
    let waiting = Arc::new(Semaphore::new(CANDIDATE_WAITING_MAX));
    Box::new(move |work| {
        let permit = Arc::clone(&waiting).try_acquire_owned();
        let (Ok(runtime), Ok(permit)) = (Handle::try_current(), permit) else { return false };
        drop(runtime.spawn(async move {
            work.await;
            drop(permit);
        }));
        true
    })
}
