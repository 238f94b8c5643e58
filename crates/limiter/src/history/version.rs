//! One version of a limit: the numbers of a generation in some variant.

use std::sync::Arc;

use tidegate_core::{Carry, Limit, LimitVariant, Nanos};

use super::generation::Generation;
use crate::LimitRef;

/// One version of a limit.
#[derive(Debug)]
pub struct LimitVersion<D> {
    /// Its number in its history, which is reused once the version is removed.
    pub number: u32,
    /// [`LimitRef::id`], which is never reused.
    pub id: u64,
    /// The name of the limit.
    pub name: Arc<str>,
    /// Its numbers, as its variant has them.
    pub limit: Limit,
    /// The store's data for it.
    pub data: D,
    /// What they are scaled by; nothing in the plain version of a generation.
    pub variant: LimitVariant,
    /// Its generation.
    pub generation: Arc<Generation>,
    /// The id of its history; zero outside any.
    pub(super) history: u64,
}

impl<D> LimitVersion<D> {
    /// A version outside any history, for a limit that is never edited.
    pub fn standalone(limit: &LimitRef, data: D) -> LimitVersion<D> {
        let generation = Generation::new(*limit.limit(), Carry::AsIs, Nanos::ZERO.into(), None);
        LimitVersion {
            number: 0,
            id: limit.id(),
            name: limit.name().into(),
            limit: *limit.limit(),
            data,
            variant: limit.variant(),
            generation: Arc::new(generation),
            history: 0,
        }
    }

    /// How much longer a state of this version must be kept after it is full: until it would be full in any variant.
    pub fn extra_idle_time(&self) -> Nanos {
        self.generation.extra_idle_time(self.variant, &self.limit)
    }
}

impl<D: Send + Sync + 'static> LimitVersion<D> {
    /// A new reference to it. Only for callers that hold one of the same generation, or the lock of the names.
    pub(super) fn handle(self: &Arc<Self>) -> LimitRef {
        LimitRef::of_version(self.clone(), self.generation.token())
    }

    /// The version of a reference; `None` if it is from another kind of store.
    #[inline]
    pub fn of(limit: &LimitRef) -> Option<&LimitVersion<D>> {
        limit.version()
    }

    /// [`LimitVersion::of`], to be held longer.
    pub fn shared_of(limit: &LimitRef) -> Option<Arc<LimitVersion<D>>> {
        limit.shared_version()
    }
}

/// The numbers of a state in this variant. If a limit cannot be scaled, no state was ever written with the scaled
/// numbers, and the plain ones are returned.
pub fn scaled(limit: &Limit, variant: LimitVariant) -> Limit {
    limit.at(variant).unwrap_or(*limit)
}

/// One instant on both clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockPair {
    /// On the monotonic clock, which buckets and logs use.
    pub steady: Nanos,
    /// On the wall clock, which windows use.
    pub wall: Nanos,
}

impl ClockPair {
    /// The instant on the clock that a limit uses.
    pub fn on_clock_of(&self, limit: &Limit) -> Nanos {
        let windows = limit.meter().and_then(|meter| meter.windows());
        if windows.is_some() { self.wall } else { self.steady }
    }
}

impl From<Nanos> for ClockPair {
    /// For stores with a single clock.
    fn from(now: Nanos) -> ClockPair {
        ClockPair { steady: now, wall: now }
    }
}
