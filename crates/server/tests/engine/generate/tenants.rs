//! Random trees of tenants.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::limits::{merge, strategy};
use super::{object, sometimes, word};
use crate::model::exact::{fraction, whole};
use crate::model::tenants::{has_child_without_numbers, promised};

/// Windows with rates and totals. No two are the same rate over different windows: for window algorithms it is
/// unspecified which of those wins.
const RATES: &[(&str, [u64; 3], [u64; 3])] = &[
    ("second", [1, 2, 3], [1, 2, 5]),
    ("10s", [3, 7, 11], [7, 13, 21]),
    ("minute", [20, 40, 50], [20, 50, 100]),
];

/// Up to five tenants, each under one of those before it or under none, and sometimes an entry for all others.
pub(super) fn tenants() -> impl Strategy<Value = Value> {
    let algorithm = sometimes(40, word(&["sliding_window", "sliding_log", "fixed_window"]));
    let mixes = prop::bool::weighted(0.3);
    let node =
        || {
            (
            prop::option::weighted(0.75, any::<prop::sample::Index>()),
            sometimes(80, rate_limit()),
            sometimes(25, (word(&["up", "down"]), rate_limit()).prop_map(|(upstream, limit)| {
                json!({upstream.as_str().expect("a name"): {"rate_limit": limit}})
            })),
            node_enabled(),
        )
        };
    let others = prop::option::weighted(0.3, node());
    (algorithm, mixes, prop::collection::vec(node(), 1..=5), others).prop_map(
        |(algorithm, mixes, nodes, others)| {
            let mut tenants: Vec<Value> = Vec::new();
            let has_others = others.is_some();
            let count = nodes.len();
            for (number, (parent, rate_limit, upstreams, enabled)) in
                nodes.into_iter().chain(others).enumerate()
            {
                let is_others = has_others && number == count;
                let parent =
                    parent.filter(|_| number > 0).map(|index| json!(format!("t{}", index.index(number))));
                // In a mixed tree, every second tenant counts by windows.
                let algorithm = algorithm.as_ref().filter(|_| !mixes || number % 2 == 0);
                let id = if is_others { "*".to_owned() } else { format!("t{number}") };
                let mut tenant = object([
                    ("id", Some(json!(id))),
                    ("parent", parent),
                    ("rate_limit", rate_limit),
                    ("upstreams", upstreams),
                    ("enabled", enabled),
                ]);
                for limit in limits_of(&mut tenant) {
                    with_algorithm(limit, algorithm);
                    if is_others {
                        limit.as_object_mut().expect("an object").remove("budget");
                    }
                }
                tenants.push(tenant);
            }
            keep_allocations(&mut tenants);
            Value::Array(tenants)
        },
    )
}

/// The limits of a tenant: that for all requests, and those for upstreams.
pub(super) fn limits_of(tenant: &mut Value) -> Vec<&mut Value> {
    let Value::Object(tenant) = tenant else { panic!("a tenant is an object") };
    let mut limits = Vec::new();
    for (member, value) in tenant {
        match member.as_str() {
            "rate_limit" => limits.push(value),
            "upstreams" => {
                let upstreams = value.as_object_mut().expect("an object");
                limits.extend(upstreams.values_mut().map(|upstream| &mut upstream["rate_limit"]));
            }
            _ => {}
        }
    }
    limits
}

fn node_enabled() -> impl Strategy<Value = Option<Value>> {
    sometimes(4, Just(json!(false)))
}

fn with_algorithm(limit: &mut Value, algorithm: Option<&Value>) {
    if let (Some(algorithm), true) = (algorithm, limit.get("sustained").is_some()) {
        limit["algorithm"] = algorithm.clone();
        limit.as_object_mut().expect("an object").remove("burst");
    }
}

/// Boxed: the type of a strategy is as large as all its parts, and a tree has many of these.
fn rate_limit() -> BoxedStrategy<Value> {
    let sharing = sometimes(80, word(&["private", "inherit", "enforce", "enforce"]));
    let numbers = (0..RATES.len(), 0usize..3, prop::option::weighted(0.5, 1u32..=8));
    let budget =
        prop::option::weighted(0.5, (word(&["allocated", "shared", "shared", "unlimited"]), 0usize..3));
    let overcommit = sometimes(30, Just(json!(1.5)));
    let remainder = sometimes(20, word(&["shared", "reserve"]));
    let cost =
        prop_oneof![Just(json!(1)), Just(json!(2)), Just(json!({"from": "header:x-weight", "max": 3}))];
    let rest = (
        sometimes(25, word(&["user", "ip", "tenant", "route"])),
        strategy(),
        sometimes(8, word(&["shadow"])),
        sometimes(15, cost),
        sometimes(8, word(&["open", "local"])),
    );
    (sharing, prop::option::weighted(0.85, (numbers, budget, overcommit, remainder)), rest)
        .prop_map(|(sharing, numbers, (scope, strategy, mode, cost, on_store_error))| {
            let mut limit = object([
                ("sharing", sharing),
                ("mode", mode),
                ("cost", cost),
                ("on_store_error", on_store_error),
            ]);
            let mut has_pool = false;
            if let Some(((window, rate, capacity), budget, overcommit, remainder)) = numbers {
                let (window, rates, totals) = RATES[window];
                limit["sustained"] = json!({"rate": rates[rate], "window": window});
                if let Some(capacity) = capacity {
                    limit["burst"] = json!({"capacity": capacity});
                }
                if let Some((mode, total)) = budget {
                    has_pool = mode != "unlimited";
                    let number = |value| Some(value).filter(|_| has_pool);
                    let overcommit = overcommit.filter(|_| mode == "allocated");
                    let remainder = remainder.filter(|_| mode == "allocated");
                    limit["budget"] = object([
                        ("mode", Some(mode.clone())),
                        ("total", number(json!(totals[total]))),
                        ("overcommit_ratio", overcommit),
                        ("remainder", remainder),
                    ]);
                }
            }
            // It is unspecified whether an aggregate and a scoped bucket without its value are the same bucket.
            if let (Some(scope), false) = (scope, has_pool) {
                limit["scope"] = scope;
            }
            merge(&mut limit, strategy);
            limit
        })
        .boxed()
}

/// An allocated budget becomes a shared one if the children exceed it, or if nothing remains for a child without
/// numbers.
fn keep_allocations(tenants: &mut [Value]) {
    for number in 0..tenants.len() {
        for upstream in [None, Some("up"), Some("down")] {
            let Some((sum, total)) = promised(tenants, &tenants[number], upstream) else { continue };
            let needs_remainder = has_child_without_numbers(tenants, &tenants[number], upstream);
            let limit = match upstream {
                None => &mut tenants[number]["rate_limit"],
                Some(upstream) => &mut tenants[number]["upstreams"][upstream]["rate_limit"],
            };
            let budget = &mut limit["budget"];
            let halves = if budget.get("overcommit_ratio").is_some() { 3 } else { 2 };
            let nothing_left = budget["remainder"] == "reserve" || sum > whole(total - 1);
            if sum > fraction(total * halves, 2) || (needs_remainder && nothing_left) {
                *budget = json!({"mode": "shared", "total": budget["total"]});
            }
        }
    }
}
