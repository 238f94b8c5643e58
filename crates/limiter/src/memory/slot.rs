//! A slot of the table: a key's tag and its state, in one atomic word.

use portable_atomic::AtomicU128;
use std::sync::atomic::{Ordering, fence};

/// Identifies the key of a slot and how its state is to be read: 43 bits of the key's fingerprint, one bit that
/// marks a claim, and the 20-bit number of the limit version with which the state is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tag(u64);

pub(crate) const VERSION_BITS: u32 = 20;
const VERSION_MASK: u64 = (1 << VERSION_BITS) - 1;
const CLAIM: u64 = 1 << VERSION_BITS;

impl Tag {
    /// The tag of a key, from its hash and the number of a limit version (not zero).
    #[inline]
    pub(crate) fn new(hash: u64, version: u32) -> Tag {
        debug_assert!(version != 0 && u64::from(version) <= VERSION_MASK);
        Tag(hash << (VERSION_BITS + 1) | u64::from(version))
    }

    /// The limit version with which the state is written.
    #[inline]
    pub(crate) fn version(self) -> u32 {
        (self.0 & VERSION_MASK) as u32
    }

    /// The same key with another version.
    pub(crate) fn with_version(self, version: u32) -> Tag {
        Tag(self.0 & !VERSION_MASK | u64::from(version))
    }

    /// A total order of keys, the same in every thread.
    pub(crate) fn goes_before(self, other: Tag) -> bool {
        self.0 < other.0
    }

    /// Do both tags belong to the same key?
    #[inline]
    fn same_key(self, other: Tag) -> bool {
        (self.0 ^ other.0) >> (VERSION_BITS + 1) == 0
    }
}

/// The contents of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SlotEntry {
    pub(crate) tag: Tag,
    pub(crate) state: u64,
}

impl SlotEntry {
    /// Never used. A slot that was used never becomes empty again, so a search can stop here.
    #[cfg(test)]
    pub(crate) const EMPTY: SlotEntry = SlotEntry { tag: Tag(0), state: 0 };
    /// Abandoned: free to use, but not the end of a search.
    pub(crate) const DEAD: SlotEntry = SlotEntry { tag: Tag(CLAIM), state: 0 };

    /// A claim of the key of `tag`: it holds no state, and no two claims are equal.
    pub(crate) fn claim(tag: Tag, nonce: u64) -> SlotEntry {
        SlotEntry { tag: Tag(tag.0 | CLAIM), state: nonce }
    }

    #[inline]
    pub(crate) fn is_empty(self) -> bool {
        self.tag.0 == 0
    }

    pub(crate) fn is_dead(self) -> bool {
        self == SlotEntry::DEAD
    }

    pub(crate) fn is_claim(self) -> bool {
        self.tag.0 & CLAIM != 0 && self.tag.version() != 0
    }

    /// Does the entry belong to the key of `tag`, as a holder or as a claim?
    #[inline]
    pub(crate) fn is_of(self, tag: Tag) -> bool {
        self.tag.same_key(tag) && self.tag.version() != 0
    }
}

/// An atomic [`SlotEntry`]. The table uses 128 bits; loom has no such atomic, so the models use 64.
pub(crate) trait Slot {
    fn get(&self) -> SlotEntry;

    /// Replaces `seen` by `next`, or returns the entry that is there instead.
    fn replace(&self, seen: SlotEntry, next: SlotEntry) -> Result<(), SlotEntry>;

    /// A sequentially consistent fence: orders this thread's earlier writes before its later reads.
    fn fence();
}

fn pack(entry: SlotEntry) -> u128 {
    u128::from(entry.tag.0) << 64 | u128::from(entry.state)
}

fn unpack(word: u128) -> SlotEntry {
    SlotEntry { tag: Tag((word >> 64) as u64), state: word as u64 }
}

impl Slot for AtomicU128 {
    #[inline]
    fn get(&self) -> SlotEntry {
        unpack(AtomicU128::load(self, Ordering::Acquire))
    }

    #[inline]
    fn replace(&self, seen: SlotEntry, next: SlotEntry) -> Result<(), SlotEntry> {
        self.compare_exchange(pack(seen), pack(next), Ordering::AcqRel, Ordering::Acquire)
            .map(drop)
            .map_err(unpack)
    }

    fn fence() {
        fence(Ordering::SeqCst);
    }
}

#[cfg(test)]
pub(crate) mod model {
    //! The same slot in 64 bits, for loom: the low halves of the tag and of the state, which the models keep
    //! small.

    use loom::sync::atomic::{AtomicU64, Ordering, fence};

    use super::{Slot, SlotEntry, Tag};

    pub(crate) struct SmallSlot(AtomicU64);

    impl SmallSlot {
        pub(crate) fn new(entry: SlotEntry) -> SmallSlot {
            SmallSlot(AtomicU64::new(pack(entry)))
        }
    }

    fn pack(entry: SlotEntry) -> u64 {
        let half = |word| u64::from(u32::try_from(word).expect("models keep tags and states small"));
        half(entry.tag.0) << 32 | half(entry.state)
    }

    fn unpack(word: u64) -> SlotEntry {
        SlotEntry { tag: Tag(word >> 32), state: word & 0xffff_ffff }
    }

    impl Slot for SmallSlot {
        fn get(&self) -> SlotEntry {
            unpack(self.0.load(Ordering::Acquire))
        }

        fn replace(&self, seen: SlotEntry, next: SlotEntry) -> Result<(), SlotEntry> {
            self.0
                .compare_exchange(pack(seen), pack(next), Ordering::AcqRel, Ordering::Acquire)
                .map(drop)
                .map_err(unpack)
        }

        fn fence() {
            fence(Ordering::SeqCst);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_tells_key_version_and_claim_apart() {
        let tag = Tag::new(0xdead_beef, 7);
        assert_eq!(tag.version(), 7);
        let newer = SlotEntry { tag: tag.with_version(8), state: 1 };
        assert!(newer.is_of(tag) && !newer.is_claim());
        let claim = SlotEntry::claim(tag, 1);
        assert!(claim.is_of(tag) && claim.is_claim() && claim != SlotEntry::claim(tag, 2));
        assert!(!SlotEntry { tag: Tag::new(0xdead_beee, 7), state: 1 }.is_of(tag));
    }

    #[test]
    fn nobody_holds_an_empty_or_a_dead_slot() {
        let zero = Tag::new(0, 1);
        for entry in [SlotEntry::EMPTY, SlotEntry::DEAD] {
            assert!(!entry.is_of(zero) && !entry.is_claim());
        }
        assert!(SlotEntry::DEAD.is_dead() && !SlotEntry::DEAD.is_empty());
        assert_eq!(
            unpack(pack(SlotEntry::claim(Tag::new(u64::MAX, 3), 9))),
            SlotEntry::claim(Tag::new(u64::MAX, 3), 9)
        );
    }
}
