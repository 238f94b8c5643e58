//! A key as the store looks it up: the hash of its bytes, under a version of its limit.

use std::hash::Hash;

use tidegate_core::{LogQuota, Nanos};

use super::logs::LogKey;
use super::version::MemoryVersion;

/// A key of one limit, hashed.
#[derive(Clone, Copy)]
pub(crate) struct HashedKey<'a> {
    pub(crate) version: &'a MemoryVersion,
    pub(crate) hash: u64,
}

impl<'a> HashedKey<'a> {
    pub(super) fn logged<'k>(self, quota: &'k LogQuota, now: Nanos) -> LogKey<'k>
    where
        'a: 'k,
    {
        LogKey { hash: self.hash, version: self.version, quota, now }
    }

    #[inline]
    pub(crate) fn new<K: Hash + ?Sized>(version: &'a MemoryVersion, key: &K) -> HashedKey<'a> {
        HashedKey { version, hash: version.data.hash(key) }
    }
}
