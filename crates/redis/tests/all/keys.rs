//! Resets and grants by one node, and what other nodes remember meanwhile. The clock stands still, so that nothing but
//! the action itself can change an answer.

use tidegate::engine::{ChosenLimits, Limiter, Policy, Request};
use tidegate::{Cost, Intent, ManualClock, Nanos};
use tidegate_redis::{RedisStore, StoreMode, StoreOptions};

use crate::support::{PlainLink, Redis, fresh_prefix, runtime};

const HYBRID: StoreMode = StoreMode::Hybrid { life: StoreOptions::LEASE_LIFE };
const POLICY: &str = "version: 1
limits:
- { name: bucket, key: [user], match: { path: /bucket }, sustained: { rate: 10, window: hour } }
- { name: sliding, key: [user], match: { path: /sliding }, algorithm: sliding_window, sustained: { rate: 10, window: hour } }
- { name: fixed, key: [user], match: { path: /fixed }, algorithm: fixed_window, sustained: { rate: 10, window: hour } }
- { name: log, key: [user], match: { path: /log }, algorithm: sliding_log, sustained: { rate: 10, window: hour } }
";

#[test]
fn other_nodes_forget_what_they_remember() {
    let (server, runtime) = (Redis::start(), runtime());
    let all: ChosenLimits<'_> = &|_| true;
    for mode in [StoreMode::Strict, HYBRID] {
        for path in ["/bucket", "/sliding", "/fixed", "/log"] {
            let (clock, prefix) = (ManualClock::new(Nanos::from_secs(1_800_000_000)), fresh_prefix());
            let node = || {
                let link = runtime.block_on(PlainLink::connect(&server));
                let options =
                    StoreOptions { prefix: prefix.clone(), given_time: true, ..StoreOptions::new(mode) };
                let store = RedisStore::new(link, clock.clone(), options);
                Limiter::with_store(Policy::parse(POLICY).expect("a policy"), store, clock.clone())
                    .expect("they fit")
            };
            let (one, other) = (node(), node());
            let request = Request::new().user("1").path(path);
            let drained = |node: &Limiter<_, _>| {
                (0..30).filter(|_| runtime.block_on(node.check_async(&request)).is_allowed()).count()
            };
            let first = drained(&one) + drained(&other);
            assert!(first <= 10, "{mode:?} {path}: {first}");
            assert_eq!(drained(&other), 0);
            // The other node remembers the denial until it is told.
            runtime.block_on(one.reset_async(&request, all)).expect("the server answers");
            assert_eq!(drained(&other), 0, "{mode:?} {path}: it does not know yet");
            other.forget(Intent::Reset, &request, all);
            let after = drained(&other) + drained(&one);
            assert!((1..=10).contains(&after), "{mode:?} {path}: {after}");
            if mode == StoreMode::Strict {
                assert_eq!((first, after), (10, 10), "{path}");
            }
            runtime.block_on(one.reset_async(&request, all)).expect("the server answers");
            other.forget(Intent::Reset, &request, all);
            let last = drained(&one);
            assert!(last <= 10, "{mode:?} {path}: {last}");
            runtime.block_on(one.grant_async(&request, Cost::new(3), all)).expect("the server answers");
            other.forget(Intent::Refund, &request, all);
            let granted = drained(&other) + drained(&one);
            assert!(granted <= 3 + (10 - last), "{mode:?} {path}: {granted}");
            if mode == StoreMode::Strict {
                assert_eq!(granted, 3, "{path}");
            }
        }
    }
}

/// A lease is what the client has left on a node: a grant by another node must not take it away.
#[test]
fn a_grant_leaves_the_leases_of_other_nodes() {
    let (server, runtime) = (Redis::start(), runtime());
    let all: ChosenLimits<'_> = &|_| true;
    let policy = "version: 1
limits: [{ name: bucket, key: [user], sustained: { rate: 1000, window: day }, burst: { capacity: 100000 } }]
";
    let (start, prefix) = (Nanos::from_secs(1_800_000_000), fresh_prefix());
    let clock = ManualClock::new(start);
    let node = || {
        let link = runtime.block_on(PlainLink::connect(&server));
        let options = StoreOptions { prefix: prefix.clone(), given_time: true, ..StoreOptions::new(HYBRID) };
        let store = RedisStore::new(link, clock.clone(), options);
        Limiter::with_store(Policy::parse(policy).expect("a policy"), store, clock.clone()).expect("they fit")
    };
    let (one, other) = (node(), node());
    let request = Request::new().user("1");
    // Often enough for a lease, in two halves of a lease's life.
    for half in 0..2 {
        clock.set(start.saturating_add(Nanos::new(half * Nanos::from(StoreOptions::LEASE_LIFE).get() / 2)));
        for _ in 0..50 {
            assert!(runtime.block_on(other.check_async(&request)).is_allowed());
        }
    }
    let left = |node: &Limiter<_, _>| {
        let peeked = runtime.block_on(node.peek_async(&request));
        peeked.tightest().map(|limit| limit.decision.remaining).expect("a limit")
    };
    let (before, on_server) = (left(&other), left(&one));
    assert!(before > on_server, "it has a lease: {before} of which {on_server} are on the server");
    runtime.block_on(one.grant_async(&request, Cost::new(3), all)).expect("the server answers");
    other.forget(Intent::Refund, &request, all);
    assert_eq!(left(&other), before + 3);
    runtime.block_on(one.reset_async(&request, all)).expect("the server answers");
    other.forget(Intent::Reset, &request, all);
    assert_eq!((left(&one), left(&other)), (100_000, 100_000), "a lease was taken before the reset");
}
