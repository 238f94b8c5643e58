//! Envoy's external authorization, without a network.

use tidegate::engine::{InvalidCredentials, Policy};
use tidegate_policy::{IdentityMember, IdentitySources};

use super::*;
use crate::grpc::proto::envoy::service::auth::v3::AttributeContext;
use crate::grpc::proto::envoy::service::auth::v3::attribute_context::{HttpRequest, Request};
use crate::identity::Identity;
use crate::identity::testing::Signer;
use crate::observe::Protocol;
use crate::settings::{ApiKeySettings, Jwt, JwtKey, KeyPlace, Settings, UnknownKeys};
use futures_util::FutureExt;

const PEER: Peer =
    Peer { address: IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), on_loopback: true, alpn_http2: None };

fn node() -> Node {
    let key = JwtKey::Key { key: "secret".into(), algorithm: "HS256".into() };
    let jwt = Jwt { key, issuer: None, audience: None, invalid: InvalidCredentials::Deny };
    let settings = Settings { jwt: Some(jwt), max_keys: 100, ..Settings::default() };
    let policy =
        "version: 1\nlimits: [{ name: per-user, key: [user], sustained: { rate: 1, window: hour } }]";
    let policy = Policy::parse(policy).unwrap();
    let identity = Identity::new(&settings).unwrap();
    Node::new(settings, policy.into(), identity).unwrap()
}

fn ask(node: &Node, authorization: &str) -> CheckResponse {
    ask_with(node, PEER, &[("authorization", authorization)], "/")
}

fn ask_with(node: &Node, peer: Peer, headers: &[(&str, &str)], path: &str) -> CheckResponse {
    let headers = headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    let http = HttpRequest {
        method: "GET".into(),
        host: "acme.api.example.com:8000".into(),
        path: path.into(),
        headers,
        ..HttpRequest::default()
    };
    let request = Some(Request { http: Some(http) });
    let attributes = Some(AttributeContext { request, ..AttributeContext::default() });
    let message = CheckRequest { attributes }.encode_to_vec();
    let origin = Origin { protocol: Protocol::ExtAuthz, traceparent: None };
    let answer =
        check(node, origin, peer, message.into()).now_or_never().expect("memory is not waited for").unwrap();
    CheckResponse::decode(&answer[5..]).unwrap()
}

#[test]
fn a_credential_that_does_not_hold_is_401() {
    let node = node();
    let claims = serde_json::json!({"sub": "42", "exp": 3_000_000_000_u64});
    let token = Signer::new("HS256").token(&serde_json::json!({"alg": "HS256"}), &claims);
    let good = format!("Bearer {token}");
    // Envoy joins several lines by commas.
    for odd in [format!("{good},{good}"), format!("{good}="), good.replace(' ', "\t"), "Bearer x".to_owned()]
    {
        let answer = ask(&node, &odd);
        assert_eq!(answer.status.unwrap().code, Code::Unauthenticated as i32, "{odd}");
        let Some(HttpResponse::DeniedResponse(denied)) = answer.http_response else { panic!("{odd}") };
        assert_eq!(denied.status.unwrap().code, 401);
        assert!(denied.body.contains("\"status\":401"), "{}", denied.body);
        let mut headers = denied.headers.into_iter().filter_map(|option| option.header);
        let challenge = headers.find(|header| header.key == "www-authenticate").unwrap();
        assert_eq!(challenge.value, "Bearer error=\"invalid_token\"");
    }
    let codes: Vec<i32> = (0..2).map(|_| ask(&node, &good).status.unwrap().code).collect();
    assert_eq!(codes, [0, Code::ResourceExhausted as i32], "the user's limit counts the good ones alone");
}

const STRANGER: Peer = Peer {
    address: IpAddr::V4(std::net::Ipv4Addr::new(203, 0, 113, 9)),
    on_loopback: false,
    alpn_http2: None,
};

fn node_with(settings: Settings) -> Node {
    let policy =
        "version: 1\nlimits: [{ name: per-tenant, key: [tenant], sustained: { rate: 1, window: hour } }]";
    let settings = Settings { max_keys: 100, ..settings };
    let identity = Identity::new(&settings).unwrap();
    Node::new(settings, Policy::parse(policy).unwrap().into(), identity).unwrap()
}

fn listed(member: IdentityMember, sources: &[&str]) -> Settings {
    let identity = IdentitySources::new().with(member, sources.iter().copied()).unwrap();
    Settings { identity, ..Settings::default() }
}

fn codes<const N: usize>(ask: impl Fn() -> CheckResponse) -> [i32; N] {
    std::array::from_fn(|_| ask().status.unwrap().code)
}

#[test]
fn an_envoy_that_is_trusted_says_who_asks() {
    const DENIED: i32 = Code::ResourceExhausted as i32;
    let tenant = [("x-tenant", "acme")];
    let node = node_with(listed(IdentityMember::Tenant, &["header:x-tenant"]));
    assert_eq!(codes(|| ask_with(&node, PEER, &tenant, "/")), [0, DENIED]);
    assert_eq!(codes(|| ask_with(&node, PEER, &[("x-tenant", "globex")], "/")), [0, DENIED]);
    assert_eq!(
        codes(|| ask_with(&node, STRANGER, &tenant, "/")),
        [0, 0, 0],
        "another machine proves nothing"
    );
    let node = node_with(listed(IdentityMember::Tenant, &["query:t", "host:{tenant}.api.example.com"]));
    assert_eq!(codes(|| ask_with(&node, PEER, &[], "/?t=globex")), [0, DENIED]);
    assert_eq!(codes(|| ask_with(&node, PEER, &[], "/")), [0, DENIED]);
    assert_eq!(codes(|| ask_with(&node, STRANGER, &[], "/?t=globex")), [0, 0]);
}

#[test]
fn an_identity_that_cannot_be_used_is_400() {
    let node = node_with(listed(IdentityMember::Trust, &["header:x-trust"]));
    let answer = ask_with(&node, PEER, &[("x-trust", "much")], "/");
    assert_eq!(answer.status.unwrap().code, Code::InvalidArgument as i32);
    let Some(HttpResponse::DeniedResponse(denied)) = answer.http_response else { panic!("it is refused") };
    assert_eq!(denied.status.unwrap().code, 400);
    let body: serde_json::Value = serde_json::from_str(&denied.body).unwrap();
    assert_eq!((&body["field"], &body["status"]), (&"header:x-trust".into(), &400.into()));
}

#[test]
fn an_unknown_key_is_401_where_that_is_set() {
    let file = std::env::temp_dir().join(format!("tidegate-authz-{}.yaml", std::process::id()));
    std::fs::write(&file, "keys: []").unwrap();
    let keys = ApiKeySettings {
        from: KeyPlace::Header("x-api-key".into()),
        file: file.clone(),
        unknown: UnknownKeys::Deny,
    };
    let node = node_with(Settings { api_keys: Some(keys), ..Settings::default() });
    std::fs::remove_file(&file).unwrap();
    let answer = ask_with(&node, STRANGER, &[("x-api-key", "tg_guess")], "/");
    assert_eq!(answer.status.unwrap().code, Code::Unauthenticated as i32);
    let Some(HttpResponse::DeniedResponse(denied)) = answer.http_response else { panic!("it is refused") };
    assert_eq!(denied.status.unwrap().code, 401);
    assert!(denied.body.contains("\"error\":\"unknown_key\""), "{}", denied.body);
    assert_eq!(codes(|| ask_with(&node, STRANGER, &[], "/")), [0], "without a key it is anonymous");
}
