//! Which limits apply: groups, missing keys, shadow limits.

use serde_json::{Value, json};

use super::{allowed, decide, limits, members, times};

/// Enterprise customers must not get the free plan's limit of ten.
#[test]
fn the_first_match_of_a_group_is_the_only_one() {
    let policy = limits(json!([
        {"name": "enterprise", "group": "per-org", "match": {"jwt:plan": "enterprise"}, "key": ["jwt:org"],
         "sustained": {"rate": 100}, "burst": {"capacity": 200}},
        {"name": "free", "group": "per-org", "key": ["jwt:org"], "sustained": {"rate": 10}},
    ]));
    let big = times(201, json!({"at_ms": 0, "jwt": {"plan": "enterprise", "org": "big"}}));
    let small = times(11, json!({"at_ms": 0, "jwt": {"plan": "free", "org": "small"}}));
    let decisions = decide(&policy, [big, small].concat());
    assert_eq!(allowed(&decisions[..201]), 200);
    assert_eq!(decisions[200]["violated_rule"], "enterprise");
    assert_eq!(allowed(&decisions[201..]), 10);
    assert_eq!(members(&decisions[211], ["violated_rule", "violated_tier"]), json!(["free", "custom"]));
}

/// Limits per user, per endpoint and for all are three groups: all must admit, and a denial by one charges none.
#[test]
fn groups_apply_together() {
    let policy = limits(json!([
        {"name": "user", "key": ["user"], "sustained": {"rate": 2, "window": "minute"}},
        {"name": "route", "scope": "endpoint", "sustained": {"rate": 10, "window": "minute"}},
        {"name": "all", "scope": "global", "sustained": {"rate": 5, "window": "minute"}},
    ]));
    let decisions = decide(&policy, times(9, json!({"at_ms": 0, "user": "1", "path": "/a"})));
    assert_eq!(allowed(&decisions), 2);
    let left: Vec<&Value> =
        decisions[8]["limits"].as_array().unwrap().iter().map(|entry| &entry["remaining"]).collect();
    assert_eq!(left, [0, 8, 3]);
    assert_eq!(members(&decisions[8], ["limit", "remaining", "retry_after_ms"]), json!([2, 0, 30_000]));
}

#[test]
fn neither_a_missing_key_nor_a_shadow_limit_closes_a_group() {
    let policy = limits(json!([
        {"name": "keyed", "group": "g", "key": ["user"], "sustained": {"rate": 1}},
        {"name": "watched", "group": "g", "key": [], "sustained": {"rate": 1}, "mode": "shadow"},
        {"name": "rest", "group": "g", "key": [], "sustained": {"rate": 3}},
        {"name": "last", "group": "g", "key": [], "sustained": {"rate": 3}},
    ]));
    let decisions = decide(&policy, times(2, json!({"at_ms": 0})));
    let names: Vec<&Value> =
        decisions[1]["limits"].as_array().unwrap().iter().map(|entry| &entry["name"]).collect();
    assert_eq!(names, ["watched", "rest"]);
    assert_eq!(
        members(&decisions[1], ["allowed", "limit", "remaining", "shadow_denied"]),
        json!([true, 3, 1, ["watched"]])
    );
    let with_user = decide(&policy, vec![json!({"at_ms": 0, "user": "1"})]);
    assert_eq!(with_user[0]["limits"].as_array().unwrap().len(), 1);
}

#[test]
fn only_shadow_limits_are_no_limit() {
    let policy = limits(
        json!([{"name": "watched", "key": [], "sustained": {"rate": 1, "window": "minute"}, "mode": "shadow"}]),
    );
    let decisions = decide(&policy, times(3, json!({"at_ms": 0})));
    assert_eq!(allowed(&decisions), 3);
    let expected = json!(["no_limit", -1, -1, null, 0, ["watched"]]);
    let names = ["reason", "limit", "remaining", "reset_after_ms", "retry_after", "shadow_denied"];
    assert_eq!(members(&decisions[2], names), expected);
    assert_eq!(decisions[2]["limits"][0]["mode"], "shadow");
    assert_eq!(decisions[2]["limits"][0]["retry_after_ms"], 60_000);
}

/// Another spelling of a path evades no limit, and a /64 is one client.
#[test]
fn spellings_share_a_bucket() {
    let policy = limits(json!([
        {"name": "login", "match": {"path": "/login"}, "key": ["ip"], "sustained": {"rate": 2, "window": "minute"}},
    ]));
    let at = |ip: &str, path: &str| json!({"at_ms": 0, "ip": ip, "path": path});
    let decisions = decide(
        &policy,
        vec![
            at("2001:db8::1", "/login"),
            at("2001:db8::2:1", "//login"),
            at("2001:db8::3", "/x/../%6cogin?next=1"),
            at("203.0.113.9", "/login"),
            at("::ffff:203.0.113.9", "/./login"),
            at("203.0.113.9", "/login"),
        ],
    );
    let verdicts: Vec<bool> = decisions.iter().map(|decision| decision["allowed"] == true).collect();
    assert_eq!(verdicts, [true, true, false, true, true, false]);
}

/// Only keys cut addresses to a /64. An IPv4-mapped address counts as IPv4 in conditions too, and so do networks.
#[test]
fn conditions_see_the_whole_address_and_what_it_maps() {
    let policy = limits(json!([
        {"name": "v4", "match": {"ip": "203.0.113.0/24"}, "key": ["ip"], "sustained": {"rate": 2}},
        {"name": "host", "match": {"ip": "2001:db8::1"}, "key": ["ip"], "sustained": {"rate": 2}},
    ]));
    let listed = |ip: &str| decide(&policy, vec![json!({"at_ms": 0, "ip": ip})]).remove(0)["limits"].clone();
    assert_eq!(listed("203.0.113.7")[0]["name"], "v4");
    assert_eq!(listed("2001:db8::1")[0]["name"], "host");
    assert_eq!(listed("2001:db8::2"), json!([]), "of the same /64");
    assert_eq!(listed("::ffff:203.0.113.7")[0]["name"], "v4");
    let gates = json!({"version": 1, "limits": [], "block": [{"ip": "::ffff:203.0.113.0/120"}],
        "allow": [{"ip": "::ffff:192.0.2.1"}]});
    let reason = |ip: &str| decide(&gates, vec![json!({"at_ms": 0, "ip": ip})]).remove(0)["reason"].clone();
    for (ip, expected) in [
        ("203.0.113.7", "blocked"),
        ("::ffff:203.0.113.7", "blocked"),
        ("192.0.2.1", "allowlisted"),
        ("::ffff:c000:201", "allowlisted"),
        ("192.0.2.2", "no_limit"),
    ] {
        assert_eq!(reason(ip), expected, "{ip}");
    }
}
