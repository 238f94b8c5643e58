//! Forward-auth: who and what is believed.

use super::*;
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
    Settings { jwt: Some(Jwt { key, issuer: None, audience: None }), ..Settings::default() }
}

impl Client {
    async fn forwarded(&mut self, query: &str, headers: &str) -> (String, String) {
        self.send(&format!("GET /v1/forward-auth{query} HTTP/1.1\r\nHost: tidegate\r\n{headers}\r\n")).await;
        self.answer().await
    }
}

/// The limits that apply, told by which of them refuses the second time.
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
async fn proxies_that_are_trusted_say_what_was_asked() {
    let login = "X-Forwarded-Method: POST\r\nX-Forwarded-Uri: /login?x\r\nX-Forwarded-For: 198.51.100.1\r\n";
    let node = node(POLICY, settings());
    assert_eq!(refused_by(&node, LOCAL, login).await.as_deref(), Some("per-ip"));
    let other = login.replace("198.51.100.1", "198.51.100.1, 198.51.100.2");
    assert_eq!(refused_by(&node, LOCAL, &other).await.as_deref(), Some("per-ip"));
    let nginx = "X-Original-Method: POST\r\nX-Original-URI: //login\r\nX-Forwarded-For: 198.51.100.3\r\n";
    assert_eq!(refused_by(&node, LOCAL, nginx).await.as_deref(), Some("per-ip"));
    assert_eq!(refused_by(&node, STRANGER, login).await, None, "who is not trusted forwards nothing");
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

#[tokio::test(start_paused = true)]
async fn only_a_token_that_holds_makes_a_user() {
    let node = node(POLICY, settings());
    let claims = serde_json::json!({"sub": "42", "plan": "free", "exp": 3_000_000_000_u64});
    let signed = |secret: &[u8]| {
        let key = jsonwebtoken::EncodingKey::from_secret(secret);
        jsonwebtoken::encode(&jsonwebtoken::Header::default(), &claims, &key).unwrap()
    };
    let header = |token: String| format!("Authorization: Bearer {token}\r\n");
    assert_eq!(refused_by(&node, STRANGER, &header(signed(b"secret"))).await.as_deref(), Some("per-user"));
    assert_eq!(refused_by(&node, LOCAL, &header(signed(b"guess"))).await, None);
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
