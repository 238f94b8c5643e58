//! The keys that occur most often, in fixed memory: the Space-Saving algorithm.
//!
//! There are a few counters, each for one key. A key without a counter takes over the smallest one: it inherits
//! that count and stores it as its error. So the count of a key is never too low, and too high by at most its
//! error; and every key that occurs more often than the total divided by the number of counters has one.
//!
//! Each thread counts in its own shard; the shards are added up when they are read. If somebody starts a new span now and then,
//! what is read is of the span that goes on and the one before, so that it is of late; otherwise it is of all time.

use std::collections::HashMap;
use std::fmt::{Display, Write};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::{Mutex, MutexGuard, PoisonError};

use siphasher::sip::SipHasher13;

use super::counters::{SHARDS, shard_of_thread};

/// The most counters in a shard, since all of them are scanned for each key.
pub const HOT_KEYS_MAX: usize = 64;

/// How many bytes of a key are stored, for display.
const LABEL_BYTES: usize = 48;

/// Follows each value of a key that has several.
const SEPARATOR: u8 = 0x1F;

/// A key that occurs often.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HotKey {
    /// The limit it was recorded for.
    pub limit: u32,
    /// The key, or its first 48 bytes and `…`. Unprintable characters are escaped.
    pub key: String,
    /// The same, divided where the key has separators. It is divided before it is escaped, since a client can send what an
    /// escaped separator looks like.
    pub parts: Vec<String>,
    /// The first bytes of the key, as it was recorded.
    pub recorded: Vec<u8>,
    /// Has the key more bytes?
    pub is_cut: bool,
    /// The recorded weight; never too low.
    pub count: u64,
    /// How much of that may belong to other keys.
    pub error: u64,
}

/// The keys with the highest counts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TopKeys {
    /// The keys, highest count first.
    pub keys: Vec<HotKey>,
    /// No other key has a higher weight.
    pub others_at_most: u64,
}

/// Finds the keys with the highest recorded weight.
#[derive(Debug)]
pub struct HotKeys {
    shards: Box<[Shard]>,
    /// Random, so that a client cannot construct two keys with the same hash.
    hash_keys: (u64, u64),
}

/// Aligned so that two locks never share a cache line.
#[derive(Debug)]
#[repr(align(128))]
struct Shard(Mutex<Spans>);

/// The counters of a shard in the span that goes on, and in the one before.
#[derive(Debug)]
struct Spans {
    now: Summary,
    before: Summary,
}

impl HotKeys {
    /// Tracks `k` keys in each shard, from 1 to [`HOT_KEYS_MAX`].
    pub fn new(k: usize) -> HotKeys {
        let k = k.clamp(1, HOT_KEYS_MAX);
        let random = || RandomState::new().hash_one(0_u64);
        HotKeys {
            shards: (0..SHARDS)
                .map(|_| Shard(Mutex::new(Spans { now: Summary::new(k), before: Summary::new(k) })))
                .collect(),
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
        self.spans(shard).now.record(hasher.finish(), limit, key, weight);
    }

    /// The `n` keys with the highest counts.
    ///
    /// The true weight of a key is at most its count, and at least its count minus its error.
    pub fn top(&self, n: usize) -> TopKeys {
        self.top_of(n, |_| true)
    }

    /// The same of some limits. The keys of others take no places, and do not count among those that are left out.
    pub fn top_of(&self, n: usize, is_wanted: impl Fn(u32) -> bool) -> TopKeys {
        let mut sums = KeySums::default();
        for shard in 0..self.shards.len() {
            let spans = self.spans(shard);
            sums.add(&spans.now);
            sums.add(&spans.before);
        }
        sums.by_hash.retain(|_, sum| is_wanted(sum.limit));
        sums.into_top(n)
    }

    /// Starts a new span: what was counted before the last start is dropped.
    pub fn start_span(&self) {
        for shard in 0..self.shards.len() {
            let mut spans = self.spans(shard);
            let Spans { now, before } = &mut *spans;
            std::mem::swap(now, before);
            now.clear();
        }
    }

    fn spans(&self, shard: usize) -> MutexGuard<'_, Spans> {
        self.shards[shard].0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The counters of all keys, summed over shards and spans.
#[derive(Default)]
struct KeySums {
    by_hash: HashMap<u64, Sum>,
    /// The sum of the floors of all of them.
    floor: u64,
}

impl KeySums {
    fn add(&mut self, summary: &Summary) {
        let floor = summary.floor();
        self.floor = self.floor.saturating_add(floor);
        for (index, owner) in summary.owners.iter().enumerate() {
            let sum = self.by_hash.entry(summary.hashes[index]).or_insert_with(|| Sum::of(owner));
            sum.count = sum.count.saturating_add(summary.counts[index]);
            sum.error = sum.error.saturating_add(owner.error);
            sum.floor = sum.floor.saturating_add(floor);
        }
    }

    fn into_top(self, n: usize) -> TopKeys {
        let floor = self.floor;
        let mut keys: Vec<HotKey> = self.by_hash.into_values().map(|sum| sum.into_hot_key(floor)).collect();
        keys.sort_unstable_by(|a, b| {
            let by_count = b.count.cmp(&a.count).then(a.error.cmp(&b.error));
            by_count.then_with(|| (a.limit, &a.key).cmp(&(b.limit, &b.key)))
        });
        let others_at_most = keys.get(n).map_or(floor, |cut| cut.count.max(floor));
        keys.truncate(n);
        TopKeys { keys, others_at_most }
    }
}

/// The counters of a key, summed over all summaries that track it.
struct Sum {
    limit: u32,
    label: Label,
    count: u64,
    error: u64,
    /// The sum of the floors of those summaries.
    floor: u64,
}

impl Sum {
    fn of(owner: &Owner) -> Sum {
        Sum { limit: owner.limit, label: owner.label, count: 0, error: 0, floor: 0 }
    }

    /// A summary that does not track the key may have seen it as often as its floor.
    fn into_hot_key(self, all_floors: u64) -> HotKey {
        let unseen = all_floors.saturating_sub(self.floor);
        HotKey {
            limit: self.limit,
            key: self.label.to_string(),
            parts: self.label.parts(),
            recorded: self.label.recorded().to_vec(),
            is_cut: self.label.is_cut,
            count: self.count.saturating_add(unseen),
            error: self.error.saturating_add(unseen),
        }
    }
}

/// Some counters. The arrays that every call scans are separate from what is only read at the end.
#[derive(Debug)]
struct Summary {
    hashes: [u64; HOT_KEYS_MAX],
    counts: [u64; HOT_KEYS_MAX],
    /// One for each counter in use; its capacity is allocated at the start.
    owners: Vec<Owner>,
    k: usize,
}

/// The key of a counter.
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
        if let Some(index) = self.hashes[..used].iter().position(|known| *known == hash) {
            self.counts[index] = self.counts[index].saturating_add(weight);
            return;
        }
        let (index, error) = if used < self.k {
            self.owners.push(Owner { limit, error: 0, label: Label::new(key) });
            (used, 0)
        } else {
            let index = self.smallest();
            let error = self.counts[index];
            self.owners[index] = Owner { limit, error, label: Label::new(key) };
            (index, error)
        };
        self.hashes[index] = hash;
        self.counts[index] = error.saturating_add(weight);
    }

    /// The index of the smallest count, when all counters are in use.
    fn smallest(&self) -> usize {
        let counts = &self.counts[..self.k];
        let least = counts.iter().copied().min().unwrap_or(0);
        counts.iter().position(|count| *count == least).unwrap_or(0)
    }

    /// The highest weight that a key without a counter can have.
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
        // Do not cut within a UTF-8 character, which has at most three continuation bytes.
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

impl Label {
    fn recorded(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }

    /// What is between the separators, each part as it is displayed.
    fn parts(&self) -> Vec<String> {
        let whole = self.recorded();
        // The last separator ends the last value, unless the key goes on.
        let values = whole.strip_suffix(&[SEPARATOR]).filter(|_| !self.is_cut).unwrap_or(whole);
        let mut parts: Vec<String> =
            values.split(|byte| *byte == SEPARATOR).map(|part| Printable(part).to_string()).collect();
        if let Some(last) = parts.last_mut().filter(|_| self.is_cut) {
            last.push(CUT);
        }
        parts
    }
}

/// In place of the end of a key that is too long.
const CUT: char = '…';

impl Display for Label {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        Printable(self.recorded()).fmt(f)?;
        if self.is_cut { f.write_char(CUT) } else { Ok(()) }
    }
}

/// Keys come from clients, so control characters must not reach a terminal or a log.
struct Printable<'b>(&'b [u8]);

impl Display for Printable<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for chunk in self.0.utf8_chunks() {
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
        Ok(())
    }
}

#[cfg(test)]
mod tests;
