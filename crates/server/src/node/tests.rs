use futures_util::FutureExt;
use tidegate::engine::{AdHocLimit, JointBy};
use tidegate_policy::Policy;

use super::*;
use crate::observe::Protocol;

const ORIGIN: Origin<'static> = Origin { protocol: Protocol::Http, traceparent: None };
const ONE_A_DAY: AdHocLimit = AdHocLimit { capacity: 1, rate: 1, window: Nanos::DAY };

fn asked(cost: u64) -> AdHocRequest<'static> {
    AdHocRequest { key: b"a", limit: ONE_A_DAY, cost }
}

/// The result of a future that must be ready at once, as those of the memory store are.
fn at_once<F: Future>(future: F) -> F::Output {
    future.now_or_never().expect("memory answers at once")
}

fn node(policy: &str) -> Node {
    node_with(policy, None)
}

fn node_with(policy: &str, console_link: Option<&str>) -> Node {
    let console_link = console_link.map(str::to_owned);
    let settings = Settings { max_keys: 1_000, console_link, ..Settings::default() };
    let identity = Identity::new(&settings).expect("it needs no files");
    Node::new(settings, Policy::parse(policy).expect("a policy").into(), identity).expect("it is small")
}

#[test]
fn the_kill_switch_reaches_buckets_without_a_policy() {
    let node = node("version: 1\nlimits: []\n");
    let ask = || at_once(node.check_ad_hoc(ORIGIN, &asked(1))).expect("a limit");
    let now = node.clock().now();
    let ask_in_short = |cost| {
        let answer = at_once(node.check_ad_hoc_in_short(Protocol::Resp, &asked(cost), now));
        answer.expect("a limit").decision.is_allowed()
    };
    let closed = || {
        let request = Request::new();
        let joint = [Joint { request: &request, by: JointBy::Closed }];
        let decided = at_once(node.check_joint(ORIGIN, &joint)).expect("a limit");
        (decided.allowed, decided.decisions[0].reason())
    };
    assert_eq!(ask().reason(), Reason::Ok);
    assert!(!ask().is_allowed() && !ask_in_short(1) && !ask_in_short(u64::MAX));
    node.limiter.set_kill_switch(true);
    let decision = ask();
    assert!(decision.is_allowed() && ask_in_short(1) && ask_in_short(u64::MAX));
    assert_eq!((decision.reason(), decision.retry_after_secs()), (Reason::KillSwitch, Some(0)));
    assert!(decision.tightest().is_some_and(|tightest| tightest.decision.remaining == 0));
    assert_eq!(closed(), (true, Reason::KillSwitch));
    node.limiter.set_kill_switch(false);
    assert!(!ask().is_allowed());
    assert_eq!(closed(), (false, Reason::CostExceedsCapacity));
}

#[test]
fn looking_at_a_bucket_takes_and_counts_nothing() {
    let node = node("version: 1\nlimits: []\n");
    let look = |cost| at_once(node.peek_ad_hoc(&asked(cost))).expect("a limit").is_allowed();
    assert!(look(1) && look(1) && !look(2));
    assert_eq!(node.limiter.ad_hoc_counters(), Default::default());
    assert!(at_once(node.check_ad_hoc(ORIGIN, &asked(1))).expect("a limit").is_allowed());
    assert!(!look(1));
}

#[tokio::test]
async fn a_wait_is_no_part_of_how_long_decisions_take() {
    let node = node(
        "version: 1\nlimits: [{ name: a, key: [], sustained: { rate: 20, window: second }, burst: { capacity: 1 }, \
         strategy: queue, queue: { max_depth: 9, max_wait: 20ms } }]\n",
    );
    let request = Request::new();
    assert_eq!(node.admit(ORIGIN, &request).await.reason(), Reason::Ok);
    assert_eq!(node.metrics.decisions_measured(), 1);
    assert_eq!(node.admit(ORIGIN, &request).await.reason(), Reason::QueueTimeout);
    assert_eq!(node.metrics.decisions_measured(), 1);
}

#[tokio::test]
async fn every_denial_of_a_client_has_the_link_and_nothing_else_has() {
    let policy = "version: 1\nlimits: [{ name: a, key: [user], sustained: { rate: 20, window: second }, burst: { capacity: 1 }, \
                  strategy: queue, queue: { max_depth: 9, max_wait: 20ms } }]\n";
    let console = "https://gate.example/console";
    let (linked, plain) = (node_with(policy, Some(console)), node_with(policy, None));
    let mut request = Request::new();
    request.user = Some("42".into());
    let joint = [Joint { request: &request, by: JointBy::Policy }];
    for (node, wanted) in [(&linked, Some(format!("{console}/key?user=42"))), (&plain, None)] {
        let link = |decision: &Decision| {
            let body: serde_json::Value = serde_json::from_str(&decision.problem_body(429)).expect("JSON");
            body.get("console").and_then(|link| link.as_str().map(str::to_owned))
        };
        let ask = || node.admit_entered(ORIGIN, node.enter(&request), &request);
        assert_eq!(link(&ask().await), None, "it was admitted");
        // The queue is known to be too long at once, or after a wait.
        let denied = ask().await;
        assert_eq!((denied.is_allowed(), link(&denied)), (false, wanted.clone()));
        let together = node.check_joint(ORIGIN, &joint).await.expect("no bucket of its own");
        assert_eq!((together.allowed, link(&together.decisions[0])), (false, wanted));
    }
}
