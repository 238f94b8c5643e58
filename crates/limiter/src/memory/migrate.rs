//! Migrating the word in a slot that was written with another version of the limit; the rule is in
//! [`crate::history::edits`].

use std::ops::Deref;
use std::sync::Arc;

use tidegate_core::{Limit, Meter, Nanos};

use super::version::{LimitIdentity, MemoryReader, MemoryVersion};
use crate::history::edits::{StoredElsewhere, carry_word_to_variant};
use crate::history::{FoundVersion, Generation};

/// A version: the caller's own, or one found by its number.
pub(crate) enum KnownVersion<'a> {
    Own(&'a MemoryVersion),
    Found(FoundVersion<Arc<LimitIdentity>>),
}

impl Deref for KnownVersion<'_> {
    type Target = MemoryVersion;

    #[inline]
    fn deref(&self) -> &MemoryVersion {
        match self {
            KnownVersion::Own(version) => version,
            KnownVersion::Found(version) => version,
        }
    }
}

impl KnownVersion<'_> {
    /// The meter of a version that is stored in slots.
    #[inline]
    pub(crate) fn slot_meter(&self) -> &Meter {
        self.meter().expect("only meters keep their state in slots")
    }
}

impl MemoryReader<'_> {
    /// The version with this number: `own` if it is that one.
    #[inline]
    pub(crate) fn known<'v>(&self, number: u32, own: &'v MemoryVersion) -> KnownVersion<'v> {
        if number == own.number { KnownVersion::Own(own) } else { KnownVersion::Found(self.get(number)) }
    }

    /// The version to which a state found with version `found` is migrated when it is charged with version
    /// `wanted`: that version, or, if the found generation is newer, the same variant in that generation. If that
    /// variant does not exist yet, the state stays as it is: making a version takes a lock, and this path must
    /// not wait for one.
    pub(crate) fn target<'v>(
        &self,
        found: FoundVersion<Arc<LimitIdentity>>,
        wanted: &'v MemoryVersion,
    ) -> KnownVersion<'v> {
        if found.generation.index <= wanted.generation.index {
            return KnownVersion::Own(wanted);
        }
        KnownVersion::Found(self.in_variant(&found.generation, wanted.variant).unwrap_or(found))
    }

    /// Migrates a word from the version it was written with to `wanted`: each edit as of its own instant, a
    /// change of the variant as of `now`, which returns the instant on the clock that a meter uses.
    pub(crate) fn migrate(
        &self,
        from: u32,
        word: u64,
        wanted: &MemoryVersion,
        now: impl Fn(&Meter) -> Nanos,
    ) -> (u32, u64) {
        if from == wanted.number {
            return (from, word);
        }
        let found = self.get(from);
        let (limit, word) = edited(&found, word, &wanted.generation);
        let variant = found.variant;
        let target = self.target(found, wanted);
        let word = if target.variant == variant {
            word
        } else {
            carry_word_to_variant((variant, &limit), word, (target.variant, &target.limit), now)
        };
        (target.number, word)
    }

    /// The state of a word, stored in another variant than that of version `decided`, if nothing is charged; `None`
    /// if it is stored in that variant.
    pub(crate) fn unchanged(
        &self,
        (from, word): (u32, u64),
        decided: &MemoryVersion,
    ) -> Option<StoredElsewhere> {
        let found = self.known(from, decided);
        if found.variant == decided.variant {
            return None;
        }
        let (limit, word) = edited(&found, word, &decided.generation);
        let is_overridden = found.variant.numbers != decided.variant.numbers;
        limit.meter().map(|meter| StoredElsewhere { meter: *meter, word, is_overridden })
    }
}

/// A word migrated edit by edit to another generation, in the variant it was written with, and its limit there.
pub(crate) fn edited(found: &MemoryVersion, word: u64, to: &Generation) -> (Limit, u64) {
    let edits = found.generation.edits_to(to, found.variant);
    edits.fold((found.limit, word), |(_, word), edit| (edit.after, edit.carry_word(word, edit.at())))
}

/// Is nothing of a word used, whatever the variant of its next charge?
pub(crate) fn is_idle(version: &MemoryVersion, word: u64, now: impl Fn(&Meter) -> Nanos) -> bool {
    let newest = version.generation.newest();
    let (limit, word) = edited(version, word, newest);
    // A limit that has become a sliding log keeps no state in slots.
    limit.meter().is_none_or(|meter| newest.is_idle(version.variant, meter, word, now(meter)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::LimitRef;
    use crate::memory::version::MemoryRegistry;
    use tidegate_core::{Carry, Cost, LimitVariant, Quota, token_bucket};

    fn version(limit: &LimitRef) -> &MemoryVersion {
        MemoryVersion::of(limit).unwrap()
    }

    fn migrate(
        registry: &MemoryRegistry,
        from: &LimitRef,
        word: u64,
        wanted: &LimitRef,
        now: Nanos,
    ) -> (u32, u64) {
        registry.read().migrate(version(from).number, word, version(wanted), |_| now)
    }

    #[test]
    fn a_word_is_carried_edit_by_edit_each_at_its_time() {
        let registry = MemoryRegistry::default();
        let at = Nanos::from_secs;
        let slow = Quota::new(1, Nanos::SECOND, 100).unwrap();
        let fast = Quota::new(10, Nanos::SECOND, 100).unwrap();
        let edit = |quota: Quota, now| registry.name("a", quota.into(), Carry::AsIs, now).unwrap();
        let first = edit(slow, at(100));
        let drained = token_bucket::take(0, &slow, Cost::new(100), at(100)).1.unwrap();
        edit(fast, at(110));
        let last = edit(slow, at(113));
        let (number, word) = migrate(&registry, &first, drained, &last, at(115));
        assert_eq!(number, version(&last).number);
        // 10 s at 1, 3 s at 10, then 2 s at 1 again.
        let left = token_bucket::peek(word, &slow, Cost::ONE, at(115)).remaining;
        assert_eq!(left, 42);
        let (number, word) = migrate(&registry, &last, word, &first, at(115));
        assert_eq!(number, version(&last).number, "a newer word is not taken back");
        assert_eq!(token_bucket::peek(word, &slow, Cost::ONE, at(115)).remaining, 42);
    }

    /// Tokens left in a word, under the version it is written in.
    fn left(registry: &MemoryRegistry, (number, word): (u32, u64), now: Nanos) -> u32 {
        registry.read().get(number).meter().unwrap().peek(word, Cost::ONE, now).remaining
    }

    #[test]
    fn an_edit_reaches_a_word_at_the_trust_it_is_written_in() {
        let registry = MemoryRegistry::default();
        let at = Nanos::from_secs;
        let quota = |rate, capacity| Limit::from(Quota::new(rate, Nanos::SECOND, capacity).unwrap());
        let edit = |limit, carry, now| registry.name("a", limit, carry, now).unwrap();
        let first = edit(quota(10, 1_000), Carry::AsIs, at(100));
        let trusted = registry.variant(&first, LimitVariant::at_trust(100)).unwrap();
        let all = Cost::new(2_000);
        let drained = version(&trusted).meter().unwrap().take(0, all, at(100)).1.unwrap();
        let last = edit(quota(2, 500), Carry::Proportional, at(110));
        // 10 s at 15 are 150 of 2,000, in proportion 75 of 1,000; then 20 s at 3.
        let expected = 75 + 20 * 3;
        let up = |wanted: &LimitRef| migrate(&registry, &trusted, drained, wanted, at(130));
        let same = up(&registry.variant(&last, LimitVariant::at_trust(100)).unwrap());
        assert_eq!(left(&registry, same, at(130)), expected);
        let plain = up(&last);
        assert_eq!((plain.0, left(&registry, plain, at(130))), (version(&last).number, expected));
        let other = up(&registry.variant(&last, LimitVariant::at_trust(50)).unwrap());
        assert_eq!(left(&registry, other, at(130)), expected);
    }

    #[test]
    fn a_request_from_before_an_edit_has_its_own_trust_if_it_can() {
        let registry = MemoryRegistry::default();
        let quota = |capacity| Limit::from(Quota::new(1, Nanos::HOUR, capacity).unwrap());
        let (now, name) =
            (Nanos::from_secs(100), |limit| registry.name("a", limit, Carry::AsIs, Nanos::ZERO).unwrap());
        let (old, new) = (name(quota(10)), name(quota(20)));
        let variant = |plain, trust| registry.variant(plain, LimitVariant::at_trust(trust)).unwrap();
        let (old_trusted, new_trusted) = (variant(&old, 50), variant(&new, 50));
        let word = version(&new).meter().unwrap().take(0, Cost::new(12), now).1.unwrap();
        let up = |from, wanted| migrate(&registry, from, word, wanted, now);
        assert_eq!(up(&new, &old_trusted).0, version(&new_trusted).number);
        assert_eq!(left(&registry, up(&new, &old_trusted), now), 8);
        assert_eq!(up(&new_trusted, &old).0, version(&new).number);
        let unused = (version(&new).number, word);
        assert_eq!(up(&new, &variant(&old, 7)), unused, "that variant was not used yet");
    }

    #[test]
    fn a_bucket_that_would_be_full_at_any_trust_is_idle() {
        let registry = MemoryRegistry::default();
        let limit = Quota::new(1, Nanos::SECOND, 10).unwrap().into();
        let plain = registry.name("a", limit, Carry::AsIs, Nanos::ZERO).unwrap();
        let trusted = registry.variant(&plain, LimitVariant::at_trust(100)).unwrap();
        let trusted = version(&trusted);
        let at = |millis| Nanos::from_secs(100).saturating_add(Nanos::from_millis(millis));
        // 15 of 20 are back after ten seconds, at 1.5 a second.
        let word = trusted.meter().unwrap().take(0, Cost::new(15), at(0)).1.unwrap();
        assert!(!is_idle(trusted, word, |_| at(9_999)));
        assert!(is_idle(trusted, word, |_| at(10_000)));
        registry.name("a", Quota::new(1, Nanos::HOUR, 10).unwrap().into(), Carry::AsIs, at(5_000)).unwrap();
        assert!(!is_idle(trusted, word, |_| at(10_000)), "since the edit it fills more slowly");
        let limit = registry.name("b", limit, Carry::AsIs, Nanos::ZERO).unwrap();
        let plain = version(&limit);
        // Five of ten are back after five seconds, and another ten after ten more.
        let word = plain.meter().unwrap().take(0, Cost::new(5), at(0)).1.unwrap();
        assert!(is_idle(plain, word, |_| at(5_000)), "nobody is trusted");
        registry.variant(&limit, LimitVariant::at_trust(1)).unwrap();
        assert!(!is_idle(plain, word, |_| at(14_999)));
        assert!(is_idle(plain, word, |_| at(15_000)));
    }
}
