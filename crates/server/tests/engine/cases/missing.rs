//! Requests that lack the key of a limit, and limits that leave requests out.

use serde_json::{Value, json};

use super::{allowed, decide, limits, members, times};

fn names(decision: &Value) -> Value {
    decision["limits"].as_array().unwrap().iter().map(|limit| limit["name"].clone()).collect()
}

#[test]
fn requests_without_the_key_share_one_bucket() {
    let policy = limits(json!([
        {"name": "keys", "key": ["header:x-api-key", "ip"], "missing": "shared", "sustained": {"rate": 3, "window": "minute"}},
    ]));
    let with = |ip: Option<&str>, key: Option<&str>| {
        let mut request = json!({"at_ms": 0});
        if let Some(ip) = ip {
            request["ip"] = json!(ip);
        }
        if let Some(key) = key {
            request["headers"] = json!({"x-api-key": key});
        }
        request
    };
    // Whichever descriptor is absent, and whatever the others are, it is the same bucket.
    let decisions = decide(
        &policy,
        vec![
            with(None, None),
            with(Some("10.0.0.1"), None),
            with(None, Some("k")),
            with(Some("10.0.0.2"), None),
            with(Some("10.0.0.2"), Some("k")),
        ],
    );
    assert_eq!(allowed(&decisions), 4);
    assert_eq!(members(&decisions[3], ["allowed", "violated_rule", "remaining"]), json!([false, "keys", 0]));
    assert_eq!(decisions[4]["remaining"], 2, "a bucket of its own");
}

/// No value of a client makes its key that of the shared bucket.
#[test]
fn nobody_names_the_shared_bucket() {
    let policy = limits(json!([
        {"name": "users", "key": ["user"], "missing": "shared", "sustained": {"rate": 1, "window": "minute"}},
    ]));
    let named = ["", "\u{1b}", "\u{1f}", "\u{ff}", "\u{fffd}", "all without the key"];
    let named = named.map(|user| json!({"at_ms": 0, "user": user}));
    let decisions = decide(&policy, [vec![json!({"at_ms": 0})], named.to_vec()].concat());
    assert_eq!(allowed(&decisions), decisions.len());
}

#[test]
fn a_missing_key_can_be_denied() {
    let policy = limits(json!([
        {"name": "all", "key": [], "sustained": {"rate": 5, "window": "minute"}},
        {"name": "users", "key": ["user"], "missing": "deny", "sustained": {"rate": 5, "window": "minute"}},
    ]));
    let decisions = decide(
        &policy,
        vec![json!({"at_ms": 0}), json!({"at_ms": 0, "cost": 0}), json!({"at_ms": 0, "user": "1"})],
    );
    let denial = &decisions[0];
    assert_eq!(
        members(denial, ["allowed", "reason", "violated_rule", "violated_tier", "limit", "remaining"]),
        json!([false, "missing_key", "users", "user", -1, -1])
    );
    assert_eq!(
        members(denial, ["reset_after_ms", "retry_after", "retry_after_ms", "limits", "shadow_denied"]),
        json!([null, null, null, [], []])
    );
    assert_eq!(members(&decisions[1], ["allowed", "remaining"]), json!([true, 5]), "nothing for nothing");
    assert_eq!(members(&decisions[2], ["allowed", "remaining"]), json!([true, 4]), "the denial took nothing");
}

#[test]
fn a_shadow_limit_only_notes_a_missing_key() {
    let policy = limits(json!([
        {"name": "watched", "group": "g", "key": ["user"], "missing": "deny", "mode": "shadow", "sustained": {"rate": 5}},
        {"name": "rest", "group": "g", "key": [], "sustained": {"rate": 5}},
    ]));
    let decision = decide(&policy, vec![json!({"at_ms": 0})]).remove(0);
    assert_eq!(members(&decision, ["allowed", "shadow_denied"]), json!([true, ["watched"]]));
    assert_eq!(names(&decision), json!(["rest"]), "and does not close its group");
    let mut whole = policy.clone();
    whole["defaults"] = json!({"mode": "shadow"});
    let decision = decide(&whole, vec![json!({"at_ms": 0})]).remove(0);
    assert_eq!(members(&decision, ["allowed", "shadow_denied"]), json!([true, ["watched"]]));
}

#[test]
fn a_limit_that_does_something_about_a_missing_key_closes_its_group() {
    for (missing, reason, listed) in [
        ("skip", "ok", json!(["rest"])),
        ("shared", "ok", json!(["users"])),
        ("deny", "missing_key", json!([])),
    ] {
        let policy = limits(json!([
            {"name": "users", "group": "g", "key": ["user"], "missing": missing, "sustained": {"rate": 5}},
            {"name": "rest", "group": "g", "key": [], "sustained": {"rate": 5}},
        ]));
        let decision = decide(&policy, vec![json!({"at_ms": 0})]).remove(0);
        assert_eq!((&decision["reason"], names(&decision)), (&json!(reason), listed), "{missing}");
    }
}

/// All conditions of an `unless` must hold for the limit to leave a request out; of a list one is enough.
#[test]
fn unless_leaves_requests_out() {
    let policy = limits(json!([
        {"name": "most", "unless": {"plan": ["internal", "partner"], "path": "/api/**"}, "key": [], "sustained": {"rate": 5}},
    ]));
    let applies = |request: Value| names(&decide(&policy, vec![request]).remove(0)) == json!(["most"]);
    assert!(!applies(json!({"at_ms": 0, "plan": "partner", "path": "/api/x"})));
    assert!(applies(json!({"at_ms": 0, "plan": "free", "path": "/api/x"})));
    assert!(applies(json!({"at_ms": 0, "plan": "partner", "path": "/login"})));
    assert!(applies(json!({"at_ms": 0, "path": "/api/x"})), "without a plan it does not hold");
}

#[test]
fn a_route_with_unless_leaves_requests_to_the_next() {
    let mut policy = limits(json!([{"name": "all", "key": [], "sustained": {"rate": 100}}]));
    policy["routes"] = json!([
        {"path": "/v1/{model}", "unless": {"plan": "internal"}, "cost": 10},
        {"path": "/v1/*", "cost": 2},
    ]);
    let left = |plan: &str| {
        let asked = vec![json!({"at_ms": 0, "path": "/v1/chat", "plan": plan})];
        decide(&policy, asked).remove(0)["remaining"].clone()
    };
    assert_eq!([left("free"), left("internal")], [90, 98]);
}

/// A plain number is replaced by the cost of the route; `fixed` is not.
#[test]
fn a_fixed_cost_counts_calls() {
    let mut policy = limits(json!([
        {"name": "tokens", "key": [], "sustained": {"rate": 100}},
        {"name": "calls", "key": [], "sustained": {"rate": 100}, "cost": {"fixed": 1}},
        {"name": "threes", "key": [], "sustained": {"rate": 100}, "cost": {"fixed": 3}},
    ]));
    policy["routes"] = json!([{"path": "/dear", "cost": 20}]);
    let decision = decide(&policy, vec![json!({"at_ms": 0, "path": "/dear", "cost": 2})]).remove(0);
    let left: Vec<&Value> =
        decision["limits"].as_array().unwrap().iter().map(|limit| &limit["remaining"]).collect();
    assert_eq!(left, [60, 98, 94]);
}

/// `{id}` is any one segment, and the route is told as it was written.
#[test]
fn a_named_segment_is_any_segment() {
    let mut policy = limits(json!([
        {"name": "items", "match": {"route": "/users/{id}/items"}, "key": ["route"], "sustained": {"rate": 2, "window": "minute"}},
    ]));
    policy["routes"] = json!([{"path": "/users/{id}/items"}]);
    let at = |path: &str| json!({"at_ms": 0, "path": path});
    let decisions = decide(
        &policy,
        vec![at("/users/1/items"), at("/users/2/items"), at("/users/{id}/items"), at("/users/1/2/items")],
    );
    let verdicts: Vec<bool> = decisions.iter().map(|decision| decision["allowed"] == true).collect();
    assert_eq!(verdicts, [true, true, false, true]);
    assert_eq!(allowed(&decide(&policy, times(3, at("/users/9/items")))), 2);
}

/// One of a list is enough, whatever the descriptor is.
#[test]
fn every_condition_takes_a_list() {
    let requests = [
        ("tenant", json!({"tenant": "b"})),
        ("user", json!({"user": "b"})),
        ("client", json!({"client": "b"})),
        ("plan", json!({"plan": "b"})),
        ("upstream", json!({"upstream": "b"})),
        ("host", json!({"host": "B"})),
        ("route", json!({"path": "b"})),
        ("domain", json!({"domain": "b"})),
        ("header:x-a", json!({"headers": {"X-A": "b"}})),
        ("query:q", json!({"query": "q=b"})),
        ("jwt:role", json!({"jwt": {"role": "b"}})),
        ("descriptor:d", json!({"descriptors": {"d": "b"}})),
    ];
    for (descriptor, mut request) in requests {
        let values = if descriptor == "route" { json!(["/a", "/b"]) } else { json!(["a", "b"]) };
        let policy = limits(
            json!([{"name": "l", "match": {descriptor: values}, "key": [], "sustained": {"rate": 5}}]),
        );
        request["at_ms"] = json!(0);
        assert_eq!(names(&decide(&policy, vec![request]).remove(0)), json!(["l"]), "{descriptor}");
    }
}
