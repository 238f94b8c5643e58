//! The store of a node: its own memory, or a Redis store that nodes share. The shared store has a thread for its
//! connections and maintenance, which also logs changes of its health.

mod bursts;
mod run_to_completion;
mod state_log;
mod thread;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

use tidegate::{
    Charge, Intent, Limit, LimitError, LimitRef, LimitVariant, Memory, MonotonicClock, NamedLimit, Nanos,
    NowOrLater, OverrideNumbers, SharedBursts, Store, Verdict,
};
use tidegate_redis::{Health, RedisClient, RedisStore, StoreError};
use tokio::task::unconstrained;

use run_to_completion::RunsToCompletion;
pub(crate) use thread::StoreThread;
pub use thread::StoreThreadError;

/// A store that nodes share, and whether it has answered this node yet.
#[derive(Debug)]
pub struct SharedRedisStore {
    /// The store.
    pub store: RedisStore<RedisClient, MonotonicClock>,
    /// Its URL, without user and password.
    pub address: String,
    /// When this node began to connect to it.
    started: Nanos,
    /// Has it ever answered?
    answered: AtomicBool,
    /// Itself, for calls that run on when their client has gone.
    this: Weak<SharedRedisStore>,
}

impl SharedRedisStore {
    /// The health of the store. A store that has never answered is down, even after a single attempt.
    pub fn health(&self) -> Health {
        let mut health = self.store.health();
        if !self.answered.load(Ordering::Relaxed) {
            (health.up, health.since) = (false, self.started);
        }
        health
    }

    /// The same store, for a policy that is tried out.
    fn beside(&self) -> Arc<SharedRedisStore> {
        Arc::new_cyclic(|this| SharedRedisStore {
            store: self.store.clone().beside(),
            address: self.address.clone(),
            started: self.started,
            answered: AtomicBool::new(self.answered.load(Ordering::Relaxed)),
            this: Weak::clone(this),
        })
    }
}

/// The store of a node.
#[derive(Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "a node has only one, and a box would cost a pointer hop in every decision"
)]
pub enum NodeStore {
    /// Its own memory, which always answers at once.
    Local(Memory<MonotonicClock>),
    /// A store that nodes share.
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

    fn check_limits(&self, limits: &[NamedLimit<'_>]) -> Result<(), LimitError> {
        match self {
            NodeStore::Local(memory) => memory.check_limits(limits),
            NodeStore::Shared(shared) => shared.store.check_limits(limits),
        }
    }

    fn variant(&self, limit: &LimitRef, variant: LimitVariant) -> Result<LimitRef, LimitError> {
        match self {
            NodeStore::Local(memory) => memory.variant(limit, variant),
            NodeStore::Shared(shared) => shared.store.variant(limit, variant),
        }
    }

    fn expect_overrides(&self, limit: &LimitRef, numbers: &[OverrideNumbers]) {
        match self {
            NodeStore::Local(memory) => memory.expect_overrides(limit, numbers),
            NodeStore::Shared(shared) => shared.store.expect_overrides(limit, numbers),
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
                    // `unconstrained`, because tokio's cooperative budget could delay this call, and calls must be sent
                    // in the order in which they were made.
                    let charging = unconstrained(async move { shared.store.charge_on_server(call).await });
                    NowOrLater::later(RunsToCompletion::new(charging))
                }
            },
        }
    }

    fn beside(self) -> NodeStore {
        match self {
            NodeStore::Local(memory) => NodeStore::Local(memory.beside()),
            NodeStore::Shared(shared) => NodeStore::Shared(shared.beside()),
        }
    }

    fn send_together(&self, poll: &mut dyn FnMut()) {
        match self {
            NodeStore::Local(_) => poll(),
            NodeStore::Shared(shared) => shared.store.send_together(poll),
        }
    }

    fn hand_back(&self, charges: &[Charge<'_>], at: Nanos) {
        match self {
            NodeStore::Local(memory) => memory.hand_back(charges, at),
            NodeStore::Shared(shared) => shared.store.hand_back(charges, at),
        }
    }

    fn forget_keys(&self, after: Intent, charges: &[Charge<'_>]) {
        match self {
            NodeStore::Local(memory) => memory.forget_keys(after, charges),
            NodeStore::Shared(shared) => shared.store.forget_keys(after, charges),
        }
    }

    fn pace(&self, charge: &Charge<'_>, delayed: u64, now: Nanos) -> Option<Nanos> {
        match self {
            NodeStore::Local(memory) => memory.pace(charge, delayed, now),
            NodeStore::Shared(_) => None,
        }
    }

    fn ad_hoc(&self, limit: Limit) -> Option<LimitRef> {
        match self {
            NodeStore::Local(memory) => memory.ad_hoc(limit),
            NodeStore::Shared(shared) => shared.store.ad_hoc(limit),
        }
    }

    fn shared_bursts(&self) -> Option<&dyn SharedBursts> {
        match self {
            NodeStore::Local(memory) => memory.shared_bursts(),
            NodeStore::Shared(shared) => Some(&**shared),
        }
    }

    fn nodes(&self) -> u32 {
        match self {
            NodeStore::Local(memory) => memory.nodes(),
            NodeStore::Shared(shared) => shared.store.nodes(),
        }
    }
}
