//! Which sets of numbers are known, and their one store.
//!
//! A store gives every set a number of its own, of which there are so many. A set
//! that has not been used for as long as its buckets take to fill has only full
//! buckets, which carry no information: it is *dead*. When all numbers are given
//! out, the dead are forgotten with all of their slots, and their numbers go to
//! others. A set that is in use stays where it is, however long; nothing is lost.
//!
//! To forget takes one walk through the table, with everybody else kept out. It is
//! done only where it frees an eighth of the numbers at once, so it is rare.
//!
//! Whoever uses a set only has to keep that out: a lock that hardly anybody shares
//! ([`Seat`]), and the sets that a thread has used last are at hand ([`Recent`]).

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use tidegate_core::{Carry, Limit, Nanos, Quota};

use super::{AdHocError, AdHocLimit};
use crate::memory::MemoryVersion;
use crate::{Clock, Memory, MemoryError, MemoryOptions, MemoryStats, Store};

/// How many sets of numbers are told apart; each takes about a kilobyte.
pub(super) const SETS_MAX: usize = 65_536;

/// Threads are spread over this many locks.
const SEATS: usize = 16;

/// A set counts as used for at least so long after its last use. So a use writes
/// only once in a while, and threads whose `now` is a little behind do no harm.
const GRACE: Nanos = Nanos::SECOND;

/// When too few are dead, they are counted again no sooner than this.
const RECOUNT: Nanos = Nanos::from_millis(10);

/// All sets of numbers that are in use.
///
/// Locks are taken in this order: seats from the first on, then the index.
#[derive(Debug)]
pub(super) struct NumberSets<C> {
    clock: Arc<C>,
    sets_max: usize,
    seats: [RwLock<Seat<C>>; SEATS],
    index: RwLock<Index>,
}

/// The store, for as long as the lock around it is held. Each has a cache line of
/// its own, or threads that share nothing would slow each other down.
#[derive(Debug)]
#[repr(align(128))]
struct Seat<C> {
    /// Taken out only while all seats are locked.
    memory: Option<Arc<Memory<Arc<C>>>>,
    /// Changes whenever sets are forgotten; no two stores ever have the same.
    epoch: u64,
}

#[derive(Debug, Default)]
struct Index {
    sets: HashMap<AdHocLimit, Arc<Set>>,
    /// Before this instant too few are dead to forget them.
    full_until: Nanos,
}

/// A set of numbers.
#[derive(Debug)]
struct Set {
    version: Arc<MemoryVersion>,
    /// How long an empty bucket takes to fill.
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

    /// From then on all of its buckets are full, unless it is used before.
    fn full_at(&self) -> Nanos {
        Nanos::new(self.used_until.load(Ordering::Relaxed)).saturating_add(self.fill)
    }
}

/// The sets that a thread has used last: one for each of a few hashes.
struct Recent {
    seat: usize,
    sets: [Option<(u64, AdHocLimit, Arc<Set>)>; RECENT],
}

const RECENT: usize = 16;

impl Recent {
    fn new() -> Recent {
        static THREADS: AtomicUsize = AtomicUsize::new(0);
        Recent { seat: THREADS.fetch_add(1, Ordering::Relaxed) % SEATS, sets: [const { None }; RECENT] }
    }

    /// Numbers that share a place only take turns in it, so any mixture will do.
    fn place(numbers: &AdHocLimit) -> usize {
        let AdHocLimit { capacity, rate, window } = *numbers;
        let mixed = u64::from(capacity) ^ rate.rotate_left(24) ^ window.get().rotate_left(48);
        (mixed.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - RECENT.ilog2())) as usize
    }

    fn get(&self, epoch: u64, numbers: &AdHocLimit) -> Option<&Set> {
        let (known_in, known, set) = self.sets[Recent::place(numbers)].as_ref()?;
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

impl<C> Seat<C> {
    fn memory(&self) -> &Arc<Memory<Arc<C>>> {
        self.memory.as_ref().expect("whoever takes the store out of a seat puts it back")
    }
}

impl<C: Clock> NumberSets<C> {
    pub(super) fn new(
        options: MemoryOptions,
        clock: C,
        sets_max: usize,
    ) -> Result<NumberSets<C>, MemoryError> {
        let clock = Arc::new(clock);
        // No log is ever kept here.
        let options = MemoryOptions { max_log_entries: 0, ..options };
        let memory = Arc::new(Memory::with_clock(options, clock.clone())?);
        let epoch = next_epoch();
        let seats = std::array::from_fn(|_| RwLock::new(Seat { memory: Some(memory.clone()), epoch }));
        Ok(NumberSets { clock, sets_max, seats, index: RwLock::default() })
    }

    pub(super) fn clock(&self) -> &C {
        &self.clock
    }

    /// Does something with the store and a set of numbers, which need not be
    /// known yet.
    pub(super) fn with<R>(
        &self,
        numbers: &AdHocLimit,
        now: Nanos,
        act: impl Fn(&Memory<Arc<C>>, &Arc<MemoryVersion>) -> R,
    ) -> Result<R, AdHocError> {
        let act = |seat: &Seat<C>, set: &Set| {
            set.touch(now);
            act(seat.memory(), &set.version)
        };
        let at_hand = RECENTLY.try_with(|recent| {
            let recent = recent.try_borrow().ok()?;
            let seat = self.sit(recent.seat);
            Some(act(&seat, recent.get(seat.epoch, numbers)?))
        });
        if let Ok(Some(done)) = at_hand {
            return Ok(done);
        }
        loop {
            let seat = self.sit(RECENTLY.try_with(|recent| recent.borrow().seat).unwrap_or_default());
            let known = self.read().sets.get(numbers).cloned();
            let known = match known {
                Some(set) => Some(set),
                None => self.make_set(numbers, now, seat.memory())?,
            };
            if let Some(set) = known {
                let done = act(&seat, &set);
                remember(seat.epoch, numbers, set);
                return Ok(done);
            }
            drop(seat);
            self.forget_the_dead(now)?;
        }
    }

    fn sit(&self, seat: usize) -> RwLockReadGuard<'_, Seat<C>> {
        self.seats[seat].read().unwrap_or_else(PoisonError::into_inner)
    }

    fn read(&self) -> RwLockReadGuard<'_, Index> {
        self.index.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Index> {
        self.index.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives a set that is new a number; `None` if there is none left.
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
        let limit = memory.limit(&name, Limit::token_bucket(quota), Carry::AsIs, now);
        let limit = limit.expect("there are fewer sets than a store has numbers");
        let version = memory.version(&limit).clone();
        let set = Arc::new(Set { version, fill: fill_of(quota), used_until: AtomicU64::new(0) });
        // At once, or it could be forgotten before its first use.
        set.touch(now);
        index.sets.insert(*numbers, set.clone());
        Ok(Some(set))
    }

    /// Forgets all sets that are dead, if they are an eighth of all.
    #[cold]
    fn forget_the_dead(&self, now: Nanos) -> Result<(), AdHocError> {
        let enough = (self.sets_max / 8).max(1);
        let too_many = AdHocError::TooMany(self.sets_max - enough);
        if now < self.read().full_until {
            return Err(too_many);
        }
        let lock = |seat| RwLock::write(seat).unwrap_or_else(PoisonError::into_inner);
        let mut seats: Vec<RwLockWriteGuard<'_, Seat<C>>> = self.seats.iter().map(lock).collect();
        let mut index = self.write();
        if index.sets.len() < self.sets_max {
            return Ok(()); // Somebody else was faster.
        }
        let mut full_at: Vec<Nanos> = index.sets.values().map(|set| set.full_at()).collect();
        let (_, enough_at, _) = full_at.select_nth_unstable(enough - 1);
        if now < *enough_at {
            index.full_until = now.saturating_add(RECOUNT).max(*enough_at);
            return Err(too_many);
        }
        let mut dead = Vec::new();
        index.sets.retain(|_, set| {
            let is_dead = set.full_at() <= now;
            if is_dead {
                dead.push(set.version.number);
            }
            !is_dead
        });
        let mut memory = seats.iter_mut().filter_map(|seat| seat.memory.take()).last();
        let alone = memory.as_mut().and_then(Arc::get_mut);
        alone.expect("the store is used from seats only").forget(&dead, now);
        let epoch = next_epoch();
        for seat in &mut seats {
            (seat.memory, seat.epoch) = (memory.clone(), epoch);
        }
        index.full_until = Nanos::ZERO;
        Ok(())
    }

    /// How many sets there are.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.read().sets.len()
    }

    /// The highest number that a set has.
    #[cfg(test)]
    pub(super) fn numbers(&self) -> usize {
        self.read().sets.values().map(|set| set.version.number as usize).max().unwrap_or_default()
    }

    pub(super) fn stats(&self) -> MemoryStats {
        self.sit(0).memory().stats()
    }
}

/// Puts a set at hand, unless this thread is amid something with another.
fn remember(epoch: u64, numbers: &AdHocLimit, set: Arc<Set>) {
    // A thread about to end has nothing to remember.
    let _ = RECENTLY.try_with(|recent| {
        if let Ok(mut recent) = recent.try_borrow_mut() {
            recent.sets[Recent::place(numbers)] = Some((epoch, *numbers, set));
        }
    });
}

/// How long an empty bucket takes to fill, rounded up.
fn fill_of(quota: Quota) -> Nanos {
    let nanos = u128::from(quota.capacity()) * u128::from(quota.rate().nanos());
    let fill = nanos.div_ceil(u128::from(quota.rate().tokens()));
    Nanos::new(u64::try_from(fill).unwrap_or(u64::MAX))
}
