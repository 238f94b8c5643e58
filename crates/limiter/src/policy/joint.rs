//! Several requests that stand or fall together.
//!
//! All of them are planned, their buckets put together, and charged as one. What
//! each is told then comes out of what its own buckets said.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Arc;

use arc_swap::Guard;
use smallvec::SmallVec;
use tidegate_core::{Cost, Nanos};
use tidegate_policy::{Facts, Plan, Request};

use super::active::{Active, Charges};
use super::decision::{Decision, Ruling};
use super::limiter::{Ask, Limiter, ShadowDenied, spread_retries};
use super::settle::{Caller, settle};
use super::stats::Counted;
use super::throttle::{Throttle, ThrottleError, ThrottleLimit};
use crate::{Charge, Clock, Intent, Memory, Role, Verdict};

/// Up to so many buckets are looked through one by one.
const LOOKED_THROUGH: usize = 16;

/// One of several requests that stand or fall together.
#[derive(Clone, Copy, Debug)]
pub struct Joint<'r, 'q> {
    /// The request.
    pub request: &'r Request<'q>,
    /// Numbers of its own that replace the policy's, and the key of their bucket. They are enforced
    /// even where the policy is only watched, and charged what the request costs.
    pub instead: Option<(ThrottleLimit, &'r [u8])>,
}

/// A request on its way to its limits.
struct Part<'s, 'r> {
    facts: Facts<'s, 'r>,
    plan: Plan,
    shadow_denied: ShadowDenied,
}

/// Which of the buckets a request is charged to.
enum Asked {
    /// None: it was decided before.
    Nothing,
    /// One for each limit that applies.
    Policy(SmallVec<[usize; 8]>),
    /// One that goes by numbers of its own.
    Instead(usize),
}

/// A bucket without a policy: its key, its numbers, and what to take.
type ThrottleAsk<'p> = (&'p [u8], ThrottleLimit, Cost);

/// The buckets of all requests, each once.
#[derive(Default)]
struct Together<'p> {
    charges: Charges<'p>,
    /// A bucket is its key and the number that its limit has in the store,
    /// whatever the trust.
    buckets: Places<(u32, &'p [u8])>,
    /// Buckets without a policy.
    ad_hoc: SmallVec<[ThrottleAsk<'p>; 2]>,
    ad_hoc_buckets: Places<(ThrottleLimit, &'p [u8])>,
}

/// Different things in the order in which they came.
struct Places<T> {
    known: SmallVec<[T; 8]>,
    /// Where each is, once they are too many to look through.
    index: HashMap<T, usize>,
}

impl<T> Default for Places<T> {
    fn default() -> Places<T> {
        Places { known: SmallVec::new(), index: HashMap::new() }
    }
}

impl<T: Copy + Eq + Hash> Places<T> {
    /// Where it is, if it is known; otherwise it is from now on, as the last.
    fn find_or_add(&mut self, thing: T) -> Option<usize> {
        let found = if self.known.len() <= LOOKED_THROUGH {
            self.known.iter().position(|known| *known == thing)
        } else {
            for place in self.index.len()..self.known.len() {
                self.index.insert(self.known[place], place);
            }
            self.index.get(&thing).copied()
        };
        if found.is_none() {
            self.known.push(thing);
        }
        found
    }
}

/// What all buckets said. Where it is not allowed, nothing was taken.
struct Outcome {
    allowed: bool,
    policy: Verdict,
    ad_hoc: SmallVec<[tidegate_core::Decision; 2]>,
}

impl<'p> Together<'p> {
    /// Adds a charge; which bucket it is on. The largest cost is charged, at the
    /// trust of whoever brings it.
    fn add(&mut self, limit: u32, charge: Charge<'p>) -> usize {
        if let Some(place) = self.buckets.find_or_add((limit, charge.key)) {
            if charge.cost > self.charges[place].cost {
                self.charges[place] = charge;
            }
            return place;
        }
        self.charges.push(charge);
        self.charges.len() - 1
    }

    /// The same for a bucket without a policy.
    fn add_ad_hoc(&mut self, ask: ThrottleAsk<'p>) -> usize {
        let (key, limit, cost) = ask;
        if let Some(place) = self.ad_hoc_buckets.find_or_add((limit, key)) {
            self.ad_hoc[place].2 = self.ad_hoc[place].2.max(cost);
            return place;
        }
        self.ad_hoc.push(ask);
        self.ad_hoc.len() - 1
    }
}

impl<C: Clock> Limiter<Memory<C>, C> {
    /// Decides several requests, all or nothing: if one is refused, none is charged. A bucket that
    /// several of them reach is charged once, with the largest cost. The decisions come in the order of
    /// the requests; each says what its own limits say, so one that would have passed says so, with
    /// nothing charged. A `queue` limit refuses here.
    ///
    /// # Errors
    /// When the numbers of one make no bucket; then nothing was decided.
    pub fn check_joint(
        &self,
        throttle: &Throttle<C>,
        requests: &[Joint<'_, '_>],
    ) -> Result<Vec<Decision>, ThrottleError> {
        let now = self.clock.now();
        if let [Joint { request, instead: None }] = requests {
            return Ok(vec![self.check_at(request, now)]);
        }
        // Found out before anything is counted.
        for (limit, key) in requests.iter().filter_map(|joint| joint.instead) {
            throttle.peek(key, limit, Cost::ZERO, now)?;
        }
        let set = self.active.load_full();
        let mut parts = SmallVec::<[Part<'_, '_>; 4]>::new();
        let mut closed = SmallVec::<[Option<Ruling>; 4]>::new();
        for joint in requests {
            let (part, ruling) = self.begin(&set, joint.request, now);
            parts.push(part);
            closed.push(ruling);
        }
        let gates_admit = closed.iter().flatten().all(|ruling| ruling.allowed);
        let mut together = Together::default();
        let mut asked = SmallVec::<[Asked; 4]>::new();
        for ((part, closed), joint) in parts.iter().zip(&closed).zip(requests) {
            asked.push(match closed {
                Some(_) => Asked::Nothing,
                None => self.ask(&set, part, joint.instead, &mut together),
            });
        }
        let outcome = self.charge_together(throttle, &together, gates_admit, now)?;
        // Where nothing is taken, only those who said no have decided anything.
        let decided = |said: &&tidegate_core::Decision| outcome.allowed || !said.is_allowed();
        outcome.ad_hoc.iter().filter(decided).for_each(|said| throttle.count(said.is_allowed()));

        let mut counted: SmallVec<[bool; 8]> = together.charges.iter().map(|_| false).collect();
        let mut decisions = Vec::with_capacity(requests.len());
        for (((part, closed), asked), joint) in parts.iter().zip(closed).zip(&asked).zip(requests) {
            let ruling = match asked {
                Asked::Nothing => closed.expect("what is decided is not asked for"),
                Asked::Policy(buckets) => {
                    let ruling = self.ruling(&set, part, buckets, &together, &outcome, now);
                    let elsewhere = counted_elsewhere(part, buckets, &together, &mut counted);
                    let scope = Counted { charged: outcome.allowed, elsewhere: &elsewhere };
                    decisions.push(self.tell(&set, part, Some(&part.plan), ruling, scope));
                    continue;
                }
                &Asked::Instead(bucket) => {
                    let ask = (together.ad_hoc[bucket], joint.request.cost);
                    let decision = own_ad_hoc(throttle, ask, &outcome, bucket, now)?;
                    let decision = throttle.told(decision, now);
                    let wait = decision.retry_after().filter(|_| !decision.is_allowed());
                    self.stats.count_reason(decision.reason(), wait);
                    decisions.push(decision);
                    continue;
                }
            };
            decisions.push(self.tell(&set, part, None, ruling, Counted::default()));
        }
        Ok(decisions)
    }

    /// What comes before limits.
    fn begin<'s, 'r>(
        &self,
        set: &'s Active,
        request: &'s Request<'r>,
        now: Nanos,
    ) -> (Part<'s, 'r>, Option<Ruling>) {
        let facts = set.rules.facts(request);
        let (mut plan, mut shadow_denied) = (Plan::default(), ShadowDenied::new());
        let opening = self.open(set, &facts, (Ask::Check, now), &mut plan, &mut shadow_denied);
        (Part { facts, plan, shadow_denied }, opening.ruling(now))
    }

    /// Adds the buckets of a request to all the others.
    fn ask<'p>(
        &self,
        set: &'p Active,
        part: &'p Part<'_, '_>,
        instead: Option<(ThrottleLimit, &'p [u8])>,
        together: &mut Together<'p>,
    ) -> Asked {
        let request = part.facts.request;
        if let Some((limit, key)) = instead {
            return Asked::Instead(together.add_ad_hoc((key, limit, request.cost)));
        }
        let charges = set.charges(&part.plan, request.trust, &self.store);
        let items = part.plan.items().iter().zip(charges);
        Asked::Policy(items.map(|(item, charge)| together.add(set.limit_id(item.rule), charge)).collect())
    }

    /// All or nothing, over two stores: those without a policy are looked at
    /// first and taken last. Should one of them deny after all, because somebody
    /// else was faster, everything is handed back.
    fn charge_together(
        &self,
        throttle: &Throttle<C>,
        together: &Together<'_>,
        gates_admit: bool,
        now: Nanos,
    ) -> Result<Outcome, ThrottleError> {
        let peek = |&(key, limit, cost): &ThrottleAsk<'_>| throttle.peek(key, limit, cost, now);
        let mut ad_hoc: SmallVec<[tidegate_core::Decision; 2]> =
            together.ad_hoc.iter().map(peek).collect::<Result<_, _>>()?;
        let admits = gates_admit && ad_hoc.iter().all(tidegate_core::Decision::is_allowed);
        let intent = if admits { Intent::Take } else { Intent::Peek };
        let policy = self.store.charge_now(intent, &together.charges, now);
        if !admits || !policy.allowed {
            return Ok(Outcome { allowed: false, policy, ad_hoc });
        }
        for (place, &(key, limit, cost)) in together.ad_hoc.iter().enumerate() {
            let taken = throttle.take_uncounted(key, limit, cost, now);
            if let Ok(decision) = taken
                && decision.is_allowed()
            {
                ad_hoc[place] = decision;
                continue;
            }
            let before = &together.ad_hoc[..place];
            before.iter().rev().for_each(|&(key, limit, cost)| throttle.hand_back(key, limit, cost, now));
            let taken_from = together.charges.iter().zip(&policy.decisions);
            let charges: Charges<'_> =
                taken_from.filter(|(_, said)| said.is_allowed()).map(|(charge, _)| *charge).collect();
            self.store.charge_now(Intent::HandBack, &charges, now);
            for (decision, ask) in ad_hoc.iter_mut().zip(before) {
                *decision = peek(ask)?;
            }
            ad_hoc[place] = taken?;
            let policy = self.store.charge_now(Intent::Peek, &together.charges, now);
            return Ok(Outcome { allowed: false, policy, ad_hoc });
        }
        Ok(Outcome { allowed: true, policy, ad_hoc })
    }

    /// What the limits of one request say. When all are admitted, they tell what
    /// is left after the one charge; otherwise each tells what it says to this
    /// request's own cost.
    fn ruling(
        &self,
        set: &Active,
        part: &Part<'_, '_>,
        buckets: &[usize],
        together: &Together<'_>,
        outcome: &Outcome,
        now: Nanos,
    ) -> Ruling {
        let say = |(item, &bucket): (&tidegate_policy::Item, &usize)| {
            let charge = Charge { cost: item.cost, ..together.charges[bucket] };
            if outcome.allowed || charge.cost == together.charges[bucket].cost {
                return outcome.policy.decisions[bucket];
            }
            self.store.charge_now(Intent::Peek, &[charge], now).decisions[0]
        };
        let decisions: SmallVec<[tidegate_core::Decision; 8]> =
            part.plan.items().iter().zip(buckets).map(say).collect();
        let binds = |bucket: usize| together.charges[bucket].role == Role::Binding;
        let allowed =
            decisions.iter().zip(buckets).all(|(said, &bucket)| said.is_allowed() || !binds(bucket));
        settle(&set.rules, &part.plan, &Verdict { allowed, decisions }, now, Caller::DoesNotWait)
    }

    fn tell(
        &self,
        set: &Arc<Active>,
        part: &Part<'_, '_>,
        plan: Option<&Plan>,
        mut ruling: Ruling,
        scope: Counted<'_>,
    ) -> Decision {
        ruling.shadow_denied.insert_many(0, part.shadow_denied.iter().copied());
        spread_retries(set, &part.facts, &mut ruling);
        self.stats.count(set, &part.facts, plan, &ruling, scope);
        Decision::new(Guard::from_inner(set.clone()), ruling)
    }
}

/// Which of a request's buckets another one counts: it is the one that brings the
/// largest cost, the first of them.
fn counted_elsewhere(
    part: &Part<'_, '_>,
    buckets: &[usize],
    together: &Together<'_>,
    counted: &mut [bool],
) -> SmallVec<[bool; 8]> {
    let pairs = part.plan.items().iter().zip(buckets);
    pairs
        .map(|(item, &bucket)| {
            let mine = item.cost == together.charges[bucket].cost && !counted[bucket];
            counted[bucket] |= mine;
            !mine
        })
        .collect()
}

/// What a bucket without a policy says to a request's own cost.
fn own_ad_hoc<C: Clock>(
    throttle: &Throttle<C>,
    ((key, limit, charged), cost): (ThrottleAsk<'_>, Cost),
    outcome: &Outcome,
    bucket: usize,
    now: Nanos,
) -> Result<tidegate_core::Decision, ThrottleError> {
    if outcome.allowed || cost == charged {
        return Ok(outcome.ad_hoc[bucket]);
    }
    throttle.peek(key, limit, cost, now)
}

#[cfg(test)]
mod tests;
