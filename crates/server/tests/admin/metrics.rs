//! The metrics count what happened, in valid Prometheus format.

use std::sync::Arc;

use tidegate::Nanos;
use tidegate::engine::{AdHocLimit, AdHocRequest, Credential, Policy, Request, Trust};
use tidegate_server::identity::Rejection;
use tidegate_server::node::lifecycle::ReloadedPart;
use tidegate_server::observe::{LIMIT_SERIES_MAX, OTHER, Origin, Protocol, metrics_page};
use tidegate_server::settings::{Listener, Settings};

use super::client::get;
use super::exposition::Page;
use super::{POLICY, listen, node};

const ORIGIN: Origin<'static> = Origin { protocol: Protocol::Http, traceparent: None };

#[tokio::test]
async fn decisions_are_counted_and_keys_are_not_told() {
    let node = Arc::new(node(POLICY, Settings::default()));
    let address = listen(&node).await;
    let secret = "secret-user";
    for _ in 0..3 {
        let _ = node
            .check(
                ORIGIN,
                &Request::new().user(secret).plan("free").trust(Trust::from_hundredths(40).expect("a share")),
            )
            .await;
    }
    let _ = node.check(Origin { protocol: Protocol::Resp, ..ORIGIN }, &Request::new().client("friend")).await;
    let _ = node.check(ORIGIN, &Request::new().tenant("stranger")).await;
    let limit = AdHocLimit { capacity: 1, rate: 1, window: Nanos::HOUR };
    for _ in 0..3 {
        let _ = node
            .check_ad_hoc(ORIGIN, &AdHocRequest { key: b"secret-key", limit, cost: 1 })
            .await
            .expect("the numbers are good");
    }
    let reply = get(address, "/metrics").await;
    assert_eq!(reply.header("content-type"), Some("text/plain; version=0.0.4; charset=utf-8"));
    assert!(!reply.body.contains("secret"), "a client's key is nobody's label");
    let page = Page::parse(&reply.body);
    let of = |limit: &str, outcome: &str| {
        page.value("tidegate_decisions_total", &[("limit", limit), ("outcome", outcome)])
    };
    assert_eq!([of("per-user", "allowed"), of("per-user", "denied")], [2.0, 1.0]);
    assert_eq!([of("watched", "allowed"), of("watched", "shadow_denied")], [1.0, 2.0]);
    assert_eq!([of("tenant:acme", "allowed"), of("tenant:acme", "queued")], [0.0, 0.0]);
    let reason = |reason| page.value("tidegate_decisions_by_reason_total", &[("reason", reason)]);
    assert_eq!([reason("allowlisted"), reason("token_bucket_exceeded"), reason("blocked")], [1.0, 1.0, 0.0]);
    let throttled = |outcome| page.value("tidegate_throttle_decisions_total", &[("outcome", outcome)]);
    assert_eq!([throttled("allowed"), throttled("denied")], [1.0, 2.0]);
    let asked = |protocol| page.value("tidegate_requests_total", &[("protocol", protocol)]);
    assert_eq!([asked("http"), asked("resp"), asked("rls"), asked("ext_authz")], [7.0, 1.0, 0.0, 0.0]);
    assert_eq!(page.value("tidegate_unknown_tenants_total", &[]), 1.0);
    assert_eq!(page.value("tidegate_decision_duration_seconds_count", &[]), 8.0);
    assert_eq!(page.value("tidegate_retry_wait_seconds_count", &[]), 1.0);
    assert_eq!(page.value("tidegate_trust_score_count", &[]), 3.0);
    assert_eq!(page.value("tidegate_trust_score_bucket", &[("le", "0.4")]), 3.0);
    assert_eq!(page.value("tidegate_trust_score_bucket", &[("le", "0.3")]), 0.0);
    assert_eq!(page.value("tidegate_tokens_remaining_ratio_count", &[("limit", "per-user")]), 3.0);
    assert!(page.value("tidegate_keys", &[]) >= 2.0);
}

#[tokio::test]
async fn denials_by_an_ancestor_are_counted_by_its_depth() {
    let policy = "version: 1
limits: []
tenants:
- { id: root, rate_limit: { sharing: enforce, sustained: { rate: 4, window: hour }, budget: { mode: shared } } }
- { id: partner, parent: root, rate_limit: { sharing: enforce, sustained: { rate: 2, window: hour } } }
- { id: shop, parent: partner, rate_limit: { scope: user, sustained: { rate: 9, window: hour } } }
- { id: '*', parent: root, rate_limit: { sustained: { rate: 3, window: hour } } }
";
    let node = Arc::new(node(policy, Settings::default()));
    let address = listen(&node).await;
    for (tenant, count) in [("shop", 3), ("stranger", 3), ("partner", 1)] {
        for user in 0..count {
            let _ = node.check(ORIGIN, &Request::new().tenant(tenant).user(user.to_string())).await;
        }
    }
    let page = get(address, "/metrics").await;
    assert!(!page.body.contains("stranger"), "a client's word is nobody's label");
    let page = Page::parse(&page.body);
    let denied_at = |depth| page.value("tidegate_tenant_contention_total", &[("depth", depth)]);
    // `shop` is denied by the limit of `partner`, then one stranger and `partner` by the empty bucket of `root`.
    assert_eq!([denied_at("0"), denied_at("1")], [2.0, 1.0]);
}

#[tokio::test]
async fn every_contracted_metric_has_a_truthful_value_from_the_start() {
    let node = Arc::new(node(POLICY, Settings::default()));
    let page = Page::parse(&metrics_page(&node));
    for name in [
        "tidegate_keys_overflowed_total",
        "tidegate_degraded",
        "tidegate_policy_reload_failures_total",
        "tidegate_store_master_moves_total",
        "tidegate_store_sentinels_silent",
    ] {
        assert_eq!(page.value(name, &[]), 0.0, "{name}");
    }
    assert_eq!(page.value("tidegate_policy_version", &[]), 1.0);
    assert_eq!(page.value("tidegate_policy_limits", &[]), 4.0);
    assert_eq!(page.value("tidegate_ready", &[]), 1.0);
    for (kind, _) in tidegate_redis::ErrorCounts::default().by_kind() {
        assert_eq!(page.value("tidegate_store_errors_total", &[("kind", kind)]), 0.0);
    }
    for choice in ["local", "open", "closed"] {
        assert_eq!(page.value("tidegate_store_fallback_decisions_total", &[("choice", choice)]), 0.0);
    }
    let of_a_node = ["tidegate_store_up", "tidegate_store_calls_total", "tidegate_nodes"];
    assert_eq!(of_a_node.map(|name| page.value(name, &[])), [1.0, 0.0, 1.0]);
    assert_eq!(page.value("tidegate_lease_overshoot_bound_tokens", &[("limit", "per-user")]), 0.0);
    for action in ["warned", "blocked"] {
        assert_eq!(page.value("tidegate_burst_actions_total", &[("action", action)]), 0.0);
    }
    assert_eq!(page.value("tidegate_queue_wait_seconds_count", &[]), 0.0);
    let build = &page.0["tidegate_build_info"].samples[""][0];
    assert_eq!((build.0["version"].as_str(), build.1), (env!("CARGO_PKG_VERSION"), 1.0));
    if cfg!(target_os = "linux") {
        assert!(page.value("process_resident_memory_bytes", &[]) > 100_000.0);
        assert!(page.value("process_start_time_seconds", &[]) > 1_000_000_000.0);
    }
}

#[test]
fn what_is_wrong_shows() {
    let node = node(POLICY, Settings::default());
    node.limiter().set_kill_switch(true);
    node.metrics().reload_failed(ReloadedPart::Policy);
    (0..5).for_each(|_| node.metrics().connection_opened(Listener::Http));
    node.metrics().connection_closed(Listener::Http);
    node.metrics().connection_refused(Listener::Grpc);
    node.metrics().protocol_error(Listener::Resp);
    node.metrics().credential(Credential::Valid, None, None);
    node.metrics().credential(Credential::Invalid, Some(Rejection::Expired), None);
    node.limiter().swap(Policy::parse("version: 1\nlimits: []\n").expect("it is valid")).expect("it fits");
    let page = Page::parse(&metrics_page(&node));
    let plain = ["tidegate_degraded", "tidegate_kill_switch"];
    assert!(plain.iter().all(|name| page.value(name, &[]) == 1.0));
    for (credential, count) in [("none", 0.0), ("valid", 1.0), ("invalid", 1.0)] {
        assert_eq!(page.value("tidegate_credentials_total", &[("credential", credential)]), count);
    }
    for (why, count) in [("expired", 1.0), ("bad_signature", 0.0)] {
        assert_eq!(page.value("tidegate_tokens_rejected_total", &[("why", why)]), count);
    }
    assert_eq!(page.value("tidegate_policy_reload_failures_total", &[]), 1.0);
    assert_eq!(page.value("tidegate_policy_version", &[]), 2.0);
    assert_eq!(page.value("tidegate_connections", &[("listener", "http")]), 4.0);
    assert_eq!(page.value("tidegate_connections_opened_total", &[("listener", "http")]), 5.0);
    assert_eq!(page.value("tidegate_connections_refused_total", &[("listener", "grpc")]), 1.0);
    assert_eq!(page.value("tidegate_protocol_errors_total", &[("listener", "resp")]), 1.0);
    assert!(page.0["tidegate_decisions_total"].samples.is_empty(), "limits that are gone are gone");
}

#[tokio::test]
async fn thousands_of_tenants_do_not_make_thousands_of_series() {
    let tenants: String = (0..3_000)
        .map(|id| format!("  - {{ id: t{id}, rate_limit: {{ sustained: {{ rate: 9, window: hour }} }} }}\n"))
        .collect();
    let node = node(&format!("version: 1\nlimits: []\ntenants:\n{tenants}"), Settings::default());
    for id in 0..1_200 {
        let _ = node.check(ORIGIN, &Request::new().tenant(format!("t{id}"))).await;
    }
    let page = Page::parse(&metrics_page(&node));
    let decisions = &page.0["tidegate_decisions_total"].samples[""];
    let limits: std::collections::HashSet<&str> =
        decisions.iter().map(|(labels, _)| labels["limit"].as_str()).collect();
    assert_eq!(limits.len(), LIMIT_SERIES_MAX + 1);
    let allowed: f64 =
        decisions.iter().filter(|(labels, _)| labels["outcome"] == "allowed").map(|(_, value)| value).sum();
    assert_eq!(allowed, 1_200.0, "nothing is lost");
    let rest = page.value("tidegate_decisions_total", &[("limit", OTHER), ("outcome", "allowed")]);
    assert_eq!(rest, 200.0);
    assert_eq!(page.value("tidegate_policy_limits", &[]), 3_000.0);
}
