//! Forward-auth: which headers of which peer are believed.

use tidegate::engine::{InvalidCredentials, Reason};

use super::*;
use crate::identity::testing::Signer;
use crate::settings::{Jwt, JwtKey};

const POLICY: &str = "
version: 1
limits:
  - { name: per-user, key: [user], match: { plan: free }, sustained: { rate: 1, window: hour } }
  - { name: per-ip, key: [ip], match: { path: /login, methods: [POST] }, sustained: { rate: 1, window: hour } }
  - { name: per-key, key: [\"header:x-api-key\"], sustained: { rate: 1, window: hour } }
block:
  - { host: closed.example }
";
const STRANGER: Peer = Peer {
    address: IpAddr::V4(std::net::Ipv4Addr::new(203, 0, 113, 9)),
    on_loopback: false,
    alpn_http2: None,
};

fn settings() -> Settings {
    let key = JwtKey::Key { key: "secret".into(), algorithm: "HS256".into() };
    let jwt = Jwt { key, issuer: None, audience: None, invalid: InvalidCredentials::Deny };
    Settings { jwt: Some(jwt), ..Settings::default() }
}

fn signed_by(secret: &[u8], claims: &serde_json::Value) -> String {
    Signer::Secret(secret.to_vec()).token(&serde_json::json!({"alg": "HS256"}), claims)
}

impl Client {
    async fn forwarded(&mut self, query: &str, headers: &str) -> (String, String) {
        self.send(&format!("GET /v1/forward-auth{query} HTTP/1.1\r\nHost: tidegate\r\n{headers}\r\n")).await;
        self.answer().await
    }
}

/// The limit that applies: the one that refuses the second request.
async fn refused_by(node: &Arc<Node>, peer: Peer, headers: &str) -> Option<String> {
    let mut client = Client::connect(node, peer);
    client.forwarded("", headers).await;
    let (head, _) = client.forwarded("", headers).await;
    head.lines().find_map(|line| line.strip_prefix("x-ratelimit-rule: ")).map(str::to_owned)
}

#[tokio::test(start_paused = true)]
async fn a_refusal_is_for_the_client() {
    let node = node(POLICY, settings());
    let mut client = Client::connect(&node, LOCAL);
    let (head, body) = client.forwarded("", "X-Api-Key: k\r\n").await;
    assert!(head.starts_with("HTTP/1.1 204") && head.contains("x-ratelimit-remaining: 0"), "{head}");
    assert!(body.is_empty() && !head.contains("content-type"), "{head}");
    let (head, body) = client.forwarded("", "X-Api-Key: k\r\n").await;
    assert!(head.starts_with("HTTP/1.1 429"), "{head}");
    for line in
        ["content-type: application/problem+json", "cache-control: no-store", "x-ratelimit-rule: per-key"]
    {
        assert!(head.contains(line), "{head}");
    }
    assert!(head.contains("retry-after: 3600") && body.contains("\"status\":429"), "{head}{body}");
    let (head, body) = client.forwarded("?deny_status=403", "X-Api-Key: k\r\n").await;
    assert!(head.starts_with("HTTP/1.1 403") && body.contains("\"status\":403"), "{head}{body}");
    let (head, body) = client.forwarded("?deny_status=200", "").await;
    assert!(head.starts_with("HTTP/1.1 400") && body.contains("\"field\":\"deny_status\""), "{head}{body}");
}

#[tokio::test(start_paused = true)]
async fn a_refusal_has_a_link_to_the_console_if_that_is_wanted() {
    let console_link = Some("https://gate.example/console/".to_owned());
    let node = node(POLICY, Settings { console_link, ..settings() });
    let mut client = Client::connect(&node, LOCAL);
    let request = "X-Api-Key: s3cret\r\nX-Forwarded-Method: GET\r\nX-Forwarded-Uri: /a?token=s3cret\r\nX-Forwarded-For: 198.51.100.1\r\n";
    let (_, body) = client.forwarded("", request).await;
    assert_eq!(body, "");
    let (_, body) = client.forwarded("", request).await;
    let body: serde_json::Value = serde_json::from_str(&body).expect("JSON");
    assert_eq!(
        body["console"],
        "https://gate.example/console/key?ip=198.51.100.1&method=GET&host=tidegate&path=/a"
    );
    assert!(!body.to_string().contains("s3cret"), "{body}");
    // Programs get the decision, as ever.
    client.post("/v1/check", "", r#"{"headers":{"x-api-key":"s3cret"}}"#).await;
    let (_, decision) = client.answer().await;
    assert!(decision.contains(r#""allowed":false"#) && !decision.contains("console"), "{decision}");
}

#[tokio::test(start_paused = true)]
async fn proxies_that_are_trusted_say_what_was_asked() {
    let login = "X-Forwarded-Method: POST\r\nX-Forwarded-Uri: /login?x\r\nX-Forwarded-For: 198.51.100.1\r\n";
    let node = node(POLICY, settings());
    assert_eq!(refused_by(&node, LOCAL, login).await.as_deref(), Some("per-ip"));
    let other = login.replace("198.51.100.1", "198.51.100.1, 198.51.100.2");
    assert_eq!(refused_by(&node, LOCAL, &other).await.as_deref(), Some("per-ip"));
    let nginx = "X-Original-Method: POST\r\nX-Original-URI: //login\r\nX-Forwarded-For: 198.51.100.3\r\n";
    assert_eq!(refused_by(&node, LOCAL, nginx).await.as_deref(), Some("per-ip"));
    assert_eq!(refused_by(&node, STRANGER, login).await, None, "headers of an untrusted peer are ignored");
    let host = "X-Forwarded-Host: closed.example\r\n";
    assert_eq!(refused_by(&node, LOCAL, host).await.as_deref(), Some("block"));
    assert_eq!(refused_by(&node, STRANGER, host).await, None);
}

#[tokio::test(start_paused = true)]
async fn a_client_cannot_forge_what_a_proxy_says() {
    let mut client = Client::connect(&node(POLICY, settings()), LOCAL);
    let both = "X-Original-URI: /login\r\nX-Forwarded-Uri: /cheap\r\n";
    let (head, body) = client.forwarded("", both).await;
    assert!(head.starts_with("HTTP/1.1 400"), "{head}");
    assert!(body.contains("\"field\":\"X-Forwarded-Uri\""), "{body}");
}

/// Who is served first: a request that came earlier, or a later one with a header that says it is urgent.
async fn served_first(peer: Peer) -> &'static str {
    let policy = "
version: 1
defaults: { priority: { from: 'header:x-priority' } }
limits:
  - { name: line, key: [], sustained: { rate: 1 }, strategy: queue, queue: { max_depth: 2, max_wait: 60s } }
";
    let node = node(policy, Settings::default());
    Client::connect(&node, peer).forwarded("", "").await;
    let [mut usual, mut urgent] = [(); 2].map(|()| Client::connect(&node, peer));
    for (client, header) in [(&mut usual, ""), (&mut urgent, "X-Priority: 90\r\n")] {
        client.send(&format!("GET /v1/forward-auth HTTP/1.1\r\nHost: tidegate\r\n{header}\r\n")).await;
        settle().await;
    }
    // The engine's clock is the real one.
    tokio::time::resume();
    tokio::select! {
        _ = usual.answer() => "usual",
        _ = urgent.answer() => "urgent",
    }
}

#[tokio::test(start_paused = true)]
async fn a_priority_in_a_header_is_believed_of_trusted_proxies_only() {
    assert_eq!(served_first(LOCAL).await, "urgent");
    tokio::time::pause();
    assert_eq!(served_first(STRANGER).await, "usual");
}

#[tokio::test(start_paused = true)]
async fn only_a_token_that_holds_makes_a_user() {
    let node = node(POLICY, settings());
    let claims = serde_json::json!({"sub": "42", "plan": "free", "exp": 3_000_000_000_u64});
    let signed = |secret: &[u8]| signed_by(secret, &claims);
    let header = |token: String| format!("Authorization: Bearer {token}\r\n");
    assert_eq!(refused_by(&node, STRANGER, &header(signed(b"secret"))).await.as_deref(), Some("per-user"));
    let guessed = refused_by(&node, LOCAL, &header(signed(b"guess"))).await;
    assert_eq!(guessed.as_deref(), Some("invalid_credentials"));
    let forged = "X-User: 42\r\nUser: 42\r\nPlan: free\r\nX-Forwarded-User: 42\r\n";
    assert_eq!(refused_by(&node, LOCAL, forged).await, None);
}

#[tokio::test(start_paused = true)]
async fn any_method_will_do_and_no_body_is_read() {
    let node = node(POLICY, settings());
    for method in ["GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH", "PROPFIND"] {
        let mut client = Client::connect(&node, LOCAL);
        client
            .send(&format!("{method} /v1/forward-auth HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n"))
            .await;
        let (head, _) = client.answer().await;
        assert!(head.starts_with("HTTP/1.1 204"), "{method}: {head}");
    }
}

const CREDENTIALS: &str = "
version: 1
limits:
  - { name: per-user, key: [user], sustained: { rate: 1, window: hour } }
  - { name: unknown, key: [ip], match: { credential: none }, sustained: { rate: 1, window: hour } }
  - { name: odd, key: [ip], match: { credential: invalid }, sustained: { rate: 1, window: hour } }
block:
  - { ip: 192.0.2.0/24 }
  - { user: bad }
bursts:
  - { name: flood, key: [ip], window: 1h, threshold: 3, penalty: 60s }
  - { name: busy, key: [user], window: 1h, threshold: 1000, penalty: 60s }
";

/// `Authorization` lines of a client at an address.
fn from(address: &str, lines: &[&str]) -> String {
    let lines: String = lines.iter().map(|line| format!("Authorization: {line}\r\n")).collect();
    format!("X-Forwarded-For: {address}\r\n{lines}")
}

fn claims() -> serde_json::Value {
    serde_json::json!({"sub": "42", "exp": 3_000_000_000_u64})
}

#[tokio::test(start_paused = true)]
async fn a_credential_that_does_not_hold_is_401_whatever_else_refusals_are() {
    let node = node(CREDENTIALS, settings());
    let mut client = Client::connect(&node, LOCAL);
    let good = format!("Bearer {}", signed_by(b"secret", &claims()));
    let expired = signed_by(b"secret", &serde_json::json!({"sub": "42", "exp": 1_000_000_000}));
    let foreign = signed_by(b"guess", &claims());
    let odd = [
        vec![good.replace(' ', "\t")],
        vec![format!("{good}=")],
        vec![good.clone(), good.clone()],
        vec!["Bearer".to_owned()],
        vec![format!("bearer {expired}")],
        vec![format!("Bearer {foreign}")],
    ];
    for (number, lines) in odd.iter().enumerate() {
        let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
        let headers = from(&format!("203.0.113.{number}"), &lines);
        let (head, body) = client.forwarded("?deny_status=403", &headers).await;
        assert!(head.starts_with("HTTP/1.1 401"), "{lines:?}: {head}");
        for line in [
            "www-authenticate: Bearer error=\"invalid_token\"",
            "content-type: application/problem+json",
            "cache-control: no-store",
            "x-ratelimit-reason: invalid_credentials",
        ] {
            assert!(head.contains(line), "{head}");
        }
        assert!(!head.contains("retry-after"), "{head}");
        let body: serde_json::Value = serde_json::from_str(&body).unwrap();
        assert_eq!((&body["status"], &body["title"]), (&401.into(), &"Unauthorized".into()));
        assert_eq!((&body["error"], &body["type"]), (&"invalid_token".into(), &"about:blank".into()));
    }
    assert_eq!(node.limiter().decided(Reason::InvalidCredentials), odd.len() as u64);
    let statuses = [good.as_str(), "Basic eDp5"].map(|line| from("198.51.100.1", &[line]));
    for headers in statuses {
        let (head, _) = client.forwarded("", &headers).await;
        assert!(head.starts_with("HTTP/1.1 204"), "{headers}{head}");
    }
    let blocked = signed_by(b"secret", &serde_json::json!({"sub": "bad", "exp": 3_000_000_000_u64}));
    let (head, _) = client.forwarded("", &from("198.51.100.2", &[&format!("Bearer {blocked}")])).await;
    assert!(head.starts_with("HTTP/1.1 429") && head.contains("x-ratelimit-rule: block"), "{head}");
}

#[tokio::test(start_paused = true)]
async fn whoever_is_blocked_by_address_has_no_token_verified() {
    let node = node(CREDENTIALS, settings());
    let mut client = Client::connect(&node, LOCAL);
    let junk =
        |number: usize| format!("Bearer {}", signed_by(format!("guess {number}").as_bytes(), &claims()));
    let looked_at = || node.metrics().credentials_checked();
    let (head, _) = client.forwarded("", &from("192.0.2.7", &[&junk(0)])).await;
    assert!(head.starts_with("HTTP/1.1 429") && head.contains("x-ratelimit-rule: block"), "{head}");
    assert_eq!(looked_at(), 0);
    // Invalid tokens count for their address: the first crossing of the threshold warns, the next one blocks.
    let mut statuses = Vec::new();
    for number in 0..4 {
        let (head, _) = client.forwarded("", &from("203.0.113.7", &[&junk(number)])).await;
        statuses.push(head[9..12].to_owned());
    }
    assert_eq!((statuses, looked_at()), (vec!["401".to_owned(); 4], 4));
    assert_eq!(node.limiter().decided(Reason::BurstBlocked), 0, "one crossing only warns");
}

#[tokio::test(start_paused = true)]
async fn where_it_is_asked_for_a_bad_credential_is_as_good_as_none() {
    let mut settings = settings();
    settings.jwt.as_mut().unwrap().invalid = InvalidCredentials::Anonymous;
    let node = node(CREDENTIALS, settings);
    for (lines, limit) in [(&["Bearer x"][..], "odd"), (&[], "unknown"), (&["Basic eDp5"], "unknown")] {
        let found = refused_by(&node, LOCAL, &from("203.0.113.7", lines)).await;
        assert_eq!(found.as_deref(), Some(limit), "{lines:?}");
    }
}
