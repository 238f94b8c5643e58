//! Random limits, and the parts that tenants share with them.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::{object, sometimes, word};

/// A limit without a name.
pub(super) fn limit() -> impl Strategy<Value = Value> {
    let who = (key(), sometimes(35, conditions()), sometimes(35, word(&["a", "b"])));
    let numbers = (sometimes(55, algorithm()), sustained(), sometimes(60, burst()));
    let rest = (
        sometimes(35, cost()),
        strategy(),
        sometimes(15, word(&["shadow"])),
        sometimes(5, Just(json!(false))),
    );
    (who, numbers, rest).prop_map(|((key, conditions, group), (algorithm, sustained, burst), rest)| {
        let (cost, strategy, mode, enabled) = rest;
        let is_bucket = algorithm.as_ref().is_none_or(|name| name == "token_bucket");
        let mut limit = object([
            ("match", conditions),
            ("group", group),
            ("algorithm", algorithm),
            ("sustained", Some(sustained)),
            ("cost", cost),
            ("mode", mode),
            ("enabled", enabled),
        ]);
        merge(&mut limit, key);
        merge(&mut limit, strategy);
        if let (true, Some(burst)) = (is_bucket, burst) {
            merge(&mut limit, burst);
        }
        limit
    })
}

/// Adds the members of the second object to the first.
pub(super) fn merge(object: &mut Value, more: Value) {
    let more = more.as_object().expect("an object").clone();
    object.as_object_mut().expect("an object").extend(more);
}

/// `key` or `scope`.
fn key() -> impl Strategy<Value = Value> {
    let one = |descriptor: &'static str| Just(json!({"key": [descriptor]}));
    prop_oneof![
        6 => one("user"),
        3 => word(&["global", "user", "ip", "route", "client", "tenant", "endpoint"])
            .prop_map(|scope| json!({"scope": scope})),
        3 => Just(json!({"key": []})),
        2 => one("ip"),
        4 => prop::sample::subsequence(DESCRIPTORS, 1..=3).prop_map(|key| json!({"key": key})),
    ]
}

/// Every kind of descriptor.
const DESCRIPTORS: &[&str] = &[
    "tenant",
    "user",
    "client",
    "ip:address",
    "plan",
    "upstream",
    "route",
    "method",
    "host",
    "path",
    "domain",
    "header:x-api-key",
    "header:X-Weight",
    "query:q",
    "jwt:role",
    "descriptor:generic_key",
];

/// `match`
fn conditions() -> impl Strategy<Value = Value> {
    let condition = prop_oneof![
        3 => word(PATTERNS).prop_map(|pattern| json!({"path": pattern})),
        1 => prop::sample::subsequence(PATTERNS, 2).prop_map(|patterns| json!({"path": patterns})),
        2 => prop::sample::subsequence(&["GET", "POST", "PUT"][..], 1..=2)
            .prop_map(|methods| json!({"methods": methods})),
        1 => word(&["GET", "POST"]).prop_map(|method| json!({"method": method})),
        3 => plain_condition(),
    ];
    (condition.clone(), prop::option::weighted(0.2, condition)).prop_map(|(mut first, second)| {
        if let Some(second) = second {
            merge(&mut first, second);
        }
        // Two names for one condition are refused.
        if first.get("methods").is_some() {
            first.as_object_mut().expect("an object").remove("method");
        }
        first
    })
}

/// Patterns of paths, in normal form.
pub(super) const PATTERNS: &[&str] =
    &["/api/**", "/api/*", "/api/search", "/login", "/**", "/v1/*/completions"];

/// The conditions that `match`, `allow` and `block` have in common.
pub(super) fn plain_condition() -> impl Strategy<Value = Value> + Clone {
    prop_oneof![
        Just(json!({"plan": ["free", "trial"]})),
        Just(json!({"plan": "pro"})),
        word(&["u1", "u2"]).prop_map(|user| json!({"user": user})),
        Just(json!({"jwt:role": "member"})),
        Just(json!({"header:X-Api-Key": ["k1", "k9"]})),
        word(&[
            "10.0.0.0/8",
            "203.0.113.7",
            "2001:db8::/32",
            "0.0.0.0/0",
            "::ffff:10.0.0.0/104",
            "::ffff:203.0.113.7",
            "::/0"
        ])
        .prop_map(|ip| json!({"ip": ip})),
        Just(json!({"host": "api.example.com"})),
        Just(json!({"query:q": "cats dogs"})),
        Just(json!({"descriptor:generic_key": "x"})),
        word(&["up", "down", "elsewhere"]).prop_map(|upstream| json!({"upstream": upstream})),
        Just(json!({"upstream": ["up", "elsewhere"]})),
        Just(json!({"domain": "edge"})),
        Just(json!({"route": "/api/search"})),
        word(&["none", "valid", "invalid"]).prop_map(|credential| json!({"credential": credential})),
    ]
}

fn algorithm() -> impl Strategy<Value = Value> {
    word(&["token_bucket", "sliding_window", "sliding_log", "fixed_window"])
}

fn sustained() -> impl Strategy<Value = Value> {
    let window = sometimes(80, word(&["second", "2s", "10s", "minute", "700ms"]));
    let rate = prop_oneof![8 => 1u32..=6, 2 => 7u32..=20];
    (rate, window).prop_map(|(rate, window)| object([("rate", Some(json!(rate))), ("window", window)]))
}

/// `burst` or `preset`; an allowance is always whole tokens.
fn burst() -> impl Strategy<Value = Value> {
    prop_oneof![
        8 => (1u32..=9).prop_map(|capacity| json!({"burst": {"capacity": capacity}})),
        1 => Just(json!({"burst": {"allowance": 2}})),
        1 => word(&["interactive", "strict", "batch"]).prop_map(|preset| json!({"preset": preset})),
    ]
}

fn cost() -> impl Strategy<Value = Value> {
    prop_oneof![
        2 => (1u32..=3).prop_map(|cost| json!(cost)),
        1 => (word(&["header:x-weight", "query:w", "descriptor:weight", "jwt:weight"]), 1u32..=3, 3u32..=12)
            .prop_map(|(from, default, max)| json!({"from": from, "default": default, "max": max})),
    ]
}

/// `strategy`, with its options.
pub(super) fn strategy() -> impl Strategy<Value = Value> {
    prop_oneof![
        6 => Just(json!({})),
        1 => Just(json!({"strategy": "degrade"})),
        1 => Just(json!({"strategy": "degrade", "degrade": {"tag": "slow"}})),
        1 => Just(json!({"strategy": "reject"})),
    ]
}

/// The strategy that makes requests wait.
pub(super) fn queue() -> impl Strategy<Value = Value> {
    let wait = word(&["300ms", "1s", "4s", "20s"]);
    (1u32..=4, wait).prop_map(
        |(depth, wait)| json!({"strategy": "queue", "queue": {"max_depth": depth, "max_wait": wait}}),
    )
}
