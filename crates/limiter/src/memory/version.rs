//! One version of a limit, and what all versions of it have in common.

use std::hash::{BuildHasher, Hash, Hasher, RandomState};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use siphasher::sip::SipHasher13;
use tidegate_core::{Carry, Limit, Meter, Nanos};

use super::overflow::Overflow;
use crate::LimitRef;

/// What stays the same through all edits of a limit.
#[derive(Debug)]
pub(crate) struct Identity {
    /// A limit hashes its keys under random numbers of its own, so that nobody
    /// outside can aim two keys at one slot, and one key has a slot per limit.
    hash_keys: (u64, u64),
    pub(crate) overflow: Overflow,
    /// May its keys be trusted: was that said of it, or was it ever asked for at
    /// some trust?
    trusted: AtomicBool,
}

impl Identity {
    pub(super) fn new(trusted: bool) -> Identity {
        let random = || RandomState::new().hash_one(0_u64);
        Identity {
            hash_keys: (random(), random()),
            overflow: Overflow::default(),
            trusted: AtomicBool::new(trusted),
        }
    }

    /// Its keys may be trusted from now on.
    pub(super) fn trust(&self) {
        self.trusted.store(true, Ordering::Relaxed);
    }

    /// May its keys be trusted more the next time?
    #[inline]
    pub(super) fn is_trusted(&self) -> bool {
        self.trusted.load(Ordering::Relaxed)
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

/// One version of a limit: the numbers of a generation at some trust.
#[derive(Debug)]
pub(crate) struct Version {
    pub(crate) number: u32,
    pub(crate) limit: Limit,
    pub(crate) identity: Arc<Identity>,
    /// How many edits came before it.
    pub(super) generation: u32,
    /// In hundredths; none in the plain version of the generation.
    pub(super) trust: u8,
    /// The number of that plain version.
    pub(super) plain: u32,
    /// From when on it applies, by both clocks, and what it did with the tokens then.
    pub(crate) since: Nanos,
    pub(super) since_wall: Nanos,
    pub(crate) carry: Carry,
    pub(super) handle: LimitRef,
    /// Of a plain version: what an edit replaced it by.
    pub(super) next: OnceLock<Arc<Version>>,
    /// Of a plain version: the others of its generation, by trust less one.
    pub(super) variants: OnceLock<Box<[OnceLock<LimitRef>]>>,
}

impl Version {
    /// The meter of a limit whose state is a word.
    pub(crate) fn meter(&self) -> Option<&Meter> {
        self.limit.meter()
    }

    /// From when on it applies, as a meter sees it.
    pub(super) fn since(&self, meter: &Meter) -> Nanos {
        if meter.windows().is_some() { self.since_wall } else { self.since }
    }

    /// The variant of a plain version, if it was ever asked for.
    pub(super) fn known_variant(&self, trust: u8) -> Option<&LimitRef> {
        let place = usize::from(trust).checked_sub(1)?;
        self.variants.get().and_then(|variants| variants.get(place)?.get())
    }

    /// The numbers of a plain version at some trust. Where they cannot be scaled,
    /// nobody was ever charged under the scaled ones, and these do as well.
    pub(super) fn scaled(&self, trust: u8) -> Limit {
        match self.known_variant(trust) {
            Some(variant) => *variant.limit(),
            None => self.limit.trusted(trust).unwrap_or(self.limit),
        }
    }

    /// The plain version that edits of this plain one have led to.
    #[inline]
    pub(super) fn newest(&self) -> &Version {
        let mut version = self;
        while let Some(next) = version.next.get() {
            version = next;
        }
        version
    }
}
