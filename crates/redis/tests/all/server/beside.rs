//! A policy that is tried out beside the one in force, on the same server.

use std::sync::Arc;
use std::time::Duration;

use tidegate::MonotonicClock;
use tidegate::engine::beside::{BackgroundWork, Candidate};
use tidegate::engine::{Limiter, Policy, Request};
use tidegate_redis::{
    ErrorCounts, MaintenanceGuard, RedisClientOptions, RedisStore, StoreMode, StoreOptions,
};
use tokio::runtime::Handle;

use super::process::until;
use super::together_apart::with_slots;
use crate::support::{Redis, fresh_prefix, runtime};

type OnRedis = Limiter<RedisStore, MonotonicClock>;

/// A limiter on a server, and the guard of its store's maintenance. No call is too late, however busy the machine is.
fn limiter(server: &Redis, mode: StoreMode, policy: &str) -> (OnRedis, MaintenanceGuard) {
    let client =
        RedisClientOptions { deadline: Duration::from_secs(15), ..RedisClientOptions::new(server.url()) };
    let options = StoreOptions { prefix: fresh_prefix(), ..StoreOptions::new(mode) };
    let (store, guard) = RedisStore::connect(client, options).expect("the address is one");
    let clock = store.clock().clone();
    let policy = Policy::parse(policy).expect("it is a policy");
    (Limiter::with_store(policy, store, clock).expect("a store holds a few limits"), guard)
}

fn try_out(limiter: &OnRedis, policy: &str) -> Arc<Candidate<RedisStore, MonotonicClock>> {
    let runtime = Handle::current();
    let background: BackgroundWork = Box::new(move |work| {
        drop(runtime.spawn(work));
        true
    });
    let policy = Policy::parse(policy).expect("it is a policy");
    let candidate = limiter.candidate(policy, limiter.store().clone(), "candidate ", background);
    let candidate = Arc::new(candidate.expect("a store holds a few limits"));
    limiter.set_candidates(std::slice::from_ref(&candidate));
    candidate
}

#[test]
fn what_the_server_refuses_a_candidate_fails_nobody() {
    let runtime = runtime();
    runtime.block_on(async {
        // A node of a Cluster whose address does not say so: requests whose keys are in several slots are refused.
        let server = with_slots().await;
        let one = "version: 1\nlimits: [{ name: a, key: [user], sustained: { rate: 1000 } }]\n";
        let two = "version: 1\nlimits: [{ name: a, key: [user], sustained: { rate: 1000 } }, \
                   { name: b, key: [client], sustained: { rate: 1000 } }]\n";
        let (limiter, _guard) = limiter(&server, StoreMode::Strict, one);
        until(Duration::from_secs(15), "it is there", async || {
            !limiter.check_async(&Request::new().user("x")).await.without_store()
        })
        .await;
        let before = limiter.store().errors();
        let candidate = try_out(&limiter, two);
        for n in 0..100 {
            let request = Request::new().user(format!("user-{n}")).client(format!("client-{n}"));
            let decision = limiter.check_async(&request).await;
            assert!(decision.is_allowed() && !decision.without_store(), "{n}: {decision:?}");
        }
        assert!(limiter.store().health().up);
        assert_eq!(limiter.store().errors(), before);
        let totals = || candidate.report().totals();
        until(Duration::from_secs(15), "all are compared", async || {
            totals().both_admit + totals().not_compared == 100
        })
        .await;
        assert!(totals().not_compared > 0, "{:?}", totals());
    });
}

#[test]
fn limits_of_a_candidate_have_no_bound_and_void_no_denial() {
    let (server, runtime) = (Redis::start(), runtime());
    runtime.block_on(async {
        let text = "version: 1\nlimits: [{ name: a, key: [user], sustained: { rate: 1, window: hour } }]\n";
        let mode = StoreMode::Hybrid { life: StoreOptions::LEASE_LIFE };
        let (limiter, _guard) = limiter(&server, mode, text);
        let request = Request::new().user("ann");
        until(Duration::from_secs(15), "it is denied by the server", async || {
            let decision = limiter.check_async(&request).await;
            !decision.is_allowed() && !decision.without_store()
        })
        .await;
        let (bounds, calls) = (limiter.store().overshoot_bounds(), limiter.store().calls());
        let candidate = try_out(&limiter, text);
        assert_eq!(limiter.store().overshoot_bounds(), bounds);
        limiter.set_candidates::<RedisStore>(&[]);
        drop(candidate);
        assert!(!limiter.check_async(&request).await.is_allowed());
        assert_eq!(limiter.store().calls(), calls, "the denial is remembered");
        assert_eq!(limiter.store().errors(), ErrorCounts::default());
    });
}
