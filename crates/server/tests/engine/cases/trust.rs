//! Adaptive trust: trust t gives a capacity of floor(B·(1+t)) and a rate of R·(1+t/2).

use serde_json::{Value, json};

use super::{allowed, decide, members, times};

fn policy() -> Value {
    json!({"version": 1, "adaptive": {"trust": true}, "limits": [
        {"name": "per-user", "key": ["user"], "sustained": {"rate": 10}, "burst": {"capacity": 10}},
    ]})
}

fn by(user: &str, trust: f64, at_ms: u64) -> Value {
    json!({"at_ms": at_ms, "user": user, "trust": trust})
}

#[test]
fn trust_scales_capacity_and_rate() {
    let drained = |trust: f64| decide(&policy(), times(30, by("1", trust, 0)));
    for (trust, capacity, retry) in
        [(0.0, 10, 100), (0.5, 15, 80), (1.0, 20, 67), (0.999, 19, 67), (0.29, 12, 88)]
    {
        let decisions = drained(trust);
        assert_eq!(allowed(&decisions), capacity, "trust {trust}");
        assert_eq!(
            members(&decisions[29], ["limit", "retry_after_ms"]),
            json!([capacity, retry]),
            "trust {trust}"
        );
    }
}

/// A change of trust keeps the number of tokens; a key that was idle for long has a full bucket.
#[test]
fn a_change_of_trust_neither_grants_nor_takes() {
    let decisions = decide(
        &policy(),
        vec![
            by("1", 0.0, 0),
            by("1", 1.0, 0),
            by("1", 0.0, 0),
            by("2", 1.0, 0),
            by("2", 0.0, 0),
            by("2", 1.0, 0),
            by("1", 1.0, 60_000),
        ],
    );
    let left: Vec<&Value> = decisions.iter().map(|decision| &decision["remaining"]).collect();
    assert_eq!(left, [9, 8, 7, 19, 9, 8, 19]);
}

/// A client whose trust alternates, and who comes when the bucket is full at the lower trust, gets no more in the long
/// run than a client that is always trusted: 15 per second.
#[test]
fn trust_in_turns_is_no_more_than_trust() {
    let mut trace = Vec::new();
    for second in 0..60 {
        // Take all tokens at full trust; then one without trust, so that the bucket refills at no trust.
        trace.extend(times(25, by("1", 1.0, second * 1_000)));
        trace.push(by("1", 0.0, second * 1_000 + 100));
    }
    let decisions = decide(&policy(), trace);
    let allowed = allowed(&decisions);
    assert!(allowed <= 20 + 15 * 59, "{allowed} in a minute");
    assert!(allowed >= 10 + 10 * 59, "{allowed} in a minute");
}

#[test]
fn only_limits_on_somebody_follow_trust() {
    let sustained = json!({"rate": 10});
    let mut policy = json!({"version": 1, "adaptive": {"trust": true}, "limits": [
        {"name": "all", "key": [], "sustained": sustained},
        {"name": "route", "key": ["route"], "sustained": sustained},
        {"name": "header", "key": ["header:x-api-key"], "sustained": sustained},
        {"name": "window", "key": ["ip"], "algorithm": "fixed_window", "sustained": sustained},
    ], "tenants": [{"id": "acme", "rate_limit": {"sustained": sustained}}]});
    let request = json!({"at_ms": 0, "tenant": "acme", "ip": "203.0.113.7", "path": "/a", "headers": {"x-api-key": "k"}, "trust": 1});
    let sizes = |policy: &Value| -> Vec<Value> {
        let decision = decide(policy, vec![request.clone()]).remove(0);
        decision["limits"].as_array().unwrap().iter().map(|entry| entry["limit"].clone()).collect()
    };
    assert_eq!(sizes(&policy), [10, 10, 20, 20, 10]);
    policy["adaptive"]["trust"] = json!(false);
    assert_eq!(sizes(&policy), [10, 10, 10, 10, 10]);
}

/// Windows do not refill at a rate, so their retry time is exact at any trust: two of five fade to one in the middle of
/// the next second.
#[test]
fn a_window_names_the_exact_instant_under_any_trust() {
    let mut policy = policy();
    policy["limits"][0] =
        json!({"name": "window", "key": ["user"], "algorithm": "sliding_window", "sustained": {"rate": 3}});
    let mut counted = by("1", 0.0, 0);
    counted["cost"] = json!(2);
    let mut denied = by("1", 0.999, 0);
    denied["cost"] = json!(4);
    let decisions = decide(&policy, vec![counted, denied]);
    assert_eq!(members(&decisions[1], ["limit", "remaining", "retry_after_ms"]), json!([5, 3, 1_500]));
}
