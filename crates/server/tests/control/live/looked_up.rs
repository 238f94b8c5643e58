//! Looking up a key: the buckets that it has whatever a request asks for, and the override by which a tenant is helped at once.

use serde_json::{Value, json};

use super::fleet::{LiveFleet, PATIENCE, Shared};
use crate::support::within;

#[test]
fn a_key_has_buckets_of_limits_that_a_request_with_nothing_else_does_not_touch() {
    for shared in [Shared::Strict, Shared::Hybrid, Shared::Nothing] {
        let fleet = LiveFleet::start(shared);
        let last = fleet.servers.len() - 1;
        for path in ["/limited", "/window"] {
            assert_eq!(fleet.check(0, &json!({ "user": "42", "path": path }))["allowed"], true);
        }
        let look = |request: Value| {
            fleet.api(last, "POST", "/keys/lookup", &json!({ "request": request })).expect(200).json()
        };
        let names = |limits: &Value| -> Vec<String> {
            let limits = limits.as_array().expect("a list");
            limits.iter().map(|limit| limit["name"].as_str().unwrap_or_default().to_owned()).collect()
        };
        let of_key = look(json!({ "user": "42" }));
        let others = names(&of_key["other_limits"]);
        assert!(names(&of_key["limits"]).is_empty(), "{of_key}");
        assert!(others.contains(&"per-user".to_owned()) && others.len() >= 3, "{shared:?}: {of_key}");
        if shared != Shared::Hybrid {
            // In hybrid mode a node has leased some.
            let used = |limit: &&Value| limit["remaining"].as_u64() < limit["limit"].as_u64();
            let used = of_key["other_limits"].as_array().expect("a list").iter().filter(used).count();
            assert_eq!(used, 2, "the numbers are those of the store: {of_key}");
        }
        let of_request = look(json!({ "user": "42", "path": "/limited" }));
        assert_eq!(names(&of_request["limits"]), ["per-user"]);
        assert!(!names(&of_request["other_limits"]).contains(&"per-user".to_owned()));
    }
}

#[test]
fn a_tenant_that_is_denied_already_is_helped_at_once() {
    for shared in [Shared::Strict, Shared::Hybrid, Shared::Nothing] {
        let fleet = LiveFleet::start(shared);
        let request = json!({ "tenant": "slow" });
        for node in 0..fleet.servers.len() {
            within(PATIENCE, "the tenant is denied", || fleet.check(node, &request)["allowed"] == false);
        }
        let raised = json!({ "who": { "tenant": "slow" }, "limit": "tenant:slow", "multiplier": 100 });
        fleet.api(0, "POST", "/overrides", &raised).expect(201);
        for node in 0..fleet.servers.len() {
            let wait = || fleet.peek(node, &request)["retry_after_ms"].as_u64();
            let what = format!("{shared:?}: node {node} waits for the new rate");
            within(PATIENCE, &what, || wait().is_some_and(|wait| wait <= 36_000));
        }
    }
}
