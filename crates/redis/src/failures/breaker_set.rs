//! One breaker for each shard: the masters of a Cluster fail separately.

use smallvec::SmallVec;
use tidegate::measure::DurationHistogram;
use tidegate::{Clock, Nanos};

use crate::calls::{
    BurstAnswer, BurstCall, CallAnswer, Heartbeat, Link, LinkError, PenaltyListAnswer, PenaltyListCall,
    ScriptCall,
};
use crate::failures::breaker::Breaker;
use crate::registry::BucketKey;

/// The most breakers for shards; with more shards, some share a breaker.
const SHARDS_MAX: usize = 64;

/// An open breaker whose last try is longer ago says nothing about its shard: no request has needed it.
const FAILED_LATELY: Nanos = Nanos::from_secs(5);

/// The breakers of all shards. The first one is for the server as a whole: heartbeats, and keys of no known shard.
#[derive(Debug)]
pub(crate) struct BreakerSet(Box<[Breaker]>);

impl BreakerSet {
    pub(crate) fn new(link: &impl Link, now: Nanos) -> BreakerSet {
        let count = if link.has_slots() { 1 + SHARDS_MAX } else { 1 };
        BreakerSet((0..count).map(|_| Breaker::new(now)).collect())
    }

    /// The breaker of the server as a whole.
    pub(crate) fn whole(&self) -> &Breaker {
        &self.0[0]
    }

    fn of(&self, shard: usize) -> &Breaker {
        match shard.checked_sub(1) {
            None => self.whole(),
            Some(_) if self.0.len() == 1 => self.whole(),
            Some(index) => &self.0[1 + index % SHARDS_MAX],
        }
    }

    /// May a call be sent for all of these keys? If one of their breakers forbids it, no other shard is called.
    pub(crate) fn allows_call(
        &self,
        link: &impl Link,
        keys: impl Iterator<Item = BucketKey>,
        now: Nanos,
    ) -> bool {
        if !self.0.iter().any(Breaker::is_open) {
            return true;
        }
        if self.0.len() == 1 {
            return self.whole().allows_call(now);
        }
        let mut shards: SmallVec<[usize; 8]> = keys.map(|key| link.shard(&key)).collect();
        shards.sort_unstable();
        shards.dedup();
        shards.iter().all(|&shard| self.of(shard).would_allow_call(now))
            && shards.iter().all(|&shard| self.of(shard).allows_call(now))
    }

    /// Are the breakers of all these keys closed?
    pub(crate) fn are_closed(&self, link: &impl Link, mut keys: impl Iterator<Item = BucketKey>) -> bool {
        !self.0.iter().any(Breaker::is_open) || keys.all(|key| !self.of(link.shard(&key)).is_open())
    }

    /// Is every shard up? And since when it is so, or since when the first failing shard is down.
    pub(crate) fn health(&self, now: Nanos) -> (bool, Nanos) {
        let (whole, others) = (self.whole(), &self.0[1..]);
        let failing =
            others.iter().filter(|breaker| breaker.is_open() && breaker.tried_within(FAILED_LATELY, now));
        let failing = failing.chain(Some(whole).filter(|whole| whole.is_open())).map(Breaker::since).min();
        match failing {
            Some(since) => (false, since),
            None => (true, self.0.iter().map(Breaker::since).max().unwrap_or_default()),
        }
    }
}

/// A link that records the result of each call in the breaker of its shard, and how long it took.
pub(crate) struct RecordingLink<'a, L, C> {
    pub(crate) link: &'a L,
    pub(crate) breakers: &'a BreakerSet,
    pub(crate) clock: &'a C,
    pub(crate) call_times: &'a DurationHistogram,
}

impl<L, C: Clock> RecordingLink<'_, L, C> {
    /// Records a call that was sent to a shard at `sent` and has ended now.
    fn record(&self, shard: usize, sent: Nanos, is_ok: bool) {
        let ended = self.clock.now();
        self.call_times.record(ended.saturating_sub(sent));
        let breaker = self.breakers.of(shard);
        if is_ok { breaker.succeeded(ended) } else { breaker.failed(ended) }
    }
}

impl<L: Link, C: Clock> Link for RecordingLink<'_, L, C> {
    async fn call(&self, call: &ScriptCall) -> Result<CallAnswer, LinkError> {
        let shard = call.entries.first().map_or(0, |entry| self.link.shard(&entry.key));
        let sent = self.clock.now();
        let answer = self.link.call(call).await;
        // A call that was cancelled with another one says nothing about the server; if it failed with another one, that one
        // says it.
        if !matches!(answer, Err(LinkError::Cancelled | LinkError::SentWith(_))) {
            self.record(shard, sent, answer.is_ok());
        }
        answer
    }

    async fn heartbeat(&self, heartbeat: &Heartbeat) -> Result<u32, LinkError> {
        self.link.heartbeat(heartbeat).await
    }

    async fn count_bursts(&self, call: &BurstCall) -> Result<Vec<BurstAnswer>, LinkError> {
        let shard = call.entries.first().map_or(0, |entry| self.link.shard(&entry.key));
        let sent = self.clock.now();
        let answer = self.link.count_bursts(call).await;
        self.record(shard, sent, answer.is_ok());
        answer
    }

    async fn list_penalties(&self, call: &PenaltyListCall) -> Result<PenaltyListAnswer, LinkError> {
        self.link.list_penalties(call).await
    }

    fn has_slots(&self) -> bool {
        self.link.has_slots()
    }

    fn shard(&self, key: &BucketKey) -> usize {
        self.link.shard(key)
    }
}

#[cfg(test)]
mod tests {
    use tidegate::ManualClock;
    use tidegate::testing::block_on_ready;

    use super::*;
    use crate::calls::CallVerb;
    use crate::store::new_call_times;

    /// The name of a key is the number of its shard.
    struct Sharded;

    impl Link for Sharded {
        async fn call(&self, _call: &ScriptCall) -> Result<CallAnswer, LinkError> {
            Err(LinkError::Down("by request".into()))
        }

        async fn heartbeat(&self, _heartbeat: &Heartbeat) -> Result<u32, LinkError> {
            Ok(1)
        }

        async fn count_bursts(&self, _call: &BurstCall) -> Result<Vec<BurstAnswer>, LinkError> {
            Err(LinkError::Down("by request".into()))
        }

        async fn list_penalties(&self, _call: &PenaltyListCall) -> Result<PenaltyListAnswer, LinkError> {
            Err(LinkError::Down("by request".into()))
        }

        fn has_slots(&self) -> bool {
            true
        }

        fn shard(&self, key: &BucketKey) -> usize {
            key.0.parse().unwrap()
        }
    }

    fn at(millis: u64) -> Nanos {
        Nanos::from_millis(millis)
    }

    fn allows_call(breakers: &BreakerSet, keys: &[&str], millis: u64) -> bool {
        breakers.allows_call(&Sharded, keys.iter().map(|&key| BucketKey(key.into())), at(millis))
    }

    #[test]
    fn a_part_that_fails_holds_back_only_who_needs_it() {
        let breakers = BreakerSet::new(&Sharded, at(0));
        (0..5).for_each(|_| breakers.of(2).failed(at(10)));
        assert!(allows_call(&breakers, &["1", "3", "0"], 20));
        assert!(!allows_call(&breakers, &["2"], 20) && !allows_call(&breakers, &["1", "2"], 20));
        assert_eq!(breakers.health(at(20)), (false, at(10)));
        assert!(allows_call(&breakers, &["2", "1"], 1_010), "one call as a probe");
        assert!(!allows_call(&breakers, &["2"], 1_010), "one, not two");
        assert_eq!(breakers.health(at(7_000)), (true, at(10)), "its last try is too long ago to count");
        breakers.of(2).succeeded(at(7_000));
        assert!(allows_call(&breakers, &["1", "2"], 7_000));
    }

    #[test]
    fn two_that_fail_are_tried_together() {
        let breakers = BreakerSet::new(&Sharded, at(0));
        (0..5).for_each(|_| breakers.of(1).failed(at(0)));
        (0..5).for_each(|_| breakers.of(2).failed(at(500)));
        assert!(!allows_call(&breakers, &["1", "2"], 1_000));
        assert!(allows_call(&breakers, &["1"], 1_000), "the refused call has not used up the probe");
        breakers.of(1).failed(at(1_000));
        assert!(allows_call(&breakers, &["1", "2"], 2_000));
    }

    #[test]
    fn beats_that_fail_hold_back_no_part() {
        let breakers = BreakerSet::new(&Sharded, at(0));
        breakers.whole().trip(at(0));
        assert!(allows_call(&breakers, &["1"], 0) && !allows_call(&breakers, &["0"], 0));
        assert_eq!(breakers.health(at(0)), (false, at(0)));
    }

    /// A call fails after 3 ms by this clock.
    struct Slow<'a>(&'a ManualClock);

    impl Link for Slow<'_> {
        async fn call(&self, _call: &ScriptCall) -> Result<CallAnswer, LinkError> {
            self.0.advance(Nanos::from_millis(3));
            Err(LinkError::Down("by request".into()))
        }

        async fn count_bursts(&self, _call: &BurstCall) -> Result<Vec<BurstAnswer>, LinkError> {
            Err(LinkError::Down("by request".into()))
        }

        async fn list_penalties(&self, _call: &PenaltyListCall) -> Result<PenaltyListAnswer, LinkError> {
            Err(LinkError::Down("by request".into()))
        }

        async fn heartbeat(&self, _heartbeat: &Heartbeat) -> Result<u32, LinkError> {
            Ok(1)
        }
    }

    #[test]
    fn the_time_of_a_call_is_measured_even_if_it_fails() {
        let (clock, call_times) = (ManualClock::new(at(100)), new_call_times());
        let (slow, breakers) = (Slow(&clock), BreakerSet::new(&Slow(&clock), at(0)));
        let link = RecordingLink { link: &slow, breakers: &breakers, clock: &clock, call_times: &call_times };
        let call = ScriptCall { verb: CallVerb::Peek, entries: Vec::new(), at: None };
        assert!(block_on_ready(link.call(&call)).is_err());
        let seen = call_times.snapshot();
        assert_eq!((seen.count(), seen.sum()), (1, at(3)));
        assert_eq!(seen.cumulative().find(|(_, count)| *count == 1), Some((at(5), 1)));
    }
    /// Calls fail with this error.
    struct Failing(LinkError);

    impl Link for Failing {
        async fn call(&self, _call: &ScriptCall) -> Result<CallAnswer, LinkError> {
            Err(self.0.clone())
        }

        async fn count_bursts(&self, _call: &BurstCall) -> Result<Vec<BurstAnswer>, LinkError> {
            Err(self.0.clone())
        }

        async fn list_penalties(&self, _call: &PenaltyListCall) -> Result<PenaltyListAnswer, LinkError> {
            Err(self.0.clone())
        }

        async fn heartbeat(&self, _heartbeat: &Heartbeat) -> Result<u32, LinkError> {
            Ok(1)
        }
    }

    #[test]
    fn a_failure_that_several_calls_share_counts_once() {
        let late = LinkError::Timeout(at(20));
        let passed_on = LinkError::SentWith(Box::new(late.clone()));
        for (error, opens) in [(late, true), (passed_on, false), (LinkError::Cancelled, false)] {
            let (clock, call_times, failing) =
                (ManualClock::new(at(100)), new_call_times(), Failing(error.clone()));
            let breakers = BreakerSet::new(&failing, at(0));
            let link =
                RecordingLink { link: &failing, breakers: &breakers, clock: &clock, call_times: &call_times };
            let call = ScriptCall { verb: CallVerb::Take, entries: Vec::new(), at: None };
            (0..20).for_each(|_| assert!(block_on_ready(link.call(&call)).is_err()));
            assert_eq!(breakers.whole().is_open(), opens, "{error:?}");
        }
    }
}
