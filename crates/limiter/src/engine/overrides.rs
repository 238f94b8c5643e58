//! Overrides: other numbers of single limits that people set at run time, for some clients and for a while.
//!
//! They are found once for a request, after its plan: whatever is charged, waits in a queue or is decided without the
//! store has the same numbers. The overrides of each limit are looked up when they or the policy are replaced, so that a
//! decision finds those of a rule by its number.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError};

use arc_swap::ArcSwapOption;
use tidegate_core::{LimitVariant, Nanos, OverrideNumbers};
use tidegate_policy::{BoundOverride, Facts, LimitOverrides, Overrides, Plan, PlanOverrides, Rule};

use super::active::Active;
use super::limiter::Limiter;
use crate::{Clock, LimitError, LimitRef, NamedLimit, Store};

/// The overrides of each rule of a policy. Without any, a decision reads one flag.
#[derive(Debug, Default)]
pub(crate) struct RuleOverrides {
    is_some: AtomicBool,
    by_rule: ArcSwapOption<Box<[Option<OverridesOfRule>]>>,
}

/// The overrides of one rule, in the numbers that they give it.
#[derive(Debug)]
struct OverridesOfRule {
    found_by: Arc<LimitOverrides>,
    /// In the order of [`LimitOverrides::entries`].
    bound: Box<[Arc<BoundOverride>]>,
}

impl RuleOverrides {
    fn store(&self, by_rule: Option<Box<[Option<OverridesOfRule>]>>) {
        let is_some = by_rule.is_some();
        self.by_rule.store(by_rule.map(Arc::new));
        self.is_some.store(is_some, Ordering::Release);
    }
}

impl Active {
    /// Looks up the overrides of each rule, and tells the store which numbers to expect.
    pub(super) fn bind_overrides<S: Store>(&self, overrides: Option<&Overrides>, store: &S) {
        let of_rule = |rule: &Rule| {
            let found_by = Arc::clone(overrides?.of_limit(&rule.name)?);
            let bound = found_by.entries().iter().map(|entry| Arc::new(BoundOverride::new(entry, rule)));
            Some(OverridesOfRule { bound: bound.collect(), found_by })
        };
        let by_rule: Box<[_]> = self.rules.rules().iter().map(of_rule).collect();
        self.tell_store(&by_rule, store);
        let any = by_rule.iter().any(Option::is_some);
        self.overrides.store(any.then_some(by_rule));
    }

    /// Tells the store which numbers to expect. Rules may share their state: it is told once of each.
    fn tell_store<S: Store>(&self, by_rule: &[Option<OverridesOfRule>], store: &S) {
        let mut expected: HashMap<u64, (&LimitRef, Vec<OverrideNumbers>)> = HashMap::new();
        for (bound, of_rule) in self.bound.iter().zip(by_rule) {
            let limit = bound.limit();
            let (_, numbers) = expected.entry(limit.id()).or_insert_with(|| (limit, Vec::new()));
            let in_force = of_rule.iter().flat_map(|of_rule| &of_rule.bound);
            numbers.extend(in_force.filter(|bound| bound.limit.is_some()).map(|bound| bound.numbers));
        }
        expected.values().for_each(|(limit, numbers)| store.expect_overrides(limit, numbers));
    }

    /// The variant in which an item of a plan is charged.
    #[inline]
    pub(crate) fn variant_of(&self, plan: &Plan, index: usize) -> LimitVariant {
        let rule = self.rules.rule(plan.items()[index].rule);
        let trust = self.trust_in(rule, plan.trust).hundredths();
        let overridden = plan.override_of(index).filter(|found| found.limit.is_some());
        LimitVariant { numbers: overridden.map(|found| found.numbers), trust }
    }
}

impl<S: Store, C: Clock> Limiter<S, C> {
    /// Replaces the overrides. Each gives one limit other numbers for the clients that it is for, until its `until`,
    /// whatever policy is in force; of several that match a request the newest applies. Trust scales the result, and
    /// the limits of a tenant's ancestors still bind.
    ///
    /// A bucket keeps its tokens, at most the new capacity, whenever its numbers change: see [`Store::variant`]. One that
    /// was full in all numbers before may have been forgotten, and is then full in those of the override: see
    /// [`Store::expect_overrides`]. An override whose numbers the limit cannot have does not apply.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use tidegate::OverrideNumbers;
    /// use tidegate::engine::{GateBuilder, Limiter, OverrideRule, Overrides, Policy, PolicyBuilder, Request, RuleSet};
    ///
    /// let limiter = Limiter::new(Policy::parse("
    /// version: 1
    /// limits: [{ name: per-user, key: [user], sustained: { rate: 10, window: minute } }]
    /// ")?)?;
    /// let who = GateBuilder::new().when("user", ["42"]).reason("a migration");
    /// let who: RuleSet = PolicyBuilder::new().block_gate(who).build()?.into();
    /// let who = who.block().entries()[0].clone();
    /// let doubled = OverrideRule::new("o1", "per-user", OverrideNumbers::Times(200), who, Arc::default());
    /// limiter.set_overrides(Some(Overrides::new([doubled])));
    /// let limit = |user| limiter.peek(&Request::new().user(user)).limits().next().map(|limit| limit.decision.limit);
    /// assert_eq!((limit("42"), limit("43")), (Some(20), Some(10)));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn set_overrides(&self, overrides: Option<Overrides>) {
        self.share_overrides(overrides.map(Arc::new));
        self.tell_besides();
    }

    /// Replaces the overrides with those of another limiter.
    pub(super) fn share_overrides(&self, overrides: Option<Arc<Overrides>>) {
        // A policy that is put in force meanwhile must not miss them.
        let _one_at_a_time = self.swapping.lock().unwrap_or_else(PoisonError::into_inner);
        self.active.load().bind_overrides(overrides.as_deref(), &self.store);
        self.overrides.store(overrides);
    }

    /// Could the store count the limits of this name in the numbers of an override, on one of so many nodes each of which
    /// enforces its share? Nothing changes. Numbers that the limit itself cannot have are not looked at.
    ///
    /// # Errors
    /// Why the store could not count them.
    pub fn check_override(
        &self,
        limit: &str,
        numbers: OverrideNumbers,
        nodes: u32,
    ) -> Result<(), LimitError> {
        let set = self.active.load();
        let mut named = set.rules.rules().iter().filter(|rule| *rule.name == *limit);
        named.try_for_each(|rule| {
            let Ok(limit) = rule.limit.at(rule.overridden(numbers, nodes).into()) else { return Ok(()) };
            let named = NamedLimit { name: &rule.name, limit, carry: rule.carry, trusted: rule.adaptive };
            self.store.check_limits(&[named])
        })
    }

    /// The overrides.
    pub fn overrides(&self) -> Option<Arc<Overrides>> {
        self.overrides.load_full()
    }

    /// Finds the overrides that apply to the limits of a plan.
    #[inline]
    pub(super) fn apply_overrides(&self, set: &Active, facts: &Facts<'_, '_>, plan: &mut Plan, now: Nanos) {
        if set.overrides.is_some.load(Ordering::Acquire) {
            self.find_overrides(set, facts, plan, now);
        }
    }

    #[inline(never)]
    fn find_overrides(&self, set: &Active, facts: &Facts<'_, '_>, plan: &mut Plan, now: Nanos) {
        let by_rule = set.overrides.by_rule.load();
        let Some(by_rule) = by_rule.as_deref() else { return };
        let mut found = PlanOverrides::new();
        for (index, item) in (0..).zip(plan.items()) {
            let Some(of_rule) = &by_rule[item.rule as usize] else { continue };
            // `until` is a date, so it is compared with the wall clock.
            if let Some(number) = of_rule.found_by.find(facts, || self.clock.wall_at(now)) {
                found.push((index, Arc::clone(&of_rule.bound[number])));
            }
        }
        plan.overrides = found;
    }

    /// Records that the overrides of a plan were used.
    #[cold]
    pub(super) fn record_overrides(&self, set: &Active, plan: &Plan, at: Nanos) {
        let wall = self.clock.wall_at(at);
        for (index, overridden) in &plan.overrides {
            let index = *index as usize;
            let can_have = || {
                // Without trust: some clients may have too much trust for these numbers. Those then have the numbers without
                // it, so that says nothing about the others.
                let variant = LimitVariant { trust: 0, ..set.variant_of(plan, index) };
                let rule = &set.bound[plan.items()[index].rule as usize];
                rule.at(variant, &self.store).variant().numbers.is_some()
            };
            overridden.rule.use_record().record(set.swaps, can_have, wall);
        }
    }
}
