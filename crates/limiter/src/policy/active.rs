//! A rule set bound to a store.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use smallvec::SmallVec;
use tidegate_core::{Cost, Nanos};
use tidegate_policy::{Plan, Rule, RuleSet, Strategy, Trust};

use super::bursts;
use super::counters::RuleCounters;
use super::jitter::identity;
use super::json;
use crate::{Charge, LimitError, LimitRef, NamedLimit, Role, Store};

/// The charges of a request.
pub(crate) type Charges<'a> = SmallVec<[Charge<'a>; 8]>;

/// A rule set whose limits a store knows.
#[derive(Debug)]
pub(crate) struct Active {
    pub(crate) rules: RuleSet,
    /// Counts up with every swap.
    pub(crate) version: u64,
    pub(crate) bound: Box<[Bound]>,
    pub(crate) detectors: Box<[bursts::Detector]>,
}

/// What the engine keeps for one rule.
#[derive(Debug)]
pub(crate) struct Bound {
    limit: LimitRef,
    /// The same limit scaled by each degree of trust, made when first asked for.
    variants: OnceLock<Box<[OnceLock<LimitRef>]>>,
    pub(crate) watched: Watched,
    /// How its part of a decision's JSON begins; it is the same every time.
    pub(crate) json_head: Box<[u8]>,
}

/// What is known of a limit's name for as long as some policy has it.
#[derive(Clone, Debug)]
pub(crate) struct Watched {
    /// A number for the name, for what must be small.
    pub(crate) id: u32,
    pub(crate) counters: Arc<RuleCounters>,
}

impl Active {
    /// Names all limits in the store; those it knows are edited as of `now`.
    pub(crate) fn bind<S: Store>(
        rules: RuleSet,
        store: &S,
        names: &HashMap<Box<str>, Watched>,
        version: u64,
        now: Nanos,
    ) -> Result<Active, LimitError> {
        let state_names: Vec<String> = rules.rules().iter().map(Rule::state_name).collect();
        let pairs = rules.rules().iter().zip(&state_names);
        let named: Vec<NamedLimit<'_>> =
            pairs.map(|(rule, name)| NamedLimit { name, limit: rule.limit, carry: rule.carry }).collect();
        let limits = store.limits(&named, now)?;
        let bind = |(rule, limit): (&Rule, LimitRef)| {
            let watched = names.get(&rule.name).expect("all names of a rule set are known").clone();
            Bound { limit, variants: OnceLock::new(), watched, json_head: json::limit_head(rule) }
        };
        let bound = rules.rules().iter().zip(limits).map(bind).collect();
        let detectors = rules.detectors().iter().map(|detector| bursts::Detector {
            id: detector_id(detector),
            window: detector.window,
            threshold: detector.threshold,
            penalty: detector.penalty,
        });
        let detectors = detectors.collect();
        Ok(Active { rules, version, bound, detectors })
    }

    /// The number that a rule's limit has in the store: rules that share their
    /// state have the same.
    pub(crate) fn limit_id(&self, rule: u32) -> u32 {
        self.bound[rule as usize].limit.id()
    }

    /// What the store is to be asked, one charge an item.
    pub(crate) fn charges<'p, S: Store>(
        &'p self,
        plan: &'p Plan,
        trust: Option<Trust>,
        store: &S,
    ) -> Charges<'p> {
        let trust = trust.filter(|_| self.rules.uses_trust());
        let charge = |item: &'p tidegate_policy::Item| {
            let rule = self.rules.rule(item.rule);
            let bound = &self.bound[item.rule as usize];
            let limit = match trust {
                Some(trust) if rule.adaptive => bound.variant(trust, store),
                _ => &bound.limit,
            };
            let role = match rule.strategy {
                _ if rule.is_shadow() => Role::Advisory,
                Strategy::Degrade { .. } => Role::Advisory,
                Strategy::Reject | Strategy::Queue { .. } => Role::Binding,
            };
            Charge { limit, key: plan.key(item), cost: item.cost, role, delay: Nanos::ZERO }
        };
        plan.items().iter().map(charge).collect()
    }

    /// The same with another cost, whatever the policy says.
    pub(crate) fn charges_of<'p, S: Store>(
        &'p self,
        plan: &'p Plan,
        trust: Option<Trust>,
        cost: Cost,
        store: &S,
    ) -> Charges<'p> {
        let mut charges = self.charges(plan, trust, store);
        charges.iter_mut().for_each(|charge| charge.cost = cost);
        charges
    }
}

/// State belongs to a detector's name and key, so that a swap keeps it.
fn detector_id(detector: &tidegate_policy::Detector) -> u64 {
    let key: Vec<String> = detector.key.iter().map(ToString::to_string).collect();
    identity(std::iter::once(detector.name.as_bytes()).chain(key.iter().map(|part| part.as_bytes())))
}

impl Bound {
    /// The limit at a degree of trust. Should the store have no number left for
    /// it, the limit stays as it is.
    fn variant<S: Store>(&self, trust: Trust, store: &S) -> &LimitRef {
        if trust == Trust::NONE {
            return &self.limit;
        }
        let degrees = usize::from(Trust::FULL.hundredths()) + 1;
        let variants = self.variants.get_or_init(|| (0..degrees).map(|_| OnceLock::new()).collect());
        let hundredths = trust.hundredths();
        variants[usize::from(hundredths)]
            .get_or_init(|| store.variant(&self.limit, hundredths).unwrap_or_else(|_| self.limit.clone()))
    }
}
