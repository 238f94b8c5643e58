//! The same limits for each of many keys.

use std::fmt;
use std::hash::Hash;
use std::marker::PhantomData;
use std::sync::Arc;

use smallvec::SmallVec;
use tidegate_core::{Carry, Cost, Limit, LimitDecision};

use crate::memory::{HashedKey, MemoryVersion};
use crate::{
    Clock, Intent, LimitError, LimitRef, Memory, MemoryError, MemoryOptions, MemoryStats, MonotonicClock,
    Role, Store, Verdict,
};

/// The number of keys that [`Keyed::take_many`] fetches at a time.
const BATCH: usize = 16;

/// A separate limit for each key; keys are of any hashable type, such as users, addresses or pairs.
///
/// Keys are not stored, only a fingerprint under a secret. Memory is allocated once, in [`Keyed::new`].
/// [`Memory`] describes what happens when there are more keys than fit.
///
/// ```
/// use tidegate::{Cost, Keyed, Quota};
///
/// let per_user: Keyed<str> = Keyed::new(Quota::per_second(2)?)?;
/// assert!(per_user.take("alice", Cost::ONE).is_allowed());
/// assert!(per_user.take("alice", Cost::ONE).is_allowed());
/// assert!(!per_user.take("alice", Cost::ONE).is_allowed());
/// assert!(per_user.take("bob", Cost::ONE).is_allowed(), "bob has a bucket of his own");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Keyed<K: ?Sized, C = MonotonicClock> {
    memory: Memory<C>,
    limits: SmallVec<[KeyedLimit; 1]>,
    key: PhantomData<fn(&K)>,
}

/// A limit with its version, which is looked up only once.
struct KeyedLimit {
    version: Arc<MemoryVersion>,
    /// Keeps the number of the version.
    _limit: LimitRef,
}

impl<K: Hash + ?Sized> Keyed<K> {
    /// One limit for each key, up to a million keys, on the monotonic clock.
    ///
    /// # Errors
    /// The memory for that many keys cannot be allocated.
    pub fn new(limit: impl Into<Limit>) -> Result<Keyed<K>, MemoryError> {
        Keyed::with(limit, MemoryOptions::default(), MonotonicClock::new())
    }
}

impl<K: Hash + ?Sized, C: Clock> Keyed<K, C> {
    /// One limit for each key, with the given size and clock.
    ///
    /// # Errors
    /// The memory for that many keys cannot be allocated.
    pub fn with(
        limit: impl Into<Limit>,
        options: MemoryOptions,
        clock: C,
    ) -> Result<Keyed<K, C>, MemoryError> {
        let memory = Memory::with_clock(options, clock)?;
        let empty = Keyed { memory, limits: SmallVec::new(), key: PhantomData };
        Ok(empty.and(limit).expect("a new store can hold one limit"))
    }

    /// Adds another limit for each key: all must admit a request, or none is charged.
    ///
    /// ```
    /// use tidegate::{Cost, Keyed, Quota};
    ///
    /// let login: Keyed<str> = Keyed::new(Quota::per_second(1)?)?.and(Quota::per_hour(20)?)?;
    /// let verdict = login.take_all("alice", Cost::ONE);
    /// assert_eq!((verdict.allowed, verdict.decisions.len()), (true, 2));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// There are too many limits.
    pub fn and(mut self, limit: impl Into<Limit>) -> Result<Keyed<K, C>, LimitError> {
        let name = self.limits.len().to_string();
        self.limits.push(self.name(&name, limit.into(), Carry::Reset)?);
        Ok(self)
    }

    /// Replaces the numbers of the first limit; `carry` decides what happens to what keys have used.
    ///
    /// ```
    /// use tidegate::{Carry, Cost, Keyed, Quota};
    ///
    /// let mut per_user: Keyed<str> = Keyed::new(Quota::per_hour(10)?)?;
    /// assert!(per_user.take("alice", Cost::new(10)).is_allowed());
    /// per_user.edit(Quota::per_hour(20)?, Carry::AsIs)?;
    /// assert!(!per_user.take("alice", Cost::ONE).is_allowed(), "an edit grants no tokens");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// There were too many edits.
    pub fn edit(&mut self, limit: impl Into<Limit>, carry: Carry) -> Result<(), LimitError> {
        self.limits[0] = self.name("0", limit.into(), carry)?;
        Ok(())
    }

    /// Takes `cost` from the limits of a key if they hold it; otherwise changes nothing. If there are several
    /// limits, the tightest decision is returned.
    #[inline]
    pub fn take(&self, key: &K, cost: Cost) -> LimitDecision {
        match self.limits.as_slice() {
            [limit] => {
                let key = HashedKey::new(&limit.version, key);
                // The prefetch of the slot runs while the clock is read.
                self.memory.prefetch(key);
                self.memory.take(key, cost, self.memory.clock().now())
            }
            _ => tightest(&self.take_all(key, cost)),
        }
    }

    /// Takes `cost` from all limits of a key or from none, and returns the decision of each.
    pub fn take_all(&self, key: &K, cost: Cost) -> Verdict {
        self.apply(Intent::Take, key, cost)
    }

    /// The decision that [`Keyed::take`] would return, without taking anything.
    pub fn peek(&self, key: &K, cost: Cost) -> LimitDecision {
        tightest(&self.apply(Intent::Peek, key, cost))
    }

    /// Gives `cost` back to all limits of a key, never above a capacity.
    pub fn refund(&self, key: &K, cost: Cost) {
        let _ = self.apply(Intent::Refund, key, cost);
    }

    /// Takes for many keys, each on its own, and passes the decisions to `each` in order. With many keys this
    /// is much faster than single calls, because their slots are prefetched in batches.
    ///
    /// ```
    /// use tidegate::{Cost, Keyed, Quota};
    ///
    /// let per_user: Keyed<str> = Keyed::new(Quota::per_second(1)?)?;
    /// let mut admitted = Vec::new();
    /// let keys = ["alice", "bob", "alice"];
    /// per_user.take_many(keys.map(|key| (key, Cost::ONE)), |decision| admitted.push(decision.is_allowed()));
    /// assert_eq!(admitted, [true, true, false]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn take_many<'k>(
        &self,
        requests: impl IntoIterator<Item = (&'k K, Cost)>,
        mut each: impl FnMut(LimitDecision),
    ) where
        K: 'k,
    {
        let [limit] = self.limits.as_slice() else {
            // With several limits per key, `take_all` prefetches the slots of each request.
            return requests.into_iter().for_each(|(key, cost)| each(tightest(&self.take_all(key, cost))));
        };
        let mut requests = requests.into_iter();
        let mut batch = [(0, Cost::ZERO); BATCH];
        loop {
            let mut size = 0;
            for (entry, (key, cost)) in batch.iter_mut().zip(requests.by_ref()) {
                let key = HashedKey::new(&limit.version, key);
                self.memory.prefetch_ahead(key);
                *entry = (key.hash, cost);
                size += 1;
            }
            let now = self.memory.clock().now();
            for &(hash, cost) in &batch[..size] {
                each(self.memory.take(HashedKey { version: &limit.version, hash }, cost, now));
            }
            if size < BATCH {
                return;
            }
        }
    }

    /// How full the limiter is, and counters of what happened.
    pub fn stats(&self) -> MemoryStats {
        self.memory.stats()
    }

    /// The clock of this limiter.
    pub fn clock(&self) -> &C {
        self.memory.clock()
    }

    fn apply(&self, intent: Intent, key: &K, cost: Cost) -> Verdict {
        let keys: SmallVec<[HashedKey<'_>; 8]> =
            self.limits.iter().map(|limit| HashedKey::new(&limit.version, key)).collect();
        self.memory.apply(intent, &keys, |_| (cost, Role::Binding), self.memory.clock().now())
    }

    fn name(&self, name: &str, limit: Limit, carry: Carry) -> Result<KeyedLimit, LimitError> {
        let limit = self.memory.limit(name, limit, carry, self.memory.clock().now())?;
        let version = MemoryVersion::shared_of(&limit).expect("a memory store registered the limit");
        Ok(KeyedLimit { version, _limit: limit })
    }
}

fn tightest(verdict: &Verdict) -> LimitDecision {
    *verdict.tightest().expect("a keyed limiter has at least one limit")
}

impl<K: ?Sized, C: fmt::Debug> fmt::Debug for Keyed<K, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.limits.iter().map(|limit| limit.version.limit)).finish()
    }
}
