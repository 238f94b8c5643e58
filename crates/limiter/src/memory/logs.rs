//! Sliding logs: exact, and therefore larger than a word.
//!
//! Logs are kept in a few locked maps with a fixed budget of 16-byte entries. Each new key checks two old ones
//! and removes those that no longer count. When the budget is used up, a known key reuses the entries it has,
//! and a new key shares the overflow log of its limit; both can only deny more. Once there is free space again,
//! a key that drew on the overflow log gets its own log, which starts as a copy of the overflow log.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tidegate_core::sliding_log::{Log, LogGrowth};
use tidegate_core::{Cost, Limit, LimitDecision, LogQuota, Nanos};

use super::overflow::{DebtKind, Debtor, Debtors};
use super::sweep::Sweeper;
use super::version::{MemoryReader, MemoryVersion};
use crate::Clock;
use crate::charge::TimedCost;
use crate::history::Generation;

const SHARDS: usize = 64;
/// The memory that a key takes besides its entries, counted in entries.
const KEY_COST: usize = 8;
/// In how many other shards to look for idle keys when there is no free space.
const SHARDS_SEARCHED: usize = 8;
/// The most entries of an overflow log.
const OVERFLOW_ENTRIES: usize = 256;

/// The logs of a memory store.
#[derive(Debug)]
pub(crate) struct Logs {
    shards: Box<[Mutex<Shard>]>,
    used: AtomicUsize,
    budget: usize,
    /// The shard that is searched next for idle keys.
    searched: AtomicUsize,
    /// Idle keys that were removed to make room.
    evictions: AtomicU64,
}

#[derive(Debug, Default)]
struct Shard {
    logs: HashMap<u64, KeptLog>,
    /// Every key of `logs` once, in the order in which they are checked for idleness.
    sweep_order: VecDeque<u64>,
}

/// A log and the version of the limit that it was last counted with; zero before the first.
#[derive(Clone, Debug, Default)]
pub(crate) struct KeptLog {
    log: Log,
    version: u32,
}

/// The parts of the store that logs need.
pub(crate) struct LogContext<'a> {
    /// Made before any log is locked: whoever waits for readers may hold up new ones.
    pub(crate) reader: MemoryReader<'a>,
    pub(crate) debtors: &'a Debtors,
    pub(crate) clock: &'a dyn Clock,
}

/// A key of a limit that is a sliding log.
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

    /// The initial log of a key: usually empty. For a key that drew on the overflow log it is a copy of that;
    /// otherwise the costs it drew would be granted twice.
    fn first(&self, context: &LogContext<'_>) -> KeptLog {
        if context.debtors.may_owe(self.debtor(), self.now) {
            self.version.data.overflow.log().clone()
        } else {
            KeptLog::default()
        }
    }
}

impl KeptLog {
    /// Migrates the log to the version of `key`, edit by edit, and returns the quota that now applies; a log
    /// that is already newer stays as it is. A change of the variant does not change what was admitted.
    fn migrate(&mut self, reader: &MemoryReader<'_>, key: &LogKey<'_>) -> LogQuota {
        if self.version == 0 || self.version == key.version.number {
            self.version = key.version.number;
            return *key.quota;
        }
        let found = reader.get(self.version);
        self.carry(&found, &key.version.generation);
        let target = reader.target(found, key.version);
        self.version = target.number;
        match target.limit {
            Limit::Log(quota) => quota,
            Limit::Meter(_) => *key.quota,
        }
    }

    fn carry(&mut self, found: &MemoryVersion, to: &Generation) {
        for edit in found.generation.edits_to(to, found.variant) {
            edit.carry_log(&mut self.log, edit.at());
        }
    }

    /// Forgets what no longer counts; `true` if nothing is left.
    fn is_idle(&mut self, reader: &MemoryReader<'_>, now: Nanos) -> bool {
        match &reader.get(self.version).limit {
            Limit::Log(quota) => {
                self.log.forget(quota, now);
                self.log.is_empty()
            }
            Limit::Meter(_) => true,
        }
    }

    /// Applies a sweep of removed versions; `true` if the log can be removed.
    pub(super) fn sweep(&mut self, sweeper: &mut Sweeper<'_, '_>) -> bool {
        let (number, now) = (self.version, sweeper.now);
        if number == 0 {
            return false;
        }
        let migrate = |kept: &mut KeptLog, found: &MemoryVersion, target: &MemoryVersion| {
            kept.carry(found, &target.generation);
            kept.version = target.number;
        };
        sweeper.apply(self, number, migrate, |kept, reader| kept.is_idle(reader, now))
    }
}

impl Logs {
    pub(crate) fn new(budget: usize) -> Logs {
        let shards = (0..SHARDS).map(|_| Mutex::default()).collect();
        Logs {
            shards,
            used: AtomicUsize::new(0),
            budget,
            searched: AtomicUsize::new(0),
            evictions: AtomicU64::new(0),
        }
    }

    /// The number of keys that have a log.
    pub(crate) fn keys(&self) -> usize {
        (0..SHARDS as u64).map(|shard| self.shard(shard).logs.len()).sum()
    }

    /// Idle keys that were removed to make room so far.
    pub(crate) fn evictions(&self) -> u64 {
        self.evictions.load(Ordering::Relaxed)
    }

    pub(crate) fn take(&self, context: &LogContext<'_>, key: &LogKey<'_>, timed: TimedCost) -> LimitDecision {
        self.take_as_of(context, key, timed).seen_earlier_by(timed.delay)
    }

    /// The decision, with waits that begin when the charge is counted.
    fn take_as_of(&self, context: &LogContext<'_>, key: &LogKey<'_>, timed: TimedCost) -> LimitDecision {
        let (cost, at) = (timed.cost, key.now.saturating_add(timed.delay));
        let mut shard = self.shard(key.hash);
        if let Some(kept) = shard.logs.get_mut(&key.hash) {
            let may_grow = || self.used.load(Ordering::Relaxed) < self.budget;
            let grows = may_grow() || self.sweep_other_shards(&context.reader, key.now, may_grow);
            let growth = if grows { LogGrowth::Grow } else { LogGrowth::Full };
            return self.resize(kept, |kept| {
                let quota = kept.migrate(&context.reader, key);
                kept.log.take_ahead(&quota, cost, key.now, at, growth)
            });
        }
        let mut kept = key.first(context);
        let quota = kept.migrate(&context.reader, key);
        kept.log.forget(&quota, key.now);
        let decision = kept.log.peek(&quota, cost, at);
        if !decision.is_allowed() || cost == Cost::ZERO {
            return decision;
        }
        self.sweep(&mut shard, &context.reader, key.now);
        // A charge counted after the newest entry adds one; any other is added to an existing entry.
        let entries = KEY_COST + kept.log.len() + 1;
        let allocate = || self.allocate(entries);
        if !allocate() && !self.sweep_other_shards(&context.reader, key.now, allocate) {
            return take_shared(context, key, timed);
        }
        let before = kept.log.len();
        let decision = kept.log.take_ahead(&quota, cost, key.now, at, LogGrowth::Grow);
        self.used.fetch_sub(before + 1 - kept.log.len(), Ordering::Relaxed);
        shard.logs.insert(key.hash, kept);
        shard.sweep_order.push_back(key.hash);
        decision
    }

    pub(crate) fn peek(&self, context: &LogContext<'_>, key: &LogKey<'_>, timed: TimedCost) -> LimitDecision {
        let shard = self.shard(key.hash);
        let has_space =
            || self.has_space() || self.sweep_other_shards(&context.reader, key.now, || self.has_space());
        let mut kept = match shard.logs.get(&key.hash) {
            Some(kept) => kept.clone(),
            None if !has_space() => key.version.data.overflow.log().clone(),
            None => key.first(context),
        };
        let quota = kept.migrate(&context.reader, key);
        kept.log.peek(&quota, timed.cost, key.now.saturating_add(timed.delay)).seen_earlier_by(timed.delay)
    }

    pub(crate) fn refund(&self, context: &LogContext<'_>, key: &LogKey<'_>, cost: Cost) {
        self.amend(context, key, |kept| {
            let quota = kept.migrate(&context.reader, key);
            kept.log.forget(&quota, key.now);
            kept.log.refund(cost);
        });
    }

    /// Makes a key unused, and with it the overflow log if the key drew on that.
    pub(crate) fn reset(&self, context: &LogContext<'_>, key: &LogKey<'_>) {
        self.amend(context, key, |kept| kept.log = Log::default());
    }

    /// Undoes a charge that was made at `charged_at`.
    pub(crate) fn hand_back(
        &self,
        context: &LogContext<'_>,
        key: &LogKey<'_>,
        timed: TimedCost,
        charged_at: Nanos,
    ) {
        let counted_at = charged_at.saturating_add(timed.delay);
        self.amend(context, key, |kept| kept.log.hand_back(timed.cost, counted_at));
    }

    /// Gives something back to the key's own log, or to the overflow log it drew on.
    fn amend(&self, context: &LogContext<'_>, key: &LogKey<'_>, act: impl FnOnce(&mut KeptLog)) {
        match self.shard(key.hash).logs.get_mut(&key.hash) {
            Some(kept) => self.resize(kept, act),
            None if context.debtors.may_owe(key.debtor(), key.now) => {
                act(&mut key.version.data.overflow.log());
            }
            None => {}
        }
    }

    /// Checks the two oldest keys and removes those whose log no longer counts.
    fn sweep(&self, shard: &mut Shard, reader: &MemoryReader<'_>, now: Nanos) {
        for _ in 0..2 {
            let Some(hash) = shard.sweep_order.pop_front() else { return };
            let kept = shard.logs.get_mut(&hash).expect("every key in the sweep order has a log");
            if self.resize(kept, |kept| kept.is_idle(reader, now)) {
                let kept = shard.logs.remove(&hash).expect("the log was found above");
                self.used.fetch_sub(KEY_COST + kept.log.len(), Ordering::Relaxed);
                self.evictions.fetch_add(1, Ordering::Relaxed);
            } else {
                shard.sweep_order.push_back(hash);
            }
        }
    }

    /// Frees space in other shards. After a flood its logs lie in all shards, and no other caller would remove
    /// them. A shard that is locked is skipped: the caller holds the lock of its own shard, and two callers
    /// that wait for each other's shard would deadlock.
    #[cold]
    fn sweep_other_shards(
        &self,
        reader: &MemoryReader<'_>,
        now: Nanos,
        is_enough: impl Fn() -> bool,
    ) -> bool {
        (0..SHARDS_SEARCHED).any(|_| {
            let next = self.searched.fetch_add(1, Ordering::Relaxed) % SHARDS;
            if let Ok(mut shard) = self.shards[next].try_lock() {
                self.sweep(&mut shard, reader, now);
            }
            is_enough()
        })
    }

    /// Applies a sweep of removed versions to the logs of one shard; `false` if there is no such shard.
    pub(super) fn sweep_shard(&self, index: usize, sweeper: &mut Sweeper<'_, '_>) -> bool {
        let Some(shard) = self.shards.get(index) else { return false };
        let mut shard = shard.lock().unwrap_or_else(PoisonError::into_inner);
        let Shard { logs, sweep_order } = &mut *shard;
        let before = logs.len();
        logs.retain(|_, kept| {
            let is_removed = self.resize(kept, |kept| kept.sweep(sweeper));
            if is_removed {
                self.used.fetch_sub(KEY_COST + kept.log.len(), Ordering::Relaxed);
            }
            !is_removed
        });
        if logs.len() < before {
            sweep_order.retain(|hash| logs.contains_key(hash));
        }
        true
    }

    /// The version of every log.
    #[cfg(test)]
    pub(super) fn versions(&self) -> Vec<u32> {
        let versions = |shard| self.shard(shard).logs.values().map(|kept| kept.version).collect::<Vec<_>>();
        (0..SHARDS as u64).flat_map(versions).collect()
    }

    /// Runs `act` and updates the number of used entries.
    fn resize<T>(&self, kept: &mut KeptLog, act: impl FnOnce(&mut KeptLog) -> T) -> T {
        let before = kept.log.len();
        let answer = act(kept);
        self.used.fetch_add(kept.log.len(), Ordering::Relaxed);
        self.used.fetch_sub(before, Ordering::Relaxed);
        answer
    }

    /// Is there space for a new key?
    fn has_space(&self) -> bool {
        self.used.load(Ordering::Relaxed) + KEY_COST < self.budget
    }

    fn allocate(&self, entries: usize) -> bool {
        let add = |used: usize| used.checked_add(entries).filter(|&used| used <= self.budget);
        self.used.try_update(Ordering::Relaxed, Ordering::Relaxed, add).is_ok()
    }

    fn shard(&self, hash: u64) -> MutexGuard<'_, Shard> {
        let shard = &self.shards[(hash % SHARDS as u64) as usize];
        shard.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Charges the overflow log, which keys without a log of their own share.
fn take_shared(context: &LogContext<'_>, key: &LogKey<'_>, timed: TimedCost) -> LimitDecision {
    let (cost, at) = (timed.cost, key.now.saturating_add(timed.delay));
    context.debtors.count_overflow();
    let mut shared = key.version.data.overflow.log();
    let quota = shared.migrate(&context.reader, key);
    let growth = if shared.log.len() < OVERFLOW_ENTRIES { LogGrowth::Grow } else { LogGrowth::Full };
    let decision = shared.log.take_ahead(&quota, cost, key.now, at, growth);
    if decision.is_allowed() && cost > Cost::ZERO {
        let earliest = key.now.min(context.clock.wall_at(key.now));
        context.debtors.record_debt(key.debtor(), shared.log.empty_at(&quota, at), earliest);
    }
    decision
}
