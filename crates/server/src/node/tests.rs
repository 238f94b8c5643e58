use tidegate_policy::Policy;

use super::*;
use crate::at_once::at_once;
use crate::observe::Protocol;

const ORIGIN: Origin<'static> = Origin { protocol: Protocol::Http, traceparent: None };
const ONE_A_DAY: ThrottleLimit = ThrottleLimit { capacity: 1, rate: 1, window: Nanos::DAY };

fn node(policy: &str) -> Node {
    let settings = Settings { max_keys: 1_000, ..Settings::default() };
    let identity = Identity::new(&settings).expect("it needs no files");
    Node::new(settings, Policy::parse(policy).expect("a policy").into(), identity).expect("it is small")
}

#[test]
fn the_kill_switch_reaches_buckets_without_a_policy() {
    let node = node("version: 1\nlimits: []\n");
    let ask = || at_once(node.throttle(ORIGIN, b"a", ONE_A_DAY, Cost::ONE)).expect("a limit");
    let now = node.limiter.clock().now();
    let ask_in_short = || node.throttle_at(b"a", ONE_A_DAY, Cost::ONE, now).expect("a limit");
    assert_eq!(ask().reason(), Reason::Ok);
    assert!(!ask().is_allowed() && !ask_in_short().is_allowed());
    node.limiter.set_kill_switch(true);
    let decision = ask();
    assert!(decision.is_allowed() && ask_in_short().is_allowed());
    assert_eq!((decision.reason(), decision.retry_after_secs()), (Reason::KillSwitch, Some(0)));
    assert!(decision.tightest().is_some_and(|tightest| tightest.decision.remaining == 0));
    assert_eq!(at_once(node.throttle_closed(ORIGIN, &Request::new())).reason(), Reason::KillSwitch);
    node.limiter.set_kill_switch(false);
    assert!(!ask().is_allowed() && !at_once(node.throttle_closed(ORIGIN, &Request::new())).is_allowed());
}

#[test]
fn looking_at_a_bucket_takes_and_counts_nothing() {
    let node = node("version: 1\nlimits: []\n");
    let look =
        |cost| at_once(node.peek_throttled(b"a", ONE_A_DAY, Cost::new(cost))).expect("a limit").is_allowed();
    assert!(look(1) && look(1) && !look(2));
    assert_eq!(
        node.throttle.counters(),
        Throttle::new(MemoryOptions::default(), MonotonicClock::new()).counters()
    );
    assert!(at_once(node.throttle(ORIGIN, b"a", ONE_A_DAY, Cost::ONE)).expect("a limit").is_allowed());
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
