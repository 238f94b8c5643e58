//! Nodes with two policies at once, as during a rollout: migrating each other's states must not add tokens.

use crate::support::{PlainLink, Redis, runtime};
use tidegate::{Carry, Charge, Cost, Intent, Limit, LimitRef, LogQuota, Nanos, Quota, Store};
use tidegate_redis::testing::ServerOnlyStore;

const NOW: Nanos = Nanos::from_secs(1_800_000_000);

fn at(seconds: u64) -> Nanos {
    NOW.saturating_add(Nanos::from_secs(seconds))
}

/// A server, and nodes on it.
struct Bench {
    server: Redis,
    runtime: tokio::runtime::Runtime,
}

impl Bench {
    fn new() -> Bench {
        Bench { server: Redis::start(), runtime: runtime() }
    }

    fn node(&self) -> ServerOnlyStore<PlainLink> {
        ServerOnlyStore::new(self.runtime.block_on(PlainLink::connect(&self.server)), "shared")
    }

    /// Takes single tokens until it is denied.
    fn drain(&self, node: &ServerOnlyStore<PlainLink>, limit: &LimitRef, now: Nanos) -> u64 {
        self.take(node, limit, 10_000, now)
    }

    /// Takes single tokens, up to a maximum.
    fn take(&self, node: &ServerOnlyStore<PlainLink>, limit: &LimitRef, most: usize, now: Nanos) -> u64 {
        let charges = [Charge::new(limit, b"key", Cost::ONE)];
        let take = || self.runtime.block_on(node.charge(Intent::Take, &charges, now)).unwrap().allowed;
        (0..most).take_while(|_| take()).count() as u64
    }
}

fn bucket(rate: u64, per: Nanos, capacity: u32) -> Limit {
    Quota::new(rate, per, capacity).unwrap().into()
}

#[test]
fn a_rate_that_is_raised_node_by_node_multiplies_nothing() {
    let bench = Bench::new();
    for (slow, fast) in [(1, 10), (10, 1)] {
        let (from, to) = (bucket(slow, Nanos::SECOND, 100), bucket(fast, Nanos::SECOND, 100));
        let name = format!("from {slow}");
        let (old, new) = (bench.node(), bench.node());
        let before = old.limit(&name, from, Carry::AsIs, NOW).unwrap();
        new.limit(&name, from, Carry::AsIs, NOW).unwrap();
        let mut taken = bench.drain(&old, &before, NOW);
        assert_eq!(taken, 100);
        let after = new.limit(&name, to, Carry::AsIs, at(1)).unwrap();
        for second in 2..40 {
            // The migration must not multiply the tokens that the old node leaves.
            taken += bench.take(&old, &before, 1, at(second));
            taken += bench.drain(&new, &after, at(second));
            assert!(taken <= 100 + 10 * second, "{name}: {taken} in {second} seconds");
        }
        assert!(taken >= 100 + 38, "{name}: {taken} is less than the slower rate");
    }
}

#[test]
fn an_edit_by_a_clock_that_is_ahead_takes_nothing_from_the_future() {
    let bench = Bench::new();
    let node = bench.node();
    let old = node.limit("a", bucket(10, Nanos::SECOND, 100), Carry::AsIs, NOW).unwrap();
    assert_eq!(bench.drain(&node, &old, NOW), 100);
    let new = node.limit("a", bucket(1, Nanos::SECOND, 100), Carry::AsIs, at(9)).unwrap();
    assert_eq!(bench.drain(&node, &new, at(2)), 20, "two seconds of the old rate, not nine");
}

#[test]
fn what_an_edit_does_to_states_it_does_once() {
    let bench = Bench::new();
    // A used-up bucket of ten is edited: a reset grants the new capacity once, and in proportion nothing is left of
    // nothing. After that, both nodes together get one token an hour.
    for (carry, capacity, once) in [(Carry::Reset, 20, 20), (Carry::Proportional, 100, 0)] {
        let (from, to) = (bucket(1, Nanos::HOUR, 10), bucket(1, Nanos::HOUR, capacity));
        let name = format!("{carry:?}");
        let (old, new) = (bench.node(), bench.node());
        let before = old.limit(&name, from, Carry::AsIs, NOW).unwrap();
        new.limit(&name, from, Carry::AsIs, NOW).unwrap();
        assert_eq!(bench.drain(&old, &before, NOW), 10);
        let after = new.limit(&name, to, carry, at(1)).unwrap();
        assert_eq!(bench.drain(&new, &after, at(1)), once, "{name}");
        let mut taken = 0;
        for hour in 1..8 {
            let half = at(hour * 3_600 + 1_800);
            taken += bench.drain(&old, &before, half) + bench.drain(&new, &after, half);
            assert!(taken <= hour, "{name}: {taken} more in {hour} hours");
        }
        assert!(taken >= 6, "{name}: {taken}");
    }
}

#[test]
fn who_comes_with_another_policy_leaves_the_tokens_as_they_are() {
    let bench = Bench::new();
    for carry in [Carry::Reset, Carry::Proportional, Carry::AsIs] {
        let name = format!("{carry:?}");
        let (old, new) = (bench.node(), bench.node());
        let before = old.limit(&name, bucket(1, Nanos::HOUR, 10), Carry::AsIs, NOW).unwrap();
        let after = new.limit(&name, bucket(1, Nanos::HOUR, 100), carry, NOW).unwrap();
        let take = |node: &ServerOnlyStore<PlainLink>, limit| {
            let charges = [Charge::new(limit, b"key", Cost::ONE)];
            bench.runtime.block_on(node.charge(Intent::Take, &charges, NOW)).unwrap().decisions[0].remaining
        };
        for left in [9, 7, 5, 3] {
            assert_eq!(take(&old, &before), left, "{name}");
            assert_eq!(take(&new, &after), left - 1, "{name}");
        }
    }
}

#[test]
fn a_log_tells_that_it_was_written_after_an_edit() {
    let bench = Bench::new();
    let log = |limit| Limit::from(LogQuota::new(limit, Nanos::HOUR).unwrap());
    let (old, new) = (bench.node(), bench.node());
    let before = old.limit("a", log(10), Carry::AsIs, NOW).unwrap();
    new.limit("a", log(10), Carry::AsIs, NOW).unwrap();
    let after = new.limit("a", log(15), Carry::Reset, at(1)).unwrap();
    assert_eq!(bench.drain(&old, &before, at(2)), 10);
    assert_eq!(bench.drain(&new, &after, at(3)), 5, "the edit was before that");
}
