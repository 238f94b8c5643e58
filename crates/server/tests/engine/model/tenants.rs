//! The tenant tree: which buckets a request takes from, and their numbers.
//!
//! `upstream` is `None` for the limits of all requests, and the name of an upstream for those of `upstreams`.

use serde_json::{Value, json};

use super::exact::{Exact, floor, fraction, span, whole};
use super::meter::{Algorithm, Quota};
use super::request::Request;
use super::terms::{self, Applied};

/// The tenants of a policy that has any. Disabled tenants are included: they are known and may have children.
fn all(policy: &Value) -> Vec<&Value> {
    policy.get("tenants").and_then(Value::as_array).map(|all| all.iter().collect()).unwrap_or_default()
}

/// The entry of a tenant: its own, or that of all tenants that are not listed.
fn find<'a>(policy: &'a Value, id: &str) -> Option<&'a Value> {
    let entry = |id: &str| all(policy).into_iter().find(|node| node["id"] == *id);
    entry(id).or_else(|| entry("*"))
}

/// Does the policy have tenants, but not this one?
pub(crate) fn is_unknown(policy: &Value, tenant: &str) -> bool {
    !all(policy).is_empty() && find(policy, tenant).is_none()
}

/// The buckets that a request takes from, from the root down: at each tenant the limit for all requests, that for the
/// upstream, and then what remains of its budgets.
pub(crate) fn applying(policy: &Value, route_cost: Option<i128>, request: &Request<'_>) -> Vec<Applied> {
    let Some(id) = request.value("tenant") else { return Vec::new() };
    let Some(named) = find(policy, &id) else { return Vec::new() };
    let declared = |name: &String| {
        let names = policy.get("upstreams").and_then(Value::as_array).into_iter().flatten();
        names.into_iter().any(|upstream| upstream["name"] == **name)
    };
    let upstream = request.value("upstream").filter(declared);
    let mut placed = Vec::new();
    for upstream in [None].into_iter().chain(upstream.as_deref().map(Some)) {
        let view = View { policy, upstream, request, route_cost };
        placed.extend(view.buckets(named, &id));
    }
    placed.sort_by_key(|(place, _)| *place);
    placed.into_iter().map(|(_, applied)| applied).collect()
}

/// One tree of limits, for one request.
struct View<'v> {
    policy: &'v Value,
    upstream: Option<&'v str>,
    request: &'v Request<'v>,
    route_cost: Option<i128>,
}

impl View<'_> {
    /// The buckets, each with its place: how deep its tenant is, and whether it is a remainder.
    fn buckets(&self, named: &Value, id: &str) -> Vec<((usize, bool), Applied)> {
        let tree = Tree { policy: self.policy, upstream: self.upstream };
        let mut buckets = Vec::new();
        if let Some(quota) = tree.effective(named) {
            let mut key = scope_value(tree.limit(named), self.request);
            if named["id"] == "*" {
                key.insert(0, id.to_owned());
            }
            let bucket = self.bucket(named, tree.name(named), key, quota);
            buckets.push((self.depth(named), false, Applied { ceiling: tree.above(named), ..bucket }));
        }
        for ancestor in tree.binding(named).into_iter().filter(|node| tree.has_pool(node)) {
            if let Some(quota) = tree.effective(ancestor) {
                let bucket = self.bucket(ancestor, tree.name(ancestor), Vec::new(), quota);
                let ceiling = tree.above(ancestor);
                buckets.push((self.depth(ancestor), false, Applied { ceiling, ..bucket }));
            }
        }
        let mut child = named;
        for parent in ancestors(self.policy, named) {
            let has_numbers = tree.numbers(child).is_some();
            if let Some(quota) =
                Some(parent).filter(|_| !has_numbers).and_then(|parent| tree.remainder(parent))
            {
                let name = format!("{}:remainder", tree.name(parent));
                buckets.push((self.depth(parent), true, self.bucket(parent, name, Vec::new(), quota)));
            }
            child = parent;
        }
        if let Some((giver, key, quota, ceiling)) = tree.not_loosened(named, id) {
            let bucket = self.bucket(giver, tree.name(giver), key, quota);
            buckets.push((self.depth(giver), false, Applied { ceiling, ..bucket }));
        }
        buckets.into_iter().map(|(depth, remains, bucket)| ((depth, remains), bucket)).collect()
    }

    fn depth(&self, node: &Value) -> usize {
        ancestors(self.policy, node).len()
    }

    /// A bucket with the terms of a tenant.
    fn bucket(&self, node: &Value, name: String, key: Vec<String>, quota: Quota) -> Applied {
        let tree = Tree { policy: self.policy, upstream: self.upstream };
        let terms = tree.terms(node);
        Applied {
            name,
            tier: "tenant",
            key,
            plain: quota.clone(),
            untrusted: quota.clone(),
            quota,
            trust: None,
            ceiling: None,
            overridden: None,
            cost: terms::tenant_cost(&terms, self.route_cost, self.request),
            strategy: terms::strategy(&terms),
            shadow: terms::shadow(self.policy, &terms),
        }
    }
}

/// One tree of limits.
struct Tree<'t> {
    policy: &'t Value,
    upstream: Option<&'t str>,
}

impl<'t> Tree<'t> {
    fn name(&self, node: &Value) -> String {
        let id = node["id"].as_str().unwrap();
        self.upstream.map_or_else(|| format!("tenant:{id}"), |upstream| format!("tenant:{id}/{upstream}"))
    }

    /// A disabled node has no limit.
    fn limit<'a>(&self, node: &'a Value) -> Option<&'a Value> {
        let holder = match self.upstream {
            None => Some(node),
            Some(upstream) => node.get("upstreams").and_then(|all| all.get(upstream)),
        };
        holder?.get("rate_limit").filter(|limit| terms::enabled(node) && terms::enabled(limit))
    }

    fn is_shadow(&self, node: &Value) -> bool {
        self.limit(node).is_some_and(|limit| limit["mode"] == "shadow")
    }

    /// Is it hidden from its descendants? A node without a limit is, too.
    fn is_private(&self, node: &Value) -> bool {
        !self.limit(node).is_some_and(|limit| limit["sharing"] == "inherit" || limit["sharing"] == "enforce")
    }

    /// The ancestors that bind a node, from the parent up.
    fn binding(&self, node: &Value) -> Vec<&'t Value> {
        let mut binding = ancestors(self.policy, node);
        binding.retain(|ancestor| !self.is_private(ancestor));
        binding
    }

    /// Do its descendants take from its own bucket?
    fn has_pool(&self, node: &Value) -> bool {
        let mode = |limit: &Value| limit.pointer("/budget/mode").cloned();
        self.limit(node).and_then(mode).is_some_and(|mode| mode == "allocated" || mode == "shared")
    }

    /// The own numbers of a node; a budget caps the rate, in the window of the node, but not the burst.
    fn numbers(&self, node: &Value) -> Option<Quota> {
        let limit = self.limit(node)?;
        let mut own = terms::quota(limit)?;
        if let (true, Some(total)) = (self.has_pool(node), limit.pointer("/budget/total")) {
            own.rate = own.rate.min(fraction(terms::integer(total), own.window));
        }
        Some(own)
    }

    /// What a node's limit says beside its numbers. A node without a limit takes it from the nearest ancestor that
    /// binds it, except for the scope.
    fn terms(&self, node: &Value) -> Value {
        if let Some(limit) = self.limit(node) {
            return limit.clone();
        }
        let mut taken = json!({});
        if let Some(giver) = self.binding(node).first().and_then(|giver| self.limit(giver)) {
            for member in ["mode", "strategy", "queue", "degrade", "cost", "on_store_error"] {
                if let Some(value) = giver.get(member) {
                    taken[member] = value.clone();
                }
            }
        }
        taken
    }

    /// The algorithm is that of the nearest limit that has numbers, shadow or not.
    fn algorithm(&self, node: &Value) -> Option<Algorithm> {
        if let Some(limit) = self.limit(node).filter(|limit| limit.get("algorithm").is_some()) {
            return Some(terms::algorithm(limit));
        }
        std::iter::once(node)
            .chain(self.binding(node))
            .find_map(|node| self.numbers(node))
            .map(|own| own.algorithm)
    }

    /// The smallest rate and the smallest capacity among its own numbers and those of all ancestors that bind it,
    /// except those in shadow mode.
    fn effective(&self, node: &Value) -> Option<Quota> {
        let above = self.binding(node).into_iter().filter(|ancestor| !self.is_shadow(ancestor));
        let candidates = std::iter::once(node).chain(above).filter_map(|node| self.numbers(node)).collect();
        smallest(candidates, self.algorithm(node)?)
    }

    /// The smallest rate and capacity of the ancestors that bind it.
    fn above(&self, node: &Value) -> Option<Quota> {
        let above = self.binding(node).into_iter().filter(|ancestor| !self.is_shadow(ancestor));
        smallest(above.filter_map(|node| self.numbers(node)).collect(), Algorithm::TokenBucket)
    }

    /// What is left of an allocated budget for the children without numbers, with the burst that the parent has.
    fn remainder(&self, parent: &Value) -> Option<Quota> {
        if self.is_private(parent) {
            return None;
        }
        let (sum, total) = promised(self.policy["tenants"].as_array()?, parent, self.upstream)?;
        let (own, effective) = (self.numbers(parent)?, self.effective(parent)?);
        let left = floor(&(whole(total) - sum));
        assert!(left > 0, "a policy without a remainder for such children is refused");
        let mut quota = Quota { rate: fraction(left, own.window), ..own };
        quota.capacity = if quota.algorithm == Algorithm::TokenBucket { effective.capacity } else { left };
        Some(quota)
    }

    /// Where a node's limit would loosen those of the ancestors that cap it: the ancestor that speaks, the key of the
    /// bucket for this tenant alone, the smallest numbers of those ancestors, and those of the others than the one that
    /// speaks.
    fn not_loosened(&self, node: &Value, id: &str) -> Option<(&'t Value, Vec<String>, Quota, Option<Quota>)> {
        let mut above = self.binding(node);
        above.retain(|ancestor| {
            !self.has_pool(ancestor) && !self.is_shadow(ancestor) && self.numbers(ancestor).is_some()
        });
        let nearest = *above.first()?;
        if above.iter().all(|ancestor| self.says_the_same(node, ancestor)) {
            return None;
        }
        let refuses = |ancestor: &&Value| self.terms(ancestor)["strategy"] != "degrade";
        let giver = above.iter().copied().find(refuses).unwrap_or(nearest);
        let mut key = vec!["enforced".to_owned(), id.to_owned()];
        if giver["id"] != nearest["id"] {
            key.push(nearest["id"].as_str().unwrap().to_owned());
        }
        above.retain(|ancestor| ancestor["id"] != giver["id"]);
        let others = above.iter().filter_map(|ancestor| self.numbers(ancestor)).collect();
        above.insert(0, giver);
        let numbers = above.into_iter().filter_map(|ancestor| self.numbers(ancestor)).collect();
        Some((
            giver,
            key,
            smallest(numbers, self.algorithm(giver)?)?,
            smallest(others, Algorithm::TokenBucket),
        ))
    }

    fn says_the_same(&self, node: &Value, ancestor: &Value) -> bool {
        let (own, above) = (self.terms(node), self.terms(ancestor));
        let word = |terms: &Value, member: &str, usual: &str| {
            terms.get(member).map_or(usual.to_owned(), |word| word.as_str().unwrap().to_owned())
        };
        let scope = |terms: &Value| match word(terms, "scope", "tenant").as_str() {
            "global" => "tenant".to_owned(),
            "endpoint" => "route".to_owned(),
            scope => scope.to_owned(),
        };
        word(&own, "mode", "enforce") == word(&above, "mode", "enforce")
            && word(&own, "strategy", "reject") == word(&above, "strategy", "reject")
            && (self.limit(node).is_none() || scope(&own) == scope(&above))
            && self.algorithm(node) == self.algorithm(ancestor)
            && own.get("cost") == above.get("cost")
            && own.get("on_store_error") == above.get("on_store_error")
    }
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

/// The smallest rate and the smallest capacity; a window algorithm keeps the window of the first.
fn smallest(candidates: Vec<Quota>, algorithm: Algorithm) -> Option<Quota> {
    let mut quota = candidates.first()?.clone();
    quota.algorithm = algorithm;
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
pub(crate) fn promised(tenants: &[Value], parent: &Value, upstream: Option<&str>) -> Option<(Exact, i128)> {
    let policy = Value::Null;
    let tree = Tree { policy: &policy, upstream };
    let limit = tree.limit(parent)?;
    if limit.pointer("/budget/mode")? != "allocated" {
        return None;
    }
    let window =
        |sustained: &Value| span(sustained.get("window").map_or("second", |word| word.as_str().unwrap()));
    let sustained = limit.get("sustained")?;
    let children =
        tenants.iter().filter(|child| child.get("parent") == Some(&parent["id"]) && child["id"] != "*");
    let rates = children.filter_map(|child| tree.limit(child)?.get("sustained"));
    let sum = rates.fold(whole(0), |sum, child| {
        sum + fraction(terms::integer(&child["rate"]) * window(sustained), window(child))
    });
    let total = limit.pointer("/budget/total").unwrap_or(&sustained["rate"]);
    Some((sum, terms::integer(total)))
}

/// Is there a child without numbers of its own, which would need a part of the budget?
pub(crate) fn has_child_without_numbers(tenants: &[Value], parent: &Value, upstream: Option<&str>) -> bool {
    let policy = Value::Null;
    let tree = Tree { policy: &policy, upstream };
    let mut children = tenants.iter().filter(|child| child.get("parent") == Some(&parent["id"]));
    !tree.is_private(parent) && children.any(|child| tree.numbers(child).is_none())
}
