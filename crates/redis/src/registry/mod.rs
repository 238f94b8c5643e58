//! The limits that a node knows by name, their versions, and the keys of their buckets.
//!
//! The [`History`] of versions is the same as in every store. What differs here: nodes with other histories share the
//! states, so a state is stored with its numbers, not with a version (`numbers_text`); and a node may find states in
//! numbers that it does not know (`migrate`).

pub(crate) mod keys;
mod migrate;
mod numbers_text;
mod version;

use std::collections::HashSet;
use std::sync::Arc;

use tidegate::history::reclaim::Unused;
use tidegate::history::{History, Registration, VersionData};
use tidegate::{Limit, LimitError, LimitRef, LimitVariant, NamedLimit, Nanos, OverrideNumbers};

pub use keys::BucketKey;
pub(crate) use version::RedisVersion;

use crate::calls::wire::numbers::countable;
use version::VersionNames;

/// The id of ad hoc limits, which are never named.
pub(crate) const AD_HOC: u64 = 0;
/// How many edits a node remembers from before the policies that are in use, and how many names that none of them has.
const KEPT: usize = 1 << 12;
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

    /// Names or edits limits: all of them, or none. The oldest edits, and the names that nobody uses for the longest
    /// time, are forgotten: states in their numbers are then read like those of another node.
    pub(crate) fn name_all(
        &self,
        limits: &[NamedLimit<'_>],
        now: Nanos,
    ) -> Result<Vec<LimitRef>, LimitError> {
        let mut registration = self.history.registration();
        let mut named = registration.name_all(limits, now.into());
        if let Err(LimitError::TooMany { .. }) = named {
            forget(&mut registration, 0);
            named = registration.name_all(limits, now.into());
        }
        if registration.is_reclaim_due() {
            forget(&mut registration, KEPT);
        }
        named
    }

    /// Could these limits be named or edited?
    pub(crate) fn check_all(&self, limits: &[NamedLimit<'_>]) -> Result<(), LimitError> {
        self.history.check_all(limits)
    }

    /// A variant of a limit; takes a lock only the first time.
    pub(crate) fn variant(&self, limit: &LimitRef, variant: LimitVariant) -> Result<LimitRef, LimitError> {
        if limit.id() != AD_HOC {
            return self.history.variant(limit, variant);
        }
        if variant == LimitVariant::PLAIN {
            return Ok(limit.clone());
        }
        let scaled = limit.limit().at(variant)?;
        VersionNames::check(limit.name(), &scaled)?;
        Ok(limit.in_variant(variant, scaled, AD_HOC))
    }

    /// Keys of a limit may soon be charged in these numbers of overrides, and in no others.
    pub(crate) fn expect_overrides(&self, limit: &LimitRef, numbers: &[OverrideNumbers]) {
        if limit.id() != AD_HOC {
            self.history.expect_overrides(limit, numbers);
        }
    }

    /// An ad hoc limit: its state belongs to its numbers. `None` if the scripts cannot count it.
    pub(crate) fn ad_hoc(&self, limit: Limit) -> Option<LimitRef> {
        countable(&limit).ok()?;
        Some(LimitRef::new(AD_HOC_NAME, limit, AD_HOC))
    }

    /// The version of a limit that was named here, or of an ad hoc limit.
    pub(crate) fn version(&self, limit: &LimitRef) -> Arc<RedisVersion> {
        if limit.id() == AD_HOC {
            Arc::new(RedisVersion::standalone(limit, VersionNames::ad_hoc(*limit.limit())))
        } else {
            RedisVersion::shared_of(limit).expect("a limit is used with the store in which it was registered")
        }
    }
}

/// Removes what nobody uses, except for the newest `kept` edits and as many names.
fn forget(registration: &mut Registration<'_, VersionNames>, kept: usize) {
    let Unused { generations, mut names } = registration.unused();
    names.sort_unstable_by_key(|unused| unused.registered);
    names.truncate(names.len().saturating_sub(kept));
    let forgotten: HashSet<&str> = names.iter().map(|unused| &*unused.newest.name).collect();
    let (mut gone, mut edits): (Vec<_>, Vec<_>) =
        generations.into_iter().partition(|unused| forgotten.contains(&*unused.plain.name));
    edits.sort_unstable_by_key(|unused| unused.plain.id);
    edits.truncate(edits.len().saturating_sub(kept));
    gone.append(&mut edits);
    registration.remove(gone.iter(), names.iter());
    registration.set_reclaim_time();
}

#[cfg(test)]
mod tests;
