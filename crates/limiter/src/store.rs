//! The one thing a store does: charge several limits as one.

use std::fmt;
use std::future::Future;
use std::sync::Arc;

use tidegate_core::{Carry, Limit, Nanos};

use crate::{Charge, Intent, Verdict};

/// Keeps the state of limits and charges them.
///
/// There is one verb, and it is atomic: no reading and writing back, so that no
/// caller can build a race out of it. Every store passes the same conformance
/// suite (feature `testing`).
pub trait Store: Send + Sync {
    /// How it fails.
    type Error: std::error::Error + Send + Sync + 'static;

    /// Names a limit. The state belongs to the name: naming it again with other
    /// numbers is an edit that takes effect at `now` and carries the tokens over
    /// as `carry` says; naming it again with the same changes nothing.
    ///
    /// # Errors
    /// When the store can hold no more limits.
    fn limit(&self, name: &str, limit: Limit, carry: Carry, now: Nanos) -> Result<LimitRef, LimitError>;

    /// Charges all limits or none. `now` is the caller's; a store that has a
    /// clock of its own, shared with others, goes by that one.
    ///
    /// # Errors
    /// When the store cannot tell; then nothing may be assumed to be taken.
    fn charge(
        &self,
        intent: Intent,
        charges: &[Charge<'_>],
        now: Nanos,
    ) -> impl Future<Output = Result<Verdict, Self::Error>> + Send;
}

/// A limit that a store knows; cheap to clone.
#[derive(Clone)]
pub struct LimitRef(Arc<Named>);

struct Named {
    name: Box<str>,
    limit: Limit,
    id: u32,
}

impl LimitRef {
    /// For stores: a limit under its name and the store's own number for it.
    pub fn new(name: &str, limit: Limit, id: u32) -> LimitRef {
        LimitRef(Arc::new(Named { name: name.into(), limit, id }))
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// Its numbers.
    pub fn limit(&self) -> &Limit {
        &self.0.limit
    }

    /// The store's own number for it.
    pub fn id(&self) -> u32 {
        self.0.id
    }
}

impl fmt::Debug for LimitRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LimitRef({}: {})", self.0.name, self.0.limit)
    }
}

/// Why a limit could not be named.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LimitError {
    /// The store is out of numbers.
    #[error("a store holds at most {max} limits, every edit of one counted; use fewer, or a new store")]
    TooMany {
        /// How many it holds.
        max: u32,
    },
}
