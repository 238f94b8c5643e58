use std::time::{Duration, SystemTime};

use tidegate_core::{Algorithm, Carry};

use super::*;
use crate::document::{BudgetMode, Missing, Sharing};
use crate::read;

/// A document without positions: a built one has none.
fn without_positions(document: &Document) -> String {
    let text = format!("{document:?}");
    let mut parts = text.split("Span {");
    let mut plain = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        plain.push_str(part.split_once('}').expect("a span ends").1);
    }
    plain
}

fn assert_same(built: PolicyBuilder, written: &str) {
    let (built, problems) = built.into_document();
    assert_eq!(problems, []);
    let (read, problems) = read(written);
    assert_eq!(problems, []);
    assert_eq!(without_positions(&built), without_positions(&read));
}

#[test]
fn a_policy_that_was_built_is_the_one_that_would_have_been_read() {
    let search = LimitBuilder::new("search", 30, Duration::from_secs(60))
        .key(["user", "ip"])
        .burst(40)
        .when("path", ["/search/**"])
        .when("plan", ["free", "trial"])
        .unless("ip", ["10.0.0.0/8"])
        .unless("method", ["GET"])
        .missing(Missing::Shared)
        .group("plans")
        .description("searches are expensive")
        .carry(Carry::Proportional)
        .cost_from("header:x-cost", 2, 9)
        .retry_jitter(25)
        .on_store_error(OnStoreError::Closed)
        .queue(5, Duration::from_millis(1_500));
    let all =
        LimitBuilder::per_hour("all", 1_000).algorithm(Algorithm::FixedWindow).cost_per_call(3).shadow();
    assert_same(
        PolicyBuilder::new()
            .limit(search)
            .limit(all.headers([HeaderFamily::Ietf]))
            .block("ip", ["203.0.113.0/24"]),
        "version: 1
limits:
- name: search
  key: [user, ip]
  sustained: { rate: 30, window: minute }
  burst: { capacity: 40 }
  match: { path: /search/**, plan: [free, trial] }
  unless: { ip: 10.0.0.0/8, method: GET }
  missing: shared
  group: plans
  description: searches are expensive
  carry: proportional
  cost: { from: 'header:x-cost', default: 2, max: 9 }
  retry_jitter: 0.25
  on_store_error: closed
  strategy: queue
  queue: { max_depth: 5, max_wait: 1500ms }
- name: all
  key: []
  sustained: { rate: 1000, window: hour }
  algorithm: fixed_window
  cost: { fixed: 3 }
  mode: shadow
  headers: ietf
  response_headers: true
block:
- { ip: 203.0.113.0/24 }
",
    );
}

#[test]
fn remainders_upstreams_and_unlisted_tenants_are_built_too() {
    let minute = Duration::from_secs(60);
    let built = PolicyBuilder::new()
        .upstream("openai", ["api.openai.com"])
        .tenant(
            TenantBuilder::new("a")
                .rate(100, minute)
                .reserve_remainder()
                .budget(BudgetMode::Allocated, 90)
                .upstream("openai", |limit| limit.rate(50, minute).budget(BudgetMode::Shared, 40)),
        )
        .tenant(TenantBuilder::unlisted().parent("a").rate(5, minute))
        .default_tenant("a");
    assert_same(
        built,
        "version: 1
defaults: { tenant: a }
upstreams:
- { name: openai, hosts: [api.openai.com] }
tenants:
- id: a
  rate_limit:
    sustained: { rate: 100, window: minute }
    budget: { mode: allocated, total: 90, overcommit_ratio: 1.0, remainder: reserve }
  upstreams:
    openai:
      rate_limit:
        sustained: { rate: 50, window: minute }
        budget: { mode: shared, total: 40, overcommit_ratio: 1.0 }
- { id: '*', parent: a, rate_limit: { sustained: { rate: 5, window: minute } } }
",
    );
}

#[test]
fn tenants_routes_gates_and_detectors_are_built_too() {
    let minute = Duration::from_secs(60);
    let gate = GateBuilder::new().when("ip", ["10.0.0.0/8"]).when("method", ["GET"]).reason("internal");
    let built = PolicyBuilder::new()
        .route("/v1/chat", 10)
        .route_for(["GET"], "/v1/models", 1)
        .upstream("openai", ["api.openai.com", "*.openai.com"])
        .upstream("named", [""; 0])
        .tenant(TenantBuilder::new("a").rate(100, minute).sharing(Sharing::Enforce).overcommitted_budget(
            BudgetMode::Allocated,
            90,
            120,
        ))
        .tenant(TenantBuilder::new("b").parent("a").rate(50, minute).burst(60).degrade("slow"))
        .tenant(TenantBuilder::new("c"))
        .allow_gate(gate.until(SystemTime::UNIX_EPOCH + Duration::from_secs(1_798_761_600)))
        .detector(DetectorBuilder::new("d", ["ip"]).threshold(9).window(minute).penalty(minute * 2))
        .adaptive_trust()
        .deny_unknown_tenants()
        .shadow()
        .headers([])
        .retry_jitter(5)
        .on_store_error(OnStoreError::Open)
        .priority_from("header:x-priority")
        .paths(PathSpelling { ignore_case: true, ..PathSpelling::default() });
    assert_same(
        built,
        "version: 1
defaults:
  unknown_tenant: deny
  mode: shadow
  headers: []
  response_headers: false
  retry_jitter: 0.05
  on_store_error: open
  priority: { from: 'header:x-priority' }
  paths: { ignore_case: true }
routes:
- { path: /v1/chat, cost: 10 }
- { path: /v1/models, methods: GET, cost: 1 }
upstreams:
- { name: openai, hosts: [api.openai.com, '*.openai.com'] }
- { name: named }
tenants:
- id: a
  rate_limit:
    sustained: { rate: 100, window: minute }
    sharing: enforce
    budget: { mode: allocated, total: 90, overcommit_ratio: 1.2 }
- id: b
  parent: a
  rate_limit:
    sustained: { rate: 50, window: minute }
    burst: { capacity: 60 }
    strategy: degrade
    degrade: { tag: slow }
- id: c
allow:
- { ip: 10.0.0.0/8, method: GET, reason: internal, until: 2027-01-01T00:00:00Z }
bursts:
- { name: d, key: [ip], threshold: 9, window: 60s, penalty: 120s }
adaptive: { trust: true }
",
    );
}

#[test]
fn the_last_word_counts() {
    let limit =
        LimitBuilder::per_second("a", 1).burst(2).burst(3).queue(1, Duration::from_secs(1)).degrade("slow");
    let policy = PolicyBuilder::new().limit(limit.shadow()).build().unwrap();
    assert_eq!(policy.rules.rules()[0].limit.capacity(), 3);
    assert_eq!(policy.warnings, []);
}

#[test]
fn what_was_wrong_with_a_value_goes_with_it() {
    let (odd, good) = (Duration::from_nanos(1), Duration::from_secs(1));
    let limit = LimitBuilder::new("a", 1, good).queue(1, odd).degrade("slow");
    let tenant = TenantBuilder::new("t").rate(1, odd).rate(1, good);
    let policy = PolicyBuilder::new().limit(limit).tenant(tenant).build();
    assert!(policy.is_ok(), "{policy:?}");
    let wrong = TenantBuilder::new("t").rate(1, good).rate(1, odd);
    assert!(PolicyBuilder::new().tenant(wrong).build().is_err());
}

#[test]
fn a_tenant_without_a_budget_of_its_own_is_not_warned_of_one() {
    let tenant = TenantBuilder::new("t").rate(5, Duration::from_secs(1)).budget(BudgetMode::Unlimited, 5);
    assert_eq!(PolicyBuilder::new().tenant(tenant).build().unwrap().warnings, []);
}

#[test]
fn every_problem_is_told_by_its_path_and_without_a_line() {
    let error = PolicyBuilder::new()
        .limit(LimitBuilder::per_second("a", 0).key(["usr"]))
        .limit(LimitBuilder::new("b", 1, Duration::from_nanos(1_500)))
        .limit(LimitBuilder::per_second("c", 1).retry_jitter(60))
        .tenant(TenantBuilder::new("t").queue(1, Duration::from_micros(1)))
        .allow_gate(GateBuilder::new().when("path", ["/a"]).when("path", ["/b"]))
        .block_gate(GateBuilder::new())
        .build()
        .unwrap_err()
        .to_string();
    for part in [
        "limits[0].sustained.rate: 0 is out of range",
        "limits[0].key[0]: \"usr\" is not a descriptor",
        "limits[1].sustained.window: not a whole number of milliseconds; saw 1.5µs",
        "limits[2].retry_jitter: 0.60 is out of range",
        "tenants[0].rate_limit.queue.max_wait: not a whole number of milliseconds; saw 1µs",
        "allow[0].path: a second condition on `path`",
        "block[0]: ",
    ] {
        assert!(error.contains(part), "{part}: {error}");
    }
    assert!(!error.contains("line 0"), "{error}");
}

#[test]
fn what_routes_limits_and_upstreams_can_have_can_be_built() {
    let route = RouteBuilder::new("/render/**").methods(["POST"]).upstream("renderer");
    let route = route.unless("plan", ["internal"]).unless("ip", ["10.0.0.0/8"]).cost(5);
    assert_same(
        PolicyBuilder::new()
            .limit(LimitBuilder::per_second("all", 2).burst(40).absorbs(2, 40))
            .add_route(route)
            .add_route(RouteBuilder::new("/free"))
            .add_upstream(UpstreamBuilder::new("renderer").hosts(["*.render.example.com"]).absorbs(3, 50))
            .add_upstream(UpstreamBuilder::new("named")),
        "version: 1
limits:
- { name: all, key: [], sustained: { rate: 2 }, burst: { capacity: 40 }, absorbs: { rate: 2, burst: 40 } }
routes:
- { path: /render/**, methods: [POST], upstream: renderer, unless: { plan: internal, ip: 10.0.0.0/8 }, cost: 5 }
- { path: /free }
upstreams:
- { name: renderer, hosts: ['*.render.example.com'], absorbs: { rate: 3, burst: 50 } }
- { name: named }
",
    );
}
