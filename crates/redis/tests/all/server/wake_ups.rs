//! Nodes that wake each other by a channel of the server.

use std::time::Duration;

use tidegate_redis::{RedisClientOptions, WakeTopic, WakeUps};

use super::access::{IN_A_CLUSTER, PERMISSIONS, WAKE_UPS, permit};
use super::cluster::{three, url_of};
use super::process::{Redis, until};
use super::sentinel::watch_over;

const PATIENCE: Duration = Duration::from_secs(20);

fn listen(url: &str) -> WakeUps {
    WakeUps::connect(&RedisClientOptions::new(url), "tidegate").expect("a good address")
}

async fn is_woken(node: &WakeUps) -> bool {
    tokio::time::timeout(PATIENCE, node.woken(WakeTopic::Policy)).await.is_ok()
}

/// Two nodes that are subscribed, and have looked once.
async fn two_nodes(url: &str) -> (WakeUps, WakeUps) {
    let (one, other) = (listen(url), listen(url));
    assert!(is_woken(&one).await, "whoever connects looks: {:?}", one.problem());
    assert!(is_woken(&other).await, "whoever connects looks: {:?}", other.problem());
    assert_eq!((one.problem(), other.problem()), (None, None));
    (one, other)
}

async fn wake_each_other(one: &WakeUps, other: &WakeUps) {
    for (by, woken) in [(one, other), (other, one)] {
        assert!(by.wake(WakeTopic::Policy).await, "the server has the message: {:?}", by.problem());
        assert!(is_woken(woken).await, "the other node is woken");
        assert!(is_woken(by).await, "and so is the node itself");
    }
}

fn guarded(permissions: &str) -> (Redis, String) {
    let redis = Redis::start();
    permit(&redis, ">s3cret", permissions);
    assert_eq!(redis.cli(&["ACL", "SETUSER", "default", "off"]), "OK");
    let url = format!("redis://tidegate:s3cret@127.0.0.1:{}", redis.port);
    (redis, url)
}

#[tokio::test]
async fn a_message_wakes_every_node_with_the_permissions_that_are_documented() {
    let (_redis, url) = guarded(&format!("{PERMISSIONS} {WAKE_UPS}"));
    let (one, other) = two_nodes(&url).await;
    wake_each_other(&one, &other).await;
}

#[tokio::test]
async fn a_message_wakes_those_who_wait_for_its_topic() {
    let redis = Redis::start();
    let (one, other) = two_nodes(&format!("redis://127.0.0.1:{}", redis.port)).await;
    let topics = [WakeTopic::Policy, WakeTopic::Live, WakeTopic::Trust];
    let woken = async |topic, wait| tokio::time::timeout(wait, other.woken(topic)).await.is_ok();
    for topic in [WakeTopic::Live, WakeTopic::Trust] {
        assert!(woken(topic, PATIENCE).await, "whoever connects looks");
    }
    for told in topics {
        assert!(one.wake(told).await);
        assert!(woken(told, PATIENCE).await, "{told:?}");
        for topic in topics {
            assert!(!woken(topic, Duration::ZERO).await, "{told:?} is not {topic:?}");
        }
    }
}

#[tokio::test]
async fn without_permission_it_says_so_and_nothing_is_woken() {
    let (_redis, url) = guarded(PERMISSIONS);
    let node = listen(&url);
    until(PATIENCE, "it says why", async || node.problem().is_some_and(|why| why.contains("permissions")))
        .await;
    assert!(!node.wake(WakeTopic::Policy).await);
    assert!(!format!("{:?} {node:?}", node.problem()).contains("s3cret"));
}

#[tokio::test]
async fn messages_of_others_on_the_channel_wake_nobody() {
    let redis = Redis::start();
    let url = format!("redis://127.0.0.1:{}", redis.port);
    let (one, other) = two_nodes(&url).await;
    for message in ["", "poli", "policy policy", "kill"] {
        assert_eq!(redis.cli(&["PUBLISH", "tidegate:1:wake", message]), "2");
    }
    assert_eq!(redis.cli(&["PUBLISH", "other:1:wake", "policy"]), "0");
    // What was published before has arrived when this has, and it woke nobody: one message is left.
    wake_each_other(&one, &other).await;
    let again = tokio::time::timeout(Duration::ZERO, other.woken(WakeTopic::Policy)).await;
    assert!(again.is_err(), "nothing else woke it");
}

#[tokio::test]
async fn many_messages_are_one_wake_up() {
    let redis = Redis::start();
    let (one, other) = two_nodes(&format!("redis://127.0.0.1:{}", redis.port)).await;
    for _ in 0..1_000 {
        assert!(one.wake(WakeTopic::Policy).await);
    }
    // The node's own messages come before the answers, so they are all here.
    assert!(is_woken(&one).await && is_woken(&other).await);
    let again = tokio::time::timeout(Duration::ZERO, one.woken(WakeTopic::Policy)).await;
    assert!(again.is_err(), "nothing waits any more");
}

#[tokio::test]
async fn it_reconnects_and_looks_after_the_server_was_away() {
    let mut redis = Redis::start();
    let (one, other) = two_nodes(&format!("redis://127.0.0.1:{}", redis.port)).await;
    redis.kill();
    until(PATIENCE, "they notice", async || one.problem().is_some() && other.problem().is_some()).await;
    assert!(!one.wake(WakeTopic::Policy).await);
    redis.restart();
    assert!(is_woken(&one).await && is_woken(&other).await, "what was published meanwhile is looked for");
    wake_each_other(&one, &other).await;
}

#[tokio::test]
async fn nodes_of_a_cluster_pass_messages_on() {
    let mut nodes = three().await;
    nodes
        .iter()
        .for_each(|node| permit(node, ">s3cret", &format!("{PERMISSIONS} {WAKE_UPS} {IN_A_CLUSTER}")));
    let login = |url: String| url.replace("://", "://tidegate:s3cret@");
    let one = listen(&login(format!("redis+cluster://127.0.0.1:{}", nodes[0].port)));
    let other = listen(&login(format!("redis+cluster://127.0.0.1:{}", nodes[2].port)));
    let either = listen(&login(url_of(&nodes)));
    assert!(is_woken(&one).await && is_woken(&other).await && is_woken(&either).await);
    wake_each_other(&one, &other).await;
    assert!(is_woken(&either).await);
    nodes[0].kill();
    assert!(is_woken(&either).await, "it goes to another node");
    until(PATIENCE, "it is woken there", async || {
        other.wake(WakeTopic::Policy).await;
        tokio::time::timeout(Duration::from_millis(200), either.woken(WakeTopic::Policy)).await.is_ok()
    })
    .await;
}

#[tokio::test]
async fn messages_go_by_the_master_that_sentinels_name() {
    let mut master = Redis::start();
    let replica = Redis::start_with(&["--replicaof", "127.0.0.1", &master.port.to_string()]);
    let sentinel = watch_over(&master).await;
    let (one, other) = two_nodes(&format!("redis+sentinel://127.0.0.1:{}/tide", sentinel.port)).await;
    wake_each_other(&one, &other).await;
    until(PATIENCE, "Sentinel knows of the replica", async || {
        sentinel.cli(&["SENTINEL", "MASTER", "tide"]).contains("num-slaves\n1")
            && replica.cli(&["INFO", "replication"]).contains("master_link_status:up")
    })
    .await;
    master.kill();
    assert!(is_woken(&one).await && is_woken(&other).await, "both look when they are at the new master");
    wake_each_other(&one, &other).await;
}
