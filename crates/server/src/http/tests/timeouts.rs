//! Slow clients, idle clients, and the shutdown of the server.

use std::time::Duration;

use super::*;
use crate::bounds::{BODY_TIMEOUT, DRAIN_TIMEOUT, HEAD_TIMEOUT, IDLE_TIMEOUT};
use crate::node::lifecycle::Phase;

const FREE: &str = "version: 1\nlimits: []\n";

fn about(found: Duration, expected: Duration) -> bool {
    found.abs_diff(expected) < Duration::from_millis(100)
}

#[tokio::test(start_paused = true)]
async fn a_head_that_does_not_end_is_not_waited_for() {
    let node = node(FREE, Settings::default());
    let mut client = Client::connect(&node, LOCAL);
    client.send("POST /v1/check HTTP/1.1\r\nHo").await;
    assert!(about(client.closed_after().await, HEAD_TIMEOUT));
}

#[tokio::test(start_paused = true)]
async fn a_drip_does_not_buy_time() {
    let node = node(FREE, Settings::default());
    let mut client = Client::connect(&node, LOCAL);
    client.send("POST /v1/check HTTP/1.1\r\n").await;
    for _ in 0..4 {
        tokio::time::sleep(Duration::from_secs(1)).await;
        client.send("x: y\r\n").await;
    }
    assert!(about(client.closed_after().await, HEAD_TIMEOUT - Duration::from_secs(4)));
}

#[tokio::test(start_paused = true)]
async fn the_second_head_is_timed_from_its_first_byte() {
    let node = node(FREE, Settings::default());
    let mut client = Client::connect(&node, LOCAL);
    client.post("/v1/check", "", "{}").await;
    assert!(client.answer().await.0.starts_with("HTTP/1.1 200"));
    tokio::time::sleep(3 * HEAD_TIMEOUT).await;
    client.send("POST").await;
    assert!(about(client.closed_after().await, HEAD_TIMEOUT));
}

#[tokio::test(start_paused = true)]
async fn silence_is_borne_for_a_while() {
    let node = node(FREE, Settings::default());
    let mut client = Client::connect(&node, LOCAL);
    for _ in 0..3 {
        client.post("/v1/check", "", "{}").await;
        assert!(client.answer().await.0.starts_with("HTTP/1.1 200"));
        tokio::time::sleep(IDLE_TIMEOUT / 2).await;
    }
    let closed = IDLE_TIMEOUT / 2 + client.closed_after().await;
    assert!(closed >= IDLE_TIMEOUT && closed <= IDLE_TIMEOUT * 5 / 4 + Duration::from_secs(1), "{closed:?}");
}

#[tokio::test(start_paused = true)]
async fn a_body_that_does_not_come_is_a_408() {
    let node = node(FREE, Settings::default());
    let mut client = Client::connect(&node, LOCAL);
    client.send("POST /v1/check HTTP/1.1\r\nHost: localhost\r\nContent-Length: 20\r\n\r\n{").await;
    let started = tokio::time::Instant::now();
    let (head, body) = client.answer().await;
    assert!(about(started.elapsed(), BODY_TIMEOUT));
    assert!(head.starts_with("HTTP/1.1 408") && head.contains("connection: close"), "{head}");
    assert!(body.contains("did not arrive within 5 seconds"), "{body}");
    assert!(client.closed_after().await < Duration::from_secs(1));
}

#[tokio::test(start_paused = true)]
async fn an_idle_http2_connection_is_closed_too() {
    let node = node(FREE, Settings::default());
    let mut client = Client::connect(&node, LOCAL);
    client.send("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").await;
    let started = tokio::time::Instant::now();
    let mut rest = Vec::new();
    client.0.read_to_end(&mut rest).await.expect("it is closed");
    assert!(started.elapsed() <= IDLE_TIMEOUT * 5 / 4 + HEAD_TIMEOUT + Duration::from_secs(1));
}

#[tokio::test(start_paused = true)]
async fn at_the_end_idle_connections_are_closed_at_once() {
    let node = node(FREE, Settings::default());
    let mut client = Client::connect(&node, LOCAL);
    client.post("/v1/check", "", "{}").await;
    assert!(client.answer().await.0.starts_with("HTTP/1.1 200"));
    node.lifecycle().enter(Phase::Draining);
    node.lifecycle().close();
    assert!(about(client.closed_after().await, Duration::ZERO));
}

#[tokio::test(start_paused = true)]
async fn at_the_end_what_is_under_way_is_answered() {
    let queue = "version: 1\nlimits:\n- { name: q, key: [], sustained: { rate: 1 }, \
                 strategy: queue, queue: { max_depth: 5, max_wait: 5s } }\n";
    let node = node(queue, Settings::default());
    let mut client = Client::connect(&node, LOCAL);
    client.post("/v1/check", "", "{}").await;
    assert!(client.answer().await.0.starts_with("HTTP/1.1 200"));
    client.post("/v1/check", "", "{}").await;
    settle().await;
    // The engine's clock is the real one.
    tokio::time::resume();
    node.lifecycle().enter(Phase::Draining);
    node.lifecycle().close();
    let (head, body) = client.answer().await;
    assert!(head.starts_with("HTTP/1.1 200") && head.contains("connection: close"), "{head}");
    assert!(body.contains("\"queued_ms\":"), "{body}");
    assert!(client.closed_after().await < DRAIN_TIMEOUT / 10);
}

#[tokio::test(start_paused = true)]
async fn unfinished_bodies_take_no_more_than_there_is() {
    let mut node = node(FREE, Settings::default());
    Arc::get_mut(&mut node).unwrap().set_body_budget(crate::bounds::budget::ByteBudget::of(64 * 1_024));
    let unfinished = format!(
        "POST /v1/check/batch HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000\r\n\r\n{{{}",
        " ".repeat(10_000)
    );
    let mut waiting = Vec::new();
    let refused = loop {
        assert!(waiting.len() < 10, "unfinished bodies exceed their budget");
        let mut client = Client::connect(&node, LOCAL);
        client.send(&unfinished).await;
        settle().await;
        let answered = tokio::time::timeout(Duration::from_millis(1), client.answer()).await;
        waiting.push(client);
        if let Ok(answer) = answered {
            break answer;
        }
    };
    let (head, body) = refused;
    assert!(waiting.len() > 1 && head.starts_with("HTTP/1.1 503"), "{head}");
    for line in ["retry-after: 1", "cache-control: no-store", "connection: close"] {
        assert!(head.contains(line), "{head}");
    }
    assert!(body.contains("send the request again in a moment"), "{body}");
    let mut small = Client::connect(&node, LOCAL);
    small.post("/v1/check", "", "{}").await;
    assert!(small.answer().await.0.starts_with("HTTP/1.1 200"), "a body in one piece is still answered");
    drop(waiting);
    settle().await;
    let mut next = Client::connect(&node, LOCAL);
    next.send(&unfinished).await;
    assert!(next.answer().await.0.starts_with("HTTP/1.1 408"), "the budget is free again");
}
