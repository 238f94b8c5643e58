//! Requests that wait in a limit's wait queue.

use super::*;

const ONE_PLACE: &str = "version: 1\nlimits:\n- { name: q, key: [], sustained: { rate: 1, window: 1s }, \
                         strategy: queue, queue: { max_depth: 1, max_wait: 60s } }\n";

#[tokio::test(start_paused = true)]
async fn a_client_that_goes_away_frees_its_place() {
    let node = node(ONE_PLACE, Settings::default());
    let mut first = Client::connect(&node, LOCAL);
    first.post("/v1/check", "", "{}").await;
    assert!(first.answer().await.0.starts_with("HTTP/1.1 200"));
    first.post("/v1/check", "", "{}").await;
    settle().await;

    let mut second = Client::connect(&node, LOCAL);
    second.post("/v1/check", "", "{}").await;
    let (head, body) = second.answer().await;
    assert!(head.starts_with("HTTP/1.1 503"), "{head}");
    assert!(head.contains("cache-control: no-store") && head.contains("retry-after: "), "{head}");
    assert!(body.contains("\"reason\":\"queue_full\""), "{body}");

    drop(first);
    settle().await;
    // The engine's clock is the real one.
    tokio::time::resume();
    second.post("/v1/check", "", "{}").await;
    let (head, body) = second.answer().await;
    assert!(head.starts_with("HTTP/1.1 200"), "{head}{body}");
    assert!(body.contains("\"queued_ms\":"), "{body}");
}

#[tokio::test(start_paused = true)]
async fn who_would_wait_too_long_is_told_at_once() {
    let impatient = ONE_PLACE.replace("max_wait: 60s", "max_wait: 100ms");
    let node = node(&impatient, Settings::default());
    let mut client = Client::connect(&node, LOCAL);
    client.post("/v1/check", "", "{}").await;
    client.answer().await;
    let started = tokio::time::Instant::now();
    client.post("/v1/check", "", "{}").await;
    let (head, body) = client.answer().await;
    assert!(head.starts_with("HTTP/1.1 503") && body.contains("\"reason\":\"queue_timeout\""), "{body}");
    assert!(started.elapsed() < Duration::from_secs(1));
    client.post("/v1/check/batch", "", "{\"requests\":[{}]}").await;
    let (head, body) = client.answer().await;
    assert!(head.starts_with("HTTP/1.1 200") && body.contains("token_bucket_exceeded"), "no waiting: {body}");
}
