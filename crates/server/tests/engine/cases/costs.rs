//! Costs by route: a chat costs ten, a list one, and a limit of 1000 per minute is inherited.

use serde_json::{Value, json};

use super::{allowed, decide, limits, times};

fn policy() -> Value {
    json!({"version": 1, "limits": [],
        "routes": [{"path": "/v1/chat/completions", "cost": 10}, {"path": "/v1/models", "cost": 1}],
        "tenants": [
            {"id": "partner", "rate_limit": {"sharing": "inherit", "sustained": {"rate": 1_000, "window": "minute"}}},
            {"id": "acme", "parent": "partner"},
        ],
    })
}

fn chats(count: usize) -> Vec<Value> {
    times(count, json!({"at_ms": 0, "tenant": "acme", "method": "POST", "path": "/v1/chat/completions"}))
}

fn lists(count: usize) -> Vec<Value> {
    times(count, json!({"at_ms": 0, "tenant": "acme", "method": "GET", "path": "/v1/models"}))
}

#[test]
fn a_hundred_chats() {
    assert_eq!(allowed(&decide(&policy(), chats(105))), 100);
}

#[test]
fn a_thousand_lists() {
    assert_eq!(allowed(&decide(&policy(), lists(1_005))), 1_000);
}

#[test]
fn fifty_chats_and_five_hundred_lists() {
    let decisions = decide(&policy(), [chats(50), lists(505)].concat());
    assert_eq!(allowed(&decisions[..50]), 50);
    assert_eq!(allowed(&decisions[50..]), 500);
}

/// The cost of a route replaces a fixed cost, never one taken from the request.
#[test]
fn routes_replace_fixed_costs_only() {
    let mut policy = limits(json!([
        {"name": "fixed", "key": [], "sustained": {"rate": 100}, "cost": 7},
        {"name": "named", "key": [], "sustained": {"rate": 100}, "cost": {"from": "header:x-weight", "default": 2, "max": 30}},
    ]));
    policy["routes"] = json!([{"path": "/dear", "cost": 20}]);
    let remaining = |decision: &Value| {
        [decision["limits"][0]["remaining"].clone(), decision["limits"][1]["remaining"].clone()]
    };
    let decisions = decide(
        &policy,
        vec![
            json!({"at_ms": 0, "path": "/dear", "headers": {"X-Weight": "5"}}),
            json!({"at_ms": 0, "path": "/cheap", "headers": {"x-weight": "many"}}),
            json!({"at_ms": 0, "cost": 2}),
            json!({"at_ms": 0, "cost": 0}),
            json!({"at_ms": 0, "headers": {"x-weight": "123456789012345678901234567890"}}),
        ],
    );
    assert_eq!(remaining(&decisions[0]), [80, 95]);
    assert_eq!(remaining(&decisions[1]), [73, 93]);
    assert_eq!(remaining(&decisions[2]), [59, 89]);
    assert_eq!(remaining(&decisions[3]), [59, 89], "nothing for nothing");
    assert_eq!(remaining(&decisions[4]), [52, 59], "at most the maximum");
}

#[test]
fn more_than_a_bucket_holds_is_never_admitted() {
    let policy = limits(json!([{"name": "small", "key": [], "sustained": {"rate": 5}}]));
    let decisions = decide(&policy, vec![json!({"at_ms": 0, "cost": 6}), json!({"at_ms": 0, "cost": 5})]);
    assert_eq!(decisions[0]["reason"], "cost_exceeds_capacity");
    assert_eq!([&decisions[0]["retry_after"], &decisions[0]["retry_after_ms"]], [&Value::Null, &Value::Null]);
    assert_eq!(decisions[1]["allowed"], true, "and it took nothing");
}
