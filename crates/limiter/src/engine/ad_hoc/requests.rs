//! Ad hoc buckets of a limiter: in its store if that is shared between nodes, otherwise in this node's memory.
//!
//! While a shared store fails, this node's share of the numbers applies, in its own memory. That also holds, at
//! all times, for numbers that the shared store cannot count; that is not a failure.

use smallvec::SmallVec;
use tidegate_core::{Algorithm, Cost, Limit, LimitDecision, Nanos, Outcome, Quota};
use tidegate_policy::Numbers;
use tidegate_policy::document::OnStoreError;

use super::super::counting::counters::RuleSnapshot;
use super::super::decision::Decision;
use super::super::limiter::Limiter;
use super::{AdHocBuckets, AdHocError, AdHocLimit};
use crate::{
    Charge, Clock, Intent, LimitRef, MemoryError, MemoryOptions, MemoryStats, NowOrLater, Store, Verdict,
};

impl AdHocLimit {
    /// The limit with these numbers.
    fn limit(self) -> Result<Limit, AdHocError> {
        Ok(Quota::new(self.rate, self.window, self.capacity)?.into())
    }

    /// The share of one of `nodes` nodes. A rate that is too slow to be divided is not divided.
    #[must_use]
    fn share(self, nodes: u32) -> AdHocLimit {
        let AdHocLimit { capacity, rate, window } = self;
        let part = Numbers { rate, window, capacity }.divided(nodes, Algorithm::TokenBucket);
        let divided = AdHocLimit { capacity: part.capacity, rate: part.rate, window: part.window };
        match divided.limit() {
            Ok(_) => divided,
            Err(_) => AdHocLimit { capacity: part.capacity, ..self },
        }
    }
}

/// A request to an ad hoc bucket.
#[derive(Clone, Copy, Debug)]
pub struct AdHocRequest<'a> {
    /// The key of the bucket, which identifies the client; not empty.
    pub key: &'a [u8],
    /// Its numbers.
    pub limit: AdHocLimit,
    /// The tokens to take or to give back. More than any bucket can hold is never admitted.
    pub cost: u64,
}

/// The response of an ad hoc bucket.
#[derive(Clone, Copy, Debug)]
#[must_use = "a cost that was not admitted must not be spent"]
pub struct AdHocAnswer {
    /// The bucket's own decision.
    pub decision: LimitDecision,
    /// When the decision was made.
    pub at: Nanos,
    /// Was the request admitted by the kill switch, whatever the bucket holds?
    pub by_kill_switch: bool,
}

type AdHocResult<'s> = NowOrLater<'s, Result<AdHocAnswer, AdHocError>>;

impl<S: Store, C: Clock> Limiter<S, C> {
    /// Adds memory for ad hoc buckets of this node: for all of them, or, with a shared store, for those that it
    /// cannot count.
    ///
    /// # Errors
    /// The memory cannot be allocated.
    pub fn with_ad_hoc(mut self, options: MemoryOptions) -> Result<Self, MemoryError>
    where
        C: Clone,
    {
        let mut ad_hoc = AdHocBuckets::new(options, self.clock.clone())?;
        ad_hoc.observer.clone_from(&self.observer);
        self.ad_hoc = Some(ad_hoc);
        Ok(self)
    }

    /// Takes from an ad hoc bucket, if it holds the cost. While the kill switch is on, nothing is taken.
    ///
    /// With a shared store the bucket is in that store. While the store fails, or if it cannot count these
    /// numbers, the bucket is one of this node's own, with this node's share of the numbers.
    ///
    /// # Errors
    /// The key is empty, the numbers are invalid, or this node has too many different ad hoc limits at once.
    #[inline]
    pub fn check_ad_hoc(&self, request: &AdHocRequest<'_>, now: Nanos) -> AdHocResult<'_> {
        if self.kill_switch() {
            return self.charge_ad_hoc(Intent::Take, request, Cost::ZERO, now).map(move |result| {
                result.map(|decision| AdHocAnswer { decision, at: now, by_kill_switch: true })
            });
        }
        match u32::try_from(request.cost) {
            Ok(cost) => self.charge_ad_hoc(Intent::Take, request, Cost::new(cost), now).map(to_answer(now)),
            Err(_) => self.deny_oversized(request, now),
        }
    }

    /// The answer that [`Limiter::check_ad_hoc`] would return, without taking or counting anything.
    ///
    /// # Errors
    /// As for [`Limiter::check_ad_hoc`].
    pub fn peek_ad_hoc(&self, request: &AdHocRequest<'_>, now: Nanos) -> AdHocResult<'_> {
        self.charge_ad_hoc(Intent::Peek, request, saturated(request.cost), now).map(to_answer(now))
    }

    /// Gives tokens back to an ad hoc bucket, never above its capacity, and returns its state after that.
    ///
    /// # Errors
    /// As for [`Limiter::check_ad_hoc`].
    pub fn refund_ad_hoc(&self, request: &AdHocRequest<'_>, now: Nanos) -> AdHocResult<'_> {
        self.charge_ad_hoc(Intent::Refund, request, saturated(request.cost), now).map(to_answer(now))
    }

    /// The full [`Decision`] for an answer, for headers and bodies; its limit is called `throttle`.
    ///
    /// # Panics
    /// The limiter has no memory for ad hoc buckets, so it cannot have given this answer.
    pub fn ad_hoc_decision(&self, answer: &AdHocAnswer) -> Decision {
        let own = self.ad_hoc.as_ref().expect("only a limiter with ad hoc buckets gives such answers");
        match answer.by_kill_switch {
            true => own.decision_under_kill_switch(answer.decision, answer.at),
            false => own.to_decision(answer.decision, answer.at),
        }
    }

    /// How many requests ad hoc buckets have admitted and denied.
    pub fn ad_hoc_counters(&self) -> RuleSnapshot {
        self.ad_hoc.as_ref().map(AdHocBuckets::counters).unwrap_or_default()
    }

    /// How full this node's memory for ad hoc buckets is; `None` if there is none.
    pub fn ad_hoc_stats(&self) -> Option<MemoryStats> {
        self.ad_hoc.as_ref().map(AdHocBuckets::stats)
    }

    /// The ad hoc buckets in this node's memory.
    pub(in crate::engine) fn own_ad_hoc(&self) -> Result<&AdHocBuckets<C>, AdHocError> {
        self.ad_hoc.as_ref().ok_or(AdHocError::NotKept)
    }

    /// Denies a cost above what any bucket can hold, and returns the state of the bucket.
    #[cold]
    fn deny_oversized(&self, request: &AdHocRequest<'_>, now: Nanos) -> AdHocResult<'_> {
        let key: SmallVec<[u8; 32]> = SmallVec::from_slice(request.key);
        let never = move |result: Result<LimitDecision, AdHocError>| {
            let decision = LimitDecision { outcome: Outcome::Never, ..result? };
            self.own_ad_hoc()?.count(&key, &decision, now);
            Ok(AdHocAnswer { decision, at: now, by_kill_switch: false })
        };
        self.charge_ad_hoc(Intent::Peek, request, Cost::ZERO, now).map(never)
    }

    #[inline]
    fn charge_ad_hoc(
        &self,
        intent: Intent,
        request: &AdHocRequest<'_>,
        cost: Cost,
        now: Nanos,
    ) -> NowOrLater<'_, Result<LimitDecision, AdHocError>> {
        let AdHocRequest { key, limit, .. } = *request;
        let own = match self.own_ad_hoc() {
            Ok(own) => own,
            Err(error) => return NowOrLater::Now(Err(error)),
        };
        if !self.is_shared {
            return NowOrLater::Now(own.apply(intent, key, limit, cost, now));
        }
        let shared = match self.shared_limit(key, limit) {
            Ok(Some(shared)) => shared,
            Ok(None) => return NowOrLater::Now(own.apply(intent, key, self.node_share_of(limit), cost, now)),
            Err(error) => return NowOrLater::Now(Err(error)),
        };
        let conclude = move |key: &[u8], result: Result<Verdict, S::Error>| match result {
            Ok(verdict) => {
                let decision = verdict.decisions[0];
                if intent == Intent::Take {
                    own.count(key, &decision, now);
                }
                Ok(decision)
            }
            Err(_) => {
                if intent != Intent::Peek {
                    self.fallback.count(OnStoreError::Local);
                }
                own.apply(intent, key, self.node_share_of(limit), cost, now)
            }
        };
        match self.store.charge(intent, &[Charge::new(&shared, key, cost)], now) {
            NowOrLater::Now(result) => NowOrLater::Now(conclude(key, result)),
            NowOrLater::Later(later) => {
                let key: SmallVec<[u8; 32]> = SmallVec::from_slice(key);
                NowOrLater::later(async move { conclude(&key, later.await) })
            }
        }
    }

    /// The limit in the shared store, if that supports ad hoc limits with these numbers.
    pub(in crate::engine) fn shared_limit(
        &self,
        key: &[u8],
        limit: AdHocLimit,
    ) -> Result<Option<LimitRef>, AdHocError> {
        if key.is_empty() {
            return Err(AdHocError::EmptyKey);
        }
        Ok(self.store.ad_hoc(limit.limit()?))
    }

    /// This node's share of the numbers.
    pub(in crate::engine) fn node_share_of(&self, limit: AdHocLimit) -> AdHocLimit {
        limit.share(self.nodes())
    }
}

fn to_answer(
    at: Nanos,
) -> impl FnOnce(Result<LimitDecision, AdHocError>) -> Result<AdHocAnswer, AdHocError> + Send {
    move |result| result.map(|decision| AdHocAnswer { decision, at, by_kill_switch: false })
}

/// The cost, at most [`Cost::MAX`].
fn saturated(cost: u64) -> Cost {
    Cost::new(u32::try_from(cost).unwrap_or(u32::MAX))
}
