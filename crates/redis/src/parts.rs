//! The parts of a server that can fail by themselves: a breaker for each.

use smallvec::SmallVec;
use tidegate::{Clock, Nanos};

use crate::BucketKey;
use crate::breaker::Breaker;
use crate::link::{CallAnswer, Link, LinkError, ScriptCall};

/// How many parts are told apart; of more some share a breaker.
const PARTS_MAX: usize = 64;

/// A part that has not failed for so long may be back, for all that anybody knows: nobody asks for it.
const FAILED_LATELY: Nanos = Nanos::from_secs(5);

/// The breakers of all parts. The first is for the server as a whole: beats, and whatever is in no part.
#[derive(Debug)]
pub(crate) struct BreakerSet(Box<[Breaker]>);

impl BreakerSet {
    pub(crate) fn new(link: &impl Link, now: Nanos) -> BreakerSet {
        let parts = if link.has_slots() { 1 + PARTS_MAX } else { 1 };
        BreakerSet((0..parts).map(|_| Breaker::new(now)).collect())
    }

    /// The server as a whole.
    pub(crate) fn whole(&self) -> &Breaker {
        &self.0[0]
    }

    fn of(&self, part: usize) -> &Breaker {
        match part.checked_sub(1) {
            None => self.whole(),
            Some(_) if self.0.len() == 1 => self.whole(),
            Some(index) => &self.0[1 + index % PARTS_MAX],
        }
    }

    /// May all of these keys be asked for? Whoever needs one that is held back need not bother the others.
    pub(crate) fn may_ask(
        &self,
        link: &impl Link,
        keys: impl Iterator<Item = BucketKey>,
        now: Nanos,
    ) -> bool {
        if !self.0.iter().any(Breaker::is_open) {
            return true;
        }
        if self.0.len() == 1 {
            return self.whole().may_ask(now);
        }
        let mut parts: SmallVec<[usize; 8]> = keys.map(|key| link.part(&key)).collect();
        parts.sort_unstable();
        parts.dedup();
        parts.iter().all(|&part| self.of(part).would_ask(now))
            && parts.iter().all(|&part| self.of(part).may_ask(now))
    }

    /// Since when all is well, or since when something is not.
    pub(crate) fn health(&self, now: Nanos) -> (bool, Nanos) {
        let (whole, others) = (self.whole(), &self.0[1..]);
        let failing =
            others.iter().filter(|breaker| breaker.is_open() && breaker.touched_within(FAILED_LATELY, now));
        let failing = failing.chain(Some(whole).filter(|whole| whole.is_open())).map(Breaker::since).min();
        match failing {
            Some(since) => (false, since),
            None => (true, self.0.iter().map(Breaker::since).max().unwrap_or_default()),
        }
    }
}

/// A link whose calls are noted with the parts that they went to.
pub(crate) struct RecordingLink<'a, L, C> {
    pub(crate) link: &'a L,
    pub(crate) parts: &'a BreakerSet,
    pub(crate) clock: &'a C,
}

impl<L: Link, C: Clock> Link for RecordingLink<'_, L, C> {
    async fn call(&self, call: &ScriptCall) -> Result<CallAnswer, LinkError> {
        let part = call.entries.first().map_or(0, |entry| self.link.part(&entry.key));
        let answer = self.link.call(call).await;
        match &answer {
            Ok(_) => self.parts.of(part).succeeded(self.clock.now()),
            Err(_) => self.parts.of(part).failed(self.clock.now()),
        }
        answer
    }

    async fn beat(&self, node: u128, alive: bool, within: Nanos) -> Result<u32, LinkError> {
        self.link.beat(node, alive, within).await
    }

    fn has_slots(&self) -> bool {
        self.link.has_slots()
    }

    fn part(&self, key: &BucketKey) -> usize {
        self.link.part(key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Keys are in the part that they are named by.
    struct Parted;

    impl Link for Parted {
        async fn call(&self, _call: &ScriptCall) -> Result<CallAnswer, LinkError> {
            Err(LinkError::Down("by request".into()))
        }

        async fn beat(&self, _node: u128, _alive: bool, _within: Nanos) -> Result<u32, LinkError> {
            Ok(1)
        }

        fn has_slots(&self) -> bool {
            true
        }

        fn part(&self, key: &BucketKey) -> usize {
            key.0.parse().unwrap()
        }
    }

    fn at(millis: u64) -> Nanos {
        Nanos::from_millis(millis)
    }

    fn may_ask(parts: &BreakerSet, keys: &[&str], millis: u64) -> bool {
        parts.may_ask(&Parted, keys.iter().map(|&key| BucketKey(key.into())), at(millis))
    }

    #[test]
    fn a_part_that_fails_holds_back_only_who_needs_it() {
        let parts = BreakerSet::new(&Parted, at(0));
        (0..5).for_each(|_| parts.of(2).failed(at(10)));
        assert!(may_ask(&parts, &["1", "3", "0"], 20));
        assert!(!may_ask(&parts, &["2"], 20) && !may_ask(&parts, &["1", "2"], 20));
        assert_eq!(parts.health(at(20)), (false, at(10)));
        assert!(may_ask(&parts, &["2", "1"], 1_010), "to see whether it is back");
        assert!(!may_ask(&parts, &["2"], 1_010), "one, not two");
        assert_eq!(parts.health(at(7_000)), (true, at(10)), "nobody knows, and nobody asks");
        parts.of(2).succeeded(at(7_000));
        assert!(may_ask(&parts, &["1", "2"], 7_000));
    }

    #[test]
    fn two_that_fail_are_tried_together() {
        let parts = BreakerSet::new(&Parted, at(0));
        (0..5).for_each(|_| parts.of(1).failed(at(0)));
        (0..5).for_each(|_| parts.of(2).failed(at(500)));
        assert!(!may_ask(&parts, &["1", "2"], 1_000));
        assert!(may_ask(&parts, &["1"], 1_000), "that was not let through for nothing");
        parts.of(1).failed(at(1_000));
        assert!(may_ask(&parts, &["1", "2"], 2_000));
    }

    #[test]
    fn beats_that_fail_hold_back_no_part() {
        let parts = BreakerSet::new(&Parted, at(0));
        parts.whole().trip(at(0));
        assert!(may_ask(&parts, &["1"], 0) && !may_ask(&parts, &["0"], 0));
        assert_eq!(parts.health(at(0)), (false, at(0)));
    }
}
