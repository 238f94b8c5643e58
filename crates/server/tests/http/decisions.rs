//! Every endpoint, and what it decides.

use serde_json::json;

use super::Server;

#[test]
fn check_decides_and_charges() {
    let server = Server::start();
    let mut client = server.connect();
    for remaining in [2, 1, 0] {
        let answer = client.post("/v1/check", r#"{"user":"a","path":"/x"}"#);
        assert_eq!((answer.status, answer.header("content-type")), (200, Some("application/json")));
        assert_eq!(answer.json()["remaining"], remaining);
    }
    let answer = client.post("/v1/check", r#"{"user":"a"}"#);
    assert_eq!(answer.status, 429);
    let decision = answer.json();
    assert_eq!(decision["reason"], "token_bucket_exceeded");
    assert_eq!(
        (&decision["violated_rule"], &decision["violated_tier"]),
        (&json!("per-user"), &json!("user"))
    );
    let members: Vec<&str> = decision.as_object().expect("an object").keys().map(String::as_str).collect();
    assert_eq!(members.len(), 12, "every member is there: {members:?}");
    let other = client.post("/v1/check", r#"{"user":"b"}"#);
    assert_eq!(other.status, 200, "another user");
}

#[test]
fn nothing_applies_is_allowed() {
    let answer = Server::start().connect().post("/v1/check", "{}");
    assert_eq!(answer.status, 200);
    let decision = answer.json();
    assert_eq!(decision["reason"], "no_limit");
    assert_eq!((&decision["limit"], &decision["reset_after_ms"]), (&json!(-1), &json!(null)));
    assert_eq!(answer.header("x-ratelimit-limit"), None);
}

#[test]
fn peek_takes_nothing_and_is_always_200() {
    let server = Server::start();
    let mut client = server.connect();
    for _ in 0..5 {
        let answer = client.post("/v1/peek", r#"{"user":"a"}"#);
        assert_eq!((answer.status, &answer.json()["remaining"]), (200, &json!(3)));
    }
    client.post("/v1/check", r#"{"user":"a","cost":3}"#);
    let answer = client.post("/v1/peek", r#"{"user":"a"}"#);
    assert_eq!((answer.status, &answer.json()["allowed"]), (200, &json!(false)));
}

#[test]
fn refund_hands_back_and_never_more_than_fits() {
    let server = Server::start();
    let mut client = server.connect();
    client.post("/v1/check", r#"{"user":"a","cost":3}"#);
    let answer = client.post("/v1/refund", r#"{"request":{"user":"a"},"cost":2}"#);
    assert_eq!((answer.status, &answer.json()["remaining"]), (200, &json!(2)));
    let answer = client.post("/v1/refund", r#"{"request":{"user":"a"},"cost":4294967295}"#);
    assert_eq!((answer.status, &answer.json()["remaining"]), (200, &json!(3)));
}

#[test]
fn throttle_needs_no_policy() {
    let server = Server::start();
    let mut client = server.connect();
    let ask = r#"{"key":"user:1","capacity":2,"rate":1,"window":"60s"}"#;
    for remaining in [1, 0] {
        let answer = client.post("/v1/throttle", ask);
        assert_eq!((answer.status, &answer.json()["remaining"]), (200, &json!(remaining)));
    }
    let answer = client.post("/v1/throttle", ask);
    assert_eq!((answer.status, &answer.json()["violated_rule"]), (429, &json!("throttle")));
    assert_eq!(answer.header("retry-after"), Some("60"));
    let other = client.post("/v1/throttle", ask.replace("\"capacity\":2", "\"capacity\":5"));
    assert_eq!(other.status, 200, "other numbers are another bucket");
    let never = client.post("/v1/throttle", ask.replace("\"60s\"", "\"60s\",\"cost\":3"));
    assert_eq!((never.status, &never.json()["reason"]), (429, &json!("cost_exceeds_capacity")));
    assert_eq!(never.header("retry-after"), None, "no wait will do");
}

#[test]
fn a_batch_is_decided_in_order() {
    let server = Server::start();
    let mut client = server.connect();
    let user = r#"{"user":"a"}"#;
    let answer =
        client.post("/v1/check/batch", format!("{{\"requests\":[{user},{user},{{}},{user},{user}]}}"));
    assert_eq!(answer.status, 200);
    let decisions = answer.json();
    let allowed: Vec<bool> =
        decisions["decisions"].as_array().expect("a list").iter().map(|one| one["allowed"] == true).collect();
    assert_eq!(allowed, [true, true, true, true, false]);
    assert_eq!(client.post("/v1/check/batch", r#"{"requests":[]}"#).body, r#"{"decisions":[]}"#);
    let half = client.post("/v1/check/batch", r#"{"requests":[{"user":"b"},{"user":7.5}]}"#);
    assert_eq!((half.status, &half.json()["field"]), (400, &json!("requests[1].user")));
    let after = client.post("/v1/peek", r#"{"user":"b"}"#);
    assert_eq!(after.json()["remaining"], 3, "nothing of it was decided");
    let large =
        format!("{{\"requests\":[{}]}}", vec![r#"{"user":"c","path":"/some/path"}"#; 1_000].join(","));
    assert_eq!(
        client.post("/v1/check/batch", large).json()["decisions"].as_array().map(Vec::len),
        Some(1_000)
    );
}

#[test]
fn a_queue_is_waited_for() {
    let server = Server::start();
    let mut client = server.connect();
    let ask = r#"{"headers":{"x-line":"a"}}"#;
    assert_eq!(client.post("/v1/check", ask).json().get("queued_ms"), None);
    let answer = client.post("/v1/check", ask);
    let waited = answer.json()["queued_ms"].as_u64().expect("it waited");
    assert!(answer.status == 200 && (1..=100).contains(&waited), "{}", answer.body);
}

#[test]
fn forward_auth_passes_or_refuses() {
    let server = Server::start();
    let mut client = server.connect();
    let mut asked = |query: &str| {
        client.send(format!(
            "GET /v1/forward-auth{query} HTTP/1.1\r\nHost: x\r\nX-Line: b\r\nX-Soft: b\r\n\r\n"
        ));
        client.answer()
    };
    let first = asked("");
    assert_eq!((first.status, first.header("x-ratelimit-limit")), (204, Some("1")));
    assert_eq!(first.header("x-ratelimit-degraded"), None);
    let second = asked("");
    assert_eq!((second.status, second.header("x-ratelimit-degraded")), (204, Some("slow")));
}

/// IPv4 addresses and their IPv4-mapped IPv6 forms are the same address, in a body, from a proxy and in the policy.
#[test]
fn a_mapped_address_is_the_address_it_maps() {
    let server = Server::start();
    let mut client = server.connect();
    for (ip, remaining) in [("203.0.113.7", 2), ("::ffff:203.0.113.7", 1), ("::FFFF:cb00:7107", 0)] {
        let answer = client.post("/v1/check", format!(r#"{{"ip":"{ip}","path":"/addresses"}}"#));
        assert_eq!((answer.status, &answer.json()["remaining"]), (200, &json!(remaining)), "{ip}");
    }
    let asked = |client: &mut super::client::Client, ip: &str| {
        client.send(format!(
            "GET /v1/forward-auth HTTP/1.1\r\nHost: x\r\nX-Forwarded-Uri: /addresses\r\nX-Forwarded-For: {ip}\r\n\r\n"
        ));
        client.answer().status
    };
    for ip in ["203.0.113.7", "::ffff:203.0.113.7", "[::ffff:203.0.113.7]:4711", "198.51.100.9"] {
        assert_eq!(asked(&mut client, ip), 429, "{ip}");
    }
    for ip in ["198.51.100.9", "::ffff:198.51.100.9"] {
        let answer = client.post("/v1/check", format!(r#"{{"ip":"{ip}"}}"#));
        assert_eq!((answer.status, &answer.json()["reason"]), (429, &json!("blocked")), "{ip}");
    }
    // On a listener for IPv4 and IPv6, a trusted proxy that connects by IPv4 has a mapped address and is still trusted.
    let Ok(both) = std::net::TcpListener::bind("[::]:0") else { return };
    drop((both, client, server));
    let server = Server::start_at("[::]:0");
    let loopback = std::net::SocketAddr::from(([127, 0, 0, 1], server.address.port()));
    let mut client = super::client::Client::connect(loopback);
    assert_eq!(asked(&mut client, "198.51.100.9"), 429, "the proxy is believed");
    assert_eq!(asked(&mut client, "203.0.113.7"), 204);
}

#[test]
fn keys_may_be_anything() {
    let server = Server::start();
    let mut client = server.connect();
    for key in ["\\u0000", "a\\nb\\r\\nX-Evil: 1", "\\\"", "é€😀", "{}{}", "\\ud83d\\ude00"] {
        let body = format!("{{\"key\":\"{key}\",\"capacity\":1,\"rate\":1,\"window\":\"day\"}}");
        assert_eq!(client.post("/v1/throttle", &body).status, 200, "{key}");
        assert_eq!(client.post("/v1/throttle", &body).status, 429, "{key}");
        let answer = client.post("/v1/check", format!("{{\"user\":\"{key}\"}}"));
        assert_eq!((answer.status, answer.header("x-evil")), (200, None), "{key}");
    }
    let long = format!("{{\"user\":\"{}\"}}", "k".repeat(60_000));
    assert_eq!(client.post("/v1/check", long).status, 200);
}
