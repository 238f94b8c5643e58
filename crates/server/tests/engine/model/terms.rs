//! What limits and tenants' rate limits have in common, read from the policy.

use serde_json::Value;

use super::exact::{decimal, fraction, span};
use super::meter::{Algorithm, Quota};
use super::request::Request;

/// The largest possible cost.
const COST_MAX: i128 = (1 << 32) - 1;

/// What happens when a limit denies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Strategy {
    Reject,
    Queue { max_depth: usize, max_wait: i128 },
    Degrade { tag: String },
}

/// A limit that applies to a request.
#[derive(Clone, Debug)]
pub(crate) struct Applied {
    pub(crate) name: String,
    pub(crate) tier: &'static str,
    /// The values of its key.
    pub(crate) key: Vec<String>,
    pub(crate) quota: Quota,
    /// The limit's own numbers before trust, and the trust, if that scales them.
    pub(crate) plain: Quota,
    pub(crate) trust: Option<i128>,
    /// The numbers before trust: its own, or those of the override that has replaced them.
    pub(crate) untrusted: Quota,
    /// What the ancestors of a tenant allow.
    pub(crate) ceiling: Option<Quota>,
    /// The override that has replaced its numbers.
    pub(crate) overridden: Option<String>,
    pub(crate) cost: i128,
    pub(crate) strategy: Strategy,
    pub(crate) shadow: bool,
}

/// Is the entry enabled? It is unless it says `enabled: false`.
pub(crate) fn enabled(entry: &Value) -> bool {
    entry.get("enabled") != Some(&Value::Bool(false))
}

/// The enabled entries of a list, which may be missing.
pub(crate) fn entries<'a>(policy: &'a Value, list: &str) -> Vec<&'a Value> {
    let all = policy.get(list).and_then(Value::as_array);
    all.map(|all| all.iter().filter(|entry| enabled(entry)).collect()).unwrap_or_default()
}

/// Is the whole policy in shadow mode, by `defaults`?
pub(crate) fn whole_shadow(policy: &Value) -> bool {
    policy.pointer("/defaults/mode").and_then(Value::as_str) == Some("shadow")
}

/// Is this limit in shadow mode?
pub(crate) fn shadow(policy: &Value, terms: &Value) -> bool {
    whole_shadow(policy) || terms["mode"] == "shadow"
}

/// `algorithm`
pub(crate) fn algorithm(terms: &Value) -> Algorithm {
    terms.get("algorithm").map_or(Algorithm::TokenBucket, |name| Algorithm::named(name.as_str().unwrap()))
}

/// The numbers, if `sustained` is set.
pub(crate) fn quota(terms: &Value) -> Option<Quota> {
    let sustained = terms.get("sustained")?;
    let rate = integer(&sustained["rate"]);
    let window = span(sustained.get("window").map_or("second", |window| window.as_str().unwrap()));
    let algorithm = algorithm(terms);
    let capacity = if algorithm == Algorithm::TokenBucket { capacity(terms, rate) } else { rate };
    Some(Quota { algorithm, rate: fraction(rate, window), window, capacity, overridden: None })
}

fn capacity(terms: &Value, rate: i128) -> i128 {
    match terms.get("preset").and_then(Value::as_str) {
        Some("interactive") => return 5 * rate,
        Some("batch") => return 10 * rate,
        _ => {}
    }
    let Some(burst) = terms.get("burst") else { return rate };
    match burst.get("allowance") {
        Some(times) => rate * decimal(&times.to_string(), 6) / 1_000_000,
        None => integer(&burst["capacity"]),
    }
}

/// `strategy`
pub(crate) fn strategy(terms: &Value) -> Strategy {
    match terms.get("strategy").and_then(Value::as_str) {
        None | Some("reject") => Strategy::Reject,
        Some("degrade") => Strategy::Degrade {
            tag: terms.pointer("/degrade/tag").map_or("degraded", |tag| tag.as_str().unwrap()).to_owned(),
        },
        Some("queue") => Strategy::Queue {
            max_depth: terms
                .pointer("/queue/max_depth")
                .map_or(100, |depth| depth.as_u64().unwrap() as usize),
            max_wait: span(terms.pointer("/queue/max_wait").map_or("2s", |wait| wait.as_str().unwrap())),
        },
        Some(other) => panic!("{other} is no strategy"),
    }
}

/// The cost of the request for a limit.
pub(crate) fn cost(terms: &Value, route_cost: Option<i128>, request: &Request<'_>) -> i128 {
    let each = match terms.get("cost") {
        Some(Value::Object(fixed)) if fixed.contains_key("fixed") => integer(&fixed["fixed"]),
        Some(Value::Object(taken)) => taken_cost(&Value::Object(taken.clone()), request),
        Some(fixed) => route_cost.unwrap_or(integer(fixed)),
        None => route_cost.unwrap_or(1),
    };
    (request.cost() * each).min(COST_MAX)
}

/// The cost of the request for a tenant's limit: its own, else that of the route, else one.
pub(crate) fn tenant_cost(terms: &Value, route_cost: Option<i128>, request: &Request<'_>) -> i128 {
    cost(terms, route_cost.filter(|_| terms.get("cost").is_none()), request)
}

/// `cost.from`: a value that is not an integer of at least one counts as `default`, a value above `max`, with any
/// number of digits, as `max`.
fn taken_cost(taken: &Value, request: &Request<'_>) -> i128 {
    let default = taken.get("default").map_or(1, integer);
    let max = taken.get("max").map_or(COST_MAX, integer);
    let Some(text) = request.value(taken["from"].as_str().unwrap()) else { return default };
    let digits = text.trim_start_matches('0');
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return default;
    }
    if digits.len() > 20 { max } else { digits.parse::<i128>().unwrap().min(max) }
}

/// A whole number of the policy.
pub(crate) fn integer(value: &Value) -> i128 {
    i128::from(value.as_u64().expect("a whole number"))
}

#[test]
fn costs_come_from_where_the_document_says() {
    let terms = serde_json::json!({"cost": {"from": "header:x-weight", "default": 2, "max": 9}});
    let weigh = |weight: &str| {
        let json = serde_json::json!({"at_ms": 0, "headers": {"x-weight": weight}, "cost": 3});
        cost(&terms, Some(7), &Request::new(&json))
    };
    assert_eq!(weigh("5"), 15);
    assert_eq!([weigh("0"), weigh("-1"), weigh("x"), weigh(""), weigh("1.5")], [6; 5]);
    assert_eq!(weigh("99999999999999999999999999999999999999999999999"), 27);
    let json = serde_json::json!({"at_ms": 0, "cost": COST_MAX as u64});
    assert_eq!(cost(&serde_json::json!({"cost": 2}), None, &Request::new(&json)), COST_MAX, "saturates");
    assert_eq!(cost(&serde_json::json!({"cost": 2}), Some(1), &Request::new(&json)), COST_MAX);
}
