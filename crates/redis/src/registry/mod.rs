//! The limits that a node knows by name, their edits, and what is written beside a state.
//!
//! An edit makes a new generation of a limit, with a plain version; its variants for trusted keys are versions too,
//! made when first asked for. Versions are only added.

mod bring_up;
mod text;
mod version;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use tidegate::{Limit, LimitError, LimitRef, NamedLimit, Nanos};

pub(crate) use bring_up::as_found;
pub(crate) use version::Version;

use crate::keys::{Namer, Owner};
use crate::wire::numbers::countable;
use text::Numbers;

/// The most versions that a node knows.
const VERSIONS_MAX: u32 = (1 << 20) - 1;
/// Limits that nobody has named have no number of their own.
pub(crate) const AD_HOC: u32 = 0;
/// What limits that nobody has named are called.
const AD_HOC_NAME: &str = "throttle";

/// Limits by name.
#[derive(Debug)]
pub(crate) struct Registry {
    prefix: Box<str>,
    /// By number, less one.
    versions: RwLock<Vec<Arc<Version>>>,
    /// The newest plain version of each name.
    newest: Mutex<HashMap<Box<str>, Arc<Version>>>,
}

impl Registry {
    pub(crate) fn new(prefix: &str) -> Registry {
        Registry { prefix: prefix.into(), versions: RwLock::default(), newest: Mutex::default() }
    }

    /// How keys begin.
    pub(crate) fn prefix(&self) -> &str {
        &self.prefix
    }

    /// Names limits, or edits them: all of them, or none.
    pub(crate) fn name_all(
        &self,
        limits: &[NamedLimit<'_>],
        now: Nanos,
    ) -> Result<Vec<LimitRef>, LimitError> {
        limits.iter().try_for_each(|named| check_countable(named.name, &named.limit))?;
        let mut newest = self.lock();
        let is_new =
            |named: &&NamedLimit<'_>| newest.get(named.name).is_none_or(|known| known.limit != named.limit);
        self.check_room(limits.iter().filter(is_new).count())?;
        limits.iter().map(|named| self.name_in(&mut newest, named, now)).collect()
    }

    fn name_in(
        &self,
        newest: &mut HashMap<Box<str>, Arc<Version>>,
        named: &NamedLimit<'_>,
        now: Nanos,
    ) -> Result<LimitRef, LimitError> {
        let previous = newest.get(named.name).cloned();
        if let Some(known) = previous.as_ref().filter(|_| named.trusted) {
            known.trust_keys();
        }
        if let Some(known) = previous.as_ref().filter(|known| known.limit == named.limit) {
            return Ok(known.handle.clone());
        }
        let before = previous.iter().flat_map(|previous| self.generations(previous));
        let editions =
            before.filter(|known| known.limit == named.limit).map(|known| known.edition().saturating_add(1));
        let edition = editions.max().unwrap_or(0);
        let version = self.add(|number| {
            let handle = LimitRef::new(named.name, named.limit, number);
            Version::plain(handle, previous.as_deref(), edition, now, named.carry)
        })?;
        if named.trusted {
            version.trust_keys();
        }
        if let Some(previous) = previous {
            previous.next.set(version.clone()).expect("only the newest version is edited");
        }
        newest.insert(named.name.into(), version.clone());
        Ok(version.handle.clone())
    }

    /// The same limit at some trust; takes a lock only the first time.
    pub(crate) fn variant(&self, limit: &LimitRef, trust: u8) -> Result<LimitRef, LimitError> {
        self.variant_of(&self.version(limit), trust).map(|version| version.handle.clone())
    }

    fn variant_of(&self, version: &Arc<Version>, trust: u8) -> Result<Arc<Version>, LimitError> {
        let plain = self.plain(version);
        if trust == 0 {
            return Ok(plain);
        }
        if let Some(known) = plain.known_variant(trust) {
            return Ok(known.clone());
        }
        let limit = plain.limit.trusted(trust)?;
        check_countable(plain.handle.name(), &limit)?;
        let _alone = self.lock();
        if let Some(known) = plain.known_variant(trust) {
            return Ok(known.clone());
        }
        if plain.number() == AD_HOC {
            return Ok(Arc::new(Version::variant(&plain, plain.handle.at_trust(trust, limit, AD_HOC))));
        }
        plain.trust_keys();
        let variant =
            self.add(|number| Version::variant(&plain, plain.handle.at_trust(trust, limit, number)))?;
        plain.keep_variant(variant.clone());
        Ok(variant)
    }

    /// A limit whose state belongs to its numbers. `None` if the server cannot count it.
    pub(crate) fn ad_hoc(&self, limit: Limit) -> Option<LimitRef> {
        countable(&limit).ok()?;
        Some(LimitRef::new(AD_HOC_NAME, limit, AD_HOC))
    }

    /// What is known of a limit that was named here, or of one that nobody has named.
    pub(crate) fn version(&self, limit: &LimitRef) -> Arc<Version> {
        if limit.id() == AD_HOC { Arc::new(Version::ad_hoc(limit.clone())) } else { self.get(limit.id()) }
    }

    fn get(&self, number: u32) -> Arc<Version> {
        let versions = self.versions.read().unwrap_or_else(PoisonError::into_inner);
        versions[number as usize - 1].clone()
    }

    /// The plain version of the same generation.
    fn plain(&self, version: &Arc<Version>) -> Arc<Version> {
        match version.plain {
            Some(number) => self.get(number),
            None => version.clone(),
        }
    }

    /// All plain versions of the name of a plain version, oldest first.
    fn generations(&self, plain: &Arc<Version>) -> impl Iterator<Item = Arc<Version>> + use<> {
        let first = plain.first.map_or_else(|| plain.clone(), |number| self.get(number));
        std::iter::successors(Some(first), |version| version.next.get().cloned())
    }

    fn add(&self, make: impl FnOnce(u32) -> Version) -> Result<Arc<Version>, LimitError> {
        self.check_room(1)?;
        let mut versions = self.versions.write().unwrap_or_else(PoisonError::into_inner);
        let version = Arc::new(make(versions.len() as u32 + 1));
        versions.push(version.clone());
        Ok(version)
    }

    fn check_room(&self, more: usize) -> Result<(), LimitError> {
        let used = self.versions.read().unwrap_or_else(PoisonError::into_inner).len();
        if used + more <= VERSIONS_MAX as usize {
            Ok(())
        } else {
            Err(LimitError::TooMany { max: VERSIONS_MAX })
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Box<str>, Arc<Version>>> {
        self.newest.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Can a script count the limit of this name?
fn check_countable(name: &str, limit: &Limit) -> Result<(), LimitError> {
    countable(limit).map_err(|why| LimitError::NotShared { name: name.into(), why })
}

#[cfg(test)]
mod tests;
