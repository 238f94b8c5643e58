//! What a child writes can add limits, and never loosens those of an ancestor.

use serde_json::{Value, json};

use super::{allowed, decide, listed, members, tenants, times};

/// A parent of 10 per minute that binds its child, whose limit of 60 has this member.
fn family(member: &str, value: Value) -> Value {
    let mut child = json!({"sustained": {"rate": 60, "window": "minute"}});
    child[member] = value;
    tenants(json!([
        {"id": "parent", "rate_limit": {"sharing": "enforce", "sustained": {"rate": 10, "window": "minute"}}},
        {"id": "child", "parent": "parent", "rate_limit": child},
    ]))
}

fn by_users(count: usize) -> Vec<Value> {
    (0..count).map(|user| json!({"at_ms": 0, "tenant": "child", "user": user.to_string()})).collect()
}

#[test]
fn no_member_of_a_childs_limit_loosens_its_parent() {
    let members = [
        ("strategy", json!("degrade")),
        ("strategy", json!("queue")),
        ("mode", json!("shadow")),
        ("scope", json!("user")),
        ("algorithm", json!("fixed_window")),
        ("cost", json!({"from": "header:x-none", "default": 1})),
        ("on_store_error", json!("open")),
    ];
    for (member, value) in members {
        let decisions = decide(&family(member, value.clone()), by_users(60));
        assert_eq!(allowed(&decisions), 10, "{member}: {value}");
        assert_eq!(listed(&decisions[0]), ["tenant:parent", "tenant:child"], "{member}: {value}");
        assert_eq!(decisions[10]["limits"][0]["limit"], 10);
    }
}

/// The bucket is the child's alone: neither the parent nor a sister takes from it.
#[test]
fn an_enforced_limit_has_a_bucket_for_each_tenant() {
    let mut family = family("scope", json!("user"));
    let mut sister = family["tenants"][1].clone();
    sister["id"] = json!("sister");
    family["tenants"].as_array_mut().unwrap().push(sister);
    let of = |tenant: &str| times(20, json!({"at_ms": 0, "tenant": tenant, "user": "1"}));
    let decisions = decide(&family, [of("child"), of("sister"), of("parent")].concat());
    assert_eq!(allowed(&decisions[..20]), 10);
    assert_eq!(allowed(&decisions[20..40]), 10);
    assert_eq!(allowed(&decisions[40..]), 10);
}

#[test]
fn the_same_members_need_no_second_bucket() {
    let decisions = decide(&family("strategy", json!("reject")), by_users(11));
    assert_eq!((allowed(&decisions), listed(&decisions[0])), (10, vec!["tenant:child"]));
}

/// A pool is taken from by all children anyway.
#[test]
fn a_budget_needs_no_second_bucket() {
    let mut family = family("mode", json!("shadow"));
    family["tenants"][0]["rate_limit"]["budget"] = json!({"mode": "shared"});
    let decisions = decide(&family, by_users(11));
    assert_eq!((allowed(&decisions), listed(&decisions[0])), (10, vec!["tenant:parent", "tenant:child"]));
}

/// The nearest ancestor that refuses speaks; the numbers are the lowest of all ancestors that cap the tenant.
#[test]
fn what_a_degrading_parent_says_does_not_loosen_its_own_parent() {
    let a_minute = |rate: u32| json!({"rate": rate, "window": "minute"});
    let tree = tenants(json!([
        {"id": "top", "rate_limit": {"sharing": "enforce", "sustained": a_minute(5)}},
        {"id": "middle", "parent": "top",
         "rate_limit": {"sharing": "inherit", "strategy": "degrade", "sustained": a_minute(3)}},
        {"id": "leaf", "parent": "middle"},
        {"id": "other", "parent": "top", "rate_limit": {"scope": "user", "sustained": a_minute(9)}},
    ]));
    let of = |tenant: &str| times(6, json!({"at_ms": 0, "tenant": tenant, "user": "1"}));
    let decisions = decide(&tree, [of("middle"), of("leaf"), of("other")].concat());
    assert_eq!(members(&decisions[3], ["allowed", "degraded"]), json!([true, true]));
    assert_eq!(members(&decisions[5], ["allowed", "violated_rule"]), json!([false, "tenant:top"]));
    assert_eq!(listed(&decisions[6]), ["tenant:top", "tenant:leaf"]);
    assert_eq!(allowed(&decisions[6..12]), 3, "the lowest of the numbers above it");
    assert_eq!(allowed(&decisions[12..]), 5);
}

/// A tenant without a limit does what its parent's limit says, except for the scope.
#[test]
fn a_tenant_without_a_limit_takes_mode_strategy_and_cost() {
    let child = |limit: Value| {
        let tree =
            tenants(json!([{"id": "parent", "rate_limit": limit}, {"id": "child", "parent": "parent"}]));
        decide(&tree, by_users(3))
    };
    let limit = |member: &str, value: Value| {
        let mut limit = json!({"sharing": "inherit", "sustained": {"rate": 2, "window": "minute"}});
        limit[member] = value;
        limit
    };
    let degraded = child(limit("strategy", json!("degrade")));
    assert_eq!(members(&degraded[2], ["allowed", "degraded"]), json!([true, true]));
    assert_eq!(allowed(&child(limit("cost", json!(2)))), 1);
    assert_eq!(allowed(&child(limit("scope", json!("user")))), 2, "one bucket for the whole tenant");
    let shadow = child(limit("mode", json!("shadow")));
    assert_eq!(members(&shadow[2], ["allowed", "reason"]), json!([true, "no_limit"]), "it caps nobody");
}

/// The cost that a tenant's limit states is not replaced by that of the route.
#[test]
fn a_tenants_own_cost_comes_before_the_routes() {
    let tree = |limit: Value| {
        let mut policy = tenants(json!([{"id": "acme", "rate_limit": limit}]));
        policy["routes"] = json!([{"path": "/dear", "cost": 5}]);
        decide(&policy, times(10, json!({"at_ms": 0, "tenant": "acme", "path": "/dear"})))
    };
    assert_eq!(allowed(&tree(json!({"sustained": {"rate": 10}}))), 2);
    assert_eq!(allowed(&tree(json!({"sustained": {"rate": 10}, "cost": 2}))), 5);
}
