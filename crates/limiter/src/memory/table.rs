//! The slots: one flat run of 16-byte atomics, four to a cache line.
//!
//! A key's window is a run of neighbouring cache lines, so that a decision
//! usually costs one cache miss. The place comes from the top of the hash by
//! multiplication, so any number of lines will do.
//!
//! This is the one file with `unsafe`; each use says why it holds.

use portable_atomic::AtomicU128;

use super::probe::Ledger;

/// Slots in a cache line.
const LINE: usize = 4;
/// Cache lines that a key may live in.
const WINDOW_LINES: usize = 8;

/// The table of a memory store.
#[derive(Debug)]
pub(crate) struct Table {
    slots: Box<[AtomicU128]>,
    /// The first slot that begins a cache line.
    first: usize,
    lines: usize,
    window: usize,
    pub(crate) ledger: Ledger,
}

impl Table {
    /// A table for `max_keys`: one slot in 0.7 of them stays free, so that keys
    /// find a place near where they belong.
    pub(crate) fn new(max_keys: usize) -> Table {
        assert!(
            AtomicU128::is_lock_free(),
            "this processor has no 128-bit compare-and-swap, which the memory store needs"
        );
        let lines = max_keys.max(1).saturating_mul(10).div_ceil(7).div_ceil(LINE);
        let window_lines = lines.min(WINDOW_LINES);
        let slots = zeroed_slots((lines + window_lines - 1).saturating_mul(LINE) + LINE - 1);
        let first = slots.as_ptr().align_offset(size_of::<[AtomicU128; LINE]>()).min(LINE - 1);
        Table { slots, first, lines, window: window_lines * LINE, ledger: Ledger::default() }
    }

    /// The slots that a key of this hash may live in.
    #[inline]
    pub(crate) fn window(&self, hash: u64) -> &[AtomicU128] {
        let place = self.place(hash);
        &self.slots[place..place + self.window]
    }

    /// Starts to fetch the window into the cache.
    #[inline]
    pub(crate) fn prefetch(&self, hash: u64) {
        prefetch(&self.slots[self.place(hash)]);
    }

    /// Bytes that the slots take.
    pub(crate) fn bytes(&self) -> usize {
        size_of_val(&*self.slots)
    }

    #[inline]
    fn place(&self, hash: u64) -> usize {
        let line = ((u128::from(hash) * self.lines as u128) >> 64) as usize;
        self.first + line * LINE
    }
}

/// Slots of zero bits, in memory that the system hands out only when touched.
fn zeroed_slots(count: usize) -> Box<[AtomicU128]> {
    let slots = Box::<[AtomicU128]>::new_zeroed_slice(count);
    // SAFETY: `AtomicU128` has the same in-memory representation as `u128`, for
    // which all zero bits are the valid value 0.
    unsafe { slots.assume_init() }
}

#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn prefetch(slot: &AtomicU128) {
    use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
    // SAFETY: prefetching reads nothing and never faults, whatever the address;
    // SSE, which it needs, is part of x86-64.
    unsafe { _mm_prefetch::<_MM_HINT_T0>(core::ptr::from_ref(slot).cast()) }
}

/// Elsewhere a plain load brings the line in.
#[cfg(not(target_arch = "x86_64"))]
#[inline(always)]
fn prefetch(slot: &AtomicU128) {
    core::hint::black_box(slot.load(core::sync::atomic::Ordering::Relaxed));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_window_begins_a_cache_line_and_lies_within_the_table() {
        for max_keys in [0, 1, 3, 5, 28, 1_000, 100_003] {
            let table = Table::new(max_keys);
            for hash in [0, 1, u64::MAX / 3, u64::MAX / 2, u64::MAX] {
                let window = table.window(hash);
                assert_eq!(window.as_ptr() as usize % 64, 0, "{max_keys} keys");
                assert!(!window.is_empty() && window.len() <= WINDOW_LINES * LINE);
                table.prefetch(hash);
            }
        }
    }

    #[test]
    fn a_key_costs_under_24_bytes() {
        assert!(Table::new(4_000_000).bytes() < 4_000_000 * 24);
    }
}
