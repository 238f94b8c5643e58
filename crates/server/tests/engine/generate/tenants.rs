//! Random trees of tenants.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::limits::{merge, strategy};
use super::{object, sometimes, word};
use crate::model::exact::fraction;
use crate::model::tenants::promised;

/// Windows with rates and totals. No two are the same rate over different windows: for window algorithms it is
/// unspecified which of those wins.
const RATES: &[(&str, [u64; 3], [u64; 3])] = &[
    ("second", [1, 2, 3], [1, 2, 5]),
    ("10s", [3, 7, 11], [7, 13, 21]),
    ("minute", [20, 40, 50], [20, 50, 100]),
];

/// Up to five tenants, each under one of those before it or under none.
pub(super) fn tenants() -> impl Strategy<Value = Value> {
    let algorithm = sometimes(40, word(&["sliding_window", "sliding_log", "fixed_window"]));
    let node = (
        prop::option::weighted(0.75, any::<prop::sample::Index>()),
        sometimes(85, rate_limit()),
        node_enabled(),
    );
    (algorithm, prop::collection::vec(node, 1..=5)).prop_map(|(algorithm, nodes)| {
        let mut tenants: Vec<Value> = Vec::new();
        for (number, (parent, rate_limit, enabled)) in nodes.into_iter().enumerate() {
            let parent =
                parent.filter(|_| number > 0).map(|index| json!(format!("t{}", index.index(number))));
            let rate_limit = rate_limit.map(|limit| with_algorithm(limit, algorithm.as_ref()));
            let id = Some(json!(format!("t{number}")));
            tenants.push(object([
                ("id", id),
                ("parent", parent),
                ("rate_limit", rate_limit),
                ("enabled", enabled),
            ]));
        }
        keep_allocations(&mut tenants);
        Value::Array(tenants)
    })
}

fn node_enabled() -> impl Strategy<Value = Option<Value>> {
    sometimes(4, Just(json!(false)))
}

/// All numbers of a tree use one algorithm.
fn with_algorithm(mut limit: Value, algorithm: Option<&Value>) -> Value {
    if let (Some(algorithm), true) = (algorithm, limit.get("sustained").is_some()) {
        limit["algorithm"] = algorithm.clone();
        limit.as_object_mut().expect("an object").remove("burst");
    }
    limit
}

fn rate_limit() -> impl Strategy<Value = Value> {
    let sharing = sometimes(80, word(&["private", "inherit", "enforce", "enforce"]));
    let numbers = (0..RATES.len(), 0usize..3, prop::option::weighted(0.5, 1u32..=8));
    let budget =
        prop::option::weighted(0.5, (word(&["allocated", "shared", "shared", "unlimited"]), 0usize..3));
    let overcommit = sometimes(30, Just(json!(1.5)));
    let rest = (
        sometimes(25, word(&["user", "ip", "tenant", "route"])),
        strategy(),
        sometimes(8, word(&["shadow"])),
    );
    (sharing, prop::option::weighted(0.85, (numbers, budget, overcommit)), rest).prop_map(
        |(sharing, numbers, (scope, strategy, mode))| {
            let mut limit = object([("sharing", sharing), ("mode", mode)]);
            let mut has_pool = false;
            if let Some(((window, rate, capacity), budget, overcommit)) = numbers {
                let (window, rates, totals) = RATES[window];
                limit["sustained"] = json!({"rate": rates[rate], "window": window});
                if let Some(capacity) = capacity {
                    limit["burst"] = json!({"capacity": capacity});
                }
                if let Some((mode, total)) = budget {
                    has_pool = mode != "unlimited";
                    let number = |value| Some(value).filter(|_| has_pool);
                    let overcommit = overcommit.filter(|_| mode == "allocated");
                    limit["budget"] = object([
                        ("mode", Some(mode.clone())),
                        ("total", number(json!(totals[total]))),
                        ("overcommit_ratio", overcommit),
                    ]);
                }
            }
            // It is unspecified whether an aggregate and a scoped bucket without its value are the same bucket.
            if let (Some(scope), false) = (scope, has_pool) {
                limit["scope"] = scope;
            }
            merge(&mut limit, strategy);
            limit
        },
    )
}

/// If the children exceed an allocated budget, it becomes a shared one.
fn keep_allocations(tenants: &mut [Value]) {
    for number in 0..tenants.len() {
        let Some((sum, total)) = promised(tenants, &tenants[number]) else { continue };
        let budget = &mut tenants[number]["rate_limit"]["budget"];
        let halves = if budget.get("overcommit_ratio").is_some() { 3 } else { 2 };
        if sum > fraction(total * halves, 2) {
            *budget = json!({"mode": "shared", "total": budget["total"]});
        }
    }
}
