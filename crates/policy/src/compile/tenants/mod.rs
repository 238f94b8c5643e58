//! Compiles `tenants`: the tree, the lowest numbers along each chain of ancestors, and the buckets that a request of
//! each tenant takes tokens from.
//!
//! A tenant has a limit for all its requests, and may have one for each upstream. The limits for one upstream form a
//! tree of their own that is resolved in the same way; [`Plane`] is one such tree.

mod budget;
mod plane;
mod rules;
mod tree;

pub use tree::DEPTH_MAX;

use std::collections::{BTreeMap, HashMap};

use super::Compiler;
use crate::Problem;
use crate::document::{Document, TENANT_PREFIX, TenantEntry};
use crate::rules::{Rule, Tenant, TenantBucket, TenantCharge, Tenants};
use plane::Plane;
use tree::Tree;

/// The highest number of compiled limits of tenants: a limit at the root for each upstream makes one for each upstream
/// and tenant.
const TENANT_RULES_MAX: usize = 500_000;

impl Compiler<'_> {
    pub(super) fn tenants(&mut self, document: &Document, rules: &mut Vec<Rule>) -> Tenants {
        let tree = self.tree(document);
        self.check_unlisted(&tree);
        self.check_default_tenant(document, &tree);
        let limit_count = rules.len();
        let mut nodes: Vec<Tenant> = Vec::with_capacity(tree.entries.len());
        let base = Plane::all_requests(&tree);
        let base = self.resolve(base, rules, limit_count);
        for (index, (limit, charges)) in base.nodes.into_iter().zip(base.charges).enumerate() {
            nodes.push(Tenant {
                id: tree.id(index).into(),
                parent: tree.parent(index),
                depth: tree.depth(index),
                limit,
                upstreams: Vec::new(),
                charges,
                upstream_charges: Vec::new(),
            });
        }
        for (number, plane) in upstream_planes(document, &tree) {
            let plane = self.resolve(plane, rules, limit_count);
            for (node, (limit, charges)) in nodes.iter_mut().zip(plane.nodes.into_iter().zip(plane.charges)) {
                if !charges.is_empty() {
                    node.upstream_charges.push((number, charges));
                    node.upstreams.push((number, limit));
                }
            }
        }
        for node in &mut nodes {
            for (_, charges) in &mut node.upstream_charges {
                charges.extend(&node.charges);
                charges.sort_by_key(|charge| charge_order(&tree, charge));
            }
        }
        self.check_told_names(&rules[limit_count..], &nodes, limit_count);
        let by_id = tree.by_id.iter().map(|(id, index)| ((*id).into(), *index)).collect();
        Tenants { nodes: nodes.into(), by_id, unlisted: tree.unlisted }
    }

    /// The entry for tenants that are not listed has no children, so a budget would have no effect.
    fn check_unlisted(&mut self, tree: &Tree<'_>) {
        let Some(entry) = tree.unlisted.map(|index| &tree.entries[index]) else { return };
        let limits = entry.rate_limit.iter().chain(entry.upstreams.iter().flat_map(|u| &u.rate_limit));
        for limit in limits {
            if let Some(budget) = &limit.budget {
                let path = format!("{}.budget", limit.path);
                let message = "the entry `*` cannot have a budget: no tenant is below it";
                let problem = Problem::error(budget.at, path, message);
                self.report(
                    problem.hint("give the budget to its `parent`, which all unlisted tenants then share"),
                );
            }
        }
    }

    fn check_default_tenant(&mut self, document: &Document, tree: &Tree<'_>) {
        let Some(tenant) = &document.defaults.tenant else { return };
        let listed = document.tenant_ids.iter().any(|id| id.name.value == tenant.value);
        if listed || tree.entries.is_empty() || tree.unlisted.is_some() {
            return;
        }
        let message = format!("the tenant `{}` is not in `tenants`", tenant.value);
        let problem = Problem::error(tenant.at, "defaults.tenant", message);
        let problem = problem.saw(format!("`{}`", tenant.value)).want("the `id` of a tenant");
        self.report(match tidegate_document::nearest(&tenant.value, tree.by_id.keys().copied()) {
            Some(known) => problem.hint(format!("did you mean `{known}`?")),
            None => problem.hint(format!("add `- id: {}` to `tenants`", tenant.value)),
        });
    }

    /// Decisions report tenants' limits by name, so two of them must not share one. A limit that is enforced for an
    /// ancestor has the ancestor's name on purpose.
    fn check_told_names(&mut self, rules: &[Rule], nodes: &[Tenant], first: usize) {
        let mut enforced = vec![false; rules.len()];
        let charges = nodes.iter().flat_map(|node| {
            node.charges.iter().chain(node.upstream_charges.iter().flat_map(|(_, charges)| charges))
        });
        for charge in charges.filter(|charge| charge.bucket == TenantBucket::Enforced) {
            enforced[charge.rule as usize - first] = true;
        }
        let mut seen: HashMap<&str, &Rule> = HashMap::new();
        for (rule, _) in rules.iter().zip(enforced).filter(|(_, enforced)| !enforced) {
            let Some(other) = seen.insert(&rule.name, rule) else { continue };
            // Two entries of one id are reported as such.
            if other.at == rule.at || nodes.iter().filter(|node| is_told(&node.id, &rule.name)).count() > 1 {
                continue;
            }
            let message = format!("two limits of tenants would be called `{}`", rule.name);
            let problem = Problem::error(rule.at.max(other.at), "tenants", message);
            let hint =
                "rename the tenant whose id ends like a remainder (`:remainder`) or an upstream (`/name`)";
            let line = rule.at.min(other.at).line;
            self.report(
                problem.want(format!("another name than that of the limit on line {line}")).hint(hint),
            );
        }
    }
}

/// The trees of limits for single upstreams, by the number of the upstream. Names that `upstreams` lacks are reported
/// elsewhere, and an upstream that is switched off has no requests.
fn upstream_planes<'d>(document: &'d Document, tree: &'d Tree<'d>) -> BTreeMap<u32, Plane<'d>> {
    let used = document.upstreams.iter().filter(|upstream| upstream.enabled);
    let numbers: HashMap<&str, u32> = used.map(|upstream| upstream.name.value.as_str()).zip(0..).collect();
    let mut planes: BTreeMap<u32, Plane<'d>> = BTreeMap::new();
    for (index, entry) in tree.entries.iter().enumerate() {
        for upstream in &entry.upstreams {
            let Some(&number) = numbers.get(upstream.name.value.as_str()) else { continue };
            let plane =
                planes.entry(number).or_insert_with(|| Plane::of_upstream(tree, &upstream.name.value));
            plane.limits[index] = upstream.rate_limit.as_ref().filter(|_| entry.enabled);
        }
    }
    planes
}

/// Is this the name of the limit of the tenant for all requests?
fn is_told(id: &str, name: &str) -> bool {
    name.strip_prefix(TENANT_PREFIX) == Some(id)
}

/// The order of the limits in a decision: from the root down, at each tenant the limit for all requests before that
/// for the upstream, and what remains of budgets last.
fn charge_order(tree: &Tree<'_>, charge: &TenantCharge) -> (u32, bool, bool) {
    let depth = tree.depth(charge.node as usize);
    (depth, charge.bucket == TenantBucket::Remainder, charge.is_of_upstream)
}

/// The limit of a tenant that is in use.
fn limit_of(entry: &TenantEntry) -> Option<&crate::document::TenantLimit> {
    entry.rate_limit.as_ref().filter(|_| entry.enabled)
}
