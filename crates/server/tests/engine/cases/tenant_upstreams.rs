//! Limits of tenants for single upstreams.

use serde_json::{Value, json};

use super::{allowed, decide, listed, members, refused, tenants, times};

/// A partner may spend 50 a minute on one upstream: 30 are allotted to A, the rest is for its other tenants.
fn policy() -> Value {
    let a_minute = |rate: u32| json!({"rate": rate, "window": "minute"});
    let mut policy = tenants(json!([
        {"id": "partner",
         "rate_limit": {"sharing": "enforce", "sustained": a_minute(100), "budget": {"mode": "shared"}},
         "upstreams": {"openai": {"rate_limit": {
             "sharing": "enforce", "sustained": a_minute(50), "burst": {"capacity": 50},
             "budget": {"mode": "allocated", "total": 50},
         }}}},
        {"id": "a", "parent": "partner",
         "upstreams": {"openai": {"rate_limit": {"sustained": a_minute(30)}}}},
        {"id": "b", "parent": "partner", "rate_limit": {"sustained": a_minute(80)}},
    ]));
    policy["upstreams"] = json!([{"name": "openai", "hosts": ["api.openai.com"]}, {"name": "other"}]);
    policy
}

fn to_host(tenant: &str, count: usize) -> Vec<Value> {
    times(count, json!({"at_ms": 0, "tenant": tenant, "host": "API.OpenAI.com:443"}))
}

#[test]
fn a_budget_for_an_upstream_is_allotted_down_the_tree() {
    let decisions = decide(&policy(), [to_host("a", 31), to_host("b", 30)].concat());
    assert_eq!(allowed(&decisions[..31]), 30);
    let names = ["tenant:partner", "tenant:partner/openai", "tenant:a", "tenant:a/openai"];
    assert_eq!(listed(&decisions[0]), names);
    assert_eq!(decisions[30]["violated_rule"], "tenant:a/openai");
    assert_eq!(allowed(&decisions[31..]), 20, "what the partner has left for this upstream");
    let names = [
        "tenant:partner",
        "tenant:partner/openai",
        "tenant:partner/openai:remainder",
        "tenant:b",
        "tenant:b/openai",
    ];
    assert_eq!(listed(&decisions[31]), names);
    assert_eq!(
        members(&decisions[60], ["allowed", "violated_rule"]),
        json!([false, "tenant:partner/openai"])
    );
}

#[test]
fn other_requests_meet_the_other_limits_only() {
    let request = |upstream: &str| times(1, json!({"at_ms": 0, "tenant": "b", "upstream": upstream}));
    for upstream in ["other", "undeclared"] {
        assert_eq!(listed(&decide(&policy(), request(upstream))[0]), ["tenant:partner", "tenant:b"]);
    }
    assert_eq!(listed(&decide(&policy(), request("openai"))[0]).len(), 5, "the request may name it");
}

/// Enforce means enforce within an upstream, too.
#[test]
fn stricter_wins_within_an_upstream() {
    let mut policy = policy();
    let of_partner = &mut policy["tenants"][0]["upstreams"]["openai"]["rate_limit"];
    of_partner.as_object_mut().unwrap().remove("budget");
    policy["tenants"][1]["upstreams"]["openai"]["rate_limit"]["strategy"] = json!("degrade");
    let decisions = decide(&policy, to_host("a", 60));
    assert_eq!(allowed(&decisions), 50);
    let names = ["tenant:partner", "tenant:partner/openai", "tenant:a", "tenant:a/openai"];
    assert_eq!(listed(&decisions[0]), names);
}

#[test]
fn unlisted_tenants_have_a_bucket_each_for_an_upstream() {
    let mut policy = policy();
    policy["tenants"].as_array_mut().unwrap().push(json!({
        "id": "*", "parent": "partner", "upstreams": {"openai": {"rate_limit": {"sustained": {"rate": 1, "window": "hour"}}}},
    }));
    let decisions = decide(&policy, [to_host("x", 2), to_host("y", 2)].concat());
    assert_eq!(allowed(&decisions), 2);
    assert_eq!(decisions[1]["violated_rule"], "tenant:*/openai");
}

#[test]
fn an_upstream_must_be_declared() {
    let mut policy = policy();
    policy["upstreams"][0]["name"] = json!("openaj");
    let problems = refused(policy);
    assert!(problems.contains("openai") && problems.contains("did you mean `openaj`?"), "{problems}");
}

#[test]
fn without_a_remainder_every_child_needs_numbers_for_the_upstream() {
    let mut policy = policy();
    policy["tenants"][0]["upstreams"]["openai"]["rate_limit"]["budget"]["remainder"] = json!("reserve");
    let problems = refused(policy);
    assert!(problems.contains("`b` has no rate of its own for `openai`"), "{problems}");
}
