//! Candidates: drafts of the policy that decide beside the policy in force on every node, on real requests, until they
//! are promoted, removed, or their time is over.
//!
//! The database has them, and every node follows it ([`following`]): it compiles each candidate and lets the engine
//! decide by it for comparison. What a node finds it writes to the database every few seconds ([`running`]); a report
//! ([`found`]) is the sum over all nodes.

mod following;
pub(crate) mod found;
mod running;

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tidegate_database::{CandidateRun, CandidateStep};

use crate::bounds::CANDIDATES_KEPT_MAX;
pub(super) use following::follow;
pub(crate) use following::{catch_up, write_found};
use running::RunningCandidate;
pub(crate) use running::{CANDIDATE_PREFIX, NodeCandidate};

/// What a run has found, as it is written.
type FoundInRun = (CandidateRun, Vec<CandidateStep>);

/// The candidates that this node runs.
#[derive(Debug, Default)]
pub(crate) struct CandidateBoard {
    running: Mutex<Vec<RunningCandidate>>,
    /// What those have found that have ended, until it is written.
    ended: Mutex<VecDeque<FoundInRun>>,
    /// Held by whoever starts and ends candidates, or writes what they find.
    catching_up: tokio::sync::Mutex<()>,
}

impl CandidateBoard {
    fn running(&self) -> MutexGuard<'_, Vec<RunningCandidate>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps what a run has found that has ended. If the database is away for so long that there are too many, the oldest
    /// is dropped.
    fn keep_ended(&self, found: FoundInRun) {
        let mut ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
        while ended.len() >= CANDIDATES_KEPT_MAX {
            ended.pop_front();
        }
        ended.push_back(found);
    }

    fn take_ended(&self) -> Option<FoundInRun> {
        self.ended.lock().unwrap_or_else(PoisonError::into_inner).pop_front()
    }

    /// A candidate that this node runs.
    pub(crate) fn find(&self, id: &str) -> Option<Arc<NodeCandidate>> {
        self.running().iter().find(|candidate| candidate.id == id)?.candidate.clone().ok()
    }
}
