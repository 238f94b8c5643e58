//! The memory store: every decision one cache miss, no lock, no growth.
//!
//! - [`slot`] is one key's state in one atomic word, [`probe`] the protocol by
//!   which keys share slots, [`table`] the slots themselves, [`words`] what is
//!   done with them.
//! - [`version`] is what it keeps with each version of a limit, [`bring_up`] what
//!   becomes of a slot that is found under another one.
//! - [`overflow`] serves keys that find no slot,
//!   [`logs`] keeps what does not fit a word.
//! - [`window_time`] tells which of the two clocks a limit goes by.

mod logs;
mod migrate;
mod overflow;
mod probe;
mod slot;
mod table;
mod version;
mod window_time;
mod words;

#[cfg(test)]
mod model_tests;

use std::convert::Infallible;
use std::hash::Hash;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use smallvec::SmallVec;
use tidegate_core::{Cost, Limit, LimitDecision, LogQuota, Nanos};

use crate::charge::{TimedCost, all_or_nothing};
use crate::history::ClockPair;
use crate::{
    Charge, Clock, Intent, LimitError, LimitRef, MonotonicClock, NamedLimit, NowOrLater, Role, Store, Verdict,
};
use logs::{LogKey, Logging, Logs};
use overflow::Debtors;
use table::SlotTable;
use version::MemoryRegistry;

pub(crate) use version::MemoryVersion;
pub(crate) use window_time::{WindowTime, charged_at};

/// How large a [`Memory`] may grow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryOptions {
    /// How many keys can be told apart at once, over all limits. Each takes 23
    /// bytes, reserved at start and used when touched. Beyond it, keys whose
    /// limit is idle make way; if there are none, new keys share.
    pub max_keys: usize,
    /// How many 16-byte entries all sliding logs may hold together; each key
    /// counts for eight more. Memory is at most twice that while logs grow.
    pub max_log_entries: usize,
}

impl Default for MemoryOptions {
    /// One million keys and one million log entries.
    fn default() -> MemoryOptions {
        MemoryOptions { max_keys: 1_000_000, max_log_entries: 1_000_000 }
    }
}

/// Why there is no [`Memory`].
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MemoryError {
    /// The system does not reserve so much.
    #[error("cannot reserve {bytes} bytes for {max_keys} keys, try fewer `max_keys`: {source}")]
    Reserve {
        /// How much was asked for.
        bytes: usize,
        /// What for.
        max_keys: usize,
        /// What the system says.
        source: std::io::Error,
    },
    /// The processor lacks what slots need.
    #[error("this processor has no 128-bit compare-and-swap, which the memory store needs")]
    Processor,
}

/// What a [`Memory`] has been through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryStats {
    /// Keys that have a slot or a log now; some may be idle.
    pub keys: u64,
    /// Idle keys whose slot went to another.
    pub evictions: u64,
    /// Charges that found no room of their own and went to an overflow bucket,
    /// admitted or not.
    pub overflows: u64,
    /// How many keys could have a slot at once.
    pub slots: usize,
    /// Bytes reserved for slots.
    pub bytes: usize,
}

/// A [`Store`] in this process's memory.
///
/// Its size is set at start. A key whose limit is idle carries no information,
/// so its slot can go to another without loss; when no such slot is near, new
/// keys of a limit share one bucket. A flood of keys can therefore neither grow
/// memory nor refill anybody's bucket.
#[derive(Debug)]
pub struct Memory<C = MonotonicClock> {
    table: SlotTable,
    logs: Logs,
    registry: MemoryRegistry,
    debtors: Debtors,
    windows: WindowTime,
    clock: C,
}

/// A key of one limit, hashed.
#[derive(Clone, Copy)]
pub(crate) struct HashedKey<'a> {
    pub(crate) version: &'a Arc<MemoryVersion>,
    pub(crate) hash: u64,
}

impl<'a> HashedKey<'a> {
    fn logged(self, quota: &'a LogQuota, now: Nanos) -> LogKey<'a> {
        LogKey { hash: self.hash, version: self.version, quota, now }
    }

    #[inline]
    pub(crate) fn new<K: Hash + ?Sized>(version: &'a Arc<MemoryVersion>, key: &K) -> HashedKey<'a> {
        HashedKey { version, hash: version.data.hash(key) }
    }
}

impl Memory {
    /// A store of the given size on the monotonic clock.
    ///
    /// # Errors
    /// When the memory cannot be reserved, or the processor has no 128-bit compare-and-swap.
    pub fn new(options: MemoryOptions) -> Result<Memory, MemoryError> {
        Memory::with_clock(options, MonotonicClock::new())
    }
}

impl<C: Clock> Memory<C> {
    /// A store of the given size on a clock of yours. The clock is read when a
    /// charge is handed back, and asked for the wall clock's time where windows are
    /// counted; otherwise `now` comes with each call.
    ///
    /// # Errors
    /// As [`Memory::new`].
    pub fn with_clock(options: MemoryOptions, clock: C) -> Result<Memory<C>, MemoryError> {
        Ok(Memory {
            table: SlotTable::new(options.max_keys)?,
            logs: Logs::new(options.max_log_entries),
            registry: MemoryRegistry::default(),
            debtors: Debtors::new(options.max_keys),
            windows: WindowTime::default(),
            clock,
        })
    }

    /// Forgets limits whose keys are all idle at `now`, and that have neither
    /// edits, variants nor logs. What was known of them must not be used again:
    /// their numbers are others' from now on.
    #[cfg_attr(not(feature = "policy"), expect(dead_code, reason = "only ad-hoc limits are forgotten"))]
    pub(crate) fn forget(&mut self, versions: &[u32], now: Nanos) {
        let highest = versions.iter().copied().max().unwrap_or_default();
        let mut dead = vec![false; highest as usize + 1];
        versions.iter().for_each(|&version| dead[version as usize] = true);
        let wall = self.clock.wall_at(now);
        self.table.forget(|version| dead.get(version as usize).is_some_and(|dead| *dead), now, wall);
        self.registry.forget(versions);
    }

    /// The clock it was made with.
    pub fn clock(&self) -> &C {
        &self.clock
    }

    /// What the store knows of a limit that it named.
    pub(crate) fn version(&self, limit: &LimitRef) -> &Arc<MemoryVersion> {
        self.registry.get(limit.id())
    }

    /// As if all numbers of limits but so many had been given out.
    #[cfg(all(test, feature = "policy"))]
    pub(crate) fn leave_numbers(&self, left: u32) {
        self.registry.leave_numbers(left);
    }

    /// How many charges found no room of their own so far; see [`MemoryStats`].
    pub fn overflows(&self) -> u64 {
        self.debtors.overflows()
    }

    /// Its numbers.
    pub fn stats(&self) -> MemoryStats {
        MemoryStats {
            keys: self.table.ledger.keys() + self.logs.keys() as u64,
            evictions: self.table.ledger.evictions.load(Ordering::Relaxed),
            overflows: self.debtors.overflows(),
            slots: self.table.slot_count(),
            bytes: self.table.bytes(),
        }
    }

    /// [`Store::charge`], which a store in memory answers at once.
    pub fn charge_now(&self, intent: Intent, charges: &[Charge<'_>], now: Nanos) -> Verdict {
        let key = |charge: &Charge<'_>| HashedKey::new(self.version(charge.limit), charge.key);
        let keys: SmallVec<[HashedKey<'_>; 8]> = charges.iter().map(key).collect();
        self.apply_asked(intent, &keys, |i| (charges[i].ask(), charges[i].role), now)
    }

    /// Charges hashed keys. What `ask` says is that key's cost and role.
    pub(crate) fn apply(
        &self,
        intent: Intent,
        keys: &[HashedKey<'_>],
        ask: impl Fn(usize) -> (Cost, Role),
        now: Nanos,
    ) -> Verdict {
        let ask = |i: usize| {
            let (cost, role) = ask(i);
            (TimedCost::now(cost), role)
        };
        self.apply_asked(intent, keys, ask, now)
    }

    fn apply_asked(
        &self,
        intent: Intent,
        keys: &[HashedKey<'_>],
        ask: impl Fn(usize) -> (TimedCost, Role),
        now: Nanos,
    ) -> Verdict {
        if keys.len() > 1 {
            keys.iter().for_each(|&key| self.prefetch_ahead(key));
        }
        let peek = |i: usize| self.peek(keys[i], ask(i).0, now);
        let binding = |i: usize| ask(i).1 == Role::Binding;
        let standing = |now: Nanos| Verdict {
            allowed: true,
            decisions: keys.iter().map(|&key| self.peek(key, TimedCost::now(Cost::ZERO), now)).collect(),
            at: now,
        };
        match intent {
            Intent::Take => all_or_nothing(
                keys.len(),
                now,
                binding,
                peek,
                |i| self.take_asked(keys[i], ask(i).0, now),
                |i| self.hand_back(keys[i], ask(i).0, now),
            ),
            Intent::Peek => {
                let decisions: SmallVec<[LimitDecision; 8]> = (0..keys.len()).map(peek).collect();
                let allowed = (0..keys.len()).all(|i| !binding(i) || decisions[i].is_allowed());
                Verdict { allowed, decisions, at: now }
            }
            Intent::Refund => {
                (0..keys.len()).for_each(|i| self.refund(keys[i], ask(i).0.cost, now));
                standing(now)
            }
            Intent::HandBack => {
                (0..keys.len()).rev().for_each(|i| self.hand_back(keys[i], ask(i).0, now));
                standing(self.clock.now().max(now))
            }
        }
    }

    /// Starts to fetch the key's slot into the cache.
    #[inline]
    pub(crate) fn prefetch(&self, key: HashedKey<'_>) {
        self.table.prefetch(key.hash);
    }

    /// The same, a little more of it, for when other keys come first.
    #[inline]
    pub(crate) fn prefetch_ahead(&self, key: HashedKey<'_>) {
        self.table.prefetch_pair(key.hash);
    }

    /// Takes `cost` from one limit.
    #[inline(always)]
    pub(crate) fn take(&self, key: HashedKey<'_>, cost: Cost, now: Nanos) -> LimitDecision {
        match &key.version.limit {
            Limit::Meter(meter) => self.take_word(key, meter, cost, now),
            Limit::Log(quota) => {
                self.logs.take(&self.logging(), &key.logged(quota, now), TimedCost::now(cost))
            }
        }
    }

    /// The same as of then or later.
    fn take_asked(&self, key: HashedKey<'_>, ask: TimedCost, now: Nanos) -> LimitDecision {
        if ask.delay == Nanos::ZERO {
            return self.take(key, ask.cost, now);
        }
        match &key.version.limit {
            Limit::Meter(_) => self.take_word_ahead(key, ask, now),
            Limit::Log(quota) => self.logs.take(&self.logging(), &key.logged(quota, now), ask),
        }
    }

    /// What a take would say, with nothing taken.
    pub(crate) fn peek(&self, key: HashedKey<'_>, ask: TimedCost, now: Nanos) -> LimitDecision {
        match &key.version.limit {
            Limit::Meter(_) => self.peek_word(key, ask, now),
            Limit::Log(quota) => self.logs.peek(&self.logging(), &key.logged(quota, now), ask),
        }
    }

    /// Gives `cost` back to one limit.
    pub(crate) fn refund(&self, key: HashedKey<'_>, cost: Cost, now: Nanos) {
        match &key.version.limit {
            Limit::Meter(_) => self.refund_word(key, cost, now),
            Limit::Log(quota) => self.logs.refund(&self.logging(), &key.logged(quota, now), cost),
        }
    }

    /// Takes back a charge made at `charged_at`.
    pub(crate) fn hand_back(&self, key: HashedKey<'_>, ask: TimedCost, charged_at: Nanos) {
        let now = self.clock.now().max(charged_at);
        match &key.version.limit {
            Limit::Meter(_) => self.hand_back_word(key, ask, charged_at, now),
            Limit::Log(quota) => {
                self.logs.hand_back(&self.logging(), &key.logged(quota, now), ask, charged_at);
            }
        }
    }

    fn logging(&self) -> Logging<'_> {
        Logging { registry: &self.registry, debtors: &self.debtors, clock: &self.clock }
    }
}

impl<C: Clock> Store for Memory<C> {
    type Error = Infallible;

    fn limits(&self, limits: &[NamedLimit<'_>], now: Nanos) -> Result<Vec<LimitRef>, LimitError> {
        self.registry.name_all(limits, ClockPair { steady: now, wall: self.clock.wall_at(now) })
    }

    fn variant(&self, limit: &LimitRef, trust: u8) -> Result<LimitRef, LimitError> {
        self.registry.variant(limit.id(), trust).map(|variant| variant.handle.clone())
    }

    #[inline]
    fn charge(
        &self,
        intent: Intent,
        charges: &[Charge<'_>],
        now: Nanos,
    ) -> NowOrLater<'_, Result<Verdict, Infallible>> {
        NowOrLater::Now(Ok(self.charge_now(intent, charges, now)))
    }

    fn hand_back(&self, charges: &[Charge<'_>], at: Nanos) {
        let _ = self.charge_now(Intent::HandBack, charges, at);
    }

    fn pace(&self, charge: &Charge<'_>, reserved: u64, now: Nanos) -> Option<Nanos> {
        let key = HashedKey::new(self.version(charge.limit), charge.key);
        match &key.version.limit {
            Limit::Meter(_) => self.pace_word(key, charge.cost, reserved, now),
            Limit::Log(_) => None,
        }
    }
}
