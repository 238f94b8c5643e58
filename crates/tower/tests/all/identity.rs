//! Members of a request that come from listed sources.

use crate::common::{TestLayer, from, header, layer, send};
use http::StatusCode;
use tidegate_tower::{IdentityMember, IdentitySources, KeyHolder};

const PER_TENANT: &str = "name: per-tenant, key: [tenant], sustained: { rate: 1, window: hour }";

fn per_tenant(sources: &[&str]) -> TestLayer {
    let sources = IdentitySources::new().with(IdentityMember::Tenant, sources.iter().copied()).unwrap();
    layer(&[PER_TENANT]).1.identity(sources)
}

fn admits(layer: &TestLayer, request: http::request::Builder) -> bool {
    send(layer, request).status() == StatusCode::OK
}

#[test]
fn a_header_counts_only_from_a_trusted_proxy() {
    let layer = per_tenant(&["header:x-tenant"]);
    let proxied = |tenant: &str| from("127.0.0.1").header("x-tenant", tenant);
    assert!(admits(&layer, proxied("acme")));
    assert!(!admits(&layer, proxied("acme")));
    assert!(admits(&layer, proxied("globex")));
    for _ in 0..3 {
        assert!(
            admits(&layer, from("203.0.113.7").header("x-tenant", "acme")),
            "a stranger speaks for nobody"
        );
        assert!(
            admits(&layer, crate::common::get("/").header("x-tenant", "acme")),
            "nor does an unknown peer"
        );
    }
}

#[test]
fn hosts_queries_claims_and_keys_are_sources_too() {
    let host = |host: &str| from("203.0.113.7").header("host", host);
    let layer = per_tenant(&["host:{tenant}.api.example.com"]);
    assert!(admits(&layer, host("acme.api.example.com")));
    assert!(!admits(&layer, host("ACME.api.example.com:8443")), "the same tenant");
    assert!(admits(&layer, host("globex.api.example.com")));

    let layer = per_tenant(&["query:tenant"]);
    let asked = |tenant: &str| from("203.0.113.7").uri(format!("/?tenant={tenant}"));
    assert!(admits(&layer, asked("acme")) && !admits(&layer, asked("%61cme")));

    let layer = per_tenant(&["jwt:org"]).with_request(|_, request| request.claim("org", "acme"));
    assert!(admits(&layer, from("203.0.113.7")) && !admits(&layer, from("203.0.113.8")));

    let layer = per_tenant(&["api_key"]);
    let holder = KeyHolder { tenant: Some("acme".into()), ..KeyHolder::default() };
    let keyed = || from("203.0.113.7").extension(holder.clone());
    assert!(admits(&layer, keyed()) && !admits(&layer, keyed()));
    assert!(admits(&layer, from("203.0.113.7")), "without a key there is no tenant");
}

#[test]
fn what_the_application_sets_stays() {
    let layer = per_tenant(&["header:x-tenant"]).with_request(|_, request| request.tenant("own"));
    assert!(admits(&layer, from("127.0.0.1").header("x-tenant", "acme")));
    assert!(!admits(&layer, from("127.0.0.1").header("x-tenant", "globex")));
}

#[test]
fn what_cannot_be_used_is_refused_by_name() {
    let layer = per_tenant(&["query:tenant"]);
    let refused = send(&layer, from("203.0.113.7").uri("/?tenant=a&tenant=b"));
    assert_eq!(refused.status(), StatusCode::BAD_REQUEST);
    assert_eq!(header(&refused, "content-type"), "application/problem+json");
    let body: serde_json::Value = serde_json::from_str(refused.body()).unwrap();
    assert_eq!((&body["field"], &body["status"]), (&"query:tenant".into(), &400.into()));
    let call = from("203.0.113.7").uri("/?tenant=a&tenant=b").header("content-type", "application/grpc");
    let refused = send(&layer, call);
    assert_eq!((refused.status(), header(&refused, "grpc-status")), (StatusCode::OK, "3"));
    assert!(header(&refused, "grpc-message").contains("`query:tenant` was sent more than once"));
}
