//! The protocol by which keys share the slots of a probe window, without locks.
//!
//! A key is stored in one of a few fixed slots, its window, which is searched in a fixed order. Three rules
//! keep it in at most one of them:
//!
//! 1. **A search ends at the first empty slot.** A slot that was used never becomes empty again, and a key is
//!    put into the first free slot, so the key cannot be behind an empty one.
//! 2. **Claim, search again, then hold.** A new key first writes a claim into a free slot: one that is empty,
//!    abandoned, or held by a key whose limit is idle, which loses nothing. A claim holds no tokens. Then the
//!    whole window is searched once more. If the key is held in another slot, or claimed in an earlier one,
//!    this claim is abandoned; a claim in a later slot is erased. Only then does one compare-exchange turn the
//!    claim into a holder, with its first charge included.
//! 3. **No two claims are equal** (each has a number of its own), so a claim that was erased and made again
//!    cannot be mistaken for the old one.
//!
//! Why at most one slot holds a key: suppose that two slots, *i* before *j* in the search order, both became
//! holders of one key. For each of them, the thread that made it a holder first saw its claim, then executed a
//! fence, and then searched the window again. Because of the fences, at least one of the two searches saw the
//! other slot in use. If the search for *j* saw *i*, it abandons *j*. If the search for *i* saw *j*, it erases
//! *j* if that is still a claim, and abandons *i* if *j* already holds. In each case one of the two
//! compare-exchanges to a holder fails, a contradiction.
//!
//! A thread that finds a claim of its own key completes it with its own charge, so a thread that is suspended
//! half way blocks nobody.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use super::slot::{Slot, SlotEntry, Tag};
use super::window_time::ChargeTime;
use crate::Nanos;

/// The operations on limits that the slot protocol needs.
pub(crate) trait SlotRules {
    /// Can the entry be dropped without loss?
    fn is_idle(&self, entry: SlotEntry) -> bool;

    /// Migrates an entry to the version of `tag`, or, if the entry's version is newer, to that one.
    fn migrate(&self, entry: SlotEntry, tag: Tag) -> SlotEntry;

    /// The first entry of a key: usually `tag` with nothing used. If it has another version, it is migrated
    /// like any entry.
    fn first(&self, tag: Tag) -> SlotEntry;

    /// The wall clock's time at the instant of [`SlotRules::is_idle`].
    fn wall(&self) -> Nanos;
}

/// Counters of a table, and what its claims need.
#[derive(Debug, Default)]
pub(crate) struct TableCounters {
    /// Signed, because an eviction may be counted before the insertion of the same key.
    keys: AtomicI64,
    pub(crate) evictions: AtomicU64,
    claims: AtomicU64,
    /// The latest instant at which an idle key was evicted. A new key starts no earlier; otherwise a thread with an
    /// older `now` could see the evicted key fuller than it was.
    evicted_at: AtomicU64,
    /// The same on the wall clock, which may step back.
    evicted_at_wall: AtomicU64,
}

impl TableCounters {
    /// The number of keys that hold a slot.
    pub(crate) fn keys(&self) -> u64 {
        self.keys.load(Ordering::Relaxed).max(0) as u64
    }

    fn next_claim(&self, tag: Tag) -> SlotEntry {
        SlotEntry::claim(tag, self.claims.fetch_add(1, Ordering::Relaxed))
    }

    fn start_of(&self, now: Nanos) -> ChargeTime {
        ChargeTime {
            now: now.max(Nanos::new(self.evicted_at.load(Ordering::Relaxed))),
            wall_from: Nanos::new(self.evicted_at_wall.load(Ordering::Relaxed)),
        }
    }

    /// Called before an idle key is evicted: the compare-exchange that follows publishes the instant to every
    /// thread that then misses the key.
    pub(super) fn record_eviction_time(&self, now: Nanos, wall: Nanos) {
        self.evicted_at.fetch_max(now.get(), Ordering::Relaxed);
        self.evicted_at_wall.fetch_max(wall.get(), Ordering::Relaxed);
    }

    pub(super) fn count_eviction(&self) {
        self.evictions.fetch_add(1, Ordering::Relaxed);
        self.keys.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The slots in which a key may be stored, cache line by cache line in search order; no slot twice.
pub(crate) trait SlotWindow {
    type Slot: Slot;

    fn line(&self, index: usize) -> Option<&[Self::Slot]>;

    /// Called before a search continues in distant lines.
    fn prefetch_far(&self) {}
}

/// The number of near lines: the home line and its neighbour.
pub(super) const NEAR_LINES: usize = 2;

/// A slot and its position in the search order.
struct Spot<'a, S> {
    order: usize,
    slot: &'a S,
}

/// A key with its window.
pub(crate) struct Probe<'a, W, R> {
    pub(crate) window: W,
    pub(crate) tag: Tag,
    pub(crate) now: Nanos,
    pub(crate) rules: &'a R,
    pub(crate) counters: &'a TableCounters,
}

/// The result of a search.
enum Found<'a, S> {
    Held(&'a S, SlotEntry),
    Claimed(Spot<'a, S>, SlotEntry),
    Absent,
}

/// Where a new key can be stored.
enum Free<'a, S> {
    Slot(Spot<'a, S>, SlotEntry),
    /// The key itself is present: another thread was faster.
    Arrived,
    None,
}

/// The result of an update.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SlotUpdate {
    /// The version with which the state is written.
    pub(crate) version: u32,
    /// `Ok` with the stored state, or `Err` with the state that was left unchanged.
    pub(crate) state: Result<u64, u64>,
    /// The time of the decision.
    pub(crate) when: ChargeTime,
    /// The previous entry, with the version it was written with.
    pub(crate) found: SlotEntry,
}

/// There is no free slot for the key.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct TableFull;

impl<W: SlotWindow, R: SlotRules> Probe<'_, W, R> {
    /// Applies `act` to the state of the key. `act` gets the version with which the state is written, the state
    /// and the time, and returns the state to store, if any. It may be called again after a lost race. A key
    /// that has no slot starts from [`SlotRules::first`] and gets a slot only if its state changes.
    pub(crate) fn update(
        &self,
        act: impl Fn(u32, u64, ChargeTime) -> Option<u64>,
    ) -> Result<SlotUpdate, TableFull> {
        loop {
            let done = match self.find() {
                Found::Held(slot, entry) => self.update_held(slot, entry, |_, _| false, &act),
                Found::Claimed(spot, claim) => self.hold(&spot, claim, &act),
                Found::Absent => self.insert(&act)?,
            };
            if let Some(updated) = done {
                return Ok(updated);
            }
        }
    }

    /// [`Probe::update`] for a key that holds a slot; `false` if it holds none.
    pub(crate) fn amend(&self, act: impl Fn(u32, u64, ChargeTime) -> u64) -> bool {
        self.amend_renumbering(|_, _| false, act)
    }

    /// The same. An entry that was found in another version is also written if `act` does not change its state, but
    /// `renumbers` wants it in the version to be used.
    pub(crate) fn amend_renumbering(
        &self,
        renumbers: impl Fn(u32, u64) -> bool,
        act: impl Fn(u32, u64, ChargeTime) -> u64,
    ) -> bool {
        let act = |version, state, when| Some(act(version, state, when));
        loop {
            match self.find() {
                Found::Held(slot, entry) => {
                    if self.update_held(slot, entry, &renumbers, act).is_some() {
                        return true;
                    }
                }
                Found::Claimed(..) | Found::Absent => return false,
            }
        }
    }

    /// The entry migrated to the version to be used.
    #[inline]
    pub(crate) fn migrate(&self, entry: SlotEntry) -> SlotEntry {
        if entry.tag == self.tag { entry } else { self.rules.migrate(entry, self.tag) }
    }

    /// The entry of the key, with the version it was written with.
    pub(crate) fn peek(&self) -> Option<SlotEntry> {
        match self.find() {
            Found::Held(_, entry) => Some(entry),
            Found::Claimed(..) | Found::Absent => None,
        }
    }

    /// Does the key hold or claim a slot?
    pub(crate) fn is_present(&self) -> bool {
        W::Slot::fence();
        !matches!(self.find(), Found::Absent)
    }

    /// Would a new key find a slot?
    pub(crate) fn has_free_slot(&self) -> bool {
        !matches!(self.find_free(), Free::None)
    }

    fn find(&self) -> Found<'_, W::Slot> {
        let mut claimed = Found::Absent;
        let mut order = 0;
        for index in 0.. {
            if index == NEAR_LINES {
                self.window.prefetch_far();
            }
            let Some(line) = self.window.line(index) else { break };
            for slot in line {
                let entry = slot.get();
                if entry.is_of(self.tag) {
                    if !entry.is_claim() {
                        return Found::Held(slot, entry);
                    }
                    if matches!(claimed, Found::Absent) {
                        claimed = Found::Claimed(Spot { order, slot }, entry);
                    }
                } else if entry.is_empty() {
                    return claimed;
                }
                order += 1;
            }
        }
        claimed
    }

    /// Every slot of the window, in search order.
    fn spots(&self) -> impl Iterator<Item = Spot<'_, W::Slot>> {
        let lines = (0..).map_while(|index| self.window.line(index));
        lines.flatten().enumerate().map(|(order, slot)| Spot { order, slot })
    }

    /// `None` if the slot was given to another key meanwhile.
    fn update_held(
        &self,
        slot: &W::Slot,
        mut seen: SlotEntry,
        renumbers: impl Fn(u32, u64) -> bool,
        act: impl Fn(u32, u64, ChargeTime) -> Option<u64>,
    ) -> Option<SlotUpdate> {
        loop {
            let entry = self.migrate(seen);
            let (version, when) = (entry.tag.version(), ChargeTime { now: self.now, wall_from: Nanos::ZERO });
            let next = act(version, entry.state, when);
            let is_written =
                |state| state != entry.state || (seen.tag != entry.tag && renumbers(version, state));
            let Some(state) = next.filter(|&state| is_written(state)) else {
                return Some(SlotUpdate { version, state: next.ok_or(entry.state), when, found: seen });
            };
            match slot.replace(seen, SlotEntry { state, ..entry }) {
                Ok(()) => return Some(SlotUpdate { version, state: Ok(state), when, found: seen }),
                Err(other) if other.is_of(self.tag) && !other.is_claim() => seen = other,
                Err(_) => return None,
            }
        }
    }

    /// `Ok(None)` if a race was lost.
    #[cold]
    fn insert(
        &self,
        act: impl Fn(u32, u64, ChargeTime) -> Option<u64>,
    ) -> Result<Option<SlotUpdate>, TableFull> {
        if let (updated, None) = self.act_first(&act) {
            return Ok(Some(updated));
        }
        let (spot, seen) = match self.find_free() {
            Free::Slot(spot, seen) => (spot, seen),
            Free::Arrived => return Ok(None),
            Free::None => return Err(TableFull),
        };
        let evicts = !(seen.is_empty() || seen.is_dead() || seen.is_claim());
        if evicts {
            self.counters.record_eviction_time(self.now, self.rules.wall());
        }
        let claim = self.counters.next_claim(self.tag);
        if spot.slot.replace(seen, claim).is_err() {
            return Ok(None);
        }
        if evicts {
            self.counters.count_eviction();
        }
        Ok(self.hold(&spot, claim, act))
    }

    /// The first slot that is not in use. A claim of another key is used only if there is no other slot, since
    /// that key is about to need it, and only in one direction of the tag order: two keys that took over each
    /// other's claims could do so for ever.
    fn find_free(&self) -> Free<'_, W::Slot> {
        let mut claimed = Free::None;
        for spot in self.spots() {
            let entry = spot.slot.get();
            if entry.is_of(self.tag) {
                return Free::Arrived;
            }
            if entry.is_claim() {
                if matches!(claimed, Free::None) && self.tag.goes_before(entry.tag) {
                    claimed = Free::Slot(spot, entry);
                }
            } else if entry.is_empty() || entry.is_dead() || self.rules.is_idle(entry) {
                return Free::Slot(spot, entry);
            }
        }
        claimed
    }

    /// Turns a claim into the key's only holder, with `act` applied; `None` if a race was lost.
    #[cold]
    fn hold(
        &self,
        spot: &Spot<'_, W::Slot>,
        claim: SlotEntry,
        act: impl Fn(u32, u64, ChargeTime) -> Option<u64>,
    ) -> Option<SlotUpdate> {
        W::Slot::fence();
        self.clear_others(spot, claim)?;
        let (updated, stores) = self.act_first(&act);
        let Some(entry) = stores else {
            // Nothing changed, so nothing is stored. If this exchange fails, the claim is already gone.
            let _ = spot.slot.replace(claim, SlotEntry::DEAD);
            return Some(updated);
        };
        spot.slot.replace(claim, entry).ok()?;
        self.counters.keys.fetch_add(1, Ordering::Relaxed);
        Some(updated)
    }

    /// The result of `act` on a new key, and the entry to store for it, if any.
    fn act_first(
        &self,
        act: impl Fn(u32, u64, ChargeTime) -> Option<u64>,
    ) -> (SlotUpdate, Option<SlotEntry>) {
        let found = self.rules.first(self.tag);
        let first = self.migrate(found);
        let (version, when) = (first.tag.version(), self.counters.start_of(self.now));
        let next = act(version, first.state, when);
        let stores = next.filter(|&state| state != first.state).map(|state| SlotEntry { state, ..first });
        (SlotUpdate { version, state: next.ok_or(first.state), when, found }, stores)
    }

    /// Erases later claims of the same key; `None`, with this claim abandoned, if there is a holder or an
    /// earlier claim.
    fn clear_others(&self, own: &Spot<'_, W::Slot>, claim: SlotEntry) -> Option<()> {
        for other in self.spots().filter(|other| other.order != own.order) {
            let entry = other.slot.get();
            if entry.is_empty() {
                break;
            }
            if !entry.is_of(self.tag) {
                continue;
            }
            if entry.is_claim() && other.order > own.order {
                other.slot.replace(entry, SlotEntry::DEAD).ok()?;
            } else {
                // If this exchange fails, another thread has already replaced the claim.
                let _ = own.slot.replace(claim, SlotEntry::DEAD);
                return None;
            }
        }
        Some(())
    }
}
