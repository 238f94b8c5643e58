//! Compiles `tenants`: the tree, the lowest numbers along each chain of ancestors, and the buckets that a request of
//! each tenant takes tokens from.

use std::collections::{HashMap, HashSet};

use tidegate_core::Algorithm;
use tidegate_document::nearest;

use super::fraction::Fraction;
use super::{Compiler, terms};
use crate::Problem;
use crate::document::{
    Budget, BudgetMode, Document, LimitTerms, Mode, Sharing, TENANT_PREFIX, TenantEntry, TenantLimit,
};
use crate::rules::{Numbers, Rule, TagRule, Tenant, TenantCharge, Tenants, Tier, WindowLength};

/// The highest number of generations of tenants.
const DEPTH_MAX: usize = 64;

/// How many times a similar name is searched: each search compares with every tenant.
const GUESSES_MAX: usize = 20;

impl Compiler<'_> {
    pub(super) fn tenants(&mut self, document: &Document, rules: &mut Vec<Rule>) -> Tenants {
        let entries = &document.tenants[..];
        let mut by_id: HashMap<&str, usize> = HashMap::new();
        for (index, entry) in entries.iter().enumerate() {
            by_id.entry(&entry.id.value).or_insert(index);
        }
        let parents = self.parents(document, &by_id);
        let mut nodes: Vec<Tenant> =
            entries.iter().zip(&parents).map(|(entry, parent)| self.node(entry, *parent)).collect();
        self.check_allocation(entries, &nodes);
        let mut rule_of = vec![None; nodes.len()];
        for (index, entry) in entries.iter().enumerate() {
            let (terms, algorithm) = terms_of(entry, &nodes, entries, index);
            let effective = effective(&nodes, index, algorithm);
            nodes[index].effective = effective;
            rule_of[index] = effective.and_then(|numbers| {
                let root =
                    std::iter::successors(Some(index), |&index| parents[index]).last().unwrap_or(index);
                let tag = TagRule::Root(entries[root].id.value.as_str().into());
                let rule = self.tenant_rule(entry, terms, algorithm, numbers)?;
                rules.push(Rule { tag, ..rule });
                Some(rules.len() as u32 - 1)
            });
        }
        for index in 0..nodes.len() {
            nodes[index].charges = charges(&nodes, &rule_of, index);
        }
        let by_id = by_id.into_iter().map(|(id, index)| (id.into(), index)).collect();
        Tenants { nodes: nodes.into(), by_id }
    }

    /// The index of each entry's parent. A parent that does not exist, or that closes a circle, is reported and left
    /// out.
    fn parents(&mut self, document: &Document, by_id: &HashMap<&str, usize>) -> Vec<Option<usize>> {
        let entries = &document.tenants[..];
        // A parent whose entry has errors still exists, so its children are not reported.
        let ids: HashSet<&str> = document.tenant_ids.iter().map(|id| id.name.value.as_str()).collect();
        let mut parents: Vec<Option<usize>> = Vec::with_capacity(entries.len());
        for entry in entries {
            let found = entry.parent.as_ref().and_then(|parent| by_id.get(parent.value.as_str()).copied());
            if let Some(parent) = entry.parent.as_ref().filter(|parent| !ids.contains(parent.value.as_str()))
            {
                let message = format!("the parent `{}` is not a tenant of this policy", parent.value);
                let problem = Problem::error(parent.at, format!("{}.parent", entry.path), message)
                    .saw(format!("`{}`", parent.value))
                    .want("the `id` of another tenant");
                let others = ids.iter().copied().filter(|id| *id != entry.id.value);
                let near =
                    if self.problems.len() < GUESSES_MAX { nearest(&parent.value, others) } else { None };
                self.report(match near {
                    Some(known) => problem.hint(format!("did you mean `{known}`?")),
                    None => problem.hint(format!("add `- id: {}` to `tenants`", parent.value)),
                });
            }
            parents.push(found);
        }
        for (index, entry) in entries.iter().enumerate() {
            self.break_circle(entries, &mut parents, index, entry);
        }
        parents
    }

    fn break_circle(
        &mut self,
        entries: &[TenantEntry],
        parents: &mut [Option<usize>],
        start: usize,
        entry: &TenantEntry,
    ) {
        let mut chain = vec![start];
        let mut index = start;
        while let Some(parent) = parents[index] {
            let circle = parent == start;
            if circle || chain.len() == DEPTH_MAX {
                let names: Vec<&str> = chain.iter().map(|&p| entries[p].id.value.as_str()).collect();
                let at = entry.parent.as_ref().map_or(entry.at, |parent| parent.at);
                let path = format!("{}.parent", entry.path);
                self.report(if circle {
                    let message = format!("`{}` is its own ancestor", entry.id.value);
                    Problem::error(at, path, message)
                        .saw(format!("{} → {}", names.join(" → "), entry.id.value))
                        .want("a tree: give one tenant of the circle another parent, or none")
                } else {
                    Problem::error(at, path, "too many ancestors")
                        .want(format!("at most {DEPTH_MAX} generations"))
                });
                parents[start] = None;
                return;
            }
            if chain.contains(&parent) {
                // A circle that this tenant is not part of; its own members report it.
                return;
            }
            chain.push(parent);
            index = parent;
        }
    }

    fn node(&mut self, entry: &TenantEntry, parent: Option<usize>) -> Tenant {
        let limit = limit_of(entry);
        let path = format!("{}.rate_limit", entry.path);
        let own = limit.and_then(|limit| self.numbers(&path, &limit.terms));
        let budget = limit.and_then(|limit| limit.budget);
        if let Some(limit) = limit {
            self.check_burst(&path, &limit.terms);
        }
        if let Some(budget) = &budget {
            self.check_budget(&path, budget, own);
        }
        let mode = budget.map_or(BudgetMode::Unlimited, |budget| budget.mode);
        let total = budget.filter(|budget| budget.mode != BudgetMode::Unlimited).and_then(|b| b.total);
        Tenant {
            id: entry.id.value.as_str().into(),
            parent,
            sharing: limit.map_or(Sharing::Inherit, |limit| limit.sharing),
            budget: mode,
            shadow: self.mode(limit.and_then(|limit| limit.terms.mode)) == Mode::Shadow,
            own,
            capped: own.map(|own| total.map_or(own, |total| own.capped(total.value))),
            effective: None,
            charges: Vec::new(),
        }
    }

    /// Reports a burst without a rate, which would have no effect.
    fn check_burst(&mut self, path: &str, terms: &LimitTerms) {
        let burst = terms.burst.as_ref().map(|burst| (burst.at, "burst"));
        let preset = terms.preset.as_ref().map(|preset| (preset.at, "preset"));
        if let (None, Some((at, field))) = (&terms.sustained, burst.or(preset)) {
            let problem =
                Problem::error(at, format!("{path}.{field}"), format!("`{field}` without `sustained`"));
            self.report(problem.want("`sustained: { rate: …, window: … }` beside it"));
        }
    }

    fn check_budget(&mut self, path: &str, budget: &Budget, own: Option<Numbers>) {
        let path = format!("{path}.budget");
        let unlimited = budget.mode == BudgetMode::Unlimited;
        if unlimited && (budget.total.is_some() || budget.overcommit.is_some()) {
            let message = "`total` and `overcommit_ratio` do nothing in an unlimited budget";
            let problem = Problem::warning(budget.at, path, message);
            self.report(problem.hint("write `mode: allocated` or `mode: shared` to use them"));
        } else if !unlimited && budget.total.is_some() && own.is_none() {
            let message = "`total` of a budget counts per window, and without `sustained` there is no window";
            let problem = Problem::error(budget.at, path, message);
            self.report(problem.want("`sustained: { rate: …, window: … }` beside the budget"));
        }
    }

    /// The rates of the children of an allocated budget may add up to its total times `overcommit_ratio`.
    fn check_allocation(&mut self, entries: &[TenantEntry], nodes: &[Tenant]) {
        let mut children: HashMap<usize, Vec<Numbers>> = HashMap::new();
        for node in nodes {
            if let (Some(parent), Some(own)) = (node.parent, node.own) {
                children.entry(parent).or_default().push(own);
            }
        }
        for (index, (entry, node)) in entries.iter().zip(nodes).enumerate() {
            let budget = limit_of(entry).and_then(|limit| limit.budget);
            let (Some(budget), Some(own), Some(children)) = (budget, node.own, children.get(&index)) else {
                continue;
            };
            if budget.mode == BudgetMode::Allocated {
                self.check_sum(entry, &budget, own, children);
            }
        }
    }

    fn check_sum(&mut self, entry: &TenantEntry, budget: &Budget, own: Numbers, children: &[Numbers]) {
        let total = budget.total.map_or(own.rate, |total| total.value);
        let ratio = budget.overcommit.map_or(1_000_000, |ratio| ratio.value);
        let sum = Fraction::sum(children.iter().map(|child| {
            let tokens = u128::from(child.rate) * u128::from(own.window.get());
            Fraction::new(tokens, u128::from(child.window.get()))
        }));
        let (id, window) = (&entry.id.value, WindowLength(own.window));
        let most = Fraction::new(u128::from(total) * u128::from(ratio), 1_000_000);
        let at = budget.total.map_or(budget.at, |total| total.at);
        let path = format!("{}.rate_limit.budget", entry.path);
        let message = format!(
            "the rates of the children of `{id}` add up to {} per {window}, and its budget is {total}",
            sum.ceil()
        );
        if sum > most {
            let want = format!("a sum of at most {} ({total} × overcommit_ratio)", most.floor());
            let problem = Problem::error(at, path, message).saw(sum.ceil().to_string()).want(want);
            self.report(
                problem
                    .hint("lower the children's rates, raise `total`, or raise `overcommit_ratio` (up to 2)"),
            );
        } else if sum > Fraction::new(u128::from(total), 1) {
            let problem = Problem::warning(at, path, message).saw(sum.ceil().to_string());
            let hint = "within overcommit_ratio: together the children still never get more than the budget";
            self.report(problem.hint(hint));
        }
    }

    fn tenant_rule(
        &mut self,
        entry: &TenantEntry,
        own_terms: &LimitTerms,
        algorithm: Algorithm,
        numbers: Numbers,
    ) -> Option<Rule> {
        let path = format!("{}.rate_limit", entry.path);
        let limit = match numbers.limit(algorithm) {
            Ok(limit) => limit,
            Err(error) => {
                self.out_of_range(entry.at, &path, &error, numbers);
                return None;
            }
        };
        let scope = limit_of(entry).and_then(|limit| limit.scope.as_ref());
        Some(Rule {
            name: format!("{TENANT_PREFIX}{}", entry.id.value).into(),
            at: entry.at,
            tier: Tier::Tenant,
            enabled: true,
            group: None,
            conditions: Box::default(),
            unless: Box::default(),
            missing: Default::default(),
            key: scope.map(|scope| scope.value.clone()).into_iter().collect(),
            limit,
            numbers,
            carry: own_terms.carry,
            cost: terms::cost(own_terms.cost.as_ref()),
            strategy: terms::strategy(&own_terms.strategy),
            mode: self.mode(own_terms.mode),
            headers: self.families(own_terms.headers.as_ref(), own_terms.response_headers),
            retry_jitter: own_terms.retry_jitter.or(self.defaults.retry_jitter).unwrap_or_default(),
            on_store_error: own_terms.on_store_error.or(self.defaults.on_store_error).unwrap_or_default(),
            sets_on_store_error: own_terms.on_store_error.or(self.defaults.on_store_error).is_some(),
            adaptive: false,
            tag: TagRule::Own,
        })
    }
}

/// The limit of a tenant that is in use.
fn limit_of(entry: &TenantEntry) -> Option<&TenantLimit> {
    entry.rate_limit.as_ref().filter(|_| entry.enabled)
}

/// The ancestors whose limits bind a tenant, nearest first.
fn binding_ancestors(nodes: &[Tenant], index: usize) -> impl Iterator<Item = usize> + '_ {
    std::iter::successors(nodes[index].parent, |&ancestor| nodes[ancestor].parent)
        .filter(|&ancestor| nodes[ancestor].sharing != Sharing::Private)
}

/// The lowest of a tenant's own numbers and those of the ancestors that bind it. The numbers of an ancestor in shadow
/// mode apply only to tenants in shadow mode.
fn effective(nodes: &[Tenant], index: usize, algorithm: Algorithm) -> Option<Numbers> {
    let is_shadow = nodes[index].shadow;
    let above = binding_ancestors(nodes, index).filter(|&ancestor| is_shadow || !nodes[ancestor].shadow);
    let chain = std::iter::once(index).chain(above).filter_map(|node| nodes[node].capped);
    match algorithm {
        Algorithm::TokenBucket => chain.reduce(Numbers::least),
        _ => chain.reduce(Numbers::least_in_window),
    }
}

/// A tenant's own terms, and its algorithm. A tenant without numbers of its own uses the algorithm of the nearest
/// ancestor that binds it and has numbers.
fn terms_of<'e>(
    entry: &'e TenantEntry,
    nodes: &[Tenant],
    entries: &'e [TenantEntry],
    index: usize,
) -> (&'e LimitTerms, Algorithm) {
    static NONE: std::sync::LazyLock<LimitTerms> = std::sync::LazyLock::new(LimitTerms::default);
    let terms = limit_of(entry).map_or(&*NONE, |limit| &limit.terms);
    if nodes[index].own.is_some() || terms.algorithm.is_some() {
        return (terms, terms::algorithm(terms));
    }
    let nearest = binding_ancestors(nodes, index).find(|&ancestor| nodes[ancestor].own.is_some());
    let inherited =
        nearest.and_then(|ancestor| limit_of(&entries[ancestor])).map(|limit| terms::algorithm(&limit.terms));
    (terms, inherited.unwrap_or(Algorithm::TokenBucket))
}

/// The buckets that a request of a tenant takes tokens from: its own, and those of binding ancestors with a budget.
fn charges(nodes: &[Tenant], rule_of: &[Option<u32>], index: usize) -> Vec<TenantCharge> {
    let budgeted = |&ancestor: &usize| nodes[ancestor].budget != BudgetMode::Unlimited;
    let ancestors = binding_ancestors(nodes, index).filter(budgeted);
    let mut charges: Vec<TenantCharge> = std::iter::once((index, true))
        .chain(ancestors.map(|ancestor| (ancestor, false)))
        .filter_map(|(node, is_own)| rule_of[node].map(|rule| TenantCharge { rule, is_own }))
        .collect();
    charges.reverse();
    charges
}
