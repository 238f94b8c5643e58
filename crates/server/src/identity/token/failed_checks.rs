//! Limits failed signature checks per client address. A check is the most expensive part of a request, so an address
//! that sends invalid tokens gets only a bounded number of checks per second.

use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};

use tidegate::Nanos;

use crate::bounds::FAILED_CHECKS_PER_SECOND_MAX;

/// Number of cells. An address that falls into the cell of another one takes it over and restarts the count, which can
/// only lead to more checks.
const CELLS: usize = 4_096;

/// Each cell holds a hash of the address and the second it belongs to, and the number of checks that failed in it.
#[derive(Debug)]
pub(crate) struct FailedChecks {
    hasher: RandomState,
    cells: Box<[AtomicU64]>,
}

const COUNT_BITS: u32 = 16;
const COUNT_MASK: u64 = (1 << COUNT_BITS) - 1;

const _: () = assert!(FAILED_CHECKS_PER_SECOND_MAX <= COUNT_MASK);

impl FailedChecks {
    pub(crate) fn new() -> FailedChecks {
        FailedChecks { hasher: RandomState::new(), cells: (0..CELLS).map(|_| AtomicU64::new(0)).collect() }
    }

    /// May another signature from this address be checked now?
    pub(crate) fn may_check(&self, address: IpAddr, now: Nanos) -> bool {
        let (cell, owner) = self.cell(address, now);
        let seen = cell.load(Ordering::Relaxed);
        seen & !COUNT_MASK != owner || seen & COUNT_MASK < FAILED_CHECKS_PER_SECOND_MAX
    }

    /// Counts a failed check.
    pub(crate) fn failed(&self, address: IpAddr, now: Nanos) {
        let (cell, owner) = self.cell(address, now);
        let more = |seen: u64| {
            let count = if seen & !COUNT_MASK == owner { seen & COUNT_MASK } else { 0 };
            Some(owner | (count + 1).min(COUNT_MASK))
        };
        _ = cell.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more);
    }

    /// The cell of an address, and the owner bits it holds while it belongs to this address and second.
    fn cell(&self, address: IpAddr, now: Nanos) -> (&AtomicU64, u64) {
        let hash = self.hasher.hash_one(address);
        let second = now.get() / Nanos::SECOND.get();
        let owner = self.hasher.hash_one((hash, second)) & !COUNT_MASK;
        (&self.cells[(hash % CELLS as u64) as usize], owner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_so_many_a_second_and_takes_none_from_others() {
        let (failed_checks, now) = (FailedChecks::new(), Nanos::from_secs(1_800_000_000));
        let (one, other) = (IpAddr::from([192, 0, 2, 1]), IpAddr::from([192, 0, 2, 2]));
        for _ in 0..FAILED_CHECKS_PER_SECOND_MAX {
            assert!(failed_checks.may_check(one, now));
            failed_checks.failed(one, now);
        }
        assert!(!failed_checks.may_check(one, now));
        assert!(failed_checks.may_check(other, now));
        assert!(failed_checks.may_check(one, now.saturating_add(Nanos::SECOND)), "until the second is over");
    }
}
