//! What can go wrong, how often it did, and how the store is.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use tidegate_core::Nanos;

use crate::LinkError;

/// Why a store cannot tell.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The server did not answer.
    #[error(transparent)]
    Link(#[from] LinkError),
    /// It has not answered for a while, and is not asked.
    #[error("not asked: it has failed too often lately")]
    BreakerOpen,
    /// Others kept changing what was being brought up.
    #[error("the limit's numbers keep changing under others' hands")]
    Contended,
}

impl StoreError {
    /// A word for counting: `timeout`, `down`, `lost`, `refused`, `garbled`, `open`, `contended`.
    pub const fn kind(&self) -> &'static str {
        match self {
            StoreError::Link(error) => error.kind(),
            StoreError::BreakerOpen => "open",
            StoreError::Contended => "contended",
        }
    }
}

/// How often each kind of trouble was met: by the words of [`StoreError::kind`], `poisoned` and `dropped`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ErrorCounts {
    /// No answer within the deadline.
    pub timeout: u64,
    /// No connection.
    pub down: u64,
    /// Connections lost under way.
    pub lost: u64,
    /// Refused by the server.
    pub refused: u64,
    /// Senseless answers.
    pub garbled: u64,
    /// Not asked, since the breaker was open.
    pub open: u64,
    /// Contended.
    pub contended: u64,
    /// Stored values that were no states.
    pub poisoned: u64,
    /// Hand-backs and renewals for which there was no room.
    pub dropped: u64,
}

impl ErrorCounts {
    /// Every kind by its word.
    pub const fn by_kind(&self) -> [(&'static str, u64); 9] {
        [
            ("timeout", self.timeout),
            ("down", self.down),
            ("lost", self.lost),
            ("refused", self.refused),
            ("garbled", self.garbled),
            ("open", self.open),
            ("contended", self.contended),
            ("poisoned", self.poisoned),
            ("dropped", self.dropped),
        ]
    }
}

/// How the store is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Health {
    /// Is it asked, and all of it, if it has parts that can fail by themselves?
    pub up: bool,
    /// Since when it is so, by the node's clock.
    pub since: Nanos,
    /// The last trouble, in words.
    pub last_error: Option<String>,
    /// How many nodes are alive, this one included.
    pub nodes: u32,
}

/// Counts trouble as it is met, and remembers the last of it.
#[derive(Debug, Default)]
pub(crate) struct ErrorTracker {
    timeout: AtomicU64,
    down: AtomicU64,
    lost: AtomicU64,
    refused: AtomicU64,
    garbled: AtomicU64,
    open: AtomicU64,
    contended: AtomicU64,
    poisoned: AtomicU64,
    last: Mutex<Option<StoreError>>,
}

impl ErrorTracker {
    /// None so far.
    pub(crate) fn new() -> ErrorTracker {
        ErrorTracker::default()
    }

    /// Something went wrong.
    pub(crate) fn met(&self, error: &StoreError) {
        let count = match error {
            StoreError::Link(LinkError::Timeout(_)) => &self.timeout,
            StoreError::Link(LinkError::Down(_)) => &self.down,
            StoreError::Link(LinkError::Lost(_)) => &self.lost,
            StoreError::Link(LinkError::Refused(_)) => &self.refused,
            StoreError::Link(LinkError::Garbled(_)) => &self.garbled,
            StoreError::BreakerOpen => &self.open,
            StoreError::Contended => &self.contended,
        };
        count.fetch_add(1, Ordering::Relaxed);
        // That it is not asked says nothing of why, and is by far the most frequent.
        if *error != StoreError::BreakerOpen {
            *self.last.lock().unwrap_or_else(PoisonError::into_inner) = Some(error.clone());
        }
    }

    /// So many stored values were no states.
    pub(crate) fn poisoned(&self, values: u32) {
        if values > 0 {
            self.poisoned.fetch_add(values.into(), Ordering::Relaxed);
        }
    }

    /// How often, so far, with what was dropped elsewhere.
    pub(crate) fn counts(&self, dropped: u64) -> ErrorCounts {
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        ErrorCounts {
            timeout: read(&self.timeout),
            down: read(&self.down),
            lost: read(&self.lost),
            refused: read(&self.refused),
            garbled: read(&self.garbled),
            open: read(&self.open),
            contended: read(&self.contended),
            poisoned: read(&self.poisoned),
            dropped,
        }
    }

    /// The last trouble, in words.
    pub(crate) fn last(&self) -> Option<String> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner).as_ref().map(ToString::to_string)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_is_counted_under_its_own_word() {
        let each = [
            StoreError::Link(LinkError::Timeout(Nanos::from_millis(20))),
            StoreError::Link(LinkError::Down("nobody there".into())),
            StoreError::Link(LinkError::Lost("reset".into())),
            StoreError::Link(LinkError::Refused("OOM".into())),
            StoreError::Link(LinkError::Garbled("seven".into())),
            StoreError::BreakerOpen,
            StoreError::Contended,
        ];
        for error in each {
            let troubles = ErrorTracker::new();
            troubles.met(&error);
            troubles.met(&error);
            for (kind, count) in troubles.counts(0).by_kind() {
                assert_eq!(count, if kind == error.kind() { 2 } else { 0 }, "{kind}");
            }
        }
    }

    #[test]
    fn the_last_trouble_is_told_in_words() {
        let troubles = ErrorTracker::new();
        assert_eq!(troubles.last(), None);
        troubles.met(&LinkError::Refused("OOM command not allowed".into()).into());
        troubles.met(&StoreError::BreakerOpen);
        assert_eq!(troubles.last().as_deref(), Some("refused: OOM command not allowed"));
    }

    #[test]
    fn poisoned_values_add_up() {
        let troubles = ErrorTracker::new();
        troubles.poisoned(0);
        troubles.poisoned(3);
        troubles.poisoned(1);
        let counts = troubles.counts(2);
        assert_eq!((counts.poisoned, counts.dropped), (4, 2));
    }
}
