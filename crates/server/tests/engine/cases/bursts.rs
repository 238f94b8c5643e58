//! Burst detection: more than 50 requests in ten seconds warn for 300 s, then block for 600 s.

use serde_json::{Value, json};

use super::{allowed, decide, members, times};

fn policy() -> Value {
    json!({"version": 1, "limits": [], "bursts": [
        {"name": "burst", "key": ["user", "route"], "window": "10s", "threshold": 50, "penalty": "300s"},
    ]})
}

fn at(at_ms: u64, count: usize) -> Vec<Value> {
    times(count, json!({"at_ms": at_ms, "user": "1", "path": "/a"}))
}

#[test]
fn one_window_warns_and_the_next_blocks() {
    let decisions = decide(&policy(), [at(0, 60), at(10_000, 60)].concat());
    assert_eq!(allowed(&decisions[..60]), 60, "one window escalates once");
    assert_eq!(allowed(&decisions[60..]), 50, "the request that crosses the threshold is blocked");
    let names =
        ["reason", "violated_rule", "violated_tier", "retry_after", "retry_after_ms", "limit", "limits"];
    let expected = json!(["burst_blocked", "burst", "custom", 600, 600_000, -1, []]);
    assert_eq!(members(&decisions[110], names), expected);
}

#[test]
fn a_decision_tells_what_the_detectors_did() {
    let decisions = decide(&policy(), [at(0, 60), at(10_000, 60), at(700_000, 1)].concat());
    let told = |decision: &Value| decision.get("burst").cloned();
    for (index, decision) in decisions.iter().enumerate() {
        let expected = match index {
            50 => Some(json!("warning_issued")),
            110 => Some(json!("blocked_temporarily")),
            111..=119 => Some(json!("already_blocked")),
            _ => None,
        };
        assert_eq!(told(decision), expected, "request {index}");
    }
}

#[test]
fn the_most_serious_state_is_told_and_shadow_mode_denies_nothing() {
    let mut policy = policy();
    policy["bursts"] = json!([
        {"name": "slow", "key": ["user"], "window": "10s", "threshold": 2, "penalty": "300s"},
        {"name": "fast", "key": ["user"], "window": "10s", "threshold": 1, "penalty": "300s"},
    ]);
    let trace = [at(0, 2), at(10_000, 3)].concat();
    let told = |policy: &Value| -> Vec<Value> {
        let told = |decision: &Value| json!([decision["allowed"], decision["burst"]]);
        decide(policy, trace.clone()).iter().map(told).collect()
    };
    let blocked = json!([false, "blocked_temporarily"]);
    let warned = json!([true, "warning_issued"]);
    let normal = json!([true, null]);
    let already = json!([false, "already_blocked"]);
    assert_eq!(told(&policy), [normal.clone(), warned.clone(), normal.clone(), blocked, already]);
    policy["defaults"] = json!({"mode": "shadow"});
    let states: Vec<Value> = told(&policy).iter().map(|pair| pair[1].clone()).collect();
    assert_eq!(states[3..], [json!("blocked_temporarily"), json!("already_blocked")]);
    assert!(told(&policy).iter().all(|pair| pair[0] == true), "shadow mode denies nothing");
}

#[test]
fn a_block_holds_for_every_request_until_it_ends() {
    let quiet = [at(300_000, 1), at(609_999, 1), at(610_000, 1)].concat();
    let others = vec![json!({"at_ms": 610_000, "user": "2", "path": "/a"})];
    let decisions = decide(&policy(), [at(0, 51), at(10_000, 51), quiet, others].concat());
    let last: Vec<bool> = decisions[101..].iter().map(|decision| decision["allowed"] == true).collect();
    assert_eq!(last, [false, false, false, true, true]);
    assert_eq!(decisions[103]["retry_after_ms"], 1);
}

#[test]
fn a_warning_wears_off() {
    let decisions = decide(&policy(), [at(0, 51), at(300_000, 51), at(310_000, 51)].concat());
    assert_eq!(allowed(&decisions[..102]), 102, "warned again, as the first warning was over");
    assert_eq!(allowed(&decisions[102..]), 50);
}

#[test]
fn another_route_and_free_requests_do_not_count() {
    let peeks = times(60, json!({"at_ms": 10_000, "user": "1", "path": "/a", "cost": 0}));
    let elsewhere = times(60, json!({"at_ms": 10_000, "user": "1", "path": "/b"}));
    let decisions = decide(&policy(), [at(0, 51), peeks, elsewhere, at(10_000, 50)].concat());
    assert_eq!(allowed(&decisions), decisions.len());
}

#[test]
fn gates_come_before_bursts_and_end() {
    let mut policy = policy();
    policy["allow"] = json!([{"user": "friend", "reason": "internal"}]);
    policy["block"] = json!([{"user": ["friend", "666"], "until": "1970-01-01T00:00:20Z"}]);
    let user = |at_ms: f64, user: &str| json!({"at_ms": at_ms, "user": user});
    let trace = vec![
        user(18_999.5, "friend"),
        user(19_000.5, "666"),
        user(20_000.5, "friend"),
        user(20_000.5, "666"),
    ];
    let decisions = decide(&policy, trace);
    assert_eq!(
        members(&decisions[0], ["reason", "violated_rule", "retry_after", "retry_after_ms"]),
        json!(["blocked", "block", 2, 1_001])
    );
    assert_eq!(
        members(&decisions[1], ["reason", "retry_after", "retry_after_ms"]),
        json!(["blocked", 1, 1_000])
    );
    assert_eq!(members(&decisions[2], ["reason", "allowed", "limit"]), json!(["allowlisted", true, -1]));
    assert_eq!(decisions[3]["reason"], "no_limit");
}
