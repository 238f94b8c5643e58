//! The rules by which a key uses a slot of the table, or the overflow bucket of its limit.

use tidegate_core::{Meter, Nanos};

use super::migrate::is_idle;
use super::overflow::{DebtKind, Debtor, Debtors};
use super::probe::SlotRules;
use super::slot::{Slot, SlotEntry, Tag};
use super::version::{MemoryReader, MemoryVersion};
use super::window_time::WindowTime;
use crate::Clock;

/// The rules of the slot protocol for one key at one instant.
pub(super) struct KeyRules<'a> {
    /// Made before any slot is read.
    pub(super) reader: MemoryReader<'a>,
    pub(super) debtors: &'a Debtors,
    pub(super) version: &'a MemoryVersion,
    pub(super) hash: u64,
    pub(super) now: Nanos,
    pub(super) clock: &'a dyn Clock,
    pub(super) windows: &'a WindowTime,
}

impl KeyRules<'_> {
    pub(super) fn debtor(&self) -> Debtor<'_> {
        Debtor { overflow: &self.version.data.overflow, kind: DebtKind::Slot, hash: self.hash }
    }

    /// The current instant on the clock that a meter uses.
    pub(super) fn now(&self, meter: &Meter) -> Nanos {
        self.windows.of(meter, self.clock, self.now)
    }

    /// The current instant on the clock that the key's own limit uses.
    pub(super) fn own_now(&self) -> Nanos {
        self.version.meter().map_or(self.now, |meter| self.now(meter))
    }

    /// The state of the overflow bucket, as an entry of the key.
    pub(super) fn shared_entry(&self, tag: Tag) -> SlotEntry {
        let entry = self.version.data.overflow.slot.get();
        if entry.is_empty() || entry.is_dead() || entry.is_claim() {
            SlotEntry { tag, state: 0 }
        } else {
            SlotEntry { tag: tag.with_version(entry.tag.version()), ..entry }
        }
    }
}

impl SlotRules for KeyRules<'_> {
    fn is_idle(&self, entry: SlotEntry) -> bool {
        let version = self.reader.known(entry.tag.version(), self.version);
        is_idle(&version, entry.state, |meter| self.now(meter))
    }

    fn migrate(&self, entry: SlotEntry, tag: Tag) -> SlotEntry {
        let (version, state) =
            self.reader.migrate(entry.tag.version(), entry.state, self.version, |meter| self.now(meter));
        SlotEntry { tag: tag.with_version(version), state }
    }

    /// A key that charged the overflow bucket starts as empty as that bucket; otherwise what it took would be
    /// granted twice.
    fn first(&self, tag: Tag) -> SlotEntry {
        if self.debtors.may_owe(self.debtor(), self.own_now()) {
            self.shared_entry(tag)
        } else {
            SlotEntry { tag, state: 0 }
        }
    }

    fn wall(&self) -> Nanos {
        self.clock.wall_at(self.now)
    }
}

/// The rules of the slot protocol for an overflow bucket: it starts full.
pub(super) struct SharedRules<'a>(pub(super) &'a KeyRules<'a>);

impl SlotRules for SharedRules<'_> {
    fn is_idle(&self, entry: SlotEntry) -> bool {
        self.0.is_idle(entry)
    }

    fn migrate(&self, entry: SlotEntry, tag: Tag) -> SlotEntry {
        self.0.migrate(entry, tag)
    }

    fn first(&self, tag: Tag) -> SlotEntry {
        SlotEntry { tag, state: 0 }
    }

    fn wall(&self) -> Nanos {
        self.0.wall()
    }
}
