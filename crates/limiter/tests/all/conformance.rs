//! The memory store passes the suite that every store must pass.

use std::future::Future;

use tidegate::testing::{Harness, block_on_ready, conformance};
use tidegate::{ManualClock, Memory, MemoryOptions};

/// Stores whose logs are bounded as tightly as their slots.
struct InMemory;

impl Harness for InMemory {
    type Store = Memory<ManualClock>;

    fn store(&self, max_keys: usize) -> Self::Store {
        let options = MemoryOptions { max_keys, max_log_entries: max_keys * 10 };
        Memory::with_clock(options, ManualClock::default()).unwrap()
    }

    fn run<F: Future>(&self, future: F) -> F::Output {
        block_on_ready(future)
    }
}

#[test]
fn the_memory_store_conforms() {
    conformance(&InMemory);
}
