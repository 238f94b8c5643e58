//! The memory store's data for the versions of a limit.

use std::hash::{BuildHasher, Hash, Hasher, RandomState};
use std::sync::Arc;

use siphasher::sip::SipHasher13;
use tidegate_core::{Limit, LimitVariant, Meter};

use super::overflow::Overflow;
use super::slot::VERSION_BITS;
use crate::history::{self, History, VERSIONS_MAX, VersionData};

/// The limits registered in a memory store.
pub(crate) type MemoryRegistry = History<Arc<LimitIdentity>>;
/// One version of a limit.
pub(crate) type MemoryVersion = history::LimitVersion<Arc<LimitIdentity>>;
/// Reads the versions with which states are written.
pub(crate) type MemoryReader<'a> = history::VersionReader<'a, Arc<LimitIdentity>>;

/// A slot stores the number of the version with which its state is written.
const _: () = assert!(VERSIONS_MAX < 1 << VERSION_BITS);

/// The data that all versions of a limit share: every edit and every variant.
#[derive(Debug)]
pub(crate) struct LimitIdentity {
    /// Each limit hashes its keys with random numbers of its own, so that a client cannot choose two keys that
    /// share a slot, and a key has a different slot for each limit.
    hash_keys: (u64, u64),
    pub(crate) overflow: Overflow,
}

impl LimitIdentity {
    fn new() -> LimitIdentity {
        let random = || RandomState::new().hash_one(0_u64);
        LimitIdentity { hash_keys: (random(), random()), overflow: Overflow::default() }
    }

    /// The hash of the key, by SipHash-1-3: the fingerprint *is* the identity, so it must not be predictable.
    #[inline]
    pub(crate) fn hash<K: Hash + ?Sized>(&self, key: &K) -> u64 {
        let mut hasher = SipHasher13::new_with_keys(self.hash_keys.0, self.hash_keys.1);
        key.hash(&mut hasher);
        hasher.finish()
    }
}

impl VersionData for Arc<LimitIdentity> {
    fn plain<'a>(
        _: &str,
        _: &Limit,
        mut before: impl Iterator<Item = &'a MemoryVersion>,
    ) -> Arc<LimitIdentity> {
        before.next().map_or_else(|| Arc::new(LimitIdentity::new()), |first| first.data.clone())
    }

    fn variant(_: LimitVariant, plain: &MemoryVersion) -> Arc<LimitIdentity> {
        plain.data.clone()
    }
}

impl MemoryVersion {
    /// The meter, if the state of the limit is a word.
    pub(crate) fn meter(&self) -> Option<&Meter> {
        self.limit.meter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate_core::{Carry, Nanos, Quota};

    #[test]
    fn an_edit_keeps_the_keys_where_they_are() {
        let registry = MemoryRegistry::default();
        let hash = |name, capacity| {
            let quota = Quota::new(1, Nanos::SECOND, capacity).unwrap();
            let limit = registry.name(name, quota.into(), Carry::AsIs, Nanos::ZERO).unwrap();
            let trusted = registry.variant(&limit, LimitVariant::at_trust(50)).unwrap();
            [&limit, &trusted].map(|limit| MemoryVersion::of(limit).unwrap().data.hash("key"))
        };
        let first = hash("a", 10);
        assert_eq!(first[0], first[1], "so does a trust");
        assert_eq!(hash("a", 20), first);
        assert_ne!(hash("b", 10), first, "another limit has other secrets");
    }
}
