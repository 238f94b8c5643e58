//! The limits that a node knows by name, their versions, and the keys of their buckets.
//!
//! The [`History`] of versions is the same as in every store. What differs here: nodes with other histories share the
//! states, so a state is stored with its numbers, not with a version (`numbers_text`); and a node may find states in
//! numbers that it does not know (`migrate`).

pub(crate) mod keys;
mod migrate;
mod numbers_text;
mod version;

use std::sync::Arc;

use tidegate::history::{History, VersionData};
use tidegate::{Limit, LimitError, LimitRef, NamedLimit, Nanos};

pub use keys::BucketKey;
pub(crate) use version::RedisVersion;

use crate::calls::wire::numbers::countable;
use version::VersionNames;

/// The version number of ad hoc limits, which are never named.
pub(crate) const AD_HOC: u32 = 0;
/// The name of ad hoc limits in reports.
const AD_HOC_NAME: &str = "throttle";

/// The limits of a store, by name.
#[derive(Debug)]
pub(crate) struct LimitRegistry {
    prefix: Box<str>,
    history: History<VersionNames>,
}

impl LimitRegistry {
    pub(crate) fn new(prefix: &str) -> LimitRegistry {
        LimitRegistry { prefix: prefix.into(), history: History::default() }
    }

    /// The prefix of all keys.
    pub(crate) fn prefix(&self) -> &str {
        &self.prefix
    }

    /// Names or edits limits: all of them, or none.
    pub(crate) fn name_all(
        &self,
        limits: &[NamedLimit<'_>],
        now: Nanos,
    ) -> Result<Vec<LimitRef>, LimitError> {
        self.history.name_all(limits, now.into())
    }

    /// Could these limits be named or edited?
    pub(crate) fn check_all(&self, limits: &[NamedLimit<'_>]) -> Result<(), LimitError> {
        self.history.check_all(limits)
    }

    /// The variant of a limit at some trust; takes a lock only the first time.
    pub(crate) fn variant(&self, limit: &LimitRef, trust: u8) -> Result<LimitRef, LimitError> {
        if limit.id() != AD_HOC {
            return self.history.variant(limit.id(), trust).map(|version| version.handle.clone());
        }
        if trust == 0 {
            return Ok(limit.clone());
        }
        let scaled = limit.limit().trusted(trust)?;
        VersionNames::check(limit.name(), &scaled)?;
        Ok(limit.at_trust(trust, scaled, AD_HOC))
    }

    /// An ad hoc limit: its state belongs to its numbers. `None` if the scripts cannot count it.
    pub(crate) fn ad_hoc(&self, limit: Limit) -> Option<LimitRef> {
        countable(&limit).ok()?;
        Some(LimitRef::new(AD_HOC_NAME, limit, AD_HOC))
    }

    /// The version of a limit that was named here, or of an ad hoc limit.
    pub(crate) fn version(&self, limit: &LimitRef) -> Arc<RedisVersion> {
        if limit.id() == AD_HOC {
            Arc::new(RedisVersion::standalone(limit.clone(), VersionNames::ad_hoc(*limit.limit())))
        } else {
            self.history.get(limit.id()).clone()
        }
    }

    /// How much longer than until it is full a state of a version is kept: see `BucketEntry::spare`.
    pub(crate) fn spare(&self, version: &RedisVersion) -> Nanos {
        self.history.extra_idle_time(version)
    }
}

#[cfg(test)]
mod tests;
