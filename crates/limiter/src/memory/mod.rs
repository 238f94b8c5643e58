//! The memory store: one cache miss per decision, no locks, fixed size.
//!
//! - [`hashed_key`] is a key as it is looked up, [`slot`] its state in one atomic word, [`probe`] the protocol by which keys share slots,
//!   [`table`] the slots themselves, [`words`] the operations on them by the rules of [`key_rules`].
//! - [`version`] is the data attached to each version of a limit, [`home`] the charge of a slot that was written with
//!   the caller's version, [`migrate`] the migration of one that was written with another, and [`sweep`] that of
//!   all slots and logs of versions that are removed.
//! - [`overflow`] is for keys that find no slot, [`logs`] for sliding logs, which do not fit into a word.
//! - [`window_time`] decides which of the two clocks a limit uses.

mod hashed_key;
mod home;
mod key_rules;
mod logs;
mod migrate;
mod overflow;
mod probe;
mod slot;
mod sweep;
mod table;
mod version;
mod window_time;
mod words;

#[cfg(test)]
mod model_tests;

use std::convert::Infallible;
use std::sync::Mutex;
use std::sync::atomic::Ordering;

use smallvec::SmallVec;
use tidegate_core::{Cost, Limit, LimitDecision, LimitVariant, LogQuota, Nanos, OverrideNumbers};

use crate::charge::{TimedCost, all_or_nothing};
use crate::history::ClockPair;
use crate::{
    Charge, Clock, Intent, LimitError, LimitRef, MonotonicClock, NamedLimit, NowOrLater, Role, Store, Verdict,
};
use logs::{LogContext, Logs};
use overflow::Debtors;
use sweep::Sweep;
use table::SlotTable;
use version::MemoryRegistry;

pub(crate) use hashed_key::HashedKey;
pub(crate) use version::MemoryVersion;
pub(crate) use window_time::{WindowTime, charged_at};

/// The size of a [`Memory`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryOptions {
    /// How many keys can be stored at once, over all limits. Each takes 23 bytes of address space, mapped at
    /// start and used when touched. Beyond that, new keys replace keys whose limit is idle; if there are none,
    /// new keys of a limit share one overflow bucket.
    pub max_keys: usize,
    /// How many 16-byte entries all sliding logs may hold together; each key counts as eight more. While logs
    /// grow they may use up to twice that memory.
    pub max_log_entries: usize,
}

impl Default for MemoryOptions {
    /// One million keys and one million log entries.
    fn default() -> MemoryOptions {
        MemoryOptions { max_keys: 1_000_000, max_log_entries: 1_000_000 }
    }
}

/// Why a [`Memory`] could not be created.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MemoryError {
    /// The system does not provide that much memory.
    #[error("cannot allocate {bytes} bytes for {max_keys} keys, lower `max_keys`: {source}")]
    Allocate {
        /// The size of the slot table.
        bytes: usize,
        /// The number of keys it is for.
        max_keys: usize,
        /// The error of the system.
        source: std::io::Error,
    },
    /// The processor has no 128-bit compare-and-swap.
    #[error("this processor has no 128-bit compare-and-swap, which the memory store needs")]
    Processor,
}

/// Counters of a [`Memory`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryStats {
    /// Keys that have a slot or a log now; some may be idle.
    pub keys: u64,
    /// Idle keys that were forgotten to make room for others.
    pub evictions: u64,
    /// Charges that found no slot or log of their own and went to an overflow bucket, admitted or not.
    pub overflows: u64,
    /// The number of slots.
    pub slots: usize,
    /// Bytes mapped for slots.
    pub bytes: usize,
}

/// A [`Store`] in this process's memory.
///
/// Its size is fixed at start. A key whose limit is idle need not be stored, so its slot can go to another key
/// without loss; if no such slot is near, new keys of a limit share one overflow bucket. So a flood of keys can
/// neither grow memory nor refill any bucket.
#[derive(Debug)]
pub struct Memory<C = MonotonicClock> {
    table: SlotTable,
    logs: Logs,
    registry: MemoryRegistry,
    debtors: Debtors,
    windows: WindowTime,
    /// The removal of versions that nobody uses, while it is under way. Locked after the names of limits.
    sweep: Mutex<Option<Sweep>>,
    clock: C,
}

impl Memory {
    /// A store of the given size on the monotonic clock.
    ///
    /// # Errors
    /// The memory cannot be allocated, or the processor has no 128-bit compare-and-swap.
    pub fn new(options: MemoryOptions) -> Result<Memory, MemoryError> {
        Memory::with_clock(options, MonotonicClock::new())
    }
}

impl<C: Clock> Memory<C> {
    /// A store of the given size on the given clock. The clock is read when a charge is handed back, and for
    /// the wall time of windows; otherwise `now` comes with each call.
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
            sweep: Mutex::default(),
            clock,
        })
    }

    /// [`Store::limits`] without removing what nobody uses any more: for requests that register limits.
    #[cfg_attr(
        not(feature = "policy"),
        expect(dead_code, reason = "only the engine's requests register limits")
    )]
    pub(crate) fn limits_on_request(
        &self,
        limits: &[NamedLimit<'_>],
        now: Nanos,
    ) -> Result<Vec<LimitRef>, LimitError> {
        self.registry.registration().name_all(limits, self.clock_pair(now))
    }

    fn clock_pair(&self, now: Nanos) -> ClockPair {
        ClockPair { steady: now, wall: self.clock.wall_at(now) }
    }

    /// The clock of this store.
    pub fn clock(&self) -> &C {
        &self.clock
    }

    /// The version of a limit registered in this store.
    #[inline]
    pub(crate) fn version<'a>(&self, limit: &'a LimitRef) -> &'a MemoryVersion {
        let version = MemoryVersion::of(limit).filter(|version| self.registry.has_made(version));
        version.expect("a limit is used with the store in which it was registered")
    }

    /// Pretends that all version numbers except `left` have been assigned.
    #[cfg(all(test, feature = "policy"))]
    pub(crate) fn leave_numbers(&self, left: u32) {
        self.registry.leave_numbers(left);
    }

    /// How many charges went to an overflow bucket so far; see [`MemoryStats`].
    pub fn overflows(&self) -> u64 {
        self.debtors.overflows()
    }

    /// Counters of this store.
    pub fn stats(&self) -> MemoryStats {
        MemoryStats {
            keys: self.table.counters.keys() + self.logs.keys() as u64,
            evictions: self.table.counters.evictions.load(Ordering::Relaxed) + self.logs.evictions(),
            overflows: self.debtors.overflows(),
            slots: self.table.slot_count(),
            bytes: self.table.bytes(),
        }
    }

    /// [`Store::charge`], which a memory store always answers at once.
    pub fn charge_now(&self, intent: Intent, charges: &[Charge<'_>], now: Nanos) -> Verdict {
        let keys: SmallVec<[HashedKey<'_>; 8]> =
            charges.iter().map(|charge| HashedKey::new(self.version(charge.limit), charge.key)).collect();
        self.apply_timed(intent, &keys, |i| (charges[i].timed_cost(), charges[i].role), now)
    }

    /// Charges hashed keys. `charge` returns the cost and role of the key at an index.
    pub(crate) fn apply(
        &self,
        intent: Intent,
        keys: &[HashedKey<'_>],
        charge: impl Fn(usize) -> (Cost, Role),
        now: Nanos,
    ) -> Verdict {
        let charge = |i: usize| {
            let (cost, role) = charge(i);
            (TimedCost::now(cost), role)
        };
        self.apply_timed(intent, keys, charge, now)
    }

    fn apply_timed(
        &self,
        intent: Intent,
        keys: &[HashedKey<'_>],
        charge: impl Fn(usize) -> (TimedCost, Role),
        now: Nanos,
    ) -> Verdict {
        if keys.len() > 1 {
            keys.iter().for_each(|&key| self.prefetch_ahead(key));
        }
        let peek = |i: usize| self.peek(keys[i], charge(i).0, now);
        let binding = |i: usize| charge(i).1 == Role::Binding;
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
                |i| self.take_timed(keys[i], charge(i).0, now),
                |i| self.hand_back(keys[i], charge(i).0, now),
            ),
            Intent::Peek => {
                let decisions: SmallVec<[LimitDecision; 8]> = (0..keys.len()).map(peek).collect();
                let allowed = (0..keys.len()).all(|i| !binding(i) || decisions[i].is_allowed());
                Verdict { allowed, decisions, at: now }
            }
            Intent::Refund => {
                (0..keys.len()).for_each(|i| self.refund(keys[i], charge(i).0.cost, now));
                standing(now)
            }
            Intent::HandBack => {
                (0..keys.len()).rev().for_each(|i| self.hand_back(keys[i], charge(i).0, now));
                standing(self.clock.now().max(now))
            }
            Intent::Reset => {
                keys.iter().for_each(|&key| self.reset(key, now));
                standing(now)
            }
        }
    }

    /// Prefetches the home line of a key.
    #[inline]
    pub(crate) fn prefetch(&self, key: HashedKey<'_>) {
        self.table.prefetch(key.hash);
    }

    /// Prefetches the home line of a key and its neighbour, for use when other keys are charged first.
    #[inline]
    pub(crate) fn prefetch_ahead(&self, key: HashedKey<'_>) {
        self.table.prefetch_pair(key.hash);
    }

    /// Takes `cost` from one limit.
    #[inline(always)]
    pub(crate) fn take(&self, key: HashedKey<'_>, cost: Cost, now: Nanos) -> LimitDecision {
        match &key.version.limit {
            Limit::Meter(meter) => self.take_word(key, meter, cost, now),
            Limit::Log(quota) => self.take_log(key, quota, TimedCost::now(cost), now),
        }
    }

    /// Kept out of line, because words are faster without this code beside them.
    #[inline(never)]
    fn take_log(&self, key: HashedKey<'_>, quota: &LogQuota, timed: TimedCost, now: Nanos) -> LimitDecision {
        self.logs.take(&self.log_context(), &key.logged(quota, now), timed)
    }

    /// [`Memory::take`] for a charge that may be delayed.
    fn take_timed(&self, key: HashedKey<'_>, timed: TimedCost, now: Nanos) -> LimitDecision {
        if timed.delay == Nanos::ZERO {
            return self.take(key, timed.cost, now);
        }
        match &key.version.limit {
            Limit::Meter(meter) => self.take_word_ahead(key, meter, timed, now),
            Limit::Log(quota) => self.take_log(key, quota, timed, now),
        }
    }

    /// The decision that a take would return, without taking anything.
    pub(crate) fn peek(&self, key: HashedKey<'_>, timed: TimedCost, now: Nanos) -> LimitDecision {
        match &key.version.limit {
            Limit::Meter(meter) => self.peek_word(key, meter, timed, now),
            Limit::Log(quota) => self.logs.peek(&self.log_context(), &key.logged(quota, now), timed),
        }
    }

    /// Gives `cost` back to one limit.
    pub(crate) fn refund(&self, key: HashedKey<'_>, cost: Cost, now: Nanos) {
        match &key.version.limit {
            Limit::Meter(_) => self.refund_word(key, cost, now),
            Limit::Log(quota) => self.logs.refund(&self.log_context(), &key.logged(quota, now), cost),
        }
    }

    /// Undoes a charge made at `charged_at`.
    pub(crate) fn hand_back(&self, key: HashedKey<'_>, timed: TimedCost, charged_at: Nanos) {
        let now = self.clock.now().max(charged_at);
        match &key.version.limit {
            Limit::Meter(_) => self.hand_back_word(key, timed, charged_at, now),
            Limit::Log(quota) => {
                self.logs.hand_back(&self.log_context(), &key.logged(quota, now), timed, charged_at);
            }
        }
    }

    fn log_context(&self) -> LogContext<'_> {
        LogContext { reader: self.registry.read(), debtors: &self.debtors, clock: &self.clock }
    }
}

impl<C: Clock> Store for Memory<C> {
    type Error = Infallible;

    fn limits(&self, limits: &[NamedLimit<'_>], now: Nanos) -> Result<Vec<LimitRef>, LimitError> {
        let mut registration = self.registry.registration();
        let mut named = registration.name_all(limits, self.clock_pair(now));
        if let Err(LimitError::TooMany { .. }) = named {
            self.reclaim_all(&mut registration, now);
            named = registration.name_all(limits, self.clock_pair(now));
        }
        self.reclaim_some(&mut registration, now);
        named
    }

    fn check_limits(&self, limits: &[NamedLimit<'_>]) -> Result<(), LimitError> {
        self.registry.check_all(limits)
    }

    fn variant(&self, limit: &LimitRef, variant: LimitVariant) -> Result<LimitRef, LimitError> {
        self.registry.variant(limit, variant)
    }

    fn expect_overrides(&self, limit: &LimitRef, numbers: &[OverrideNumbers]) {
        self.registry.expect_overrides(limit, numbers);
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

    fn pace(&self, charge: &Charge<'_>, delayed: u64, now: Nanos) -> Option<Nanos> {
        let key = HashedKey::new(self.version(charge.limit), charge.key);
        match &key.version.limit {
            Limit::Meter(_) => self.pace_word(key, charge.cost, delayed, now),
            Limit::Log(_) => None,
        }
    }
}
