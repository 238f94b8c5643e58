//! The conformance suite of all stores, on the shared store over the model of the server.

use std::future::Future;

use tidegate::ManualClock;
use tidegate::testing::{Harness, block_on_ready, conformance};
use tidegate_redis::{RedisStore, StoreMode, StoreOptions};
use tidegate_sim::ModelLink;

struct OnModel {
    mode: StoreMode,
    has_slots: bool,
}

impl Harness for OnModel {
    type Store = RedisStore<ModelLink, ManualClock>;

    fn store(&self, _max_keys: usize) -> Self::Store {
        let options = StoreOptions { given_time: true, ..StoreOptions::new(self.mode) };
        RedisStore::new(ModelLink::new(self.has_slots), ManualClock::default(), options)
    }

    fn run<F: Future>(&self, future: F) -> F::Output {
        block_on_ready(future)
    }
}

#[test]
fn strict() {
    conformance(&OnModel { mode: StoreMode::Strict, has_slots: false });
}

#[test]
fn hybrid() {
    let life = StoreOptions::LEASE_LIFE;
    conformance(&OnModel { mode: StoreMode::Hybrid { life }, has_slots: false });
}

#[test]
fn strict_over_slots() {
    conformance(&OnModel { mode: StoreMode::Strict, has_slots: true });
}
