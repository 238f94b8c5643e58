//! Several requests that stand or fall together.
//!
//! All of them are planned, their buckets put together, and charged as one. What
//! each is told then comes out of what its own buckets said.

mod charging;

use std::sync::Arc;

use arc_swap::Guard;
use smallvec::SmallVec;
use tidegate_core::{Cost, Nanos};
use tidegate_policy::{Facts, Plan, Request};

use self::charging::{JointAdHoc, JointCharges, JointOutcome};
use super::conclude::{CanWait, conclude};
use super::fallback::mark;
use super::gates::ShadowDenied;
use crate::engine::active::{Active, Charges, Payer};
use crate::engine::ad_hoc::{AdHocError, AdHocLimit, AdHocRequest};
use crate::engine::counting::stats::CountScope;
use crate::engine::decision::{Decision, Ruling};
use crate::engine::limiter::{Limiter, Operation, spread_retries};
use crate::now_or_later::ready;
use crate::{Clock, Intent, Memory, Role, Store, Verdict};

/// One of several requests that stand or fall together.
#[derive(Clone, Copy, Debug)]
pub struct Joint<'r, 'q> {
    /// The request.
    pub request: &'r Request<'q>,
    /// What decides it.
    pub by: JointBy<'r>,
}

/// What decides one of several requests.
#[derive(Clone, Copy, Debug)]
pub enum JointBy<'r> {
    /// The policy.
    Policy,
    /// An ad-hoc bucket instead of the policy's: its numbers and its key. It is enforced
    /// even where the policy is only watched, and charged what the request costs.
    AdHoc(AdHocLimit, &'r [u8]),
    /// Numbers that admit nothing, instead of the policy's. Only the kill switch admits it.
    Closed,
}

/// What was decided about requests that stand or fall together.
#[derive(Debug)]
pub struct JointDecision {
    /// Were they admitted and charged? If not, nothing was taken from any bucket, whatever a single decision says.
    pub allowed: bool,
    /// One for each request, in their order. Where the whole is refused, at least one of them is a refusal; one that
    /// would have passed by itself says so.
    pub decisions: Vec<Decision>,
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
    /// An ad-hoc bucket.
    AdHoc(usize),
}

impl<C: Clock> Limiter<Memory<C>, C> {
    /// Decides several requests, all or nothing: if one is refused, none is charged. A bucket that
    /// several of them reach is charged once, with the largest cost. A `queue` limit refuses here.
    ///
    /// # Errors
    /// When the numbers of one make no bucket; then nothing was decided.
    pub fn check_joint(&self, requests: &[Joint<'_, '_>]) -> Result<JointDecision, AdHocError> {
        ready(self.check_joint_async(requests))
    }
}

impl<S: Store, C: Clock> Limiter<S, C> {
    /// [`Limiter::check_joint`] on any store. Where the store keeps ad-hoc buckets too, one call charges
    /// all of them, but for those whose numbers it cannot count: they are this node's own, with its part of them.
    ///
    /// # Errors
    /// When the numbers of one make no bucket; then nothing was decided.
    pub async fn check_joint_async(&self, requests: &[Joint<'_, '_>]) -> Result<JointDecision, AdHocError> {
        let now = self.clock.now();
        if !self.kill_switch() && requests.iter().any(|joint| matches!(joint.by, JointBy::Closed)) {
            return self.refuse_joint(requests, now).await;
        }
        if let [Joint { request, by: JointBy::Policy | JointBy::Closed }] = requests {
            let decision = self.check_async_at(request, now).await;
            return Ok(JointDecision { allowed: decision.is_allowed(), decisions: vec![decision] });
        }
        // Found out before anything is counted.
        let mut own_buckets = SmallVec::<[Option<JointAdHoc<'_>>; 4]>::new();
        for joint in requests {
            own_buckets.push(self.own_bucket(joint, now)?);
        }
        let set = self.active.load_full();
        let mut parts = SmallVec::<[Part<'_, '_>; 4]>::new();
        let mut closed = SmallVec::<[Option<Ruling>; 4]>::new();
        for joint in requests {
            let (part, ruling) = self.open_part(&set, joint.request, now);
            parts.push(part);
            closed.push(ruling);
        }
        let gates_admit = closed.iter().flatten().all(|ruling| ruling.allowed);
        let mut together = JointCharges::default();
        let mut asked = SmallVec::<[Asked; 4]>::new();
        for (((part, closed), joint), own) in parts.iter().zip(&closed).zip(requests).zip(own_buckets) {
            asked.push(match (closed, joint.by, own) {
                (Some(_), ..) => Asked::Nothing,
                (None, JointBy::AdHoc(limit, key), Some(own)) => {
                    Asked::AdHoc(together.add_ad_hoc((limit, key), own))
                }
                (None, ..) => self.ask_together(&set, part, &mut together),
            });
        }
        parts.iter().for_each(|part| self.spill_lines(&set, &part.plan, now));
        let outcome = self.charge_together(&set, &mut together, gates_admit, now).await?;
        // Where nothing is taken, only those who said no have decided anything.
        let decided = |said: &&tidegate_core::LimitDecision| outcome.allowed || !said.is_allowed();
        for said in outcome.ad_hoc.iter().filter(decided) {
            self.own_ad_hoc()?.count(said.is_allowed());
        }

        let mut counted: SmallVec<[bool; 8]> = together.charges.iter().map(|_| false).collect();
        let mut decisions = Vec::with_capacity(requests.len());
        for (((part, closed), asked), joint) in parts.iter().zip(closed).zip(&asked).zip(requests) {
            decisions.push(match asked {
                Asked::Nothing => {
                    let ruling = closed.expect("what is decided is not asked for");
                    self.tell(&set, part, None, ruling, CountScope::default())
                }
                Asked::Policy(buckets) => {
                    let ruling = self.ruling(&set, part, buckets, &together, &outcome, now).await;
                    let elsewhere = counted_elsewhere(part, buckets, &together, &mut counted);
                    let scope = CountScope { charged: outcome.allowed, elsewhere: &elsewhere };
                    self.tell(&set, part, Some(&part.plan), ruling, scope)
                }
                &Asked::AdHoc(bucket) => {
                    let cost = joint.request.cost;
                    let decision = self.ad_hoc_said(&together, &outcome, (bucket, cost), now).await?;
                    let decision = self.own_ad_hoc()?.told(decision, now);
                    let wait = decision.wait().filter(|_| !decision.is_allowed());
                    self.stats.count_reason(decision.reason(), wait);
                    decision
                }
            });
        }
        Ok(JointDecision { allowed: outcome.allowed, decisions })
    }

    /// The decisions where it is known before that the whole is refused: nothing is charged, and only what is closed has
    /// decided anything.
    #[cold]
    async fn refuse_joint(
        &self,
        requests: &[Joint<'_, '_>],
        now: Nanos,
    ) -> Result<JointDecision, AdHocError> {
        let mut decisions = Vec::with_capacity(requests.len());
        for Joint { request, by } in requests {
            decisions.push(match *by {
                JointBy::Policy => self.peek_async(request).await,
                JointBy::AdHoc(limit, key) => {
                    let asked = AdHocRequest { key, limit, cost: request.cost.get().into() };
                    self.tell_ad_hoc(&self.peek_ad_hoc(&asked, now).await?)
                }
                JointBy::Closed => self.own_ad_hoc()?.refuse(now),
            });
        }
        Ok(JointDecision { allowed: false, decisions })
    }

    /// The bucket that a request brings the numbers of; whether they make one is found out.
    fn own_bucket<'r>(
        &self,
        joint: &Joint<'r, '_>,
        now: Nanos,
    ) -> Result<Option<JointAdHoc<'r>>, AdHocError> {
        let JointBy::AdHoc(mut limit, key) = joint.by else { return Ok(None) };
        let mut shared = None;
        if self.is_shared {
            shared = self.shared_limit(key, limit)?;
            if shared.is_none() {
                limit = self.own_part(limit);
            }
        }
        if shared.is_none() {
            let _ = self.own_ad_hoc()?.peek(key, limit, Cost::ZERO, now)?;
        }
        Ok(Some(JointAdHoc { key, limit, cost: joint.request.cost, shared }))
    }

    /// What comes before limits.
    fn open_part<'s, 'r>(
        &self,
        set: &'s Active,
        request: &'s Request<'r>,
        now: Nanos,
    ) -> (Part<'s, 'r>, Option<Ruling>) {
        let facts = set.rules.facts(request);
        let (mut plan, mut shadow_denied) = (Plan::default(), ShadowDenied::new());
        let opening = self.open(set, &facts, (Operation::Check, now), &mut plan, &mut shadow_denied);
        (Part { facts, plan, shadow_denied }, opening.ruling(now))
    }

    /// Adds the buckets of a request to all the others.
    fn ask_together<'p>(
        &self,
        set: &'p Active,
        part: &'p Part<'_, '_>,
        together: &mut JointCharges<'p>,
    ) -> Asked {
        let request = part.facts.request;
        let charges = set.charges(&part.plan, Payer::of(request), &self.store);
        let items = part.plan.items().iter().zip(charges);
        let add = |(item, charge): (&tidegate_policy::PlanItem, _)| {
            together.add(set.limit_id(item.rule), (item.rule, request.trust), charge)
        };
        Asked::Policy(items.map(add).collect())
    }

    /// What the limits of one request say. When all are admitted, they tell what is left after the one charge.
    ///
    /// When the whole is refused, each tells what it says to this request's own cost. Where that is the cost which was
    /// asked for, the one call has said it already, and asking again could hear another answer: the bucket may have
    /// refilled meanwhile. Only a bucket that was asked for a larger cost of another request is looked at again. So
    /// whoever brought the cost that was refused is always told so.
    async fn ruling(
        &self,
        set: &Active,
        part: &Part<'_, '_>,
        buckets: &[usize],
        together: &JointCharges<'_>,
        outcome: &JointOutcome,
        now: Nanos,
    ) -> Ruling {
        let items = part.plan.items();
        let mut own: Charges<'_> = buckets.iter().map(|&bucket| together.charges[bucket]).collect();
        let mut dearer = SmallVec::<[usize; 8]>::new();
        for (place, (charge, item)) in own.iter_mut().zip(items).enumerate() {
            if charge.cost != item.cost {
                dearer.push(place);
            }
            charge.cost = item.cost;
        }
        let mut decisions: SmallVec<[_; 8]> =
            buckets.iter().map(|&bucket| outcome.policy.decisions[bucket]).collect();
        if !outcome.allowed && !dearer.is_empty() {
            let cheaper: Charges<'_> = dearer.iter().map(|&place| own[place]).collect();
            // Should the store fail just now, what the larger cost was told stands.
            let looked = if outcome.without_store.is_some() {
                let subject = |i: usize| (items[dearer[i]].rule, part.facts.request.trust);
                Some(self.fall_back(set, subject, &cheaper, Intent::Peek, now).verdict)
            } else {
                self.store.charge(Intent::Peek, &cheaper, now).await.ok()
            };
            let looked = looked.into_iter().flat_map(|verdict| verdict.decisions);
            dearer.iter().zip(looked).for_each(|(&place, said)| decisions[place] = said);
        }
        let binds = |place: usize| own[place].role == Role::Binding;
        let allowed = decisions.iter().enumerate().all(|(place, said)| said.is_allowed() || !binds(place));
        let verdict = Verdict { allowed, decisions, at: now };
        let mut ruling = conclude(&set.rules, &part.plan, &verdict, now, CanWait::DoesNotWait);
        if let Some(closed) = outcome.without_store.as_ref().filter(|_| !buckets.is_empty()) {
            mark(&mut ruling, closed);
        }
        ruling
    }

    /// What an ad-hoc bucket says to a request's own cost.
    async fn ad_hoc_said(
        &self,
        together: &JointCharges<'_>,
        outcome: &JointOutcome,
        (bucket, cost): (usize, Cost),
        now: Nanos,
    ) -> Result<tidegate_core::LimitDecision, AdHocError> {
        let own = &together.ad_hoc[bucket];
        if outcome.allowed || cost == own.cost {
            return Ok(outcome.ad_hoc[bucket]);
        }
        let Some(charge) = own.shared_charge(cost) else {
            return self.own_ad_hoc()?.peek(own.key, own.limit, cost, now);
        };
        let looked = self.store.charge(Intent::Peek, &[charge], now).await;
        Ok(looked.map_or(outcome.ad_hoc[bucket], |verdict| verdict.decisions[0]))
    }

    fn tell(
        &self,
        set: &Arc<Active>,
        part: &Part<'_, '_>,
        plan: Option<&Plan>,
        mut ruling: Ruling,
        scope: CountScope<'_>,
    ) -> Decision {
        ruling.shadow_denied.insert_many(0, part.shadow_denied.iter().copied());
        spread_retries(set, &part.facts, &mut ruling);
        self.stats.count(set, &part.facts, plan, &ruling, scope);
        self.told(Guard::from_inner(set.clone()), ruling)
    }
}

/// Which of a request's buckets another one counts: it is the one that brings the
/// largest cost, the first of them.
fn counted_elsewhere(
    part: &Part<'_, '_>,
    buckets: &[usize],
    together: &JointCharges<'_>,
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

#[cfg(test)]
mod tests;
