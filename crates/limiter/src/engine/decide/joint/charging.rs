//! The buckets of several requests, charged as one.

use std::collections::HashMap;
use std::hash::Hash;

use smallvec::SmallVec;
use tidegate_core::{Cost, LimitDecision, Nanos};
use tidegate_policy::document::OnStoreError;

use super::super::fallback::{ChargedRule, Closed};
use crate::engine::active::{Active, Charges};
use crate::engine::ad_hoc::{AdHocBuckets, AdHocError, AdHocLimit};
use crate::engine::limiter::Limiter;
use crate::{Charge, Clock, Intent, LimitRef, Store, Verdict};

/// Up to so many buckets are looked through one by one.
const LOOKED_THROUGH: usize = 16;

/// An ad-hoc bucket.
pub(super) struct JointAdHoc<'p> {
    pub(super) key: &'p [u8],
    /// The numbers that this node goes by, if the bucket is its own.
    pub(super) limit: AdHocLimit,
    pub(super) cost: Cost,
    /// Its limit in the store, if the bucket is there.
    pub(super) shared: Option<LimitRef>,
}

impl JointAdHoc<'_> {
    /// The charge of some cost on a bucket that is in the store.
    pub(super) fn shared_charge(&self, cost: Cost) -> Option<Charge<'_>> {
        Some(Charge::new(self.shared.as_ref()?, self.key, cost))
    }
}

/// What ad-hoc buckets say.
type Said = SmallVec<[LimitDecision; 2]>;

/// The buckets of all requests, each once.
#[derive(Default)]
pub(super) struct JointCharges<'p> {
    pub(super) charges: Charges<'p>,
    /// Whose charges they are.
    subjects: SmallVec<[ChargedRule; 8]>,
    /// A bucket is its key and the number that its limit has in the store,
    /// whatever the trust.
    buckets: Places<(u32, &'p [u8])>,
    /// Ad-hoc buckets, in the store or here.
    pub(super) ad_hoc: SmallVec<[JointAdHoc<'p>; 2]>,
    /// Which they are: the numbers as they were brought.
    ad_hoc_buckets: Places<(AdHocLimit, &'p [u8])>,
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
pub(super) struct JointOutcome {
    pub(super) allowed: bool,
    pub(super) policy: Verdict,
    pub(super) ad_hoc: Said,
    /// Where the store could not tell: the rules that deny since they are closed.
    pub(super) without_store: Option<Closed>,
}

impl<'p> JointCharges<'p> {
    /// Adds a charge; which bucket it is on. The largest cost is charged, at the
    /// trust of whoever brings it.
    pub(super) fn add(&mut self, limit: u32, subject: ChargedRule, charge: Charge<'p>) -> usize {
        if let Some(place) = self.buckets.find_or_add((limit, charge.key)) {
            if charge.cost > self.charges[place].cost {
                (self.charges[place], self.subjects[place]) = (charge, subject);
            }
            return place;
        }
        self.charges.push(charge);
        self.subjects.push(subject);
        self.charges.len() - 1
    }

    /// The same for an ad-hoc bucket, and the numbers that it was brought with.
    pub(super) fn add_ad_hoc(&mut self, named: (AdHocLimit, &'p [u8]), bucket: JointAdHoc<'p>) -> usize {
        if let Some(place) = self.ad_hoc_buckets.find_or_add(named) {
            self.ad_hoc[place].cost = self.ad_hoc[place].cost.max(bucket.cost);
            return place;
        }
        self.ad_hoc.push(bucket);
        self.ad_hoc.len() - 1
    }

    /// What the store is asked: those of the policy, then the others that it keeps.
    fn in_store(&self) -> Charges<'_> {
        let ad_hoc = self.ad_hoc.iter().filter_map(|bucket| bucket.shared_charge(bucket.cost));
        self.charges.iter().copied().chain(ad_hoc).collect()
    }

    /// The buckets that this node keeps.
    fn here(&self) -> impl Iterator<Item = &JointAdHoc<'p>> {
        self.ad_hoc.iter().filter(|bucket| bucket.shared.is_none())
    }

    /// What all of them said, in their order, of what the store said and what was said here.
    fn outcome(&self, allowed: bool, mut policy: Verdict, here: Said) -> JointOutcome {
        let in_store: Said = policy.decisions.drain(self.charges.len()..).collect();
        let (mut in_store, mut here) = (in_store.into_iter(), here.into_iter());
        let say = |bucket: &JointAdHoc<'_>| {
            let said = if bucket.shared.is_some() { in_store.next() } else { here.next() };
            said.expect("each of them was asked")
        };
        let ad_hoc = self.ad_hoc.iter().map(say).collect();
        JointOutcome { allowed, policy, ad_hoc, without_store: None }
    }

    fn subject(&self) -> impl Fn(usize) -> ChargedRule + '_ {
        |place| self.subjects[place]
    }
}

impl<S: Store, C: Clock> Limiter<S, C> {
    /// All or nothing. `admits` tells whether what comes before limits lets all of
    /// them pass; otherwise it is only looked at.
    ///
    /// One call charges all that the store keeps. What this node keeps is looked at
    /// first and taken last. Should one of those deny after all, because somebody
    /// else was faster, everything is handed back.
    pub(super) async fn charge_together(
        &self,
        set: &Active,
        together: &mut JointCharges<'_>,
        admits: bool,
        now: Nanos,
    ) -> Result<JointOutcome, AdHocError> {
        let mut here = look(self.own_ad_hoc(), together.here(), now)?;
        let here_admits = admits && here.iter().all(LimitDecision::is_allowed);
        let intent = if here_admits { Intent::Take } else { Intent::Peek };
        let answer = self.ask(intent, &together.in_store(), now).await;
        let Ok(policy) = answer else {
            return self.charge_without(set, together, admits, now);
        };
        if !here_admits || !policy.allowed {
            return Ok(together.outcome(false, policy, here));
        }
        let Err((place, denied)) = take_all(self.own_ad_hoc(), together.here(), &mut here, now) else {
            return Ok(together.outcome(true, policy, here));
        };
        let in_store = together.in_store();
        let taken = in_store.iter().zip(&policy.decisions).filter(|(_, said)| said.is_allowed());
        let taken: Charges<'_> = taken.map(|(charge, _)| *charge).collect();
        self.store.hand_back(&taken, policy.at);
        here = look(self.own_ad_hoc(), together.here(), now)?;
        here[place] = denied?;
        let looked = self.ask(Intent::Peek, &in_store, now).await;
        Ok(together.outcome(false, looked.unwrap_or(policy), here))
    }

    /// The same without the store. The ad-hoc buckets are from now on this
    /// node's own, with its part of their numbers.
    fn charge_without(
        &self,
        set: &Active,
        together: &mut JointCharges<'_>,
        admits: bool,
        now: Nanos,
    ) -> Result<JointOutcome, AdHocError> {
        for bucket in &mut together.ad_hoc {
            // Those that the store does not keep do not miss it.
            if bucket.shared.take().is_some() {
                bucket.limit = self.own_part(bucket.limit);
                self.fallback.count(OnStoreError::Local);
            }
        }
        let mut ad_hoc = look(self.own_ad_hoc(), together.here(), now)?;
        let admits = admits && ad_hoc.iter().all(LimitDecision::is_allowed);
        let intent = if admits { Intent::Take } else { Intent::Peek };
        let fall_back =
            |intent, charges: &[Charge<'_>]| self.fall_back(set, together.subject(), charges, intent, now);
        let without = fall_back(intent, &together.charges);
        let outcome = |allowed, policy, ad_hoc| {
            Ok(JointOutcome { allowed, policy, ad_hoc, without_store: Some(without.closed.clone()) })
        };
        if !admits || !without.verdict.allowed {
            return outcome(false, without.verdict, ad_hoc);
        }
        let Err((place, denied)) = take_all(self.own_ad_hoc(), together.here(), &mut ad_hoc, now) else {
            return outcome(true, without.verdict, ad_hoc);
        };
        let taken = without.verdict.decisions.iter().map(LimitDecision::is_allowed);
        let taken: SmallVec<[usize; 8]> =
            taken.enumerate().filter_map(|(i, taken)| taken.then_some(i)).collect();
        let charges: Charges<'_> = taken.iter().map(|&i| together.charges[i]).collect();
        self.fall_back(set, |i| together.subjects[taken[i]], &charges, Intent::HandBack, now);
        ad_hoc = look(self.own_ad_hoc(), together.here(), now)?;
        ad_hoc[place] = denied?;
        let looked = fall_back(Intent::Peek, &together.charges);
        outcome(false, looked.verdict, ad_hoc)
    }
}

/// What buckets that this node keeps would say.
fn look<'a, 'p: 'a, C: Clock>(
    own: Result<&AdHocBuckets<C>, AdHocError>,
    buckets: impl Iterator<Item = &'a JointAdHoc<'p>>,
    now: Nanos,
) -> Result<Said, AdHocError> {
    buckets.map(|bucket| own?.peek(bucket.key, bucket.limit, bucket.cost, now)).collect()
}

/// Takes from all of them, or from none: then, which of them denied.
fn take_all<'a, 'p: 'a, C: Clock>(
    own: Result<&AdHocBuckets<C>, AdHocError>,
    buckets: impl Iterator<Item = &'a JointAdHoc<'p>>,
    said: &mut Said,
    now: Nanos,
) -> Result<(), (usize, Result<LimitDecision, AdHocError>)> {
    let buckets: SmallVec<[&JointAdHoc<'_>; 2]> = buckets.collect();
    for (place, bucket) in buckets.iter().enumerate() {
        let own = own.map_err(|error| (place, Err(error)))?;
        match own.take_uncounted(bucket.key, bucket.limit, bucket.cost, now) {
            Ok(decision) if decision.is_allowed() => said[place] = decision,
            denied => {
                let before = buckets[..place].iter().rev();
                before.for_each(|taken| own.hand_back(taken.key, taken.limit, taken.cost, now));
                return Err((place, denied));
            }
        }
    }
    Ok(())
}
