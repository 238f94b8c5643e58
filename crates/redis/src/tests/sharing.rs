//! Leases of several nodes on one server.

use tidegate::testing::block_on_ready;
use tidegate::{Charge, Cost, Intent, Nanos};

use super::world::{Tasks, World, at, bucket};

/// The tokens that all nodes admit in `seconds`, with `per_milli` requests a millisecond at each.
fn flood(world: &World, rate: u64, capacity: u32, per_milli: u64, seconds: u64) -> u64 {
    let limit = world.limit("limit", bucket(rate, capacity));
    let mut tasks = Tasks::default();
    world.run_maintenance(&mut tasks);
    let mut admitted = 0;
    for n in 0..seconds * 1_000 * per_milli {
        world.set(at(0).saturating_add(Nanos::new(n * 1_000_000 / per_milli)));
        for node in 0..world.nodes.len() {
            admitted += u64::from(world.take(node, &limit, 1).is_allowed());
        }
        tasks.poll();
    }
    admitted
}

#[test]
fn at_the_limit_nodes_share_what_there_is() {
    for (nodes, rate, capacity) in [(1, 1_000, 1_000), (4, 1_000, 1_000), (3, 1_000, 50), (2, 1_000, 20)] {
        let world = World::hybrid(nodes);
        let admitted = flood(&world, rate, capacity, 10 / nodes as u64 + 1, 10);
        let bound = world.nodes[0].overshoot_bounds()[0].1;
        let most = rate * 10 + u64::from(capacity);
        assert!(admitted <= most + bound, "{nodes} nodes: {admitted} of {most}");
        assert!(admitted >= rate * 9, "{nodes} nodes, burst {capacity}: {admitted} of {most}");
        let half = Nanos::from_millis((u64::from(capacity) * 1_000 / rate).min(100) / 2);
        for node in &world.nodes {
            let asks = node.link().asked.leases.lock().unwrap().clone();
            let close = asks.windows(2).find(|pair| pair[1].saturating_sub(pair[0]) < half);
            assert_eq!(close, None, "asked twice in half a life");
        }
        assert!(world.calls() < admitted, "{} calls for {admitted}", world.calls());
    }
}

#[test]
fn small_buckets_that_fill_fast_reach_their_rate() {
    for nodes in [1, 4] {
        let world = World::hybrid(nodes);
        let admitted = flood(&world, 1_000, 10, 10, 5);
        assert!((4_500..=5_010).contains(&admitted), "{nodes} nodes: {admitted}");
        assert_eq!(world.nodes[0].overshoot_bounds(), [], "not leased");
    }
}

#[test]
fn the_bound_is_published() {
    let world = World::hybrid(3);
    world.limit("slow", bucket(100, 1_000));
    world.limit("small", bucket(10, 3));
    let bounds = world.nodes[2].overshoot_bounds();
    assert_eq!(bounds, [("slow".to_owned(), 10), ("small".to_owned(), 1)]);
    let bounds = World::hybrid(2);
    bounds.limit("fast", bucket(1_000, 60));
    assert_eq!(bounds.nodes[1].overshoot_bounds(), [("fast".to_owned(), 60)]);
}

#[test]
fn a_node_that_dies_takes_its_leases_with_it() {
    let mut world = World::hybrid(2);
    let limit = world.limit("limit", bucket(10, 1_000));
    world.warm_up(0, &limit, 1_000);
    assert!(world.take(0, &limit, 1).is_allowed());
    let before = world.charge(1, Intent::Peek, &[Charge::new(&limit, b"key", Cost::ONE)]);
    world.nodes.remove(0);
    let mut admitted = 0;
    while world.take(0, &limit, 1).is_allowed() {
        admitted += 1;
    }
    assert_eq!(admitted, before.decisions[0].remaining, "what it had leased is lost, and no more");
    assert!(admitted > 980);
}

#[test]
fn a_node_that_leaves_gives_back_what_time_has_not() {
    // Leased at once and handed back 40 ms later: at 100 a second, four tokens were refilled since.
    let world = World::hybrid(2);
    let limit = world.limit("limit", bucket(100, 1_000));
    let left = |node| {
        world.charge(node, Intent::Peek, &[Charge::new(&limit, b"key", Cost::ONE)]).decisions[0].remaining
    };
    world.set(at(950));
    assert!(world.take(0, &limit, 500).is_allowed());
    (0..20).for_each(|_| assert!(world.take(0, &limit, 1).is_allowed()));
    world.set(at(1_000));
    let central = left(1);
    assert_eq!(central, 485);
    assert!(world.take(0, &limit, 1).is_allowed());
    let leased = central - 1 - left(1);
    assert!(leased >= 20, "{leased}");
    world.set(at(1_040));
    let before = left(1);
    block_on_ready(world.nodes[0].leave());
    assert_eq!(left(1), before + leased - 4);
    // No token of it is used after that.
    let calls = world.calls();
    let _ = world.take(0, &limit, 1);
    assert_eq!(world.calls(), calls + 1);
}
