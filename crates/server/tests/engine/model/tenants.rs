//! The tenant tree: which buckets a request takes from, and their numbers.

use serde_json::Value;

use super::exact::{Exact, floor, fraction, span, whole};
use super::meter::{Algorithm, Quota};
use super::request::Request;
use super::terms::{self, Applied};

/// The tenants of a policy that has any. Disabled tenants are included: they are known and may have children.
fn all(policy: &Value) -> Vec<&Value> {
    policy.get("tenants").and_then(Value::as_array).map(|all| all.iter().collect()).unwrap_or_default()
}

fn find<'a>(policy: &'a Value, id: &str) -> Option<&'a Value> {
    all(policy).into_iter().find(|node| node["id"] == *id)
}

/// Does the policy have tenants, but not this one?
pub(crate) fn is_unknown(policy: &Value, tenant: &str) -> bool {
    !all(policy).is_empty() && find(policy, tenant).is_none()
}

/// The buckets that a request of this tenant takes from, from the root down.
pub(crate) fn applying(policy: &Value, route_cost: Option<i128>, request: &Request<'_>) -> Vec<Applied> {
    let Some(named) = request.value("tenant").and_then(|id| find(policy, &id)) else { return Vec::new() };
    let mut nodes = ancestors(policy, named);
    nodes.retain(|ancestor| !is_private(ancestor) && has_pool(ancestor));
    nodes.reverse();
    nodes.push(named);
    let mut applied = Vec::new();
    for node in nodes {
        let Some(quota) = effective(policy, node) else { continue };
        let limit = rate_limit(node);
        let id = node["id"].as_str().unwrap();
        applied.push(Applied {
            name: format!("tenant:{id}"),
            tier: "tenant",
            key: if node["id"] == named["id"] { scope_value(limit, request) } else { Vec::new() },
            quota,
            cost: terms::cost(&Value::Null, route_cost, request),
            strategy: limit.map_or(terms::Strategy::Reject, terms::strategy),
            shadow: terms::shadow(policy, limit.unwrap_or(&Value::Null)),
        });
    }
    applied
}

/// The ancestors, from the parent up.
fn ancestors<'a>(policy: &'a Value, node: &Value) -> Vec<&'a Value> {
    let mut chain = Vec::new();
    let mut parent = node.get("parent");
    while let Some(id) = parent {
        let node = find(policy, id.as_str().unwrap()).expect("parents exist");
        chain.push(node);
        parent = node.get("parent");
    }
    chain
}

/// A disabled node has no limit.
fn rate_limit(node: &Value) -> Option<&Value> {
    node.get("rate_limit").filter(|_| terms::enabled(node))
}

/// Is it hidden from its descendants? A node without a limit is, too.
fn is_private(node: &Value) -> bool {
    !rate_limit(node).is_some_and(|limit| limit["sharing"] == "inherit" || limit["sharing"] == "enforce")
}

/// Do its descendants take from its own bucket?
fn has_pool(node: &Value) -> bool {
    rate_limit(node).is_some_and(|limit| pool(limit).is_some())
}

/// `budget.total` where the mode has one.
fn pool(limit: &Value) -> Option<i128> {
    let budget = limit.get("budget")?;
    let has_total = budget["mode"] == "allocated" || budget["mode"] == "shared";
    has_total.then(|| terms::integer(&budget["total"]))
}

/// The smallest rate and the smallest capacity among its own numbers and those of all ancestors that are not private
/// (a parent's limit also applies to its children).
fn effective(policy: &Value, node: &Value) -> Option<Quota> {
    let above = ancestors(policy, node).into_iter().filter(|ancestor| !is_private(ancestor));
    // A shadow limit does not reduce an enforced one.
    let watched = |node: &Value| terms::shadow(policy, rate_limit(node).unwrap_or(&Value::Null));
    let above = above.filter(|ancestor| watched(node) || !watched(ancestor));
    // The algorithm is that of the nearest limit that applies, shadow or not.
    let binding = ancestors(policy, node).into_iter().filter(|ancestor| !is_private(ancestor));
    let giver = std::iter::once(node).chain(binding).find_map(own_numbers)?;
    let candidates: Vec<Quota> = std::iter::once(node).chain(above).filter_map(own_numbers).collect();
    let mut quota = candidates.first()?.clone();
    quota.algorithm = giver.algorithm;
    for other in &candidates[1..] {
        if quota.algorithm == Algorithm::TokenBucket {
            if other.rate < quota.rate {
                (quota.rate, quota.window) = (other.rate.clone(), other.window);
            }
            quota.capacity = quota.capacity.min(other.capacity);
        } else {
            shrink_window(&mut quota, other);
        }
    }
    if quota.algorithm != Algorithm::TokenBucket {
        quota.capacity = floor(&(&quota.rate * whole(quota.window)));
    }
    Some(quota)
}

/// A window keeps its length if the other rate gives at least one token in it; otherwise it takes the other's length
/// and the smaller count.
fn shrink_window(quota: &mut Quota, other: &Quota) {
    let count = |quota: &Quota| floor(&(&quota.rate * whole(quota.window)));
    let share = floor(&(&other.rate * whole(quota.window)));
    let (least, window) = if share == 0 {
        (count(quota).min(count(other)), other.window)
    } else {
        (count(quota).min(share), quota.window)
    };
    (quota.rate, quota.window) = (fraction(least, window), window);
}

/// The own numbers of a node, capped to its budget's total in its own window.
fn own_numbers(node: &Value) -> Option<Quota> {
    let limit = rate_limit(node)?;
    let mut own = terms::quota(limit)?;
    if let Some(total) = pool(limit) {
        own.rate = own.rate.min(fraction(total, own.window));
        own.capacity = own.capacity.min(total);
    }
    Some(own)
}

/// `scope` adds a descriptor to the named tenant's own bucket; requests without
/// it share one.
fn scope_value(limit: Option<&Value>, request: &Request<'_>) -> Vec<String> {
    match limit.and_then(|limit| limit.get("scope")).and_then(Value::as_str) {
        None | Some("tenant" | "global") => Vec::new(),
        Some("endpoint") => vec![request.value("route").unwrap_or_default()],
        Some(scope) => vec![request.value(scope).unwrap_or_default()],
    }
}

/// The sum of the children's rates under an allocated budget, in their parent's window, and the total.
pub(crate) fn promised(tenants: &[Value], parent: &Value) -> Option<(Exact, i128)> {
    let limit = parent.get("rate_limit")?;
    if limit.pointer("/budget/mode")? != "allocated" {
        return None;
    }
    let window =
        |sustained: &Value| span(sustained.get("window").map_or("second", |word| word.as_str().unwrap()));
    let children = tenants.iter().filter(|child| child.get("parent") == Some(&parent["id"]));
    let sum =
        children.filter_map(|child| child.pointer("/rate_limit/sustained")).fold(whole(0), |sum, child| {
            sum + fraction(terms::integer(&child["rate"]) * window(&limit["sustained"]), window(child))
        });
    Some((sum, terms::integer(&limit["budget"]["total"])))
}
