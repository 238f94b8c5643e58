//! The suite that every store passes, on the shared store over the model of the server.

use std::future::Future;

use tidegate::testing::{Harness, block_on_ready, conformance};
use tidegate::{ManualClock, Nanos};
use tidegate_redis::{Mode, Options, RedisStore};
use tidegate_sim::ModelLink;

struct OnModel {
    mode: Mode,
    has_slots: bool,
}

impl Harness for OnModel {
    type Store = RedisStore<ModelLink, ManualClock>;

    fn store(&self, _max_keys: usize) -> Self::Store {
        let options = Options { given_time: true, ..Options::new(self.mode) };
        RedisStore::new(ModelLink::new(self.has_slots), ManualClock::default(), options)
    }

    fn run<F: Future>(&self, future: F) -> F::Output {
        block_on_ready(future)
    }
}

#[test]
fn strict() {
    conformance(&OnModel { mode: Mode::Strict, has_slots: false });
}

#[test]
fn hybrid() {
    let life = Nanos::from_millis(100);
    conformance(&OnModel { mode: Mode::Hybrid { life }, has_slots: false });
}

#[test]
fn strict_over_slots() {
    conformance(&OnModel { mode: Mode::Strict, has_slots: true });
}
