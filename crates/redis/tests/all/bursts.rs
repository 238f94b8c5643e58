//! Burst detectors that nodes share, on a real server.

use std::sync::Arc;

use crate::support::{PlainLink, Redis, fresh_prefix, runtime};
use tidegate::engine::bursts::BurstState;
use tidegate::engine::{Decision, Limiter, Policy, Reason, Request};
use tidegate::{BurstAction, ManualClock, Nanos};
use tidegate_redis::{RedisStore, StoreMode, StoreOptions};
use tokio::runtime::Runtime;

const HYBRID: StoreMode = StoreMode::Hybrid { life: StoreOptions::LEASE_LIFE };

type Node = Limiter<RedisStore<PlainLink, ManualClock>, ManualClock>;

/// Nodes on one server. The clock of all, the server included, moves only when a test moves it.
struct Fleet {
    server: Redis,
    runtime: Runtime,
    clock: ManualClock,
    prefix: String,
    nodes: Vec<Arc<Node>>,
}

impl Fleet {
    fn new(mode: StoreMode, server: Redis) -> Fleet {
        let clock = ManualClock::default();
        let mut fleet =
            Fleet { server, runtime: runtime(), clock, prefix: fresh_prefix(), nodes: Vec::new() };
        fleet.nodes = (0..3).map(|_| fleet.node(mode)).collect();
        fleet
    }

    fn node(&self, mode: StoreMode) -> Arc<Node> {
        let link = self.runtime.block_on(PlainLink::connect(&self.server));
        let options =
            StoreOptions { prefix: self.prefix.clone(), given_time: true, ..StoreOptions::new(mode) };
        let store = RedisStore::new(link, self.clock.clone(), options);
        let policy = Policy::parse(
            "version: 1\nlimits: [{ name: all, key: [], sustained: { rate: 1000 }, burst: { capacity: 1000 } }]\n\
             bursts: [{ name: b, key: [user], window: 10s, threshold: 5, penalty: 60s }]\n",
        );
        let policy = policy.expect("the policy is valid");
        Arc::new(Limiter::with_store(policy, store, self.clock.clone()).expect("the limits fit"))
    }

    fn maintain(&self) {
        for node in &self.nodes {
            let node = Arc::clone(node);
            self.runtime.spawn(async move { node.store().run_maintenance().await });
        }
    }

    fn check(&self, node: usize) -> Decision {
        self.runtime.block_on(self.nodes[node].check_async(&Request::new().user("1")))
    }

    /// Sends requests to the nodes in turn, and returns what detectors did.
    fn send(&self, requests: usize) -> Vec<Option<BurstState>> {
        (0..requests).map(|nth| state(&self.check(nth % 3))).collect()
    }

    /// Warns the key, then blocks it.
    fn block(&self) {
        let warned = self.send(6);
        assert_eq!(warned, [None, None, None, None, None, Some(BurstState::WarningIssued)]);
        self.clock.advance(Nanos::from_secs(10));
        let blocked = self.send(6);
        assert_eq!(blocked, [None, None, None, None, None, Some(BurstState::BlockedTemporarily)]);
    }
}

fn state(decision: &Decision) -> Option<BurstState> {
    decision.burst().map(|(state, _)| state)
}

#[test]
fn a_block_reached_on_one_node_holds_on_all() {
    let fleet = Fleet::new(StoreMode::Strict, Redis::start());
    fleet.block();
    for node in 0..3 {
        let refused = fleet.check(node);
        assert_eq!(
            (refused.reason(), state(&refused)),
            (Reason::BurstBlocked, Some(BurstState::AlreadyBlocked)),
            "node {node}"
        );
        assert_eq!((refused.violated_rule(), refused.retry_after_secs()), (Some("b"), Some(120)));
    }
    let other = fleet.runtime.block_on(fleet.nodes[0].check_async(&Request::new().user("2")));
    assert_eq!((other.is_allowed(), state(&other)), (true, None), "{other:?}");
    fleet.clock.advance(Nanos::from_secs(120));
    assert_eq!(fleet.send(3), [None, None, None], "the block has ended");
}

#[test]
fn a_node_that_starts_later_knows_the_block_and_a_lift_ends_it_everywhere() {
    let fleet = Fleet::new(StoreMode::Strict, Redis::start());
    fleet.block();
    assert_eq!(fleet.send(3), [Some(BurstState::AlreadyBlocked); 3]);
    let late = fleet.node(StoreMode::Strict);
    let refused = fleet.runtime.block_on(late.check_async(&Request::new().user("1")));
    assert_eq!(state(&refused), Some(BurstState::AlreadyBlocked));
    let listed = |node: &Node| fleet.runtime.block_on(node.burst_penalties(None, 10)).penalties;
    // The third node has reached the block. It lists it on the server at once if it is asked.
    let page = listed(&fleet.nodes[2]);
    let [block] = &page[..] else { panic!("one penalty: {page:?}") };
    assert_eq!((block.kind, &*block.detector, &*block.key), (BurstAction::Blocked, "b", "1"));
    for node in fleet.nodes.iter().chain([&late]) {
        assert_eq!(listed(node), page, "every node lists what the server has");
    }
    let lift =
        |node: &Node| fleet.runtime.block_on(node.lift_burst_penalty(block.id)).expect("the server answers");
    assert_eq!(lift(&late).as_ref(), Some(block), "a node lifts what it has not caused");
    assert_eq!(lift(&fleet.nodes[2]), None, "once, also for the node that has caused it");
    assert_eq!(listed(&fleet.nodes[2]), []);
    fleet.clock.advance(Nanos::SECOND);
    assert_eq!(fleet.send(3), [None, None, None], "within a second on every node");
}

#[test]
fn no_block_is_lost_when_the_server_restarts_with_every_write_on_disk() {
    let persistent = ["--appendonly", "yes", "--appendfsync", "always"];
    let mut fleet = Fleet::new(StoreMode::Strict, Redis::start_with(&persistent));
    fleet.block();
    fleet.server.kill();
    fleet.server.restart();
    let node = fleet.node(StoreMode::Strict);
    let refused = fleet.runtime.block_on(node.check_async(&Request::new().user("1")));
    assert_eq!((refused.reason(), state(&refused)), (Reason::BurstBlocked, Some(BurstState::AlreadyBlocked)));
}

#[test]
fn counts_of_decisions_that_do_not_wait_are_sent_soon_and_keep_their_window() {
    let fleet = Fleet::new(HYBRID, Redis::start());
    // The first requests lease; the following ones are decided without a call.
    assert!((0..3).all(|node| fleet.check(node).is_allowed()));
    fleet.clock.advance(Nanos::from_secs(20));
    fleet.maintain();
    let mut told = Vec::new();
    for round in 0..2_000 {
        told.extend(fleet.send(3).into_iter().flatten());
        if told.contains(&BurstState::AlreadyBlocked) {
            break;
        }
        assert!(round < 1_999, "{told:?}");
        fleet.clock.advance(Nanos::from_millis(20));
        fleet.runtime.block_on(tokio::task::yield_now());
    }
    let warnings = told.iter().filter(|state| **state == BurstState::WarningIssued).count();
    let blocks = told.iter().filter(|state| **state == BurstState::BlockedTemporarily).count();
    assert_eq!((warnings, blocks), (1, 1), "each is told once among all nodes: {told:?}");
}

#[test]
fn while_the_server_fails_each_nodes_own_detector_decides() {
    let mut fleet = Fleet::new(StoreMode::Strict, Redis::start());
    assert_eq!(state(&fleet.check(0)), None);
    fleet.server.kill();
    fleet.clock.advance(Nanos::from_secs(10));
    let told: Vec<_> = (0..6).map(|_| state(&fleet.check(0))).collect();
    assert_eq!(told[4..], [None, Some(BurstState::WarningIssued)], "{told:?}");
    fleet.clock.advance(Nanos::from_secs(10));
    let told: Vec<_> = (0..7).map(|_| state(&fleet.check(0))).collect();
    assert_eq!(
        told[5..],
        [Some(BurstState::BlockedTemporarily), Some(BurstState::AlreadyBlocked)],
        "{told:?}"
    );
    let listed = |node: usize| fleet.runtime.block_on(fleet.nodes[node].burst_penalties(None, 10)).penalties;
    assert_eq!(listed(0).iter().map(|penalty| penalty.kind).collect::<Vec<_>>(), [BurstAction::Blocked]);
    assert_eq!(listed(1), [], "without the server, a node lists what it knows itself");
    let id = listed(0)[0].id;
    let lifted = fleet.runtime.block_on(fleet.nodes[0].lift_burst_penalty(id));
    assert!(lifted.is_err(), "nothing is lifted while the server does not answer: {lifted:?}");
}
