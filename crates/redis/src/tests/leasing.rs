//! Leases of one node.

use std::sync::atomic::Ordering;

use tidegate::testing::block_on_ready;
use tidegate::{Charge, Clock, Cost, Intent, Limit, Nanos, Store, WindowQuota};

use super::world::{LIFE, Tasks, World, at, bucket};
use crate::StoreMode;

fn leases(world: &World, node: usize) -> usize {
    world.nodes[node].link().asked.leases.lock().unwrap().len()
}

#[test]
fn cold_keys_are_decided_by_the_server() {
    let world = World::hybrid(1);
    let limit = world.limit("limit", bucket(100, 1_000));
    // Two requests in each half life.
    for n in 0..200 {
        world.set(at(n * 25));
        assert!(world.take(0, &limit, 1).is_allowed());
    }
    assert_eq!((world.calls(), leases(&world, 0)), (200, 0));
}

#[test]
fn a_hot_key_costs_a_twentieth_of_the_calls_and_less() {
    for maintained in [true, false] {
        let world = World::hybrid(1);
        let mut tasks = Tasks::default();
        if maintained {
            world.run_maintenance(&mut tasks);
        }
        let limit = world.limit("limit", bucket(5_000, 5_000));
        for half_millis in 0..20_000 {
            world.set(at(0).saturating_add(Nanos::new(half_millis * 500_000)));
            let decision = world.take(0, &limit, 1);
            assert!(decision.is_allowed(), "at {half_millis}: {decision:?}");
            assert!(decision.remaining > 4_000, "{decision:?}");
            tasks.poll();
        }
        assert!(world.calls() <= 20_000 / 20, "{} calls, maintained: {maintained}", world.calls());
        assert!(
            leases(&world, 0) <= 10_000 / 50,
            "{} lease requests, maintained: {maintained}",
            leases(&world, 0)
        );
    }
}

#[test]
fn all_that_comes_in_is_used_below_the_limit() {
    // Nine tenths of the rate: few tokens may be lost in leases.
    let world = World::hybrid(1);
    let limit = world.limit("limit", bucket(1_000, 100));
    let mut denied = 0;
    for n in 0..9_000_u64 {
        world.set(at(0).saturating_add(Nanos::new(n * 1_111_000)));
        denied += u32::from(!world.take(0, &limit, 1).is_allowed());
    }
    assert!(denied < 90, "{denied} of 9,000 denied");
}

#[test]
fn nothing_is_used_after_its_life() {
    let world = World::hybrid(1);
    let limit = world.limit("limit", bucket(100, 1_000));
    world.warm_up(0, &limit, 1_000);
    let _ = world.take(0, &limit, 1);
    assert_eq!(leases(&world, 0), 1);
    let calls = world.calls();
    assert!(world.take(0, &limit, 1).is_allowed());
    assert_eq!(world.calls(), calls, "from the lease");
    // After a suspension the node's clock has moved on.
    world.set(at(1_100));
    let _ = world.take(0, &limit, 1);
    assert_eq!(world.calls(), calls + 1, "asked");
}

#[test]
fn a_life_begins_before_the_call_is_sent() {
    let world = World::hybrid(1);
    let limit = world.limit("limit", bucket(1_000, 1_000));
    world.warm_up(0, &limit, 1_000);
    let (node, link) = (&world.nodes[0], world.nodes[0].link());
    link.there.store(30_000_000, Ordering::SeqCst);
    link.back.store(40_000_000, Ordering::SeqCst);
    let mut tasks = Tasks::default();
    tasks.add(async {
        let charge = Charge::new(&limit, b"key", Cost::ONE);
        assert!(node.charge(Intent::Take, &[charge], at(0)).await.unwrap().allowed);
    });
    for millis in [1_030, 1_070] {
        world.set(at(millis));
        tasks.poll();
    }
    let calls = world.calls();
    world.set(at(1_099));
    assert!(world.take(0, &limit, 1).is_allowed());
    assert_eq!(world.calls(), calls, "alive until 100 ms after it was sent");
    link.there.store(0, Ordering::SeqCst);
    link.back.store(0, Ordering::SeqCst);
    world.set(at(1_100));
    let _ = world.take(0, &limit, 1);
    assert_eq!(world.calls(), calls + 1);
}

#[test]
fn near_the_limit_a_node_asks_once_in_half_a_life_and_its_waits_are_promises() {
    let world = World::hybrid(1);
    let limit = world.limit("limit", bucket(100, 100));
    let mut denied = 0;
    for n in 0..50_000_u64 {
        let now = at(0).saturating_add(Nanos::new(n * 100_000));
        world.set(now);
        if !world.take(0, &limit, 1).is_allowed() {
            denied += 1;
        }
    }
    assert!(denied > 40_000);
    let asks = world.nodes[0].link().asked.leases.lock().unwrap().clone();
    assert!(
        asks.windows(2).all(|pair| pair[1].saturating_sub(pair[0]) >= Nanos::from_millis(50)),
        "{asks:?}"
    );
    assert!(world.calls() < 500, "{} calls", world.calls());
    // A request that waits as long as its denial says is admitted.
    for cost in [1, 3, 20] {
        let denied = world.take(0, &limit, cost);
        let wait = denied.wait().unwrap();
        assert!(wait > Nanos::ZERO && denied.remaining < cost, "{denied:?}");
        world.set(world.clock.now().saturating_add(wait));
        assert!(world.take(0, &limit, cost).is_allowed(), "{cost} after {wait}");
        while world.take(0, &limit, 1).is_allowed() {}
    }
}

#[test]
fn large_costs_use_leases_up() {
    // The rest of a lease that is smaller than the cost is not lost.
    let world = World::hybrid(1);
    let limit = world.limit("limit", bucket(1_000, 100));
    let mut admitted = 0_u64;
    for n in 0..100_000_u64 {
        world.set(at(0).saturating_add(Nanos::new(n * 100_000)));
        if world.take(0, &limit, 9).is_allowed() {
            admitted += 9;
        }
    }
    assert!(admitted >= 9_000, "{admitted} of 10,000");
    assert!(admitted <= 10_100, "{admitted} of 10,100");
    assert!(world.calls() < 1_000, "{} calls", world.calls());
}

#[test]
fn several_limits_are_charged_together_or_not_at_all() {
    let world = World::hybrid(1);
    let (wide, narrow) = (world.limit("wide", bucket(1_000, 1_000)), world.limit("narrow", bucket(20, 20)));
    let both = || {
        let charges = [Charge::new(&wide, b"key", Cost::ONE), Charge::new(&narrow, b"key", Cost::ONE)];
        world.charge(0, Intent::Take, &charges)
    };
    world.set(at(0));
    let mut admitted = 0;
    for n in 0..20_000_u64 {
        world.set(at(0).saturating_add(Nanos::new(n * 50_000)));
        admitted += u32::from(both().allowed);
    }
    assert!((18..=42).contains(&admitted), "{admitted} of 40 and what is leased");
    let peek = world.charge(0, Intent::Peek, &[Charge::new(&wide, b"key", Cost::ONE)]);
    assert!(peek.decisions[0].remaining >= 990, "denied requests have used {:?}", peek.decisions[0]);
}

#[test]
fn limits_that_are_not_leased_are_charged_in_the_same_call() {
    let world = World::hybrid(1);
    let leased = world.limit("leased", bucket(1_000, 1_000));
    let window = world.limit("window", Limit::fixed_window(WindowQuota::new(1_000, Nanos::MINUTE).unwrap()));
    let both = || {
        let charges = [Charge::new(&leased, b"key", Cost::ONE), Charge::new(&window, b"key", Cost::ONE)];
        world.charge(0, Intent::Take, &charges)
    };
    for n in 0..1_000_u64 {
        world.set(at(n));
        let verdict = both();
        assert!(verdict.allowed);
        assert_eq!(u64::from(verdict.decisions[1].remaining), 999 - n, "exact");
    }
    assert_eq!(world.calls(), 1_000);
    assert!(!both().allowed, "the window is used up");
    let before = world.nodes[0].link().asked.calls.load(Ordering::SeqCst);
    assert!(!both().allowed);
    assert_eq!(world.calls(), before, "remembered");
}

#[test]
fn a_server_that_is_down_costs_no_lease() {
    let world = World::hybrid(1);
    let limit = world.limit("limit", bucket(100, 1_000));
    world.warm_up(0, &limit, 1_000);
    let _ = world.take(0, &limit, 1);
    let left = world.take(0, &limit, 1).remaining;
    world.nodes[0].link().is_down.store(true, Ordering::SeqCst);
    assert!(world.take(0, &limit, 1).is_allowed(), "leases serve on");
    let too_much = Charge::new(&limit, b"key", Cost::new(500));
    assert!(block_on_ready(world.nodes[0].charge(Intent::Take, &[too_much], at(0))).is_err());
    assert_eq!(world.take(0, &limit, 1).remaining, left - 2, "what was drawn for it went back");
}

#[test]
fn a_server_that_is_down_is_not_hidden_by_denials() {
    let world = World::hybrid(1);
    let limit = world.limit("limit", bucket(100, 100));
    for n in 0..5_000_u64 {
        world.set(at(0).saturating_add(Nanos::new(n * 100_000)));
        let _ = world.take(0, &limit, 1);
    }
    world.nodes[0].link().is_down.store(true, Ordering::SeqCst);
    let charge = Charge::new(&limit, b"key", Cost::ONE);
    let ask = || block_on_ready(world.nodes[0].charge(Intent::Take, &[charge], at(0)));
    let mut failed = false;
    for n in 5_000..7_000_u64 {
        world.set(at(0).saturating_add(Nanos::new(n * 100_000)));
        let is_err = ask().is_err();
        assert!(is_err || !failed, "after the first failed call, every request fails");
        failed |= is_err;
    }
    assert!(failed);
}

#[test]
fn a_request_that_nobody_waits_for_gives_back_what_it_drew() {
    let world = World::hybrid(1);
    let limit = world.limit("limit", bucket(100, 1_000));
    world.warm_up(0, &limit, 1_000);
    let _ = world.take(0, &limit, 1);
    let left = world.take(0, &limit, 1).remaining;
    world.nodes[0].link().there.store(1_000_000, Ordering::SeqCst);
    let mut tasks = Tasks::default();
    tasks.add(async {
        let charge = Charge::new(&limit, b"key", Cost::new(500));
        let _ = world.nodes[0].charge(Intent::Take, &[charge], at(0)).await.unwrap();
    });
    drop(tasks);
    assert_eq!(world.take(0, &limit, 1).remaining, left - 1);
}

#[test]
fn what_is_handed_back_returns_to_the_lease_or_ages() {
    let world = World::hybrid(1);
    let limit = world.limit("limit", bucket(1_000, 1_000));
    world.warm_up(0, &limit, 1_000);
    let _ = world.take(0, &limit, 1);
    let charge = Charge::new(&limit, b"key", Cost::ONE);
    let verdict = world.charge(0, Intent::Take, &[charge]);
    let (calls, left) = (world.calls(), verdict.decisions[0].remaining);
    world.nodes[0].hand_back(&[charge], verdict.at);
    assert_eq!(world.take(0, &limit, 1).remaining, left, "it was there again");
    assert_eq!(world.calls(), calls);
    // When that lease has expired, the bucket has refilled its tokens.
    world.set(at(1_200));
    assert!(world.charge(0, Intent::HandBack, &[charge.delayed(Nanos::ZERO)]).allowed);
}

#[test]
fn a_clock_that_steps_back_ends_leases() {
    let world = World::hybrid(1);
    let limit = world.limit("limit", bucket(100, 1_000));
    world.warm_up(0, &limit, 1_000);
    let _ = world.take(0, &limit, 1);
    let calls = world.calls();
    world.set(at(900));
    let _ = world.take(0, &limit, 1);
    assert_eq!(world.calls(), calls + 1);
}

#[test]
fn a_charge_whose_lease_is_forgotten_is_handed_back_as_if_it_had_been_leased() {
    for forgotten in [false, true] {
        let world = World::knowing(1, StoreMode::Hybrid { life: LIFE.into() }, 1);
        let limit = world.limit("limit", bucket(100, 1_000));
        world.warm_up(0, &limit, 50);
        let verdict = world.charge(0, Intent::Take, &[Charge::new(&limit, b"key", Cost::new(1))]);
        assert!(verdict.allowed && leases(&world, 0) == 1, "it is leased now");
        if forgotten {
            for key in 0..10_000_u32 {
                let _ =
                    world.charge(0, Intent::Take, &[Charge::new(&limit, &key.to_le_bytes(), Cost::new(1))]);
            }
        }
        // Another key, which may have been leased too, as far as the node knows: then the refill of one life is not
        // handed back.
        let _ = world.charge(0, Intent::Take, &[Charge::new(&limit, b"other", Cost::new(30))]);
        let hands_back = world.charge(0, Intent::HandBack, &[Charge::new(&limit, b"other", Cost::new(30))]);
        assert!(hands_back.allowed);
        let look = world.charge(0, Intent::Peek, &[Charge::new(&limit, b"other", Cost::ZERO)]);
        let lost = 1_000 - look.decisions[0].remaining;
        assert_eq!(lost, if forgotten { 10 } else { 0 });
    }
}
