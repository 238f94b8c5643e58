//! The history of limits, for implementing stores: names, numbers, edits, and what an edit or a change of trust
//! does to the state of a key.
//!
//! A state is stored together with the number of the limit version it was written with, so every reader can
//! interpret it: a key that returns after an edit, and a neighbour that looks for an idle key to replace.
//! Registering a limit makes its first *generation*, and every edit another one, each with a plain
//! [`LimitVersion`]. The variants of a generation for trusted keys are versions too, made at the first use.
//! [`edits`] has the rule for migrating a state from one version to another.
//!
//! Versions are only added, and reading one takes no lock. Limits can only be removed with exclusive access to
//! the history; then their numbers are reused.

mod check;
pub mod edits;
mod version;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use tidegate_core::{Limit, Nanos};

use version::VersionCells;
pub use version::{ClockPair, LimitVersion, scaled};

use crate::{LimitError, LimitRef, NamedLimit};

/// The most versions in a history: every 20-bit number except zero.
pub const VERSIONS_MAX: u32 = (1 << 20) - 1;

/// Versions are stored in chunks of this size, so that they do not move when the history grows.
const CHUNK: usize = 1 << 10;
const CHUNKS: usize = (VERSIONS_MAX as usize + 1) / CHUNK;

/// The data that a store attaches to each version of a limit.
pub trait VersionData: Sized {
    /// Can the store count a limit with these numbers? By default, every limit.
    ///
    /// # Errors
    /// It cannot.
    fn check(name: &str, limit: &Limit) -> Result<(), LimitError> {
        let _ = (name, limit);
        Ok(())
    }

    /// The data of a new generation of a limit; `before` are the plain versions of the earlier ones, oldest
    /// first.
    fn plain<'a>(limit: &LimitRef, before: impl Iterator<Item = &'a LimitVersion<Self>>) -> Self
    where
        Self: 'a;

    /// The data of a variant of a plain version.
    fn variant(limit: &LimitRef, plain: &LimitVersion<Self>) -> Self;
}

/// The versions of limits by number, and the newest of each name.
#[derive(Debug)]
pub struct History<D> {
    chunks: Box<[OnceLock<VersionCells<D>>]>,
    names: Mutex<Names<D>>,
}

#[derive(Debug)]
struct Names<D> {
    newest: HashMap<Box<str>, Arc<LimitVersion<D>>>,
    numbers_used: u32,
    /// Numbers of limits that were removed, to be reused.
    free_numbers: Vec<u32>,
}

impl<D> Names<D> {
    fn next_number(&mut self) -> Result<u32, LimitError> {
        self.check_free_numbers(1)?;
        if let Some(number) = self.free_numbers.pop() {
            return Ok(number);
        }
        self.numbers_used += 1;
        Ok(self.numbers_used)
    }

    /// Are at least this many numbers left?
    fn check_free_numbers(&self, numbers: usize) -> Result<(), LimitError> {
        let left = (VERSIONS_MAX - self.numbers_used) as usize + self.free_numbers.len();
        if numbers <= left { Ok(()) } else { Err(LimitError::TooMany { max: VERSIONS_MAX }) }
    }
}

impl<D> Default for History<D> {
    fn default() -> History<D> {
        let names = Names { newest: HashMap::new(), numbers_used: 0, free_numbers: Vec::new() };
        History { chunks: (0..CHUNKS).map(|_| OnceLock::new()).collect(), names: Mutex::new(names) }
    }
}

impl<D> History<D> {
    /// The version with this number.
    ///
    /// # Panics
    /// This history did not assign the number.
    #[inline]
    pub fn get(&self, number: u32) -> &Arc<LimitVersion<D>> {
        let (chunk, index) = chunk_and_index(number);
        self.chunks[chunk]
            .get()
            .and_then(|versions| versions[index].get())
            .expect("a version is stored before its number is handed out")
    }

    /// The plain version of the same generation.
    #[inline]
    pub fn plain<'a>(&'a self, version: &'a LimitVersion<D>) -> &'a LimitVersion<D> {
        if version.plain == version.number { version } else { self.get(version.plain) }
    }

    /// All plain versions of the same name, oldest first.
    pub fn generations<'a>(
        &'a self,
        version: &'a LimitVersion<D>,
    ) -> impl Iterator<Item = &'a LimitVersion<D>> {
        let first = if version.first == version.number { version } else { self.get(version.first) };
        std::iter::successors(Some(first), |version| version.next())
    }

    /// How much longer a state of this version must be kept after it is full: until it would be full at any
    /// trust.
    pub fn extra_idle_time(&self, version: &LimitVersion<D>) -> Nanos {
        let meter = version.limit.meter().filter(|_| version.is_trusted());
        meter.map_or(Nanos::ZERO, |meter| meter.extra_idle_time(self.plain(version).limit.capacity()))
    }

    /// Removes limits that were never edited and have no variants. Their numbers are reused, so no state may
    /// refer to them any more.
    pub(crate) fn forget(&mut self, numbers: &[u32]) {
        let names = self.names.get_mut().unwrap_or_else(PoisonError::into_inner);
        for &number in numbers {
            let (chunk, index) = chunk_and_index(number);
            let version = self.chunks[chunk].get_mut().and_then(|versions| versions[index].take());
            let version = version.expect("only known limits are removed");
            names.newest.remove(version.handle.name());
            names.free_numbers.push(number);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Names<D>> {
        self.names.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn store(&self, version: &Arc<LimitVersion<D>>) {
        let (chunk, index) = chunk_and_index(version.number);
        let versions = self.chunks[chunk].get_or_init(|| (0..CHUNK).map(|_| OnceLock::new()).collect());
        assert!(versions[index].set(version.clone()).is_ok(), "a number is assigned once");
    }
}

impl<D: VersionData> History<D> {
    /// Registers limits, or edits them as of `at`: all of them, or none.
    ///
    /// # Errors
    /// There are too many versions, or the store cannot count one of the limits.
    pub fn name_all(&self, limits: &[NamedLimit<'_>], at: ClockPair) -> Result<Vec<LimitRef>, LimitError> {
        limits.iter().try_for_each(|named| D::check(named.name, &named.limit))?;
        let mut names = self.lock();
        let is_new = |named: &&NamedLimit<'_>| {
            names.newest.get(named.name).is_none_or(|known| known.limit != named.limit)
        };
        names.check_free_numbers(limits.iter().filter(is_new).count())?;
        limits.iter().map(|named| self.name_in(&mut names, named, at)).collect()
    }

    fn name_in(
        &self,
        names: &mut Names<D>,
        named: &NamedLimit<'_>,
        at: ClockPair,
    ) -> Result<LimitRef, LimitError> {
        let previous = names.newest.get(named.name).cloned();
        if let Some(known) = previous.as_ref().filter(|_| named.trusted) {
            known.trust_keys();
        }
        if let Some(known) = previous.as_ref().filter(|known| known.limit == named.limit) {
            return Ok(known.handle.clone());
        }
        let handle = LimitRef::new(named.name, named.limit, names.next_number()?);
        let before = previous.iter().flat_map(|previous| self.generations(previous));
        let data = D::plain(&handle, before);
        let version =
            Arc::new(LimitVersion::plain(handle.clone(), data, previous.as_deref(), named.carry, at));
        if named.trusted {
            version.trust_keys();
        }
        self.store(&version);
        if let Some(previous) = previous {
            previous.replace_by(version.clone());
        }
        names.newest.insert(named.name.into(), version);
        Ok(handle)
    }

    /// The version of a number at this trust; takes a lock only the first time.
    ///
    /// # Errors
    /// The scaled numbers are out of range, the store cannot count them, or there are too many versions.
    pub fn variant(&self, number: u32, trust: u8) -> Result<&Arc<LimitVersion<D>>, LimitError> {
        let plain = self.get(self.get(number).plain);
        if trust == 0 {
            return Ok(plain);
        }
        if let Some(known) = plain.known_variant(trust) {
            return Ok(known);
        }
        let limit = plain.limit.trusted(trust)?;
        D::check(plain.handle.name(), &limit)?;
        let mut names = self.lock();
        if let Some(known) = plain.known_variant(trust) {
            return Ok(known);
        }
        let handle = plain.handle.at_trust(trust, limit, names.next_number()?);
        plain.trust_keys();
        let data = D::variant(&handle, plain);
        let variant = Arc::new(LimitVersion::variant(handle, data, plain));
        self.store(&variant);
        Ok(plain.keep_variant(variant))
    }
}

/// The chunk of a version and its index in the chunk.
#[inline]
fn chunk_and_index(number: u32) -> (usize, usize) {
    (number as usize / CHUNK, number as usize % CHUNK)
}

#[cfg(test)]
impl<D> History<D> {
    /// Pretends that all numbers except `left` have been assigned.
    pub(crate) fn leave_numbers(&self, left: u32) {
        self.lock().numbers_used = VERSIONS_MAX - left;
    }
}

#[cfg(test)]
impl<D: VersionData> History<D> {
    /// Registers one limit.
    pub(crate) fn name(
        &self,
        name: &str,
        limit: Limit,
        carry: tidegate_core::Carry,
        now: Nanos,
    ) -> Result<LimitRef, LimitError> {
        self.name_all(&[NamedLimit { name, limit, carry, trusted: false }], now.into())
            .map(|mut named| named.remove(0))
    }
}

#[cfg(test)]
mod tests;
