//! A node: the real engine with a policy, on the real store, over a simulated link.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tidegate::engine::beside::{BackgroundWork, Candidate};
use tidegate::engine::bursts::BurstState;
use tidegate::engine::{Limiter, OverrideRule, Overrides, Policy, Reason, Request, RuleSet};
use tidegate::{Cost, MemoryOptions, Nanos, OverrideNumbers};
use tidegate_redis::{RedisStore, StoreOptions};

use crate::run::ScenarioRun;
use crate::scenario::Scenario;
use crate::scenario::overrides::OverrideChange;
use crate::scenario::sabotage::Sabotage;
use crate::{Network, NodeClock, SimLink, World};

/// The store of a node.
pub type SimNodeStore = RedisStore<SimLink, NodeClock>;

/// The engine of a node.
pub type NodeLimiter = Limiter<SimNodeStore, NodeClock>;

/// A draft of the policy that a node tries out.
#[derive(Debug)]
pub struct NodeTrial {
    /// The draft's engine.
    pub candidate: Arc<Candidate<SimNodeStore, NodeClock>>,
    /// How many comparisons are not finished.
    pub waiting: Arc<AtomicU64>,
}

/// The keys of the local fallback: enough for any scenario.
const FALLBACK_KEYS: usize = 1_024;

/// The keys that a store remembers: enough for any scenario.
const KNOWN_MAX: usize = 10_000;

/// Starts a node: its engine, and the task that runs its store's maintenance.
pub(crate) fn start(world: &World, network: &Network, scenario: &Scenario, node: usize) -> Arc<NodeLimiter> {
    let clock = NodeClock::new(world.clone(), node);
    let link = network.link(node, scenario.deadline, scenario.has_slots);
    let name = world.random(|random| u128::from(random.bits()));
    let options = StoreOptions { node: name, max_remembered: KNOWN_MAX, ..StoreOptions::new(scenario.mode) };
    let store = RedisStore::new(link, clock.clone(), options);
    let policy = Policy::parse(&scenario.policy()).expect("a scenario's policy is valid");
    let limiter = Limiter::with_store(policy, store, clock).expect("a store holds a few limits");
    let options = MemoryOptions { max_keys: FALLBACK_KEYS, ..MemoryOptions::default() };
    let limiter = Arc::new(limiter.with_fallback(options).expect("there is memory for a few keys"));
    let maintained = Arc::clone(&limiter);
    world.spawn(Some(node), async move {
        // If this fails, maintenance probes the server until it answers.
        let _ = maintained.store().first_attempt().await;
        maintained.store().run_maintenance().await;
    });
    limiter
}

/// Puts the overrides of a change in force.
pub(crate) fn set_overrides(limiter: &NodeLimiter, change: &OverrideChange) {
    let document = "version: 1\nlimits: []\nblock:\n- { \"descriptor:0\": key-0 }\n- { \"descriptor:0\": [key-1, key-2] }\n";
    let who = RuleSet::from(Policy::parse(document).expect("it is valid"));
    let whose = who.block().entries().iter().zip([change.busiest, change.others]);
    let rules = whose.filter_map(|(who, times)| {
        let numbers = OverrideNumbers::Times(times?);
        Some(OverrideRule::new("override", "limit-0", numbers, who.clone(), Arc::default()))
    });
    limiter.set_overrides(Some(Overrides::new(rules)));
}

/// Lets a node try out the draft of a scenario, on the same store.
pub(crate) fn try_out(run: &ScenarioRun, limiter: &NodeLimiter, node: usize) -> NodeTrial {
    let policy = Policy::parse(&run.scenario.candidate_policy()).expect("a scenario's draft is valid");
    let waiting = Arc::new(AtomicU64::new(0));
    let (world, record, count) = (run.world.clone(), run.record.clone(), Arc::clone(&waiting));
    let background: BackgroundWork = Box::new(move |work| {
        count.fetch_add(1, Ordering::Relaxed);
        let (request, count) = (world.current(), Arc::clone(&count));
        let task = world.spawn(Some(node), async move {
            work.await;
            count.fetch_sub(1, Ordering::Relaxed);
        });
        if let Some(request) = request {
            record.continue_as(request, task, world.now());
        }
        true
    });
    let prefix = match run.scenario.sabotage {
        Some(Sabotage::CandidateChargesLive) => "",
        _ => "candidate ",
    };
    let candidate = limiter.candidate(policy, limiter.store().clone(), prefix, background);
    let candidate = Arc::new(candidate.expect("a store holds a few limits"));
    limiter.set_candidates(std::slice::from_ref(&candidate));
    NodeTrial { candidate, waiting }
}

/// A node's answer to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeAnswer {
    /// Was it admitted?
    pub allowed: bool,
    /// Was it decided without the store?
    pub without_store: bool,
    /// When to try again.
    pub retry_after: Option<Nanos>,
    /// How many nodes it counted as alive.
    pub nodes: u32,
    /// What a burst detector said.
    pub burst: Option<BurstState>,
    /// Was it refused because a burst detector blocks its user?
    pub is_blocked: bool,
}

/// A request of a user that charges these keys of these limits.
pub(crate) fn request(keys: &[(usize, usize)], user: Option<usize>) -> Request<'static> {
    let mut request = Request::new();
    if let Some(user) = user {
        request = request.user(format!("user-{user}"));
    }
    for (limit, key) in keys {
        request = request.descriptor(limit.to_string(), format!("key-{key}"));
    }
    request
}

/// Sends a request of a user that charges these keys of these limits.
pub(crate) async fn check(
    limiter: &NodeLimiter,
    keys: &[(usize, usize)],
    user: Option<usize>,
    cost: u32,
) -> NodeAnswer {
    let request = request(keys, user).cost(Cost::new(cost));
    let decision = limiter.check_async(&request).await;
    NodeAnswer {
        allowed: decision.is_allowed(),
        without_store: decision.without_store(),
        retry_after: decision.wait(),
        nodes: tidegate::Store::nodes(limiter.store()),
        burst: decision.burst().map(|(state, _)| state),
        is_blocked: decision.reason() == Reason::BurstBlocked,
    }
}
