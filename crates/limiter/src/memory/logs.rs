//! Sliding logs: exact, and therefore larger than a word.
//!
//! Logs live in a few locked maps with a fixed budget of 16-byte entries. Each
//! new key looks at two old ones and forgets those that no longer count. When
//! the budget is spent, a known key makes do with the entries it has, and a new
//! one shares the overflow log of its limit; both can only deny more. Once there
//! is room again, whoever drew on that log gets one of its own that begins with
//! what was counted there.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tidegate_core::sliding_log::{Log, LogGrowth};
use tidegate_core::{Cost, Limit, LimitDecision, LogQuota, Nanos};

use super::overflow::{DebtKind, Debtor, Debtors};
use super::version::{MemoryRegistry, MemoryVersion};
use crate::Clock;
use crate::charge::TimedCost;

const SHARDS: usize = 64;
/// What a key costs beside its entries, in entries.
const KEY_COST: usize = 8;
/// In how many other shards a key that finds no room looks for idle ones.
const SHARDS_SEARCHED: usize = 8;
/// What an overflow log may hold.
const OVERFLOW_ENTRIES: usize = 256;

/// The logs of a memory store.
#[derive(Debug)]
pub(crate) struct Logs {
    shards: Box<[Mutex<Shard>]>,
    used: AtomicUsize,
    budget: usize,
    /// Which shard is searched next by a key that finds no room.
    searched: AtomicUsize,
}

#[derive(Debug, Default)]
struct Shard {
    logs: HashMap<u64, KeptLog>,
    /// Every key of `logs` once, in the order in which to look at them.
    hand: VecDeque<u64>,
}

/// A log and the version of the limit that it was last counted under; zero
/// before the first.
#[derive(Clone, Debug, Default)]
pub(crate) struct KeptLog {
    log: Log,
    version: u32,
}

/// What logs must know of the rest of the store.
pub(crate) struct Logging<'a> {
    pub(crate) registry: &'a MemoryRegistry,
    pub(crate) debtors: &'a Debtors,
    pub(crate) clock: &'a dyn Clock,
}

/// A key of a limit that keeps logs.
pub(crate) struct LogKey<'a> {
    pub(crate) hash: u64,
    pub(crate) version: &'a MemoryVersion,
    pub(crate) quota: &'a LogQuota,
    pub(crate) now: Nanos,
}

impl LogKey<'_> {
    fn debtor(&self) -> Debtor<'_> {
        Debtor { overflow: &self.version.data.overflow, kind: DebtKind::Log, hash: self.hash }
    }

    /// What a key without a log starts with: usually nothing. One that drew on the
    /// shared log starts with all of that, or what it drew would be granted twice.
    fn first(&self, with: &Logging<'_>) -> KeptLog {
        if with.debtors.may_owe(self.debtor(), self.now) {
            self.version.data.overflow.log().clone()
        } else {
            KeptLog::default()
        }
    }
}

impl KeptLog {
    /// Brings the log to the version of `key`, edit by edit, and says which
    /// numbers now apply; a log that is already newer stays. A change of trust
    /// leaves what was admitted as it is.
    fn bring_up<'a>(&mut self, registry: &'a MemoryRegistry, key: &LogKey<'a>) -> &'a LogQuota {
        if self.version == 0 || self.version == key.version.number {
            self.version = key.version.number;
            return key.quota;
        }
        let found = registry.get(self.version);
        for edit in registry.edits(found, key.version, found.trust) {
            edit.carry_log(&mut self.log, edit.at());
        }
        let target = registry.target(found, key.version);
        self.version = target.number;
        match &target.limit {
            Limit::Log(quota) => quota,
            Limit::Meter(_) => key.quota,
        }
    }
}

impl Logs {
    pub(crate) fn new(budget: usize) -> Logs {
        let shards = (0..SHARDS).map(|_| Mutex::default()).collect();
        Logs { shards, used: AtomicUsize::new(0), budget, searched: AtomicUsize::new(0) }
    }

    /// How many keys have a log.
    pub(crate) fn keys(&self) -> usize {
        (0..SHARDS as u64).map(|shard| self.shard(shard).logs.len()).sum()
    }

    pub(crate) fn take(&self, with: &Logging<'_>, key: &LogKey<'_>, ask: TimedCost) -> LimitDecision {
        self.take_as_of(with, key, ask).told_ahead(ask.delay)
    }

    /// A decision whose waits begin when the charge is counted.
    fn take_as_of(&self, with: &Logging<'_>, key: &LogKey<'_>, ask: TimedCost) -> LimitDecision {
        let (cost, at) = (ask.cost, key.now.saturating_add(ask.delay));
        let mut shard = self.shard(key.hash);
        if let Some(kept) = shard.logs.get_mut(&key.hash) {
            let may_grow = || self.used.load(Ordering::Relaxed) < self.budget;
            let grows = may_grow() || self.room_elsewhere(with.registry, key.now, may_grow);
            let room = if grows { LogGrowth::Grow } else { LogGrowth::Full };
            return self.resize(kept, |kept| {
                let quota = kept.bring_up(with.registry, key);
                kept.log.take_ahead(quota, cost, key.now, at, room)
            });
        }
        let mut kept = key.first(with);
        let quota = kept.bring_up(with.registry, key);
        kept.log.forget(quota, key.now);
        let decision = kept.log.peek(quota, cost, at);
        if !decision.is_allowed() || cost == Cost::ZERO {
            return decision;
        }
        self.sweep(&mut shard, with.registry, key.now);
        // A charge as of later than the newest adds an entry, another is counted with it.
        let entries = KEY_COST + kept.log.len() + 1;
        let reserve = || self.reserve(entries);
        if !reserve() && !self.room_elsewhere(with.registry, key.now, reserve) {
            return take_shared(with, key, ask);
        }
        let before = kept.log.len();
        let decision = kept.log.take_ahead(quota, cost, key.now, at, LogGrowth::Grow);
        self.used.fetch_sub(before + 1 - kept.log.len(), Ordering::Relaxed);
        shard.logs.insert(key.hash, kept);
        shard.hand.push_back(key.hash);
        decision
    }

    pub(crate) fn peek(&self, with: &Logging<'_>, key: &LogKey<'_>, ask: TimedCost) -> LimitDecision {
        let shard = self.shard(key.hash);
        let has_room = || self.has_room() || self.room_elsewhere(with.registry, key.now, || self.has_room());
        let mut kept = match shard.logs.get(&key.hash) {
            Some(kept) => kept.clone(),
            None if !has_room() => key.version.data.overflow.log().clone(),
            None => key.first(with),
        };
        let quota = kept.bring_up(with.registry, key);
        kept.log.peek(quota, ask.cost, key.now.saturating_add(ask.delay)).told_ahead(ask.delay)
    }

    pub(crate) fn refund(&self, with: &Logging<'_>, key: &LogKey<'_>, cost: Cost) {
        self.amend(with, key, |kept| {
            let quota = kept.bring_up(with.registry, key);
            kept.log.forget(quota, key.now);
            kept.log.refund(cost);
        });
    }

    /// Takes back a charge that was made at `charged_at`.
    pub(crate) fn hand_back(&self, with: &Logging<'_>, key: &LogKey<'_>, ask: TimedCost, charged_at: Nanos) {
        let counted_at = charged_at.saturating_add(ask.delay);
        self.amend(with, key, |kept| kept.log.hand_back(ask.cost, counted_at));
    }

    /// Gives something back to the key's own log or to the one it drew on.
    fn amend(&self, with: &Logging<'_>, key: &LogKey<'_>, act: impl FnOnce(&mut KeptLog)) {
        match self.shard(key.hash).logs.get_mut(&key.hash) {
            Some(kept) => self.resize(kept, act),
            None if with.debtors.may_owe(key.debtor(), key.now) => {
                act(&mut key.version.data.overflow.log());
            }
            None => {}
        }
    }

    /// Looks at the two oldest keys and forgets those that no longer count.
    fn sweep(&self, shard: &mut Shard, registry: &MemoryRegistry, now: Nanos) {
        for _ in 0..2 {
            let Some(hash) = shard.hand.pop_front() else { return };
            let kept = shard.logs.get_mut(&hash).expect("every key under the hand has a log");
            let idle = match &registry.get(kept.version).limit {
                Limit::Log(quota) => self.resize(kept, |kept| {
                    kept.log.forget(quota, now);
                    kept.log.is_empty()
                }),
                Limit::Meter(_) => true,
            };
            if idle {
                let kept = shard.logs.remove(&hash).expect("just seen");
                self.used.fetch_sub(KEY_COST + kept.log.len(), Ordering::Relaxed);
            } else {
                shard.hand.push_back(hash);
            }
        }
    }

    /// Makes room in other shards: when a flood is over, its logs lie in all of them,
    /// and nobody else would come by. One that is in use is left out, for its own
    /// shard is locked, and two that wait for each other's would wait for ever.
    #[cold]
    fn room_elsewhere(&self, registry: &MemoryRegistry, now: Nanos, is_enough: impl Fn() -> bool) -> bool {
        (0..SHARDS_SEARCHED).any(|_| {
            let next = self.searched.fetch_add(1, Ordering::Relaxed) % SHARDS;
            if let Ok(mut shard) = self.shards[next].try_lock() {
                self.sweep(&mut shard, registry, now);
            }
            is_enough()
        })
    }

    /// Keeps the count of entries true to what `act` does.
    fn resize<T>(&self, kept: &mut KeptLog, act: impl FnOnce(&mut KeptLog) -> T) -> T {
        let before = kept.log.len();
        let answer = act(kept);
        self.used.fetch_add(kept.log.len(), Ordering::Relaxed);
        self.used.fetch_sub(before, Ordering::Relaxed);
        answer
    }

    /// Would a new key find room?
    fn has_room(&self) -> bool {
        self.used.load(Ordering::Relaxed) + KEY_COST < self.budget
    }

    fn reserve(&self, entries: usize) -> bool {
        let reserve = |used: usize| used.checked_add(entries).filter(|&used| used <= self.budget);
        self.used.try_update(Ordering::Relaxed, Ordering::Relaxed, reserve).is_ok()
    }

    fn shard(&self, hash: u64) -> MutexGuard<'_, Shard> {
        let shard = &self.shards[(hash % SHARDS as u64) as usize];
        shard.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Draws on the log that keys without one of their own share.
fn take_shared(with: &Logging<'_>, key: &LogKey<'_>, ask: TimedCost) -> LimitDecision {
    let (cost, at) = (ask.cost, key.now.saturating_add(ask.delay));
    with.debtors.count_overflow();
    let mut shared = key.version.data.overflow.log();
    let quota = shared.bring_up(with.registry, key);
    let room = if shared.log.len() < OVERFLOW_ENTRIES { LogGrowth::Grow } else { LogGrowth::Full };
    let decision = shared.log.take_ahead(quota, cost, key.now, at, room);
    if decision.is_allowed() && cost > Cost::ZERO {
        let earliest = key.now.min(with.clock.wall_at(key.now));
        with.debtors.owes(key.debtor(), shared.log.empty_at(quota, at), earliest);
    }
    decision
}
