//! Where a node's limits are kept: in its own memory, or on a store that nodes share.

mod keeper;
mod telling;
mod unstoppable;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tidegate::{
    Charge, Intent, Limit, LimitError, LimitRef, Memory, MonotonicClock, NamedLimit, Nanos, NowOrLater,
    Store, Verdict,
};
use tidegate_redis::{Health, RedisClient, RedisStore, StoreError};
use tokio::task::unconstrained;

pub(crate) use keeper::StoreThread;
pub use keeper::StoreThreadError;
use unstoppable::RunsToCompletion;

/// A store that nodes share, and what this node has seen of it.
#[derive(Debug)]
pub struct SharedRedisStore {
    /// The store.
    pub store: RedisStore<RedisClient, MonotonicClock>,
    /// Where it is, without who logs in.
    pub place: String,
    /// Since when this node tries to reach it.
    begun: Nanos,
    /// Has it answered at all?
    answered: AtomicBool,
}

impl SharedRedisStore {
    /// How the store is. One that has never answered is down, however few the attempts were.
    pub fn health(&self) -> Health {
        let mut health = self.store.health();
        if !self.answered.load(Ordering::Relaxed) {
            (health.up, health.since) = (false, self.begun);
        }
        health
    }
}

/// The store of a node.
#[derive(Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "a node has one, and the large one is asked for every decision"
)]
pub enum NodeStore {
    /// Its own memory. It never makes anybody wait.
    Local(Memory<MonotonicClock>),
    /// One that nodes share.
    Shared(Arc<SharedRedisStore>),
}

impl Store for NodeStore {
    type Error = StoreError;

    fn limits(&self, limits: &[NamedLimit<'_>], now: Nanos) -> Result<Vec<LimitRef>, LimitError> {
        match self {
            NodeStore::Local(memory) => memory.limits(limits, now),
            NodeStore::Shared(shared) => shared.store.limits(limits, now),
        }
    }

    fn variant(&self, limit: &LimitRef, trust: u8) -> Result<LimitRef, LimitError> {
        match self {
            NodeStore::Local(memory) => memory.variant(limit, trust),
            NodeStore::Shared(shared) => shared.store.variant(limit, trust),
        }
    }

    #[inline]
    fn charge(
        &self,
        intent: Intent,
        charges: &[Charge<'_>],
        now: Nanos,
    ) -> NowOrLater<'_, Result<Verdict, StoreError>> {
        match self {
            NodeStore::Local(memory) => NowOrLater::Now(Ok(memory.charge_now(intent, charges, now))),
            NodeStore::Shared(shared) => match shared.store.charge_locally(intent, charges, now) {
                Ok(verdict) => NowOrLater::Now(Ok(verdict)),
                Err(call) => {
                    let shared = Arc::clone(shared);
                    // A task that has done much already is made to wait by tokio, and then what was asked first
                    // would not be sent first.
                    let asking = unconstrained(async move { shared.store.charge_on_server(call).await });
                    NowOrLater::later(RunsToCompletion::new(asking))
                }
            },
        }
    }

    fn hand_back(&self, charges: &[Charge<'_>], at: Nanos) {
        match self {
            NodeStore::Local(memory) => memory.hand_back(charges, at),
            NodeStore::Shared(shared) => shared.store.hand_back(charges, at),
        }
    }

    fn pace(&self, charge: &Charge<'_>, reserved: u64, now: Nanos) -> Option<Nanos> {
        match self {
            NodeStore::Local(memory) => memory.pace(charge, reserved, now),
            NodeStore::Shared(_) => None,
        }
    }

    fn ad_hoc(&self, limit: Limit) -> Option<LimitRef> {
        match self {
            NodeStore::Local(memory) => memory.ad_hoc(limit),
            NodeStore::Shared(shared) => shared.store.ad_hoc(limit),
        }
    }

    fn nodes(&self) -> u32 {
        match self {
            NodeStore::Local(memory) => memory.nodes(),
            NodeStore::Shared(shared) => shared.store.nodes(),
        }
    }
}
