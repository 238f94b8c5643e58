//! The limits a store knows, by number and by name.
//!
//! A slot names the version of the limit that its state is written in, so any
//! entry can be read by anybody: by the key that returns after an edit, and by a
//! neighbour that looks for an idle key to replace. Versions are only added, and
//! reading one takes no lock. Only whoever has the store to itself can forget
//! limits, and then their numbers are used again.
//!
//! An edit makes a new generation of a limit, with a plain version; its variants
//! for trusted keys are versions too, made when first asked for.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use tidegate_core::{Limit, Meter, Nanos};

use super::slot::VERSION_BITS;
use super::version::{Identity, Version};
use crate::{LimitError, LimitRef, NamedLimit};

/// Versions are stored in chunks, so that they need not be moved to grow.
type Chunk = Box<[OnceLock<Arc<Version>>]>;

const CHUNK: usize = 1 << 10;
const CHUNKS: usize = 1 << (VERSION_BITS - 10);

/// The most versions: every number but zero.
pub(crate) const VERSIONS_MAX: u32 = (1 << VERSION_BITS) - 1;

/// The versions by number, and the newest of each name.
#[derive(Debug)]
pub(crate) struct Registry {
    chunks: Box<[OnceLock<Chunk>]>,
    names: Mutex<Names>,
}

#[derive(Debug, Default)]
struct Names {
    newest: HashMap<Box<str>, Arc<Version>>,
    numbers_used: u32,
    /// Numbers of limits that were forgotten, to be given out again.
    given_up: Vec<u32>,
}

impl Names {
    fn next_number(&mut self) -> Result<u32, LimitError> {
        self.check_room(1)?;
        if let Some(number) = self.given_up.pop() {
            return Ok(number);
        }
        self.numbers_used += 1;
        Ok(self.numbers_used)
    }

    /// Are there so many numbers left?
    fn check_room(&self, numbers: usize) -> Result<(), LimitError> {
        let left = (VERSIONS_MAX - self.numbers_used) as usize + self.given_up.len();
        if numbers <= left { Ok(()) } else { Err(LimitError::TooMany { max: VERSIONS_MAX }) }
    }
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

    /// Names limits, or edits them: all of them, or none. When that is, is told by both clocks.
    pub(crate) fn name_all(
        &self,
        limits: &[NamedLimit<'_>],
        (now, wall): (Nanos, Nanos),
    ) -> Result<Vec<LimitRef>, LimitError> {
        let mut names = self.lock();
        let is_new = |named: &&NamedLimit<'_>| {
            names.newest.get(named.name).is_none_or(|known| known.limit != named.limit)
        };
        names.check_room(limits.iter().filter(is_new).count())?;
        limits.iter().map(|named| self.name_in(&mut names, named, (now, wall))).collect()
    }

    fn name_in(
        &self,
        names: &mut Names,
        named: &NamedLimit<'_>,
        (now, wall): (Nanos, Nanos),
    ) -> Result<LimitRef, LimitError> {
        let NamedLimit { name, limit, carry, trusted } = *named;
        let previous = names.newest.get(name).cloned();
        if let Some(known) = previous.as_ref().filter(|_| trusted) {
            known.identity.trust();
        }
        if let Some(known) = previous.as_ref().filter(|known| known.limit == limit) {
            return Ok(known.handle.clone());
        }
        let number = names.next_number()?;
        let identity = previous.as_ref().map(|version| version.identity.clone());
        let version = Arc::new(Version {
            number,
            limit,
            identity: identity.unwrap_or_else(|| Arc::new(Identity::new(trusted))),
            generation: previous.as_ref().map_or(0, |version| version.generation + 1),
            trust: 0,
            plain: number,
            since: now,
            since_wall: wall,
            carry,
            handle: LimitRef::new(name, limit, number),
            next: OnceLock::new(),
            variants: OnceLock::new(),
        });
        self.store(&version);
        if let Some(previous) = previous {
            previous.next.set(version.clone()).expect("only the newest version is edited");
        }
        let handle = version.handle.clone();
        names.newest.insert(name.into(), version);
        Ok(handle)
    }

    /// The version of a number at some trust; takes a lock only the first time.
    pub(crate) fn variant(&self, number: u32, trust: u8) -> Result<LimitRef, LimitError> {
        let plain = self.plain(self.get(number));
        if trust == 0 {
            return Ok(plain.handle.clone());
        }
        if let Some(known) = plain.known_variant(trust) {
            return Ok(known.clone());
        }
        let limit = plain.limit.trusted(trust)?;
        let mut names = self.lock();
        let variants =
            plain.variants.get_or_init(|| (0..Limit::TRUST_MAX).map(|_| OnceLock::new()).collect());
        let place = &variants[usize::from(trust) - 1];
        if let Some(known) = place.get() {
            return Ok(known.clone());
        }
        let number = names.next_number()?;
        plain.identity.trust();
        let handle = plain.handle.at_trust(trust, limit, number);
        self.store(&Arc::new(Version {
            number,
            limit,
            identity: plain.identity.clone(),
            generation: plain.generation,
            trust,
            plain: plain.number,
            since: plain.since,
            since_wall: plain.since_wall,
            carry: plain.carry,
            handle: handle.clone(),
            next: OnceLock::new(),
            variants: OnceLock::new(),
        }));
        place.set(handle.clone()).expect("variants are made under the lock");
        Ok(handle)
    }

    /// Forgets limits that were never edited and have no variants. Their numbers
    /// are given out again, so nothing may be written in them any more.
    pub(crate) fn forget(&mut self, numbers: &[u32]) {
        let names = self.names.get_mut().unwrap_or_else(PoisonError::into_inner);
        for &number in numbers {
            let (chunk, place) = (number as usize / CHUNK, number as usize % CHUNK);
            let version = self.chunks[chunk].get_mut().and_then(|versions| versions[place].take());
            let version = version.expect("only what is known is forgotten");
            names.newest.remove(version.handle.name());
            names.given_up.push(number);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Names> {
        self.names.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The plain version of the same generation.
    #[inline]
    pub(super) fn plain<'a>(&'a self, version: &'a Version) -> &'a Version {
        if version.trust == 0 { version } else { self.get(version.plain) }
    }

    fn store(&self, version: &Arc<Version>) {
        let (chunk, place) = (version.number as usize / CHUNK, version.number as usize % CHUNK);
        let versions = self.chunks[chunk].get_or_init(|| (0..CHUNK).map(|_| OnceLock::new()).collect());
        versions[place].set(version.clone()).expect("a number is given out once");
    }
}

#[cfg(test)]
impl Registry {
    /// As if all numbers but so many had been given out.
    pub(crate) fn leave_numbers(&self, left: u32) {
        self.lock().numbers_used = VERSIONS_MAX - left;
    }

    /// Names one limit.
    pub(crate) fn name(
        &self,
        name: &str,
        limit: Limit,
        carry: tidegate_core::Carry,
        now: Nanos,
    ) -> Result<LimitRef, LimitError> {
        self.name_all(&[NamedLimit { name, limit, carry, trusted: false }], (now, now))
            .map(|mut named| named.remove(0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate_core::{Carry, Quota, QuotaError};

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
        let followed = registry.get(first).newest().number;
        assert_eq!(followed, edited);
        assert_ne!(name("b", 10), first, "another name has a state of its own");
        let hashes = [first, edited].map(|number| registry.get(number).identity.hash("key"));
        assert_eq!(hashes[0], hashes[1], "an edit keeps the keys where they are");
    }

    #[test]
    fn a_variant_is_made_once_a_generation() {
        let registry = Registry::new();
        let name = |capacity| registry.name("a", limit(capacity), Carry::AsIs, Nanos::ZERO).unwrap();
        let variant = |of: &LimitRef, trust| registry.variant(of.id(), trust).unwrap();
        let plain = name(10);
        let trusted = variant(&plain, 50);
        assert_eq!((trusted.name(), trusted.trust(), trusted.limit().capacity()), ("a", 50, 15));
        assert_eq!(variant(&plain, 50).id(), trusted.id());
        assert_eq!(variant(&trusted, 50).id(), trusted.id(), "of the limit, not of its variant");
        assert_eq!(variant(&trusted, 0).id(), plain.id());
        assert_ne!(variant(&plain, 51).id(), trusted.id());
        let edited = name(20);
        assert_ne!(variant(&edited, 50).id(), trusted.id());
        assert_eq!(variant(&plain, 50).id(), trusted.id());
        let too_much = registry.variant(plain.id(), 101).unwrap_err();
        assert_eq!(too_much, QuotaError::TrustTooHigh { hundredths: 101 }.into());
    }

    #[test]
    fn naming_several_is_all_or_nothing() {
        let registry = Registry::new();
        registry.lock().numbers_used = VERSIONS_MAX - 1;
        let named = |name| NamedLimit { name, limit: limit(1), carry: Carry::AsIs, trusted: false };
        assert!(registry.name_all(&[named("a"), named("b")], (Nanos::ZERO, Nanos::ZERO)).is_err());
        assert_eq!(registry.lock().newest.len(), 0, "not even the first");
        assert!(registry.name_all(&[named("a")], (Nanos::ZERO, Nanos::ZERO)).is_ok());
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
