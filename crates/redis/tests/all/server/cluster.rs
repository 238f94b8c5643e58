//! A Cluster of several masters.

use std::sync::Arc;
use std::time::Duration;

use tidegate::engine::bursts::BurstState;
use tidegate::engine::{Limiter, Policy, Request};
use tidegate::{Carry, Charge, Clock, Cost, Intent, LimitRef, MonotonicClock, Store};
use tidegate_redis::{
    CallVerb, Link, LinkError, RedisClient, RedisClientOptions, RedisStore, ScriptCall, StoreError,
    StoreMode, StoreOptions,
};

use super::access::{IN_A_CLUSTER, PERMISSIONS, permit};
use super::calls::{CAPACITY, bucket, connect, heartbeat, left, take};
use super::process::{Redis, until};

const PATIENCE: Duration = Duration::from_secs(20);

type Shared = Arc<RedisStore<RedisClient, MonotonicClock>>;

const CLUSTER: &[&str] = &[
    "--cluster-enabled",
    "yes",
    "--cluster-node-timeout",
    "1000",
    "--cluster-require-full-coverage",
    "no",
    "--repl-diskless-sync-delay",
    "0",
];

/// Three masters that know each other and share the slots.
pub(crate) async fn three() -> Vec<Redis> {
    let mut nodes = Vec::new();
    for range in [["0", "5460"], ["5461", "10922"], ["10923", "16383"]] {
        let node = Redis::start_with(CLUSTER);
        assert_eq!(node.cli(&["CLUSTER", "ADDSLOTSRANGE", range[0], range[1]]), "OK");
        nodes.push(node);
    }
    for (epoch, node) in nodes.iter().enumerate() {
        // Distinct epochs: otherwise they would first have to resolve a conflict, which takes time.
        node.cli(&["CLUSTER", "SET-CONFIG-EPOCH", &(epoch + 1).to_string()]);
        node.cli(&["CLUSTER", "MEET", "127.0.0.1", &nodes[0].port.to_string()]);
    }
    until(PATIENCE, "every node knows of all slots", async || {
        nodes.iter().all(|node| {
            let info = node.cli(&["CLUSTER", "INFO"]);
            info.contains("cluster_state:ok")
                && info.contains("cluster_slots_assigned:16384")
                && info.contains("cluster_known_nodes:3")
        })
    })
    .await;
    nodes
}

/// A replica of one of [`three`].
pub(crate) async fn replica_of(node: usize, nodes: &[Redis]) -> Redis {
    let master = nodes[node].cli(&["CLUSTER", "MYID"]);
    let replica = Redis::start_with(CLUSTER);
    replica.cli(&["CLUSTER", "MEET", "127.0.0.1", &nodes[0].port.to_string()]);
    until(PATIENCE, "it follows its master", async || {
        replica.cli(&["CLUSTER", "REPLICATE", &master]) == "OK"
    })
    .await;
    until(PATIENCE, "all know that it does", async || {
        let known = |node: &Redis| node.cli(&["CLUSTER", "NODES"]).contains(&format!("slave {master}"));
        replica.cli(&["INFO", "replication"]).contains("master_link_status:up") && nodes.iter().all(known)
    })
    .await;
    replica
}

/// The address of the Cluster.
pub(crate) fn url_of(nodes: &[Redis]) -> String {
    format!("redis+cluster://127.0.0.1:{},127.0.0.1:{}", nodes[0].port, nodes[2].port)
}

fn connect_to(nodes: &[Redis]) -> RedisClient {
    connect(&url_of(nodes))
}

fn keys_of(node: &Redis) -> u64 {
    node.cli(&["DBSIZE"]).parse().expect("a number")
}

#[tokio::test]
async fn keys_are_asked_for_where_they_are() {
    let nodes = three().await;
    let server = connect_to(&nodes);
    assert!(server.has_slots());
    assert_eq!(server.heartbeat(&heartbeat(1, true, 3)).await, Ok(1));
    for tag in 0..60 {
        take(&server, &format!("tag{tag}")).await.expect("some master has it");
    }
    let shares: Vec<u64> = nodes.iter().map(keys_of).collect();
    assert_eq!(shares.iter().sum::<u64>(), 61, "sixty, and the nodes");
    assert!(shares.iter().all(|&share| share >= 5), "{shares:?}");

    let two = ScriptCall { verb: CallVerb::Take, entries: vec![bucket("tag1"), bucket("tag2")], at: None };
    match server.call(&two).await {
        Err(LinkError::Refused(why)) => assert!(why.starts_with("CROSSSLOT"), "{why}"),
        other => panic!("they are in two slots: {other:?}"),
    }
}

#[tokio::test]
async fn a_slot_that_moves_is_followed_and_no_charge_is_made_twice() {
    let nodes = three().await;
    for node in &nodes {
        permit(node, ">s3cret", &format!("{PERMISSIONS} {IN_A_CLUSTER}"));
    }
    let server = connect(&format!("redis+cluster://tidegate:s3cret@127.0.0.1:{}", nodes[1].port));
    // Its slot is 12,182, which the third master owns.
    take(&server, "foo").await.expect("the third has it");
    let (from, to) = (&nodes[2], &nodes[0]);
    let (from_id, to_id) = (from.cli(&["CLUSTER", "MYID"]), to.cli(&["CLUSTER", "MYID"]));

    assert_eq!(to.cli(&["CLUSTER", "SETSLOT", "12182", "IMPORTING", &from_id]), "OK");
    assert_eq!(from.cli(&["CLUSTER", "SETSLOT", "12182", "MIGRATING", &to_id]), "OK");
    let port = to.port.to_string();
    assert_eq!(from.cli(&["MIGRATE", "127.0.0.1", &port, "tidegate:1:{foo}:b", "0", "1000"]), "OK");
    take(&server, "foo").await.expect("the call follows the ASK redirect");
    assert_eq!((keys_of(from), keys_of(to)), (0, 1));
    assert_eq!(left(&server, "foo").await, CAPACITY - 2);

    for node in &nodes {
        assert_eq!(node.cli(&["CLUSTER", "SETSLOT", "12182", "NODE", &to_id]), "OK");
    }
    take(&server, "foo").await.expect("the call follows the MOVED redirect");
    assert_eq!(left(&server, "foo").await, CAPACITY - 3);
}

#[tokio::test]
async fn a_master_that_is_gone_takes_only_its_own_keys_along() {
    let mut nodes = three().await;
    let server = connect_to(&nodes);
    // The slots of `foo` and `bar` are 12,182 and 5,061, which the third and the first master own.
    take(&server, "foo").await.expect("the third is there");
    take(&server, "bar").await.expect("the first is there");

    nodes[2].kill();
    until(PATIENCE, "what it had cannot be had", async || {
        matches!(take(&server, "foo").await, Err(LinkError::Down(_)))
    })
    .await;
    for _ in 0..20 {
        take(&server, "bar").await.expect("the first is still there");
        take(&server, "foo").await.expect_err("the third is not");
    }
    nodes[2].restart();
    until(PATIENCE, "it is used again", async || take(&server, "foo").await.is_ok()).await;
}

/// The master that owns the bucket of a key.
async fn owner_of(nodes: &[Redis], store: &Shared, limit: &LimitRef, key: &[u8]) -> usize {
    let before: Vec<u64> = nodes.iter().map(keys_of).collect();
    assert_eq!(decide(store, limit, key).await, Ok(true));
    let after = nodes.iter().map(keys_of);
    before.iter().zip(after).position(|(&before, after)| after > before).expect("some master has it")
}

async fn decide(store: &Shared, limit: &LimitRef, key: &[u8]) -> Result<bool, StoreError> {
    let charges = [Charge::new(limit, key, Cost::ONE)];
    store.charge(Intent::Take, &charges, store.clock().now()).await.map(|verdict| verdict.allowed)
}

#[tokio::test]
async fn a_store_goes_on_with_the_masters_that_are_left() {
    let mut nodes = three().await;
    let options = StoreOptions::new(StoreMode::Strict);
    let store: Shared = Arc::new(RedisStore::new(connect_to(&nodes), MonotonicClock::new(), options));
    store.first_attempt().await.expect("all are there");
    let maintained = Arc::clone(&store);
    let running = tokio::spawn(async move { maintained.run_maintenance().await });
    let limit = store
        .limit("everybody", bucket("a").limit, Carry::AsIs, store.clock().now())
        .expect("it can be named");
    let mut keys: [Vec<Vec<u8>>; 3] = Default::default();
    for n in 0..60_u32 {
        let key = n.to_string().into_bytes();
        let owner = owner_of(&nodes, &store, &limit, &key).await;
        keys[owner].push(key);
    }
    assert!(keys.iter().all(|some| some.len() >= 5), "{keys:?}");
    // Any master, also the one with the list of nodes.
    for dead in 0..3 {
        nodes[dead].kill();
        let begun = tokio::time::Instant::now();
        let (mut asked, mut failed) = (0, 0);
        while begun.elapsed() < Duration::from_secs(3) {
            let settled = begun.elapsed() > Duration::from_secs(1);
            for (owner, keys) in keys.iter().enumerate() {
                let key = &keys[asked % keys.len()];
                let decided = decide(&store, &limit, key).await;
                if owner != dead && settled {
                    failed += usize::from(decided != Ok(true));
                } else if owner == dead {
                    assert!(decided.is_err(), "it is dead");
                    // Most calls fail now.
                    for _ in 0..6 {
                        decide(&store, &limit, key).await.expect_err("it is dead");
                    }
                }
            }
            asked += 1;
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        assert_eq!(failed, 0, "of {asked} rounds, with {dead} dead");
        assert!(!store.health().up, "a part of it is not");
        nodes[dead].restart();
        until(PATIENCE, "it is used again", async || {
            decide(&store, &limit, &keys[dead][0]).await == Ok(true)
        })
        .await;
        until(PATIENCE, "all is well", async || store.health().up).await;
    }
    running.abort();
}

#[tokio::test]
async fn a_replica_that_takes_over_is_found() {
    let mut nodes = three().await;
    let replica = replica_of(2, &nodes).await;
    let server = connect_to(&nodes);
    take(&server, "foo").await.expect("the third is there");
    until(PATIENCE, "it has what the third has", async || keys_of(&replica) == 1).await;

    nodes[2].kill();
    until(PATIENCE, "it is used", async || take(&server, "foo").await.is_ok()).await;
    assert!(replica.cli(&["ROLE"]).starts_with("master"));
    assert_eq!(
        left(&server, "foo").await,
        CAPACITY - 2,
        "what was there is there, and the call was made once"
    );
}

#[tokio::test]
async fn one_that_is_no_cluster_says_so() {
    let redis = Redis::start();
    let server = connect(&format!("redis+cluster://127.0.0.1:{}", redis.port));
    match server.heartbeat(&heartbeat(1, true, 3)).await {
        Err(LinkError::Down(why)) => assert!(why.contains("cluster support disabled"), "{why}"),
        other => panic!("it is none: {other:?}"),
    }
}

#[tokio::test]
async fn detectors_count_in_slots_of_their_own_and_every_node_lists_their_penalties() {
    let nodes = three().await;
    let policy = "version: 1
limits: [{ name: all, key: [], sustained: { rate: 1000 } }, { name: each, key: [user], sustained: { rate: 1000 } }]
bursts:
- { name: by-user, key: [user], window: 1000h, threshold: 5, penalty: 1h }
- { name: by-address, key: [ip], window: 1000h, threshold: 1000, penalty: 1h }
";
    let node = || {
        let client = RedisClientOptions { deadline: PATIENCE, ..RedisClientOptions::new(url_of(&nodes)) };
        let (store, maintenance) =
            RedisStore::connect(client, StoreOptions::new(StoreMode::Strict)).expect("a good address");
        let (clock, policy) = (store.clock().clone(), Policy::parse(policy).expect("it is valid"));
        (Limiter::with_store(policy, store, clock).expect("the limits fit"), maintenance)
    };
    let fleet = [node(), node()];
    for (limiter, _) in &fleet {
        limiter.store().first_attempt().await.expect("the Cluster answers");
    }
    for user in 0..20 {
        let mut told = Vec::new();
        for nth in 0..6 {
            let request = Request::new().user(user.to_string()).ip([10, 0, 0, user]);
            let decision = fleet[nth % 2].0.check_async(&request).await;
            assert!(decision.is_allowed() && !decision.without_store(), "{decision:?}");
            told.extend(decision.burst().map(|(state, name)| (nth, state, name.to_owned())));
        }
        assert_eq!(told, [(5, BurstState::WarningIssued, "by-user".to_owned())], "user {user}");
    }
    // The second node was told of all; then the first finds them on the Cluster.
    for (limiter, _) in fleet.iter().rev() {
        let page = limiter.burst_penalties(None, 15).await;
        let rest = limiter.burst_penalties(page.next, 15).await;
        assert_eq!((page.penalties.len(), rest.penalties.len(), rest.next), (15, 5, None));
    }
    let masters = nodes.iter().filter(|node| node.cli(&["KEYS", "*:d*"]).contains(":d"));
    assert_eq!(masters.count(), 3, "their states are on all masters");
}
