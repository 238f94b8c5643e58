//! A rule set whose limits are registered in a store.

use std::collections::HashMap;
use std::sync::Arc;

use arc_swap::ArcSwapOption;
use smallvec::SmallVec;
use tidegate_core::{Cost, LimitVariant, Nanos};
use tidegate_policy::{Plan, Request, Rule, RuleSet, Strategy, Trust};

use super::bursts;
use super::counting::counters::RuleCounters;
use super::counting::routes::RouteCounters;
use super::counting::unlimited::UnlimitedCounters;
use super::decide::fallback::NodeShare;
use super::limit_handle::LimitHandle;
use super::overrides::RuleOverrides;
use super::render::jitter::identity;
use super::render::json;
use crate::{Charge, LimitError, LimitRef, NamedLimit, Role, Store};

/// The charges of a request.
pub(crate) type Charges<'a> = SmallVec<[Charge<'a>; 8]>;

/// A rule set whose limits are registered in a store.
#[derive(Debug)]
pub(crate) struct Active {
    pub(crate) rules: RuleSet,
    /// Its version. Two policies may have the same one if the database that numbers them was restored from a backup.
    pub(crate) version: u64,
    /// How many policies this limiter had before it.
    pub(crate) swaps: u64,
    pub(crate) bound: Box<[ActiveRule]>,
    pub(crate) detectors: Box<[bursts::BurstDetector]>,
    /// Counts requests that meet none of its limits.
    pub(crate) unlimited: UnlimitedCounters,
    /// Counts requests by route.
    pub(crate) routes: RouteCounters,
    /// The node's share of the limits, which decides while the store cannot; empty until it is needed.
    pub(crate) share: ArcSwapOption<NodeShare>,
    /// The overrides of its limits.
    pub(crate) overrides: RuleOverrides,
}

/// The engine's data for one rule.
#[derive(Debug)]
pub(crate) struct ActiveRule {
    handle: LimitHandle,
    pub(crate) named: NamedCounters,
    /// The constant beginning of its part of a decision's JSON.
    pub(crate) json_head: Box<[u8]>,
}

impl ActiveRule {
    /// Its limit in the store.
    pub(crate) fn limit(&self) -> &LimitRef {
        &self.handle.limit
    }

    /// Its limit in the store, in a variant.
    pub(crate) fn at<S: Store>(&self, variant: LimitVariant, store: &S) -> &LimitRef {
        self.handle.at(variant, store)
    }
}

/// The client for whom a request is charged: what charges depend on beside the plan.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Payer<'p> {
    pub(crate) tenant: Option<&'p str>,
}

impl<'p> Payer<'p> {
    pub(crate) fn of(rules: &'p RuleSet, request: &'p Request<'_>) -> Payer<'p> {
        Payer { tenant: rules.tenant_of(request) }
    }
}

/// The id and the counters of a limit's name, kept as long as some policy uses the name.
#[derive(Clone, Debug)]
pub(crate) struct NamedCounters {
    /// A small number in place of the name.
    pub(crate) id: u32,
    pub(crate) counters: Arc<RuleCounters>,
}

impl Active {
    /// Registers all limits in the store; those that are known already are edited as of `now`.
    pub(crate) fn bind<S: Store>(
        rules: RuleSet,
        store: &S,
        names: &HashMap<Box<str>, NamedCounters>,
        version: u64,
        now: Nanos,
    ) -> Result<Active, LimitError> {
        let state_names: Vec<String> = rules.rules().iter().map(Rule::state_name).collect();
        let named = named_limits(&rules, &state_names);
        let limits = store.limits(&named, now).map_err(|error| with_rule_name(error, &rules))?;
        assert_eq!(limits.len(), named.len(), "a store returns one reference for each limit");
        let bind = |(rule, limit): (&Rule, LimitRef)| {
            let named = names.get(&rule.name).expect("all names of a rule set are known").clone();
            ActiveRule { handle: LimitHandle::new(limit), named, json_head: json::limit_head(rule) }
        };
        let bound = rules.rules().iter().zip(limits).map(bind).collect();
        let detectors = rules.detectors().iter().map(|detector| bursts::BurstDetector {
            id: detector_id(detector),
            window: detector.window,
            threshold: detector.threshold,
            penalty: detector.penalty,
        });
        let detectors = detectors.collect();
        let (unlimited, routes) = (UnlimitedCounters::default(), RouteCounters::default());
        let (share, overrides) = (ArcSwapOption::empty(), RuleOverrides::default());
        Ok(Active { rules, version, swaps: 0, bound, detectors, unlimited, routes, share, overrides })
    }

    /// Could the store count and hold all limits?
    pub(crate) fn check<S: Store>(rules: &RuleSet, store: &S) -> Result<(), LimitError> {
        let state_names: Vec<String> = rules.rules().iter().map(Rule::state_name).collect();
        let checked = store.check_limits(&named_limits(rules, &state_names));
        checked.map_err(|error| with_rule_name(error, rules))
    }

    /// The id of a rule's limit in the store; rules that share their state have the same id.
    pub(crate) fn limit_id(&self, rule: u32) -> u64 {
        self.bound[rule as usize].handle.limit.id()
    }

    /// The charges for the store, one per item of the plan.
    pub(crate) fn charges<'p, S: Store>(
        &'p self,
        plan: &'p Plan,
        payer: Payer<'p>,
        store: &S,
    ) -> Charges<'p> {
        let charge = |(index, item): (usize, &'p tidegate_policy::PlanItem)| {
            let rule = self.rules.rule(item.rule);
            let limit = self.bound[item.rule as usize].at(self.variant_of(plan, index), store);
            let role = match rule.strategy {
                _ if rule.is_shadow() => Role::Advisory,
                Strategy::Degrade { .. } => Role::Advisory,
                Strategy::Reject | Strategy::Queue { .. } => Role::Binding,
            };
            // A bucket that requests of all tenants share is not placed by one of them.
            let tenant = payer.tenant.filter(|_| !plan.is_shared(item));
            let tag = rule.tag(tenant).map(str::as_bytes);
            Charge { limit, key: plan.key(item), cost: item.cost, role, delay: Nanos::ZERO, tag }
        };
        plan.items().iter().enumerate().map(charge).collect()
    }

    /// [`Active::charges`] with a fixed cost, regardless of the policy.
    pub(crate) fn charges_of<'p, S: Store>(
        &'p self,
        plan: &'p Plan,
        payer: Payer<'p>,
        cost: Cost,
        store: &S,
    ) -> Charges<'p> {
        let mut charges = self.charges(plan, payer, store);
        charges.iter_mut().for_each(|charge| charge.cost = cost);
        charges
    }

    /// The trust by which a rule is scaled.
    #[inline]
    pub(crate) fn trust_in(&self, rule: &Rule, trust: Option<Trust>) -> Trust {
        trust.filter(|_| rule.adaptive && self.rules.uses_trust()).unwrap_or(Trust::NONE)
    }
}

/// The limits of the rules, by the names of their states.
fn named_limits<'n>(rules: &RuleSet, state_names: &'n [String]) -> Vec<NamedLimit<'n>> {
    let pairs = rules.rules().iter().zip(state_names);
    let named = |(rule, name): (&Rule, &'n String)| NamedLimit {
        name,
        limit: rule.limit,
        carry: rule.carry,
        trusted: rule.adaptive,
    };
    pairs.map(named).collect()
}

/// Replaces the name of the state, by which the store knows a limit, with the name of the rule in the policy.
fn with_rule_name(error: LimitError, rules: &RuleSet) -> LimitError {
    let LimitError::NotShared { name, why } = error else { return error };
    let rule = rules.rules().iter().find(|rule| rule.state_name() == *name);
    LimitError::NotShared { name: rule.map_or(name, |rule| rule.name.clone()), why }
}

/// The state belongs to the name and key of a detector, so that it survives a swap of the policy.
fn detector_id(detector: &tidegate_policy::DetectorRule) -> u64 {
    let key: Vec<String> = detector.key.iter().map(ToString::to_string).collect();
    identity(std::iter::once(detector.name.as_bytes()).chain(key.iter().map(|part| part.as_bytes())))
}
