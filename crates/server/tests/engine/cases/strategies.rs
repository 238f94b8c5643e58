//! Queueing and degrading, alone and together.

use serde_json::{Value, json};

use super::{allowed, decide, limits, members, times};

/// One a second, two at once, and a queue.
fn queueing(max_depth: u32, max_wait: &str) -> Value {
    limits(json!([{"name": "queued", "key": [], "sustained": {"rate": 1}, "burst": {"capacity": 2},
        "strategy": "queue", "queue": {"max_depth": max_depth, "max_wait": max_wait}}]))
}

#[test]
fn a_queued_request_holds_its_place() {
    let decisions = decide(&queueing(3, "10s"), times(6, json!({"at_ms": 0})));
    let waits: Vec<Option<u64>> = decisions.iter().map(|decision| decision["queued_ms"].as_u64()).collect();
    assert_eq!(waits, [None, None, Some(1_000), Some(2_000), Some(3_000), None]);
    assert_eq!(
        members(&decisions[5], ["allowed", "reason", "remaining", "retry_after_ms"]),
        json!([false, "queue_full", 0, 4_000])
    );
}

#[test]
fn places_become_free_as_time_passes() {
    let trace = [
        times(4, json!({"at_ms": 0})),
        times(1, json!({"at_ms": 1_000})),
        times(1, json!({"at_ms": 10_000})),
    ];
    let decisions = decide(&queueing(2, "10s"), trace.concat());
    assert_eq!(decisions[4]["queued_ms"], 2_000, "behind those that still wait");
    assert_eq!(members(&decisions[5], ["allowed", "queued_ms", "remaining"]), json!([true, null, 1]));
}

#[test]
fn nobody_waits_longer_than_allowed() {
    let decisions = decide(&queueing(100, "2s"), times(5, json!({"at_ms": 0})));
    assert_eq!(allowed(&decisions), 4);
    assert_eq!(
        members(&decisions[4], ["reason", "retry_after_ms", "violated_rule"]),
        json!(["queue_timeout", 3_000, "queued"])
    );
}

/// A limit that rejects decides, whatever limits that queue or degrade would do. Nine tokens of 18 per second are back
/// after half a second, to the millisecond, though a token is not a whole number of nanoseconds.
#[test]
fn a_place_tells_when_the_bucket_is_full_to_the_millisecond() {
    let policy =
        limits(json!([{"name": "queued", "key": [], "sustained": {"rate": 18}, "burst": {"capacity": 7},
        "strategy": "queue", "queue": {"max_depth": 1, "max_wait": "300ms"}}]));
    let asked = |at_ms: u64, cost: u64| json!({"at_ms": at_ms, "cost": cost});
    let decisions = decide(&policy, vec![asked(14, 1), asked(214, 2), asked(215, 1), asked(215, 6)]);
    assert_eq!(members(&decisions[3], ["queued_ms", "remaining", "reset_after_ms"]), json!([111, 0, 499]));
}

#[test]
fn reject_beats_queue_beats_degrade() {
    let limit = |name: &str, strategy: &str| json!({"name": name, "key": [], "sustained": {"rate": 1, "window": "minute"}, "strategy": strategy});
    let rejected =
        decide(&limits(json!([limit("d", "degrade"), limit("r", "reject")])), times(2, json!({"at_ms": 0})));
    assert_eq!(members(&rejected[1], ["allowed", "violated_rule", "degraded"]), json!([false, "r", false]));
    let degraded = decide(&limits(json!([limit("d", "degrade")])), times(2, json!({"at_ms": 0})));
    assert_eq!(
        members(&degraded[1], ["allowed", "reason", "degraded", "limit", "remaining"]),
        json!([true, "ok", true, 1, 0])
    );
    assert_eq!(degraded[1]["limits"][0]["allowed"], false);
    assert_eq!(
        members(&degraded[1], ["degraded_tag"]),
        json!(["degraded"]),
        "the tag of a limit that names none"
    );
    assert_eq!(degraded[0].get("degraded_tag"), None, "it is there only where it says something");
    let mut tagged = [limit("d", "degrade"), limit("e", "degrade")];
    tagged[0]["degrade"] = json!({"tag": "slow"});
    tagged[1]["degrade"] = json!({"tag": "plain"});
    let degraded = decide(&limits(json!(tagged)), times(2, json!({"at_ms": 0})));
    assert_eq!(degraded[1]["degraded_tag"], "slow", "the first that was exceeded");
}

/// The others are charged, the bucket that denied is not.
#[test]
fn degrading_charges_the_others() {
    let policy = limits(json!([
        {"name": "small", "key": [], "sustained": {"rate": 1, "window": "minute"}, "strategy": "degrade"},
        {"name": "large", "key": [], "sustained": {"rate": 9, "window": "minute"}},
    ]));
    let decisions = decide(&policy, times(4, json!({"at_ms": 0})));
    assert_eq!(members(&decisions[3], ["degraded", "limit", "remaining"]), json!([true, 1, 0]));
    assert_eq!(decisions[3]["limits"][1]["remaining"], 5);
    let later = decide(&policy, [times(4, json!({"at_ms": 0})), times(1, json!({"at_ms": 60_000}))].concat());
    assert_eq!(later[4]["degraded"], false, "no debt was made");
}

/// The decision has the numbers of the tightest limit, whether that admitted or only marked the request.
#[test]
fn the_tightest_speaks_for_a_degraded_request() {
    let limit = |name: &str, window: &str| json!({"name": name, "key": [], "sustained": {"rate": 1, "window": window}, "strategy": "degrade"});
    let policy = limits(json!([limit("full", "second"), limit("empty", "minute")]));
    let decisions = decide(&policy, vec![json!({"at_ms": 0}), json!({"at_ms": 1_000, "cost": 2})]);
    assert_eq!(members(&decisions[1], ["limit", "remaining", "reset_after_ms"]), json!([1, 0, 59_000]));
}
