//! Burst detectors that nodes share, on a real server.

use std::future::poll_fn;
use std::sync::{Arc, Mutex};
use std::task::Poll;

use crate::support::{PlainLink, Redis, fresh_prefix, runtime};
use tidegate::engine::bursts::BurstState;
use tidegate::engine::{Decision, Incident, IncidentKind, Limiter, Observer, Policy, Reason, Request};
use tidegate::{BurstAction, ManualClock, Nanos, NowOrLater};
use tidegate_redis::{RedisStore, StoreMode, StoreOptions};
use tokio::runtime::Runtime;

const HYBRID: StoreMode = StoreMode::Hybrid { life: StoreOptions::LEASE_LIFE };

type Node = Limiter<RedisStore<PlainLink, ManualClock>, ManualClock>;

/// The warnings and blocks that observers were told of: what happened, the detector, and the user.
#[derive(Clone, Debug, Default)]
struct Told(Arc<Mutex<Vec<(IncidentKind, String, String)>>>);

impl Observer for Told {
    fn observe(&self, incident: &Incident<'_, '_>) {
        if matches!(incident.kind, IncidentKind::BurstWarned | IncidentKind::BurstBlocked) {
            let of_request = incident.facts.and_then(|facts| facts.request.user.as_deref());
            let user = incident.subject.and_then(|subject| subject.user.as_deref()).or(of_request);
            let (name, user) = (incident.name.unwrap_or_default(), user.unwrap_or_default());
            self.0.lock().unwrap().push((incident.kind, name.into(), user.into()));
        }
    }
}

/// Nodes on one server. The clock of all, the server included, moves only when a test moves it.
struct Fleet {
    server: Redis,
    runtime: Runtime,
    clock: ManualClock,
    prefix: String,
    rate: u32,
    nodes: Vec<Arc<Node>>,
    told: Told,
}

impl Fleet {
    fn new(mode: StoreMode, server: Redis) -> Fleet {
        Fleet::with_rate(mode, server, 1_000)
    }

    fn with_rate(mode: StoreMode, server: Redis, rate: u32) -> Fleet {
        Fleet::on(runtime(), mode, server, rate)
    }

    fn on(runtime: Runtime, mode: StoreMode, server: Redis, rate: u32) -> Fleet {
        let (clock, told) = (ManualClock::default(), Told::default());
        let (prefix, nodes) = (fresh_prefix(), Vec::new());
        let mut fleet = Fleet { server, runtime, clock, prefix, rate, nodes, told };
        fleet.nodes = (0..3).map(|_| fleet.node(mode)).collect();
        fleet
    }

    fn node(&self, mode: StoreMode) -> Arc<Node> {
        let link = self.runtime.block_on(PlainLink::connect(&self.server));
        let options =
            StoreOptions { prefix: self.prefix.clone(), given_time: true, ..StoreOptions::new(mode) };
        let store = RedisStore::new(link, self.clock.clone(), options);
        let rate = self.rate;
        let policy = Policy::parse(&format!(
            "version: 1\nlimits: [{{ name: all, key: [], sustained: {{ rate: {rate} }}, burst: {{ capacity: {rate} }} }}]\n\
             bursts: [{{ name: b, key: [user], window: 10s, threshold: 5, penalty: 60s }}]\n",
        ));
        let policy = policy.expect("the policy is valid");
        let node = Limiter::with_store(policy, store, self.clock.clone()).expect("the limits fit");
        Arc::new(node.with_observer(Arc::new(self.told.clone())))
    }

    /// How many warnings and blocks observers were told of, and how many all nodes have counted.
    fn actions(&self) -> [(u64, u64); 2] {
        let told = self.told.0.lock().unwrap();
        let told = |kind| told.iter().filter(|(told, ..)| *told == kind).count() as u64;
        let counted = self.nodes.iter().map(|node| node.burst_actions());
        let counted = counted.fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
        [(told(IncidentKind::BurstWarned), told(IncidentKind::BurstBlocked)), counted]
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

    /// Sends a burst to the first node, which decides it without the server.
    fn burst_without_the_server(&self) {
        // Requests of others come first, so that the node remembers a denial, or has just got a lease.
        for other in 0..2_000 {
            let request = Request::new().user(format!("other-{other}"));
            let deciding = self.nodes[0].check_async(&request);
            let has_asked = matches!(deciding, NowOrLater::Later(_));
            let is_allowed = self.runtime.block_on(deciding).is_allowed();
            if other >= 200 && has_asked == is_allowed {
                break;
            }
            self.clock.advance(Nanos::from_millis(1));
        }
        for _ in 0..6 {
            let decided = match self.nodes[0].check_async(&Request::new().user("1")) {
                NowOrLater::Now(decided) => decided,
                NowOrLater::Later(_) => panic!("it asks the server"),
            };
            assert_eq!(state(&decided), None, "nothing is sent yet");
        }
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

/// Whoever explains a request may ask a node that the client has never been to.
#[test]
fn an_explanation_knows_what_other_nodes_have_led_to_and_counts_nothing() {
    let fleet = Fleet::new(StoreMode::Strict, Redis::start());
    fleet.block();
    for mode in [StoreMode::Strict, HYBRID] {
        let node = fleet.node(mode);
        let explain = |user: &'static str| {
            let request = Request::new().user(user);
            let explained = fleet.runtime.block_on(node.explain_async(&request)).expect("the server answers");
            (explained.decision.reason(), explained.detectors[0].blocked_for)
        };
        assert_eq!(explain("1"), (Reason::BurstBlocked, Some(Nanos::from_secs(120))), "{mode:?}");
        // More often than the detector allows.
        (0..20).for_each(|_| assert_eq!(explain("2"), (Reason::Ok, None), "{mode:?}"));
        let next = fleet.runtime.block_on(node.check_async(&Request::new().user("1")));
        assert_eq!(next.reason(), Reason::BurstBlocked, "{mode:?}: as explained");
    }
    let other = fleet.runtime.block_on(fleet.nodes[0].check_async(&Request::new().user("2")));
    assert_eq!(state(&other), None, "{other:?}");
    assert_eq!(fleet.actions()[0], (1, 1), "nobody is told of anything more");
    let node = fleet.node(StoreMode::Strict);
    let page = fleet.runtime.block_on(fleet.nodes[2].burst_penalties(None, 10)).penalties;
    let request = Request::new().user("1");
    let explain = || fleet.runtime.block_on(node.explain_async(&request)).expect("the server answers");
    assert_eq!(explain().decision.reason(), Reason::BurstBlocked);
    let lifted = fleet.runtime.block_on(fleet.nodes[2].lift_burst_penalty(page[0].id));
    assert!(lifted.expect("the server answers").is_some());
    assert_eq!(explain().detectors[0].blocked_for, None, "lifted through another node");
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
    fleet.nodes.iter().for_each(|node| node.report_late_bursts());
    assert_eq!(fleet.actions(), [(1, 1); 2], "and reported once");
}

/// A burst on one node that is decided without the server; then nobody comes any more.
fn burst_and_silence(mode: StoreMode, rate: u32) {
    let fleet = Fleet::with_rate(mode, Redis::start(), rate);
    for round in 1..=2 {
        fleet.burst_without_the_server();
        assert_eq!(fleet.actions(), [(round - 1, 0); 2], "{mode:?}");
        // What a node does when it is stopped: it sends what it has counted, and reports what it hears.
        fleet.runtime.block_on(fleet.nodes[0].store().leave());
        fleet.nodes.iter().for_each(|node| node.report_late_bursts());
        assert_eq!(fleet.actions(), [(1, round - 1); 2], "{mode:?}: without any further request");
        fleet.clock.advance(Nanos::from_secs(10));
        // The warning is said once more, to the client, but is not reported again.
        if round == 1 {
            assert_eq!(state(&fleet.check(0)), Some(BurstState::WarningIssued), "{mode:?}");
        }
    }
    let told = fleet.told.0.lock().unwrap().clone();
    let about = |kind| (kind, "b".to_owned(), "1".to_owned());
    assert_eq!(told, [about(IncidentKind::BurstWarned), about(IncidentKind::BurstBlocked)], "{mode:?}");
    // The first node lists it on the server at once if it is asked.
    let listed = |node: usize| fleet.runtime.block_on(fleet.nodes[node].burst_penalties(None, 10)).penalties;
    let page = listed(0);
    assert_eq!(listed(1), page, "{mode:?}: other nodes list it");
    let listed: Vec<_> = page.iter().map(|one| (one.kind, &*one.detector, &*one.key)).collect();
    assert_eq!(listed, [(BurstAction::Blocked, "b", "1")], "{mode:?}");
    assert_eq!(state(&fleet.check(0)), Some(BurstState::BlockedTemporarily), "{mode:?}");
    fleet.nodes.iter().for_each(|node| node.report_late_bursts());
    assert_eq!(fleet.actions(), [(1, 1); 2], "{mode:?}: never twice");
}

#[test]
fn a_burst_that_leases_decide_is_reported_although_nobody_comes_any_more() {
    burst_and_silence(HYBRID, 1_000);
}

#[test]
fn a_burst_that_a_remembered_denial_decides_is_reported_although_nobody_comes_any_more() {
    burst_and_silence(StoreMode::Strict, 1);
}

#[test]
fn counts_of_two_windows_that_arrive_together_are_a_warning_and_a_block() {
    let fleet = Fleet::with_rate(HYBRID, Redis::start(), 1_000);
    fleet.burst_without_the_server();
    fleet.clock.advance(Nanos::from_secs(10));
    fleet.burst_without_the_server();
    fleet.runtime.block_on(fleet.nodes[0].store().leave());
    fleet.nodes[0].report_late_bursts();
    assert_eq!(fleet.actions(), [(1, 1); 2]);
}

#[test]
fn a_lift_is_not_undone_by_an_answer_that_was_on_its_way() {
    // On one thread no call goes on while the test does not wait.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let fleet = Fleet::on(runtime, StoreMode::Strict, Redis::start(), 1_000);
    fleet.block();
    let node = &fleet.nodes[2];
    let listed = fleet.runtime.block_on(node.burst_penalties(None, 10)).penalties;
    let request = Request::new().user("1");
    // This node must ask about the block again, and its call is executed before the lift.
    fleet.clock.advance(Nanos::from_millis(900));
    let lifted = fleet.runtime.block_on(async {
        let mut asking = Box::pin(async { node.check_async(&request).await });
        let is_asking = poll_fn(|context| Poll::Ready(asking.as_mut().poll(context).is_pending())).await;
        assert!(is_asking, "it waits for the server");
        let lifted = node.lift_burst_penalty(listed[0].id).await;
        let _decided = asking.await;
        lifted
    });
    assert!(lifted.expect("the server answers").is_some());
    assert_eq!(state(&fleet.check(2)), None, "the lift holds");
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
