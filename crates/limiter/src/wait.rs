//! Waiting for tokens instead of being denied (feature `async`).

use std::hash::Hash;
use std::time::Duration;

use tidegate_core::{Cost, LimitDecision, RetryAfter};

use crate::{Bucket, Keyed, Sleep};

impl<C: Sleep> Bucket<C> {
    /// Takes `cost`, waiting for it if necessary, but no longer than `timeout`.
    ///
    /// Nothing is charged while waiting: if other tasks are faster, the wait goes on, within the same timeout.
    /// Dropping the future takes nothing.
    ///
    /// ```
    /// # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
    /// use std::time::Duration;
    /// use tidegate::{Bucket, Cost, Quota};
    ///
    /// let bucket = Bucket::new(Quota::per_second(100)?.with_capacity(1)?);
    /// assert!(bucket.take(Cost::ONE).is_allowed());
    /// let waited = bucket.take_within(Cost::ONE, Duration::from_secs(1)).await;
    /// assert!(waited.is_ok());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// The denial, as soon as it is clear that `timeout` is too short: at once if the wait is longer or the
    /// cost is above the capacity.
    pub async fn take_within(&self, cost: Cost, timeout: Duration) -> Result<LimitDecision, LimitDecision> {
        take_within(self.clock(), timeout, || self.take(cost)).await
    }
}

impl<K: Hash + ?Sized + Sync, C: Sleep> Keyed<K, C> {
    /// Takes `cost` for a key, waiting for it if necessary, but no longer than `timeout`; see
    /// [`Bucket::take_within`].
    ///
    /// # Errors
    /// The denial, as soon as it is clear that `timeout` is too short.
    pub async fn take_within(
        &self,
        key: &K,
        cost: Cost,
        timeout: Duration,
    ) -> Result<LimitDecision, LimitDecision> {
        take_within(self.clock(), timeout, || self.take(key, cost)).await
    }
}

async fn take_within<C: Sleep>(
    clock: &C,
    timeout: Duration,
    take: impl Fn() -> LimitDecision,
) -> Result<LimitDecision, LimitDecision> {
    let deadline = clock.now().saturating_add(timeout.into());
    loop {
        let decision = take();
        if decision.is_allowed() {
            return Ok(decision);
        }
        match decision.retry_after() {
            RetryAfter::Wait(wait) if clock.now().saturating_add(wait.into()) <= deadline => {
                clock.sleep(wait.into()).await;
            }
            _ => return Err(decision),
        }
    }
}
