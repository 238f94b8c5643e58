//! The guard of a store's maintenance: it sends heartbeats while it is held, and the node leaves when it is dropped or
//! shut down.

use std::time::Duration;

use tidegate_redis::{
    MaintenanceGuard, RedisClientError, RedisClientOptions, RedisStore, StoreMode, StoreOptions,
};

use super::process::{Redis, until};

const PATIENCE: Duration = Duration::from_secs(10);

fn connect(redis: &Redis) -> (RedisStore, MaintenanceGuard) {
    let options = StoreOptions::new(StoreMode::Hybrid { life: StoreOptions::LEASE_LIFE });
    // No heartbeat misses its deadline because the machine is busy.
    let client = RedisClientOptions { deadline: PATIENCE, ..RedisClientOptions::new(redis.url()) };
    RedisStore::connect(client, options).expect("the address is valid")
}

/// How many nodes the server lists as alive.
async fn nodes(redis: &Redis) -> i64 {
    let client = redis::Client::open(redis.url()).expect("the address is valid");
    let mut connection = client.get_multiplexed_async_connection().await.expect("the server answers");
    redis::cmd("ZCARD").arg("tidegate:1:{nodes}").query_async(&mut connection).await.expect("a sorted set")
}

#[tokio::test]
async fn a_node_is_listed_while_its_guard_is_held_and_leaves_at_shutdown() {
    let redis = Redis::start();
    let ((one, guard), (other, other_guard)) = (connect(&redis), connect(&redis));
    until(PATIENCE, "both know of each other", async || one.health().nodes == 2 && other.health().nodes == 2)
        .await;
    guard.shutdown().await;
    assert_eq!(nodes(&redis).await, 1, "it has left when shutdown returns");
    drop(other_guard);
    until(PATIENCE, "a node leaves when its guard is dropped", async || nodes(&redis).await == 0).await;
}

#[test]
fn maintenance_needs_a_runtime() {
    let runtime = crate::support::runtime();
    let redis = Redis::start();
    let (store, guard) = {
        let _context = runtime.enter();
        connect(&redis)
    };
    assert!(matches!(store.start_maintenance(), Err(RedisClientError::NoRuntime)));
    runtime.block_on(guard.shutdown());
}
