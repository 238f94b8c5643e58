//! The express lane answers as hyper does, and hands to hyper what is not for it.

use std::net::Ipv4Addr;

use tidegate_policy::Policy;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};

use super::*;
use crate::identity::Identity;
use crate::node::Node;
use crate::serve::Peer;
use crate::settings::Settings;

const POLICY: &str = "version: 1
limits:
- { name: per-user, key: [user], sustained: { rate: 1, window: day }, burst: { capacity: 2 }, headers: [x-ratelimit, ratelimit-03, ietf] }
- { name: marked, match: { plan: free }, key: [user], sustained: { rate: 1, window: day }, strategy: degrade, degrade: { tag: low } }
";

fn context(policy: &str) -> Arc<Context> {
    let settings = Settings { max_keys: 1_000, ..Settings::default() };
    let identity = Identity::new(&settings).expect("nothing is to be verified");
    let policy = Policy::parse(policy).expect("a policy");
    let node = Arc::new(Node::new(settings, policy.into(), identity).expect("it fits"));
    let peer = Peer { address: Ipv4Addr::LOCALHOST.into(), on_loopback: true, alpn_http2: None };
    Arc::new(Context::new(node, peer))
}

fn post(path: &str, more: &str, body: &str) -> String {
    let length = body.len();
    format!("POST {path} HTTP/1.1\r\nHost: localhost\r\n{more}Content-Length: {length}\r\n\r\n{body}")
}

/// The whole listener's response to one request: status line, sorted headers without the date, body.
async fn answer(context: &Arc<Context>, request: &str) -> (String, Vec<String>, String) {
    let (mut client, server) = duplex(65_536);
    let (node, peer) = (Arc::clone(&context.node), context.peer);
    tokio::spawn(crate::http::serve(node, server, peer));
    client.write_all(request.as_bytes()).await.unwrap();
    let said = read_answer(&mut client).await;
    let (head, body) = said.split_once("\r\n\r\n").unwrap();
    let mut lines: Vec<String> = head.split("\r\n").map(str::to_owned).collect();
    let status = lines.remove(0);
    assert_eq!(lines.iter().filter(|line| line.starts_with("date: ")).count(), 1, "{head}");
    lines.retain(|line| !line.starts_with("date: ") && !line.starts_with("x-ratelimit-reset: "));
    lines.sort();
    (status, lines, body.to_owned())
}

/// Reads one response.
async fn read_answer(client: &mut DuplexStream) -> String {
    let mut said = Vec::new();
    loop {
        let read = client.read_buf(&mut said).await.unwrap();
        let text = String::from_utf8(said.clone()).unwrap();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head.split("\r\n").find_map(|line| line.strip_prefix("content-length: "));
            if body.len() >= length.unwrap_or("0").parse().unwrap() {
                return text;
            }
        }
        assert!(read > 0, "closed after {text}");
    }
}

/// Does the lane answer all of it without hyper?
async fn is_taken(context: &Arc<Context>, request: &str) -> bool {
    let (mut client, server) = duplex(65_536);
    client.write_all(request.as_bytes()).await.unwrap();
    client.shutdown().await.unwrap();
    serve(context, server, Bytes::new()).await.is_none()
}

#[tokio::test]
async fn answers_are_those_of_hyper() {
    let bodies = [
        ("/v1/check", r#"{"user":"USER"}"#),
        ("/v1/check", r#"{"user":"USER","cost":2}"#),
        ("/v1/check", r#"{"user":"USER","cost":3}"#),
        ("/v1/check", r#"{"user":"USER","cost":0,"plan":"free"}"#),
        ("/v1/check", r#"{}"#),
        ("/v1/check", r#"{"usr":"USER"}"#),
        ("/v1/check", "no json"),
        ("/v1/check", ""),
        ("/v1/throttle", r#"{"key":"USER","capacity":1,"rate":1,"window":"day"}"#),
        ("/v1/throttle", r#"{"key":"USER","capacity":1,"rate":1,"window":"day","cost":2}"#),
        ("/v1/throttle", r#"{"key":"","capacity":1,"rate":1,"window":"day"}"#),
    ];
    let context = context(POLICY);
    for (place, (path, body)) in bodies.into_iter().enumerate() {
        for times in 1..=3 {
            let (lane, hyper) = (format!("a{place}"), format!("b{place}"));
            let by_lane = answer(&context, &post(path, "", &body.replace("USER", &lane))).await;
            // A `TE` header makes the lane hand the request to hyper.
            let by_hyper =
                answer(&context, &post(path, "TE: trailers\r\n", &body.replace("USER", &hyper))).await;
            let without_times = |(status, lines, body): (String, Vec<String>, String)| {
                let body: serde_json::Value = serde_json::from_str(&body).unwrap();
                let told = ["allowed", "reason", "limit", "remaining", "violated_rule", "status", "detail"];
                let told = told.map(|name| body.get(name).cloned());
                let lines: Vec<String> =
                    lines.into_iter().filter(|line| !line.starts_with("content-length")).collect();
                (status, lines, told)
            };
            assert_eq!(without_times(by_lane), without_times(by_hyper), "{path} {body}, time {times}");
        }
    }
}

/// A forward-auth request of a proxy.
fn forwarded(user: &str, query: &str, more: &str) -> String {
    format!(
        "GET /v1/forward-auth{query} HTTP/1.1\r\nHost: tidegate\r\nX-Forwarded-For: 203.0.113.7\r\n\
         X-Forwarded-Method: GET\r\nX-Forwarded-Uri: /api?x=1\r\nX-User: {user}\r\n{more}\r\n"
    )
}

#[tokio::test]
async fn proxies_are_answered_as_by_hyper() {
    let context = context(&POLICY.replace("[user]", "[header:x-user]"));
    for (place, query) in
        ["", "?deny_status=403", "?deny_status=599", "?deny_status=x"].into_iter().enumerate()
    {
        for times in 1..=3 {
            let by_lane = whole_answer(&context, &forwarded(&format!("a{place}"), query, "")).await;
            let by_hyper =
                whole_answer(&context, &forwarded(&format!("b{place}"), query, "Upgrade: x\r\n")).await;
            assert_eq!(by_lane, by_hyper, "{query}, time {times}");
        }
    }
}

/// The sorted lines of the response to one request, without dates and times.
async fn whole_answer(context: &Arc<Context>, request: &str) -> Vec<String> {
    let (mut client, server) = duplex(65_536);
    tokio::spawn(crate::http::serve(Arc::clone(&context.node), server, context.peer));
    client.write_all(request.as_bytes()).await.unwrap();
    let said = read_answer(&mut client).await;
    let is_time = |line: &&str| line.starts_with("date: ") || line.contains("reset");
    let without_millis = |line: &str| match line.split_once("\"retry_after_ms\":") {
        Some((before, after)) => {
            format!("{before}{}", after.trim_start_matches(|digit: char| digit.is_ascii_digit()))
        }
        None => line.to_owned(),
    };
    let mut lines: Vec<String> = said.lines().filter(|line| !is_time(line)).map(without_millis).collect();
    assert!(lines[0].starts_with("HTTP/1.1 "), "{said}");
    lines.sort();
    lines
}

const QUEUE: &str = "version: 1\nlimits:\n- { name: q, key: [], sustained: { rate: 20 }, burst: { capacity: 1 }, \
                     strategy: queue, queue: { max_depth: 9, max_wait: 10s } }\n";

#[tokio::test]
async fn the_lane_goes_on_after_a_request_that_had_to_wait() {
    let context = context(QUEUE);
    let (mut client, server) = duplex(65_536);
    let kept = Arc::clone(&context);
    let lane = tokio::spawn(async move { serve(&kept, server, Bytes::new()).await.is_none() });
    client.write_all(post("/v1/check", "", "{}").repeat(3).as_bytes()).await.unwrap();
    let mut bytes = Vec::new();
    let said = loop {
        assert!(client.read_buf(&mut bytes).await.unwrap() > 0);
        let said = String::from_utf8(bytes.clone()).unwrap();
        if said.matches("HTTP/1.1 200 OK").count() == 3 && said.ends_with('}') {
            break said;
        }
    };
    assert_eq!(said.matches("\"queued_ms\"").count(), 2, "two had to wait: {said}");
    client.write_all(post("/v1/check", "", r#"{"cost":0}"#).as_bytes()).await.unwrap();
    assert!(read_answer(&mut client).await.starts_with("HTTP/1.1 200 OK"));
    drop(client);
    assert!(lane.await.unwrap(), "hyper was never needed");
}

#[tokio::test]
async fn a_client_that_hangs_up_while_it_waits_is_noticed() {
    let context = context(&QUEUE.replace("rate: 20", "rate: 1, window: hour").replace("10s", "1h"));
    let (mut client, server) = duplex(65_536);
    let kept = Arc::clone(&context);
    let lane = tokio::spawn(async move { serve(&kept, server, Bytes::new()).await.is_none() });
    client.write_all(post("/v1/check", "", "{}").repeat(2).as_bytes()).await.unwrap();
    read_answer(&mut client).await;
    drop(client);
    let ended = tokio::time::timeout(std::time::Duration::from_secs(5), lane).await;
    assert!(ended.expect("it does not wait for an hour").unwrap());
    assert!(context.activity.is_idle());
}

#[tokio::test]
async fn little_is_read_of_a_client_whose_request_waits() {
    let context = context(&QUEUE.replace("rate: 20", "rate: 1, window: hour").replace("10s", "1h"));
    let (mut client, server) = duplex(16 * 1_024);
    let kept = Arc::clone(&context);
    tokio::spawn(async move { serve(&kept, server, Bytes::new()).await.is_none() });
    client.write_all(post("/v1/check", "", "{}").repeat(2).as_bytes()).await.unwrap();
    read_answer(&mut client).await;
    let more = [b' '; 64 * 1_024];
    let all = tokio::time::timeout(std::time::Duration::from_millis(200), client.write_all(&more)).await;
    assert!(all.is_err(), "what is not read fills the socket");
}

#[tokio::test]
async fn what_is_not_plain_is_left_to_hyper() {
    let plain = context(POLICY);
    assert!(is_taken(&plain, &post("/v1/check", "", "{}")).await);
    assert!(
        is_taken(&plain, &post("/v1/throttle", "", r#"{"key":"k","capacity":1,"rate":1,"window":"1s"}"#))
            .await
    );
    for request in [
        post("/v1/peek", "", "{}"),
        post("/v1/check?x", "", "{}"),
        post("/v1/check", "Transfer-Encoding: chunked\r\n", "{}"),
        post("/v1/check", "Connection: close\r\n", "{}"),
        post("/v1/check", "", "{"),
        post("/v1/check", "", "{}")[..40].to_owned(),
        post("/v1/check", "", "{}") + "G",
    ] {
        assert!(!is_taken(&plain, &request).await, "{request}");
    }
    for (method, target, more, taken) in [
        ("GET", "/v1/forward-auth", "Origin: http://a.example\r\nTE: trailers\r\n", true),
        ("DELETE", "/v1/forward-auth?deny_status=403", "Content-Length: 0\r\n", true),
        ("HEAD", "/v1/forward-auth", "", false),
        ("GET", "/v1/forward-auth/more", "", false),
        ("GET", "/v1/forward-auth?deny_status=200", "", false),
        ("POST", "/v1/forward-auth", "Content-Length: 1\r\n", false),
        ("GET", "/v1/forward-auth", "Upgrade: websocket\r\n", false),
    ] {
        let request = format!("{method} {target} HTTP/1.1\r\nHost: a.example\r\n{more}\r\n");
        assert_eq!(is_taken(&plain, &request).await, taken, "{request}");
    }
    let (node, peer) = (Arc::clone(&plain.node), Peer { on_loopback: false, ..plain.peer });
    let elsewhere = Arc::new(Context::new(node, peer));
    let throttle = post("/v1/throttle", "", r#"{"key":"k","capacity":1,"rate":1,"window":"1s"}"#);
    assert!(!is_taken(&elsewhere, &throttle).await, "a token is needed there");
    assert!(is_taken(&elsewhere, &post("/v1/check", "", "{}")).await);
}

#[tokio::test]
async fn a_pipeline_is_answered_in_order_and_goes_on_with_hyper() {
    let context = context(POLICY);
    let (client, server) = duplex(1_024);
    tokio::spawn(crate::http::serve(Arc::clone(&context.node), server, context.peer));
    let mut requests: String =
        (0..50).map(|user| post("/v1/check", "", &format!(r#"{{"user":"{user}"}}"#))).collect();
    requests += &post("/v1/peek", "", r#"{"user":"0"}"#);
    requests += &post("/v1/check", "Connection: close\r\n", r#"{"user":"0","cost":3}"#);
    let (mut reader, mut writer) = tokio::io::split(client);
    let writing = tokio::spawn(async move { writer.write_all(requests.as_bytes()).await.map(|()| writer) });
    let mut said = String::new();
    reader.read_to_string(&mut said).await.unwrap();
    assert_eq!(said.matches("HTTP/1.1 200 OK").count(), 51);
    assert_eq!(
        said.matches("\"remaining\":1,").count() / 2,
        52,
        "each user has a bucket, and neither the peek nor the refusal took a token"
    );
    assert!(said.rfind("HTTP/1.1 429").unwrap() > said.rfind("HTTP/1.1 200").unwrap());
    writing.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn silence_and_the_end_of_the_server_end_it() {
    let quiet = context(POLICY);
    let (mut client, server) = duplex(1_024);
    client.write_all(post("/v1/check", "", "{}").as_bytes()).await.unwrap();
    let serving = tokio::spawn(async move { serve(&quiet, server, Bytes::new()).await.is_none() });
    assert!(read_answer(&mut client).await.starts_with("HTTP/1.1 200 OK"));
    assert!(serving.await.unwrap(), "closed because it was idle");

    let ending = context(POLICY);
    let (_client, server) = duplex(1_024);
    let started = tokio::time::Instant::now();
    ending.node.lifecycle().close();
    assert!(serve(&ending, server, Bytes::new()).await.is_none());
    assert_eq!(started.elapsed(), std::time::Duration::ZERO);
}
