//! Waiting for tokens instead of being denied (feature `async`).

use std::hash::Hash;

use tidegate_core::{Cost, Decision, Nanos};

use crate::{Bucket, Keyed, Sleep};

impl<C: Sleep> Bucket<C> {
    /// Takes `cost`, waiting for it if need be, but no longer than `patience`.
    ///
    /// Nothing is reserved while waiting: others may be faster, and then it waits
    /// on, within the same patience. Dropping the future takes nothing.
    ///
    /// ```
    /// # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
    /// use tidegate::{Bucket, Cost, Nanos, Quota};
    ///
    /// let bucket = Bucket::new(Quota::per_second(100)?.with_capacity(1)?);
    /// bucket.take(Cost::ONE);
    /// let waited = bucket.take_within(Cost::ONE, Nanos::SECOND).await;
    /// assert!(waited.is_ok());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// The denial, as soon as it is clear that `patience` will not be enough: at
    /// once, if the wait is longer or the cost is above the capacity.
    pub async fn take_within(&self, cost: Cost, patience: Nanos) -> Result<Decision, Decision> {
        take_within(self.clock(), patience, || self.take(cost)).await
    }
}

impl<K: Hash + ?Sized + Sync, C: Sleep> Keyed<K, C> {
    /// Takes `cost` for a key, waiting for it if need be, but no longer than
    /// `patience`; see [`Bucket::take_within`].
    ///
    /// # Errors
    /// The denial, as soon as it is clear that `patience` will not be enough.
    pub async fn take_within(&self, key: &K, cost: Cost, patience: Nanos) -> Result<Decision, Decision> {
        take_within(self.clock(), patience, || self.take(key, cost)).await
    }
}

async fn take_within<C: Sleep>(
    clock: &C,
    patience: Nanos,
    take: impl Fn() -> Decision,
) -> Result<Decision, Decision> {
    let deadline = clock.now().saturating_add(patience);
    loop {
        let decision = take();
        if decision.is_allowed() {
            return Ok(decision);
        }
        match decision.retry_after() {
            Some(wait) if clock.now().saturating_add(wait) <= deadline => clock.sleep(wait).await,
            _ => return Err(decision),
        }
    }
}
