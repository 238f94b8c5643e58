//! The limits a store knows, by number and by name.
//!
//! A slot names the version of the limit that its state is written in, so any
//! entry can be read by anybody: by the key that returns after an edit, and by a
//! neighbour that looks for an idle key to replace. Versions are only added, and
//! reading one takes no lock.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hash, Hasher, RandomState};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use siphasher::sip::SipHasher13;
use tidegate_core::{Carry, Limit, Meter, Nanos};

use super::overflow::Overflow;
use super::slot::VERSION_BITS;
use crate::{LimitError, LimitRef};

/// Versions are stored in chunks, so that they need not be moved to grow.
type Chunk = Box<[OnceLock<Arc<Version>>]>;

const CHUNK: usize = 1 << 10;
const CHUNKS: usize = 1 << (VERSION_BITS - 10);

/// The most versions: every number but zero.
pub(crate) const VERSIONS_MAX: u32 = (1 << VERSION_BITS) - 1;

/// What stays the same through all edits of a limit.
#[derive(Debug)]
pub(crate) struct Identity {
    /// A limit hashes its keys under random numbers of its own, so that nobody
    /// outside can aim two keys at one slot, and one key has a slot per limit.
    hash_keys: (u64, u64),
    pub(crate) overflow: Overflow,
}

impl Identity {
    fn new() -> Identity {
        let random = || RandomState::new().hash_one(0_u64);
        Identity { hash_keys: (random(), random()), overflow: Overflow::default() }
    }

    /// The key's hash, by SipHash-1-3: the fingerprint *is* the identity, so it
    /// must not be forgeable.
    #[inline]
    pub(crate) fn hash<K: Hash + ?Sized>(&self, key: &K) -> u64 {
        let mut hasher = SipHasher13::new_with_keys(self.hash_keys.0, self.hash_keys.1);
        key.hash(&mut hasher);
        hasher.finish()
    }
}

/// One version of a limit: what an edit replaces.
#[derive(Debug)]
pub(crate) struct Version {
    pub(crate) number: u32,
    pub(crate) limit: Limit,
    pub(crate) identity: Arc<Identity>,
    /// How many edits came before it.
    generation: u32,
    /// From when on it applies, and what it did with the tokens then.
    pub(crate) since: Nanos,
    pub(crate) carry: Carry,
    next: OnceLock<Arc<Version>>,
}

impl Version {
    /// The meter of a limit whose state is a word.
    pub(crate) fn meter(&self) -> Option<&Meter> {
        match &self.limit {
            Limit::Meter(meter) => Some(meter),
            Limit::Log(_) => None,
        }
    }

    /// The version that edits have led to.
    #[inline]
    pub(crate) fn newest(&self) -> &Version {
        let mut version = self;
        while let Some(next) = version.next.get() {
            version = next;
        }
        version
    }
}

/// The versions by number, and the newest of each name.
#[derive(Debug)]
pub(crate) struct Registry {
    chunks: Box<[OnceLock<Chunk>]>,
    names: Mutex<Names>,
}

#[derive(Debug, Default)]
struct Names {
    newest: HashMap<Box<str>, (LimitRef, Arc<Version>)>,
    numbers_used: u32,
}

impl Registry {
    pub(crate) fn new() -> Registry {
        let chunks = (0..CHUNKS).map(|_| OnceLock::new()).collect();
        Registry { chunks, names: Mutex::default() }
    }

    /// The version of a number that this registry gave out.
    pub(crate) fn get(&self, number: u32) -> &Arc<Version> {
        let (chunk, place) = (number as usize / CHUNK, number as usize % CHUNK);
        self.chunks[chunk]
            .get()
            .and_then(|versions| versions[place].get())
            .expect("a version's number is given out after it is stored")
    }

    /// The meter of a version that slots are written in.
    #[inline]
    pub(crate) fn meter(&self, number: u32) -> &Meter {
        self.get(number).meter().expect("only meters keep their state in slots")
    }

    /// Names a limit, or edits it.
    pub(crate) fn name(
        &self,
        name: &str,
        limit: Limit,
        carry: Carry,
        now: Nanos,
    ) -> Result<LimitRef, LimitError> {
        let mut names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        let before = names.newest.get(name).map(|(limit_ref, version)| (limit_ref.clone(), version.clone()));
        if let Some((known, _)) = before.as_ref().filter(|(known, _)| *known.limit() == limit) {
            return Ok(known.clone());
        }
        if names.numbers_used == VERSIONS_MAX {
            return Err(LimitError::TooMany { max: VERSIONS_MAX });
        }
        names.numbers_used += 1;
        let number = names.numbers_used;
        let previous = before.as_ref().map(|(_, version)| version);
        let version = Arc::new(Version {
            number,
            limit,
            identity: previous.map_or_else(|| Arc::new(Identity::new()), |v| v.identity.clone()),
            generation: previous.map_or(0, |v| v.generation + 1),
            since: now,
            carry,
            next: OnceLock::new(),
        });
        self.store(&version);
        if let Some(previous) = previous {
            previous.next.set(version.clone()).expect("only the newest version is edited");
        }
        let limit_ref = LimitRef::new(name, limit, number);
        names.newest.insert(name.into(), (limit_ref.clone(), version));
        Ok(limit_ref)
    }

    fn store(&self, version: &Arc<Version>) {
        let (chunk, place) = (version.number as usize / CHUNK, version.number as usize % CHUNK);
        let versions = self.chunks[chunk].get_or_init(|| (0..CHUNK).map(|_| OnceLock::new()).collect());
        versions[place].set(version.clone()).expect("a number is given out once");
    }

    /// The edits that lead from version `from` to `to`, oldest first. None if
    /// `from` is already as new: a request under way since before an edit must
    /// not undo it.
    pub(crate) fn edits(
        &self,
        from: u32,
        to: &Version,
    ) -> impl Iterator<Item = (&Version, &Version)> + use<'_> {
        let generation = to.generation;
        let mut old = &**self.get(from);
        std::iter::from_fn(move || {
            let new = old.next.get().filter(|new| new.generation <= generation)?;
            Some((std::mem::replace(&mut old, new), &**new))
        })
    }

    /// Brings a word from the version it is written in to `wanted`, each edit as
    /// of its own instant.
    pub(crate) fn bring_up(&self, from: u32, word: u64, wanted: &Version) -> (u32, u64) {
        self.edits(from, wanted).fold((from, word), |(_, word), (old, new)| {
            let word = match (old.meter(), new.meter()) {
                (Some(from), Some(to)) => from.carry(word, to, new.carry, new.since),
                _ => 0,
            };
            (new.number, word)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate_core::{Cost, Quota};

    fn limit(capacity: u32) -> Limit {
        Quota::new(1, Nanos::SECOND, capacity).unwrap().into()
    }

    #[test]
    fn the_same_numbers_under_the_same_name_are_the_same_limit() {
        let registry = Registry::new();
        let name =
            |name, capacity| registry.name(name, limit(capacity), Carry::AsIs, Nanos::ZERO).unwrap().id();
        let first = name("a", 10);
        assert_eq!(name("a", 10), first);
        let edited = name("a", 20);
        assert_ne!(edited, first);
        assert_eq!(registry.get(first).newest().number, edited);
        assert_ne!(name("b", 10), first, "another name has a state of its own");
        let hashes = [first, edited].map(|number| registry.get(number).identity.hash("key"));
        assert_eq!(hashes[0], hashes[1], "an edit keeps the keys where they are");
    }

    #[test]
    fn a_word_is_carried_edit_by_edit_each_at_its_time() {
        let registry = Registry::new();
        let at = Nanos::from_secs;
        let slow = Quota::new(1, Nanos::SECOND, 100).unwrap();
        let fast = Quota::new(10, Nanos::SECOND, 100).unwrap();
        let edit = |quota: Quota, now| registry.name("a", quota.into(), Carry::AsIs, now).unwrap().id();
        let first = edit(slow, at(100));
        let drained = tidegate_core::token_bucket::take(0, &slow, Cost::new(100), at(100)).1.unwrap();
        edit(fast, at(110));
        let last = edit(slow, at(113));
        let (number, word) = registry.bring_up(first, drained, registry.get(last));
        assert_eq!(number, last);
        // 10 s at 1, 3 s at 10, then 2 s at 1 again.
        let left = tidegate_core::token_bucket::peek(word, &slow, Cost::ONE, at(115)).remaining;
        assert_eq!(left, 42);
        let (number, word) = registry.bring_up(last, word, registry.get(first));
        assert_eq!(number, last, "a newer word is not taken back");
        assert_eq!(tidegate_core::token_bucket::peek(word, &slow, Cost::ONE, at(115)).remaining, 42);
    }

    #[test]
    fn a_full_registry_says_so() {
        let registry = Registry::new();
        registry.names.lock().unwrap().numbers_used = VERSIONS_MAX - 1;
        let name = |name: &str| registry.name(name, limit(1), Carry::AsIs, Nanos::ZERO);
        assert_eq!(name("last").unwrap().id(), VERSIONS_MAX);
        assert_eq!(name("more").unwrap_err(), LimitError::TooMany { max: VERSIONS_MAX });
        assert_eq!(name("last").unwrap().id(), VERSIONS_MAX, "what is known stays known");
    }
}
