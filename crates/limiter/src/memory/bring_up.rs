//! From one version to another: what an edit, or a change of trust, does to the
//! state of a key.
//!
//! A word goes from one generation to the next at the trust it is written in,
//! each edit as of its own instant, and then from that trust to the one it is
//! charged at, as of the charge.

use tidegate_core::{Carry, Cost, Decision, Limit, Meter, Nanos};

use super::registry::Registry;
use super::version::Version;

impl Registry {
    /// The edits that lead from the generation of `from` to that of `to`, oldest
    /// first: the plain version that each one made, and the limit before and
    /// after it at the trust of `from`. None if `from` is already as new: a
    /// request under way since before an edit must not undo it.
    pub(crate) fn edits<'a>(&'a self, from: &'a Version, to: &Version) -> impl Iterator<Item = Edit<'a>> {
        let (generation, trust) = (to.generation, from.trust);
        let (mut plain, mut limit) = (self.plain(from), from.limit);
        std::iter::from_fn(move || {
            plain = plain.next.get().filter(|new| new.generation <= generation)?;
            let before = std::mem::replace(&mut limit, plain.scaled(trust));
            Some(Edit { before, after: limit, made: plain })
        })
    }

    /// Is a token before the edits from `from` to `to` still a token after them?
    /// Where one starts anew or scales, a charge from before is not what is
    /// missing now, and must not be handed back.
    pub(crate) fn keeps_tokens(&self, from: &Version, to: &Version) -> bool {
        let keeps = |edit: Edit<'_>| {
            edit.made.carry == Carry::AsIs && edit.before.algorithm() == edit.after.algorithm()
        };
        from.generation == to.generation || self.edits(from, to).all(keeps)
    }

    /// Where a state found under `found` goes when it is charged under `wanted`:
    /// to that version, or, if a newer generation is found, to the same trust of
    /// that one. Where nobody has asked for it yet, the state stays as it is.
    pub(crate) fn target<'a>(&'a self, found: &'a Version, wanted: &'a Version) -> &'a Version {
        if found.generation <= wanted.generation {
            return wanted;
        }
        match wanted.trust {
            0 => self.plain(found),
            trust => {
                let variant = self.plain(found).known_variant(trust);
                variant.map_or(found, |variant| self.get(variant.id()))
            }
        }
    }

    /// Brings a word from the version it is written in to `wanted`: each edit as
    /// of its own instant, a change of trust as of `now`, which tells the instant
    /// as a meter sees it.
    pub(crate) fn bring_up(
        &self,
        from: u32,
        word: u64,
        wanted: &Version,
        now: impl Fn(&Meter) -> Nanos,
    ) -> (u32, u64) {
        if from == wanted.number {
            return (from, word);
        }
        let found = &**self.get(from);
        let (limit, word) = self.edited(found, word, wanted);
        let target = self.target(found, wanted);
        let same_trust = target.trust == found.trust;
        let word = if same_trust { word } else { carried(&limit, word, &target.limit, Carry::AsIs, now) };
        (target.number, word)
    }

    /// A word brought up edit by edit to the generation of `wanted`, at the trust
    /// it is written in, and its limit there.
    fn edited(&self, found: &Version, word: u64, wanted: &Version) -> (Limit, u64) {
        self.edits(found, wanted).fold((found.limit, word), |(_, word), edit| {
            let word =
                carried(&edit.before, word, &edit.after, edit.made.carry, |meter| edit.made.since(meter));
            (edit.after, word)
        })
    }

    /// Is nothing used of a word, whatever trust it is charged at next?
    pub(crate) fn is_idle(&self, version: &Version, word: u64, now: impl Fn(&Meter) -> Nanos) -> bool {
        let plain = self.plain(version);
        let newest = plain.newest();
        let (limit, word) = if newest.number == plain.number {
            (version.limit, word)
        } else {
            self.edited(version, word, newest)
        };
        // A limit that has become one that keeps logs leaves nothing in slots.
        limit.meter().is_none_or(|meter| meter.is_idle(word, now(meter)))
    }

    /// What a word that is found at another trust than that of `wanted` says to a
    /// cost if it stays as it is, for a denial writes nothing: `None` if it is at
    /// that trust. What it must come to is the cost or, as a full bucket stays
    /// full, its own capacity. Only a bucket refills at a rate of its own; the
    /// counts of windows come to the same whenever they are carried over.
    pub(crate) fn as_found(
        &self,
        (from, word): (u32, u64),
        wanted: u32,
        cost: Cost,
        now: Nanos,
    ) -> Option<Decision> {
        let (found, wanted) = (&**self.get(from), &**self.get(wanted));
        if found.trust == wanted.trust {
            return None;
        }
        let (limit, word) = self.edited(found, word, wanted);
        let cost = cost.min(Cost::new(limit.capacity()));
        let bucket = limit.meter().filter(|meter| matches!(meter, Meter::TokenBucket(_)))?;
        Some(bucket.peek(word, cost, now))
    }
}

/// One edit of a limit, at some trust.
pub(crate) struct Edit<'a> {
    pub(crate) before: Limit,
    pub(crate) after: Limit,
    /// The plain version that it made.
    pub(crate) made: &'a Version,
}

/// A word carried over to the limit that replaces its own; between words and logs
/// nothing is.
fn carried(from: &Limit, word: u64, to: &Limit, carry: Carry, at: impl Fn(&Meter) -> Nanos) -> u64 {
    match (from.meter(), to.meter()) {
        (Some(from), Some(to)) => from.carry(word, to, carry, at(from)),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate_core::{Quota, token_bucket};

    #[test]
    fn a_word_is_carried_edit_by_edit_each_at_its_time() {
        let registry = Registry::new();
        let at = Nanos::from_secs;
        let slow = Quota::new(1, Nanos::SECOND, 100).unwrap();
        let fast = Quota::new(10, Nanos::SECOND, 100).unwrap();
        let edit = |quota: Quota, now| registry.name("a", quota.into(), Carry::AsIs, now).unwrap().id();
        let first = edit(slow, at(100));
        let drained = token_bucket::take(0, &slow, Cost::new(100), at(100)).1.unwrap();
        edit(fast, at(110));
        let last = edit(slow, at(113));
        let (number, word) = registry.bring_up(first, drained, registry.get(last), |_| at(115));
        assert_eq!(number, last);
        // 10 s at 1, 3 s at 10, then 2 s at 1 again.
        let left = token_bucket::peek(word, &slow, Cost::ONE, at(115)).remaining;
        assert_eq!(left, 42);
        let (number, word) = registry.bring_up(last, word, registry.get(first), |_| at(115));
        assert_eq!(number, last, "a newer word is not taken back");
        assert_eq!(token_bucket::peek(word, &slow, Cost::ONE, at(115)).remaining, 42);
    }

    /// Tokens left in a word, under the version it is written in.
    fn left(registry: &Registry, (number, word): (u32, u64), now: Nanos) -> u32 {
        registry.meter(number).peek(word, Cost::ONE, now).remaining
    }

    #[test]
    fn an_edit_reaches_a_word_at_the_trust_it_is_written_in() {
        let registry = Registry::new();
        let at = Nanos::from_secs;
        let quota = |rate, capacity| Limit::from(Quota::new(rate, Nanos::SECOND, capacity).unwrap());
        let edit = |limit, carry, now| registry.name("a", limit, carry, now).unwrap().id();
        let version = |plain, trust| &**registry.get(registry.variant(plain, trust).unwrap().id());
        let first = edit(quota(10, 1_000), Carry::AsIs, at(100));
        let trusted = version(first, 100);
        let all = Cost::new(2_000);
        let drained = trusted.meter().unwrap().take(0, all, at(100)).1.unwrap();
        let last = edit(quota(2, 500), Carry::Proportional, at(110));
        // 10 s at 15 are 150 of 2,000, in proportion 75 of 1,000; then 20 s at 3.
        let expected = 75 + 20 * 3;
        let same = registry.bring_up(trusted.number, drained, version(last, 100), |_| at(130));
        assert_eq!(left(&registry, same, at(130)), expected);
        let plain = registry.bring_up(trusted.number, drained, registry.get(last), |_| at(130));
        assert_eq!((plain.0, left(&registry, plain, at(130))), (last, expected));
        let other = registry.bring_up(trusted.number, drained, version(last, 50), |_| at(130));
        assert_eq!(left(&registry, other, at(130)), expected);
    }

    #[test]
    fn a_request_from_before_an_edit_has_its_own_trust_if_it_can() {
        let registry = Registry::new();
        let quota = |capacity| Limit::from(Quota::new(1, Nanos::HOUR, capacity).unwrap());
        let (now, name) =
            (Nanos::from_secs(100), |limit| registry.name("a", limit, Carry::AsIs, Nanos::ZERO));
        let old = name(quota(10)).unwrap().id();
        let new = name(quota(20)).unwrap().id();
        let variant = |plain, trust| registry.variant(plain, trust).unwrap().id();
        let (old_trusted, new_trusted) = (variant(old, 50), variant(new, 50));
        let word = registry.meter(new).take(0, Cost::new(12), now).1.unwrap();
        let up = |from, wanted| registry.bring_up(from, word, registry.get(wanted), |_| now);
        assert_eq!(up(new, old_trusted).0, new_trusted);
        assert_eq!(left(&registry, up(new, old_trusted), now), 8);
        assert_eq!(up(new_trusted, old).0, new);
        assert_eq!(up(new, variant(old, 7)), (new, word), "nobody asked for that one yet");
    }

    #[test]
    fn a_bucket_full_at_its_own_trust_is_idle() {
        let registry = Registry::new();
        let limit = Quota::new(1, Nanos::SECOND, 10).unwrap().into();
        let plain = registry.name("a", limit, Carry::AsIs, Nanos::ZERO).unwrap().id();
        let trusted = &**registry.get(registry.variant(plain, 100).unwrap().id());
        let at = |millis| Nanos::from_secs(100).saturating_add(Nanos::from_millis(millis));
        // 15 of 20 are back after ten seconds, at 1.5 a second.
        let word = trusted.meter().unwrap().take(0, Cost::new(15), at(0)).1.unwrap();
        assert!(!registry.is_idle(trusted, word, |_| at(9_999)));
        assert!(registry.is_idle(trusted, word, |_| at(10_000)));
        registry.name("a", Quota::new(1, Nanos::HOUR, 10).unwrap().into(), Carry::AsIs, at(5_000)).unwrap();
        assert!(!registry.is_idle(trusted, word, |_| at(10_000)), "since the edit it fills more slowly");
    }
}
