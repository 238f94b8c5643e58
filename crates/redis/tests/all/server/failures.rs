//! Failures of a server, and recovery from them.

use std::time::Duration;

use rustix::process::Signal;
use tidegate_redis::{Link, LinkError};

use super::calls::{CAPACITY, connect, connect_within, heartbeat, left, take};
use super::process::{Redis, free_port, signal, until};

/// Longer than it takes to find a server that is back, also on a busy machine.
const PATIENCE: Duration = Duration::from_secs(15);

/// Of the calls to a server that is stopped.
const DEADLINE: Duration = Duration::from_millis(50);

/// How much later than its deadline a usual call may fail on a machine that is busy with tests; single ones take longer.
const GRACE: Duration = Duration::from_millis(450);

#[tokio::test]
async fn one_that_was_killed_is_used_again_when_it_is_back() {
    let mut redis = Redis::start();
    let server = connect(&redis.url());
    take(&server, "a").await.expect("it is there");

    redis.kill();
    until(PATIENCE, "calls fail for want of a connection", async || {
        matches!(take(&server, "a").await, Err(LinkError::Down(_)))
    })
    .await;
    let begun = tokio::time::Instant::now();
    for _ in 0..100 {
        assert!(matches!(take(&server, "a").await, Err(LinkError::Down(_))));
    }
    assert!(begun.elapsed() < PATIENCE, "none waits for its deadline, which is five seconds");

    tokio::time::sleep(Duration::from_secs(1)).await;
    redis.restart();
    until(PATIENCE, "it is used again", async || take(&server, "a").await.is_ok()).await;
    assert_eq!(left(&server, "a").await, CAPACITY - 1, "it came back empty, and the call was made once");
}

#[tokio::test]
async fn one_that_is_not_there_yet_is_found_when_it_comes() {
    let port = free_port();
    let server = connect(&format!("redis://127.0.0.1:{port}"));
    match server.heartbeat(&heartbeat(1, true, 3)).await {
        Err(LinkError::Down(why)) => assert!(why.contains(&format!("127.0.0.1:{port}: ")), "{why}"),
        other => panic!("there is nobody: {other:?}"),
    }
    let _redis = Redis::start_on(port, &[]);
    until(PATIENCE, "it is found", async || take(&server, "a").await.is_ok()).await;
}

#[tokio::test]
async fn the_first_beat_waits_for_the_connection_and_fails_with_it() {
    let redis = Redis::start();
    let server = connect(&redis.url());
    assert_eq!(server.heartbeat(&heartbeat(1, true, 60)).await, Ok(1));
    assert_eq!(server.heartbeat(&heartbeat(2, true, 60)).await, Ok(2));
    assert_eq!(server.heartbeat(&heartbeat(1, false, 60)).await, Ok(1));
}

#[tokio::test]
async fn one_that_is_stopped_keeps_nobody_waiting() {
    let redis = Redis::start();
    let server = connect_within(&redis.url(), DEADLINE);
    until(PATIENCE, "it is there", async || take(&server, "a").await.is_ok()).await;
    let before = left(&connect(&redis.url()), "a").await;

    signal(&redis, Signal::STOP);
    let begun = tokio::time::Instant::now();
    let mut waits = Vec::new();
    while begun.elapsed() < Duration::from_secs(2) {
        let asked = tokio::time::Instant::now();
        match take(&server, "a").await {
            Err(LinkError::Down(_)) => tokio::time::sleep(Duration::from_millis(5)).await,
            Err(LinkError::Timeout(_) | LinkError::Lost(_)) => waits.push(asked.elapsed()),
            other => panic!("it is stopped: {other:?}"),
        }
    }
    let mut sent = u32::try_from(waits.len()).expect("few");
    assert!((1..100).contains(&sent), "a peer that does not answer is given up: {sent}");
    waits.sort();
    assert!(waits[waits.len() / 2] < DEADLINE + GRACE, "{waits:?}");

    signal(&redis, Signal::CONT);
    until(PATIENCE, "it is used again", async || {
        let answer = take(&server, "a").await;
        sent += u32::from(!matches!(answer, Err(LinkError::Down(_))));
        answer.is_ok()
    })
    .await;
    let used = before - left(&connect(&redis.url()), "a").await;
    assert!(used <= sent, "{used} taken by {sent} calls: some were sent twice");
}

#[tokio::test]
async fn an_idle_connection_to_a_stopped_server_is_given_up() {
    let redis = Redis::start();
    let server = connect_within(&redis.url(), DEADLINE);
    until(PATIENCE, "it is there", async || take(&server, "a").await.is_ok()).await;
    signal(&redis, Signal::STOP);
    tokio::time::sleep(Duration::from_secs(3)).await;
    let calls = take(&server, "a").await;
    signal(&redis, Signal::CONT);
    assert!(matches!(calls, Err(LinkError::Down(_))), "noticed by PING, without calls: {calls:?}");
}

#[tokio::test]
async fn scripts_that_were_forgotten_are_sent_again() {
    let redis = Redis::start();
    let server = connect(&redis.url());
    for round in 1..=5 {
        assert_eq!(redis.cli(&["SCRIPT", "FLUSH"]), "OK");
        take(&server, "a").await.expect("the script is sent along");
        assert_eq!(left(&server, "a").await, CAPACITY - round);
    }
}

#[tokio::test]
async fn one_that_is_full_refuses_and_says_why() {
    let redis = Redis::start_with(&["--maxmemory-policy", "noeviction"]);
    redis.cli(&["SETRANGE", "filler", "3000000", "x"]);
    redis.cli(&["CONFIG", "SET", "maxmemory", "1mb"]);
    let server = connect(&redis.url());
    match take(&server, "a").await {
        Err(LinkError::Refused(why)) => assert!(why.starts_with("OOM "), "{why}"),
        other => panic!("there is no room: {other:?}"),
    }
    redis.cli(&["CONFIG", "SET", "maxmemory", "0"]);
    take(&server, "a").await.expect("there is room now");
}

#[tokio::test]
async fn a_replica_refuses_and_the_master_is_looked_for_again() {
    let redis = Redis::start();
    let server = connect(&redis.url());
    take(&server, "a").await.expect("it is the master");
    redis.cli(&["REPLICAOF", "127.0.0.1", &free_port().to_string()]);
    redis.cli(&["CONFIG", "SET", "replica-serve-stale-data", "yes"]);
    match take(&server, "a").await {
        Err(LinkError::Refused(why)) => assert!(why.starts_with("READONLY "), "{why}"),
        other => panic!("it is a replica: {other:?}"),
    }
    redis.cli(&["REPLICAOF", "NO", "ONE"]);
    until(PATIENCE, "it is the master again", async || take(&server, "a").await.is_ok()).await;
}
