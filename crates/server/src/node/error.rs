//! Why a node cannot be created.

use tidegate::engine::FallbackError;
use tidegate::{LimitError, MemoryError};

use super::store::StoreThreadError;
use crate::observe::EventsError;

/// Why a node cannot start.
#[derive(Debug, thiserror::Error)]
pub enum NodeError {
    /// The policy has too many limits, or limits that the store cannot count.
    #[error(transparent)]
    Limits(#[from] LimitError),
    /// There is not enough memory for `max_keys`.
    #[error("store.max_keys: {0}")]
    Memory(#[from] MemoryError),
    /// The shared store cannot be used.
    #[error(transparent)]
    Shared(#[from] StoreThreadError),
    /// The local fallback, which decides while the store does not answer, cannot be set up.
    #[error("cannot set up the local fallback: {0}")]
    Fallback(#[from] FallbackError),
    /// Events cannot be written.
    #[error(transparent)]
    Events(#[from] EventsError),
}
