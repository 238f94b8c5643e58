//! The versions by number, and which numbers are free.

use std::collections::VecDeque;
use std::ops::Deref;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock, RwLockReadGuard};

use arc_swap::{ArcSwapOption, Guard};
use tidegate_core::LimitVariant;

use super::generation::Generation;
use super::{LimitVersion, VERSIONS_MAX};
use crate::LimitError;

/// Versions are stored in chunks of this size, so that they do not move when there are more of them.
const CHUNK: usize = 1 << 10;
const CHUNKS: usize = (VERSIONS_MAX as usize + 1) / CHUNK;

type VersionCells<D> = Box<[ArcSwapOption<LimitVersion<D>>]>;

/// The versions by number.
///
/// A thread that reads a number from a state must know what it means until it is done with the state. So it takes a
/// [`VersionReader`] before it reads the state, and a number is freed only after every reader that existed when the
/// last state with that number was rewritten has ended: [`NumberTable::wait_for_readers`].
#[derive(Debug)]
pub(super) struct NumberTable<D> {
    chunks: Box<[OnceLock<VersionCells<D>>]>,
    free: Mutex<FreeNumbers>,
    readers: [ReaderLock; READER_LOCKS],
    /// How many wait for readers.
    #[cfg(test)]
    waiting: AtomicUsize,
}

/// Readers are distributed over this many locks.
const READER_LOCKS: usize = 16;

/// A cache line of its own for each lock, so that threads with different locks do not slow each other down.
#[derive(Debug, Default)]
#[repr(align(128))]
struct ReaderLock(RwLock<()>);

/// The numbers that no version has. The one that was freed first is reused first.
#[derive(Debug)]
struct FreeNumbers {
    freed: VecDeque<u32>,
    never_used: std::ops::RangeInclusive<u32>,
}

impl FreeNumbers {
    fn len(&self) -> usize {
        self.freed.len() + self.never_used.size_hint().0
    }

    fn next(&mut self) -> Option<u32> {
        self.freed.pop_front().or_else(|| self.never_used.next())
    }
}

/// Reads versions by number. As long as it lives, every number that is read from a state keeps its meaning.
#[derive(Debug)]
pub struct VersionReader<'a, D> {
    table: &'a NumberTable<D>,
    _lock: RwLockReadGuard<'a, ()>,
}

/// A version found by its number.
pub struct FoundVersion<D>(Guard<Option<Arc<LimitVersion<D>>>>);

impl<D> Deref for FoundVersion<D> {
    type Target = Arc<LimitVersion<D>>;

    #[inline]
    fn deref(&self) -> &Arc<LimitVersion<D>> {
        self.0.as_ref().expect("a number that is read from a state has a version")
    }
}

impl<D> VersionReader<'_, D> {
    /// The version with this number, which must have been read from a state after this reader was made.
    #[inline]
    pub fn get(&self, number: u32) -> FoundVersion<D> {
        self.table.get(number)
    }

    /// The version of a generation in this variant, if it was ever used. A version of the generation must have been
    /// found by its number.
    pub fn in_variant(&self, generation: &Generation, variant: LimitVariant) -> Option<FoundVersion<D>> {
        generation.number_at(variant).map(|number| self.get(number))
    }
}

impl<D> Default for NumberTable<D> {
    fn default() -> NumberTable<D> {
        NumberTable {
            chunks: (0..CHUNKS).map(|_| OnceLock::new()).collect(),
            free: Mutex::new(FreeNumbers { freed: VecDeque::new(), never_used: 1..=VERSIONS_MAX }),
            readers: Default::default(),
            #[cfg(test)]
            waiting: AtomicUsize::new(0),
        }
    }
}

impl<D> NumberTable<D> {
    pub(super) fn read(&self) -> VersionReader<'_, D> {
        let lock = self.readers[own_lock()].0.read();
        VersionReader { table: self, _lock: lock.unwrap_or_else(PoisonError::into_inner) }
    }

    /// Waits until every reader that exists now has ended. The caller must not have one.
    pub(super) fn wait_for_readers(&self) {
        #[cfg(test)]
        self.waiting.fetch_add(1, Ordering::SeqCst);
        for lock in &self.readers {
            drop(lock.0.write().unwrap_or_else(PoisonError::into_inner));
        }
        #[cfg(test)]
        self.waiting.fetch_sub(1, Ordering::SeqCst);
    }

    #[cfg(test)]
    pub(super) fn is_anyone_waiting(&self) -> bool {
        self.waiting.load(Ordering::SeqCst) > 0
    }

    /// The version with this number, for callers that know that it is not removed meanwhile.
    #[inline]
    pub(super) fn get(&self, number: u32) -> FoundVersion<D> {
        let (chunk, index) = (number as usize / CHUNK, number as usize % CHUNK);
        let cells = self.chunks[chunk].get().expect("the chunk of a version is stored before its number");
        FoundVersion(cells[index].load())
    }

    pub(super) fn store(&self, version: Arc<LimitVersion<D>>) {
        let (chunk, index) = (version.number as usize / CHUNK, version.number as usize % CHUNK);
        let empty = || (0..CHUNK).map(|_| ArcSwapOption::empty()).collect();
        let before = self.chunks[chunk].get_or_init(empty)[index].swap(Some(version));
        assert!(before.is_none(), "a number has one version at a time");
    }

    /// Numbers for so many versions: all of them, or none.
    pub(super) fn take(&self, count: usize) -> Result<VecDeque<u32>, LimitError> {
        let mut free = self.free();
        if free.len() < count {
            return Err(LimitError::TooMany { max: VERSIONS_MAX });
        }
        Ok((0..count).filter_map(|_| free.next()).collect())
    }

    /// Removes versions. No state may refer to their numbers any more, and no reader may have found them.
    pub(super) fn remove(&self, numbers: impl Iterator<Item = u32>) {
        for number in numbers {
            let (chunk, index) = (number as usize / CHUNK, number as usize % CHUNK);
            if let Some(cells) = self.chunks[chunk].get() {
                cells[index].store(None);
            }
            self.free().freed.push_back(number);
        }
    }

    /// How many numbers are free.
    pub(super) fn free_count(&self) -> usize {
        self.free().len()
    }

    fn free(&self) -> MutexGuard<'_, FreeNumbers> {
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Pretends that all numbers except `left` are in use.
    #[cfg(test)]
    pub(super) fn leave(&self, left: u32) {
        let mut free = self.free();
        free.freed.clear();
        free.never_used = VERSIONS_MAX - left + 1..=VERSIONS_MAX;
    }
}

/// The lock of this thread.
fn own_lock() -> usize {
    static THREADS: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        static OWN: usize = THREADS.fetch_add(1, Ordering::Relaxed) % READER_LOCKS;
    }
    // A thread that is ending has no number of its own any more.
    OWN.try_with(|own| *own).unwrap_or_default()
}
