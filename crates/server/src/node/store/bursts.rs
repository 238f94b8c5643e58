//! Burst detectors that nodes share, for clients that may disconnect while the server is asked: the call runs on, so that
//! this node learns of the penalty and the next request of the key reports it.

use tidegate::{
    BurstCount, BurstCounts, BurstDetector, BurstSubject, KnownBurst, LateBurst, Later, Nanos, SharedBursts,
    SharedPenalty, SharedPenaltyPage,
};
use tokio::task::unconstrained;

use super::SharedRedisStore;
use super::run_to_completion::RunsToCompletion;

impl SharedBursts for SharedRedisStore {
    fn key(&self, detector: &BurstDetector, key: &[u8]) -> u128 {
        self.store.key(detector, key)
    }

    fn known(&self, count: &BurstCount, takes_action: bool, now: Nanos) -> KnownBurst {
        self.store.known(count, takes_action, now)
    }

    fn add(&self, counts: &[BurstCount], describe: &dyn Fn(usize) -> BurstSubject, now: Nanos) -> bool {
        self.store.add(counts, describe, now)
    }

    fn has_late(&self) -> bool {
        self.store.has_late()
    }

    fn take_late(&self, most: usize, now: Nanos) -> Vec<LateBurst> {
        self.store.take_late(most, now)
    }

    fn ask(&self, counts: BurstCounts, now: Nanos) -> Later<'_, bool> {
        let Some(shared) = self.this.upgrade() else { return self.store.ask(counts, now) };
        // `unconstrained`, so that the counts are sent in the same order as the charges.
        let asking = unconstrained(async move { shared.store.ask(counts, now).await });
        Box::pin(RunsToCompletion::new(asking))
    }

    fn look(&self, counts: BurstCounts, now: Nanos) -> Later<'_, bool> {
        self.store.look(counts, now)
    }

    fn asks_always(&self) -> bool {
        self.store.asks_always()
    }

    fn list(&self, penalty: SharedPenalty) {
        self.store.list(penalty);
    }

    fn listed(&self, after: Option<u128>, most: usize) -> Later<'_, Option<SharedPenaltyPage>> {
        self.store.listed(after, most)
    }

    fn lift(&self, key: u128) -> Later<'_, bool> {
        let Some(shared) = self.this.upgrade() else { return self.store.lift(key) };
        Box::pin(RunsToCompletion::new(async move { shared.store.lift(key).await }))
    }
}
