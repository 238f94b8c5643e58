//! The overflow buckets: shared by keys for which the table has no slot.
//!
//! All keys of a limit that have no slot share one bucket, so that a flood of keys can neither grow memory nor
//! push out a key in use. If such a key gets a slot later, it must not start full: what it took from the shared
//! bucket would be granted twice. [`Debtors`] records, in fixed memory, which keys may still owe something.
//!
//! A debt belongs to one key, under one limit, and is of one kind: a limit that was edited from a word to a log
//! has a shared bucket of each kind. Only admitted charges make debts, and until the shared bucket is full
//! again they add up to at most twice its capacity, so debts are few. If there are more of them than cells, the
//! limit that finds no cell treats all its keys as debtors until its shared bucket is full. That slows down the
//! keys of that limit, and no others.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use portable_atomic::AtomicU128;
use tidegate_core::Nanos;

use super::logs::KeptLog;
use super::probe::TableCounters;

/// The overflow bucket of a limit.
#[derive(Debug, Default)]
pub(crate) struct Overflow {
    /// A slot like those of the table; its key is the same for all.
    pub(crate) slot: AtomicU128,
    pub(crate) counters: TableCounters,
    /// The overflow log, if the limit is a sliding log.
    log: Mutex<KeptLog>,
    /// Until when every key may owe something, for each [`DebtKind`].
    all_owe: [AtomicU64; 2],
}

impl Overflow {
    pub(crate) fn log(&self) -> MutexGuard<'_, KeptLog> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Which of a limit's two overflow states was charged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DebtKind {
    Slot,
    Log,
}

/// A key that may have charged the overflow bucket of its limit.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Debtor<'a> {
    pub(crate) overflow: &'a Overflow,
    pub(crate) kind: DebtKind,
    /// The hash of the key under its limit's own secret, so it also identifies the limit.
    pub(crate) hash: u64,
}

impl Debtor<'_> {
    fn name(self) -> u64 {
        match self.kind {
            DebtKind::Slot => self.hash,
            DebtKind::Log => !self.hash,
        }
    }

    fn all_owe(&self) -> &AtomicU64 {
        &self.overflow.all_owe[self.kind as usize]
    }
}

/// The fewest and the most cells; in between there is one for every sixteen keys.
const CELLS: (usize, usize) = (64, 65_536);
/// The number of cells in which a debt may be stored.
const SET: usize = 8;

/// Until when keys may owe their overflow bucket something.
#[derive(Debug)]
pub(crate) struct Debtors {
    /// The debtor and the end of its debt, in one word. A cell whose end has passed is free.
    cells: Box<[AtomicU128]>,
    /// How many charges went to an overflow bucket.
    overflows: AtomicU64,
}

fn pack(name: u64, until: Nanos) -> u128 {
    u128::from(name) << 64 | u128::from(until.get())
}

fn unpack(cell: u128) -> (u64, Nanos) {
    ((cell >> 64) as u64, Nanos::new(cell as u64))
}

impl Debtors {
    pub(crate) fn new(max_keys: usize) -> Debtors {
        let cells = (max_keys / 16).clamp(CELLS.0, CELLS.1).next_multiple_of(SET);
        Debtors { cells: (0..cells).map(|_| AtomicU128::new(0)).collect(), overflows: AtomicU64::new(0) }
    }

    /// Counts a charge that goes to an overflow bucket.
    pub(crate) fn count_overflow(&self) {
        self.overflows.fetch_add(1, Ordering::Relaxed);
    }

    /// How many charges went to an overflow bucket.
    pub(crate) fn overflows(&self) -> u64 {
        self.overflows.load(Ordering::Relaxed)
    }

    /// Records that the key charged its overflow bucket, which will be full at `until`. Debts of windows end by
    /// the wall clock and all others by the monotonic one, so a cell is free once both have passed its end:
    /// `now` is the earlier of the two.
    pub(crate) fn record_debt(&self, debtor: Debtor<'_>, until: Nanos, now: Nanos) {
        let name = debtor.name();
        for cell in self.set(name) {
            let mut seen = cell.load(Ordering::Relaxed);
            loop {
                let (holder, end) = unpack(seen);
                let is_own = holder == name && end > Nanos::ZERO;
                if !is_own && end > now {
                    break;
                }
                if is_own && end >= until {
                    return;
                }
                let next = pack(name, until);
                match cell.compare_exchange_weak(seen, next, Ordering::Relaxed, Ordering::Relaxed) {
                    Ok(_) => return,
                    Err(other) => seen = other,
                }
            }
        }
        debtor.all_owe().fetch_max(until.get(), Ordering::Relaxed);
    }

    /// May the key still owe something? Once the overflow bucket would be full, so would the key's own.
    pub(crate) fn may_owe(&self, debtor: Debtor<'_>, now: Nanos) -> bool {
        let name = debtor.name();
        let record_debt = |cell: &AtomicU128| {
            let (holder, until) = unpack(cell.load(Ordering::Relaxed));
            holder == name && until > now
        };
        debtor.all_owe().load(Ordering::Relaxed) > now.get() || self.set(name).iter().any(record_debt)
    }

    /// The cells in which a debt may be stored.
    fn set(&self, name: u64) -> &[AtomicU128] {
        let sets = (self.cells.len() / SET) as u64;
        let first = (name % sets) as usize * SET;
        &self.cells[first..first + SET]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(secs: u64) -> Nanos {
        Nanos::from_secs(secs)
    }

    #[test]
    fn a_debt_is_remembered_until_it_is_made_good() {
        let (debtors, overflow) = (Debtors::new(1_000), Overflow::default());
        let debtor = |hash| Debtor { overflow: &overflow, kind: DebtKind::Slot, hash };
        debtors.record_debt(debtor(7), at(10), at(1));
        debtors.record_debt(debtor(7), at(5), at(1));
        assert!(debtors.may_owe(debtor(7), at(9)));
        assert!(!debtors.may_owe(debtor(7), at(10)));
        assert!(!debtors.may_owe(debtor(8), at(9)));
        let log = Debtor { kind: DebtKind::Log, ..debtor(7) };
        assert!(!debtors.may_owe(log, at(9)), "a debt of the other kind");
    }

    #[test]
    fn too_many_debts_are_all_of_their_own_limit() {
        let (debtors, flooded, other) = (Debtors::new(0), Overflow::default(), Overflow::default());
        let debtor = |overflow, hash| Debtor { overflow, kind: DebtKind::Log, hash };
        for hash in 0..10_000 {
            debtors.record_debt(debtor(&flooded, hash), at(10), at(1));
        }
        for hash in 0..20_000 {
            assert!(debtors.may_owe(debtor(&flooded, hash), at(9)), "no debt is forgotten");
            assert!(!debtors.may_owe(debtor(&other, hash << 32 | 1 << 60), at(9)), "a debt of others");
        }
        let slot = Debtor { kind: DebtKind::Slot, ..debtor(&flooded, 1 << 60) };
        assert!(!debtors.may_owe(slot, at(9)));
        assert!(!debtors.may_owe(debtor(&flooded, 1), at(10)), "made good");
        debtors.record_debt(debtor(&other, 3), at(20), at(10));
        assert!(debtors.may_owe(debtor(&other, 3), at(19)) && !debtors.may_owe(debtor(&other, 4), at(19)));
    }
}
