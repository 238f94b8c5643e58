//! Remembered denials.

use proptest::prelude::*;
use tidegate::{Carry, Charge, Clock, Cost, Intent, Limit, Nanos, Outcome, Quota, Store, WindowQuota};

use super::world::{Tasks, World, at, bucket};
use crate::StoreMode;

/// The longest that a node denies without a call.
const REMEMBERED_MAX: Nanos = Nanos::from_secs(5);

/// Limits with waits of seconds to hours once they are used up.
fn limits_that_fill_slowly() -> [Limit; 4] {
    let (day, minute) = (Nanos::from_secs(86_400), Nanos::MINUTE);
    [
        Quota::new(10, Nanos::from_secs(150 * 3_600), 10).unwrap().into(),
        bucket(1, 10),
        Limit::fixed_window(WindowQuota::new(10, day).unwrap()),
        Limit::sliding_window(WindowQuota::new(10, minute).unwrap()),
    ]
}

fn modes() -> Vec<StoreMode> {
    let lives = [10, 100, 4_000, 60_000, 3_600_000].map(std::time::Duration::from_millis);
    lives.iter().map(|&life| StoreMode::Hybrid { life }).chain([StoreMode::Strict]).collect()
}

proptest! {
    /// No refusal relies on an answer that is older than five seconds, whether a denial or a lease remembers it.
    #[test]
    fn no_refusal_is_older_than_five_seconds(
        mode in proptest::sample::select(modes()),
        limit in proptest::sample::select(limits_that_fill_slowly().to_vec()),
        steps in prop::collection::vec((prop_oneof![4 => 0..30_u64, 2 => 0..800_u64, 1 => 0..7_000_u64], 1..4_u32), 100..400),
        forgets_at in 0..400_usize,
    ) {
        let world = World::new(1, mode);
        let limit = world.limit("limit", limit);
        let (mut now, mut asked, mut calls) = (at(0), at(0), 0);
        for (step, (gap, cost)) in steps.into_iter().enumerate() {
            now = now.saturating_add(Nanos::from_millis(gap));
            world.set(now);
            if step == forgets_at {
                world.forget_everything();
            }
            let decision = world.take(0, &limit, cost);
            if world.calls() > calls {
                (asked, calls) = (now, world.calls());
            }
            let age = now.saturating_sub(asked);
            prop_assert!(decision.is_allowed() || age < REMEMBERED_MAX, "{cost} refused {age} after asking");
        }
    }
}

#[test]
fn a_server_that_has_forgotten_is_known_to_have_within_five_seconds() {
    for (mode, limit) in modes().iter().flat_map(|&mode| limits_that_fill_slowly().map(|limit| (mode, limit)))
    {
        let world = World::new(1, mode);
        let limit = world.limit("limit", limit);
        // Busy for long enough that the key is leased if it can be.
        let used_up = (0..200).filter(|n| {
            world.set(at(n * 40));
            world.take(0, &limit, 1).is_allowed()
        });
        assert!(used_up.count() >= 10);
        let denied = world.take(0, &limit, 3);
        assert!(denied.wait().is_some(), "{mode:?} {limit:?}: {denied:?}");
        world.forget_everything();
        let admitted = (1..=50).find(|n| {
            world.set(at(8_000 + n * 100));
            world.take(0, &limit, 3).is_allowed()
        });
        assert!(admitted.is_some(), "{mode:?} {limit:?}: still denied by state that is lost");
    }
}

#[test]
fn a_flood_that_is_told_to_wait_for_hours_costs_a_call_in_five_seconds() {
    for limit in limits_that_fill_slowly().into_iter().step_by(2) {
        let world = World::strict();
        let limit = world.limit("limit", limit);
        let _ = world.take(0, &limit, 10);
        let wait = world.take(0, &limit, 4).wait().unwrap();
        assert!(wait > Nanos::HOUR);
        for step in 0..60_000 {
            world.set(at(step));
            let told = world.take(0, &limit, 4).wait();
            assert_eq!(told, Some(wait.saturating_sub(Nanos::from_millis(step))), "the wait is the true one");
        }
        assert_eq!(world.calls(), 2 + 11, "{limit:?}: 60,000 requests within a minute");
    }
}

#[test]
fn waits_are_true_where_a_server_follows_whose_clock_is_behind() {
    let world = World::hybrid(1);
    let limit = world.limit("limit", bucket(100, 100));
    let flood = |from: u64| {
        for n in 0..2_000 {
            world.set(at(from).saturating_add(Nanos::new(n * 500_000)));
            let _ = world.take(0, &limit, 1);
        }
    };
    flood(0);
    world.forget_everything();
    world.fall_behind(Nanos::HOUR);
    flood(2_000);
    for cost in [1, 5, 60] {
        let wait = world.take(0, &limit, cost).wait().expect("it is used up");
        world.set(world.clock.now().saturating_add(wait));
        assert!(world.take(0, &limit, cost).is_allowed(), "{cost} after {wait}");
        while world.take(0, &limit, 1).is_allowed() {}
    }
}

#[test]
fn a_clock_that_steps_back_does_not_prolong_a_denial() {
    let world = World::strict();
    let limit = world.limit("limit", limits_that_fill_slowly()[0]);
    world.set(at(3_600_000));
    let _ = world.take(0, &limit, 10);
    assert!(!world.take(0, &limit, 1).is_allowed());
    world.set(at(0));
    world.forget_everything();
    assert!(world.take(0, &limit, 1).is_allowed(), "the age of the denial is unknown");
}

#[test]
fn a_flood_that_is_denied_costs_next_to_nothing() {
    let window = Limit::fixed_window(WindowQuota::new(10, Nanos::MINUTE).unwrap());
    let sliding = Limit::sliding_window(WindowQuota::new(10, Nanos::MINUTE).unwrap());
    for limit in [bucket(10, 10), window, sliding] {
        let world = World::strict();
        let limit = world.limit("limit", limit);
        assert_eq!(world.take(0, &limit, 10).remaining, 0);
        let denied = world.take(0, &limit, 4);
        let wait = denied.wait().unwrap();
        assert_eq!(world.calls(), 2);
        let until = world.clock.now().saturating_add(wait);
        for step in 0..1_000 {
            let passed = Nanos::new(wait.get() / 1_000 * step);
            world.set(at(0).saturating_add(passed));
            let again = world.take(0, &limit, 4);
            assert_eq!(again.wait(), Some(wait.saturating_sub(passed)), "{limit:?}");
            let more = world.take(0, &limit, 7);
            assert!(more.wait() >= again.wait(), "{limit:?}: more takes as long or longer");
        }
        // For a wait of more than five seconds, there is one call in every five.
        let asked_again = (wait.get() - 1) / REMEMBERED_MAX.get();
        assert_eq!(world.calls(), 2 + asked_again, "{limit:?}");
        world.set(until);
        assert!(world.take(0, &limit, 4).is_allowed(), "{limit:?}: admitted after the wait");
        assert_eq!(world.calls(), 3 + asked_again, "{limit:?}: one call");
    }
}

#[test]
fn smaller_costs_still_pass_and_the_larger_stays_denied() {
    let world = World::strict();
    let limit = world.limit("limit", bucket(1, 10));
    let _ = world.take(0, &limit, 5);
    assert_eq!(world.take(0, &limit, 8).wait(), Some(Nanos::from_secs(3)));
    assert!(world.take(0, &limit, 2).is_allowed());
    assert_eq!(world.calls(), 3);
    // Two tokens were taken since, so the wait is two seconds longer.
    assert_eq!(world.take(0, &limit, 8).wait(), Some(Nanos::from_secs(5)));
    assert_eq!(world.calls(), 3);
    world.set(at(3_000));
    assert_eq!(world.take(0, &limit, 8).wait(), Some(Nanos::from_secs(2)));
    assert_eq!(world.calls(), 4, "a new call when the first wait was over");
}

#[test]
fn what_is_given_back_clears_the_memory() {
    for intent in [Intent::Refund, Intent::HandBack] {
        let world = World::strict();
        let limit = world.limit("limit", bucket(1, 10));
        let _ = world.take(0, &limit, 10);
        assert!(!world.take(0, &limit, 1).is_allowed());
        let _ = world.charge(0, intent, &[Charge::new(&limit, b"key", Cost::new(5))]);
        assert!(world.take(0, &limit, 5).is_allowed(), "{intent:?}");
        assert!(!world.take(0, &limit, 1).is_allowed());
    }
}

#[test]
fn what_was_denied_before_a_hand_back_is_done_is_denied_no_more() {
    let world = World::strict();
    let limit = world.limit("limit", bucket(1, 10));
    let _ = world.take(0, &limit, 10);
    world.nodes[0].hand_back(&[Charge::new(&limit, b"key", Cost::new(5))], at(0));
    assert!(!world.take(0, &limit, 5).is_allowed(), "the hand-back has not run yet");
    let mut tasks = Tasks::default();
    world.run_maintenance(&mut tasks);
    tasks.poll();
    assert!(world.take(0, &limit, 5).is_allowed());
}

#[test]
fn an_edit_clears_the_memory() {
    let world = World::strict();
    let limit = world.limit("limit", bucket(1, 10));
    let _ = world.take(0, &limit, 10);
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
    // An advisory limit does not refuse.
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
    assert_eq!(again.decisions[0].remaining, 95, "three tokens were refilled");
    assert_eq!(world.calls(), calls);
}

#[test]
fn peeks_and_questions_go_to_the_server() {
    let world = World::strict();
    let limit = world.limit("limit", bucket(1, 10));
    let _ = world.take(0, &limit, 10);
    let _ = world.take(0, &limit, 1);
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
    let _ = world.take(0, &limit, 10);
    let link = world.nodes[0].link();
    link.there.store(3_000_000, std::sync::atomic::Ordering::SeqCst);
    link.back.store(4_000_000, std::sync::atomic::Ordering::SeqCst);
    let mut tasks = super::world::Tasks::default();
    let node = &world.nodes[0];
    tasks.add(async {
        let charge = Charge::new(&limit, b"key", Cost::ONE);
        let verdict = node.charge(Intent::Take, &[charge], at(0)).await.unwrap();
        assert_eq!(verdict.decisions[0].wait(), Some(Nanos::from_millis(97)));
    });
    for millis in [3, 7] {
        world.set(at(millis));
        tasks.poll();
    }
    // The denial at 7 ms has a wait of 97 ms.
    assert_eq!(world.take(0, &limit, 1).wait(), Some(Nanos::from_millis(97)));
    world.set(at(50));
    assert_eq!(world.take(0, &limit, 1).wait(), Some(Nanos::from_millis(54)));
    // The denial is remembered from the instant before the call.
    world.set(at(96));
    assert_eq!(world.take(0, &limit, 1).wait(), Some(Nanos::from_millis(8)));
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
