//! The slots: one flat array of 16-byte atomics, four to a cache line.
//!
//! The window of a key is its home line and the neighbour of that line, then four more such pairs, far apart.
//! Most keys are in their home line, so a decision costs one cache miss. If the window were one contiguous run
//! instead, full stretches would grow together, and at a load of 0.7 a few percent of the keys would find no
//! slot; with distant pairs it is a few in ten thousand.
//!
//! This is the only file with `unsafe`; each use states why it is sound.

use memmap2::MmapMut;
use portable_atomic::AtomicU128;

use super::MemoryError;
use super::probe::{SlotWindow, TableCounters};
use super::slot::{Slot, SlotEntry};
use crate::Nanos;

/// Slots in a cache line.
const LINE: usize = 4;
/// Slots in a pair of lines.
const PAIR: usize = 2 * LINE;
/// Lines in a window, if the table has that many.
const WINDOW_LINES: usize = 10;

/// The table of a memory store.
#[derive(Debug)]
pub(crate) struct SlotTable {
    /// Memory mapped from the system: page-aligned, zeroed, and allocated only when touched, which memory
    /// recycled by the allocator would not be.
    memory: MmapMut,
    /// The number of pairs: divisible neither by two nor by three, see [`TableWindow::far_pair`].
    pairs: u64,
    pub(crate) counters: TableCounters,
}

impl SlotTable {
    /// A table for `max_keys` keys, which then fill seven slots of ten: the rest stays free, so that most keys
    /// find a slot near their home line.
    ///
    /// # Errors
    /// The system does not provide that much memory, or the processor has no 128-bit compare-and-swap.
    pub(crate) fn new(max_keys: usize) -> Result<SlotTable, MemoryError> {
        if !AtomicU128::is_lock_free() {
            return Err(MemoryError::Processor);
        }
        let mut pairs = max_keys.max(1).saturating_mul(10).div_ceil(7).div_ceil(PAIR);
        while pairs.is_multiple_of(2) || pairs.is_multiple_of(3) {
            pairs += 1;
        }
        let bytes = pairs.saturating_mul(size_of::<[AtomicU128; PAIR]>());
        let memory =
            MmapMut::map_anon(bytes).map_err(|source| MemoryError::Allocate { bytes, max_keys, source })?;
        assert!(memory.len() == bytes, "the mapping has the size that was requested");
        advise_huge_pages(&memory);
        Ok(SlotTable { memory, pairs: pairs as u64, counters: TableCounters::default() })
    }

    #[inline(always)]
    fn slots(&self) -> &[AtomicU128] {
        // SAFETY: the mapping begins at a page, so it is aligned; its length is `memory.len()` bytes and it
        // lives as long as `self`. It starts as zeros, and every bit pattern is a valid `AtomicU128`. Nothing
        // else reads or writes it, and through this slice it is only written atomically.
        unsafe {
            let slots = self.memory.as_ptr().cast::<AtomicU128>();
            std::slice::from_raw_parts(slots, self.memory.len() / size_of::<AtomicU128>())
        }
    }

    /// The slots in which a key with this hash may be stored.
    #[inline]
    pub(crate) fn window(&self, hash: u64) -> TableWindow<'_> {
        TableWindow { table: self, hash, home: scale(hash, self.pairs), flip: hash & 1 }
    }

    /// Prefetches the home line of a key.
    #[inline]
    pub(crate) fn prefetch(&self, hash: u64) {
        let window = self.window(hash);
        self.prefetch_line(window.home, window.flip);
    }

    /// Prefetches the home line and its neighbour, if there is time for both.
    #[inline]
    pub(crate) fn prefetch_pair(&self, hash: u64) {
        let window = self.window(hash);
        self.prefetch_line(window.home, window.flip);
        self.prefetch_line(window.home, window.flip ^ 1);
    }

    /// Frees the slots, claims included, of versions whose keys are all idle at `now`. Scans the whole table.
    pub(crate) fn forget(&mut self, is_dead: impl Fn(u32) -> bool, now: Nanos, wall: Nanos) {
        self.counters.record_eviction_time(now, wall);
        for slot in self.slots() {
            let entry = slot.get();
            if entry.is_empty() || entry.is_dead() || !is_dead(entry.tag.version()) {
                continue;
            }
            slot.replace(entry, SlotEntry::DEAD).expect("`&mut self` excludes other threads");
            if !entry.is_claim() {
                self.counters.count_eviction();
            }
        }
    }

    /// All slots from an index on, in pieces of this size.
    pub(crate) fn pieces(&self, from: usize, size: usize) -> impl Iterator<Item = &[AtomicU128]> {
        self.slots().get(from..).unwrap_or_default().chunks(size)
    }

    /// The number of slots.
    pub(crate) fn slot_count(&self) -> usize {
        self.slots().len()
    }

    /// Bytes that the slots take.
    pub(crate) fn bytes(&self) -> usize {
        self.memory.len()
    }

    #[inline]
    fn line(&self, pair: u64, half: u64) -> &[AtomicU128] {
        let start = pair as usize * PAIR + half as usize * LINE;
        &self.slots()[start..start + LINE]
    }

    #[inline]
    fn prefetch_line(&self, pair: u64, half: u64) {
        prefetch(&self.line(pair, half)[0]);
    }
}

/// The window of one key.
pub(crate) struct TableWindow<'a> {
    table: &'a SlotTable,
    hash: u64,
    home: u64,
    /// Which line of a pair is searched first.
    flip: u64,
}

impl SlotWindow for TableWindow<'_> {
    type Slot = AtomicU128;

    #[inline]
    fn line(&self, index: usize) -> Option<&[AtomicU128]> {
        let half = index as u64 & 1 ^ self.flip;
        if index < 2 {
            return Some(self.table.line(self.home, half));
        }
        let far = self.table.pairs > 1 && index < WINDOW_LINES;
        far.then(|| self.table.line(self.far_pair(index as u64 / 2), half))
    }

    fn prefetch_far(&self) {
        if self.table.pairs > 1 {
            for index in 1..WINDOW_LINES as u64 / 2 {
                self.table.prefetch_line(self.far_pair(index), self.flip);
            }
        }
    }
}

impl TableWindow<'_> {
    /// The distant pairs: at equal steps from the home pair, with a step from other bits of the hash. Neither
    /// two nor three divides the number of pairs, and the step is smaller than that number, so one to four
    /// steps lead to different pairs.
    #[cold]
    fn far_pair(&self, index: u64) -> u64 {
        let step = 1 + scale(self.hash.rotate_left(32), self.table.pairs - 1);
        (self.home + index * step) % self.table.pairs
    }
}

/// `hash` as a fraction of 2⁶⁴, times `range`; works for any range.
#[inline]
fn scale(hash: u64, range: u64) -> u64 {
    ((u128::from(hash) * u128::from(range)) >> 64) as u64
}

/// The largest table for which huge pages are requested. They save page-table walks, but are allocated two
/// megabytes at a time, which would waste memory in a large table with few keys.
const HUGE_PAGES_MAX: usize = 128 << 20;

/// Requests huge pages. If the system has none or refuses, nothing changes.
fn advise_huge_pages(memory: &MmapMut) {
    #[cfg(target_os = "linux")]
    if memory.len() <= HUGE_PAGES_MAX {
        let _ = memory.advise(memmap2::Advice::HugePage);
    }
    #[cfg(not(target_os = "linux"))]
    let _ = (memory, HUGE_PAGES_MAX);
}

#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn prefetch(slot: &AtomicU128) {
    use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
    // SAFETY: a prefetch reads nothing and never faults, whatever the address; it needs SSE, which is part of
    // x86-64.
    unsafe { _mm_prefetch::<_MM_HINT_T0>(core::ptr::from_ref(slot).cast()) }
}

/// On other processors a plain load brings the line into the cache.
#[cfg(not(target_arch = "x86_64"))]
#[inline(always)]
fn prefetch(slot: &AtomicU128) {
    core::hint::black_box(slot.load(core::sync::atomic::Ordering::Relaxed));
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;
    use std::hash::{BuildHasher, RandomState};

    #[test]
    fn every_line_is_a_cache_line_and_no_slot_is_searched_twice() {
        for max_keys in [0, 1, 5, 6, 20, 28, 40, 1_000, 100_003] {
            let table = SlotTable::new(max_keys).unwrap();
            let random = RandomState::new();
            let hashes = (0..2_000).map(|i| random.hash_one(i)).chain([0, 1, u64::MAX, u64::MAX - 1]);
            for hash in hashes {
                let window = table.window(hash);
                let lines: Vec<_> = (0..).map_while(|index| window.line(index)).collect();
                assert!(
                    lines.iter().all(|line| (line.as_ptr() as usize).is_multiple_of(64)),
                    "{max_keys} keys"
                );
                assert_eq!(lines.len(), if table.pairs == 1 { 2 } else { WINDOW_LINES });
                let starts: HashSet<_> = lines.iter().map(|line| line.as_ptr() as usize).collect();
                assert_eq!(starts.len(), lines.len(), "{max_keys} keys, hash {hash:x}: a line twice");
                table.prefetch(hash);
                window.prefetch_far();
            }
        }
    }

    #[test]
    fn a_key_costs_under_24_bytes() {
        assert!(SlotTable::new(4_000_000).unwrap().bytes() < 4_000_000 * 24);
    }
}
