//! The conformance suite on whole stores with the real client: a single server, a Cluster, and Sentinel.

use std::future::Future;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use tidegate::ManualClock;
use tidegate::testing::{Harness, conformance};
use tidegate_redis::{RedisClient, RedisClientOptions, RedisStore, StoreMode, StoreOptions};
use tokio::runtime::Runtime;

use super::calls::{connect, take};
use super::cluster::{replica_of, three, url_of};
use super::process::{Redis, until};
use super::sentinel::{MOVES_WITHIN, watch_over};

const PATIENCE: Duration = Duration::from_secs(10);

/// How long a Sentinel may take on a busy machine; its speed is not tested here.
const FAILS_OVER_WITHIN: Duration = Duration::from_secs(30);

/// Long enough for a busy machine: the suite tests decisions, not speed.
const DEADLINE: Duration = Duration::from_secs(5);

const HYBRID: StoreMode = StoreMode::Hybrid { life: StoreOptions::LEASE_LIFE };

/// Stores at an address.
struct At<'a> {
    url: &'a str,
    mode: StoreMode,
    runtime: &'a Runtime,
}

impl Harness for At<'_> {
    type Store = RedisStore<RedisClient, ManualClock>;

    fn store(&self, max_keys: usize) -> Self::Store {
        static MADE: AtomicU32 = AtomicU32::new(0);
        let prefix = format!("t{}", MADE.fetch_add(1, Ordering::Relaxed));
        let _inside = self.runtime.enter();
        let link = RedisClient::connect(RedisClientOptions {
            deadline: DEADLINE,
            ..RedisClientOptions::new(self.url)
        });
        let options = StoreOptions {
            prefix,
            max_remembered: max_keys,
            given_time: true,
            ..StoreOptions::new(self.mode)
        };
        RedisStore::new(link.expect("a good address"), ManualClock::default(), options)
    }

    fn run<F: Future>(&self, future: F) -> F::Output {
        self.runtime.block_on(future)
    }
}

/// Strict and hybrid.
fn conforms(url: &str, runtime: &Runtime) {
    for mode in [StoreMode::Strict, HYBRID] {
        conformance(&At { url, mode, runtime });
    }
}

fn runtime() -> Runtime {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .expect("a runtime can be made")
}

#[test]
fn on_one_server() {
    let runtime = runtime();
    let redis = Redis::start();
    conforms(&redis.url(), &runtime);
}

#[test]
fn on_valkey() {
    let Ok(binary) = std::env::var("TIDEGATE_VALKEY_SERVER") else {
        eprintln!("skipped: name a valkey-server in TIDEGATE_VALKEY_SERVER");
        return;
    };
    let runtime = runtime();
    let valkey = Redis::start_binary(binary);
    assert!(valkey.cli(&["INFO", "server"]).contains("valkey_version:"), "it is a Valkey");
    conforms(&valkey.url(), &runtime);
}

#[test]
fn on_a_cluster_of_six() {
    let runtime = runtime();
    let (masters, _replicas) = runtime.block_on(async {
        let masters = three().await;
        let mut replicas = Vec::new();
        for node in 0..3 {
            replicas.push(replica_of(node, &masters).await);
        }
        (masters, replicas)
    });
    conforms(&url_of(&masters), &runtime);
}

#[test]
fn under_a_sentinel_before_and_after_the_master_is_lost() {
    let runtime = runtime();
    let (mut master, replica, sentinel) = runtime.block_on(async {
        let master = Redis::start();
        let replica = Redis::start_with(&["--replicaof", "127.0.0.1", &master.port.to_string()]);
        let sentinel = watch_over(&master).await;
        until(PATIENCE, "Sentinel and the replica know of each other", async || {
            sentinel.cli(&["SENTINEL", "MASTER", "tide"]).contains("num-slaves\n1")
                && replica.cli(&["INFO", "replication"]).contains("master_link_status:up")
        })
        .await;
        (master, replica, sentinel)
    });
    let url = format!("redis+sentinel://127.0.0.1:{}/tide", sentinel.port);
    conformance(&At { url: &url, mode: HYBRID, runtime: &runtime });

    master.kill();
    runtime.block_on(async {
        let server = connect(&url);
        until(FAILS_OVER_WITHIN, "Sentinel makes the replica the master", async || {
            replica.cli(&["ROLE"]).starts_with("master")
        })
        .await;
        until(MOVES_WITHIN, "the new master is used", async || take(&server, "a").await.is_ok()).await;
    });
    conformance(&At { url: &url, mode: HYBRID, runtime: &runtime });
}
