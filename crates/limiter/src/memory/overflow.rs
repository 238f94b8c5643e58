//! What keys share when the table has no slot for them.
//!
//! A key without a slot draws on one bucket that all such keys of its limit
//! share, so that a flood of keys can neither grow memory nor take anybody's
//! place. When such a key gets a slot later, it must not start full: what it took
//! from the shared bucket would be granted twice. [`Debtors`] remembers, within
//! fixed memory, which keys may still owe something.
//!
//! A debt is one key's, under one limit, and of one kind: a limit that was edited
//! from one that keeps words to one that keeps logs has a shared bucket of each.
//! Only what is admitted makes a debt, and until the shared bucket is full again
//! that is at most twice what it holds, so there are few. Should there be more
//! than cells, the limit that has no cell left for one takes all its keys for
//! debtors until then. That makes them wait for each other, and nobody else.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use portable_atomic::AtomicU128;
use tidegate_core::Nanos;

use super::logs::KeptLog;
use super::probe::TableCounters;

/// The shared bucket of a limit.
#[derive(Debug, Default)]
pub(crate) struct Overflow {
    /// A slot like any other, its key the same for all.
    pub(crate) slot: AtomicU128,
    pub(crate) ledger: TableCounters,
    /// The same for a limit that keeps a log.
    log: Mutex<KeptLog>,
    /// Until when every key may owe something, of either kind.
    all_owe: [AtomicU64; 2],
}

impl Overflow {
    pub(crate) fn log(&self) -> MutexGuard<'_, KeptLog> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Which of the two that a limit has was drawn on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DebtKind {
    Slot,
    Log,
}

/// A key that may have drawn on the shared bucket of its limit.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Debtor<'a> {
    pub(crate) overflow: &'a Overflow,
    pub(crate) kind: DebtKind,
    /// Of the key under its limit's own secret: it tells the limit, too.
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

/// The fewest and the most cells; one for every sixteen keys in between.
const CELLS: (usize, usize) = (64, 65_536);
/// How many cells a debt may be in.
const SET: usize = 8;

/// Until when keys may owe their overflow bucket something.
#[derive(Debug)]
pub(crate) struct Debtors {
    /// Who, and until when, in one word. One whose time has passed is free.
    cells: Box<[AtomicU128]>,
    /// How many charges found no room of their own.
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

    /// A charge finds no room of its own.
    pub(crate) fn count_overflow(&self) {
        self.overflows.fetch_add(1, Ordering::Relaxed);
    }

    /// How many charges found no room of their own.
    pub(crate) fn overflows(&self) -> u64 {
        self.overflows.load(Ordering::Relaxed)
    }

    /// The key drew on its overflow bucket, which will be full at `until`. Debts of
    /// windows end by the wall clock and all others by the steady one, so a cell is
    /// free once both have passed its end: `now` is the earlier of the two.
    pub(crate) fn owes(&self, debtor: Debtor<'_>, until: Nanos, now: Nanos) {
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

    /// May the key still owe something? Once the bucket that it drew on would be
    /// full, so would its own.
    pub(crate) fn may_owe(&self, debtor: Debtor<'_>, now: Nanos) -> bool {
        let name = debtor.name();
        let owes = |cell: &AtomicU128| {
            let (holder, until) = unpack(cell.load(Ordering::Relaxed));
            holder == name && until > now
        };
        debtor.all_owe().load(Ordering::Relaxed) > now.get() || self.set(name).iter().any(owes)
    }

    /// The cells that a debt may be in.
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
        debtors.owes(debtor(7), at(10), at(1));
        debtors.owes(debtor(7), at(5), at(1));
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
            debtors.owes(debtor(&flooded, hash), at(10), at(1));
        }
        for hash in 0..20_000 {
            assert!(debtors.may_owe(debtor(&flooded, hash), at(9)), "no debt is forgotten");
            assert!(!debtors.may_owe(debtor(&other, hash << 32 | 1 << 60), at(9)), "a debt of others");
        }
        let slot = Debtor { kind: DebtKind::Slot, ..debtor(&flooded, 1 << 60) };
        assert!(!debtors.may_owe(slot, at(9)));
        assert!(!debtors.may_owe(debtor(&flooded, 1), at(10)), "made good");
        debtors.owes(debtor(&other, 3), at(20), at(10));
        assert!(debtors.may_owe(debtor(&other, 3), at(19)) && !debtors.may_owe(debtor(&other, 4), at(19)));
    }
}
