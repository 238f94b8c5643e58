//! A cache of verified tokens. Verifying a signature takes fifty times as long as the decision itself.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex, PoisonError};

use tidegate::Nanos;

use crate::identity::Claims;

const SHARDS: usize = 16;
/// Capacity of a shard.
const SHARD_MAX: usize = 256;
/// How long an entry is valid.
const LIFETIME: Nanos = Nanos::from_secs(300);

/// Only valid tokens are cached, so a client that cannot sign cannot fill it. A token is identified by a 128-bit hash
/// with random secret keys; the token itself is not stored.
#[derive(Debug)]
pub(crate) struct Cache {
    hashers: [RandomState; 2],
    shards: [Mutex<HashMap<u128, Entry>>; SHARDS],
}

#[derive(Debug)]
struct Entry {
    claims: Arc<Claims>,
    /// The version of the keys it was verified with.
    version: u64,
    until: Nanos,
}

impl Cache {
    pub(crate) fn new() -> Cache {
        Cache { hashers: [RandomState::new(), RandomState::new()], shards: Default::default() }
    }

    /// The hash that identifies a token.
    pub(crate) fn name(&self, token: &[u8]) -> u128 {
        let [high, low] = self.hashers.each_ref().map(|hasher| u128::from(hasher.hash_one(token)));
        high << 64 | low
    }

    /// The claims of a token, if it was verified recently with this version of the keys.
    pub(crate) fn get(&self, name: u128, version: u64, now: Nanos) -> Option<Arc<Claims>> {
        let shard = self.shard(name).lock().unwrap_or_else(PoisonError::into_inner);
        let entry = shard.get(&name).filter(|entry| entry.version == version && now < entry.until)?;
        Some(Arc::clone(&entry.claims))
    }

    /// Remembers the claims of a verified token.
    pub(crate) fn insert(&self, name: u128, version: u64, claims: Arc<Claims>, now: Nanos) {
        let mut shard = self.shard(name).lock().unwrap_or_else(PoisonError::into_inner);
        if shard.len() >= SHARD_MAX {
            shard.retain(|_, entry| entry.version == version && now < entry.until);
        }
        if shard.len() >= SHARD_MAX {
            // Evict any entry; its token only has to be verified once more.
            let victim = shard.keys().next().copied();
            victim.and_then(|victim| shard.remove(&victim));
        }
        shard.insert(name, Entry { claims, version, until: now.saturating_add(LIFETIME) });
    }

    fn shard(&self, name: u128) -> &Mutex<HashMap<u128, Entry>> {
        &self.shards[(name % SHARDS as u128) as usize]
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.shards
            .iter()
            .map(|shard| shard.lock().expect("no thread panics while it holds the lock").len())
            .sum()
    }

    #[cfg(test)]
    pub(crate) const MAX: usize = SHARDS * SHARD_MAX;
}
