//! One tree of limits: those for all requests, or those for one upstream.

use std::borrow::Cow;

use tidegate_core::Algorithm;

use super::limit_of;
use super::tree::Tree;
use crate::Descriptor;
use crate::compile::terms;
use crate::document::{
    BudgetMode, CostEntry, LimitTerms, Mode, OnStoreError, Sharing, StrategyEntry, TENANT_PREFIX, TenantLimit,
};
use crate::rules::{Numbers, ResolvedTenantLimit, TenantCharge};

/// One tree of limits, by the indices of the tenants.
pub(super) struct Plane<'d> {
    pub(super) tree: &'d Tree<'d>,
    /// The upstream; `None` for all requests.
    pub(super) upstream: Option<&'d str>,
    /// The limits as written.
    pub(super) limits: Vec<Option<&'d TenantLimit>>,
    /// What is known of each tenant's limit.
    pub(super) nodes: Vec<ResolvedTenantLimit>,
    /// The buckets that a request of each tenant takes tokens from, from the root down.
    pub(super) charges: Vec<Vec<TenantCharge>>,
}

/// The name of a tenant's limit in decisions.
pub(super) fn limit_name(id: &str, upstream: Option<&str>) -> String {
    match upstream {
        Some(upstream) => format!("{TENANT_PREFIX}{id}/{upstream}"),
        None => format!("{TENANT_PREFIX}{id}"),
    }
}

/// The name of what remains of a tenant's budget.
pub(super) fn remainder_name(id: &str, upstream: Option<&str>) -> String {
    limit_name(id, upstream) + ":remainder"
}

impl<'d> Plane<'d> {
    pub(super) fn all_requests(tree: &'d Tree<'d>) -> Plane<'d> {
        Plane { limits: tree.entries.iter().map(limit_of).collect(), ..Plane::empty(tree, None) }
    }

    pub(super) fn of_upstream(tree: &'d Tree<'d>, upstream: &'d str) -> Plane<'d> {
        Plane::empty(tree, Some(upstream))
    }

    fn empty(tree: &'d Tree<'d>, upstream: Option<&'d str>) -> Plane<'d> {
        Plane {
            tree,
            upstream,
            limits: vec![None; tree.entries.len()],
            nodes: Vec::new(),
            charges: Vec::new(),
        }
    }

    /// The ancestors whose limits bind a tenant, nearest first.
    pub(super) fn binding_ancestors(&self, index: usize) -> impl Iterator<Item = usize> + '_ {
        self.tree.ancestors(index).filter(|&ancestor| self.nodes[ancestor].sharing != Sharing::Private)
    }

    /// The ancestors that cap each tenant below by itself, nearest first.
    pub(super) fn capping_ancestors(&self, index: usize) -> impl Iterator<Item = usize> + '_ {
        self.binding_ancestors(index).filter(|&ancestor| {
            let node = &self.nodes[ancestor];
            node.budget == BudgetMode::Unlimited && !node.shadow && node.own.is_some()
        })
    }

    /// The ancestors with a budget, from which all tenants below take tokens together, nearest first.
    pub(super) fn budgeted_ancestors(&self, index: usize) -> impl Iterator<Item = usize> + '_ {
        self.binding_ancestors(index).filter(|&ancestor| self.nodes[ancestor].budget != BudgetMode::Unlimited)
    }

    /// The lowest of a tenant's own numbers and those of the ancestors that bind it. An ancestor in shadow mode caps
    /// nobody.
    pub(super) fn effective(&self, index: usize) -> Option<Numbers> {
        let above = self.binding_ancestors(index).filter(|&ancestor| !self.nodes[ancestor].shadow);
        let chain = std::iter::once(index).chain(above);
        lowest(self.terms(index).algorithm, chain.filter_map(|node| self.nodes[node].capped))
    }

    /// What a tenant's limit does beside its numbers. A tenant without a limit takes it from the nearest ancestor that
    /// binds it.
    pub(super) fn terms(&self, index: usize) -> NodeTerms<'d> {
        let limit = self.limits[index];
        let written = match limit {
            Some(limit) => Cow::Borrowed(&limit.terms),
            None => {
                let giver = self.binding_ancestors(index).find_map(|ancestor| self.limits[ancestor]);
                Cow::Owned(giver.map(|giver| inherited(&giver.terms)).unwrap_or_default())
            }
        };
        let has_algorithm = self.nodes[index].own.is_some() || written.algorithm.is_some();
        let giver = self.binding_ancestors(index).find(|&ancestor| self.nodes[ancestor].own.is_some());
        let giver = giver.and_then(|ancestor| self.limits[ancestor]).filter(|_| !has_algorithm);
        let algorithm =
            giver.map_or_else(|| terms::algorithm(&written), |giver| terms::algorithm(&giver.terms));
        NodeTerms {
            scope: limit.map(|limit| limit.scope.as_ref().map(|scope| &scope.value)),
            written,
            algorithm,
        }
    }
}

/// The lowest rate and burst of a chain; `None` if it is empty. A window algorithm keeps the window of the first.
pub(super) fn lowest(algorithm: Algorithm, chain: impl Iterator<Item = Numbers>) -> Option<Numbers> {
    match algorithm {
        Algorithm::TokenBucket => chain.reduce(Numbers::least),
        _ => chain.reduce(Numbers::least_in_window),
    }
}

/// The terms that a tenant without a limit takes from an ancestor. Its algorithm is that of its numbers.
fn inherited(terms: &LimitTerms) -> LimitTerms {
    LimitTerms {
        mode: terms.mode,
        strategy: terms.strategy.clone(),
        cost: terms.cost.clone(),
        on_store_error: terms.on_store_error,
        ..LimitTerms::default()
    }
}

/// What a tenant's limit does beside its numbers.
pub(super) struct NodeTerms<'d> {
    pub(super) written: Cow<'d, LimitTerms>,
    pub(super) algorithm: Algorithm,
    /// The descriptor by which it is divided; the outer `None` if the tenant has no limit.
    scope: Option<Option<&'d Descriptor>>,
}

impl NodeTerms<'_> {
    /// The member in which this limit differs from that of an ancestor, so that it cannot stand for it.
    pub(super) fn difference(&self, ancestor: &NodeTerms<'_>) -> Option<&'static str> {
        let (own, above) = (&*self.written, &*ancestor.written);
        let is_shadow = |terms: &LimitTerms| terms.mode == Some(Mode::Shadow);
        let fault: fn(&LimitTerms) -> Option<OnStoreError> = |terms| terms.on_store_error;
        let differences = [
            ("mode", is_shadow(own) != is_shadow(above)),
            ("strategy", !is_same_strategy(&own.strategy, &above.strategy)),
            ("scope", self.scope.is_some_and(|scope| Some(scope) != ancestor.scope)),
            ("algorithm", self.algorithm != ancestor.algorithm),
            ("cost", !is_same_cost(own.cost.as_ref(), above.cost.as_ref())),
            ("on_store_error", fault(own) != fault(above)),
        ];
        differences.into_iter().find(|(_, differs)| *differs).map(|(member, _)| member)
    }
}

fn is_same_strategy(one: &StrategyEntry, other: &StrategyEntry) -> bool {
    std::mem::discriminant(one) == std::mem::discriminant(other)
}

fn is_same_cost(one: Option<&CostEntry>, other: Option<&CostEntry>) -> bool {
    terms::tenant_cost(one) == terms::tenant_cost(other)
}
