//! Burst detectors: a key that sends too many requests in a short time is warned, and blocked if it does so
//! again while the warning lasts.
//!
//! A detector counts the requests of a key in windows aligned to multiples of their length. The request that
//! takes the count of a window above the threshold escalates, at most once per window: the first time it warns
//! for the length of the penalty, in a later window while warned it blocks for twice that length.
//!
//! Memory is fixed. An entry whose window is over and whose penalty has ended is reused for other keys. While
//! every entry is in use, new keys are not tracked, and their requests are counted as untracked. So a flood of
//! keys can neither grow memory nor lift a block.

pub(super) mod late;
mod penalties;
mod report;
mod shared;

use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use siphasher::sip::SipHasher13;
use tidegate_core::Nanos;

pub(crate) use penalties::PenaltyOrigin;
pub use penalties::{
    BurstNotLifted, BurstPenalty, BurstPenaltyPage, PENALTIES_LISTED_MAX, PENALTY_VALUE_CHARS_MAX,
};
pub(crate) use report::BurstNote;
pub use report::BurstState;
pub(crate) use shared::PendingCount;

pub use crate::{BurstAction, BurstDetector, BurstVerdict};

use penalties::PenaltyList;

/// A shard has at least this many entries before there is a second shard, so that random keys fill all shards
/// about evenly.
const ENTRIES_PER_SHARD: usize = 1_024;
const SHARDS_MAX: usize = 64;
/// The most entries in a shard, because indices have 32 bits.
const SHARD_ENTRIES_MAX: usize = 1 << 30;

impl BurstDetector {
    /// The end of the window that `now` is in.
    fn window_end(&self, now: Nanos) -> Nanos {
        let length = self.window.get().max(1);
        Nanos::new(now.get() - now.get() % length).saturating_add(Nanos::new(length))
    }

    /// How long a penalty lasts.
    fn span(&self, kind: BurstAction) -> Nanos {
        match kind {
            BurstAction::Warned => self.penalty,
            BurstAction::Blocked => self.penalty.saturating_add(self.penalty),
        }
    }
}

/// The state of all burst detectors.
#[derive(Debug)]
pub struct BurstWatch {
    shards: Box<[Shard]>,
    /// Random, so that a client cannot choose keys that all fall into one shard or one chain.
    hash_keys: (u64, u64),
    untracked: AtomicU64,
    penalties: PenaltyList,
}

/// Aligned so that two locks never share a cache line.
#[derive(Debug)]
#[repr(align(128))]
struct Shard(Mutex<Entries>);

impl BurstWatch {
    /// Tracks at most `max_keys` keys, over all detectors.
    pub fn new(max_keys: usize) -> BurstWatch {
        let wanted = (max_keys / ENTRIES_PER_SHARD).clamp(1, SHARDS_MAX);
        let shards = 1 << wanted.ilog2();
        let capacity = (max_keys / shards).min(SHARD_ENTRIES_MAX);
        let random = || RandomState::new().hash_one(0_u64);
        BurstWatch {
            shards: (0..shards).map(|_| Shard(Mutex::new(Entries::new(capacity)))).collect(),
            hash_keys: (random(), random()),
            untracked: AtomicU64::new(0),
            penalties: PenaltyList::default(),
        }
    }

    /// The result of a detector for a request of `key`. With `count`, the request is counted and may escalate;
    /// without, only an active block is looked up.
    ///
    /// If the clock has stepped back, a request in an earlier window than the newest one of its key is not
    /// counted: time that passes twice never escalates twice, and a block lasts until its end is reached.
    pub fn watch(&self, detector: &BurstDetector, key: &[u8], count: bool, now: Nanos) -> BurstVerdict {
        let hash = self.hash(detector.id, key);
        let mut entries = self.entries(hash);
        let index = match entries.find(hash) {
            Some(index) => index,
            None if !count => return BurstVerdict::default(),
            None => match entries.insert(hash, now) {
                Some(index) => index,
                None => {
                    self.untracked.fetch_add(1, Ordering::Relaxed);
                    return BurstVerdict::default();
                }
            },
        };
        let action = if count { entries.count(index, detector, now) } else { None };
        BurstVerdict { blocked_until: entries.slots[index].state.blocked_until(now), action }
    }

    /// How many requests were not tracked because no entry was free for their key.
    pub fn untracked(&self) -> u64 {
        self.untracked.load(Ordering::Relaxed)
    }

    /// Ends the penalty of the key with this hash.
    fn lift(&self, hash: u64) {
        let mut entries = self.entries(hash);
        if let Some(index) = entries.find(hash) {
            let state = &mut entries.slots[index].state;
            (state.penalty_until, state.blocking) = (Nanos::ZERO, false);
            let expires_at = state.expires_at();
            entries.none_expire_before = entries.none_expire_before.min(expires_at);
        }
    }

    fn hash(&self, detector: u64, key: &[u8]) -> u64 {
        let mut hasher = SipHasher13::new_with_keys(self.hash_keys.0, self.hash_keys.1);
        hasher.write_u64(detector);
        hasher.write(key);
        hasher.finish()
    }

    fn entries(&self, hash: u64) -> MutexGuard<'_, Entries> {
        // The low bits choose the shard, the high bits the chain.
        let shard = hash as usize & (self.shards.len() - 1);
        self.shards[shard].0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The state of a key.
#[derive(Clone, Copy, Debug, Default)]
struct State {
    /// The window that was counted last: its end and its length. If the length is edited, counting starts anew;
    /// the penalty stays.
    window_end: Nanos,
    window: Nanos,
    /// When the penalty ends, if there is one.
    penalty_until: Nanos,
    count: u32,
    /// The threshold of this window was crossed; it does not escalate again.
    crossed: bool,
    /// Whether the penalty is a block or a warning.
    blocking: bool,
}

impl State {
    /// Counts a request, and escalates if it is the one that crosses the threshold.
    fn count(&mut self, detector: &BurstDetector, now: Nanos) -> Option<BurstAction> {
        let window_end = detector.window_end(now);
        if self.window == detector.window && window_end < self.window_end {
            return None;
        }
        if self.window != detector.window || window_end > self.window_end {
            (self.window_end, self.window) = (window_end, detector.window);
            (self.count, self.crossed) = (0, false);
        }
        self.count = self.count.saturating_add(1);
        if self.crossed || self.count <= detector.threshold {
            return None;
        }
        self.crossed = true;
        self.escalate(detector, now)
    }

    fn escalate(&mut self, detector: &BurstDetector, now: Nanos) -> Option<BurstAction> {
        let is_active = self.penalty_until > now;
        let action = match (is_active, self.blocking) {
            (true, true) => return None,
            (true, false) => BurstAction::Blocked,
            (false, _) => BurstAction::Warned,
        };
        self.blocking = action == BurstAction::Blocked;
        self.penalty_until = now.saturating_add(detector.span(action));
        Some(action)
    }

    fn blocked_until(&self, now: Nanos) -> Option<Nanos> {
        (self.blocking && self.penalty_until > now).then_some(self.penalty_until)
    }

    /// From this instant on the entry can be reused.
    fn expires_at(&self) -> Nanos {
        self.window_end.max(self.penalty_until)
    }
}

/// An index into the list of entries plus one, or zero for none.
type Link = u32;
const NONE: Link = 0;

/// The entries of a shard: hash chains over a list that never grows beyond its capacity, so that nothing is
/// allocated after the start.
#[derive(Debug)]
struct Entries {
    slots: Vec<Slot>,
    capacity: usize,
    /// The first entry of each chain.
    chains: Box<[Link]>,
    /// The first of the used slots that are free again.
    free: Link,
    /// No entry expires before this instant: until then there is no point in searching.
    none_expire_before: Nanos,
}

#[derive(Debug)]
struct Slot {
    /// Identifies detector and key. If two keys ever agree in all 64 bits, they are counted as one.
    hash: u64,
    next: Link,
    state: State,
}

impl Entries {
    fn new(capacity: usize) -> Entries {
        let chains = vec![NONE; capacity.next_power_of_two()].into_boxed_slice();
        let slots = Vec::with_capacity(capacity);
        Entries { slots, capacity, chains, free: NONE, none_expire_before: Nanos::ZERO }
    }

    fn find(&self, hash: u64) -> Option<usize> {
        let mut link = self.chains[self.chain(hash)];
        while link != NONE {
            let slot = &self.slots[index_of(link)];
            if slot.hash == hash {
                return Some(index_of(link));
            }
            link = slot.next;
        }
        None
    }

    /// Counts a request of the key at this index.
    fn count(&mut self, index: usize, detector: &BurstDetector, now: Nanos) -> Option<BurstAction> {
        let state = &mut self.slots[index].state;
        let action = state.count(detector, now);
        self.none_expire_before = self.none_expire_before.min(state.expires_at());
        action
    }

    /// Adds an entry for a new key; `None` if every entry is in use.
    fn insert(&mut self, hash: u64, now: Nanos) -> Option<usize> {
        if self.slots.len() == self.capacity && self.free == NONE {
            self.release_expired(now);
        }
        let chain = self.chain(hash);
        let slot = Slot { hash, next: self.chains[chain], state: State::default() };
        let link = if self.slots.len() < self.capacity {
            self.slots.push(slot);
            self.slots.len() as Link
        } else if self.free != NONE {
            let link = self.free;
            self.free = std::mem::replace(&mut self.slots[index_of(link)], slot).next;
            link
        } else {
            return None;
        };
        self.chains[chain] = link;
        Some(index_of(link))
    }

    /// Frees all expired entries, if there can be any. Windows end for many keys at once, and few keys have
    /// penalties, so this is rare.
    fn release_expired(&mut self, now: Nanos) {
        if now < self.none_expire_before {
            return;
        }
        self.none_expire_before = Nanos::MAX;
        for chain in 0..self.chains.len() {
            let mut link = std::mem::replace(&mut self.chains[chain], NONE);
            while link != NONE {
                let slot = &mut self.slots[index_of(link)];
                let expires_at = slot.state.expires_at();
                let list = if expires_at <= now { &mut self.free } else { &mut self.chains[chain] };
                let next = std::mem::replace(&mut slot.next, *list);
                *list = std::mem::replace(&mut link, next);
                if expires_at > now {
                    self.none_expire_before = self.none_expire_before.min(expires_at);
                }
            }
        }
    }

    fn chain(&self, hash: u64) -> usize {
        (hash >> 32) as usize & (self.chains.len() - 1)
    }
}

fn index_of(link: Link) -> usize {
    link as usize - 1
}

#[cfg(test)]
mod tests;
