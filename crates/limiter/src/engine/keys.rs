//! Acting on the keys of a request: resetting them, granting tokens, forgetting what is remembered about them.
//!
//! Queues are left as they are: a request that waits has its tokens already.

use std::sync::Arc;

use tidegate_core::Cost;
use tidegate_policy::{Request, Rule};

use super::active::{Active, Charges, Payer};
use super::limiter::Limiter;
use crate::{Charge, Clock, Intent, NowOrLater, Store};

/// Which of the limits that apply to a request are meant.
pub type ChosenLimits<'c> = &'c dyn Fn(&Rule) -> bool;

impl<S: Store, C: Clock> Limiter<S, C> {
    /// The limits that apply to a request, as the policy names them.
    pub fn limits_of(&self, request: &Request<'_>, chosen: ChosenLimits<'_>) -> Vec<Box<str>> {
        let set = self.active.load_full();
        self.with_charges(&set, request, Cost::ZERO, chosen, |_, names| names)
    }

    /// Would acting on two requests be the same: the same limits with the same numbers and keys?
    pub fn touch_the_same(&self, one: &Request<'_>, other: &Request<'_>, chosen: ChosenLimits<'_>) -> bool {
        let set = self.active.load_full();
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

    /// Makes the buckets of a request unused, those of the chosen limits.
    pub fn reset_async(
        &self,
        request: &Request<'_>,
        chosen: ChosenLimits<'_>,
    ) -> NowOrLater<'_, Result<(), S::Error>> {
        self.act(Intent::Reset, request, Cost::ZERO, chosen)
    }

    /// Gives tokens to the buckets of a request, those of the chosen limits, never above a capacity.
    pub fn grant_async(
        &self,
        request: &Request<'_>,
        tokens: Cost,
        chosen: ChosenLimits<'_>,
    ) -> NowOrLater<'_, Result<(), S::Error>> {
        self.act(Intent::Refund, request, tokens, chosen)
    }

    /// Forgets what this node remembers about the buckets of a request beside the store's own state: another node has
    /// reset them ([`Intent::Reset`]) or given them tokens ([`Intent::Refund`]).
    pub fn forget(&self, after: Intent, request: &Request<'_>, chosen: ChosenLimits<'_>) {
        let set = self.active.load_full();
        self.with_charges(&set, request, Cost::ZERO, chosen, |charges, _| {
            self.store.forget_keys(after, charges);
        });
    }

    fn act(
        &self,
        intent: Intent,
        request: &Request<'_>,
        cost: Cost,
        chosen: ChosenLimits<'_>,
    ) -> NowOrLater<'_, Result<(), S::Error>> {
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
        act: impl FnOnce(&Charges<'_>, Vec<Box<str>>) -> T,
    ) -> T {
        let facts = set.rules.facts(request);
        let plan = self.plan_of(set, &facts, self.clock.now());
        let charges = set.charges_of(&plan, Payer::of(&set.rules, request), cost, &self.store);
        let is_chosen = |number: u32| chosen(set.rules.rule(number));
        let pairs = plan.items().iter().zip(charges).filter(|(item, _)| is_chosen(item.rule));
        let (names, charges): (Vec<Box<str>>, Charges<'_>) =
            pairs.map(|(item, charge)| (set.rules.rule(item.rule).name.clone(), charge)).unzip();
        act(&charges, names)
    }
}
