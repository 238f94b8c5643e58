//! Denials that are remembered.

use tidegate::{Carry, Charge, Clock, Cost, Intent, Limit, Nanos, Outcome, Store, WindowQuota};

use super::world::{Tasks, World, at, bucket};

#[test]
fn a_flood_that_is_denied_costs_nothing() {
    let window = Limit::fixed_window(WindowQuota::new(10, Nanos::MINUTE).unwrap());
    let sliding = Limit::sliding_window(WindowQuota::new(10, Nanos::MINUTE).unwrap());
    for limit in [bucket(10, 10), window, sliding] {
        let world = World::strict();
        let limit = world.limit("limit", limit);
        assert_eq!(world.take(0, &limit, 10).remaining, 0);
        let denied = world.take(0, &limit, 4);
        let wait = denied.retry_after().unwrap();
        assert_eq!(world.calls(), 2);
        let until = world.clock.now().saturating_add(wait);
        for step in 0..1_000 {
            let passed = Nanos::new(wait.get() / 1_000 * step);
            world.set(at(0).saturating_add(passed));
            let again = world.take(0, &limit, 4);
            assert_eq!(again.retry_after(), Some(wait.saturating_sub(passed)), "{limit:?}");
            let more = world.take(0, &limit, 7);
            assert!(more.retry_after() >= again.retry_after(), "{limit:?}: more takes as long or longer");
        }
        assert_eq!(world.calls(), 2, "{limit:?}");
        world.set(until);
        assert!(world.take(0, &limit, 4).is_allowed(), "{limit:?}: the promise");
        assert_eq!(world.calls(), 3, "{limit:?}: asked once");
    }
}

#[test]
fn smaller_costs_still_pass_and_the_larger_stays_denied() {
    let world = World::strict();
    let limit = world.limit("limit", bucket(1, 10));
    world.take(0, &limit, 5);
    assert_eq!(world.take(0, &limit, 8).retry_after(), Some(Nanos::from_secs(3)));
    assert!(world.take(0, &limit, 2).is_allowed());
    assert_eq!(world.calls(), 3);
    // Two are gone since: it takes two seconds more, and that is told.
    assert_eq!(world.take(0, &limit, 8).retry_after(), Some(Nanos::from_secs(5)));
    assert_eq!(world.calls(), 3);
    world.set(at(3_000));
    assert_eq!(world.take(0, &limit, 8).retry_after(), Some(Nanos::from_secs(2)));
    assert_eq!(world.calls(), 4, "asked again when the first wait was over");
}

#[test]
fn what_is_given_back_clears_the_memory() {
    for intent in [Intent::Refund, Intent::HandBack] {
        let world = World::strict();
        let limit = world.limit("limit", bucket(1, 10));
        world.take(0, &limit, 10);
        assert!(!world.take(0, &limit, 1).is_allowed());
        world.charge(0, intent, &[Charge::new(&limit, b"key", Cost::new(5))]);
        assert!(world.take(0, &limit, 5).is_allowed(), "{intent:?}");
        assert!(!world.take(0, &limit, 1).is_allowed());
    }
}

#[test]
fn what_was_denied_before_a_hand_back_is_done_is_denied_no_more() {
    let world = World::strict();
    let limit = world.limit("limit", bucket(1, 10));
    world.take(0, &limit, 10);
    world.nodes[0].hand_back(&[Charge::new(&limit, b"key", Cost::new(5))], at(0));
    assert!(!world.take(0, &limit, 5).is_allowed(), "nobody has done it yet");
    let mut tasks = Tasks::default();
    world.tend(&mut tasks);
    tasks.poll();
    assert!(world.take(0, &limit, 5).is_allowed());
}

#[test]
fn an_edit_clears_the_memory() {
    let world = World::strict();
    let limit = world.limit("limit", bucket(1, 10));
    world.take(0, &limit, 10);
    assert!(!world.take(0, &limit, 1).is_allowed());
    world.nodes[0].limit("other", bucket(1, 1), Carry::AsIs, at(0)).unwrap();
    let calls = world.calls();
    assert!(!world.take(0, &limit, 1).is_allowed());
    assert_eq!(world.calls(), calls + 1);
}

#[test]
fn more_than_the_capacity_needs_no_server() {
    let world = World::strict();
    let (small, large) = (world.limit("small", bucket(1, 10)), world.limit("large", bucket(1, 100)));
    let charges = [Charge::new(&large, b"key", Cost::new(11)), Charge::new(&small, b"key", Cost::new(11))];
    let verdict = world.charge(0, Intent::Take, &charges);
    assert!(!verdict.allowed);
    assert_eq!((verdict.decisions[0].outcome, verdict.decisions[0].remaining), (Outcome::Allowed, 100));
    assert_eq!((verdict.decisions[1].outcome, verdict.decisions[1].remaining), (Outcome::Never, 10));
    assert_eq!(world.calls(), 0);
    // A limit that is only watched does not refuse.
    let watched = [charges[0], Charge::advisory(&small, b"key", Cost::new(11))];
    let verdict = world.charge(0, Intent::Take, &watched);
    assert!(verdict.allowed && verdict.decisions[1].is_never());
    assert_eq!(world.calls(), 1);
}

#[test]
fn the_other_limits_of_a_refused_request_are_told_as_they_were() {
    let world = World::strict();
    let (user, all) = (world.limit("user", bucket(1, 10)), world.limit("all", bucket(10, 100)));
    let both = |cost| {
        let charges = [Charge::new(&all, b"", Cost::new(cost)), Charge::new(&user, b"key", Cost::new(cost))];
        world.charge(0, Intent::Take, &charges)
    };
    assert!(both(8).allowed);
    assert_eq!(both(5).decisions[0].remaining, 92);
    let calls = world.calls();
    world.set(at(300));
    let again = both(5);
    assert!(!again.allowed && again.decisions[0].is_allowed());
    assert_eq!(again.decisions[0].remaining, 95, "three came in");
    assert_eq!(world.calls(), calls);
}

#[test]
fn peeks_and_questions_go_to_the_server() {
    let world = World::strict();
    let limit = world.limit("limit", bucket(1, 10));
    world.take(0, &limit, 10);
    world.take(0, &limit, 1);
    let calls = world.calls();
    assert!(world.take(0, &limit, 0).is_allowed());
    let peek = world.charge(0, Intent::Peek, &[Charge::new(&limit, b"key", Cost::ONE)]);
    assert!(!peek.allowed);
    assert_eq!(world.calls(), calls + 2);
}

#[test]
fn waits_are_told_from_when_the_answer_came() {
    let world = World::strict();
    let limit = world.limit("limit", bucket(10, 10));
    world.take(0, &limit, 10);
    let link = world.nodes[0].link();
    link.there.store(3_000_000, std::sync::atomic::Ordering::SeqCst);
    link.back.store(4_000_000, std::sync::atomic::Ordering::SeqCst);
    let mut tasks = super::world::Tasks::default();
    let node = &world.nodes[0];
    tasks.add(async {
        let charge = Charge::new(&limit, b"key", Cost::ONE);
        let verdict = node.charge(Intent::Take, &[charge], at(0)).await.unwrap();
        assert_eq!(verdict.decisions[0].retry_after(), Some(Nanos::from_millis(97)));
    });
    for millis in [3, 7] {
        world.set(at(millis));
        tasks.poll();
    }
    // Told at 7 ms to come back 97 ms later.
    assert_eq!(world.take(0, &limit, 1).retry_after(), Some(Nanos::from_millis(97)));
    world.set(at(50));
    assert_eq!(world.take(0, &limit, 1).retry_after(), Some(Nanos::from_millis(54)));
    // The memory itself ends by the clock before the call.
    world.set(at(96));
    assert_eq!(world.take(0, &limit, 1).retry_after(), Some(Nanos::from_millis(8)));
    assert_eq!(world.calls(), 2);
    world.set(at(97));
    tasks.add(async {
        let charge = Charge::new(&limit, b"key", Cost::ONE);
        assert!(node.charge(Intent::Take, &[charge], at(97)).await.unwrap().allowed);
    });
    world.set(at(104));
    tasks.poll();
    assert_eq!(world.calls(), 3);
}
