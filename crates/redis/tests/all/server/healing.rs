//! A store whose server goes down and comes back.

use std::sync::Arc;
use std::time::Duration;

use tidegate::{Carry, Charge, Clock, Cost, Intent, Limit, MonotonicClock, Quota, Store};
use tidegate_redis::{RedisClient, RedisStore, StoreError, StoreMode, StoreOptions};

use super::calls::connect_within;
use super::process::{Redis, free_port, until};

type Shared = Arc<RedisStore<RedisClient, MonotonicClock>>;

/// Longer than it takes to notice that a server is down, even without requests, or that it is back; also on a busy machine.
const PATIENCE: Duration = Duration::from_secs(15);

const DEADLINE: Duration = Duration::from_millis(50);

fn store(url: &str) -> Shared {
    let link = connect_within(url, DEADLINE);
    Arc::new(RedisStore::new(link, MonotonicClock::new(), StoreOptions::new(StoreMode::Strict)))
}

fn run_maintenance(store: &Shared) -> tokio::task::JoinHandle<()> {
    let store = Arc::clone(store);
    tokio::spawn(async move { store.run_maintenance().await })
}

async fn decide(store: &Shared) -> Result<bool, StoreError> {
    let now = store.clock().now();
    let quota = Quota::per_second(1_000_000).expect("a quota");
    let limit =
        store.limit("everybody", Limit::token_bucket(quota), Carry::AsIs, now).expect("it can be named");
    let charges = [Charge::new(&limit, b"", Cost::ONE)];
    store.charge(Intent::Take, &charges, now).await.map(|verdict| verdict.allowed)
}

#[tokio::test]
async fn an_outage_is_noticed_told_and_over_when_it_is_over() {
    let mut redis = Redis::start();
    let store = store(&redis.url());
    store.first_attempt().await.expect("it is there");
    let running = run_maintenance(&store);
    until(PATIENCE, "it decides", async || decide(&store).await == Ok(true)).await;
    until(PATIENCE, "it is up", async || store.health().up).await;

    redis.kill();
    until(PATIENCE, "the store says that it is down", async || !store.health().up).await;
    assert_eq!(decide(&store).await, Err(StoreError::BreakerOpen));
    let health = store.health();
    assert!(health.last_error.is_some_and(|why| !why.is_empty()) && health.nodes == 1);

    tokio::time::sleep(Duration::from_secs(1)).await;
    redis.restart();
    until(PATIENCE, "it decides again", async || decide(&store).await == Ok(true)).await;
    until(PATIENCE, "it is up", async || store.health().up).await;
    running.abort();
}

#[tokio::test]
async fn a_store_may_start_before_its_server() {
    let port = free_port();
    let store = store(&format!("redis://127.0.0.1:{port}"));
    store.first_attempt().await.expect_err("there is no server");
    assert!(!store.health().up, "it is known from the beginning");
    assert_eq!(decide(&store).await, Err(StoreError::BreakerOpen));
    let running = run_maintenance(&store);

    let _redis = Redis::start_on(port, &[]);
    until(PATIENCE, "it decides", async || decide(&store).await == Ok(true)).await;
    running.abort();
}
