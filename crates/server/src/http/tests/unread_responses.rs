//! Responses that a client does not read.

use bytes::Bytes;
use tidegate::engine::Reason;

use super::*;
use crate::bounds::{
    BACKLOG_PER_CONNECTION_BYTES_MAX, BATCH_MAX, CLIENT_READ_TIMEOUT, RESPONSES_AT_ONCE_BYTES, STREAMS_MAX,
};

/// A policy whose decisions have some kilobytes.
fn many_limits() -> String {
    let limit =
        |n| format!("- {{ name: a-limit-with-a-long-name-{n}, key: [], sustained: {{ rate: 100000 }} }}\n");
    format!("version: 1\nlimits:\n{}", (0..30).map(limit).collect::<String>())
}

/// The least bytes of such a decision.
const DECISION_BYTES: usize = 3_000;

fn batch(count: usize) -> String {
    format!("{{\"requests\":[{}]}}", vec!["{}"; count].join(","))
}

/// A connection that buffers at most `capacity` bytes each way.
fn narrow(node: &Arc<Node>, capacity: usize) -> Client {
    let (client, server) = tokio::io::duplex(capacity);
    tokio::spawn(super::super::serve(Arc::clone(node), server, LOCAL));
    Client(client)
}

fn decided(node: &Node) -> usize {
    usize::try_from(node.limiter().decided(Reason::Ok)).expect("few")
}

#[tokio::test(start_paused = true)]
async fn a_large_batch_is_whole_and_in_order() {
    let policy = "version: 1\nlimits: [{ name: all, key: [], sustained: { rate: 1, window: day }, burst: { capacity: 600 } }]\n";
    let mut client = Client::connect(&node(policy, Settings::default()), LOCAL);
    for (count, left) in [(5, 595), (BATCH_MAX, 0), (3, 0)] {
        client.post("/v1/check/batch", "", &batch(count)).await;
        let (head, body) = client.answer().await;
        assert_eq!(head.contains("transfer-encoding: chunked"), count == BATCH_MAX, "{head}");
        assert_eq!(head.matches("\r\ndate: ").count(), 1, "{head}");
        let body: serde_json::Value = serde_json::from_str(&body).expect("JSON");
        let decisions = body["decisions"].as_array().expect("a list");
        assert_eq!((decisions.len(), &decisions[count - 1]["remaining"]), (count, &left.into()));
        let remaining = decisions.iter().map(|decision| decision["remaining"].as_u64().expect("a number"));
        assert!(remaining.is_sorted_by(|one, next| *one == *next + 1 || *next == 0));
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_not_taken_of_a_batch_is_not_decided() {
    let node = node(&many_limits(), Settings::default());
    let mut client = narrow(&node, 4_096);
    client.post("/v1/check/batch", "", &batch(BATCH_MAX)).await;
    settle().await;
    let most = 4 * RESPONSES_AT_ONCE_BYTES / DECISION_BYTES;
    assert!((1..most).contains(&decided(&node)), "{} decisions", decided(&node));
    drop(client);
    settle().await;
    assert!(decided(&node) < most, "nothing is decided after the disconnect");
    let room = node.backlog_budget().account(LOCAL.address, true).share().grow_to(24 << 20);
    assert!(
        room && node.body_budget().account(LOCAL.address, true).share().grow_to(48 << 20),
        "all is given back"
    );
}

#[tokio::test(start_paused = true)]
async fn a_pipeline_is_answered_no_further_than_it_is_taken() {
    let ask = "POST /v1/check HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\n{}";
    let by_hyper = ask.replace("\r\nHost", "\r\nTE: x\r\nHost");
    let without_body = "GET /v1/forward-auth HTTP/1.1\r\nHost: localhost\r\n\r\n";
    for (one, bytes) in [(ask, DECISION_BYTES), (&by_hyper, DECISION_BYTES), (without_body, 100)] {
        let node = node(&many_limits(), Settings::default());
        let mut client = narrow(&node, 4_096);
        let all = one.repeat(100_000);
        let sent = tokio::time::timeout(Duration::from_secs(1), client.send(&all)).await;
        assert!(sent.is_err(), "it is not read for ever: {one}");
        let most = 2 * BACKLOG_PER_CONNECTION_BYTES_MAX / bytes;
        assert!(decided(&node) < most, "{} decisions: {one}", decided(&node));
    }
}

#[tokio::test(start_paused = true)]
async fn a_pipeline_that_is_taken_late_is_answered_whole() {
    let node = node(&many_limits(), Settings::default());
    let (mut reader, mut writer) = tokio::io::split(narrow(&node, 1_024).0);
    let ask = "POST /v1/check HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\n{}";
    let last = ask.replace("\r\nHost", "\r\nConnection: close\r\nHost");
    let writing = tokio::spawn(async move { writer.write_all((ask.repeat(500) + &last).as_bytes()).await });
    tokio::time::sleep(Duration::from_secs(1)).await;
    let mut said = String::new();
    reader.read_to_string(&mut said).await.expect("text");
    writing.await.expect("no panic").expect("it was read");
    assert_eq!(said.matches("HTTP/1.1 200 OK").count(), 501);
    assert_eq!(decided(&node), 501);
}

/// As many HTTP/2 streams as allowed, each with a batch, on a connection whose flow-control window is 0.
async fn shut_streams(
    node: &Arc<Node>,
) -> (h2::client::SendRequest<Bytes>, Vec<h2::client::ResponseFuture>, tokio::task::JoinHandle<()>) {
    let (client, server) = tokio::io::duplex(1 << 20);
    let serving = tokio::spawn(super::super::serve(Arc::clone(node), server, LOCAL));
    let handshake = h2::client::Builder::new().initial_window_size(0).handshake::<_, Bytes>(client);
    let (mut send, connection) = handshake.await.expect("it speaks HTTP/2");
    tokio::spawn(connection);
    let mut asked = Vec::new();
    for _ in 0..STREAMS_MAX {
        send = send.ready().await.expect("there are streams left");
        let request = http::Request::post("http://localhost/v1/check/batch").body(()).expect("a request");
        let (response, mut body) = send.send_request(request, false).expect("it is open");
        body.send_data(Bytes::from(batch(BATCH_MAX)), true).expect("it is open");
        asked.push(response);
        settle().await;
    }
    (send, asked, serving)
}

#[tokio::test(start_paused = true)]
async fn streams_that_are_not_let_on_hold_little_and_not_for_long() {
    let node = node(&many_limits(), Settings::default());
    let started = tokio::time::Instant::now();
    let (send, _asked, serving) = shut_streams(&node).await;
    let most = 2 * BACKLOG_PER_CONNECTION_BYTES_MAX / DECISION_BYTES;
    assert!((1..most).contains(&decided(&node)), "{} decisions", decided(&node));
    let mut send = send;
    // The client stays active meanwhile.
    let busy = async {
        loop {
            tokio::time::sleep(Duration::from_secs(1)).await;
            let Ok(ready) = send.clone().ready().await else { std::future::pending().await };
            send = ready;
        }
    };
    tokio::select! { ended = serving => ended.expect("no panic"), () = busy => {} }
    assert!(started.elapsed() <= 2 * CLIENT_READ_TIMEOUT, "{:?}", started.elapsed());
    settle().await;
    let room = node.backlog_budget().account(LOCAL.address, true).share().grow_to(24 << 20);
    assert!(
        room && node.body_budget().account(LOCAL.address, true).share().grow_to(48 << 20),
        "all is given back"
    );
}

#[tokio::test(start_paused = true)]
async fn when_there_is_no_room_nothing_is_decided() {
    let node = node(&many_limits(), Settings::default());
    let mut others = node.backlog_budget().account(LOCAL.address, true).share();
    others.force_to(32 << 20);
    let (_send, mut asked, _serving) = shut_streams(&node).await;
    let answer = asked.pop().expect("many were asked").await.expect("it is answered");
    assert_eq!(
        (answer.status(), &answer.headers()["retry-after"]),
        (http::StatusCode::SERVICE_UNAVAILABLE, &http::HeaderValue::from_static("1"))
    );
    assert!(decided(&node) < 2 * RESPONSES_AT_ONCE_BYTES / DECISION_BYTES, "{} decisions", decided(&node));
    drop(others);
    let mut client = Client::connect(&node, LOCAL);
    client.post("/v1/check", "", "{}").await;
    assert!(client.answer().await.0.starts_with("HTTP/1.1 200"));
}

#[tokio::test(start_paused = true)]
async fn where_there_is_no_room_who_does_not_read_is_cut_off() {
    let ask = "POST /v1/check HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\n{}";
    for one in [ask.to_owned(), ask.replace("\r\nHost", "\r\nTE: x\r\nHost")] {
        let node = node(&many_limits(), Settings::default());
        let mut others = node.backlog_budget().account(LOCAL.address, true).share();
        others.force_to(32 << 20);
        let (mut client, server) = tokio::io::duplex(1_024);
        let serving = tokio::spawn(super::super::serve(Arc::clone(&node), server, LOCAL));
        // The server may close before all is sent.
        _ = client.write_all(one.repeat(1_000).as_bytes()).await;
        tokio::time::timeout(Duration::from_secs(1), serving).await.expect("at once").expect("no panic");
    }
}
