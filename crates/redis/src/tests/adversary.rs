//! Attacks on the published bound: idle phases, full bursts, slow calls, charges that are handed back.

use std::sync::Mutex;
use std::sync::atomic::Ordering;

use proptest::prelude::*;
use tidegate::{Charge, Clock, Cost, Intent, Limit, LimitRef, Nanos, Quota, Store, WindowQuota};

use super::world::{Node, START, Tasks, World};
use crate::StoreMode;

#[derive(Clone, Debug)]
struct Blow {
    /// Microseconds since the previous blow.
    after: u64,
    node: usize,
    requests: u32,
    cost: u32,
    /// Do its requests also charge a limit that is never leased?
    mixed: bool,
    /// Are its charges handed back at the next blow?
    handed_back: bool,
    /// The delays of calls and of answers, in microseconds.
    there: u64,
    back: u64,
}

fn blow() -> impl Strategy<Value = Blow> {
    let after = prop_oneof![3 => 0..5_000_u64, 3 => 0..60_000_u64, 1 => 0..2_000_000_u64];
    let travels = || prop_oneof![3 => Just(0_u64), 1 => 0..15_000_u64];
    let flags = (prop::bool::weighted(0.2), prop::bool::weighted(0.2));
    (after, 0..4_usize, 1..60_u32, 1..6_u32, flags, travels(), travels()).prop_map(
        |(after, node, requests, cost, (mixed, handed_back), there, back)| Blow {
            after,
            node,
            requests,
            cost,
            mixed,
            handed_back,
            there,
            back,
        },
    )
}

/// When tokens were admitted, and how many.
type Admitted = Mutex<Vec<(Nanos, u64)>>;

/// One request. Without a call it is admitted now; with a call, at the server's instant.
async fn request(
    node: &Node,
    limit: &LimitRef,
    other: &LimitRef,
    blow: &Blow,
    admitted: &Admitted,
    back: &Backs,
) {
    let charges = [Charge::new(limit, b"key", Cost::new(blow.cost)), Charge::new(other, b"key", Cost::ONE)];
    let charges = if blow.mixed { &charges[..] } else { &charges[..1] };
    let begun = node.clock().now();
    let verdict = node.charge(Intent::Take, charges, begun).await.unwrap();
    if !verdict.allowed {
        return;
    }
    if blow.handed_back {
        back.lock().unwrap().push((blow.node, blow.cost, verdict.at));
        return;
    }
    let now = node.clock().now();
    let at = if now == begun { now } else { verdict.at };
    admitted.lock().unwrap().push((at, blow.cost.into()));
}

type Backs = Mutex<Vec<(usize, u32, Nanos)>>;

/// Runs the blows. Returns the largest excess over *B + R·t* and the bound, both in parts of a token.
fn play(nodes: usize, life: u64, quota: Quota, blows: &[Blow]) -> (i128, i128) {
    let world = World::new(nodes, StoreMode::Hybrid { life: std::time::Duration::from_millis(life) });
    let limit = world.limit("limit", quota.into());
    let window = WindowQuota::new(1_000_000, Nanos::MINUTE).unwrap();
    let other = world.limit("other", Limit::fixed_window(window));
    let (admitted, backs) = (Admitted::default(), Backs::default());
    let mut tasks = Tasks::default();
    world.run_maintenance(&mut tasks);
    let mut now = START;
    for blow in blows {
        let then = now.saturating_add(Nanos::new(blow.after * 1_000));
        // In steps, so that messages arrive in between.
        while now < then {
            now = now.saturating_add(Nanos::from_millis(3)).min(then);
            world.set(now);
            tasks.poll();
        }
        for (node, cost, at) in backs.lock().unwrap().drain(..) {
            world.nodes[node].hand_back(&[Charge::new(&limit, b"key", Cost::new(cost))], at);
        }
        let node = &world.nodes[blow.node % nodes];
        let blow = Blow { node: blow.node % nodes, ..blow.clone() };
        node.link().there.store(blow.there * 1_000, Ordering::SeqCst);
        node.link().back.store(blow.back * 1_000, Ordering::SeqCst);
        for _ in 0..blow.requests {
            let (blow, limit, other) = (blow.clone(), &limit, &other);
            let (admitted, backs) = (&admitted, &backs);
            tasks.add(async move { request(node, limit, other, &blow, admitted, backs).await });
        }
    }
    let bound = world.nodes[0].overshoot_bounds()[0].1;
    drop(tasks);
    (overshoot(&quota, admitted.into_inner().unwrap()), i128::from(bound) * i128::from(quota.rate().nanos()))
}

/// The largest excess over `B + R·t` in any interval, in tokens times the nanoseconds of the rate.
fn overshoot(quota: &Quota, mut admitted: Vec<(Nanos, u64)>) -> i128 {
    admitted.sort();
    let (tokens, nanos) = (i128::from(quota.rate().tokens()), i128::from(quota.rate().nanos()));
    let (mut sum, mut least, mut most) = (0_i128, i128::MAX, i128::MIN);
    for (at, cost) in admitted {
        let refill = i128::from(at.saturating_sub(START).get()) * tokens;
        least = least.min(sum - refill);
        sum += i128::from(cost) * nanos;
        most = most.max(sum - refill - least);
    }
    if most == i128::MIN { 0 } else { most - i128::from(quota.capacity()) * nanos }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn no_interval_admits_more_than_the_bound(
        nodes in 1..=4_usize,
        life in 20..200_u64,
        rate in 10..3_000_u64,
        capacity in 2..200_u32,
        blows in prop::collection::vec(blow(), 1..60),
    ) {
        // Buckets that fill too fast are not leased, and have no bound to test.
        let capacity = capacity.max((rate / 50 + 1) as u32);
        let quota = Quota::new(rate, Nanos::SECOND, capacity).unwrap();
        let (overshoot, bound) = play(nodes, life, quota, &blows);
        prop_assert!(overshoot <= bound, "{overshoot} beyond, {bound} allowed");
    }
}

/// A node leases all it can, waits until the bucket is full again, and spends both at once.
#[test]
fn the_bound_is_tight() {
    let quota = Quota::new(1_000, Nanos::SECOND, 1_000).unwrap();
    let hit = |after: u64, node: usize, requests: u32| Blow {
        after,
        node,
        requests,
        cost: 1,
        mixed: false,
        handed_back: false,
        there: 0,
        back: 0,
    };
    let warm =
        [hit(0, 0, 50), hit(50_000, 0, 50), hit(50_000, 0, 50), hit(50_000, 0, 50), hit(50_000, 0, 50)];
    let idle = [hit(2_000_000 - 250_000, 1, 1)];
    // A few requests make the key hot, then the lease; the bucket fills within its life; then everything is spent at
    // once.
    let strike = [hit(250_000, 0, 60), hit(50_000, 0, 1), hit(99_000, 1, 1_200), hit(0, 0, 200)];
    let blows: Vec<Blow> = warm.into_iter().chain(idle).chain(strike).collect();
    let (overshoot, bound) = play(2, 100, quota, &blows);
    assert!(overshoot <= bound);
    assert!(overshoot >= bound / 2, "{overshoot} of {bound}");
}
