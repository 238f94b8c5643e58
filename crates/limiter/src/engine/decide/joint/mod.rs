//! Joint decisions: several requests are admitted together or not at all.
//!
//! All requests are planned, and their buckets are collected and charged in one call ([`charging`]). The
//! decision on each request then follows from the decisions of its own buckets.

mod charging;

use std::sync::Arc;

use arc_swap::Guard;
use smallvec::SmallVec;
use tidegate_core::{Cost, Nanos};
use tidegate_policy::{Facts, Plan, Request};

use self::charging::{JointAdHoc, JointCharges, JointOutcome};
use super::conclude::{CanWait, conclude};
use super::fallback::mark_without_store;
use super::gates::{GateNotes, GateOutcome};
use crate::engine::active::{Active, Charges, Payer};
use crate::engine::ad_hoc::{AdHocError, AdHocLimit, AdHocRequest};
use crate::engine::counting::stats::CountScope;
use crate::engine::decision::{Decision, Ruling};
use crate::engine::limiter::{Limiter, Operation, add_retry_jitter};
use crate::now_or_later::ready;
use crate::{Clock, Intent, Memory, Role, Store, Verdict};

/// One of several requests that are admitted together or not at all.
#[derive(Clone, Copy, Debug)]
pub struct Joint<'r, 'q> {
    /// The request.
    pub request: &'r Request<'q>,
    /// Whether the policy decides it, or numbers in place of the policy.
    pub by: JointBy<'r>,
}

/// Whether one of several requests is decided by the policy, or by numbers in place of the policy.
#[derive(Clone, Copy, Debug)]
pub enum JointBy<'r> {
    /// The policy.
    Policy,
    /// An ad hoc bucket instead of the policy: its numbers and its key. It is enforced even if the policy is in
    /// shadow mode, and is charged the cost of the request.
    AdHoc(AdHocLimit, &'r [u8]),
    /// Numbers that admit nothing, instead of the policy. Only the kill switch admits such a request.
    Closed,
}

/// The decision on requests that are admitted together or not at all.
#[derive(Debug)]
#[must_use = "requests that were not admitted must not be served"]
pub struct JointDecision {
    /// Were they admitted and charged? If not, nothing was taken from any bucket, whatever a single decision
    /// says.
    pub allowed: bool,
    /// One for each request, in their order. If the requests are denied, at least one of these is a denial; the
    /// decision on a request that would have been admitted alone says so.
    pub decisions: Vec<Decision>,
}

/// One request after its gates.
struct Part<'s, 'r> {
    facts: Facts<'s, 'r>,
    plan: Plan,
    notes: GateNotes,
}

/// The buckets that a request is charged to.
enum PartBuckets {
    /// None: the gates have decided.
    Nothing,
    /// One for each limit that applies.
    Policy(SmallVec<[usize; 8]>),
    /// An ad hoc bucket.
    AdHoc(usize),
}

impl<C: Clock> Limiter<Memory<C>, C> {
    /// Decides several requests, all or none: if one is denied, none is charged. A bucket that several of them
    /// use is charged once, with the largest cost. A `queue` limit denies here.
    ///
    /// # Errors
    /// The numbers of an ad hoc bucket are invalid; then nothing was decided.
    pub fn check_joint(&self, requests: &[Joint<'_, '_>]) -> Result<JointDecision, AdHocError> {
        ready(self.check_joint_async(requests))
    }
}

impl<S: Store, C: Clock> Limiter<S, C> {
    /// [`Limiter::check_joint`] on any store. If the store supports ad hoc buckets, one call charges all of
    /// them, except those whose numbers it cannot count: they are in this node's memory, with its share of the
    /// numbers.
    ///
    /// # Errors
    /// The numbers of an ad hoc bucket are invalid; then nothing was decided.
    pub async fn check_joint_async(&self, requests: &[Joint<'_, '_>]) -> Result<JointDecision, AdHocError> {
        let now = self.clock.now();
        let is_by_policy = |joint: &Joint<'_, '_>| matches!(joint.by, JointBy::Policy);
        if self.besides.is_some() && requests.len() > 1 && requests.iter().all(is_by_policy) {
            let each: Vec<Request<'_>> = requests.iter().map(|joint| joint.request.clone()).collect();
            let live = Box::pin(self.decide_joint(requests, now));
            return self.run_besides_of_joint(live, &each, now).await;
        }
        self.decide_joint(requests, now).await
    }

    /// [`Limiter::check_joint_async`] at a given instant.
    pub(in crate::engine) async fn decide_joint(
        &self,
        requests: &[Joint<'_, '_>],
        now: Nanos,
    ) -> Result<JointDecision, AdHocError> {
        if !self.kill_switch() && requests.iter().any(|joint| matches!(joint.by, JointBy::Closed)) {
            return self.deny_joint(requests, now).await;
        }
        if let [Joint { request, by: JointBy::Policy | JointBy::Closed }] = requests {
            let decision = self.check_async_at(request, now).await;
            return Ok(JointDecision { allowed: decision.is_allowed(), decisions: vec![decision] });
        }
        // Errors must be found before anything is counted.
        let ad_hoc_buckets = requests.iter().map(|joint| self.ad_hoc_bucket(joint, now));
        let ad_hoc_buckets: SmallVec<[_; 4]> = ad_hoc_buckets.collect::<Result<_, _>>()?;
        let set = self.active.load_full();
        let mut parts = SmallVec::<[Part<'_, '_>; 4]>::new();
        let mut gate_rulings = SmallVec::<[Option<Ruling>; 4]>::new();
        for joint in requests {
            let (part, ruling) = self.check_part_gates(&set, joint, now).await;
            parts.push(part);
            gate_rulings.push(ruling);
        }
        let gates_admit = gate_rulings.iter().flatten().all(|ruling| ruling.allowed);
        let (mut together, mut charged) = (JointCharges::default(), SmallVec::<[PartBuckets; 4]>::new());
        let ruled = parts.iter().zip(&gate_rulings);
        for (((part, ruling), joint), bucket) in ruled.zip(requests).zip(ad_hoc_buckets) {
            charged.push(match (ruling, joint.by, bucket) {
                (Some(_), ..) => PartBuckets::Nothing,
                (None, JointBy::AdHoc(limit, key), Some(bucket)) => {
                    PartBuckets::AdHoc(together.add_ad_hoc((limit, key), bucket))
                }
                (None, ..) => self.add_policy_charges(&set, part, &mut together),
            });
        }
        parts.iter().for_each(|part| self.discard_queue_overflow(&set, &part.plan, now));
        let outcome = self.charge_together(&set, &mut together, gates_admit, now).await?;
        // If nothing is taken, only the buckets that denied have decided anything.
        let buckets = outcome.ad_hoc.iter().zip(&together.ad_hoc);
        for (decision, bucket) in buckets.filter(|(one, _)| outcome.allowed || !one.is_allowed()) {
            self.own_ad_hoc()?.count(bucket.key, decision, now);
        }

        let mut counted: SmallVec<[bool; 8]> = together.charges.iter().map(|_| false).collect();
        let mut decisions = Vec::with_capacity(requests.len());
        for (((part, ruling), buckets), joint) in parts.iter().zip(gate_rulings).zip(&charged).zip(requests) {
            decisions.push(match buckets {
                PartBuckets::Nothing => {
                    let ruling = ruling.expect("without charges, the gates have decided");
                    self.finish_part(&set, part, None, ruling, CountScope::default())
                }
                PartBuckets::Policy(buckets) => {
                    let ruling = self.ruling(&set, part, buckets, &together, &outcome, now).await;
                    let counted_elsewhere = counted_elsewhere(part, buckets, &together, &mut counted);
                    let scope =
                        CountScope { charged: outcome.allowed, counted_elsewhere: &counted_elsewhere };
                    self.finish_part(&set, part, Some(&part.plan), ruling, scope)
                }
                &PartBuckets::AdHoc(bucket) => {
                    let cost = joint.request.cost;
                    let decision = self.decision_of_ad_hoc(&together, &outcome, (bucket, cost), now).await?;
                    let decision = self.own_ad_hoc()?.to_decision(decision, now);
                    let wait = decision.wait().filter(|_| !decision.is_allowed());
                    self.stats.count_reason(decision.reason(), wait);
                    decision
                }
            });
        }
        Ok(JointDecision { allowed: outcome.allowed, decisions })
    }

    /// The decisions if a `JointBy::Closed` request makes the whole denied: nothing is charged, and only the
    /// closed requests count as decided.
    #[cold]
    async fn deny_joint(&self, requests: &[Joint<'_, '_>], now: Nanos) -> Result<JointDecision, AdHocError> {
        let mut decisions = Vec::with_capacity(requests.len());
        for Joint { request, by } in requests {
            decisions.push(match *by {
                JointBy::Policy => self.peek_async(request).await,
                JointBy::AdHoc(limit, key) => {
                    let ad_hoc = AdHocRequest { key, limit, cost: request.cost.get().into() };
                    self.ad_hoc_decision(&self.peek_ad_hoc(&ad_hoc, now).await?)
                }
                JointBy::Closed => self.own_ad_hoc()?.refuse(now),
            });
        }
        Ok(JointDecision { allowed: false, decisions })
    }

    /// The ad hoc bucket of a request, with its numbers checked.
    fn ad_hoc_bucket<'r>(
        &self,
        joint: &Joint<'r, '_>,
        now: Nanos,
    ) -> Result<Option<JointAdHoc<'r>>, AdHocError> {
        let JointBy::AdHoc(mut limit, key) = joint.by else { return Ok(None) };
        let mut shared = None;
        if self.is_shared {
            shared = self.shared_limit(key, limit)?;
            if shared.is_none() {
                limit = self.node_share_of(limit);
            }
        }
        if shared.is_none() {
            let _ = self.own_ad_hoc()?.peek(key, limit, Cost::ZERO, now)?;
        }
        Ok(Some(JointAdHoc { key, limit, cost: joint.request.cost, shared }))
    }

    /// Runs the gates for one request, and counts it in burst detectors that nodes share.
    async fn check_part_gates<'s, 'r>(
        &self,
        set: &'s Active,
        joint: &Joint<'s, 'r>,
        now: Nanos,
    ) -> (Part<'s, 'r>, Option<Ruling>) {
        let facts = set.rules.facts(joint.request);
        let (mut plan, mut notes) = (Plan::default(), GateNotes::default());
        let gates = self.check_gates(set, &facts, (Operation::Check, now), &mut plan, &mut notes);
        let gates = match (gates, joint.by) {
            (GateOutcome::Open, JointBy::Policy) => {
                self.check_keys(set, &facts, Operation::Check, &plan, &mut notes)
            }
            (decided, _) => decided,
        };
        let (mut part, mut ruling) = (Part { facts, plan, notes }, gates.ruling(now));
        self.count_part(set, &mut part, &mut ruling, now).await;
        (part, ruling)
    }

    /// Counts one request in burst detectors that nodes share, before anything is charged: a block denies all.
    async fn count_part(
        &self,
        set: &Active,
        part: &mut Part<'_, '_>,
        ruling: &mut Option<Ruling>,
        now: Nanos,
    ) {
        let Part { facts, notes, .. } = part;
        if ruling.is_some() {
            return self.add_shared(set, facts, notes, now);
        }
        let Some(asking) = self.ask_shared(notes, now) else { return };
        let asked = asking.await;
        let nothing_charged: Result<Verdict, S::Error> =
            Ok(Verdict { allowed: false, decisions: SmallVec::new(), at: now });
        let charges = (&Charges::new(), &nothing_charged);
        *ruling = self.conclude_shared((set, facts), notes, asked, charges, now);
    }

    /// Adds the charges of a request to those of the others.
    fn add_policy_charges<'p>(
        &self,
        set: &'p Active,
        part: &'p Part<'_, '_>,
        together: &mut JointCharges<'p>,
    ) -> PartBuckets {
        let request = part.facts.request;
        let charges = set.charges(&part.plan, Payer::of(&set.rules, request), &self.store);
        let items = part.plan.items().iter().zip(charges).enumerate();
        let add = |(index, (item, charge)): (usize, (&tidegate_policy::PlanItem, _))| {
            let subject = (item.rule, set.variant_of(&part.plan, index));
            together.add(set.limit_id(item.rule), subject, charge)
        };
        PartBuckets::Policy(items.map(add).collect())
    }

    /// The ruling of the limits on one request. If all requests are admitted, its standings are those after the
    /// joint charge.
    ///
    /// If the requests are denied, each limit is reported as it decides on this request's own cost. If that is
    /// the cost that was charged, the decision of the joint call is used, because a second call might find the
    /// bucket refilled. Only a bucket that was charged a larger cost of another request is peeked at again. So
    /// the request whose cost was denied is always reported as denied.
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
        let mut charged_more = SmallVec::<[usize; 8]>::new();
        for (index, (charge, item)) in own.iter_mut().zip(items).enumerate() {
            if charge.cost != item.cost {
                charged_more.push(index);
            }
            charge.cost = item.cost;
        }
        let mut decisions: SmallVec<[_; 8]> =
            buckets.iter().map(|&bucket| outcome.policy.decisions[bucket]).collect();
        if !outcome.allowed && !charged_more.is_empty() {
            let own_costs: Charges<'_> = charged_more.iter().map(|&index| own[index]).collect();
            // If the store fails now, the decision on the larger cost stands.
            let peeked = if outcome.without_store.is_some() {
                let subject =
                    |i: usize| (items[charged_more[i]].rule, set.variant_of(&part.plan, charged_more[i]));
                Some(self.fall_back(set, subject, &own_costs, Intent::Peek, now).verdict)
            } else {
                self.store.charge(Intent::Peek, &own_costs, now).await.ok()
            };
            let peeked = peeked.into_iter().flat_map(|verdict| verdict.decisions);
            charged_more.iter().zip(peeked).for_each(|(&index, decision)| decisions[index] = decision);
        }
        let binds = |index: usize| own[index].role == Role::Binding;
        let allowed =
            decisions.iter().enumerate().all(|(index, decision)| decision.is_allowed() || !binds(index));
        let verdict = Verdict { allowed, decisions, at: now };
        let mut ruling = conclude(&set.rules, (&part.plan, &own), &verdict, now, CanWait::DoesNotWait);
        if let Some(closed) = outcome.without_store.as_ref().filter(|_| !buckets.is_empty()) {
            mark_without_store(&mut ruling, closed);
        }
        ruling
    }

    /// The decision of an ad hoc bucket on a request's own cost.
    async fn decision_of_ad_hoc(
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
        let peeked = self.store.charge(Intent::Peek, &[charge], now).await;
        Ok(peeked.map_or(outcome.ad_hoc[bucket], |verdict| verdict.decisions[0]))
    }

    fn finish_part(
        &self,
        set: &Arc<Active>,
        part: &Part<'_, '_>,
        plan: Option<&Plan>,
        mut ruling: Ruling,
        scope: CountScope<'_>,
    ) -> Decision {
        part.notes.add_to(&mut ruling);
        add_retry_jitter(set, plan, &mut ruling);
        self.count_decision(set, &part.facts, plan, &ruling, scope);
        self.make_decision(Guard::from_inner(set.clone()), ruling)
    }
}

/// Which buckets of a request are counted with another request: a bucket is counted with the first request that
/// has the largest cost.
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
