//! Each sharing mode of a parent with each of a child, and a hierarchy of three levels.

use serde_json::{Value, json};

use super::{allowed, decide, limit_of, members, tenants, times};

/// A parent of 10 per minute with this sharing, and a child.
fn family(sharing: &str, child: Value) -> Value {
    let mut family = json!([
        {"id": "parent", "rate_limit": {"sharing": sharing, "sustained": {"rate": 10, "window": "minute"}}},
        {"id": "child", "parent": "parent"},
    ]);
    if !child.is_null() {
        family[1]["rate_limit"] = child;
    }
    tenants(family)
}

fn a_minute(rate: u32) -> Value {
    json!({"sustained": {"rate": rate, "window": "minute"}})
}

#[test]
fn a_private_parent_binds_no_child() {
    assert_eq!(limit_of(&family("private", a_minute(100)), "child"), 100);
    assert_eq!(limit_of(&family("private", a_minute(4)), "child"), 4);
    let without = decide(&family("private", Value::Null), vec![json!({"at_ms": 0, "tenant": "child"})]);
    assert_eq!(members(&without[0], ["reason", "limit", "limits"]), json!(["no_limit", -1, []]));
    assert_eq!(limit_of(&family("private", a_minute(100)), "parent"), 10, "itself is bound");
}

#[test]
fn a_child_without_numbers_inherits_them() {
    assert_eq!(limit_of(&family("inherit", Value::Null), "child"), 10);
    assert_eq!(limit_of(&family("enforce", Value::Null), "child"), 10);
    assert_eq!(limit_of(&family("inherit", json!({"sharing": "inherit"})), "child"), 10);
}

#[test]
fn an_inherited_limit_is_the_smaller_one() {
    assert_eq!(limit_of(&family("inherit", a_minute(4)), "child"), 4);
    assert_eq!(limit_of(&family("inherit", a_minute(100)), "child"), 10);
}

#[test]
fn an_enforced_limit_is_never_exceeded() {
    assert_eq!(limit_of(&family("enforce", a_minute(4)), "child"), 4);
    assert_eq!(limit_of(&family("enforce", a_minute(100)), "child"), 10);
}

/// The child has its own bucket and takes no tokens from others.
#[test]
fn without_a_budget_only_the_child_is_charged() {
    let family = family("enforce", a_minute(100));
    let trace = [
        times(11, json!({"at_ms": 0, "tenant": "child"})),
        times(10, json!({"at_ms": 0, "tenant": "parent"})),
    ];
    let decisions = decide(&family, trace.concat());
    assert_eq!(allowed(&decisions), 20);
    assert_eq!(decisions[10]["violated_rule"], "tenant:child");
    assert_eq!(decisions[10]["limits"].as_array().unwrap().len(), 1);
}

#[test]
fn what_is_above_a_private_node_still_binds() {
    let tree = tenants(json!([
        {"id": "top", "rate_limit": {"sharing": "enforce", "sustained": {"rate": 5, "window": "minute"}}},
        {"id": "middle", "parent": "top", "rate_limit": a_minute(3)},
        {"id": "leaf", "parent": "middle", "rate_limit": a_minute(100)},
    ]));
    assert_eq!(limit_of(&tree, "leaf"), 5);
    assert_eq!(limit_of(&tree, "middle"), 3);
}

/// Rate and burst are compared one by one, and rates across windows.
#[test]
fn rate_and_burst_are_separate() {
    let tree = tenants(json!([
        {"id": "parent", "rate_limit": {"sharing": "inherit", "sustained": {"rate": 60, "window": "minute"}, "burst": {"capacity": 100}}},
        {"id": "child", "parent": "parent", "rate_limit": {"sustained": {"rate": 2, "window": "second"}, "burst": {"capacity": 4}}},
    ]));
    let decisions = decide(&tree, times(5, json!({"at_ms": 0, "tenant": "child"})));
    assert_eq!(allowed(&decisions), 4, "the child's burst");
    assert_eq!(decisions[4]["retry_after_ms"], 1_000, "the parent's rate");
    assert_eq!(members(&decisions[4], ["limit", "remaining", "reset_after_ms"]), json!([4, 0, 4_000]));
}

/// A system, a partner below it and a tenant below that.
#[test]
fn three_levels() {
    let rate_limit = |rate: u32, burst: u32, total: u32| {
        json!({"sharing": "enforce", "sustained": {"rate": rate, "window": "minute"}, "burst": {"capacity": burst},
               "budget": {"mode": "allocated", "total": total}})
    };
    let leaf = json!({"sustained": {"rate": 1_000, "window": "minute"}, "burst": {"capacity": 100}});
    let tree = tenants(json!([
        {"id": "system", "rate_limit": rate_limit(10_000, 1_000, 10_000)},
        {"id": "partner-a", "parent": "system", "rate_limit": rate_limit(5_000, 500, 5_000)},
        {"id": "tenant-a1", "parent": "partner-a", "rate_limit": leaf},
    ]));
    let decisions = decide(&tree, times(101, json!({"at_ms": 0, "tenant": "tenant-a1"})));
    assert_eq!(allowed(&decisions), 100);
    let listed: Vec<Value> = decisions[99]["limits"]
        .as_array()
        .unwrap()
        .iter()
        .map(|entry| members(entry, ["name", "limit", "remaining"]))
        .collect();
    let expected =
        json!([["tenant:system", 1_000, 900], ["tenant:partner-a", 500, 400], ["tenant:tenant-a1", 100, 0]]);
    assert_eq!(Value::from(listed), expected);
    let denied = &decisions[100];
    assert_eq!(
        members(denied, ["violated_rule", "violated_tier", "retry_after_ms", "reset_after_ms"]),
        json!(["tenant:tenant-a1", "tenant", 60, 6_000])
    );
}

/// A parent only tightens: the child's own limit per second stays.
#[test]
fn a_window_keeps_its_length_under_a_slower_parent() {
    let window = |parent: Value| {
        tenants(json!([
            {"id": "parent", "rate_limit": parent},
            {"id": "child", "parent": "parent",
             "rate_limit": {"algorithm": "fixed_window", "sustained": {"rate": 5, "window": "second"}}},
        ]))
    };
    let enforce = |rate: u32| json!({"sharing": "enforce", "sustained": {"rate": rate, "window": "minute"}});
    assert_eq!(limit_of(&window(enforce(600)), "child"), 5);
    assert_eq!(limit_of(&window(enforce(100)), "child"), 1, "100 a minute are 1 a second, cut");
    assert_eq!(limit_of(&window(enforce(10)), "child"), 5, "fewer than 1 a second: a minute's window");
    let decisions = decide(&window(enforce(10)), times(20, json!({"at_ms": 0, "tenant": "child"})));
    assert_eq!(decisions[0]["reset_after_ms"], 60_000);
}

#[test]
fn a_parent_that_is_only_watched_takes_nothing_from_its_children() {
    let tree = tenants(json!([
        {"id": "parent", "rate_limit": {"sharing": "enforce", "mode": "shadow", "sustained": {"rate": 1}}},
        {"id": "child", "parent": "parent", "rate_limit": {"sustained": {"rate": 5}}},
    ]));
    assert_eq!(limit_of(&tree, "child"), 5);
}
