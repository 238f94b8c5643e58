//! Tokens that did not verify a moment ago: the same junk again costs a hash, not a signature check.

use std::sync::{Mutex, PoisonError};

use tidegate::Nanos;

use crate::identity::Rejection;

const SHARDS: usize = 16;
/// Tokens in a shard.
const SHARD_SLOTS: usize = 256;
/// After this it is looked at again.
const LIFE: Nanos = Nanos::from_secs(60);

/// A fixed number of places, of which a token has one by its hash. A newcomer takes the place of whoever had
/// it, so a flood of junk makes this forget, and never grow. The hash has 128 bits under keys that nobody
/// knows, so no token can be made that stands in for another.
#[derive(Debug)]
pub(crate) struct RejectedTokens {
    shards: Box<[Mutex<Places>]>,
}

/// The places of one shard.
type Places = Box<[Option<Known>]>;

#[derive(Clone, Debug)]
struct Known {
    name: u128,
    /// Which version of the keys did not verify it.
    version: u64,
    until: Nanos,
    rejection: Rejection,
}

impl RejectedTokens {
    pub(crate) fn new() -> RejectedTokens {
        let shard = || Mutex::new(vec![None; SHARD_SLOTS].into_boxed_slice());
        RejectedTokens { shards: (0..SHARDS).map(|_| shard()).collect() }
    }

    /// Why it did not hold, if these keys have seen it not long ago.
    pub(crate) fn get(&self, name: u128, version: u64, now: Nanos) -> Option<Rejection> {
        let (shard, place) = self.place(name);
        let shard = shard.lock().unwrap_or_else(PoisonError::into_inner);
        let known = shard[place].as_ref().filter(|known| known.name == name && known.version == version)?;
        (now < known.until).then_some(known.rejection)
    }

    /// Remembers that it does not hold.
    pub(crate) fn insert(&self, name: u128, version: u64, rejection: Rejection, now: Nanos) {
        let (shard, place) = self.place(name);
        let known = Known { name, version, until: now.saturating_add(LIFE), rejection };
        shard.lock().unwrap_or_else(PoisonError::into_inner)[place] = Some(known);
    }

    fn place(&self, name: u128) -> (&Mutex<Box<[Option<Known>]>>, usize) {
        let number = (name % (SHARDS * SHARD_SLOTS) as u128) as usize;
        (&self.shards[number % SHARDS], number / SHARDS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn junk_is_known_for_a_while_and_by_its_keys_alone() {
        let (junk, now) = (RejectedTokens::new(), Nanos::from_secs(1_800_000_000));
        junk.insert(7, 0, Rejection::BadSignature, now);
        assert_eq!(junk.get(7, 0, now), Some(Rejection::BadSignature));
        assert_eq!(junk.get(7, 1, now), None, "other keys may verify it");
        assert_eq!(junk.get(7, 0, now.saturating_add(LIFE)), None, "not for long");
        let same_place = 7 + (SHARDS * SHARD_SLOTS) as u128;
        assert_eq!(junk.get(same_place, 0, now), None, "a place is not a name");
        junk.insert(same_place, 0, Rejection::WrongIssuer, now);
        assert_eq!((junk.get(7, 0, now), junk.get(same_place, 0, now)), (None, Some(Rejection::WrongIssuer)));
    }
}
