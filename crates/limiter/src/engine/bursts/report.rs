//! What a decision says about burst detectors.

use super::{BurstAction, BurstVerdict};
use crate::engine::decision::Decision;

/// The state of a burst detector for a request, from the least to the most serious.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum BurstState {
    /// This request was the first offence: its key is warned now.
    WarningIssued,
    /// The key was blocked before.
    AlreadyBlocked,
    /// This request was an offence while warned: its key is blocked now.
    BlockedTemporarily,
}

impl BurstState {
    /// The name in JSON and headers.
    pub const fn as_str(self) -> &'static str {
        match self {
            BurstState::WarningIssued => "warning_issued",
            BurstState::AlreadyBlocked => "already_blocked",
            BurstState::BlockedTemporarily => "blocked_temporarily",
        }
    }
}

impl BurstVerdict {
    /// The state for the decision; `None` if the key is neither blocked nor has just been warned.
    pub fn state(&self) -> Option<BurstState> {
        match (self.action, self.blocked_until) {
            (Some(BurstAction::Blocked), _) => Some(BurstState::BlockedTemporarily),
            (Some(BurstAction::Warned), _) => Some(BurstState::WarningIssued),
            (None, Some(_)) => Some(BurstState::AlreadyBlocked),
            (None, None) => None,
        }
    }
}

/// The state of a burst detector, with the detector's number in the policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BurstNote {
    pub(crate) state: BurstState,
    pub(crate) detector: u32,
}

impl Decision {
    /// The most serious state of a burst detector for this request, with the name of the detector. In shadow
    /// mode a block is reported too, although it denies nothing.
    pub fn burst(&self) -> Option<(BurstState, &str)> {
        let name = |note: BurstNote| &*self.rules().detectors()[note.detector as usize].name;
        self.ruling().burst.map(|note| (note.state, name(note)))
    }
}
