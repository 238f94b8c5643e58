//! The lower bound: only one compare-and-swap on a random slot of a table as large as Tidegate's.

use std::sync::atomic::Ordering;

use portable_atomic::AtomicU128;

use crate::rounds::{AnswerCounts, Contender, WorkSlice};

pub(crate) const NAME: &str = "bare CAS";
const AHEAD_NAME: &str = "bare CAS, known ahead";

/// A table of 16-byte slots in ordinary pages (no huge pages), each page touched once.
pub(crate) struct BareTable {
    slots: Box<[AtomicU128]>,
    /// Slots for each key, in units of 2⁻³².
    slots_per_key: u64,
}

impl BareTable {
    /// As many slots as Tidegate's table has for this number of keys.
    pub(crate) fn new(keys: u32) -> BareTable {
        let slots = (u64::from(keys) * 10).div_ceil(7);
        let slots_per_key = (slots << 32) / u64::from(keys.max(1));
        BareTable { slots: (0..slots).map(|_| AtomicU128::new(0)).collect(), slots_per_key }
    }

    /// Maps an index to a slot by a multiplication, as Tidegate does with hashes.
    #[inline]
    fn slot(&self, index: u32) -> &AtomicU128 {
        &self.slots[((u64::from(index) * self.slots_per_key) >> 32) as usize]
    }

    /// Adds one to a slot; returns its old value, and whether the exchange succeeded.
    #[inline]
    fn swap(&self, index: u32) -> (u128, bool) {
        let slot = self.slot(index);
        let seen = slot.load(Ordering::Acquire);
        let next = seen.wrapping_add(1);
        (seen, slot.compare_exchange(seen, next, Ordering::AcqRel, Ordering::Acquire).is_ok())
    }
}

/// One at a time: each slot depends on the previous swap, as a limiter learns each key only from the
/// next request. This is the latency of one access to such a table.
pub(crate) fn one_at_a_time(table: &BareTable) -> Contender<'_> {
    // An exchange that fails because of the other thread counts as denied.
    Contender::new(NAME, |share| in_turn_share(table, share)).estimating()
}

/// The same with all slots known in advance, so that the CPU overlaps several cache misses: the lower
/// bound for batches.
pub(crate) fn known_ahead(table: &BareTable) -> Contender<'_> {
    Contender::new(AHEAD_NAME, |share| share.each_index(|index| table.swap(index).1)).estimating()
}

fn in_turn_share(table: &BareTable, share: &WorkSlice<'_>) -> AnswerCounts {
    let mut before = 0;
    share.each_index(|index| {
        // Always zero, because no slot counts that far, but the compiler and the CPU cannot know.
        let nothing = (before >> 96) as u32;
        let (seen, done) = table.swap(index ^ nothing);
        before = seen;
        done
    })
}
