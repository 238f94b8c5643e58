//! A decision allocates nothing, whether it admits or denies, for up to eight limits and two overrides of them.
//!
//! The second half lists what does allocate, so that the guarantee is not overrated.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use std::sync::Arc;

use tidegate::engine::{
    AdHocBuckets, AdHocLimit, GateBuilder, Limiter, OverrideRule, Overrides, Policy, PolicyBuilder, Request,
    RuleSet,
};
use tidegate::{Clock, Cost, ManualClock, Memory, MemoryOptions, Nanos, OverrideNumbers};

type Still = Limiter<Memory<ManualClock>, ManualClock>;

/// Six token buckets, a sliding and a fixed window; a route with a cost.
const EIGHT_LIMITS: &str = r#"
version: 1
limits:
- { name: per-user, key: [user], sustained: { rate: 10 }, burst: { capacity: 100 } }
- { name: per-address, key: [ip], sustained: { rate: 1000 }, burst: { capacity: 5000 } }
- { name: per-member, key: [tenant, user], sustained: { rate: 1000 }, burst: { capacity: 5000 } }
- { name: per-key, key: ["header:x-api-key"], sustained: { rate: 1000 }, burst: { capacity: 5000 } }
- { name: per-route, key: [route], sustained: { rate: 1000 }, burst: { capacity: 5000 } }
- { name: overall, key: [], sustained: { rate: 1000 }, burst: { capacity: 5000 } }
- { name: sliding, key: [user, ip], algorithm: sliding_window, sustained: { rate: 5000, window: minute } }
- name: fixed
  match: { path: /v1/chat/**, methods: [POST], plan: [free, trial] }
  key: [user, route]
  algorithm: fixed_window
  sustained: { rate: 5000, window: minute }
routes:
- { path: /v1/chat/*, cost: 10 }
"#;

/// Five limits, and a chain of three tenants that are all charged.
const FIVE_LIMITS_AND_A_CHAIN: &str = r#"
version: 1
limits:
- { name: per-user, key: [user], sustained: { rate: 10 }, burst: { capacity: 100 } }
- { name: per-address, key: [ip], sustained: { rate: 1000 }, burst: { capacity: 5000 } }
- { name: overall, key: [], sustained: { rate: 1000 }, burst: { capacity: 5000 } }
- { name: sliding, key: [user], algorithm: sliding_window, sustained: { rate: 5000, window: minute } }
- { name: fixed, key: [route], algorithm: fixed_window, sustained: { rate: 5000, window: minute } }
routes:
- { path: /v1/chat/*, cost: 10 }
tenants:
- id: system
  rate_limit: { sharing: enforce, sustained: { rate: 5000 }, budget: { mode: shared, total: 5000 } }
- id: partner
  parent: system
  rate_limit: { sharing: enforce, sustained: { rate: 4000 }, budget: { mode: shared, total: 4000 } }
- id: acme
  parent: partner
  rate_limit: { scope: user, sustained: { rate: 3000 } }
"#;

fn limiter(policy: &str) -> Still {
    let policy = Policy::parse(policy).expect("the policy is one");
    Limiter::in_memory(policy, MemoryOptions::default(), ManualClock::default()).expect("few limits")
}

fn request(ip: impl Into<IpAddr>) -> Request<'static> {
    let request = Request::new().tenant("acme").user("u-4711").ip(ip).plan("free").method("POST");
    let request = request.host("api.example.com").path("/v1/chat/completions").query("stream=true");
    request.header("X-Api-Key", "k-0123456789abcdef").header("accept", "application/json")
}

fn addresses() -> [IpAddr; 2] {
    [Ipv4Addr::new(203, 0, 113, 7).into(), Ipv6Addr::new(0x2001, 0xdb8, 1, 2, 3, 4, 5, 6).into()]
}

/// The number of allocations while `check` decides.
fn allocations(limiter: &Still, request: &Request<'_>) -> u64 {
    allocation_counter::measure(|| drop(limiter.check(request))).count_total
}

/// Ten requests that are admitted and ten that are denied, none of which may allocate.
fn assert_allocates_nothing(policy: &str, applying: usize) {
    for ip in addresses() {
        let (limiter, request) = (limiter(policy), request(ip));
        let asked = limiter.check(&request);
        assert_eq!(asked.limits().len(), applying, "{asked:?}");
        drop(asked);
        let costs: Vec<u64> = (0..9).map(|_| allocations(&limiter, &request)).collect();
        assert_eq!(costs, [0; 9], "admitted, {ip}");

        let denied = limiter.check(&request);
        assert_eq!(denied.violated_rule(), Some("per-user"), "{denied:?}");
        drop(denied);
        let costs: Vec<u64> = (0..10).map(|_| allocations(&limiter, &request)).collect();
        assert_eq!(costs, [0; 10], "denied, {ip}");

        // Time passes, and other users come, each with slots that were never used.
        limiter.clock().advance(Nanos::MINUTE);
        for user in ["another", "a third"] {
            assert_eq!(allocations(&limiter, &request.clone().user(user)), 0, "{user}, {ip}");
        }
    }
}

#[test]
fn eight_limits_allocate_nothing() {
    assert_allocates_nothing(EIGHT_LIMITS, 8);
}

#[test]
fn five_limits_and_a_chain_of_three_tenants_allocate_nothing() {
    assert_allocates_nothing(FIVE_LIMITS_AND_A_CHAIN, 8);
}

#[test]
fn gates_groups_shadows_and_detectors_allocate_nothing() {
    let limiter = limiter(
        r#"
version: 1
limits:
- { name: free, group: plans, match: { plan: free }, key: [user], sustained: { rate: 50 } }
- { name: others, group: plans, key: [user], sustained: { rate: 500 } }
- { name: tried-out, mode: shadow, key: [ip], sustained: { rate: 1 } }
- { name: marked, strategy: degrade, degrade: { tag: slow }, key: [client], sustained: { rate: 1 } }
- { name: stated, key: [user], cost: { from: "header:x-weight", max: 10 }, sustained: { rate: 500 } }
allow: [{ ip: 10.0.0.0/8 }]
block: [{ user: mallory }]
bursts: [{ name: burst, key: [user, route], window: 10s, threshold: 1000, penalty: 60s }]
"#,
    );
    let asked = request(Ipv4Addr::new(203, 0, 113, 7)).client("app").header("x-weight", "3");
    let allowed = asked.clone().ip(Ipv4Addr::new(10, 1, 2, 3));
    let blocked = asked.clone().user("mallory");
    let unlimited = Request::new().path("/");
    for request in [&asked, &allowed, &blocked, &unlimited] {
        let _ = limiter.check(request);
        let costs: Vec<u64> = (0..100).map(|_| allocations(&limiter, request)).collect();
        assert_eq!(costs, [0; 100]);
    }
    let counters = limiter.limit_counters();
    let of = |name: &str| counters.iter().find(|(known, _)| known == name).expect("a limit").1;
    assert!(of("free").denied > 0 && of("tried-out").shadow_denied > 0 && of("marked").degraded > 0);
    assert_eq!(of("others").allowed, 0, "the group is closed before it");
}

/// Overrides of these limits for the user of the requests.
fn overrides(limits: &[&str]) -> Overrides {
    let gate = GateBuilder::new().when("user", ["u-4711"]).reason("a test");
    let rules: RuleSet = PolicyBuilder::new().block_gate(gate).build().expect("a policy").into();
    let who = &rules.block().entries()[0];
    let numbers = OverrideNumbers::Times(200);
    Overrides::new(
        limits.iter().map(|limit| OverrideRule::new(limit, limit, numbers, who.clone(), Arc::default())),
    )
}

#[test]
fn two_overrides_allocate_nothing() {
    let (limiter, request) = (limiter(EIGHT_LIMITS), request(addresses()[0]));
    limiter.set_overrides(Some(overrides(&["per-user", "sliding"])));
    let asked = limiter.check(&request);
    assert_eq!(asked.limits().filter(|limit| limit.overridden.is_some()).count(), 2, "{asked:?}");
    drop(asked);
    // Twenty requests of ten tokens are admitted, and as many are denied.
    let costs: Vec<u64> = (0..40).map(|_| allocations(&limiter, &request)).collect();
    assert_eq!(costs, [0; 40]);
    assert!(!limiter.check(&request).is_allowed());
    assert_eq!(allocations(&limiter, &request.clone().user("another")), 0, "whoever has no override");
}

#[test]
fn a_peek_and_a_refund_allocate_nothing() {
    let (limiter, request) = (limiter(EIGHT_LIMITS), request(addresses()[0]));
    let _ = limiter.check(&request);
    let cost = allocation_counter::measure(|| {
        let _ = limiter.peek(&request);
        let _ = limiter.refund(&request, Cost::ONE);
    });
    assert_eq!(cost.count_total, 0);
}

#[test]
fn buckets_without_a_policy_allocate_nothing_once_their_numbers_are_known() {
    let clock = ManualClock::default();
    let throttle = AdHocBuckets::new(MemoryOptions::default(), clock.clone()).unwrap();
    let limit = AdHocLimit { capacity: 20, rate: 1, window: Nanos::SECOND };
    let _ = throttle.check(b"warm-up", limit, Cost::ONE).expect("good numbers");
    let (mut left, now) = (0, clock.now());
    let cost = allocation_counter::measure(|| {
        for _ in 0..30 {
            let told = throttle.take(b"bob", limit, Cost::ONE, now);
            left += told.map_or(0, |told| told.remaining);
            drop(throttle.check(b"alice", limit, Cost::ONE));
        }
    });
    assert_eq!((cost.count_total, left), (0, 19 * 20 / 2));
    assert_eq!((throttle.counters().allowed, throttle.counters().denied), (1 + 20 + 20, 10 + 10));
}

/// The exceptions. If one of them stops allocating, it belongs above.
#[test]
fn what_does_allocate() {
    let plain = request(addresses()[0]);
    let one = "version: 1\nlimits: [{ name: a, key: [user, route, host], sustained: { rate: 9 } }]";
    let log =
        "version: 1\nlimits: [{ name: a, key: [user], algorithm: sliding_log, sustained: { rate: 9 } }]";
    let by_method = "version: 1\nlimits: [{ name: a, key: [method], sustained: { rate: 9 } }]";
    let nine: String =
        (0..9).map(|i| format!("- {{ name: l{i}, key: [user], sustained: {{ rate: 9 }} }}\n")).collect();
    let nine = format!("version: 1\nlimits:\n{nine}");
    let cases: [(&str, &str, Request<'_>); 6] = [
        ("a path that is not in normal form", one, plain.clone().path("//v1/./chat")),
        ("a host in upper case", one, plain.clone().host("API.example.com")),
        ("a method in lower case as part of a key", by_method, plain.clone().method("post")),
        ("a sliding log that grows", log, plain.clone()),
        ("more than eight limits", &nine, plain.clone()),
        ("keys of more than 256 bytes together", one, plain.clone().user("u".repeat(300))),
    ];
    for (what, policy, request) in cases {
        let limiter = limiter(policy);
        let _ = limiter.check(&plain.clone().user("warm-up"));
        let costs: Vec<u64> = (0..9).map(|_| allocations(&limiter, &request)).collect();
        assert!(costs.iter().any(|&cost| cost > 0), "{what} allocates nothing any more: {costs:?}");
    }
    let limiter = limiter(EIGHT_LIMITS);
    limiter.set_overrides(Some(overrides(&["per-user", "sliding", "overall"])));
    drop(limiter.check(&plain));
    assert!(allocations(&limiter, &plain) > 0, "more than two overrides");
}
