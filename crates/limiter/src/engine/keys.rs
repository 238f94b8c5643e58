//! Acting on the keys of a request: resetting them, granting tokens, forgetting what is remembered about them.
//!
//! Queues are left as they are: a request that waits has its tokens already.

use std::sync::Arc;

use arc_swap::Guard;
use tidegate_core::Cost;
use tidegate_policy::{Descriptor, PlanItem, Request, Rule};

use super::active::{Active, Charges, Payer};
use super::decision::Decision;
use super::limiter::{Limiter, Operation};
use crate::{Charge, Clock, Intent, NowOrLater, Store};

/// Which of the limits that apply to a request are meant.
pub type ChosenLimits<'c> = &'c dyn Fn(&Rule) -> bool;

/// A limit that applies to a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TouchedLimit {
    /// Its name, as the policy has it.
    pub name: Box<str>,
    /// Is the bucket the one that all requests without the key of the limit share, whoever sends them?
    pub is_shared: bool,
}

impl<S: Store, C: Clock> Limiter<S, C> {
    /// The limits that apply to a request.
    pub fn limits_of(&self, request: &Request<'_>, chosen: ChosenLimits<'_>) -> Vec<TouchedLimit> {
        let set = self.active.load_full();
        self.with_charges(&set, request, Cost::ZERO, chosen, |_, limits| limits)
    }

    /// Does a chosen limit apply to a request, if only one of a candidate?
    pub fn touches_any(&self, request: &Request<'_>, chosen: ChosenLimits<'_>) -> bool {
        let besides = self.besides.all();
        !self.limits_of(request, chosen).is_empty()
            || besides.iter().flat_map(|list| list.iter()).any(|beside| beside.touches_any(request, chosen))
    }

    /// Would acting on two requests be the same: the same limits with the same numbers and keys, of candidates too?
    pub fn touch_the_same(&self, one: &Request<'_>, other: &Request<'_>, chosen: ChosenLimits<'_>) -> bool {
        let set = self.active.load_full();
        let besides = self.besides.all();
        let mut besides = besides.iter().flat_map(|list| list.iter());
        if !besides.all(|beside| beside.touch_the_same(one, other, chosen)) {
            return false;
        }
        self.with_charges(&set, one, Cost::ZERO, chosen, |one, _| {
            self.with_charges(&set, other, Cost::ZERO, chosen, |other, _| {
                let same = |(one, other): (&Charge<'_>, &Charge<'_>)| {
                    (one.limit.id(), one.limit.limit(), one.key, one.tag)
                        == (other.limit.id(), other.limit.limit(), other.key, other.tag)
                };
                one.len() == other.len() && one.iter().zip(other).all(same)
            })
        })
    }

    /// Makes the buckets of a request unused, those of the chosen limits, and those of candidates too.
    pub fn reset_async(
        &self,
        request: &Request<'_>,
        chosen: ChosenLimits<'_>,
    ) -> NowOrLater<'_, Result<(), S::Error>> {
        self.act((Intent::Reset, Cost::ZERO), request, chosen)
    }

    /// Gives tokens to the buckets of a request, those of the chosen limits, never above a capacity, and to those of candidates
    /// too.
    pub fn grant_async(
        &self,
        request: &Request<'_>,
        tokens: Cost,
        chosen: ChosenLimits<'_>,
    ) -> NowOrLater<'_, Result<(), S::Error>> {
        self.act((Intent::Refund, tokens), request, chosen)
    }

    /// Writes the bucket of a limit in the numbers that are in force for it, which are those of an override or its own. It
    /// would do so by itself when something is taken from it, but until then it gains tokens at the rate of before, which
    /// somebody who is denied would have to wait for. `request` has the values that the limit counts by, and `named` are
    /// their descriptors; see [`tidegate_policy::RuleSet::plan_of_keys`]. Candidates do the same.
    ///
    /// If requests state a trust of their own, it is not known here: their bucket gains tokens at the trust that is known of
    /// the user, or none, until something is taken from it. That is two thirds of the rate at least.
    pub fn renumber_async(
        &self,
        limit: &str,
        named: &[Descriptor],
        request: &Request<'_>,
    ) -> NowOrLater<'_, Result<(), S::Error>> {
        if self.besides.is_some() {
            self.each_beside(|beside| beside.renumber(limit, named, request));
        }
        let (set, now) = (self.active.load_full(), self.clock.now());
        let facts = set.rules.facts(request);
        let mut plan = set.rules.plan_of_keys(limit, named, &facts);
        self.compute_trust(&set, &facts, &mut plan, now);
        self.apply_overrides(&set, &facts, &mut plan, now);
        let charges = set.charges_of(&plan, Payer::of(&set.rules, request), Cost::ZERO, &self.store);
        if charges.is_empty() {
            return NowOrLater::Now(Ok(()));
        }
        // A refund of nothing.
        self.store.charge(Intent::Refund, &charges, now).map(|result| result.map(|_state| ()))
    }

    /// The buckets that have the key of a request, of chosen limits that do not apply to it: because of its path, for
    /// instance. They are the limits of the decision; `None` if there are none. At most `most` of them.
    pub fn other_buckets_async(
        &self,
        request: &Request<'_>,
        chosen: ChosenLimits<'_>,
        most: usize,
    ) -> NowOrLater<'_, Result<Option<Decision>, S::Error>> {
        let (set, now) = (self.active.load_full(), self.clock.now());
        let facts = set.rules.facts(request);
        let applied = self.plan_of(&set, &facts, now);
        let mut plan = set.rules.plan_of_other_keys(&facts, &applied, chosen, most);
        drop(facts);
        if plan.items().is_empty() {
            return NowOrLater::Now(Ok(None));
        }
        let request = request.clone().into_owned();
        let facts = set.rules.facts(&request);
        self.compute_trust(&set, &facts, &mut plan, now);
        self.apply_overrides(&set, &facts, &mut plan, now);
        drop(facts);
        let charges = set.charges_of(&plan, Payer::of(&set.rules, &request), Cost::ZERO, &self.store);
        let states = self.store.charge(Intent::Peek, &charges, now);
        drop(charges);
        states.map(move |states| {
            let states = states?;
            let charges = set.charges_of(&plan, Payer::of(&set.rules, &request), Cost::ZERO, &self.store);
            let (result, caller) = (Ok(states), Operation::Peek.caller());
            let ruling = self.ruling_of(&set, &plan, &charges, (Intent::Peek, &result), (caller, now));
            drop(charges);
            Ok(Some(self.make_decision(Guard::from_inner(set), ruling)))
        })
    }

    /// Forgets what this node remembers about the buckets of a request beside the store's own state: another node has
    /// reset them ([`Intent::Reset`]) or given them tokens ([`Intent::Refund`]).
    pub fn forget(&self, after: Intent, request: &Request<'_>, chosen: ChosenLimits<'_>) {
        if self.besides.is_some() {
            self.each_beside(|beside| {
                beside.forget_keys(after, request, chosen);
                NowOrLater::Now(())
            });
        }
        let set = self.active.load_full();
        self.with_charges(&set, request, Cost::ZERO, chosen, |charges, _| {
            self.store.forget_keys(after, charges);
        });
    }

    /// Does this to the buckets of a request, those of the chosen limits.
    pub(super) fn act(
        &self,
        (intent, cost): (Intent, Cost),
        request: &Request<'_>,
        chosen: ChosenLimits<'_>,
    ) -> NowOrLater<'_, Result<(), S::Error>> {
        if self.besides.is_some() {
            self.each_beside(|beside| beside.act_on_keys((intent, cost), request, chosen));
        }
        let (set, now) = (self.active.load_full(), self.clock.now());
        self.with_charges(&set, request, cost, chosen, |charges, _| {
            if charges.is_empty() {
                return NowOrLater::Now(Ok(()));
            }
            self.store.charge(intent, charges, now).map(|result| result.map(|_state| ()))
        })
    }

    fn with_charges<T>(
        &self,
        set: &Arc<Active>,
        request: &Request<'_>,
        cost: Cost,
        chosen: ChosenLimits<'_>,
        act: impl FnOnce(&Charges<'_>, Vec<TouchedLimit>) -> T,
    ) -> T {
        let facts = set.rules.facts(request);
        let plan = self.plan_of(set, &facts, self.clock.now());
        let charges = set.charges_of(&plan, Payer::of(&set.rules, request), cost, &self.store);
        let is_chosen = |number: u32| chosen(set.rules.rule(number));
        let pairs = plan.items().iter().zip(charges).filter(|(item, _)| is_chosen(item.rule));
        let touched = |item: &PlanItem| TouchedLimit {
            name: set.rules.rule(item.rule).name.clone(),
            is_shared: plan.is_shared(item),
        };
        let (limits, charges): (Vec<TouchedLimit>, Charges<'_>) =
            pairs.map(|(item, charge)| (touched(item), charge)).unzip();
        act(&charges, limits)
    }
}
