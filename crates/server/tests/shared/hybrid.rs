//! Hybrid mode: busy keys are decided without a call to Redis, within the published overshoot bound.

use std::time::Duration;

use tidegate::{Clock, MonotonicClock};

use super::asking::{metric, pipeline, serve};
use crate::support::redis::Redis;
use crate::support::within;

const POLICY: &str = "version: 1\nlimits:\n- { name: busy, key: [user], \
                      sustained: { rate: 2000 }, burst: { capacity: 2000 } }\n";

#[test]
fn two_busy_servers_stay_within_the_bound_and_seldom_ask() {
    let redis = Redis::start();
    // Hybrid mode by `store.mode`, the other spelling.
    let settings = format!(
        "store: {{ redis: {{ url: \"redis://127.0.0.1:{}\", deadline: 10s }}, max_keys: 10000, mode: hybrid }}\n\
         rate_limit_sync: {{ enabled: true, backend: redis, sync_interval_ms: 100 }}\n",
        redis.port
    );
    let (one, _home) = serve(&settings, POLICY);
    let (other, _other_home) = serve(&settings, POLICY);
    assert!(one.told("store").starts_with("hybrid on "));
    let commands = "TG.CHECK user a\r\n".repeat(100);
    let busy = |address: &str| {
        let admitted = |answers: String| answers.matches("*7\r\n:1\r\n").count();
        (0..100).map(|_| admitted(pipeline(address, &commands))).sum::<usize>()
    };
    let clock = MonotonicClock::new();
    let begun = clock.now();
    let admitted = std::thread::scope(|scope| {
        let both =
            [&one, &other].map(|server| server.address("resp")).map(|at| scope.spawn(move || busy(&at)));
        both.map(|thread| thread.join().expect("it counts")).iter().sum::<usize>()
    });
    let elapsed = clock.now().saturating_sub(begun).get() as f64 / 1e9;
    let bound = metric(&one, "tidegate_lease_overshoot_bound_tokens{limit=\"busy\"}");
    assert!(bound > 0.0 && bound <= 200.0, "{bound}");
    assert!(admitted as f64 <= 2000.0 + 2000.0 * elapsed + bound, "{admitted} in {elapsed} s, bound {bound}");
    assert!(admitted >= 2000, "{admitted}");
    let calls = metric(&one, "tidegate_store_calls_total") + metric(&other, "tidegate_store_calls_total");
    assert!(calls < 20_000.0 / 5.0, "{calls} calls for 20,000 decisions");
    within(Duration::from_secs(20), "both know both", || {
        [&one, &other].iter().all(|server| metric(server, "tidegate_nodes") == 2.0)
    });
}
