//! The conformance suite on strict decisions by a real server.

use std::future::Future;

use crate::support::{PlainLink, Redis, fresh_prefix, runtime};
use tidegate::testing::{Harness, conformance};
use tidegate_redis::testing::ServerOnlyStore;

struct OnServer {
    server: Redis,
    runtime: tokio::runtime::Runtime,
    slots: bool,
}

impl Harness for OnServer {
    type Store = ServerOnlyStore<PlainLink>;

    fn store(&self, _max_keys: usize) -> Self::Store {
        let prefix = fresh_prefix();
        let link = self.runtime.block_on(PlainLink::connect(&self.server));
        ServerOnlyStore::new(if self.slots { link.with_slots() } else { link }, &prefix)
    }

    fn run<F: Future>(&self, future: F) -> F::Output {
        self.runtime.block_on(future)
    }
}

#[test]
fn strict_on_one_server() {
    conformance(&OnServer { server: Redis::start(), runtime: runtime(), slots: false });
}

#[test]
fn strict_with_a_call_for_each_slot() {
    conformance(&OnServer { server: Redis::start(), runtime: runtime(), slots: true });
}
