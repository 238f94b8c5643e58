//! The usual case of a charge: the state was written with the very version by which the key is charged. The caller
//! holds that version, so its number needs no lookup and cannot get another meaning.

use super::probe::{NEAR_LINES, SlotWindow};
use super::slot::{Slot, SlotEntry, Tag};

/// A key with its window, whose slot is found only if it has this tag, version included.
pub(crate) struct OwnVersion<W> {
    pub(crate) window: W,
    pub(crate) tag: Tag,
}

impl<W: SlotWindow> OwnVersion<W> {
    /// Applies `act` to the state of a key in its home line. `act` returns the state to store, if any. `Ok` with
    /// the stored state, or `Err` with the state that was left unchanged; `None` if the key is not (or no longer)
    /// there.
    #[inline(always)]
    pub(crate) fn update_at_home(&self, act: impl Fn(u64) -> Option<u64>) -> Option<Result<u64, u64>> {
        // The position in the line is unpredictable, so all slots are compared without branches.
        let mut own = None;
        for slot in self.window.line(0)? {
            let seen = slot.get();
            own = if seen.tag == self.tag { Some((slot, seen.state)) } else { own };
        }
        let (slot, seen) = own?;
        self.update_slot(slot, seen, act)
    }

    /// [`OwnVersion::update_at_home`] for a key in any line of its window.
    pub(crate) fn update(&self, act: impl Fn(u64) -> Option<u64>) -> Option<Result<u64, u64>> {
        let (slot, seen) = self.find()?;
        self.update_slot(slot, seen, act)
    }

    /// The state of the key.
    pub(crate) fn peek(&self) -> Option<u64> {
        self.find().map(|(_, state)| state)
    }

    fn find(&self) -> Option<(&W::Slot, u64)> {
        for index in 0.. {
            if index == NEAR_LINES {
                self.window.prefetch_far();
            }
            for slot in self.window.line(index)? {
                let entry = slot.get();
                if entry.tag == self.tag {
                    return Some((slot, entry.state));
                }
                if entry.is_empty() {
                    return None;
                }
            }
        }
        None
    }

    #[inline(always)]
    fn update_slot(
        &self,
        slot: &W::Slot,
        mut seen: u64,
        act: impl Fn(u64) -> Option<u64>,
    ) -> Option<Result<u64, u64>> {
        let entry = |state| SlotEntry { tag: self.tag, state };
        loop {
            let Some(state) = act(seen) else { return Some(Err(seen)) };
            if state == seen {
                return Some(Ok(state));
            }
            match slot.replace(entry(seen), entry(state)) {
                Ok(()) => return Some(Ok(state)),
                Err(other) if other.tag == self.tag => seen = other.state,
                Err(_) => return None,
            }
        }
    }
}
