//! The compiled policy: immutable, and shared by all requests.

use std::borrow::Cow;

use smallvec::SmallVec;
use tidegate_core::{Cost, Nanos};

use crate::document::{Missing, OnStoreError};
use crate::matching::{Candidates, Index, PathTree};
use crate::request::{KeyBytes, SHARED_KEY};
use crate::{Condition, Descriptor, Facts, GateStage, PathSpelling, Pattern, Priority, Request, Trust};

use super::{BoundOverride, Gate, PlanOverrides, Rule, TenantBucket, Tenants, Upstreams, excepts};

/// A compiled policy.
#[derive(Debug, Default)]
pub struct RuleSet {
    /// The limits in the order of the document, then those of tenants.
    pub(crate) rules: Box<[Rule]>,
    /// How many of them are entries of `limits`.
    pub(crate) limit_count: usize,
    pub(crate) index: Index,
    pub(crate) routes: Routes,
    pub(crate) tenants: Tenants,
    pub(crate) upstreams: Upstreams,
    pub(crate) allow: Gate,
    pub(crate) block: Gate,
    pub(crate) detectors: Box<[DetectorRule]>,
    pub(crate) trust: bool,
    pub(crate) shadow: bool,
    pub(crate) deny_unknown_tenants: bool,
    pub(crate) default_tenant: Option<Box<str>>,
    pub(crate) response_headers: bool,
    pub(crate) spelling: PathSpelling,
    /// Where the priority of a request comes from that does not state one.
    pub(crate) priority_from: Option<Descriptor>,
}

/// A burst detector.
#[derive(Clone, Debug)]
pub struct DetectorRule {
    /// Its name.
    pub name: Box<str>,
    /// Which requests it counts together.
    pub key: Box<[Descriptor]>,
    /// When it is checked.
    pub stage: GateStage,
    /// The window in which it counts.
    pub window: Nanos,
    /// More requests than this in a window are a burst.
    pub threshold: u32,
    /// How long a warning lasts; a block lasts twice as long.
    pub penalty: Nanos,
}

/// The entries of `routes`, with an index over their paths.
#[derive(Debug, Default)]
pub(crate) struct Routes {
    pub(crate) entries: Box<[CompiledRoute]>,
    pub(crate) paths: PathTree,
    /// When it is known which route matches.
    pub(crate) stage: GateStage,
}

#[derive(Debug)]
pub(crate) struct CompiledRoute {
    pub(crate) pattern: Pattern,
    pub(crate) methods: Box<[Box<str>]>,
    /// Only requests to this upstream.
    pub(crate) upstream: Option<Box<str>>,
    /// It does not match where all of these hold; none if it is empty.
    pub(crate) unless: Box<[Condition]>,
    pub(crate) cost: Option<Cost>,
}

impl Routes {
    pub(crate) fn new(entries: Vec<CompiledRoute>) -> Routes {
        let mut paths = PathTree::default();
        (0..).zip(&entries).for_each(|(number, route)| paths.insert(&route.pattern, number));
        let unless = entries.iter().flat_map(|route| &route.unless);
        let stage = GateStage::last_of(unless.map(|condition| condition.descriptor().stage()));
        Routes { entries: entries.into(), paths, stage }
    }

    /// The first route that matches.
    fn find(&self, facts: &Facts<'_, '_>) -> Option<(u32, &CompiledRoute)> {
        if self.entries.is_empty() {
            return None;
        }
        let mut found = Candidates::new();
        self.paths.find(facts.path.as_deref()?, &mut found);
        let first = found.into_iter().filter(|&number| self.entries[number as usize].admits(facts)).min()?;
        Some((first, &self.entries[first as usize]))
    }
}

impl CompiledRoute {
    /// Does it match a request whose path it matches?
    fn admits(&self, facts: &Facts<'_, '_>) -> bool {
        let method = facts.request.method.as_deref();
        let has_method = self.methods.is_empty()
            || method.is_some_and(|method| self.methods.iter().any(|m| m.eq_ignore_ascii_case(method)));
        has_method
            && self.upstream.as_deref().is_none_or(|upstream| facts.upstream == Some(upstream))
            && !excepts(&self.unless, facts)
    }
}

/// The charges for a request: one item for each limit that applies, in the order of decisions.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    pub(super) items: SmallVec<[PlanItem; 8]>,
    pub(super) keys: KeyBytes,
    /// Limits that match but deny the request because it lacks a descriptor of their key.
    pub(super) lacking: SmallVec<[u32; 2]>,
    /// Does the request name a tenant that the policy does not list, although it lists some?
    pub unknown_tenant: bool,
    /// The trust by which limits are scaled: that of the request, unless somebody sets another.
    pub trust: Option<Trust>,
    /// The overrides that apply.
    pub overrides: PlanOverrides,
}

/// A limit that applies to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlanItem {
    /// The number of its rule.
    pub rule: u32,
    key: (u32, u32),
    /// How many tokens to charge.
    pub cost: Cost,
}

impl Plan {
    /// The limits that apply.
    pub fn items(&self) -> &[PlanItem] {
        &self.items
    }

    /// The key of an item, which identifies a bucket of the limit.
    pub fn key(&self, item: &PlanItem) -> &[u8] {
        &self.keys[item.key.0 as usize..item.key.1 as usize]
    }

    /// The override that applies to the item with this index.
    #[inline]
    pub fn override_of(&self, index: usize) -> Option<&BoundOverride> {
        let found = self.overrides.iter().find(|(item, _)| *item as usize == index);
        found.map(|(_, overridden)| &**overridden)
    }

    /// Is the bucket of an item the one that all requests without the limit's key share?
    pub fn is_shared(&self, item: &PlanItem) -> bool {
        self.key(item) == SHARED_KEY
    }

    /// The limits with `missing: deny` that match the request although it lacks their key, in the order of the
    /// document. In shadow mode they only record that.
    pub fn lacking(&self) -> &[u32] {
        &self.lacking
    }

    /// Adds a limit. Its key is everything in `keys` from `start` on.
    pub(super) fn push(&mut self, rule: u32, start: usize, cost: Cost) {
        self.items.push(PlanItem { rule, key: (start as u32, self.keys.len() as u32), cost });
    }
}

impl RuleSet {
    /// Sets what happens while the store cannot be reached, for limits that do not set it themselves.
    #[must_use]
    pub fn or_on_store_error(mut self, choice: OnStoreError) -> RuleSet {
        for rule in self.rules.iter_mut().filter(|rule| !rule.sets_on_store_error) {
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

    /// A rule by the number in a [`PlanItem`].
    pub fn rule(&self, number: u32) -> &Rule {
        &self.rules[number as usize]
    }

    /// The first limit that is switched on and counts by the client's address, or is for some addresses only.
    pub fn limit_by_address(&self) -> Option<&Rule> {
        let by_address = |rule: &&Rule| {
            let conditions = rule.conditions.iter().any(|condition| condition.descriptor() == Descriptor::Ip);
            rule.enabled && (conditions || rule.key.contains(&Descriptor::Ip))
        };
        self.rules.iter().find(by_address)
    }

    /// The tenants.
    pub fn tenants(&self) -> &Tenants {
        &self.tenants
    }

    /// The upstreams.
    pub fn upstreams(&self) -> &Upstreams {
        &self.upstreams
    }

    /// Requests that are denied.
    pub fn block(&self) -> &Gate {
        &self.block
    }

    /// Requests that bypass the limits.
    pub fn allow(&self) -> &Gate {
        &self.allow
    }

    /// The burst detectors.
    pub fn detectors(&self) -> &[DetectorRule] {
        &self.detectors
    }

    /// Does the trust of a request scale limits?
    pub fn uses_trust(&self) -> bool {
        self.trust
    }

    /// Which spellings of a path are the same path.
    pub fn spelling(&self) -> PathSpelling {
        self.spelling
    }

    /// Is the whole policy in shadow mode?
    pub fn is_shadow(&self) -> bool {
        self.shadow
    }

    /// May responses have headers that do not belong to a limit?
    pub fn has_headers(&self) -> bool {
        self.response_headers
    }

    /// The tenant that a request belongs to: the one that it names, else the default.
    pub fn tenant_of<'r>(&'r self, request: &'r Request<'_>) -> Option<&'r str> {
        request.tenant.as_deref().or(self.default_tenant.as_deref())
    }

    /// Are requests of unknown tenants denied?
    pub fn denies_unknown_tenants(&self) -> bool {
        self.deny_unknown_tenants
    }

    /// Computes what matching needs of a request.
    pub fn facts<'r, 'q>(&'r self, request: &'r Request<'q>) -> Facts<'r, 'q> {
        let mut facts = Facts::with_spelling(request, self.spelling);
        self.upstreams.place(&mut facts);
        facts.tenant = self.tenant_of(request);
        facts.route_stage = self.routes.stage;
        if let Some((number, route)) = self.routes.find(&facts) {
            (facts.route, facts.route_cost) = (Some(Cow::Borrowed(route.pattern.as_str())), route.cost);
            facts.route_number = Some(number);
        }
        facts
    }

    /// The patterns of `routes`, in their order; one may occur several times.
    pub fn route_patterns(&self) -> impl Iterator<Item = &str> {
        self.routes.entries.iter().map(|route| route.pattern.as_str())
    }

    /// The priority of a request: its own, else what the policy reads from it. A header that a client may have set
    /// itself is not read.
    pub fn priority(&self, facts: &Facts<'_, '_>) -> Priority {
        let is_believed =
            |from: &&Descriptor| !matches!(from, Descriptor::Header(_)) || facts.request.headers_trusted;
        let read = || {
            let from = self.priority_from.as_ref().filter(is_believed)?;
            Priority::parse(facts.value(from)?.trim_ascii())
        };
        facts.request.priority.or_else(read).unwrap_or_default()
    }

    /// Finds the limits that apply to a request. It changes nothing; the store decides.
    pub fn plan(&self, facts: &Facts<'_, '_>) -> Plan {
        let mut plan = Plan::default();
        self.plan_into(facts, &mut plan);
        plan
    }

    /// The same, written to an empty plan in place: a plan is large, and this avoids moving it.
    pub fn plan_into(&self, facts: &Facts<'_, '_>, plan: &mut Plan) {
        plan.trust = facts.request.trust;
        let mut closed = SmallVec::<[u32; 16]>::new();
        for number in self.index.candidates(facts) {
            let rule = self.rule(number);
            let group = rule.group.as_ref().map(|group| group.number);
            if group.is_some_and(|group| closed.contains(&group)) || !rule.matches(facts) {
                continue;
            }
            let start = plan.keys.len();
            let has_key = facts.write_key(&rule.key, &mut plan.keys).is_ok();
            match rule.missing {
                _ if has_key => plan.push(number, start, rule.cost.charge(facts)),
                Missing::Skip => continue,
                Missing::Shared => {
                    plan.keys.extend_from_slice(SHARED_KEY);
                    plan.push(number, start, rule.cost.charge(facts));
                }
                Missing::Deny => plan.lacking.push(number),
            }
            if let Some(group) = group.filter(|_| !rule.is_shadow()) {
                closed.push(group);
            }
        }
        self.plan_tenants(facts, plan);
    }

    /// Calls `found` with each descriptor whose absence keeps a limit from applying to this request: for each limit
    /// whose conditions hold, the first descriptor of its key that the request lacks; `tenant` if the policy has tenants
    /// and the request names none. A descriptor may be found several times.
    pub fn missing<'r>(&'r self, facts: &Facts<'_, '_>, mut found: impl FnMut(&'r Descriptor)) {
        for number in self.index.candidates(facts) {
            let rule = self.rule(number);
            if rule.missing == Missing::Skip
                && rule.matches(facts)
                && let Some(missing) = rule.key.iter().find(|part| facts.value(part).is_none())
            {
                found(missing);
            }
        }
        if !self.tenants.is_empty() && facts.value(&Descriptor::Tenant).is_none() {
            found(&Descriptor::Tenant);
        }
    }

    pub(super) fn plan_tenants(&self, facts: &Facts<'_, '_>, plan: &mut Plan) {
        let Some(id) = facts.tenant().filter(|_| !self.tenants.is_empty()) else { return };
        let Some(tenant) = self.tenants.get(id) else {
            plan.unknown_tenant = true;
            return;
        };
        for charged in tenant.charges(facts.upstream_number()) {
            let rule = self.rule(charged.rule);
            let start = plan.keys.len();
            match (charged.bucket, &*rule.key) {
                // The entry for tenants that are not listed has a bucket for each of them.
                (TenantBucket::Own, [Descriptor::Tenant, scope @ ..]) => {
                    facts.write_tenant(&mut plan.keys);
                    if !scope.is_empty() {
                        facts.write_scope(scope, &mut plan.keys);
                    }
                }
                (TenantBucket::Own, []) => {}
                (TenantBucket::Own, scope) => facts.write_scope(scope, &mut plan.keys),
                (TenantBucket::Enforced, _) => facts.write_tenant(&mut plan.keys),
                (TenantBucket::Aggregate | TenantBucket::Remainder, _) => {}
            }
            plan.push(charged.rule, start, rule.cost.charge(facts));
        }
    }
}
