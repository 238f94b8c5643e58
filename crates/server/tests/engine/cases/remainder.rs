//! What remains of an allocated budget, for children without a rate of their own.

use serde_json::{Value, json};

use super::{allowed, decide, listed, members, refused, tenants, times};

/// A partner of 100 a minute that allots it: 40 to A, this much to B, and nothing to C and D.
fn partner(to_b: u32, budget: Value) -> Value {
    let a_minute = |rate: u32| json!({"sustained": {"rate": rate, "window": "minute"}});
    tenants(json!([
        {"id": "partner", "rate_limit": {
            "sharing": "enforce", "sustained": {"rate": 100, "window": "minute"}, "budget": budget,
        }},
        {"id": "a", "parent": "partner", "rate_limit": a_minute(40)},
        {"id": "b", "parent": "partner", "rate_limit": a_minute(to_b)},
        {"id": "c", "parent": "partner"},
        {"id": "d", "parent": "partner", "rate_limit": {"scope": "user"}},
    ]))
}

fn of(tenant: &str, count: usize) -> Vec<Value> {
    times(count, json!({"at_ms": 0, "tenant": tenant}))
}

/// After the burst, the children without a rate get 20 a minute together.
#[test]
fn children_without_a_rate_share_what_is_left() {
    let policy = partner(40, json!({"mode": "allocated", "total": 100}));
    let later = |tenant: &str| times(30, json!({"at_ms": 60_000, "tenant": tenant}));
    let trace = [of("c", 70), of("d", 70), later("c"), later("d"), later("a"), later("b")].concat();
    let decisions = decide(&policy, trace);
    assert_eq!(allowed(&decisions[..140]), 100, "the burst of the partner");
    assert_eq!(allowed(&decisions[140..200]), 20);
    assert_eq!(listed(&decisions[140]), ["tenant:partner", "tenant:partner:remainder", "tenant:c"]);
    let denied = members(&decisions[199], ["violated_rule", "violated_tier", "retry_after_ms"]);
    assert_eq!(denied, json!(["tenant:partner:remainder", "tenant", 3_000]));
    assert_eq!(allowed(&decisions[200..]), 60, "30 of 40 for each child that was allotted some");
    assert_eq!(listed(&decisions[200]), ["tenant:partner", "tenant:a"], "it does not draw on the remainder");
}

#[test]
fn the_remainder_is_rounded_down_in_the_parents_window() {
    let mut policy = partner(40, json!({"mode": "allocated", "total": 100}));
    policy["tenants"][2]["rate_limit"]["sustained"] = json!({"rate": 7, "window": "11s"});
    let decisions =
        decide(&policy, [of("c", 101), times(30, json!({"at_ms": 60_000, "tenant": "c"}))].concat());
    assert_eq!(allowed(&decisions[101..]), 21, "100 − 40 − 38.18…");
}

#[test]
fn with_nothing_left_or_a_reserve_such_a_child_is_refused_by_name() {
    let problems = refused(partner(60, json!({"mode": "allocated", "total": 100})));
    assert!(problems.contains("`c` has no rate of its own") && problems.contains("allotted all of its 100"));
    assert!(problems.contains("`d` has no rate of its own"), "{problems}");
    let reserved = refused(partner(40, json!({"mode": "allocated", "total": 100, "remainder": "reserve"})));
    assert!(reserved.contains("`c` has no rate of its own") && reserved.contains("in reserve"), "{reserved}");
    let overcommitted = json!({"mode": "allocated", "total": 100, "overcommit_ratio": 1.5});
    assert!(refused(partner(90, overcommitted)).contains("`c`"));
}

/// Everybody below such a child draws on the remainder too, even with a rate of its own.
#[test]
fn descendants_of_such_a_child_draw_on_it() {
    let mut policy = partner(40, json!({"mode": "allocated", "total": 100}));
    let leaf = json!({"id": "leaf", "parent": "c", "rate_limit": {"sustained": {"rate": 5}}});
    policy["tenants"].as_array_mut().unwrap().push(leaf);
    let decisions = decide(&policy, of("leaf", 1));
    assert_eq!(listed(&decisions[0]), ["tenant:partner", "tenant:partner:remainder", "tenant:leaf"]);
}

#[test]
fn a_private_parent_has_no_remainder() {
    let mut policy = partner(60, json!({"mode": "allocated", "total": 100}));
    policy["tenants"][0]["rate_limit"]["sharing"] = json!("private");
    let decisions = decide(&policy, of("c", 1));
    assert_eq!(members(&decisions[0], ["reason", "limits"]), json!(["no_limit", []]));
}

/// Tenants that are not listed share the remainder with the others; with a rate they neither add to the sum nor draw
/// on it.
#[test]
fn unlisted_tenants_and_the_remainder() {
    let mut policy = partner(60, json!({"mode": "allocated", "total": 100}));
    policy["tenants"].as_array_mut().unwrap().truncate(3);
    policy["tenants"].as_array_mut().unwrap().push(json!({"id": "*", "parent": "partner"}));
    assert!(refused(policy.clone()).contains("`*` has no rate of its own"));
    policy["tenants"][3]["rate_limit"] = json!({"sustained": {"rate": 30, "window": "minute"}});
    assert_eq!(listed(&decide(&policy, of("someone", 1))[0]), ["tenant:partner", "tenant:*"]);
    policy["tenants"][3].as_object_mut().unwrap().remove("rate_limit");
    policy["tenants"][2]["rate_limit"]["sustained"]["rate"] = json!(59);
    let decisions = decide(&policy, of("someone", 1));
    assert_eq!(listed(&decisions[0]), ["tenant:partner", "tenant:partner:remainder", "tenant:*"]);
}

#[test]
fn two_limits_do_not_share_a_name() {
    let mut policy = partner(40, json!({"mode": "allocated", "total": 100}));
    policy["tenants"].as_array_mut().unwrap().push(json!({
        "id": "partner:remainder", "parent": "partner", "rate_limit": {"sustained": {"rate": 1, "window": "minute"}},
    }));
    assert!(refused(policy).contains("two limits of tenants would be called `tenant:partner:remainder`"));
}
