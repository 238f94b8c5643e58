//! What keys share when the table has no slot for them.
//!
//! A key without a slot draws on one bucket that all such keys of its limit
//! share, so that a flood of keys can neither grow memory nor take anybody's
//! place. When such a key gets a slot later, it must not start full: what it took
//! from the shared bucket would be granted twice. [`Debtors`] remembers, within
//! fixed memory, which keys may still owe something.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use portable_atomic::AtomicU128;
use tidegate_core::Nanos;

use super::logs::KeptLog;
use super::probe::Ledger;

/// The shared bucket of a limit.
#[derive(Debug, Default)]
pub(crate) struct Overflow {
    /// A slot like any other, its key the same for all.
    pub(crate) slot: AtomicU128,
    pub(crate) ledger: Ledger,
    /// The same for a limit that keeps a log.
    log: Mutex<KeptLog>,
}

impl Overflow {
    pub(crate) fn log(&self) -> MutexGuard<'_, KeptLog> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The fewest and the most cells; one for every sixteen keys in between.
const CELLS: (usize, usize) = (64, 65_536);

/// Until when keys may owe their overflow bucket something: by hash, so several
/// keys share a cell, which can only make one wait for another.
#[derive(Debug)]
pub(crate) struct Debtors {
    cells: Box<[AtomicU64]>,
    /// How many charges found no room of their own.
    overflows: AtomicU64,
}

impl Debtors {
    pub(crate) fn new(max_keys: usize) -> Debtors {
        let cells = (max_keys / 16).clamp(CELLS.0, CELLS.1);
        Debtors { cells: (0..cells).map(|_| AtomicU64::new(0)).collect(), overflows: AtomicU64::new(0) }
    }

    /// A charge finds no room of its own.
    pub(crate) fn count_overflow(&self) {
        self.overflows.fetch_add(1, Ordering::Relaxed);
    }

    /// How many charges found no room of their own.
    pub(crate) fn overflows(&self) -> u64 {
        self.overflows.load(Ordering::Relaxed)
    }

    /// The key drew on its overflow bucket, which will be full at `until`.
    pub(crate) fn owes(&self, hash: u64, until: Nanos) {
        self.cell(hash).fetch_max(until.get(), Ordering::Relaxed);
    }

    /// May the key still owe something? Once the bucket that it drew on would be
    /// full, so would its own.
    pub(crate) fn may_owe(&self, hash: u64, now: Nanos) -> bool {
        self.cell(hash).load(Ordering::Relaxed) > now.get()
    }

    fn cell(&self, hash: u64) -> &AtomicU64 {
        &self.cells[(hash % self.cells.len() as u64) as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_debt_is_remembered_until_it_is_made_good() {
        let debtors = Debtors::new(1_000);
        debtors.owes(7, Nanos::from_secs(10));
        debtors.owes(7, Nanos::from_secs(5));
        assert!(debtors.may_owe(7, Nanos::from_secs(9)));
        assert!(!debtors.may_owe(7, Nanos::from_secs(10)));
        assert!(!debtors.may_owe(8, Nanos::from_secs(9)));
    }
}
