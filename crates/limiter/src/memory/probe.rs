//! The protocol by which keys share the slots of one probe window.
//!
//! A key lives in one of a fixed few slots, its window, which it searches in a
//! fixed order. Three rules keep it in at most one of them without any lock:
//!
//! 1. **A search ends at the first empty slot.** A slot that was used is never
//!    empty again, and a key is put into the first free slot, so nothing of it
//!    lies beyond an empty one.
//! 2. **Claim, look again, then hold.** A new key first puts a claim into a free
//!    slot: empty, given up, or held by a key whose limit is idle, which loses
//!    nothing. A claim holds no tokens. Then it looks through its window once
//!    more. If the key is held elsewhere, or claimed in an earlier slot, this
//!    claim is given up; a claim in a later slot is struck out. Only then does
//!    the claim become a holder, its first charge included, in one exchange.
//! 3. **No two claims are equal** (each has a number of its own), so a claim that
//!    was struck out and made again is not mistaken for the old one.
//!
//! Why at most one holds: take two slots, *i* before *j*, that both became
//! holders of one key. Each was seen as a claim before the window was looked
//! through again, with a fence in between, so at least one of the two looks saw
//! the other's slot. The look made for *j* gives *j* up if it sees *i*. The look
//! made for *i* strikes *j* out if that is still a claim, and gives *i* up if it
//! already holds. Either way one of the two exchanges fails.
//!
//! Whoever meets a claim of its own key finishes it with its own charge, so a
//! thread that was stopped in the middle holds up nobody.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use super::slot::{Slot, SlotEntry, Tag};
use super::window_time::ChargeTime;
use crate::Nanos;

/// What the protocol must know about limits.
pub(crate) trait SlotRules {
    /// May the entry be forgotten without loss?
    fn is_idle(&self, entry: SlotEntry) -> bool;

    /// The entry under the version that is to be used for `tag`: the tag's own
    /// or, if the entry is newer than that, the entry's.
    fn adopt(&self, entry: SlotEntry, tag: Tag) -> SlotEntry;

    /// What a key starts with: usually `tag` and nothing used. If it is another
    /// version's, it is adopted like any entry.
    fn first(&self, tag: Tag) -> SlotEntry;

    /// What the wall clock shows at the instant of [`SlotRules::is_idle`].
    fn wall(&self) -> Nanos;
}

/// Numbers of a table, and what its claims need.
#[derive(Debug, Default)]
pub(crate) struct TableCounters {
    /// Signed, for a key may be uncounted before whoever put it there counts it.
    keys: AtomicI64,
    pub(crate) evictions: AtomicU64,
    claims: AtomicU64,
    /// The latest instant at which an idle key was evicted. A new key starts no earlier: otherwise a thread with
    /// an older `now` could see the evicted one fuller than it was.
    forgotten_at: AtomicU64,
    /// The same by the wall clock, which may step back.
    forgotten_wall: AtomicU64,
}

impl TableCounters {
    /// Keys that hold a slot.
    pub(crate) fn keys(&self) -> u64 {
        self.keys.load(Ordering::Relaxed).max(0) as u64
    }

    fn next_claim(&self, tag: Tag) -> SlotEntry {
        SlotEntry::claim(tag, self.claims.fetch_add(1, Ordering::Relaxed))
    }

    fn start_of(&self, now: Nanos) -> ChargeTime {
        ChargeTime {
            now: now.max(Nanos::new(self.forgotten_at.load(Ordering::Relaxed))),
            wall_from: Nanos::new(self.forgotten_wall.load(Ordering::Relaxed)),
        }
    }

    /// Called before an idle key is evicted: the exchange that follows publishes this to whoever misses the key.
    pub(super) fn will_forget(&self, now: Nanos, wall: Nanos) {
        self.forgotten_at.fetch_max(now.get(), Ordering::Relaxed);
        self.forgotten_wall.fetch_max(wall.get(), Ordering::Relaxed);
    }

    pub(super) fn has_forgotten(&self) {
        self.evictions.fetch_add(1, Ordering::Relaxed);
        self.keys.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The slots that a key may live in, cache line by cache line in the order of the search; no slot twice.
pub(crate) trait SlotWindow {
    type Slot: Slot;

    fn line(&self, index: usize) -> Option<&[Self::Slot]>;

    /// Called before a search goes on to far lines.
    fn prefetch_far(&self) {}
}

/// Lines that are near: the first, and its neighbour.
const NEAR_LINES: usize = 2;

/// A slot and its place in the order of the search.
struct Spot<'a, S> {
    order: usize,
    slot: &'a S,
}

/// A key in its window.
pub(crate) struct Probe<'a, W, R> {
    pub(crate) window: W,
    pub(crate) tag: Tag,
    pub(crate) now: Nanos,
    pub(crate) rules: &'a R,
    pub(crate) ledger: &'a TableCounters,
}

/// Where a search ended.
enum Found<'a, S> {
    Held(&'a S, SlotEntry),
    Claimed(Spot<'a, S>, SlotEntry),
    Absent,
}

/// Where a new key may go.
enum Free<'a, S> {
    Slot(Spot<'a, S>, SlotEntry),
    /// The key itself is there after all: somebody else was faster.
    Arrived,
    None,
}

/// What an update came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SlotUpdate {
    /// The version that the state is written in.
    pub(crate) version: u32,
    /// `Ok` with the state stored, `Err` with the one that was left alone.
    pub(crate) state: Result<u64, u64>,
    /// When it was decided.
    pub(crate) when: ChargeTime,
    /// What was there before, under the version it was written in.
    pub(crate) found: SlotEntry,
}

/// There is no slot for the key.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct TableFull;

impl<W: SlotWindow, R: SlotRules> Probe<'_, W, R> {
    /// Applies `act` to the key's state: it gets the version the state is
    /// written in, the state and when that is, and returns the state to store, if any.
    /// It may be called again after a lost race. A key that is not there starts
    /// from [`SlotRules::first`] and gets a slot only if that changes.
    pub(crate) fn update(
        &self,
        act: impl Fn(u32, u64, ChargeTime) -> Option<u64>,
    ) -> Result<SlotUpdate, TableFull> {
        loop {
            let done = match self.find() {
                Found::Held(slot, entry) => self.update_held(slot, entry, &act),
                Found::Claimed(spot, claim) => self.hold(&spot, claim, &act),
                Found::Absent => self.insert(&act)?,
            };
            if let Some(settled) = done {
                return Ok(settled);
            }
        }
    }

    /// The same for a key that is where nearly all are: in its first line, under
    /// the version in use. `Ok` with the state stored, `Err` with the one that was
    /// left alone; `None` if the key is not there, or no longer.
    #[inline(always)]
    pub(crate) fn update_at_home(&self, act: impl Fn(u64) -> Option<u64>) -> Option<Result<u64, u64>> {
        // Where in the line nobody can predict, so all of it is compared.
        let mut own = None;
        for slot in self.window.line(0)? {
            let seen = slot.get();
            own = if seen.tag == self.tag { Some((slot, seen.state)) } else { own };
        }
        let (slot, mut seen) = own?;
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

    /// The same for a key that holds a slot; `false` if there is none.
    pub(crate) fn amend(&self, act: impl Fn(u32, u64, ChargeTime) -> u64) -> bool {
        let act = |version, state, when| Some(act(version, state, when));
        loop {
            match self.find() {
                Found::Held(slot, entry) => {
                    if self.update_held(slot, entry, act).is_some() {
                        return true;
                    }
                }
                Found::Claimed(..) | Found::Absent => return false,
            }
        }
    }

    /// An entry of the key under the version to be used.
    #[inline]
    pub(crate) fn adopt(&self, entry: SlotEntry) -> SlotEntry {
        if entry.tag == self.tag { entry } else { self.rules.adopt(entry, self.tag) }
    }

    /// What the key's slot holds, under the version it is written in.
    pub(crate) fn look(&self) -> Option<SlotEntry> {
        match self.find() {
            Found::Held(_, entry) => Some(entry),
            Found::Claimed(..) | Found::Absent => None,
        }
    }

    /// Is the key there, or about to be?
    pub(crate) fn is_present(&self) -> bool {
        W::Slot::fence();
        !matches!(self.find(), Found::Absent)
    }

    /// Would a new key find a slot?
    pub(crate) fn has_room(&self) -> bool {
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

    /// Every slot of the window in the order of the search.
    fn spots(&self) -> impl Iterator<Item = Spot<'_, W::Slot>> {
        let lines = (0..).map_while(|index| self.window.line(index));
        lines.flatten().enumerate().map(|(order, slot)| Spot { order, slot })
    }

    /// `None` if the slot went to somebody else meanwhile.
    fn update_held(
        &self,
        slot: &W::Slot,
        mut seen: SlotEntry,
        act: impl Fn(u32, u64, ChargeTime) -> Option<u64>,
    ) -> Option<SlotUpdate> {
        loop {
            let entry = self.adopt(seen);
            let (version, when) = (entry.tag.version(), ChargeTime { now: self.now, wall_from: Nanos::ZERO });
            let next = act(version, entry.state, when);
            let Some(state) = next.filter(|&state| state != entry.state) else {
                return Some(SlotUpdate { version, state: next.ok_or(entry.state), when, found: seen });
            };
            match slot.replace(seen, SlotEntry { state, ..entry }) {
                Ok(()) => return Some(SlotUpdate { version, state: Ok(state), when, found: seen }),
                Err(other) if other.is_of(self.tag) && !other.is_claim() => seen = other,
                Err(_) => return None,
            }
        }
    }

    /// `Ok(None)` if a race was lost on the way.
    #[cold]
    fn insert(
        &self,
        act: impl Fn(u32, u64, ChargeTime) -> Option<u64>,
    ) -> Result<Option<SlotUpdate>, TableFull> {
        if let (settled, None) = self.act_first(&act) {
            return Ok(Some(settled));
        }
        let (spot, seen) = match self.find_free() {
            Free::Slot(spot, seen) => (spot, seen),
            Free::Arrived => return Ok(None),
            Free::None => return Err(TableFull),
        };
        let forgets = !(seen.is_empty() || seen.is_dead() || seen.is_claim());
        if forgets {
            self.ledger.will_forget(self.now, self.rules.wall());
        }
        let claim = self.ledger.next_claim(self.tag);
        if spot.slot.replace(seen, claim).is_err() {
            return Ok(None);
        }
        if forgets {
            self.ledger.has_forgotten();
        }
        Ok(self.hold(&spot, claim, act))
    }

    /// The first slot that nobody needs. A claim of another key only if there is
    /// no other, since that key is about to need it, and only in one direction:
    /// two keys that took each other's claims could do so for ever.
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

    /// Makes a claim the key's one holder, `act` included; `None` if a race was
    /// lost on the way.
    #[cold]
    fn hold(
        &self,
        spot: &Spot<'_, W::Slot>,
        claim: SlotEntry,
        act: impl Fn(u32, u64, ChargeTime) -> Option<u64>,
    ) -> Option<SlotUpdate> {
        W::Slot::fence();
        self.clear_others(spot, claim)?;
        let (settled, stores) = self.act_first(&act);
        let Some(entry) = stores else {
            // Nothing to hold after all. If this fails, the claim is already gone.
            let _ = spot.slot.replace(claim, SlotEntry::DEAD);
            return Some(settled);
        };
        spot.slot.replace(claim, entry).ok()?;
        self.ledger.keys.fetch_add(1, Ordering::Relaxed);
        Some(settled)
    }

    /// What `act` does to a new key, and the entry to store for it, if any.
    fn act_first(
        &self,
        act: impl Fn(u32, u64, ChargeTime) -> Option<u64>,
    ) -> (SlotUpdate, Option<SlotEntry>) {
        let found = self.rules.first(self.tag);
        let first = self.adopt(found);
        let (version, when) = (first.tag.version(), self.ledger.start_of(self.now));
        let next = act(version, first.state, when);
        let stores = next.filter(|&state| state != first.state).map(|state| SlotEntry { state, ..first });
        (SlotUpdate { version, state: next.ok_or(first.state), when, found }, stores)
    }

    /// Strikes out later claims of the same key; `None`, with this claim given
    /// up, if there is a holder or an earlier claim.
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
                // Whoever changed it first has given it up already.
                let _ = own.slot.replace(claim, SlotEntry::DEAD);
                return None;
            }
        }
        Some(())
    }
}
