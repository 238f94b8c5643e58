//! Burst detectors: who sends too much in a short time is warned, and whoever
//! does it again while warned is blocked for a while.
//!
//! A detector counts a key's requests in windows aligned to multiples of their
//! length. The request that takes a window's count past the threshold escalates,
//! once in a window at most: a first offence warns for the penalty, another one
//! in a later window while warned blocks for twice that.
//!
//! Memory is fixed. An entry whose window is over and whose penalty has ended
//! carries nothing and makes room for others; while every entry carries
//! something, new keys go unwatched and are counted. So a flood of keys can
//! neither grow memory nor lift a block.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use siphasher::sip::SipHasher13;
use tidegate_core::Nanos;

/// A shard has at least that many entries before there is a second one, so that
/// chance fills all of them about evenly.
const ENTRIES_PER_SHARD: usize = 1_024;
const SHARDS_MAX: usize = 64;
/// More entries than that in one shard are refused: places are 32-bit numbers.
const SHARD_ENTRIES_MAX: usize = 1 << 30;

/// A burst detector: what to count, and what to do about too much.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BurstDetector {
    /// A hash of its name, so that counts and penalties outlive an edit.
    pub id: u64,
    /// The length of a window; zero is read as one nanosecond.
    pub window: Nanos,
    /// How many requests a window may have.
    pub threshold: u32,
    /// How long a warning lasts; a block lasts twice as long.
    pub penalty: Nanos,
}

impl BurstDetector {
    /// The end of the window that `now` is in.
    fn window_end(&self, now: Nanos) -> Nanos {
        let length = self.window.get().max(1);
        Nanos::new(now.get() - now.get() % length).saturating_add(Nanos::new(length))
    }
}

/// What a request has led to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BurstAction {
    /// A first offence: the key is warned.
    Warned,
    /// An offence while warned: the key is blocked.
    Blocked,
}

/// What a detector says to a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BurstVerdict {
    /// The end of the block, if the key is blocked.
    pub blocked_until: Option<Nanos>,
    /// What this very request has led to.
    pub action: Option<BurstAction>,
}

/// The state of all burst detectors.
#[derive(Debug)]
pub struct BurstWatch {
    shards: Box<[Shard]>,
    /// Random, so that nobody outside can aim keys at one shard or one chain.
    hash_keys: (u64, u64),
    untracked: AtomicU64,
}

/// Aligned so that two locks never share a cache line.
#[derive(Debug)]
#[repr(align(128))]
struct Shard(Mutex<Entries>);

impl BurstWatch {
    /// Room for at most `max_keys` keys, over all detectors.
    pub fn new(max_keys: usize) -> BurstWatch {
        let wanted = (max_keys / ENTRIES_PER_SHARD).clamp(1, SHARDS_MAX);
        let shards = 1 << wanted.ilog2();
        let capacity = (max_keys / shards).min(SHARD_ENTRIES_MAX);
        let random = || RandomState::new().hash_one(0_u64);
        BurstWatch {
            shards: (0..shards).map(|_| Shard(Mutex::new(Entries::new(capacity)))).collect(),
            hash_keys: (random(), random()),
            untracked: AtomicU64::new(0),
        }
    }

    /// What the detector says to a request of `key`. With `count` the request
    /// counts and may escalate; without, only an active block is looked up.
    ///
    /// A request from an earlier window than the newest one of its key, because a
    /// clock stepped back, does not count: time that is lived through twice never
    /// escalates twice, and a block lasts until its instant is reached.
    pub fn watch(&self, detector: &BurstDetector, key: &[u8], count: bool, now: Nanos) -> BurstVerdict {
        let hash = self.hash(detector.id, key);
        let mut entries = self.entries(hash);
        let place = match entries.find(hash) {
            Some(place) => place,
            None if !count => return BurstVerdict::default(),
            None => match entries.insert(hash, now) {
                Some(place) => place,
                None => {
                    self.untracked.fetch_add(1, Ordering::Relaxed);
                    return BurstVerdict::default();
                }
            },
        };
        let action = if count { entries.count(place, detector, now) } else { None };
        BurstVerdict { blocked_until: entries.slots[place].state.blocked_until(now), action }
    }

    /// How many requests were not watched because there was no room for their
    /// key.
    pub fn untracked(&self) -> u64 {
        self.untracked.load(Ordering::Relaxed)
    }

    fn hash(&self, detector: u64, key: &[u8]) -> u64 {
        let mut hasher = SipHasher13::new_with_keys(self.hash_keys.0, self.hash_keys.1);
        hasher.write_u64(detector);
        hasher.write(key);
        hasher.finish()
    }

    fn entries(&self, hash: u64) -> MutexGuard<'_, Entries> {
        // The low bits choose the shard, the high ones the chain.
        let shard = hash as usize & (self.shards.len() - 1);
        self.shards[shard].0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What is known of a key.
#[derive(Clone, Copy, Debug, Default)]
struct State {
    /// The window that was counted last: its end and its length. After an edit of
    /// the length a new count begins; the penalty stays.
    window_end: Nanos,
    window: Nanos,
    /// When the penalty ends, if there is one.
    penalty_until: Nanos,
    count: u32,
    /// The threshold of this window was crossed: nothing more comes of it.
    crossed: bool,
    /// Whether the penalty is a block or a warning.
    blocking: bool,
}

impl State {
    /// Counts a request and escalates if it is the one that crosses.
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
        self.escalate(detector.penalty, now)
    }

    fn escalate(&mut self, penalty: Nanos, now: Nanos) -> Option<BurstAction> {
        let is_active = self.penalty_until > now;
        let (action, span) = match (is_active, self.blocking) {
            (true, true) => return None,
            (true, false) => (BurstAction::Blocked, penalty.saturating_add(penalty)),
            (false, _) => (BurstAction::Warned, penalty),
        };
        self.blocking = action == BurstAction::Blocked;
        self.penalty_until = now.saturating_add(span);
        Some(action)
    }

    fn blocked_until(&self, now: Nanos) -> Option<Nanos> {
        (self.blocking && self.penalty_until > now).then_some(self.penalty_until)
    }

    /// From when on it carries nothing.
    fn over_at(&self) -> Nanos {
        self.window_end.max(self.penalty_until)
    }
}

/// A place in the list of entries plus one, or none.
type Link = u32;
const NONE: Link = 0;

/// The entries of a shard: chains by hash over a list that never grows past its
/// capacity, so that nothing is allocated after a start.
#[derive(Debug)]
struct Entries {
    slots: Vec<Slot>,
    capacity: usize,
    /// The first of each chain.
    chains: Box<[Link]>,
    /// The first of the slots that were used before and are free.
    free: Link,
    /// No entry is over before that: until then it is no use to look for one.
    none_over_before: Nanos,
}

#[derive(Debug)]
struct Slot {
    /// The identity of detector and key. Should two keys ever agree in all of its
    /// 64 bits, they are counted as one.
    hash: u64,
    next: Link,
    state: State,
}

impl Entries {
    fn new(capacity: usize) -> Entries {
        let chains = vec![NONE; capacity.next_power_of_two()].into_boxed_slice();
        let slots = Vec::with_capacity(capacity);
        Entries { slots, capacity, chains, free: NONE, none_over_before: Nanos::ZERO }
    }

    fn find(&self, hash: u64) -> Option<usize> {
        let mut link = self.chains[self.chain(hash)];
        while link != NONE {
            let slot = &self.slots[place(link)];
            if slot.hash == hash {
                return Some(place(link));
            }
            link = slot.next;
        }
        None
    }

    /// Counts a request for the key at that place.
    fn count(&mut self, place: usize, detector: &BurstDetector, now: Nanos) -> Option<BurstAction> {
        let state = &mut self.slots[place].state;
        let action = state.count(detector, now);
        self.none_over_before = self.none_over_before.min(state.over_at());
        action
    }

    /// A place for a key that has none; `None` if every entry carries something.
    fn insert(&mut self, hash: u64, now: Nanos) -> Option<usize> {
        if self.slots.len() == self.capacity && self.free == NONE {
            self.release_over(now);
        }
        let chain = self.chain(hash);
        let slot = Slot { hash, next: self.chains[chain], state: State::default() };
        let link = if self.slots.len() < self.capacity {
            self.slots.push(slot);
            self.slots.len() as Link
        } else if self.free != NONE {
            let link = self.free;
            self.free = std::mem::replace(&mut self.slots[place(link)], slot).next;
            link
        } else {
            return None;
        };
        self.chains[chain] = link;
        Some(place(link))
    }

    /// Frees all entries that carry nothing, if there can be any. Windows end for
    /// many keys at once and penalties are dear to come by, so this is rare.
    fn release_over(&mut self, now: Nanos) {
        if now < self.none_over_before {
            return;
        }
        self.none_over_before = Nanos::MAX;
        for chain in 0..self.chains.len() {
            let mut link = std::mem::replace(&mut self.chains[chain], NONE);
            while link != NONE {
                let slot = &mut self.slots[place(link)];
                let over_at = slot.state.over_at();
                let list = if over_at <= now { &mut self.free } else { &mut self.chains[chain] };
                let next = std::mem::replace(&mut slot.next, *list);
                *list = std::mem::replace(&mut link, next);
                if over_at > now {
                    self.none_over_before = self.none_over_before.min(over_at);
                }
            }
        }
    }

    fn chain(&self, hash: u64) -> usize {
        (hash >> 32) as usize & (self.chains.len() - 1)
    }
}

fn place(link: Link) -> usize {
    link as usize - 1
}

#[cfg(test)]
mod tests;
