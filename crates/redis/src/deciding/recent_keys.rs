//! A table of recently used keys: bounded in size, in shards with one lock each.

use std::collections::HashMap;
use std::hash::{BuildHasher, BuildHasherDefault, Hasher, RandomState};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use siphasher::sip128::{Hasher128, SipHasher13};
use tidegate::{Limit, LimitRef, Meter};

use crate::registry::AD_HOC;

const SHARDS: usize = 64;

/// The hash of a limit's key under a secret seed. It is used in place of the key: 128 bits do not collide by accident,
/// and a client cannot choose two keys with the same hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct KeyHash(u128);

/// Hashes the keys of limits.
#[derive(Debug)]
pub(crate) struct KeyHasher(SipHasher13);

impl KeyHasher {
    pub(crate) fn new() -> KeyHasher {
        let random = || RandomState::new().hash_one(0_u64);
        KeyHasher(SipHasher13::new_with_keys(random(), random()))
    }

    /// All versions and trusts of a limit have the same hash: they share their state.
    pub(crate) fn hash(&self, limit: &LimitRef, key: &[u8]) -> KeyHash {
        let mut hasher = self.0;
        let name = limit.name().as_bytes();
        hasher.write_usize(name.len());
        hasher.write(name);
        if limit.id() == AD_HOC {
            // An ad hoc limit is identified by its numbers.
            write_numbers(limit.limit(), &mut hasher);
        }
        hasher.write(key);
        KeyHash(hasher.finish128().as_u128())
    }
}

fn write_numbers(limit: &Limit, hasher: &mut SipHasher13) {
    let (algorithm, length, per) = match limit {
        Limit::Meter(Meter::TokenBucket(quota)) => (0, quota.rate().nanos(), quota.rate().tokens()),
        Limit::Meter(Meter::SlidingWindow(quota)) => (1, quota.length().get(), 0),
        Limit::Meter(Meter::FixedWindow(quota)) => (2, quota.length().get(), 0),
        Limit::Log(quota) => (3, quota.window().get(), 0),
    };
    hasher.write_u8(algorithm);
    hasher.write_u32(limit.capacity());
    hasher.write_u64(length);
    hasher.write_u64(per);
}

/// Values of about a given number of keys. The least recently used ones are forgotten when new ones are added.
#[derive(Debug)]
pub(crate) struct RecentKeys<V> {
    shards: Box<[Shard<V>]>,
    /// The capacity of one generation of a shard.
    generation_max: usize,
    /// Whether it matters that a value is forgotten.
    matters: fn(&V) -> bool,
    /// Was a value forgotten that matters?
    lost_any: AtomicBool,
}

// One cache line for each shard, so that threads on different shards do not slow each other down.
#[derive(Debug)]
#[repr(align(64))]
struct Shard<V>(Mutex<Generations<V>>);

/// Two generations of keys. When the young one is full, it becomes the old one, and the old one is forgotten. A key
/// that is used moves to the young generation.
#[derive(Debug)]
struct Generations<V> {
    young: Map<V>,
    old: Map<V>,
}

type Map<V> = HashMap<KeyHash, V, BuildHasherDefault<AlreadyHashed>>;

impl<V> RecentKeys<V> {
    pub(crate) fn new(max: usize) -> RecentKeys<V> {
        RecentKeys::tracking_losses(max, |_| false)
    }

    /// A table that records whether a value was forgotten that `matters`.
    pub(crate) fn tracking_losses(max: usize, matters: fn(&V) -> bool) -> RecentKeys<V> {
        let shard = || Shard(Mutex::new(Generations { young: Map::default(), old: Map::default() }));
        let shards = (0..SHARDS).map(|_| shard()).collect();
        let generation_max = (max / SHARDS / 2).max(1);
        RecentKeys { shards, generation_max, matters, lost_any: AtomicBool::new(false) }
    }

    /// Applies `look` to the value of a key, if there is one.
    pub(crate) fn with<R>(&self, hash: KeyHash, look: impl FnOnce(&mut V) -> R) -> Option<R> {
        let mut shard = self.lock(hash);
        if !shard.young.contains_key(&hash) {
            let found = shard.old.remove(&hash)?;
            self.make_room(&mut shard);
            shard.young.insert(hash, found);
        }
        shard.young.get_mut(&hash).map(look)
    }

    /// Applies `look` to the value of a key, after inserting `make()` if there is none.
    pub(crate) fn with_or_insert<R>(
        &self,
        hash: KeyHash,
        make: impl FnOnce() -> V,
        look: impl FnOnce(&mut V) -> R,
    ) -> R {
        let mut shard = self.lock(hash);
        if let Some(found) = shard.young.get_mut(&hash) {
            return look(found);
        }
        let value = shard.old.remove(&hash).unwrap_or_else(make);
        self.make_room(&mut shard);
        look(shard.young.entry(hash).or_insert(value))
    }

    /// Forgets a key.
    pub(crate) fn forget(&self, hash: KeyHash) {
        let mut shard = self.lock(hash);
        shard.young.remove(&hash);
        shard.old.remove(&hash);
    }

    /// Applies `look` to all values, in no particular order.
    pub(crate) fn for_each(&self, mut look: impl FnMut(&mut V)) {
        for shard in &self.shards {
            let mut shard = shard.0.lock().unwrap_or_else(PoisonError::into_inner);
            let Generations { young, old } = &mut *shard;
            young.values_mut().chain(old.values_mut()).for_each(&mut look);
        }
    }

    /// Was a value forgotten that matters?
    pub(crate) fn lost_any(&self) -> bool {
        self.lost_any.load(Ordering::Relaxed)
    }

    fn make_room(&self, shard: &mut Generations<V>) {
        if shard.young.len() >= self.generation_max {
            let forgotten = std::mem::replace(&mut shard.old, std::mem::take(&mut shard.young));
            if !self.lost_any() && forgotten.values().any(self.matters) {
                self.lost_any.store(true, Ordering::Relaxed);
            }
        }
    }

    fn lock(&self, hash: KeyHash) -> MutexGuard<'_, Generations<V>> {
        // The maps use the lower bits.
        let shard = (hash.0 >> 64) as usize % SHARDS;
        self.shards[shard].0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A `Hasher` that returns a [`KeyHash`] unchanged: it is a hash already.
#[derive(Default)]
struct AlreadyHashed(u64);

impl Hasher for AlreadyHashed {
    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.0 ^= u64::from_le_bytes(word);
        }
    }

    fn write_u128(&mut self, hash: u128) {
        self.0 = hash as u64;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use tidegate::Quota;

    use super::*;

    fn hashes(count: u32) -> Vec<KeyHash> {
        let hasher = KeyHasher::new();
        let limit = LimitRef::new("limit", Limit::from(Quota::per_second(1).unwrap()), 1);
        (0..count).map(|n| hasher.hash(&limit, &n.to_le_bytes())).collect()
    }

    fn known(table: &RecentKeys<u32>) -> usize {
        let mut known = 0;
        table.for_each(|_| known += 1);
        known
    }

    #[test]
    fn it_does_not_grow_beyond_its_size_and_keeps_what_is_asked_for() {
        let table = RecentKeys::new(10_000);
        let hashes = hashes(100_000);
        for (n, &hash) in hashes.iter().enumerate() {
            table.with_or_insert(hash, || n as u32, |_| ());
            assert_eq!(table.with(hashes[0], |first| *first), Some(0), "asked for all the time");
        }
        assert!(known(&table) <= 10_000, "{}", known(&table));
        assert!(known(&table) >= 4_000, "{}", known(&table));
        assert_eq!(table.with(hashes[1], |_| ()), None, "forgotten");
    }

    #[test]
    fn it_knows_whether_it_had_to_forget_what_is_missed() {
        let table = RecentKeys::tracking_losses(10_000, |n| *n == 7);
        let hashes = hashes(60_000);
        let fill = |of: std::ops::Range<usize>| {
            of.for_each(|n| table.with_or_insert(hashes[n], || u32::try_from(n).unwrap(), |_| ()));
        };
        fill(8..30_000);
        assert!(!table.lost_any(), "others are forgotten");
        fill(7..8);
        assert!(!table.lost_any(), "it is known");
        fill(30_000..60_000);
        assert!(table.lost_any());
    }

    #[test]
    fn what_is_forgotten_is_unknown() {
        let table = RecentKeys::new(100);
        let hash = hashes(1)[0];
        table.with_or_insert(hash, || 1, |value| *value = 2);
        assert_eq!(table.with_or_insert(hash, || 1, |value| *value), 2);
        table.forget(hash);
        assert_eq!(table.with(hash, |_| ()), None);
    }

    #[test]
    fn names_and_keys_are_told_apart() {
        let hasher = KeyHasher::new();
        let limit = |name| LimitRef::new(name, Limit::from(Quota::per_second(1).unwrap()), 1);
        assert_ne!(hasher.hash(&limit("ab"), b"c"), hasher.hash(&limit("a"), b"bc"));
        assert_ne!(hasher.hash(&limit("a"), b""), hasher.hash(&limit("a"), b"\0"));
        assert_eq!(hasher.hash(&limit("a"), b"b"), hasher.hash(&limit("a"), b"b"));
        let ad_hoc = |rate| LimitRef::new("a", Limit::from(Quota::per_second(rate).unwrap()), AD_HOC);
        assert_ne!(hasher.hash(&ad_hoc(1), b"b"), hasher.hash(&ad_hoc(2), b"b"));
        assert_eq!(hasher.hash(&ad_hoc(1), b"b"), hasher.hash(&ad_hoc(1), b"b"));
    }
}
