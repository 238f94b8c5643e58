//! A limit registered in a store, with its variants.

use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
use std::sync::OnceLock;

use tidegate_core::{Limit, LimitVariant};

use crate::{LimitRef, Store};

/// The trees over which overrides are distributed.
const TREES: usize = 256;
/// How many ways lead on from a node of a tree.
const WAYS: usize = 8;

/// A limit registered in a store, at every degree of trust and in the numbers of every override.
#[derive(Debug)]
pub(crate) struct LimitHandle {
    pub(super) limit: LimitRef,
    /// The limit scaled by each degree of trust, registered at the first use.
    trusted: OnceLock<Box<[OnceLock<LimitRef>]>>,
    /// The limit in the numbers of overrides, registered at the first use. References to them must stay valid, so they
    /// are only ever added.
    overridden: OnceLock<Box<[OnceLock<Box<Overridden>>]>>,
}

/// A limit in the numbers of an override: a node of a tree, in which the hash of a variant chooses the way. So thousands of
/// overrides with different numbers are found in a few steps.
#[derive(Debug)]
struct Overridden {
    variant: LimitVariant,
    limit: LimitRef,
    next: [OnceLock<Box<Overridden>>; WAYS],
}

impl Overridden {
    /// The way on for a hash, whose bits are used one after another.
    fn next(&self, hash: &mut u64) -> &OnceLock<Box<Overridden>> {
        *hash = hash.rotate_right(WAYS.ilog2());
        &self.next[*hash as usize % WAYS]
    }
}

impl LimitHandle {
    pub(crate) fn new(limit: LimitRef) -> LimitHandle {
        LimitHandle { limit, trusted: OnceLock::new(), overridden: OnceLock::new() }
    }

    /// The limit in a variant. If the store cannot count in the numbers of the override at that trust, the override without
    /// trust; if it cannot count in them at all, the limit without the override; if it has no version numbers left, the limit
    /// itself.
    #[inline]
    pub(crate) fn at<S: Store>(&self, variant: LimitVariant, store: &S) -> &LimitRef {
        match variant {
            LimitVariant::PLAIN => &self.limit,
            LimitVariant { numbers: None, trust } => self.at_trust(trust, store),
            overridden => self.in_other_numbers(overridden, store),
        }
    }

    fn at_trust<S: Store>(&self, trust: u8, store: &S) -> &LimitRef {
        if trust == 0 {
            return &self.limit;
        }
        let degrees = usize::from(Limit::TRUST_MAX) + 1;
        let trusted = self.trusted.get_or_init(|| (0..degrees).map(|_| OnceLock::new()).collect());
        let variant = LimitVariant::at_trust(trust);
        trusted[usize::from(trust)]
            .get_or_init(|| store.variant(&self.limit, variant).unwrap_or_else(|_| self.limit.clone()))
    }

    #[inline(never)]
    fn in_other_numbers<S: Store>(&self, variant: LimitVariant, store: &S) -> &LimitRef {
        let trees = self.overridden.get_or_init(|| (0..TREES).map(|_| OnceLock::new()).collect());
        let mut hash = BuildHasherDefault::<DefaultHasher>::new().hash_one(variant);
        let mut cell = &trees[hash as usize % TREES];
        hash = hash.rotate_right(TREES.ilog2());
        while let Some(known) = cell.get() {
            if known.variant == variant {
                return &known.limit;
            }
            cell = known.next(&mut hash);
        }
        let limit = store.variant(&self.limit, variant);
        let limit = limit.or_else(|_| store.variant(&self.limit, variant.untrusted()));
        let limit = limit.unwrap_or_else(|_| self.at_trust(variant.trust, store).clone());
        let mut new = Box::new(Overridden { variant, limit, next: Default::default() });
        // Another thread may have added some meanwhile, perhaps this one.
        loop {
            let Err(not_set) = cell.set(new) else {
                return &cell.get().expect("it was set").limit;
            };
            let known = cell.get().expect("somebody else has set it");
            if known.variant == variant {
                return &known.limit;
            }
            (new, cell) = (not_set, known.next(&mut hash));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use tidegate_core::{Carry, Nanos, OverrideNumbers, Quota};

    use super::*;
    use crate::{Memory, MemoryOptions};

    #[test]
    fn each_variant_is_registered_once_whoever_asks() {
        let store = Memory::new(MemoryOptions::default()).unwrap();
        let quota = Quota::new(10, Nanos::SECOND, 100).unwrap();
        let limit = store.limit("a", quota.into(), Carry::AsIs, Nanos::ZERO).unwrap();
        let handle = LimitHandle::new(limit);
        let variants = || (1..=5_000).map(|times| LimitVariant::from(OverrideNumbers::Times(times)));
        let ids = || variants().map(|variant| handle.at(variant, &store).id()).collect::<Vec<u64>>();
        let [one, other] = std::thread::scope(|scope| {
            [(); 2].map(|()| scope.spawn(ids)).map(|thread| thread.join().unwrap())
        });
        assert_eq!(one, other);
        assert_eq!(one.iter().collect::<HashSet<_>>().len(), 5_000);
        for variant in variants() {
            assert_eq!(handle.at(variant, &store).variant(), variant);
        }
    }
}
