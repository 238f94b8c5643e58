//! How the client of a request is found.

use std::net::IpAddr;
use std::sync::Arc;

use crate::common::{TestLayer, from, get, header, layer, send};
use http::StatusCode;
use tidegate::engine::trust::{AccountFacts, TrustOptions};
use tidegate::engine::{Limiter, Policy, Trust};
use tidegate::{Clock, Cost, ManualClock, MemoryOptions};
use tidegate_tower::ForwardedSource;

const PER_IP: &str = "name: per-ip, key: [ip], sustained: { rate: 1, window: hour }";

fn per_ip() -> TestLayer {
    layer(&[PER_IP]).1
}

fn admits(layer: &TestLayer, request: http::request::Builder) -> bool {
    send(layer, request).status() == StatusCode::OK
}

#[test]
fn each_address_has_its_own_budget() {
    let layer = per_ip();
    assert!(admits(&layer, from("203.0.113.7")));
    assert!(!admits(&layer, from("203.0.113.7")));
    assert!(admits(&layer, from("203.0.113.8")));
}

#[test]
fn a_spoofed_header_from_a_stranger_changes_nothing() {
    let layer = per_ip();
    assert!(admits(&layer, from("203.0.113.7")));
    for spoofed in ["1.2.3.4", "127.0.0.1", "203.0.113.8, 127.0.0.1", ""] {
        let request = from("203.0.113.7").header("x-forwarded-for", spoofed);
        assert!(!admits(&layer, request.header("forwarded", "for=1.2.3.4")), "{spoofed}");
    }
    assert!(admits(&layer, from("1.2.3.4")), "no request was charged to this address");
}

#[test]
fn behind_a_proxy_the_client_is_whom_the_proxy_names() {
    let layer = per_ip().trusted_proxies(["10.0.0.0/8".parse().unwrap()]);
    let behind = |line: &str| from("10.0.0.1").header("x-forwarded-for", line);
    assert!(admits(&layer, behind("203.0.113.7")));
    assert!(!admits(&layer, behind("1.2.3.4, 203.0.113.7")), "what the client adds does not count");
    assert!(!admits(&layer, behind("203.0.113.7, 10.0.0.2")));
    assert!(!admits(&layer, behind("1.2.3.4").header("x-forwarded-for", "203.0.113.7")), "two lines");
    assert!(!admits(&layer, from("203.0.113.7")), "whether there is a proxy or not");
    assert!(admits(&layer, from("127.0.0.1").header("x-forwarded-for", "203.0.113.7")), "no longer trusted");
}

#[test]
fn only_one_header_is_ever_looked_at() {
    let layer = per_ip().client_address_from(ForwardedSource::Forwarded);
    let behind = |line: &str| from("127.0.0.1").header("forwarded", line);
    assert!(admits(&layer, behind("for=203.0.113.7")));
    assert!(!admits(&layer, behind("for=\"203.0.113.7:4711\"").header("x-forwarded-for", "1.2.3.4")));

    let layer = per_ip().client_address_from(ForwardedSource::Peer);
    assert!(admits(&layer, from("127.0.0.1").header("x-forwarded-for", "1.2.3.4")));
    assert!(!admits(&layer, from("127.0.0.1").header("x-forwarded-for", "1.2.3.5")));
}

#[test]
fn an_ipv6_client_owns_a_whole_network() {
    let layer = per_ip();
    assert!(admits(&layer, from("2001:db8:1:2::1")));
    assert!(!admits(&layer, from("2001:db8:1:2:ffff::2")), "another address of the same /64");
    assert!(admits(&layer, from("2001:db8:1:3::1")));
    assert!(admits(&layer, from("203.0.113.7")));
    assert!(!admits(&layer, from("::ffff:203.0.113.7")), "IPv4 within IPv6 is IPv4");
}

#[test]
fn the_address_may_come_from_somewhere_else() {
    #[derive(Clone)]
    struct Connection(IpAddr);

    let layer = per_ip().peer_address(|extensions| extensions.get().map(|Connection(address)| *address));
    let over = |address: &str| get("/").extension(Connection(address.parse().unwrap()));
    assert!(admits(&layer, over("203.0.113.7")));
    assert!(!admits(&layer, over("203.0.113.7")));
    assert!(admits(&layer, from("203.0.113.7")), "`PeerAddr` is no longer read");
}

#[test]
fn without_an_address_limits_by_address_do_not_apply() {
    let layer = per_ip();
    for _ in 0..3 {
        assert!(admits(&layer, get("/").header("x-forwarded-for", "203.0.113.7")));
    }
}

#[test]
fn axum_tells_the_address_by_itself() {
    let layer = per_ip();
    let over = || {
        let peer = std::net::SocketAddr::from(([203, 0, 113, 7], 4711));
        get("/").extension(axum::extract::ConnectInfo(peer))
    };
    assert!(admits(&layer, over()));
    assert!(!admits(&layer, over()));
}

#[derive(Clone)]
struct Account {
    user: String,
    tenant: &'static str,
    plan: &'static str,
}

#[test]
fn the_application_adds_what_only_it_knows() {
    let (_, layer) = layer(&[
        "name: free, key: [tenant, user], match: { plan: free }, sustained: { rate: 1, window: hour }",
        "name: claims, key: ['jwt:sub'], sustained: { rate: 2, window: hour }",
    ]);
    let layer = layer.with_request(|parts, request| match parts.extensions.get::<Account>() {
        Some(account) => request.user(&account.user).tenant(account.tenant).plan(account.plan),
        None => request.claim("sub", "somebody"),
    });
    let of = |user: &str, tenant, plan| get("/").extension(Account { user: user.to_owned(), tenant, plan });
    assert!(admits(&layer, of("alice", "a", "free")));
    assert!(!admits(&layer, of("alice", "a", "free")));
    assert!(admits(&layer, of("alice", "b", "free")), "the same user of another tenant");
    assert!(admits(&layer, of("alice", "a", "paid")));
    assert_eq!([0; 3].map(|_| admits(&layer, get("/"))), [true, true, false]);
}

#[test]
fn the_application_sets_cost_and_trust() {
    let (_, limiter) = crate::common::limiter(
        "version: 1\n\
         limits: [{ name: per-key, key: ['header:x-api-key'], sustained: { rate: 10, window: hour } }]\n\
         adaptive: { trust: true }\n",
    );
    let layer = tidegate_tower::RateLimitLayer::new(limiter).with_request(|parts, request| {
        let cost = if parts.uri.path() == "/heavy" { 5 } else { 1 };
        let trusted = parts.headers.contains_key("x-trusted");
        request.cost(Cost::new(cost)).trust(if trusted { Trust::FULL } else { Trust::NONE })
    });
    let plain = send(&layer, get("/heavy").header("x-api-key", "a"));
    assert_eq!(header(&plain, "x-ratelimit-remaining"), "5");
    let trusted = send(&layer, get("/").header("x-api-key", "b").header("x-trusted", "1"));
    assert_eq!(header(&trusted, "x-ratelimit-limit"), "20");
}

#[test]
fn paths_methods_hosts_and_queries_are_matched() {
    let (_, layer) = layer(&[
        "name: videos, scope: global, match: { path: /api/videos/**, methods: [POST], host: api.example.com, \
         'query:q': cats }, sustained: { rate: 1, window: hour }",
    ]);
    let post = |host: &str, uri: &str| get(uri).method("POST").header("host", host);
    assert!(admits(&layer, post("api.example.com", "/api/videos/1?q=cats")));
    assert!(!admits(&layer, post("API.example.com:8443", "/api//videos/./2?q=cats")));
    assert!(admits(&layer, post("api.example.com", "/api/videos/1?q=dogs")));
    assert!(admits(&layer, post("example.com", "/api/videos/1?q=cats")));
    assert!(admits(&layer, get("/api/videos/1?q=cats").header("host", "api.example.com")), "GET");
}

#[test]
fn the_trust_that_the_program_tells_is_applied() {
    let policy = Policy::parse(
        "version: 1\nadaptive: { trust: true }\n\
         limits: [{ name: per-user, key: [user], sustained: { rate: 10, window: hour } }]\n",
    );
    let options = MemoryOptions { max_keys: 1_000, ..MemoryOptions::default() };
    let limiter = Limiter::in_memory(policy.unwrap(), options, ManualClock::default()).unwrap();
    let limiter = Arc::new(limiter.with_trust(TrustOptions::default()));
    let verified = AccountFacts { email_verified: Some(true), ..AccountFacts::default() };
    limiter.trust_book().unwrap().set_facts("ann", verified, limiter.clock().wall());
    let layer = tidegate_tower::RateLimitLayer::new(limiter)
        .with_request(|parts, request| request.user(parts.uri.path().trim_start_matches('/').to_owned()));
    let limit = |path| header(&send(&layer, get(path)), "x-ratelimit-limit").to_owned();
    assert_eq!([limit("/ann"), limit("/bob")], ["12", "10"]);
}
