//! The limits that are known, and the store of their buckets.
//!
//! The store assigns every limit a version number, of which there is a fixed amount. A limit that was not used
//! for as long as its buckets take to fill has only full buckets, which need not be stored: it is *idle*. When
//! all numbers are in use, the idle limits are removed with all of their slots, and their numbers are reused. A
//! limit in use is never removed, so nothing is lost.
//!
//! Removing limits takes one scan of the table, with all other threads locked out. It is done only if it frees
//! an eighth of the numbers at once, so it is rare.
//!
//! A thread that uses a limit only has to lock out that scan: it takes a read lock that few other threads share
//! ([`LockShard`]), and the limits that it used last are in a thread-local cache ([`Recent`]).

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use tidegate_core::{Carry, Limit, Nanos, Quota};

use super::{AdHocError, AdHocLimit};
use crate::memory::MemoryVersion;
use crate::{Clock, LimitRef, Memory, MemoryError, MemoryOptions, MemoryStats, NamedLimit};

/// The most limits at once; each takes about a kilobyte.
pub(super) const SETS_MAX: usize = 65_536;

/// Threads are distributed over this many locks.
const LOCK_SHARDS: usize = 16;

/// A limit counts as used for at least this long after its last use. So a use rarely has to write, and threads
/// whose `now` is slightly behind are harmless.
const GRACE: Nanos = Nanos::SECOND;

/// If too few limits are idle, they are not counted again before this time has passed.
const RECOUNT: Nanos = Nanos::from_millis(10);

/// All ad hoc limits in use.
///
/// Lock order: the lock shards from the first on, then the index.
#[derive(Debug)]
pub(super) struct NumberSets<C> {
    clock: Arc<C>,
    sets_max: usize,
    shards: [RwLock<LockShard<C>>; LOCK_SHARDS],
    index: RwLock<Index>,
}

/// The store, behind one of several locks. Each shard has a cache line of its own, so that threads with
/// different locks do not slow each other down.
#[derive(Debug)]
#[repr(align(128))]
struct LockShard<C> {
    /// `None` only while all shards are write-locked.
    memory: Option<Arc<Memory<Arc<C>>>>,
    /// Changes whenever limits are removed; unique over all stores.
    epoch: u64,
}

#[derive(Debug, Default)]
struct Index {
    sets: HashMap<AdHocLimit, Arc<Set>>,
    /// Before this instant too few limits are idle to remove them.
    full_until: Nanos,
}

/// An ad hoc limit.
#[derive(Debug)]
struct Set {
    limit: LimitRef,
    /// The time an empty bucket takes to fill.
    fill: Nanos,
    /// Every use was at least [`GRACE`] before this.
    used_until: AtomicU64,
}

impl Set {
    fn touch(&self, now: Nanos) {
        let at_least = now.saturating_add(GRACE);
        if self.used_until.load(Ordering::Relaxed) < at_least.get() {
            self.used_until.fetch_max(at_least.saturating_add(GRACE).get(), Ordering::Relaxed);
        }
    }

    /// From this instant on all of its buckets are full, unless it is used before.
    fn full_at(&self) -> Nanos {
        Nanos::new(self.used_until.load(Ordering::Relaxed)).saturating_add(self.fill)
    }
}

/// The limits that a thread used last: a small direct-mapped cache.
struct Recent {
    shard: usize,
    sets: [Option<(u64, AdHocLimit, Arc<Set>)>; RECENT],
}

const RECENT: usize = 16;

impl Recent {
    fn new() -> Recent {
        static THREADS: AtomicUsize = AtomicUsize::new(0);
        Recent {
            shard: THREADS.fetch_add(1, Ordering::Relaxed) % LOCK_SHARDS,
            sets: [const { None }; RECENT],
        }
    }

    /// Limits with the same index only replace each other, so a simple hash is good enough.
    fn index(numbers: &AdHocLimit) -> usize {
        let AdHocLimit { capacity, rate, window } = *numbers;
        let mixed = u64::from(capacity) ^ rate.rotate_left(24) ^ window.get().rotate_left(48);
        (mixed.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - RECENT.ilog2())) as usize
    }

    fn get(&self, epoch: u64, numbers: &AdHocLimit) -> Option<&Set> {
        let (known_in, known, set) = self.sets[Recent::index(numbers)].as_ref()?;
        (*known_in == epoch && known == numbers).then_some(&**set)
    }
}

thread_local! {
    static RECENTLY: RefCell<Recent> = RefCell::new(Recent::new());
}

fn next_epoch() -> u64 {
    static EPOCHS: AtomicU64 = AtomicU64::new(0);
    EPOCHS.fetch_add(1, Ordering::Relaxed)
}

impl<C> LockShard<C> {
    fn memory(&self) -> &Arc<Memory<Arc<C>>> {
        self.memory.as_ref().expect("the store is put back before the write locks are released")
    }
}

impl<C: Clock> NumberSets<C> {
    pub(super) fn new(
        options: MemoryOptions,
        clock: C,
        sets_max: usize,
    ) -> Result<NumberSets<C>, MemoryError> {
        let clock = Arc::new(clock);
        // Ad hoc limits are never sliding logs.
        let options = MemoryOptions { max_log_entries: 0, ..options };
        let memory = Arc::new(Memory::with_clock(options, clock.clone())?);
        let epoch = next_epoch();
        let shards = std::array::from_fn(|_| RwLock::new(LockShard { memory: Some(memory.clone()), epoch }));
        Ok(NumberSets { clock, sets_max, shards, index: RwLock::default() })
    }

    pub(super) fn clock(&self) -> &C {
        &self.clock
    }

    /// Calls `act` with the store and the version of a limit, which is registered if it is new.
    pub(super) fn with<R>(
        &self,
        numbers: &AdHocLimit,
        now: Nanos,
        act: impl Fn(&Memory<Arc<C>>, &MemoryVersion) -> R,
    ) -> Result<R, AdHocError> {
        let act = |shard: &LockShard<C>, set: &Set| {
            set.touch(now);
            act(shard.memory(), shard.memory().version(&set.limit))
        };
        let cached = RECENTLY.try_with(|recent| {
            let recent = recent.try_borrow().ok()?;
            let shard = self.lock_shard(recent.shard);
            Some(act(&shard, recent.get(shard.epoch, numbers)?))
        });
        if let Ok(Some(done)) = cached {
            return Ok(done);
        }
        loop {
            let shard = RECENTLY.try_with(|recent| recent.borrow().shard).unwrap_or_default();
            let shard = self.lock_shard(shard);
            let known = self.read().sets.get(numbers).cloned();
            let known = match known {
                Some(set) => Some(set),
                None => self.make_set(numbers, now, shard.memory())?,
            };
            if let Some(set) = known {
                let done = act(&shard, &set);
                remember(shard.epoch, numbers, set);
                return Ok(done);
            }
            drop(shard);
            self.remove_idle(now)?;
        }
    }
    fn lock_shard(&self, shard: usize) -> RwLockReadGuard<'_, LockShard<C>> {
        self.shards[shard].read().unwrap_or_else(PoisonError::into_inner)
    }

    fn read(&self) -> RwLockReadGuard<'_, Index> {
        self.index.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Index> {
        self.index.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Registers a new limit; `None` if there is no number left.
    #[cold]
    fn make_set(
        &self,
        numbers: &AdHocLimit,
        now: Nanos,
        memory: &Memory<Arc<C>>,
    ) -> Result<Option<Arc<Set>>, AdHocError> {
        let AdHocLimit { capacity, rate, window } = *numbers;
        let quota = Quota::new(rate, window, capacity)?;
        let mut index = self.write();
        if let Some(set) = index.sets.get(numbers) {
            return Ok(Some(set.clone()));
        }
        if index.sets.len() >= self.sets_max {
            return Ok(None);
        }
        let name = format!("{capacity} {rate} {}", window.get());
        let named =
            NamedLimit { name: &name, limit: Limit::token_bucket(quota), carry: Carry::AsIs, trusted: false };
        let limit = memory.limits_on_request(&[named], now).ok().and_then(|mut limits| limits.pop());
        let limit = limit.expect("there are fewer ad hoc limits than a store has version numbers");
        let set = Arc::new(Set { limit, fill: fill_of(quota), used_until: AtomicU64::new(0) });
        // Now, or the limit could be removed before its first use.
        set.touch(now);
        index.sets.insert(*numbers, set.clone());
        Ok(Some(set))
    }

    /// Removes all idle limits, if they are an eighth of all.
    #[cold]
    fn remove_idle(&self, now: Nanos) -> Result<(), AdHocError> {
        let enough = (self.sets_max / 8).max(1);
        let too_many = AdHocError::TooMany(self.sets_max - enough);
        if now < self.read().full_until {
            return Err(too_many);
        }
        let lock = |shard| RwLock::write(shard).unwrap_or_else(PoisonError::into_inner);
        let mut shards: Vec<RwLockWriteGuard<'_, LockShard<C>>> = self.shards.iter().map(lock).collect();
        let mut index = self.write();
        if index.sets.len() < self.sets_max {
            return Ok(()); // Another thread was faster.
        }
        let mut full_at: Vec<Nanos> = index.sets.values().map(|set| set.full_at()).collect();
        let (_, enough_at, _) = full_at.select_nth_unstable(enough - 1);
        if now < *enough_at {
            index.full_until = now.saturating_add(RECOUNT).max(*enough_at);
            return Err(too_many);
        }
        let mut idle = Vec::new();
        index.sets.retain(|_, set| {
            let is_idle = set.full_at() <= now;
            if is_idle {
                idle.push(set.limit.clone());
            }
            !is_idle
        });
        let mut memory = shards.iter_mut().filter_map(|shard| shard.memory.take()).last();
        let alone = memory.as_mut().and_then(Arc::get_mut);
        alone.expect("only the lock shards hold the store").forget(&idle, now);
        let epoch = next_epoch();
        for shard in &mut shards {
            (shard.memory, shard.epoch) = (memory.clone(), epoch);
        }
        index.full_until = Nanos::ZERO;
        Ok(())
    }

    /// The number of limits.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.read().sets.len()
    }

    /// The highest version number of a limit.
    #[cfg(test)]
    pub(super) fn numbers(&self) -> usize {
        self.read()
            .sets
            .values()
            .map(|set| {
                MemoryVersion::of(&set.limit).expect("the store of this cache made it").number as usize
            })
            .max()
            .unwrap_or_default()
    }

    pub(super) fn stats(&self) -> MemoryStats {
        self.lock_shard(0).memory().stats()
    }
}

/// Caches a limit for this thread, unless the cache is borrowed further up the stack.
fn remember(epoch: u64, numbers: &AdHocLimit, set: Arc<Set>) {
    // A thread that is ending has no cache any more.
    let _ = RECENTLY.try_with(|recent| {
        if let Ok(mut recent) = recent.try_borrow_mut() {
            recent.sets[Recent::index(numbers)] = Some((epoch, *numbers, set));
        }
    });
}

/// The time an empty bucket takes to fill, rounded up.
fn fill_of(quota: Quota) -> Nanos {
    let nanos = u128::from(quota.capacity()) * u128::from(quota.rate().nanos());
    let fill = nanos.div_ceil(u128::from(quota.rate().tokens()));
    Nanos::new(u64::try_from(fill).unwrap_or(u64::MAX))
}
