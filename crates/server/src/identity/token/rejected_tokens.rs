//! A cache of rejected tokens: an invalid token that is sent again costs a hash instead of a signature check.

use std::sync::{Mutex, PoisonError};

use tidegate::Nanos;

use crate::identity::Rejection;

const SHARDS: usize = 16;
/// Slots of a shard.
const SHARD_SLOTS: usize = 256;
/// How long an entry is valid.
const LIFETIME: Nanos = Nanos::from_secs(60);

/// A fixed number of slots; the hash of a token selects its slot, and a new token overwrites the old one. So a flood of
/// invalid tokens makes the cache forget but never grow. The hash has 128 bits and random secret keys, so no client can
/// craft a token that is mistaken for another.
#[derive(Debug)]
pub(crate) struct RejectedTokens {
    shards: Box<[Mutex<Slots>]>,
}

/// The slots of one shard.
type Slots = Box<[Option<Known>]>;

#[derive(Clone, Debug)]
struct Known {
    name: u128,
    /// The version of the keys that rejected it.
    version: u64,
    until: Nanos,
    rejection: Rejection,
}

impl RejectedTokens {
    pub(crate) fn new() -> RejectedTokens {
        let shard = || Mutex::new(vec![None; SHARD_SLOTS].into_boxed_slice());
        RejectedTokens { shards: (0..SHARDS).map(|_| shard()).collect() }
    }

    /// Why a token was rejected, if this version of the keys rejected it recently.
    pub(crate) fn get(&self, name: u128, version: u64, now: Nanos) -> Option<Rejection> {
        let (shard, slot) = self.slot(name);
        let shard = shard.lock().unwrap_or_else(PoisonError::into_inner);
        let known = shard[slot].as_ref().filter(|known| known.name == name && known.version == version)?;
        (now < known.until).then_some(known.rejection)
    }

    /// Remembers a rejected token.
    pub(crate) fn insert(&self, name: u128, version: u64, rejection: Rejection, now: Nanos) {
        let (shard, slot) = self.slot(name);
        let known = Known { name, version, until: now.saturating_add(LIFETIME), rejection };
        shard.lock().unwrap_or_else(PoisonError::into_inner)[slot] = Some(known);
    }

    fn slot(&self, name: u128) -> (&Mutex<Slots>, usize) {
        let number = (name % (SHARDS * SHARD_SLOTS) as u128) as usize;
        (&self.shards[number % SHARDS], number / SHARDS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn junk_is_known_for_a_while_and_by_its_keys_alone() {
        let (rejected, now) = (RejectedTokens::new(), Nanos::from_secs(1_800_000_000));
        rejected.insert(7, 0, Rejection::BadSignature, now);
        assert_eq!(rejected.get(7, 0, now), Some(Rejection::BadSignature));
        assert_eq!(rejected.get(7, 1, now), None, "other keys may verify it");
        assert_eq!(rejected.get(7, 0, now.saturating_add(LIFETIME)), None, "not for long");
        let same_slot = 7 + (SHARDS * SHARD_SLOTS) as u128;
        assert_eq!(rejected.get(same_slot, 0, now), None, "the same slot is not the same token");
        rejected.insert(same_slot, 0, Rejection::WrongIssuer, now);
        assert_eq!(
            (rejected.get(7, 0, now), rejected.get(same_slot, 0, now)),
            (None, Some(Rejection::WrongIssuer))
        );
    }
}
