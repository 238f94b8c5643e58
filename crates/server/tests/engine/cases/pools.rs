//! Budgets: shared pools, allocations, overcommitment.

use serde_json::{Value, json};

use super::{allowed, decide, tenants, times};
use crate::engine::Case;

/// A parent with a budget, and children with these rates per minute.
fn pool(budget: Value, parent_rate: u32, children: &[u32]) -> Value {
    let mut tree = vec![json!({"id": "parent", "rate_limit": {
        "sharing": "inherit", "sustained": {"rate": parent_rate, "window": "minute"}, "budget": budget,
    }})];
    for (number, rate) in children.iter().enumerate() {
        let limit = json!({"sustained": {"rate": rate, "window": "minute"}});
        tree.push(json!({"id": format!("child-{number}"), "parent": "parent", "rate_limit": limit}));
    }
    tenants(Value::from(tree))
}

fn of(child: &str, count: usize) -> Vec<Value> {
    times(count, json!({"at_ms": 0, "tenant": child}))
}

#[test]
fn a_shared_pool_serves_whoever_comes_first() {
    let policy = pool(json!({"mode": "shared", "total": 100}), 100, &[80, 80]);
    let decisions = decide(&policy, [of("child-0", 81), of("child-1", 30)].concat());
    assert_eq!(allowed(&decisions[..81]), 80);
    assert_eq!(decisions[80]["violated_rule"], "tenant:child-0");
    assert_eq!(allowed(&decisions[81..]), 20, "what was left of the pool");
    assert_eq!(decisions[101]["violated_rule"], "tenant:parent");
    assert_eq!(decisions[101]["limits"][1]["remaining"], 60, "a denial takes nothing from the child");
}

/// The check of allocations: 2000 + 1000 + 3000 exceed 5000; with an overcommitment of one half they fit.
#[test]
fn more_than_the_budget_cannot_be_promised() {
    let children = [2_000, 1_000, 3_000];
    let strict = pool(json!({"mode": "allocated", "total": 5_000}), 5_000, &children);
    let problems = Case::new(strict, vec![]).decided().unwrap_err();
    assert!(problems.contains("6000") && problems.contains("5000"), "{problems}");
    let fitting = pool(json!({"mode": "allocated", "total": 6_000}), 5_000, &children);
    assert_eq!(Case::new(fitting, vec![]).decided(), Ok(vec![]));
    let loose = pool(json!({"mode": "allocated", "total": 5_000, "overcommit_ratio": 1.5}), 5_000, &children);
    assert_eq!(Case::new(loose, vec![]).decided(), Ok(vec![]));
    let too_much =
        pool(json!({"mode": "allocated", "total": 5_000, "overcommit_ratio": 1.5}), 5_000, &[4_000, 3_501]);
    let problems = Case::new(too_much, vec![]).decided().unwrap_err();
    assert!(problems.contains("7501"), "{problems}");
}

/// Whatever the sum of the children's rates, together they get what the parent has.
#[test]
fn overcommitted_children_never_exceed_the_parent() {
    let budget = json!({"mode": "allocated", "total": 50, "overcommit_ratio": 1.2});
    let policy = pool(budget, 50, &[30, 30]);
    let decisions = decide(&policy, [of("child-0", 30), of("child-1", 30)].concat());
    assert_eq!(allowed(&decisions), 50);
    assert_eq!(decisions[59]["violated_rule"], "tenant:parent");
}

#[test]
fn a_budget_caps_the_rate_of_its_node_and_of_those_below_but_no_burst() {
    let policy = pool(json!({"mode": "shared", "total": 6}), 60, &[]);
    let decisions = decide(&policy, of("parent", 61));
    assert_eq!(allowed(&decisions), 60, "the burst");
    assert_eq!(decisions[60]["retry_after_ms"], 10_000, "six a minute");
    let above_a_child = decide(&pool(json!({"mode": "shared", "total": 6}), 60, &[30]), of("child-0", 31));
    let limits: Vec<&Value> =
        above_a_child[0]["limits"].as_array().unwrap().iter().map(|entry| &entry["limit"]).collect();
    assert_eq!(limits, [60, 30]);
    assert_eq!(above_a_child[30]["retry_after_ms"], 10_000, "the child has the parent's rate");
}

/// Five a second with a burst of twenty, and a total of five.
#[test]
fn a_total_leaves_the_burst() {
    let policy = tenants(json!([{"id": "parent", "rate_limit": {
        "sharing": "enforce", "sustained": {"rate": 5}, "burst": {"capacity": 20},
        "budget": {"mode": "shared", "total": 5},
    }}]));
    assert_eq!(allowed(&decide(&policy, of("parent", 30))), 20);
}

#[test]
fn an_unlimited_parent_is_not_drawn_on() {
    let policy = pool(json!({"mode": "unlimited"}), 10, &[10, 10]);
    let decisions = decide(&policy, [of("child-0", 11), of("child-1", 11)].concat());
    assert_eq!(allowed(&decisions), 20);
}
