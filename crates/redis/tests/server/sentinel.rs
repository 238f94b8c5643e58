//! A master that others watch over, and replace.

use std::time::Duration;

use tidegate_core::Nanos;
use tidegate_redis::{Link, LinkError};

use crate::calls::{connect, take};
use crate::process::{Redis, free_port, until};

const PATIENCE: Duration = Duration::from_secs(10);

/// A Sentinel that calls the master `tide`, and replaces it soon.
pub(crate) async fn watch_over(master: &Redis) -> Redis {
    Redis::start_sentinel(&format!(
        "sentinel monitor tide 127.0.0.1 {} 1\nsentinel down-after-milliseconds tide 300\n\
         sentinel failover-timeout tide 2000",
        master.port
    ))
    .await
}

#[tokio::test]
async fn whoever_becomes_the_master_is_found() {
    let mut master = Redis::start().await;
    let replica = Redis::start_with(&["--replicaof", "127.0.0.1", &master.port.to_string()]).await;
    let sentinel = watch_over(&master).await;
    let nobody = free_port();
    let server = connect(&format!("redis+sentinel://127.0.0.1:{nobody},127.0.0.1:{}/tide", sentinel.port));
    assert_eq!(server.beat(1, true, Nanos::from_secs(60)).await, Ok(1));
    until(PATIENCE, "Sentinel and the replica know of each other", async || {
        take(&server, "a").await.expect("the master answers");
        sentinel.cli(&["SENTINEL", "MASTER", "tide"]).contains("num-slaves\n1")
            && replica.cli(&["EXISTS", "tidegate:1:{a}:b"]) == "1"
    })
    .await;

    master.kill();
    until(PATIENCE, "the replica is the master, and used", async || take(&server, "a").await.is_ok()).await;
    assert!(replica.cli(&["ROLE"]).starts_with("master"));
    assert_eq!(server.beat(2, true, Nanos::from_secs(60)).await, Ok(2), "what was there is there");
}

#[tokio::test]
async fn a_master_that_nobody_knows_is_named() {
    let master = Redis::start().await;
    let sentinel = watch_over(&master).await;
    let server = connect(&format!("redis+sentinel://127.0.0.1:{}/ebb", sentinel.port));
    match server.beat(1, true, Nanos::from_secs(3)).await {
        Err(LinkError::Down(why)) => assert!(why.contains("it knows no master named \"ebb\""), "{why}"),
        other => panic!("there is no such master: {other:?}"),
    }
}

#[tokio::test]
async fn a_sentinel_may_want_the_password_and_has_no_databases() {
    let master = Redis::start_with(&["--requirepass", "s3cret"]).await;
    let sentinel = Redis::start_sentinel(&format!(
        "requirepass s3cret\nsentinel monitor tide 127.0.0.1 {} 1\nsentinel auth-pass tide s3cret",
        master.port
    ))
    .await;
    let server = connect(&format!("redis+sentinel://:s3cret@127.0.0.1:{}/tide/3", sentinel.port));
    assert_eq!(server.beat(1, true, Nanos::from_secs(60)).await, Ok(1));
    take(&server, "a").await.expect("it was let in");
    assert_eq!(master.cli(&["-a", "s3cret", "-n", "3", "EXISTS", "tidegate:1:{a}:b"]), "1");
}
