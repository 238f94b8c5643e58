//! Whole stores on a real server, with leases and remembered denials.

use std::sync::Arc;

use crate::support::{PlainLink, Redis, fresh_prefix, runtime};
use tidegate::{Carry, Charge, Clock, Cost, Intent, MonotonicClock, Nanos, Quota, Store};
use tidegate_redis::{RedisStore, StoreMode, StoreOptions};

const HYBRID: StoreMode = StoreMode::Hybrid { life: StoreOptions::LEASE_LIFE };

/// Two nodes at full load on one hot key, in real time.
#[test]
fn leases_on_a_real_server() {
    let (server, runtime, prefix) = (Redis::start(), runtime(), fresh_prefix());
    let quota = Quota::new(2_000, Nanos::SECOND, 500).expect("in range");
    let clock = MonotonicClock::new();
    let mut nodes = Vec::new();
    for _ in 0..2 {
        let link = runtime.block_on(PlainLink::connect(&server));
        let options = StoreOptions { prefix: prefix.clone(), ..StoreOptions::new(HYBRID) };
        let store = Arc::new(RedisStore::new(link, clock.clone(), options));
        let maintained = store.clone();
        runtime.spawn(async move { maintained.run_maintenance().await });
        nodes.push(store);
    }
    let begun = clock.now();
    let (mut admitted, mut asked) = (0_u64, 0_u64);
    runtime.block_on(async {
        let limits: Vec<_> = nodes
            .iter()
            .map(|node| node.limit("hot", quota.into(), Carry::AsIs, begun).expect("room"))
            .collect();
        while clock.now().saturating_sub(begun) < Nanos::SECOND {
            for (node, limit) in nodes.iter().zip(&limits) {
                let charge = Charge::new(limit, b"key", Cost::ONE);
                let verdict = node.charge(Intent::Take, &[charge], clock.now()).await.expect("it is there");
                asked += 1;
                admitted += u64::from(verdict.allowed);
            }
            tokio::task::yield_now().await;
        }
    });
    let passed = clock.now().saturating_sub(begun);
    let bound: u64 = nodes.iter().map(|node| node.overshoot_bounds()[0].1).max().expect("two nodes");
    let most = 500 + 2_000 * passed.get() / Nanos::SECOND.get() + bound;
    assert!(admitted <= most, "{admitted} of {most}");
    assert!(admitted >= 1_000, "{admitted} of {most}");
    let calls: u64 = nodes.iter().map(|node| node.calls()).sum();
    assert!(calls * 20 < asked, "{calls} calls for {asked} decisions");
    runtime.block_on(async {
        for node in &nodes {
            node.leave().await;
        }
    });
}
