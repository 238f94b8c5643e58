//! A node: the engine with its policy, on the shared store, over the simulated link.

use std::sync::Arc;

use tidegate::engine::{Limiter, Policy, Request};
use tidegate::{Cost, MemoryOptions, Nanos};
use tidegate_redis::{RedisStore, StoreOptions};

use crate::scenario::Scenario;
use crate::{Network, NodeClock, SimLink, World};

/// The store of a node.
pub type SimNodeStore = RedisStore<SimLink, NodeClock>;

/// The engine of a node.
pub type NodeLimiter = Limiter<SimNodeStore, NodeClock>;

/// Enough for the keys of any scenario while a node is by itself.
const FALLBACK_KEYS: usize = 1_024;

/// Enough for what it knows of them.
const KNOWN_MAX: usize = 10_000;

/// Starts a node: its engine, and the task that tends its store.
pub(crate) fn start(world: &World, network: &Network, scenario: &Scenario, node: usize) -> Arc<NodeLimiter> {
    let clock = NodeClock::new(world.clone(), node);
    let link = network.link(node, scenario.deadline, scenario.has_slots);
    let name = world.by_chance(|random| u128::from(random.bits()));
    let options = StoreOptions { node: name, max_known: KNOWN_MAX, ..StoreOptions::new(scenario.mode) };
    let store = RedisStore::new(link, clock.clone(), options);
    let policy = Policy::parse(&scenario.policy()).expect("scenarios write policies that can be read");
    let limiter = Limiter::with_store(policy, store, clock).expect("a store takes a few limits");
    let options = MemoryOptions { max_keys: FALLBACK_KEYS, ..MemoryOptions::default() };
    let limiter = Arc::new(limiter.with_fallback(options).expect("there is memory for a few keys"));
    let tended = Arc::clone(&limiter);
    world.spawn(Some(node), async move {
        // If it fails, the store heals by itself.
        let _ = tended.store().first_attempt().await;
        tended.store().tend().await;
    });
    limiter
}

/// What a node said to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeAnswer {
    /// Was it admitted?
    pub allowed: bool,
    /// Was it decided without the store?
    pub without_store: bool,
    /// When to try again.
    pub retry_after: Option<Nanos>,
    /// How many nodes it held to be alive.
    pub nodes: u32,
}

/// Asks a node about a request that names these keys of these limits.
pub(crate) async fn ask(limiter: &NodeLimiter, keys: &[(usize, usize)], cost: u32) -> NodeAnswer {
    let mut request = Request::new().cost(Cost::new(cost));
    for (limit, key) in keys {
        request = request.descriptor(limit.to_string(), format!("key-{key}"));
    }
    let decision = limiter.check_async(&request).await;
    NodeAnswer {
        allowed: decision.is_allowed(),
        without_store: decision.without_store(),
        retry_after: decision.wait(),
        nodes: tidegate::Store::nodes(limiter.store()),
    }
}
