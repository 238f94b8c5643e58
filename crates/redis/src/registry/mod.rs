//! The limits that a node knows by name, their edits, and what is written beside a state.
//!
//! What was named when is in the [`History`] that every store has. What is special here: states are shared with nodes
//! that have other histories, so a state tells the numbers it is written in, and not a version ([`text`]); and some
//! are in numbers that this node has never heard of ([`bring_up`]).

mod migrate;
mod text;
mod version;

use std::sync::Arc;

use tidegate::history::{History, VersionData};
use tidegate::{Limit, LimitError, LimitRef, NamedLimit, Nanos};

pub(crate) use version::RedisVersion;

use crate::wire::numbers::countable;
use version::VersionNames;

/// Limits that nobody has named have no number of their own.
pub(crate) const AD_HOC: u32 = 0;
/// What limits that nobody has named are called.
const AD_HOC_NAME: &str = "throttle";

/// Limits by name.
#[derive(Debug)]
pub(crate) struct LimitRegistry {
    prefix: Box<str>,
    history: History<VersionNames>,
}

impl LimitRegistry {
    pub(crate) fn new(prefix: &str) -> LimitRegistry {
        LimitRegistry { prefix: prefix.into(), history: History::default() }
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
        self.history.name_all(limits, now.into())
    }

    /// The same limit at some trust; takes a lock only the first time.
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

    /// A limit whose state belongs to its numbers. `None` if the server cannot count it.
    pub(crate) fn ad_hoc(&self, limit: Limit) -> Option<LimitRef> {
        countable(&limit).ok()?;
        Some(LimitRef::new(AD_HOC_NAME, limit, AD_HOC))
    }

    /// What is known of a limit that was named here, or of one that nobody has named.
    pub(crate) fn version(&self, limit: &LimitRef) -> Arc<RedisVersion> {
        if limit.id() == AD_HOC {
            Arc::new(RedisVersion::standalone(limit.clone(), VersionNames::ad_hoc(*limit.limit())))
        } else {
            self.history.get(limit.id()).clone()
        }
    }

    /// How much longer than until it is full a state of a version is kept: see [`crate::BucketEntry::spare`].
    pub(crate) fn spare(&self, version: &RedisVersion) -> Nanos {
        self.history.extra_idle_time(version)
    }
}

#[cfg(test)]
mod tests;
