//! The buckets of several requests, charged as one.

use std::collections::HashMap;
use std::hash::Hash;

use smallvec::SmallVec;
use tidegate_core::{Cost, Limit, LimitDecision, Meter, Nanos, Rate};
use tidegate_policy::document::OnStoreError;

use super::super::fallback::{ChargedRule, Closed};
use crate::engine::active::{Active, Charges};
use crate::engine::ad_hoc::{AdHocBuckets, AdHocError, AdHocLimit};
use crate::engine::limiter::Limiter;
use crate::{Charge, Clock, Intent, LimitRef, Store, Verdict};

/// Up to this many buckets are searched linearly.
const LINEAR_SEARCH_MAX: usize = 16;

/// An ad hoc bucket of a joint decision.
pub(super) struct JointAdHoc<'p> {
    pub(super) key: &'p [u8],
    /// The numbers that this node uses, if the bucket is its own.
    pub(super) limit: AdHocLimit,
    pub(super) cost: Cost,
    /// Its limit in the shared store, if the bucket is there.
    pub(super) shared: Option<LimitRef>,
}

impl JointAdHoc<'_> {
    /// A charge of `cost` on the bucket, if it is in the shared store.
    pub(super) fn shared_charge(&self, cost: Cost) -> Option<Charge<'_>> {
        Some(Charge::new(self.shared.as_ref()?, self.key, cost))
    }
}

/// By what variants of one limit are compared: how much can be taken at once, and how fast it comes back.
fn size(limit: &LimitRef) -> (u32, Option<Rate>) {
    let rate = match limit.limit() {
        Limit::Meter(Meter::TokenBucket(quota)) => Some(quota.rate()),
        Limit::Meter(Meter::SlidingWindow(_) | Meter::FixedWindow(_)) | Limit::Log(_) => None,
    };
    (limit.limit().capacity(), rate)
}

/// The decisions of ad hoc buckets.
type AdHocDecisions = SmallVec<[LimitDecision; 2]>;

/// The buckets of all requests, each once.
#[derive(Default)]
pub(super) struct JointCharges<'p> {
    pub(super) charges: Charges<'p>,
    /// The rule and the variant of each charge.
    subjects: SmallVec<[ChargedRule; 8]>,
    /// Identifies a bucket by its key and the id of its limit in the store, whatever the variant.
    buckets: IndexedSet<(u64, &'p [u8])>,
    /// Ad hoc buckets, in the shared store or in this node's memory.
    pub(super) ad_hoc: SmallVec<[JointAdHoc<'p>; 2]>,
    /// Identifies them by key and numbers, as given in the request.
    ad_hoc_buckets: IndexedSet<(AdHocLimit, &'p [u8])>,
}

/// A set whose items have an index, in the order of insertion.
struct IndexedSet<T> {
    known: SmallVec<[T; 8]>,
    /// The index of each item, once there are too many for a linear search.
    index: HashMap<T, usize>,
}

impl<T> Default for IndexedSet<T> {
    fn default() -> IndexedSet<T> {
        IndexedSet { known: SmallVec::new(), index: HashMap::new() }
    }
}

impl<T: Copy + Eq + Hash> IndexedSet<T> {
    /// The index of an item, if it is known; otherwise adds it at the end.
    fn find_or_add(&mut self, item: T) -> Option<usize> {
        let found = if self.known.len() <= LINEAR_SEARCH_MAX {
            self.known.iter().position(|known| *known == item)
        } else {
            for index in self.index.len()..self.known.len() {
                self.index.insert(self.known[index], index);
            }
            self.index.get(&item).copied()
        };
        if found.is_none() {
            self.known.push(item);
        }
        found
    }
}

/// The decisions of all buckets. If it is not allowed, nothing was taken.
pub(super) struct JointOutcome {
    pub(super) allowed: bool,
    pub(super) policy: Verdict,
    pub(super) ad_hoc: AdHocDecisions,
    /// If the store failed: the rules that deny because they are closed.
    pub(super) without_store: Option<Closed>,
}

impl<'p> JointCharges<'p> {
    /// Adds a charge and returns the index of its bucket. If several requests charge one bucket, the largest
    /// cost is charged, in the variant of the request that has it; of equal costs in the smallest numbers, so that the order of
    /// the requests does not matter.
    pub(super) fn add(&mut self, limit: u64, subject: ChargedRule, charge: Charge<'p>) -> usize {
        if let Some(index) = self.buckets.find_or_add((limit, charge.key)) {
            let known = &self.charges[index];
            let is_smaller = || size(charge.limit) < size(known.limit);
            if charge.cost > known.cost || charge.cost == known.cost && is_smaller() {
                (self.charges[index], self.subjects[index]) = (charge, subject);
            }
            return index;
        }
        self.charges.push(charge);
        self.subjects.push(subject);
        self.charges.len() - 1
    }

    /// [`JointCharges::add`] for an ad hoc bucket; `named` has the numbers as given in the request.
    pub(super) fn add_ad_hoc(&mut self, named: (AdHocLimit, &'p [u8]), bucket: JointAdHoc<'p>) -> usize {
        if let Some(index) = self.ad_hoc_buckets.find_or_add(named) {
            self.ad_hoc[index].cost = self.ad_hoc[index].cost.max(bucket.cost);
            return index;
        }
        self.ad_hoc.push(bucket);
        self.ad_hoc.len() - 1
    }

    /// All charges for the store: those of the policy, then those on ad hoc buckets in the store.
    fn in_store(&self) -> Charges<'_> {
        let ad_hoc = self.ad_hoc.iter().filter_map(|bucket| bucket.shared_charge(bucket.cost));
        self.charges.iter().copied().chain(ad_hoc).collect()
    }

    /// The ad hoc buckets in this node's memory.
    fn local(&self) -> impl Iterator<Item = &JointAdHoc<'p>> {
        self.ad_hoc.iter().filter(|bucket| bucket.shared.is_none())
    }

    /// Combines the store's verdict and the decisions of local buckets, in the order of the buckets.
    fn outcome(&self, allowed: bool, mut policy: Verdict, local: AdHocDecisions) -> JointOutcome {
        let in_store: AdHocDecisions = policy.decisions.drain(self.charges.len()..).collect();
        let (mut in_store, mut local) = (in_store.into_iter(), local.into_iter());
        let decision = |bucket: &JointAdHoc<'_>| {
            let decision = if bucket.shared.is_some() { in_store.next() } else { local.next() };
            decision.expect("each bucket was charged")
        };
        let ad_hoc = self.ad_hoc.iter().map(decision).collect();
        JointOutcome { allowed, policy, ad_hoc, without_store: None }
    }

    fn subject(&self) -> impl Fn(usize) -> ChargedRule + '_ {
        |index| self.subjects[index]
    }
}

impl<S: Store, C: Clock> Limiter<S, C> {
    /// Charges all buckets or none. `admits` is whether the gates admit all requests; if not, the buckets are
    /// only peeked at.
    ///
    /// One call charges everything in the store. Buckets in this node's memory are peeked at first and charged
    /// last. If one of them denies after all, because another request was faster, everything is handed back.
    pub(super) async fn charge_together(
        &self,
        set: &Active,
        together: &mut JointCharges<'_>,
        admits: bool,
        now: Nanos,
    ) -> Result<JointOutcome, AdHocError> {
        let mut local = peek_all(self.own_ad_hoc(), together.local(), now)?;
        let local_admits = admits && local.iter().all(LimitDecision::is_allowed);
        let intent = if local_admits { Intent::Take } else { Intent::Peek };
        let result = self.charge_store(intent, &together.in_store(), now).await;
        let Ok(policy) = result else {
            return self.charge_without_store(set, together, admits, now);
        };
        if !local_admits || !policy.allowed {
            return Ok(together.outcome(false, policy, local));
        }
        let Err((index, denied)) = take_all(self.own_ad_hoc(), together.local(), &mut local, now) else {
            return Ok(together.outcome(true, policy, local));
        };
        let in_store = together.in_store();
        let taken = in_store.iter().zip(&policy.decisions).filter(|(_, decision)| decision.is_allowed());
        let taken: Charges<'_> = taken.map(|(charge, _)| *charge).collect();
        self.store.hand_back(&taken, policy.at);
        local = peek_all(self.own_ad_hoc(), together.local(), now)?;
        local[index] = denied?;
        let peeked = self.charge_store(Intent::Peek, &in_store, now).await;
        Ok(together.outcome(false, peeked.unwrap_or(policy), local))
    }

    /// [`Limiter::charge_together`] while the store fails. All ad hoc buckets are then local, with this node's
    /// share of their numbers.
    fn charge_without_store(
        &self,
        set: &Active,
        together: &mut JointCharges<'_>,
        admits: bool,
        now: Nanos,
    ) -> Result<JointOutcome, AdHocError> {
        for bucket in &mut together.ad_hoc {
            // Buckets that were local before are not counted as store failures.
            if bucket.shared.take().is_some() {
                bucket.limit = self.node_share_of(bucket.limit);
                self.fallback.count(OnStoreError::Local);
            }
        }
        let mut ad_hoc = peek_all(self.own_ad_hoc(), together.local(), now)?;
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
        let Err((index, denied)) = take_all(self.own_ad_hoc(), together.local(), &mut ad_hoc, now) else {
            return outcome(true, without.verdict, ad_hoc);
        };
        let taken = without.verdict.decisions.iter().map(LimitDecision::is_allowed);
        let taken: SmallVec<[usize; 8]> =
            taken.enumerate().filter_map(|(i, taken)| taken.then_some(i)).collect();
        let charges: Charges<'_> = taken.iter().map(|&i| together.charges[i]).collect();
        self.fall_back(set, |i| together.subjects[taken[i]], &charges, Intent::HandBack, now);
        ad_hoc = peek_all(self.own_ad_hoc(), together.local(), now)?;
        ad_hoc[index] = denied?;
        let peeked = fall_back(Intent::Peek, &together.charges);
        outcome(false, peeked.verdict, ad_hoc)
    }
}

/// The decisions that local buckets would make.
fn peek_all<'a, 'p: 'a, C: Clock>(
    own: Result<&AdHocBuckets<C>, AdHocError>,
    buckets: impl Iterator<Item = &'a JointAdHoc<'p>>,
    now: Nanos,
) -> Result<AdHocDecisions, AdHocError> {
    buckets.map(|bucket| own?.peek(bucket.key, bucket.limit, bucket.cost, now)).collect()
}

/// Takes from all local buckets or from none; the error has the index and the result of the one that denied.
fn take_all<'a, 'p: 'a, C: Clock>(
    own: Result<&AdHocBuckets<C>, AdHocError>,
    buckets: impl Iterator<Item = &'a JointAdHoc<'p>>,
    decisions: &mut AdHocDecisions,
    now: Nanos,
) -> Result<(), (usize, Result<LimitDecision, AdHocError>)> {
    let buckets: SmallVec<[&JointAdHoc<'_>; 2]> = buckets.collect();
    for (index, bucket) in buckets.iter().enumerate() {
        let own = own.map_err(|error| (index, Err(error)))?;
        match own.take_uncounted(bucket.key, bucket.limit, bucket.cost, now) {
            Ok(decision) if decision.is_allowed() => decisions[index] = decision,
            denied => {
                let before = buckets[..index].iter().rev();
                before.for_each(|taken| own.hand_back(taken.key, taken.limit, taken.cost, now));
                return Err((index, denied));
            }
        }
    }
    Ok(())
}
