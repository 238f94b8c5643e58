//! The errors of a store, their counts, and its health.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use tidegate_core::Nanos;

use crate::LinkError;

/// Why a store cannot decide a charge.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The server did not answer.
    #[error(transparent)]
    Link(#[from] LinkError),
    /// The circuit breaker is open: the server failed too often, and is not called.
    #[error("not called: the server failed too often, and the circuit breaker is open")]
    BreakerOpen,
    /// Other nodes kept changing a state while it was migrated to this node's numbers.
    #[error("other nodes keep rewriting the state in other numbers of the limit")]
    Contended,
}

impl StoreError {
    /// The label of this kind of error in [`ErrorCounts`]: `timeout`, `down`, `lost`, `refused`, `garbled`, `open`,
    /// `contended`; and `cancelled`, which is not counted, since it is no failure of the server. A failure that several
    /// calls share, because they were sent as one, is counted once.
    pub const fn kind(&self) -> &'static str {
        match self {
            StoreError::Link(error) => error.kind(),
            StoreError::BreakerOpen => "open",
            StoreError::Contended => "contended",
        }
    }
}

/// How often each kind of error has occurred: the kinds of [`StoreError::kind`], `poisoned` and `dropped`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ErrorCounts {
    /// No answer within the deadline.
    pub timeout: u64,
    /// No connection.
    pub down: u64,
    /// Connections lost while a call was under way.
    pub lost: u64,
    /// Calls that the server refused.
    pub refused: u64,
    /// Unreadable answers.
    pub garbled: u64,
    /// Calls not sent, because the circuit breaker was open.
    pub open: u64,
    /// Charges given up because other nodes kept changing a state while it was migrated.
    pub contended: u64,
    /// Stored values that were no valid states.
    pub poisoned: u64,
    /// Hand-backs and renewals dropped because the maintenance backlog was full.
    pub dropped: u64,
}

impl ErrorCounts {
    /// Every kind by its label.
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

/// Whether a store's server answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Health {
    /// Is the server called, with all its shards? `false` while a circuit breaker is open.
    pub up: bool,
    /// Since when, by the node's clock.
    pub since: Nanos,
    /// The message of the last error.
    pub last_error: Option<String>,
    /// How many nodes are alive, this one included.
    pub nodes: u32,
}

/// Counts errors, and remembers the last one.
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
    /// No errors so far.
    pub(crate) fn new() -> ErrorTracker {
        ErrorTracker::default()
    }

    /// Counts an error.
    pub(crate) fn record(&self, error: &StoreError) {
        let count = match error {
            StoreError::Link(LinkError::Timeout(_)) => &self.timeout,
            StoreError::Link(LinkError::Down(_)) => &self.down,
            StoreError::Link(LinkError::Lost(_)) => &self.lost,
            // Nothing is wrong with the server.
            StoreError::Link(LinkError::Cancelled) => return,
            // The call that it was sent with counts it.
            StoreError::Link(LinkError::SentWith(_)) => return,
            StoreError::Link(LinkError::Refused(_)) => &self.refused,
            StoreError::Link(LinkError::Garbled(_)) => &self.garbled,
            StoreError::BreakerOpen => &self.open,
            StoreError::Contended => &self.contended,
        };
        count.fetch_add(1, Ordering::Relaxed);
        // An open breaker is by far the most frequent error, and does not say what is wrong.
        if *error != StoreError::BreakerOpen {
            *self.last.lock().unwrap_or_else(PoisonError::into_inner) = Some(error.clone());
        }
    }

    /// Counts stored values that were no valid states.
    pub(crate) fn poisoned(&self, values: u32) {
        if values > 0 {
            self.poisoned.fetch_add(values.into(), Ordering::Relaxed);
        }
    }

    /// The counts so far; `dropped` is counted by the backlog.
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

    /// The message of the last error.
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
            let error_tracker = ErrorTracker::new();
            error_tracker.record(&error);
            error_tracker.record(&error);
            for (kind, count) in error_tracker.counts(0).by_kind() {
                assert_eq!(count, if kind == error.kind() { 2 } else { 0 }, "{kind}");
            }
        }
    }

    #[test]
    fn a_failure_that_several_calls_share_is_counted_once() {
        let error_tracker = ErrorTracker::new();
        let late = LinkError::Timeout(Nanos::from_millis(20));
        let passed_on = LinkError::SentWith(Box::new(late.clone()));
        assert_eq!(passed_on.kind(), late.kind());
        error_tracker.record(&late.into());
        error_tracker.record(&passed_on.into());
        assert_eq!(error_tracker.counts(0), ErrorCounts { timeout: 1, ..ErrorCounts::default() });
    }

    #[test]
    fn the_last_trouble_is_told_in_words() {
        let error_tracker = ErrorTracker::new();
        assert_eq!(error_tracker.last(), None);
        error_tracker.record(&LinkError::Refused("OOM command not allowed".into()).into());
        error_tracker.record(&StoreError::BreakerOpen);
        assert_eq!(error_tracker.last().as_deref(), Some("refused: OOM command not allowed"));
    }

    #[test]
    fn poisoned_values_add_up() {
        let error_tracker = ErrorTracker::new();
        error_tracker.poisoned(0);
        error_tracker.poisoned(3);
        error_tracker.poisoned(1);
        let counts = error_tracker.counts(2);
        assert_eq!((counts.poisoned, counts.dropped), (4, 2));
    }
}
