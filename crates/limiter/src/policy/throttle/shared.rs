//! Buckets without a policy on a store that nodes share.
//!
//! A store that is not shared keeps none of them: then they are this node's own. While a shared one fails, they go by
//! this node's part of their numbers. So do, at all times, those whose numbers the shared one cannot count; that is no
//! failure.

use tidegate_core::{Algorithm, Cost, Decision, Limit, Nanos, Quota};
use tidegate_policy::Numbers;
use tidegate_policy::document::OnStoreError;

use super::super::limiter::Limiter;
use super::{Throttle, ThrottleError, ThrottleLimit};
use crate::{Charge, Clock, Intent, LimitRef, Store};

impl ThrottleLimit {
    /// The limit that the numbers make.
    fn limit(self) -> Result<Limit, ThrottleError> {
        Ok(Quota::new(self.rate, self.window, self.capacity)?.into())
    }

    /// The part of one among `nodes`. A rate too slow to be divided stays whole.
    #[must_use]
    fn share(self, nodes: u32) -> ThrottleLimit {
        let ThrottleLimit { capacity, rate, window } = self;
        let part = Numbers { rate, window, capacity }.divided(nodes, Algorithm::TokenBucket);
        let divided = ThrottleLimit { capacity: part.capacity, rate: part.rate, window: part.window };
        match divided.limit() {
            Ok(_) => divided,
            Err(_) => ThrottleLimit { capacity: part.capacity, ..self },
        }
    }
}

/// What a shared store says to a bucket without a policy.
enum Shared {
    Told(Decision),
    /// It cannot count these numbers.
    NotKept,
    Failed,
}

impl<S: Store, C: Clock> Limiter<S, C> {
    /// Takes `cost` from the bucket of `key`, if it holds that: from the store's where nodes share it, else from one
    /// of `throttle`'s. While a shared store fails, or where it cannot count such numbers, the bucket is one of
    /// `throttle`'s with this node's part of the numbers.
    ///
    /// # Errors
    /// When the key is empty, there is no such limit, or this node has too many different ones at once.
    pub async fn throttle_async(
        &self,
        throttle: &Throttle<C>,
        key: &[u8],
        limit: ThrottleLimit,
        cost: Cost,
        now: Nanos,
    ) -> Result<Decision, ThrottleError> {
        if !self.is_shared {
            return throttle.take(key, limit, cost, now);
        }
        match self.ask_shared(key, limit, cost, (Intent::Take, now)).await? {
            Shared::Told(decision) => {
                throttle.count(decision.is_allowed());
                return Ok(decision);
            }
            Shared::Failed => self.fallback.count(OnStoreError::Local),
            Shared::NotKept => {}
        }
        throttle.take(key, self.own_part(limit), cost, now)
    }

    /// What [`Limiter::throttle_async`] would say, with nothing taken or counted.
    ///
    /// # Errors
    /// As for [`Limiter::throttle_async`].
    pub async fn peek_throttled_async(
        &self,
        throttle: &Throttle<C>,
        key: &[u8],
        limit: ThrottleLimit,
        cost: Cost,
        now: Nanos,
    ) -> Result<Decision, ThrottleError> {
        if !self.is_shared {
            return throttle.peek(key, limit, cost, now);
        }
        match self.ask_shared(key, limit, cost, (Intent::Peek, now)).await? {
            Shared::Told(decision) => Ok(decision),
            Shared::Failed | Shared::NotKept => throttle.peek(key, self.own_part(limit), cost, now),
        }
    }

    /// Gives `cost` back to the bucket of `key`, never above the capacity, and tells what it holds then.
    ///
    /// # Errors
    /// As for [`Limiter::throttle_async`].
    pub async fn refund_throttled_async(
        &self,
        throttle: &Throttle<C>,
        key: &[u8],
        limit: ThrottleLimit,
        cost: Cost,
        now: Nanos,
    ) -> Result<Decision, ThrottleError> {
        if !self.is_shared {
            return throttle.refund(key, limit, cost, now);
        }
        match self.ask_shared(key, limit, cost, (Intent::Refund, now)).await? {
            Shared::Told(decision) => return Ok(decision),
            Shared::Failed => self.fallback.count(OnStoreError::Local),
            Shared::NotKept => {}
        }
        throttle.refund(key, self.own_part(limit), cost, now)
    }

    /// The limit in the store, where it keeps such.
    pub(in crate::policy) fn shared_limit(
        &self,
        key: &[u8],
        limit: ThrottleLimit,
    ) -> Result<Option<LimitRef>, ThrottleError> {
        if key.is_empty() {
            return Err(ThrottleError::EmptyKey);
        }
        Ok(self.store.ad_hoc(limit.limit()?))
    }

    /// This node's part of the numbers.
    pub(in crate::policy) fn own_part(&self, limit: ThrottleLimit) -> ThrottleLimit {
        limit.share(self.nodes())
    }

    /// What the store says.
    async fn ask_shared(
        &self,
        key: &[u8],
        limit: ThrottleLimit,
        cost: Cost,
        (intent, now): (Intent, Nanos),
    ) -> Result<Shared, ThrottleError> {
        let Some(shared) = self.shared_limit(key, limit)? else { return Ok(Shared::NotKept) };
        let verdict = self.store.charge(intent, &[Charge::new(&shared, key, cost)], now).await;
        Ok(verdict.map_or(Shared::Failed, |verdict| Shared::Told(verdict.decisions[0])))
    }
}
