//! The same limits for each of many keys.

use std::fmt;
use std::hash::Hash;
use std::marker::PhantomData;
use std::sync::Arc;

use smallvec::SmallVec;
use tidegate_core::{Carry, Cost, Limit, LimitDecision};

use crate::memory::{HashedKey, MemoryVersion};
use crate::{
    Clock, Intent, LimitError, Memory, MemoryError, MemoryOptions, MemoryStats, MonotonicClock, Role, Store,
    Verdict,
};

/// How many keys [`Keyed::take_many`] works on at a time.
const BATCH: usize = 16;

/// A limiter for each key of any hashable type: users, addresses, pairs.
///
/// Keys are never stored, only a keyed fingerprint of them; memory is fixed when
/// the limiter is made. See [`Memory`] for what happens when keys are many.
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
    limits: SmallVec<[Arc<MemoryVersion>; 1]>,
    key: PhantomData<fn(&K)>,
}

impl<K: Hash + ?Sized> Keyed<K> {
    /// One limit for each key, up to a million keys, on the monotonic clock.
    ///
    /// # Errors
    /// When the memory for so many keys cannot be reserved.
    pub fn new(limit: impl Into<Limit>) -> Result<Keyed<K>, MemoryError> {
        Keyed::with(limit, MemoryOptions::default(), MonotonicClock::new())
    }
}

impl<K: Hash + ?Sized, C: Clock> Keyed<K, C> {
    /// One limit for each key, of a size and on a clock of yours.
    ///
    /// # Errors
    /// When the memory for so many keys cannot be reserved.
    pub fn with(
        limit: impl Into<Limit>,
        options: MemoryOptions,
        clock: C,
    ) -> Result<Keyed<K, C>, MemoryError> {
        let memory = Memory::with_clock(options, clock)?;
        let empty = Keyed { memory, limits: SmallVec::new(), key: PhantomData };
        Ok(empty.and(limit).expect("a new store has room for a limit"))
    }

    /// Another limit for each key: all must admit, or none is charged.
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
    /// When there are too many limits.
    pub fn and(mut self, limit: impl Into<Limit>) -> Result<Keyed<K, C>, LimitError> {
        let name = self.limits.len().to_string();
        self.limits.push(self.name(&name, limit.into(), Carry::Reset)?);
        Ok(self)
    }

    /// Replaces the numbers of the first limit; what keys have used is carried
    /// over as `carry` says.
    ///
    /// ```
    /// use tidegate::{Carry, Cost, Keyed, Quota};
    ///
    /// let mut per_user: Keyed<str> = Keyed::new(Quota::per_hour(10)?)?;
    /// assert!(per_user.take("alice", Cost::new(10)).is_allowed());
    /// per_user.edit(Quota::per_hour(20)?, Carry::AsIs)?;
    /// assert!(!per_user.take("alice", Cost::ONE).is_allowed(), "an edit hands out nothing");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// When there were too many edits.
    pub fn edit(&mut self, limit: impl Into<Limit>, carry: Carry) -> Result<(), LimitError> {
        self.limits[0] = self.name("0", limit.into(), carry)?;
        Ok(())
    }

    /// Takes `cost` from the key's limits if it is there; otherwise changes
    /// nothing. With several limits the tightest one answers.
    #[inline]
    pub fn take(&self, key: &K, cost: Cost) -> LimitDecision {
        match self.limits.as_slice() {
            [limit] => {
                let key = HashedKey::new(limit, key);
                // The slot is on its way while the clock is read.
                self.memory.prefetch(key);
                self.memory.take(key, cost, self.memory.clock().now())
            }
            _ => tightest(&self.take_all(key, cost)),
        }
    }

    /// Takes `cost` from all of the key's limits or from none, and tells what
    /// each of them says.
    pub fn take_all(&self, key: &K, cost: Cost) -> Verdict {
        self.apply(Intent::Take, key, cost)
    }

    /// What [`Keyed::take`] would say, with nothing taken.
    pub fn peek(&self, key: &K, cost: Cost) -> LimitDecision {
        tightest(&self.apply(Intent::Peek, key, cost))
    }

    /// Puts `cost` back into all of the key's limits, never above a capacity.
    pub fn refund(&self, key: &K, cost: Cost) {
        let _ = self.apply(Intent::Refund, key, cost);
    }

    /// Takes for many keys, each for itself, and hands each decision to `each`
    /// in order. Much faster than one by one where the keys are many, since
    /// their memory is fetched ahead.
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
            // Several limits for a key are fetched ahead of each request.
            return requests.into_iter().for_each(|(key, cost)| each(tightest(&self.take_all(key, cost))));
        };
        let mut requests = requests.into_iter();
        let mut batch = [(0, Cost::ZERO); BATCH];
        loop {
            let mut size = 0;
            for (place, (key, cost)) in batch.iter_mut().zip(requests.by_ref()) {
                let key = HashedKey::new(limit, key);
                self.memory.prefetch_ahead(key);
                *place = (key.hash, cost);
                size += 1;
            }
            let now = self.memory.clock().now();
            for &(hash, cost) in &batch[..size] {
                each(self.memory.take(HashedKey { version: limit, hash }, cost, now));
            }
            if size < BATCH {
                return;
            }
        }
    }

    /// How full the limiter is and what it has been through.
    pub fn stats(&self) -> MemoryStats {
        self.memory.stats()
    }

    /// The clock it was made with.
    pub fn clock(&self) -> &C {
        self.memory.clock()
    }

    fn apply(&self, intent: Intent, key: &K, cost: Cost) -> Verdict {
        let keys: SmallVec<[HashedKey<'_>; 8]> =
            self.limits.iter().map(|limit| HashedKey::new(limit, key)).collect();
        self.memory.apply(intent, &keys, |_| (cost, Role::Binding), self.memory.clock().now())
    }

    fn name(&self, name: &str, limit: Limit, carry: Carry) -> Result<Arc<MemoryVersion>, LimitError> {
        let limit = self.memory.limit(name, limit, carry, self.memory.clock().now())?;
        Ok(self.memory.version(&limit).clone())
    }
}

fn tightest(verdict: &Verdict) -> LimitDecision {
    *verdict.tightest().expect("a keyed limiter has at least one limit")
}

impl<K: ?Sized, C: fmt::Debug> fmt::Debug for Keyed<K, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.limits.iter().map(|version| version.limit)).finish()
    }
}
