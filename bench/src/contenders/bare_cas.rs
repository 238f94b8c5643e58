//! The floor: one compare-and-swap on a random slot of a table as large as ours, and nothing else.

use std::sync::atomic::Ordering;

use portable_atomic::AtomicU128;

use crate::rounds::{AnswerCounts, Contender, WorkSlice};

pub(crate) const NAME: &str = "bare CAS";
const AHEAD_NAME: &str = "bare CAS, known ahead";

/// A table of 16-byte slots in memory as it comes from the system, every page
/// touched.
pub(crate) struct BareTable {
    slots: Box<[AtomicU128]>,
    /// Slots for each key, in units of 2⁻³².
    slots_per_key: u64,
}

impl BareTable {
    /// As many slots as ours has for so many keys.
    pub(crate) fn new(keys: u32) -> BareTable {
        let slots = (u64::from(keys) * 10).div_ceil(7);
        let slots_per_key = (slots << 32) / u64::from(keys.max(1));
        BareTable { slots: (0..slots).map(|_| AtomicU128::new(0)).collect(), slots_per_key }
    }

    /// Spreads indexes over all of the table by a multiplication, as ours does with hashes.
    #[inline]
    fn slot(&self, index: u32) -> &AtomicU128 {
        &self.slots[((u64::from(index) * self.slots_per_key) >> 32) as usize]
    }

    /// Adds one to a slot; returns what was there, and whether nobody interfered.
    #[inline]
    fn swap(&self, index: u32) -> (u128, bool) {
        let slot = self.slot(index);
        let seen = slot.load(Ordering::Acquire);
        let next = seen.wrapping_add(1);
        (seen, slot.compare_exchange(seen, next, Ordering::AcqRel, Ordering::Acquire).is_ok())
    }
}

/// One at a time: a place is known only when the swap before it is done, as a request is known only when
/// it has come. What one access to such a table takes.
pub(crate) fn one_at_a_time(table: &BareTable) -> Contender<'_> {
    // A race lost to the other thread counts as denied.
    Contender::new(NAME, |share| in_turn_share(table, share)).estimating()
}

/// The same with all places known ahead, so that the processor fetches several at once: what batches
/// compete with.
pub(crate) fn known_ahead(table: &BareTable) -> Contender<'_> {
    Contender::new(AHEAD_NAME, |share| share.each_index(|index| table.swap(index).1)).estimating()
}

fn in_turn_share(table: &BareTable, share: &WorkSlice<'_>) -> AnswerCounts {
    let mut before = 0;
    share.each_index(|index| {
        // Always zero, since no slot counts that far, but the processor cannot know.
        let nothing = (before >> 96) as u32;
        let (seen, done) = table.swap(index ^ nothing);
        before = seen;
        done
    })
}
