//! Forward-auth and `/v1/identify` with listed sources and API keys: who is believed, and who is not.

use serde_json::{Value, json};
use tidegate::engine::{InvalidCredentials, Reason};
use tidegate_policy::{IdentityMember, IdentitySources};

use super::*;
use crate::identity::testing::Signer;
use crate::settings::{ApiKeySettings, Jwt, JwtKey, KeyPlace, UnknownKeys};

const POLICY: &str = "
version: 1
limits:
  - { name: per-tenant, key: [tenant], sustained: { rate: 1, window: hour }, burst: { capacity: 2 } }
  - { name: per-user, key: [user], sustained: { rate: 1, window: hour }, burst: { capacity: 3 } }
  - { name: per-client, key: [client], sustained: { rate: 1, window: hour }, burst: { capacity: 4 } }
upstreams:
  - { name: openai, hosts: [api.openai.com] }
block:
  - { ip: 192.0.2.0/24 }
  - { upstream: openai }
bursts:
  - { name: flood, key: [ip], window: 1h, threshold: 3, penalty: 60s }
";
const STRANGER: Peer = Peer {
    address: IpAddr::V4(std::net::Ipv4Addr::new(203, 0, 113, 9)),
    on_loopback: false,
    alpn_http2: None,
};

fn sources(listed: &[(IdentityMember, &[&str])]) -> Settings {
    let mut identity = IdentitySources::new();
    for (member, list) in listed {
        identity = identity.with(*member, list.iter().copied()).unwrap();
    }
    Settings { identity, ..Settings::default() }
}

fn tokens() -> Option<Jwt> {
    let key = JwtKey::Key { key: "secret".into(), algorithm: "HS256".into() };
    Some(Jwt { key, issuer: None, audience: None, invalid: InvalidCredentials::Deny })
}

fn token(claims: Value) -> String {
    let mut claims = claims;
    claims["exp"] = json!(3_000_000_000_u64);
    let token = Signer::Secret(b"secret".to_vec()).token(&json!({"alg": "HS256"}), &claims);
    format!("Authorization: Bearer {token}\r\n")
}

/// Settings with one known API key, `tg_known`.
fn with_keys(unknown: UnknownKeys, name: &str) -> Settings {
    let file = std::env::temp_dir().join(format!("tidegate-identifying-{}-{name}.yaml", std::process::id()));
    let hash = crate::identity::api_keys::file::written_hash(&crate::identity::api_keys::hash(b"tg_known"));
    std::fs::write(&file, format!("keys: [{{ hash: \"{hash}\", client: app-1, tenant: acme }}]")).unwrap();
    let from = KeyPlace::Header("x-api-key".into());
    let settings = sources(&[(IdentityMember::Client, &["api_key"]), (IdentityMember::Tenant, &["api_key"])]);
    Settings { api_keys: Some(ApiKeySettings { from, file, unknown }), ..settings }
}

impl Client {
    async fn asked(&mut self, query: &str, headers: &str) -> (u16, String, String) {
        self.send(&format!("GET /v1/forward-auth{query} HTTP/1.1\r\nHost: tidegate\r\n{headers}\r\n")).await;
        let (head, body) = self.answer().await;
        (head[9..12].parse().unwrap(), head, body)
    }

    async fn identified(&mut self, headers: &str) -> Value {
        self.send(&format!("PUT /v1/identify HTTP/1.1\r\nHost: localhost\r\n{headers}\r\n")).await;
        let (head, body) = self.answer().await;
        assert!(head.starts_with("HTTP/1.1 200") || head.starts_with("HTTP/1.1 4"), "{head}");
        serde_json::from_str(&body).unwrap()
    }
}

async fn limit_of(node: &Arc<Node>, peer: Peer, headers: &str) -> Option<String> {
    let (_, head, _) = Client::connect(node, peer).asked("", headers).await;
    head.lines().find_map(|line| line.strip_prefix("x-ratelimit-limit: ")).map(str::to_owned)
}

#[tokio::test(start_paused = true)]
async fn a_trusted_proxy_that_sends_a_tenant_gets_that_tenants_limit() {
    let tenant = "X-Tenant: acme\r\n";
    let before = node(POLICY, Settings::default());
    assert_eq!(limit_of(&before, LOCAL, tenant).await, None, "no setting says that this header is a tenant");
    let node = node(POLICY, sources(&[(IdentityMember::Tenant, &["header:x-tenant"])]));
    assert_eq!(limit_of(&node, LOCAL, tenant).await.as_deref(), Some("2"));
    let mut client = Client::connect(&node, LOCAL);
    assert_eq!(client.asked("", tenant).await.0, 204);
    assert_eq!(client.asked("", tenant).await.0, 429, "all requests of the tenant share its limit");
    assert_eq!(client.asked("", "X-Tenant: globex\r\n").await.0, 204);
    assert_eq!(limit_of(&node, LOCAL, "X-Tenant: \r\n").await, None, "an empty value is none");
}

#[tokio::test(start_paused = true)]
async fn nobody_else_can_speak_for_somebody() {
    let listed: &[&str] = &["header:x-tenant", "query:tenant", "host:{tenant}.api.example.com"];
    let node = node(POLICY, sources(&[(IdentityMember::Tenant, listed)]));
    for headers in [
        "X-Tenant: acme\r\n",
        "X-Forwarded-Uri: /?tenant=acme\r\n",
        "X-Forwarded-Host: acme.api.example.com\r\n",
    ] {
        assert_eq!(limit_of(&node, STRANGER, headers).await, None, "{headers}");
        let mut proxy = Client::connect(&node, LOCAL);
        assert_eq!(proxy.identified(headers).await["tenant"]["value"], "acme", "{headers}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_listed_member_has_these_sources_alone() {
    let claims = json!({"sub": "42", "tenant": "acme", "org": "globex"});
    let usual = node(POLICY, Settings { jwt: tokens(), ..Settings::default() });
    let seen = Client::connect(&usual, LOCAL).identified(&token(claims.clone())).await;
    assert_eq!(seen["tenant"], json!({"value": "acme", "source": "jwt:tenant"}));
    assert_eq!(seen["user"], json!({"value": "42", "source": "jwt:sub"}));
    let listed = [(IdentityMember::Tenant, &["header:x-tenant", "jwt:org"][..])];
    let node = node(POLICY, Settings { jwt: tokens(), ..sources(&listed) });
    let mut client = Client::connect(&node, LOCAL);
    let seen = client.identified(&token(claims)).await;
    assert_eq!(seen["tenant"], json!({"value": "globex", "source": "jwt:org"}));
    assert_eq!(seen["user"], json!({"value": "42", "source": "jwt:sub"}), "the usual claim");
    assert_eq!(seen["credential"], json!({"value": "valid", "source": "header:authorization"}));
    let seen = client.identified(&token(json!({"tenant": "acme"}))).await;
    assert_eq!(seen["tenant"], Value::Null, "the usual claim is no source of a listed member");
    let seen = client.identified(&token(json!({"org": {"id": "acme"}}))).await;
    assert_eq!((&seen["status"], &seen["field"]), (&json!(400), &json!("jwt:org")), "an object is no tenant");
}

#[tokio::test(start_paused = true)]
async fn a_value_that_cannot_be_used_is_refused_by_name_and_counted_once() {
    let listed = [(IdentityMember::Trust, &["query:trust"][..]), (IdentityMember::User, &["header:x-user"])];
    let node = node(POLICY, sources(&listed));
    let mut client = Client::connect(&node, LOCAL);
    let bad = "X-Forwarded-Uri: /?trust=high\r\nX-Forwarded-For: 198.51.100.7\r\n";
    let (status, head, body) = client.asked("", bad).await;
    let body: Value = serde_json::from_str(&body).unwrap();
    assert_eq!((status, &body["field"], &body["status"]), (400, &json!("query:trust"), &json!(400)));
    assert_eq!(body["detail"], "`query:trust` must be a number from 0 to 1, such as 0.8");
    assert!(head.contains("x-tidegate-source: query:trust"), "{head}");
    assert!(head.contains("content-type: application/problem+json"), "{head}");
    let (status, head, body) = client.asked("?deny_status=403", bad).await;
    assert!(status == 403 && head.contains("x-tidegate-source: query:trust"), "{head}");
    assert!(body.contains("\"status\":403"), "{body}");
    for headers in ["X-User: a\r\nX-User: b\r\n", "X-User: a\x01b\r\n"] {
        let (status, _, body) = Client::connect(&node, LOCAL).asked("", headers).await;
        assert!(status == 400, "{headers:?}: {body}");
    }
    assert_eq!(client.asked("", bad).await.0, 400);
    assert_eq!(node.limiter().burst_actions(), (0, 0), "three requests, no warning");
    assert_eq!(client.asked("", bad).await.0, 400);
    assert_eq!(node.limiter().burst_actions(), (1, 0), "the fourth is warned of");
    let blocked = bad.replace("198.51.100.7", "192.0.2.7");
    assert_eq!(client.asked("", &blocked).await.0, 429, "who is blocked by address is told that");
}

#[tokio::test(start_paused = true)]
async fn a_known_key_has_a_holder_and_an_unknown_one_is_denied_where_that_is_set() {
    let node = node(POLICY, with_keys(UnknownKeys::Deny, "deny"));
    let mut client = Client::connect(&node, STRANGER);
    let (status, head, _) = client.asked("", "X-Api-Key: tg_known\r\n").await;
    assert!(status == 204 && head.contains("x-ratelimit-limit: 2"), "{head}");
    let (status, head, body) = client.asked("?deny_status=403", "X-Api-Key: tg_other\r\n").await;
    assert_eq!(status, 401, "whatever deny_status says");
    for line in [
        "www-authenticate: ApiKey error=\"unknown_key\"",
        "content-type: application/problem+json",
        "cache-control: no-store",
        "x-ratelimit-reason: unknown_key",
        "x-ratelimit-rule: unknown_key",
    ] {
        assert!(head.contains(line), "{line}: {head}");
    }
    let body: Value = serde_json::from_str(&body).unwrap();
    assert_eq!(
        (&body["status"], &body["error"], &body["title"]),
        (&401.into(), &"unknown_key".into(), &"Unauthorized".into())
    );
    assert!(!body.to_string().contains("tg_other"), "{body}");
    assert_eq!(client.asked("", "").await.0, 204, "without a key a request is anonymous");
    assert_eq!(client.asked("", "X-Api-Key: a\r\nX-Api-Key: b\r\n").await.0, 400, "one key at a time");
    assert_eq!(node.limiter().decided(Reason::UnknownKey), 1);
    let mut proxy = Client::connect(&node, LOCAL);
    let blocked = "X-Forwarded-For: 192.0.2.7\r\nX-Api-Key: tg_other\r\n";
    assert_eq!(proxy.asked("", blocked).await.0, 429, "no key is looked up for who is blocked by address");
}

#[tokio::test(start_paused = true)]
async fn unknown_keys_count_for_their_address() {
    let node = node(POLICY, with_keys(UnknownKeys::Deny, "count"));
    let mut client = Client::connect(&node, STRANGER);
    for guess in 0..4 {
        assert_eq!(client.asked("", &format!("X-Api-Key: guess{guess}\r\n")).await.0, 401);
    }
    assert_eq!(node.limiter().burst_actions(), (1, 0), "the fourth guess is warned of");
}

#[tokio::test(start_paused = true)]
async fn an_unknown_key_may_count_as_none() {
    let node = node(POLICY, with_keys(UnknownKeys::Ignore, "ignore"));
    let mut client = Client::connect(&node, LOCAL);
    assert_eq!(client.asked("", "X-Api-Key: tg_other\r\n").await.0, 204);
    let seen = client.identified("X-Api-Key: tg_other\r\n").await;
    assert_eq!(seen, json!({"ip": {"value": "127.0.0.1", "source": "peer"}}));
    let seen = client.identified("X-Api-Key: tg_known\r\nX-Forwarded-For: 198.51.100.1\r\n").await;
    let expected = json!({
        "client": {"value": "app-1", "source": "api_key"},
        "tenant": {"value": "acme", "source": "api_key"},
        "ip": {"value": "198.51.100.1", "source": "header:x-forwarded-for"},
        "credential": {"value": "valid", "source": "header:x-api-key"},
    });
    assert_eq!(seen, expected);
}

#[tokio::test(start_paused = true)]
async fn an_upstream_that_a_proxy_names_is_blocked_like_any_other() {
    let node = node(POLICY, sources(&[(IdentityMember::Upstream, &["header:x-upstream"])]));
    let mut proxy = Client::connect(&node, LOCAL);
    assert_eq!(proxy.asked("", "X-Upstream: openai\r\n").await.0, 429);
    assert_eq!(
        proxy.asked("", "X-Forwarded-Host: api.openai.com\r\n").await.0,
        429,
        "by its host, as before"
    );
    assert_eq!(proxy.asked("", "X-Upstream: other\r\n").await.0, 204);
    assert_eq!(Client::connect(&node, STRANGER).asked("", "X-Upstream: openai\r\n").await.0, 204);
}

#[tokio::test(start_paused = true)]
async fn what_identify_tells_is_guarded_and_changes_nothing() {
    let settings = Settings { http_token: Some("s3cret".into()), jwt: tokens(), ..Settings::default() };
    let node = node(POLICY, settings);
    let mut stranger = Client::connect(&node, STRANGER);
    assert_eq!(stranger.identified("").await["status"], 401);
    let seen = stranger.identified("Authorization: Bearer s3cret\r\n").await;
    assert_eq!(
        seen,
        json!({"ip": {"value": "203.0.113.9", "source": "peer"}}),
        "the guard's token is not the client's"
    );
    let mut page = Client::connect(&node, LOCAL);
    assert_eq!(page.identified("Origin: https://evil.example\r\n").await["status"], 403);
    let user = token(json!({"sub": "42"}));
    for _ in 0..5 {
        assert_eq!(page.identified(&user).await["user"]["value"], "42", "nothing is charged");
    }
    assert_eq!(limit_of(&node, LOCAL, &user).await.as_deref(), Some("3"));
    assert_eq!(node.metrics().credentials_checked(), 1, "only a decision counts");
}
