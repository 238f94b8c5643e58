//! What the policy in force and policies that are tried out do not share, though they use the same store.
//!
//! A policy that is tried out may ask for what the server refuses, or for so much that it takes too long. That is no
//! failure of the server for the policy in force, whose breakers must stay closed. And the keys of its detectors take no
//! room from those of the policy in force.

use std::sync::{Arc, PoisonError};

use tidegate::{Nanos, Sleep};

use super::RedisStore;
use crate::bursts::memory::BurstMemory;
use crate::calls::Link;
use crate::failures::ErrorTracker;
use crate::failures::breaker_set::BreakerSet;

/// The policy in force, or one that is tried out beside it: how its calls went, and what its detectors know.
#[derive(Debug)]
pub(crate) struct StoreSide {
    pub(crate) breakers: BreakerSet,
    pub(crate) errors: ErrorTracker,
    pub(crate) bursts: BurstMemory,
}

impl StoreSide {
    /// The side of the policy in force.
    pub(super) fn new(link: &impl Link, now: Nanos) -> StoreSide {
        StoreSide {
            breakers: BreakerSet::new(link, now),
            errors: ErrorTracker::new(),
            bursts: BurstMemory::new(),
        }
    }
}

impl<L: Link, C: Sleep> RedisStore<L, C> {
    /// The same store, for a policy that is tried out.
    pub(super) fn with_side_beside(self) -> RedisStore<L, C> {
        let mut side = StoreSide::new(&self.link, self.clock.now());
        side.bursts = BurstMemory::without_late();
        let side = Arc::new(side);
        let mut besides = self.besides.lock().unwrap_or_else(PoisonError::into_inner);
        besides.retain(|side| side.strong_count() > 0);
        besides.push(Arc::downgrade(&side));
        drop(besides);
        self.at(side)
    }

    /// The same store, for another side of it.
    pub(crate) fn at(&self, side: Arc<StoreSide>) -> RedisStore<L, C> {
        RedisStore { parts: Arc::clone(&self.parts), side }
    }

    /// Is this for a policy that is tried out?
    pub(crate) fn is_beside(&self) -> bool {
        !Arc::ptr_eq(&self.side, &self.live)
    }

    /// The policies that are tried out.
    pub(crate) fn besides(&self) -> Vec<RedisStore<L, C>> {
        let besides = self.besides.lock().unwrap_or_else(PoisonError::into_inner);
        besides.iter().filter_map(|side| Some(self.at(side.upgrade()?))).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use tidegate::testing::block_on_ready;
    use tidegate::{
        BurstCount, BurstDetector, Carry, Charge, Clock, Cost, Intent, ManualClock, NowOrLater, Quota,
        SharedBursts, Store,
    };

    use super::*;
    use crate::bursts::tests::subject;
    use crate::calls::{
        BurstAnswer, BurstCall, CallAnswer, Heartbeat, LinkError, PenaltyListAnswer, PenaltyListCall,
        ScriptCall,
    };
    use crate::failures::ErrorCounts;
    use crate::maintenance::MaintenanceRunner;
    use crate::registry::BucketKey;
    use crate::store::{StoreMode, StoreOptions};

    /// Refuses all calls, and notes whether there was one.
    #[derive(Debug, Default)]
    struct Refusing(AtomicBool);

    impl Refusing {
        fn refuse<T>(&self) -> Result<T, LinkError> {
            self.0.store(true, Ordering::Relaxed);
            Err(LinkError::Refused("on purpose".into()))
        }
    }

    impl Link for Refusing {
        async fn call(&self, _call: &ScriptCall) -> Result<CallAnswer, LinkError> {
            self.refuse()
        }

        async fn heartbeat(&self, _heartbeat: &Heartbeat) -> Result<u32, LinkError> {
            Ok(1)
        }

        async fn count_bursts(&self, _call: &BurstCall) -> Result<Vec<BurstAnswer>, LinkError> {
            self.refuse()
        }

        async fn list_penalties(&self, _call: &PenaltyListCall) -> Result<PenaltyListAnswer, LinkError> {
            self.refuse()
        }
    }

    type Refused = RedisStore<Refusing, ManualClock>;

    /// Does all that a policy does with a store, and runs what is left for the maintenance; each must call the server.
    fn do_everything(store: &Refused, maintained: &Refused, clock: &ManualClock) {
        // An open breaker lets a call through after a while.
        let called = |what: &str| {
            assert!(store.link.0.swap(false, Ordering::Relaxed), "{what}");
            clock.advance(Nanos::from_secs(2));
        };
        let detector = BurstDetector { id: 1, window: Nanos::SECOND, threshold: 1, penalty: Nanos::SECOND };
        let count = BurstCount { detector, key: SharedBursts::key(store, &detector, b"ann") };
        assert!(store.add(&[count], &|_| subject("ann"), clock.now()));
        block_on_ready(maintained.send_counts());
        called("a count");
        assert!(!block_on_ready(store.ask([count].into_iter().collect(), clock.now())));
        called("a count that is waited for");
        let quota = Quota::per_second(10).expect("a quota");
        let limit =
            store.limit("a", quota.into(), Carry::AsIs, clock.now()).expect("a store holds a few limits");
        let charge = Charge::new(&limit, b"ann", Cost::ONE);
        for intent in [Intent::Take, Intent::Peek, Intent::Refund, Intent::HandBack, Intent::Reset] {
            let NowOrLater::Later(answer) = store.charge(intent, &[charge], clock.now()) else {
                panic!("only the server can decide")
            };
            assert!(block_on_ready(answer).is_err());
            called("a charge");
        }
        Store::hand_back(store, &[charge], clock.now());
        let (side, task) = store.backlog.take().expect("it is handed back later");
        block_on_ready(maintained.run_task(side, task));
        called("a hand-back");
    }

    #[test]
    fn failures_of_a_policy_that_is_tried_out_are_its_own() {
        let clock = ManualClock::new(Nanos::from_secs(1_000));
        let live = RedisStore::new(Refusing::default(), clock.clone(), StoreOptions::new(StoreMode::Strict));
        for _ in 0..20 {
            do_everything(&live.clone().beside(), &live, &clock);
        }
        assert!(live.health().up);
        assert_eq!((live.errors(), live.health().last_error), (ErrorCounts::default(), None));
        assert!(live.besides().is_empty(), "none is tried out any more");

        do_everything(&live, &live, &clock);
        assert!(!live.health().up && live.errors().refused > 0);
    }

    #[test]
    fn a_policy_that_is_tried_out_stops_calling_a_server_that_fails() {
        let clock = ManualClock::new(Nanos::from_secs(1_000));
        let live = RedisStore::new(Refusing::default(), clock.clone(), StoreOptions::new(StoreMode::Strict));
        let (one, other) = (live.clone().beside(), live.clone().beside());
        let keys = || std::iter::once(BucketKey("a".into()));
        (0..5).for_each(|_| one.side.breakers.whole().failed(clock.now()));
        let may_call = || [&live, &one, &other].map(|store| store.may_call(keys(), clock.now()));
        assert_eq!(may_call(), [true, false, true]);
        live.live.breakers.whole().trip(clock.now());
        assert_eq!(may_call(), [false, false, false]);
    }
}
