//! Resolves one tree of limits: the numbers of each tenant, its rules, and the buckets that its requests take tokens
//! from.

use std::collections::HashMap;

use super::plane::{NodeTerms, Plane, limit_name, lowest, remainder_name};
use super::{TENANT_RULES_MAX, charge_order};
use tidegate_core::Algorithm;

use crate::Problem;
use crate::compile::{Compiler, terms};
use crate::document::{BudgetMode, Missing, Mode, Sharing, StrategyEntry, TenantLimit};
use crate::rules::{Numbers, ResolvedTenantLimit, Rule, TagRule, TenantBucket, TenantCharge, Tier};
use crate::{Descriptor, Spanned};

/// The rules of one tree, by the indices of the tenants.
#[derive(Default)]
struct PlaneRules {
    own: Vec<Option<u32>>,
    remainder: Vec<Option<u32>>,
    /// Limits of ancestors that are enforced for each tenant alone, by the nearest of the ancestors that cap it; with
    /// the ancestor whose name it has.
    enforced: HashMap<usize, Option<(usize, u32)>>,
}

impl Compiler<'_> {
    /// Resolves a tree of limits and adds its rules. `first` is the number of rules that are not of tenants.
    pub(super) fn resolve<'d>(
        &mut self,
        mut plane: Plane<'d>,
        rules: &mut Vec<Rule>,
        first: usize,
    ) -> Plane<'d> {
        plane.nodes = plane.limits.iter().map(|limit| self.written_limit(*limit)).collect();
        for index in 0..plane.nodes.len() {
            plane.nodes[index].effective = plane.effective(index);
        }
        self.check_allocations(&mut plane);
        let mut made = PlaneRules::default();
        for index in 0..plane.nodes.len() {
            let rule = self.own_rule(&plane, index);
            made.own.push(rule.and_then(|rule| self.add_rule(rules, first, rule)));
            let rule = self.remainder_rule(&plane, index);
            made.remainder.push(rule.and_then(|rule| self.add_rule(rules, first, rule)));
        }
        for index in 0..plane.nodes.len() {
            let enforced = self.enforced_rule(&plane, &mut made, index, rules, first);
            let charges = charges(&plane, &made, index, enforced);
            plane.charges.push(charges);
        }
        plane
    }

    /// What the limit of a tenant says, regardless of its ancestors.
    fn written_limit(&mut self, limit: Option<&TenantLimit>) -> ResolvedTenantLimit {
        let own = limit.and_then(|limit| self.numbers(&limit.path, &limit.terms));
        let budget = limit.and_then(|limit| limit.budget);
        if let Some(limit) = limit {
            self.check_burst(&limit.path, &limit.terms);
            limit.budget.iter().for_each(|budget| self.check_budget(&limit.path, budget, own));
        }
        let mode = budget.map_or(BudgetMode::Unlimited, |budget| budget.mode);
        let total = budget.filter(|budget| budget.mode != BudgetMode::Unlimited).and_then(|b| b.total);
        ResolvedTenantLimit {
            sharing: limit.map_or(Sharing::Inherit, |limit| limit.sharing),
            budget: mode,
            shadow: limit.is_some_and(|limit| limit.terms.mode == Some(Mode::Shadow)),
            own,
            capped: own.map(|own| total.map_or(own, |total| own.with_rate_at_most(total.value))),
            effective: None,
            remainder: None,
            allocation: None,
        }
    }

    fn add_rule(&mut self, rules: &mut Vec<Rule>, first: usize, rule: Rule) -> Option<u32> {
        if rules.len() - first == TENANT_RULES_MAX {
            let message = "tenants and upstreams make too many limits";
            let problem = Problem::error(rule.at, "tenants", message);
            let hint = "a limit for an upstream at the root applies to every tenant below: use fewer of them";
            // It is reported once: the limits after it are too many as well.
            if self.problems.iter().all(|problem| problem.message != message) {
                self.report(problem.want(format!("at most {TENANT_RULES_MAX}")).hint(hint));
            }
            return None;
        }
        rules.push(rule);
        Some(rules.len() as u32 - 1)
    }

    /// The rule of a tenant's own bucket; for tenants that are not listed, a bucket each.
    fn own_rule(&mut self, plane: &Plane<'_>, index: usize) -> Option<Rule> {
        let numbers = plane.nodes[index].effective?;
        let is_unlisted = plane.tree.unlisted == Some(index);
        let scope = plane.limits[index].and_then(|limit| limit.scope.as_ref());
        let tenant = is_unlisted.then_some(Descriptor::Tenant);
        let key =
            tenant.into_iter().chain(scope.map(|scope: &Spanned<Descriptor>| scope.value.clone())).collect();
        let name = limit_name(plane.tree.id(index), plane.upstream);
        let rule = self.tenant_rule(plane, index, &plane.terms(index), numbers, name)?;
        let above = plane.binding_ancestors(index).filter(|&ancestor| !plane.nodes[ancestor].shadow);
        let above = above.filter_map(|ancestor| plane.nodes[ancestor].capped);
        Some(Rule { key, ceiling: lowest(Algorithm::TokenBucket, above), ..rule })
    }

    /// The rule of what remains of a budget.
    fn remainder_rule(&mut self, plane: &Plane<'_>, index: usize) -> Option<Rule> {
        let numbers = plane.nodes[index].remainder?;
        let name = remainder_name(plane.tree.id(index), plane.upstream);
        self.tenant_rule(plane, index, &plane.terms(index), numbers, name)
    }

    /// The rule that enforces the limits of ancestors beside a tenant's own limit, which would loosen them, and the
    /// ancestor whose name it has. Tenants below the same ancestors share the rule; each has a bucket of its own.
    fn enforced_rule(
        &mut self,
        plane: &Plane<'_>,
        made: &mut PlaneRules,
        index: usize,
        rules: &mut Vec<Rule>,
        first: usize,
    ) -> Option<(usize, u32)> {
        let above: Vec<usize> = plane.capping_ancestors(index).collect();
        let (nearest, own) = (*above.first()?, plane.terms(index));
        let difference = above.iter().find_map(|&ancestor| own.difference(&plane.terms(ancestor)));
        let member = difference?;
        // The nearest that refuses requests; one that degrades only if there is no other.
        let degrades =
            |ancestor: usize| matches!(plane.terms(ancestor).written.strategy, StrategyEntry::Degrade { .. });
        let giver = above.iter().copied().find(|&ancestor| !degrades(ancestor)).unwrap_or(nearest);
        self.note_enforced(plane, index, giver, member);
        if let Some(known) = made.enforced.get(&nearest) {
            return *known;
        }
        let terms = plane.terms(giver);
        let others = above.iter().copied().filter(|&ancestor| ancestor != giver);
        let others: Vec<Numbers> = others.filter_map(|ancestor| plane.nodes[ancestor].capped).collect();
        let numbers = plane.nodes[giver].capped.into_iter().chain(others.iter().copied());
        let name = limit_name(plane.tree.id(giver), plane.upstream);
        // It alone enforces the others too: an override of the limit whose name it has does not loosen theirs.
        let ceiling = lowest(Algorithm::TokenBucket, others.iter().copied());
        let rule = lowest(terms.algorithm, numbers)
            .and_then(|numbers| self.tenant_rule(plane, giver, &terms, numbers, name))
            .map(|rule| {
                // Tenants below different ancestors may have different numbers under one name.
                let state =
                    (giver != nearest).then(|| format!("{}\u{1f}{}", rule.name, plane.tree.id(nearest)));
                Rule { key: Box::from([Descriptor::Tenant]), state: state.map(Into::into), ceiling, ..rule }
            })
            .and_then(|rule| self.add_rule(rules, first, rule))
            .map(|rule| (giver, rule));
        made.enforced.insert(nearest, rule);
        rule
    }

    fn note_enforced(&mut self, plane: &Plane<'_>, index: usize, giver: usize, member: &str) {
        let Some(limit) = plane.limits[index] else { return };
        let (id, above) = (plane.tree.id(index), plane.tree.id(giver));
        let message = format!(
            "the limit of `{id}` has another `{member}` than that of `{above}`, which binds it: both are enforced"
        );
        let hint = format!("write the same `{member}`, or leave it: `{above}` is never loosened");
        self.report(Problem::warning(limit.at, limit.path.as_str(), message).hint(hint));
    }

    /// A rule with the terms of a tenant; without a key, so that all requests share one bucket.
    fn tenant_rule(
        &mut self,
        plane: &Plane<'_>,
        index: usize,
        node: &NodeTerms<'_>,
        numbers: Numbers,
        name: String,
    ) -> Option<Rule> {
        let (entry, written) = (&plane.tree.entries[index], &*node.written);
        let limit = match numbers.limit(node.algorithm) {
            Ok(limit) => limit,
            Err(error) => {
                let path = plane.limits[index].map_or(entry.path.as_str(), |limit| &limit.path);
                self.out_of_range(entry.at, path, &error, numbers);
                return None;
            }
        };
        let is_unlisted_root = plane.tree.unlisted == Some(index) && plane.tree.parent(index).is_none();
        let tag = match is_unlisted_root {
            // Its buckets have no root in common, so each tenant's may be placed with its other buckets.
            true => TagRule::Tenant,
            false => TagRule::Root(plane.tree.root(index).into()),
        };
        Some(Rule {
            ceiling: None,
            name: name.into(),
            state: None,
            at: entry.at,
            tier: Tier::Tenant,
            enabled: true,
            group: None,
            conditions: Box::default(),
            unless: Box::default(),
            missing: Missing::default(),
            key: Box::default(),
            limit,
            numbers,
            carry: written.carry,
            cost: terms::tenant_cost(written.cost.as_ref()),
            strategy: terms::strategy(&written.strategy),
            mode: self.mode(written.mode),
            headers: self.families(written.headers.as_ref(), written.response_headers),
            retry_jitter: written.retry_jitter.or(self.defaults.retry_jitter).unwrap_or_default(),
            on_store_error: written.on_store_error.or(self.defaults.on_store_error).unwrap_or_default(),
            sets_on_store_error: written.on_store_error.or(self.defaults.on_store_error).is_some(),
            adaptive: false,
            tag,
        })
    }
}

/// The buckets that a request of a tenant takes tokens from, from the root down.
fn charges(
    plane: &Plane<'_>,
    made: &PlaneRules,
    index: usize,
    enforced: Option<(usize, u32)>,
) -> Vec<TenantCharge> {
    let is_of_upstream = plane.upstream.is_some();
    let charge = |node: usize, rule: u32, bucket: TenantBucket| TenantCharge {
        rule,
        node: node as u32,
        bucket,
        is_of_upstream,
    };
    let mut charges: Vec<TenantCharge> = Vec::new();
    charges.extend(made.own[index].map(|rule| charge(index, rule, TenantBucket::Own)));
    charges.extend(enforced.map(|(giver, rule)| charge(giver, rule, TenantBucket::Enforced)));
    let budgeted = plane.budgeted_ancestors(index);
    charges.extend(budgeted.filter_map(|node| Some(charge(node, made.own[node]?, TenantBucket::Aggregate))));
    let mut child = index;
    for parent in plane.tree.ancestors(index) {
        if plane.nodes[child].own.is_none()
            && let Some(rule) = made.remainder[parent]
        {
            charges.push(charge(parent, rule, TenantBucket::Remainder));
        }
        child = parent;
    }
    charges.sort_by_key(|charge| charge_order(plane.tree, charge));
    charges
}
