//! The keys that are seen most, within fixed memory: Space-Saving.
//!
//! There are a few counters, each with the key it counts for. A key without one
//! takes over the smallest: it inherits that count, and remembers it as its
//! error. So what a key is said to have is never too little and too much by at
//! most its error, and any key with more than its share of the total is there.
//!
//! Threads count in shards of their own, which are added up when somebody looks.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::{Mutex, MutexGuard, PoisonError};

use siphasher::sip::SipHasher13;

use super::counters::{SHARDS, shard_of_thread};

/// The most counters in a shard: all of them are looked through each time.
pub const HOT_KEYS_MAX: usize = 64;

/// How much of a key is kept, for people to read.
const LABEL_BYTES: usize = 48;

/// A key that was seen often.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HotKey {
    /// The limit it was recorded for.
    pub limit: u32,
    /// The key, or its first 48 bytes and `…`. What cannot be printed is escaped.
    pub key: String,
    /// What was recorded for it, at most.
    pub count: u64,
    /// How much of that may belong to other keys.
    pub error: u64,
}

/// Finds the keys that are recorded most.
#[derive(Debug)]
pub struct HotKeys {
    shards: Box<[Shard]>,
    /// Random, so that nobody can make a key that is taken for another.
    hash_keys: (u64, u64),
}

/// Aligned so that two locks never share a cache line.
#[derive(Debug)]
#[repr(align(128))]
struct Shard(Mutex<Summary>);

impl HotKeys {
    /// Follows `k` keys in each shard, from one to [`HOT_KEYS_MAX`].
    pub fn new(k: usize) -> HotKeys {
        let k = k.clamp(1, HOT_KEYS_MAX);
        let random = || RandomState::new().hash_one(0_u64);
        HotKeys {
            shards: (0..SHARDS).map(|_| Shard(Mutex::new(Summary::new(k)))).collect(),
            hash_keys: (random(), random()),
        }
    }

    /// Records `weight` for a key of a limit.
    pub fn record(&self, limit: u32, key: &[u8], weight: u64) {
        self.record_in(shard_of_thread(), limit, key, weight);
    }

    fn record_in(&self, shard: usize, limit: u32, key: &[u8], weight: u64) {
        let mut hasher = SipHasher13::new_with_keys(self.hash_keys.0, self.hash_keys.1);
        hasher.write_u32(limit);
        hasher.write(key);
        self.summary(shard).record(hasher.finish(), limit, key, weight);
    }

    /// The `n` keys with the highest counts, highest first.
    ///
    /// What was truly recorded for a key is at most its count, and at least its
    /// count without its error.
    pub fn top(&self, n: usize) -> Vec<HotKey> {
        let mut sums: HashMap<u64, Sum> = HashMap::new();
        let mut floor = 0_u64;
        for shard in 0..self.shards.len() {
            let summary = self.summary(shard);
            let shard_floor = summary.floor();
            floor = floor.saturating_add(shard_floor);
            for (place, owner) in summary.owners.iter().enumerate() {
                let sum = sums.entry(summary.hashes[place]).or_insert_with(|| Sum::of(owner));
                sum.count = sum.count.saturating_add(summary.counts[place]);
                sum.error = sum.error.saturating_add(owner.error);
                sum.floor = sum.floor.saturating_add(shard_floor);
            }
        }
        let mut top: Vec<HotKey> = sums.into_values().map(|sum| sum.into_hot_key(floor)).collect();
        top.sort_unstable_by(|a, b| {
            let by_count = b.count.cmp(&a.count).then(a.error.cmp(&b.error));
            by_count.then_with(|| (a.limit, &a.key).cmp(&(b.limit, &b.key)))
        });
        top.truncate(n);
        top
    }

    /// Forgets everything, to begin a new span of time.
    pub fn clear(&self) {
        for shard in 0..self.shards.len() {
            self.summary(shard).clear();
        }
    }

    fn summary(&self, shard: usize) -> MutexGuard<'_, Summary> {
        self.shards[shard].0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A key's counters over all shards that have one for it.
struct Sum {
    limit: u32,
    label: Label,
    count: u64,
    error: u64,
    /// The sum of the floors of those shards.
    floor: u64,
}

impl Sum {
    fn of(owner: &Owner) -> Sum {
        Sum { limit: owner.limit, label: owner.label, count: 0, error: 0, floor: 0 }
    }

    /// A shard that does not know the key may have seen it as often as its floor.
    fn into_hot_key(self, all_floors: u64) -> HotKey {
        let unseen = all_floors.saturating_sub(self.floor);
        HotKey {
            limit: self.limit,
            key: self.label.to_string(),
            count: self.count.saturating_add(unseen),
            error: self.error.saturating_add(unseen),
        }
    }
}

/// The counters of a shard. What is looked through on every call is apart from
/// what is only read at the end.
#[derive(Debug)]
struct Summary {
    hashes: [u64; HOT_KEYS_MAX],
    counts: [u64; HOT_KEYS_MAX],
    /// As many as there are counters in use; reserved for all of them.
    owners: Vec<Owner>,
    k: usize,
}

/// Whom a counter counts for.
#[derive(Debug)]
struct Owner {
    limit: u32,
    error: u64,
    label: Label,
}

impl Summary {
    fn new(k: usize) -> Summary {
        let owners = Vec::with_capacity(k);
        Summary { hashes: [0; HOT_KEYS_MAX], counts: [0; HOT_KEYS_MAX], owners, k }
    }

    fn record(&mut self, hash: u64, limit: u32, key: &[u8], weight: u64) {
        let used = self.owners.len();
        if let Some(place) = self.hashes[..used].iter().position(|known| *known == hash) {
            self.counts[place] = self.counts[place].saturating_add(weight);
            return;
        }
        let (place, error) = if used < self.k {
            self.owners.push(Owner { limit, error: 0, label: Label::new(key) });
            (used, 0)
        } else {
            let place = self.smallest();
            let error = self.counts[place];
            self.owners[place] = Owner { limit, error, label: Label::new(key) };
            (place, error)
        };
        self.hashes[place] = hash;
        self.counts[place] = error.saturating_add(weight);
    }

    /// The place of the smallest count, where all are in use.
    fn smallest(&self) -> usize {
        let counts = &self.counts[..self.k];
        let least = counts.iter().copied().min().unwrap_or(0);
        counts.iter().position(|count| *count == least).unwrap_or(0)
    }

    /// The most that a key without a counter can have had.
    fn floor(&self) -> u64 {
        if self.owners.len() < self.k { 0 } else { self.counts[self.smallest()] }
    }

    fn clear(&mut self) {
        self.owners.clear();
        self.counts = [0; HOT_KEYS_MAX];
    }
}

/// The beginning of a key.
#[derive(Clone, Copy, Debug)]
struct Label {
    bytes: [u8; LABEL_BYTES],
    len: u8,
    is_cut: bool,
}

impl Label {
    fn new(key: &[u8]) -> Label {
        let is_cut = key.len() > LABEL_BYTES;
        let mut len = key.len().min(LABEL_BYTES);
        // Never in the middle of a character of UTF-8, which has at most three
        // bytes that continue it.
        for _ in 0..3 {
            if is_cut && key[len] & 0b1100_0000 == 0b1000_0000 {
                len -= 1;
            }
        }
        let mut bytes = [0; LABEL_BYTES];
        bytes[..len].copy_from_slice(&key[..len]);
        Label { bytes, len: len as u8, is_cut }
    }
}

impl std::fmt::Display for Label {
    /// Keys come from clients: nothing in them may reach a terminal or a log as
    /// anything but text.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for chunk in self.bytes[..usize::from(self.len)].utf8_chunks() {
            for letter in chunk.valid().chars() {
                match letter {
                    '"' | '\'' => write!(f, "{letter}")?,
                    _ => write!(f, "{}", letter.escape_debug())?,
                }
            }
            for byte in chunk.invalid() {
                write!(f, "\\x{byte:02x}")?;
            }
        }
        if self.is_cut { f.write_str("…") } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests;
