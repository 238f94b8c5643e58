//! Envoy's external authorization.

use std::collections::BTreeMap;

use super::client::{AUTHZ, Client, Server, framed};
use super::proto::envoy::config::core::v3::{Address, HeaderValueOption, SocketAddress, address};
use super::proto::envoy::service::auth::v3::attribute_context::{HttpRequest, Peer, Request};
use super::proto::envoy::service::auth::v3::check_response::HttpResponse;
use super::proto::envoy::service::auth::v3::{AttributeContext, CheckRequest, CheckResponse};

const POLICY: &str = r#"
version: 1
limits:
  - { name: per-address, match: { path: /api/** }, key: [ip], sustained: { rate: 1, window: hour } }
  - { name: keys, match: { methods: [POST] }, key: ["header:x-api-key"], sustained: { rate: 1, window: hour } }
  - { name: searches, match: { path: /search }, key: [host, "query:q"], sustained: { rate: 1, window: hour } }
  - { name: tiers, match: { "descriptor:tier": gold }, key: [], sustained: { rate: 1, window: hour } }
  - { name: soft, match: { path: /soft }, key: [], sustained: { rate: 1, window: hour },
      strategy: degrade, degrade: { tag: slow } }
  - { name: line, match: { path: /line }, key: [], sustained: { rate: 20, window: second },
      burst: { capacity: 1 }, strategy: queue, queue: { max_depth: 1, max_wait: 2s } }
  - { name: long, match: { path: /long }, key: [], sustained: { rate: 1, window: hour },
      strategy: queue, queue: { max_depth: 1, max_wait: 1h } }
block:
  - { ip: "::ffff:198.51.100.0/120", reason: abuse }
"#;

fn asking(method: &str, path: &str, headers: &[(&str, &str)]) -> CheckRequest {
    let mut named: std::collections::HashMap<String, String> =
        headers.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect();
    named.insert(":path".into(), path.into());
    let http = HttpRequest {
        method: method.into(),
        path: path.into(),
        host: "example.com".into(),
        headers: named,
        ..Default::default()
    };
    let socket = SocketAddress { address: "127.0.0.1".into(), ..Default::default() };
    let address = Some(Address { address: Some(address::Address::SocketAddress(socket)) });
    CheckRequest {
        attributes: Some(AttributeContext {
            source: Some(Peer { address }),
            request: Some(Request { http: Some(http) }),
            ..Default::default()
        }),
    }
}

async fn ask(client: &mut Client, asked: CheckRequest) -> CheckResponse {
    client.ask(AUTHZ, &asked).await
}

async fn is_admitted(client: &mut Client, asked: CheckRequest) -> bool {
    ask(client, asked).await.status.expect("it is always there").code == 0
}

fn headers(headers: &[HeaderValueOption]) -> BTreeMap<String, String> {
    let pair = |option: &HeaderValueOption| {
        let header = option.header.clone().expect("it names one");
        (header.key.to_lowercase(), header.value)
    };
    headers.iter().map(pair).collect()
}

#[tokio::test]
async fn a_client_behind_proxies_is_admitted_then_refused() {
    let server = Server::start(POLICY);
    let mut client = server.connect().await;
    let from = |address: &str| asking("GET", "/api/videos?q=cats", &[("x-forwarded-for", address)]);
    let answer = ask(&mut client, from("203.0.113.7, 127.0.0.1")).await;
    let Some(HttpResponse::OkResponse(ok)) = answer.http_response else { panic!("{answer:?}") };
    assert_eq!(headers(&ok.response_headers_to_add)["x-ratelimit-remaining"], "0");
    assert!(answer.dynamic_metadata.is_none());

    let answer = ask(&mut client, from("6.6.6.6, 203.0.113.7")).await;
    assert_eq!(answer.status.as_ref().map(|status| status.code), Some(8));
    let Some(HttpResponse::DeniedResponse(denied)) = answer.http_response else { panic!("{answer:?}") };
    assert_eq!(denied.status.expect("it has one").code, 429);
    let headers = headers(&denied.headers);
    assert!(headers["retry-after"].parse::<u64>().is_ok_and(|wait| wait > 3_500));
    assert_eq!(headers["content-type"], "application/problem+json");
    let body: serde_json::Value = serde_json::from_str(&denied.body).expect("a problem");
    assert_eq!(body["violated_rule"], "per-address");
    assert!(answer.dynamic_metadata.expect("it is refused").fields.contains_key("violated_rule"));

    assert!(is_admitted(&mut client, from("203.0.113.8")).await, "another client");
}

#[tokio::test]
async fn method_host_query_headers_and_route_are_facts() {
    let server = Server::start(POLICY);
    let mut client = server.connect().await;
    let key = |value| asking("POST", "/", &[("x-api-key", value)]);
    assert!(is_admitted(&mut client, key("a")).await);
    assert!(!is_admitted(&mut client, key("a")).await);
    assert!(is_admitted(&mut client, key("b")).await);
    let search = |query: &str| asking("GET", &format!("/search?q={query}"), &[]);
    assert!(is_admitted(&mut client, search("cats")).await);
    assert!(!is_admitted(&mut client, search("cats")).await);
    assert!(is_admitted(&mut client, search("dogs")).await);
    let mut tier = asking("GET", "/", &[]);
    let attributes = tier.attributes.as_mut().expect("they are there");
    attributes.context_extensions.insert("tier".into(), "gold".into());
    assert!(is_admitted(&mut client, tier.clone()).await);
    assert!(!is_admitted(&mut client, tier).await);
}

#[tokio::test]
async fn the_upstream_is_told_of_degraded_requests_and_of_no_others() {
    let server = Server::start(POLICY);
    let mut client = server.connect().await;
    let soft = || asking("GET", "/soft", &[("x-ratelimit-degraded", "forged")]);
    let answer = ask(&mut client, soft()).await;
    let Some(HttpResponse::OkResponse(ok)) = answer.http_response else { panic!("{answer:?}") };
    assert_eq!((ok.headers.len(), ok.headers_to_remove), (0, vec!["x-ratelimit-degraded".to_owned()]));
    let answer = ask(&mut client, soft()).await;
    let Some(HttpResponse::OkResponse(ok)) = answer.http_response else { panic!("{answer:?}") };
    assert_eq!(headers(&ok.headers)["x-ratelimit-degraded"], "slow");
    assert_eq!(headers(&ok.response_headers_to_add)["x-ratelimit-degraded"], "slow");
}

#[tokio::test]
async fn a_queue_is_waited_in_and_has_its_ends() {
    let server = Server::start(POLICY);
    let mut client = server.connect().await;
    // The rate is twenty a second, so the second request waits a twentieth of a second.
    for _ in 0..3 {
        assert!(is_admitted(&mut client, asking("GET", "/line", &[])).await);
    }
    assert!(is_admitted(&mut client, asking("GET", "/long", &[])).await);
    let long = framed(&asking("GET", "/long", &[]));
    let ended = client.call(AUTHZ, &[("grpc-timeout", "50m")], long.clone()).await;
    assert_eq!(ended.status(), "4", "the client's own deadline");
    // A waiting call has the only slot of the queue; cancelling it frees the slot.
    let (waiting, mut stream) = client.open(AUTHZ, &[]).await;
    stream.send_data(long.clone(), true).expect("it is open");
    let full = ask(&mut client, asking("GET", "/long", &[])).await;
    assert_eq!(full.status.expect("it is there").message, "queue_full");
    let Some(HttpResponse::DeniedResponse(denied)) = full.http_response else { panic!("it is refused") };
    assert_eq!(denied.status.expect("it has one").code, 503);
    drop((waiting, stream));
    let ended = client.call(AUTHZ, &[("grpc-timeout", "50m")], long).await;
    assert_eq!(ended.status(), "4", "it waits in the place that became free");
}

#[tokio::test]
async fn a_mapped_address_is_the_address_it_maps() {
    let server = Server::start(POLICY);
    let mut client = server.connect().await;
    let from = |source: &str, client: &str| {
        let mut asked = asking("GET", "/api/videos", &[("x-forwarded-for", client)]);
        let socket = SocketAddress { address: source.into(), ..Default::default() };
        let address = Some(Address { address: Some(address::Address::SocketAddress(socket)) });
        asked.attributes.as_mut().expect("it has some").source = Some(Peer { address });
        asked
    };
    assert!(is_admitted(&mut client, from("::ffff:127.0.0.1", "203.0.113.7")).await, "a trusted proxy");
    for (source, named) in [
        ("127.0.0.1", "203.0.113.7"),
        ("127.0.0.1", "::ffff:203.0.113.7"),
        ("::ffff:203.0.113.7", "192.0.2.1"),
        ("127.0.0.1", "::ffff:198.51.100.9"),
        ("198.51.100.9", "192.0.2.1"),
    ] {
        assert!(!is_admitted(&mut client, from(source, named)).await, "{source}, {named}");
    }
}
