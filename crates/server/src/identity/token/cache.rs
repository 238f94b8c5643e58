//! Tokens that were verified a moment ago. Verifying a signature takes fifty times as long as the
//! decision it is for.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex, PoisonError};

use tidegate::Nanos;

use crate::identity::Claims;

const SHARDS: usize = 16;
/// Tokens in a shard.
const SHARD_MAX: usize = 256;
/// A token is verified again after this.
const LIFE: Nanos = Nanos::from_secs(300);

/// Only tokens that hold are kept, so nobody fills it who cannot sign. A token is known by a hash of
/// 128 bits under keys that nobody knows, and is not itself kept.
#[derive(Debug)]
pub(crate) struct Cache {
    hashers: [RandomState; 2],
    shards: [Mutex<HashMap<u128, Entry>>; SHARDS],
}

#[derive(Debug)]
struct Entry {
    claims: Arc<Claims>,
    /// Which version of the keys it was verified by.
    version: u64,
    until: Nanos,
}

impl Cache {
    pub(crate) fn new() -> Cache {
        Cache { hashers: [RandomState::new(), RandomState::new()], shards: Default::default() }
    }

    /// What a token is known by.
    pub(crate) fn name(&self, token: &[u8]) -> u128 {
        let [high, low] = self.hashers.each_ref().map(|hasher| u128::from(hasher.hash_one(token)));
        high << 64 | low
    }

    /// What was found out, if it was by these keys and not long ago.
    pub(crate) fn get(&self, name: u128, version: u64, now: Nanos) -> Option<Arc<Claims>> {
        let shard = self.shard(name).lock().unwrap_or_else(PoisonError::into_inner);
        let entry = shard.get(&name).filter(|entry| entry.version == version && now < entry.until)?;
        Some(Arc::clone(&entry.claims))
    }

    /// Remembers what was found out.
    pub(crate) fn insert(&self, name: u128, version: u64, claims: Arc<Claims>, now: Nanos) {
        let mut shard = self.shard(name).lock().unwrap_or_else(PoisonError::into_inner);
        if shard.len() >= SHARD_MAX {
            shard.retain(|_, entry| entry.version == version && now < entry.until);
        }
        if shard.len() >= SHARD_MAX {
            // Any of them; it is only verified once more.
            let victim = shard.keys().next().copied();
            victim.and_then(|victim| shard.remove(&victim));
        }
        shard.insert(name, Entry { claims, version, until: now.saturating_add(LIFE) });
    }

    fn shard(&self, name: u128) -> &Mutex<HashMap<u128, Entry>> {
        &self.shards[(name % SHARDS as u128) as usize]
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.shards.iter().map(|shard| shard.lock().expect("nobody panics with it").len()).sum()
    }

    #[cfg(test)]
    pub(crate) const MAX: usize = SHARDS * SHARD_MAX;
}
