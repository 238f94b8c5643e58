//! A compiled policy: immutable, cheap to share, quick to ask.

use std::borrow::Cow;

use smallvec::SmallVec;
use tidegate_core::{Cost, Nanos};

use crate::document::OnStoreError;
use crate::matching::{Candidates, Index, PathTree};
use crate::request::KeyBytes;
use crate::{Descriptor, Facts, GateStage, PathSpelling, Pattern, Request};

use super::{Gate, Rule, Tenants};

/// A compiled policy.
#[derive(Debug, Default)]
pub struct RuleSet {
    /// The limits in the order of the document, then those of tenants.
    pub(crate) rules: Box<[Rule]>,
    /// How many of them are not tenants'.
    pub(crate) limit_count: usize,
    pub(crate) index: Index,
    pub(crate) routes: Routes,
    pub(crate) tenants: Tenants,
    pub(crate) allow: Gate,
    pub(crate) block: Gate,
    pub(crate) detectors: Box<[DetectorRule]>,
    pub(crate) trust: bool,
    pub(crate) shadow: bool,
    pub(crate) queues: bool,
    pub(crate) deny_unknown_tenants: bool,
    pub(crate) response_headers: bool,
    pub(crate) spelling: PathSpelling,
}

/// A burst detector.
#[derive(Clone, Debug)]
pub struct DetectorRule {
    /// Its name.
    pub name: Box<str>,
    /// Whom it watches.
    pub key: Box<[Descriptor]>,
    /// When it is asked.
    pub stage: GateStage,
    /// Over what time it counts.
    pub window: Nanos,
    /// More than this is a burst.
    pub threshold: u32,
    /// How long a warning lasts; a block lasts twice as long.
    pub penalty: Nanos,
}

/// `routes`: patterns by path, and what they cost.
#[derive(Debug, Default)]
pub(crate) struct Routes {
    pub(crate) entries: Box<[CompiledRoute]>,
    pub(crate) paths: PathTree,
}

#[derive(Debug)]
pub(crate) struct CompiledRoute {
    pub(crate) pattern: Pattern,
    pub(crate) methods: Box<[Box<str>]>,
    pub(crate) cost: Option<Cost>,
}

impl Routes {
    pub(crate) fn new(entries: Vec<CompiledRoute>) -> Routes {
        let mut paths = PathTree::default();
        (0..).zip(&entries).for_each(|(number, route)| paths.insert(&route.pattern, number));
        Routes { entries: entries.into(), paths }
    }

    /// The first that matches.
    fn find(&self, facts: &Facts<'_, '_>) -> Option<&CompiledRoute> {
        if self.entries.is_empty() {
            return None;
        }
        let mut found = Candidates::new();
        self.paths.find(facts.path.as_deref()?, &mut found);
        let method = facts.request.method.as_deref();
        let admits = |route: &CompiledRoute| {
            route.methods.is_empty()
                || method.is_some_and(|method| route.methods.iter().any(|m| m.eq_ignore_ascii_case(method)))
        };
        let first = found.into_iter().filter(|&number| admits(&self.entries[number as usize])).min()?;
        Some(&self.entries[first as usize])
    }
}

/// What a request is to be charged: one item a limit that applies, in the order
/// of decisions.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    items: SmallVec<[PlanItem; 8]>,
    keys: KeyBytes,
    /// Is the tenant one that a policy with tenants does not know?
    pub unknown_tenant: bool,
}

/// One limit that applies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlanItem {
    /// The number of its rule.
    pub rule: u32,
    key: (u32, u32),
    /// What it is to be charged.
    pub cost: Cost,
}

impl Plan {
    /// The limits that apply.
    pub fn items(&self) -> &[PlanItem] {
        &self.items
    }

    /// The key of an item: which of the limit's buckets.
    pub fn key(&self, item: &PlanItem) -> &[u8] {
        &self.keys[item.key.0 as usize..item.key.1 as usize]
    }

    /// Adds a limit; the key is what was written after `start`.
    fn push(&mut self, rule: u32, start: usize, cost: Cost) {
        self.items.push(PlanItem { rule, key: (start as u32, self.keys.len() as u32), cost });
    }
}

impl RuleSet {
    /// The same policy, where limits that do not say what to do without a store do this.
    #[must_use]
    pub fn or_on_store_error(mut self, choice: OnStoreError) -> RuleSet {
        for rule in self.rules.iter_mut().filter(|rule| !rule.says_on_store_error) {
            rule.on_store_error = choice;
        }
        self
    }

    /// All rules: limits in the order of the document, then those of tenants.
    pub fn rules(&self) -> &[Rule] {
        &self.rules
    }

    /// The rules of `limits`.
    pub fn limits(&self) -> &[Rule] {
        &self.rules[..self.limit_count]
    }

    /// A rule by the number that an [`PlanItem`] has.
    pub fn rule(&self, number: u32) -> &Rule {
        &self.rules[number as usize]
    }

    /// The tenants.
    pub fn tenants(&self) -> &Tenants {
        &self.tenants
    }

    /// Who is refused.
    pub fn block(&self) -> &Gate {
        &self.block
    }

    /// Who bypasses the limits.
    pub fn allow(&self) -> &Gate {
        &self.allow
    }

    /// The burst detectors.
    pub fn detectors(&self) -> &[DetectorRule] {
        &self.detectors
    }

    /// Does trust scale limits?
    pub fn uses_trust(&self) -> bool {
        self.trust
    }

    /// Does any limit make requests wait?
    pub fn has_queues(&self) -> bool {
        self.queues
    }

    /// Is the whole policy only watched?
    pub fn is_shadow(&self) -> bool {
        self.shadow
    }

    /// Do answers have headers that no limit has a say in?
    pub fn has_headers(&self) -> bool {
        self.response_headers
    }

    /// Are requests of unknown tenants refused?
    pub fn denies_unknown_tenants(&self) -> bool {
        self.deny_unknown_tenants
    }

    /// What must be known of a request before it is matched.
    pub fn facts<'r, 'q>(&'r self, request: &'r Request<'q>) -> Facts<'r, 'q> {
        let mut facts = Facts::under(request, self.spelling);
        if let Some(route) = self.routes.find(&facts) {
            (facts.route, facts.route_cost) = (Some(Cow::Borrowed(route.pattern.as_str())), route.cost);
        }
        facts
    }

    /// The limits that apply to a request. It only looks; deciding is the
    /// store's.
    pub fn plan(&self, facts: &Facts<'_, '_>) -> Plan {
        let mut plan = Plan::default();
        self.plan_into(facts, &mut plan);
        plan
    }

    /// The same, added to a plan that is still empty: a plan is large, and need not be moved.
    pub fn plan_into(&self, facts: &Facts<'_, '_>, plan: &mut Plan) {
        let mut closed = SmallVec::<[u32; 16]>::new();
        for number in self.index.candidates(facts) {
            let rule = self.rule(number);
            let group = rule.group.as_ref().map(|group| group.number);
            if group.is_some_and(|group| closed.contains(&group))
                || !rule.conditions.iter().all(|condition| condition.holds(facts))
            {
                continue;
            }
            let start = plan.keys.len();
            if facts.write_key(&rule.key, &mut plan.keys).is_err() {
                continue;
            }
            plan.push(number, start, rule.cost.charge(facts));
            if let Some(group) = group.filter(|_| !rule.is_shadow()) {
                closed.push(group);
            }
        }
        self.plan_tenants(facts, plan);
    }

    fn plan_tenants(&self, facts: &Facts<'_, '_>, plan: &mut Plan) {
        let Some(id) = facts.request.tenant.as_deref().filter(|_| !self.tenants.is_empty()) else { return };
        let Some(tenant) = self.tenants.get(id) else {
            plan.unknown_tenant = true;
            return;
        };
        for charged in &tenant.charges {
            let rule = self.rule(charged.rule);
            let start = plan.keys.len();
            if charged.named && !rule.key.is_empty() {
                facts.write_scope(&rule.key, &mut plan.keys);
            }
            plan.push(charged.rule, start, rule.cost.charge(facts));
        }
    }
}
