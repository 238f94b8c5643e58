//! Ad-hoc buckets of a limiter: in its store where nodes share it, otherwise in memory of this node.
//!
//! While a shared store fails, they go by this node's part of their numbers. So do, at all times, those whose numbers
//! the shared one cannot count; that is no failure.

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
    /// The limit that the numbers make.
    fn limit(self) -> Result<Limit, AdHocError> {
        Ok(Quota::new(self.rate, self.window, self.capacity)?.into())
    }

    /// The part of one among `nodes`. A rate too slow to be divided stays whole.
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

/// What is asked of an ad-hoc bucket.
#[derive(Clone, Copy, Debug)]
pub struct AdHocRequest<'a> {
    /// Whom the bucket is for; not empty.
    pub key: &'a [u8],
    /// Its numbers.
    pub limit: AdHocLimit,
    /// What to take, or to give back. More than any bucket can hold is never admitted.
    pub cost: u64,
}

/// What an ad-hoc bucket says.
#[derive(Clone, Copy, Debug)]
pub struct AdHocAnswer {
    /// The bucket's own decision.
    pub decision: LimitDecision,
    /// When it was asked.
    pub at: Nanos,
    /// Has the kill switch admitted it, whatever the bucket says?
    pub by_kill_switch: bool,
}

type Answered<'s> = NowOrLater<'s, Result<AdHocAnswer, AdHocError>>;

impl<S: Store, C: Clock> Limiter<S, C> {
    /// With room for ad-hoc buckets of this node: all of them, or, where nodes share a store, those that it cannot keep.
    ///
    /// # Errors
    /// When there is not the memory.
    pub fn with_ad_hoc(mut self, options: MemoryOptions) -> Result<Self, MemoryError>
    where
        C: Clone,
    {
        self.ad_hoc = Some(AdHocBuckets::try_new(options, self.clock.clone())?);
        Ok(self)
    }

    /// Takes from an ad-hoc bucket, if it holds the cost. Where the kill switch admits everything, nothing is taken.
    ///
    /// The bucket is in the store where nodes share it. While that fails, or where it cannot count such numbers, it is
    /// one of this node's own, with this node's part of the numbers.
    ///
    /// # Errors
    /// When the key is empty, there is no such limit, or this node has too many different ones at once.
    #[inline]
    pub fn check_ad_hoc(&self, asked: &AdHocRequest<'_>, now: Nanos) -> Answered<'_> {
        if self.kill_switch() {
            return self.charge_ad_hoc(Intent::Take, asked, Cost::ZERO, now).map(move |said| {
                said.map(|decision| AdHocAnswer { decision, at: now, by_kill_switch: true })
            });
        }
        match u32::try_from(asked.cost) {
            Ok(cost) => self.charge_ad_hoc(Intent::Take, asked, Cost::new(cost), now).map(answered(now)),
            Err(_) => self.refuse_beyond_all(asked, now),
        }
    }

    /// What [`Limiter::check_ad_hoc`] would say, with nothing taken or counted.
    ///
    /// # Errors
    /// As for [`Limiter::check_ad_hoc`].
    pub fn peek_ad_hoc(&self, asked: &AdHocRequest<'_>, now: Nanos) -> Answered<'_> {
        self.charge_ad_hoc(Intent::Peek, asked, largest(asked.cost), now).map(answered(now))
    }

    /// Gives tokens back to an ad-hoc bucket, never above its capacity, and tells what it holds then.
    ///
    /// # Errors
    /// As for [`Limiter::check_ad_hoc`].
    pub fn refund_ad_hoc(&self, asked: &AdHocRequest<'_>, now: Nanos) -> Answered<'_> {
        self.charge_ad_hoc(Intent::Refund, asked, largest(asked.cost), now).map(answered(now))
    }

    /// A decision with all that can be told of it; its limit is called `throttle`.
    ///
    /// # Panics
    /// Where the limiter has no room for ad-hoc buckets, and so cannot have given such an answer.
    pub fn tell_ad_hoc(&self, answer: &AdHocAnswer) -> Decision {
        let own = self.ad_hoc.as_ref().expect("one that keeps ad-hoc buckets has answered");
        match answer.by_kill_switch {
            true => own.told_under_kill_switch(answer.decision, answer.at),
            false => own.told(answer.decision, answer.at),
        }
    }

    /// How often ad-hoc buckets have admitted and denied.
    pub fn ad_hoc_counters(&self) -> RuleSnapshot {
        self.ad_hoc.as_ref().map(AdHocBuckets::counters).unwrap_or_default()
    }

    /// How full the memory of this node's own ad-hoc buckets is; `None` where there is none.
    pub fn ad_hoc_stats(&self) -> Option<MemoryStats> {
        self.ad_hoc.as_ref().map(AdHocBuckets::stats)
    }

    /// The ad-hoc buckets of this node.
    pub(in crate::engine) fn own_ad_hoc(&self) -> Result<&AdHocBuckets<C>, AdHocError> {
        self.ad_hoc.as_ref().ok_or(AdHocError::NotKept)
    }

    /// A cost above all that a bucket can hold: where the bucket stands, and that it never will.
    #[cold]
    fn refuse_beyond_all(&self, asked: &AdHocRequest<'_>, now: Nanos) -> Answered<'_> {
        let never = move |said: Result<LimitDecision, AdHocError>| {
            let decision = LimitDecision { outcome: Outcome::Never, ..said? };
            self.own_ad_hoc()?.count(false);
            Ok(AdHocAnswer { decision, at: now, by_kill_switch: false })
        };
        self.charge_ad_hoc(Intent::Peek, asked, Cost::ZERO, now).map(never)
    }

    #[inline]
    fn charge_ad_hoc(
        &self,
        intent: Intent,
        asked: &AdHocRequest<'_>,
        cost: Cost,
        now: Nanos,
    ) -> NowOrLater<'_, Result<LimitDecision, AdHocError>> {
        let AdHocRequest { key, limit, .. } = *asked;
        let own = match self.own_ad_hoc() {
            Ok(own) => own,
            Err(error) => return NowOrLater::Now(Err(error)),
        };
        if !self.is_shared {
            return NowOrLater::Now(own.act(intent, key, limit, cost, now));
        }
        let shared = match self.shared_limit(key, limit) {
            Ok(Some(shared)) => shared,
            Ok(None) => return NowOrLater::Now(own.act(intent, key, self.own_part(limit), cost, now)),
            Err(error) => return NowOrLater::Now(Err(error)),
        };
        let conclude = move |key: &[u8], said: Result<Verdict, S::Error>| match said {
            Ok(verdict) => {
                let decision = verdict.decisions[0];
                if intent == Intent::Take {
                    own.count(decision.is_allowed());
                }
                Ok(decision)
            }
            Err(_) => {
                if intent != Intent::Peek {
                    self.fallback.count(OnStoreError::Local);
                }
                own.act(intent, key, self.own_part(limit), cost, now)
            }
        };
        match self.store.charge(intent, &[Charge::new(&shared, key, cost)], now) {
            NowOrLater::Now(said) => NowOrLater::Now(conclude(key, said)),
            NowOrLater::Later(later) => {
                let key: SmallVec<[u8; 32]> = SmallVec::from_slice(key);
                NowOrLater::later(async move { conclude(&key, later.await) })
            }
        }
    }

    /// The limit in the store, where it keeps such.
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

    /// This node's part of the numbers.
    pub(in crate::engine) fn own_part(&self, limit: AdHocLimit) -> AdHocLimit {
        limit.share(self.nodes())
    }
}

fn answered(
    at: Nanos,
) -> impl FnOnce(Result<LimitDecision, AdHocError>) -> Result<AdHocAnswer, AdHocError> + Send {
    move |said| said.map(|decision| AdHocAnswer { decision, at, by_kill_switch: false })
}

/// The cost itself, or the largest that there is.
fn largest(cost: u64) -> Cost {
    Cost::new(u32::try_from(cost).unwrap_or(u32::MAX))
}
