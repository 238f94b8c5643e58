//! Candidates: drafts of the policy that decide beside the policy in force on every node, on real requests, until they
//! are promoted, removed, or their time is over.
//!
//! The database has them, and every node follows it ([`following`]): it compiles each candidate and lets the engine
//! decide by it for comparison. What a node finds it writes to the database every few seconds ([`running`]); a report
//! ([`found`]) is the sum over all nodes.

mod following;
pub(crate) mod found;
mod running;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

pub(super) use following::follow;
pub(crate) use following::{catch_up, write_found};
use running::RunningCandidate;
pub(crate) use running::{CANDIDATE_PREFIX, NodeCandidate};

/// The candidates that this node runs.
#[derive(Debug, Default)]
pub(crate) struct CandidateBoard {
    running: Mutex<Vec<RunningCandidate>>,
    /// Held by whoever starts and ends candidates, or writes what they find.
    catching_up: tokio::sync::Mutex<()>,
}

impl CandidateBoard {
    fn running(&self) -> MutexGuard<'_, Vec<RunningCandidate>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A candidate that this node runs.
    pub(crate) fn find(&self, id: &str) -> Option<Arc<NodeCandidate>> {
        self.running().iter().find(|candidate| candidate.id == id)?.candidate.clone().ok()
    }
}
