//! Ad hoc buckets and joint decisions on a shared store.

use tidegate::engine::{AdHocError, AdHocLimit, Joint, JointBy, Reason, Request, StoreFailures};
use tidegate::{Cost, LimitDecision, Nanos};

use super::flaky::{NOT_KEPT, World, limits, remaining, run, user};

const NUMBERS: AdHocLimit = AdHocLimit { capacity: 4, rate: 1, window: Nanos::MINUTE };

fn throttle(world: &World, key: &[u8], cost: u32) -> Result<LimitDecision, AdHocError> {
    world.ad_hoc(key, NUMBERS, cost.into())
}

#[test]
fn a_bucket_without_a_policy_is_in_the_store() {
    let world = World::new("version: 1\nlimits: []\n");
    assert_eq!(throttle(&world, b"k", 3).unwrap().remaining, 1);
    assert!(!throttle(&world, b"k", 3).unwrap().is_allowed());
    assert_eq!((world.limiter.ad_hoc_counters().allowed, world.limiter.ad_hoc_counters().denied), (1, 1));
    let peek = world.peek_ad_hoc(b"k", NUMBERS, 1);
    assert_eq!((peek.is_allowed(), peek.remaining), (true, 1));
    let back = world.refund_ad_hoc(b"k", NUMBERS, 1);
    assert_eq!((back.remaining, world.own_ad_hoc()), (2, 0));
    assert_eq!(throttle(&world, b"", 1), Err(AdHocError::EmptyKey));
    let none = AdHocLimit { rate: 0, ..NUMBERS };
    let refused = world.ad_hoc(b"k", none, 1);
    assert!(matches!(refused, Err(AdHocError::Numbers(_))), "{refused:?}");
}

#[test]
fn without_the_store_it_is_this_nodes_part() {
    let world = World::new("version: 1\nlimits: []\n");
    world.store().set_nodes(2);
    world.store().fail(true);
    let first = throttle(&world, b"k", 1).unwrap();
    assert_eq!((first.limit, first.remaining), (2, 1));
    assert!(throttle(&world, b"k", 1).unwrap().is_allowed());
    let denied = throttle(&world, b"k", 1).unwrap();
    assert_eq!(denied.wait(), Some(Nanos::from_secs(120)));
    let back = world.refund_ad_hoc(b"k", NUMBERS, 1);
    assert_eq!(back.remaining, 1);
    let peek = world.peek_ad_hoc(b"k", NUMBERS, 1);
    assert_eq!((peek.limit, peek.is_allowed(), world.limiter.store_failures().local), (2, true, 4));
    world.store().set_nodes(100);
    assert_eq!(throttle(&world, b"k", 1).unwrap().limit, 1, "never below one");
    let slowest = AdHocLimit { capacity: 4, rate: 1, window: Nanos::from_secs(366 * 86_400) };
    let slow = world.ad_hoc(b"k", slowest, 1).unwrap();
    assert_eq!((slow.limit, slow.is_allowed()), (1, true), "a rate too slow to be divided stays whole");
    world.store().fail(false);
    assert_eq!(throttle(&world, b"k", 1).unwrap().remaining, 3);
}

fn joint<'r, 'q>(request: &'r Request<'q>, own: bool) -> Joint<'r, 'q> {
    Joint { request, by: if own { JointBy::AdHoc(NUMBERS, b"k") } else { JointBy::Policy } }
}

#[test]
fn requests_that_stand_together_are_one_call() {
    let world = World::new(&limits(&[("a", "burst: { capacity: 10 }")]));
    let requests = [user("1").cost(Cost::new(4)), user("2"), user("3").cost(Cost::new(3))];
    let all = [joint(&requests[0], false), joint(&requests[1], true), joint(&requests[2], true)];
    let decisions = run(world.limiter.check_joint_async(&all)).unwrap().decisions;
    assert_eq!(
        decisions.iter().map(remaining).collect::<Vec<_>>(),
        [[6], [1], [1]],
        "the largest cost, once"
    );
    assert_eq!(world.store().calls(), 1);

    let decisions = run(world.limiter.check_joint_async(&all)).unwrap().decisions;
    let allowed: Vec<bool> = decisions.iter().map(|decision| decision.is_allowed()).collect();
    assert_eq!(allowed, [true, true, false], "each by its own cost");
    assert_eq!(decisions[2].violated_rule(), Some("throttle"));
    assert_eq!(remaining(&world.peek(&user("1"))), [6], "nothing was taken");
    assert_eq!(world.own_ad_hoc(), 0);
}

#[test]
fn they_stand_together_without_the_store_too() {
    let closed = ("d", "burst: { capacity: 10 }, on_store_error: closed, match: { plan: paid }");
    let world = World::new(&limits(&[("a", "burst: { capacity: 10 }"), closed]));
    world.store().set_nodes(2);
    world.store().fail(true);
    let requests = [user("1"), user("2").cost(Cost::new(2)), user("3").plan("paid")];
    let both = [joint(&requests[0], false), joint(&requests[1], true)];
    let check = |all: &[Joint<'_, '_>]| run(world.limiter.check_joint_async(all)).unwrap().decisions;
    let decisions = check(&both);
    assert!(decisions.iter().all(|decision| decision.is_allowed()) && decisions[0].without_store());
    assert_eq!(decisions.iter().map(remaining).collect::<Vec<_>>(), [[4], [0]], "half of each");
    let decisions = check(&both);
    assert_eq!((decisions[0].is_allowed(), decisions[1].is_allowed()), (true, false));
    assert_eq!(remaining(&world.peek(&user("1"))), [4], "nothing was taken");

    let decisions = check(&[joint(&requests[0], false), joint(&requests[2], false)]);
    assert_eq!((decisions[0].reason(), decisions[1].reason()), (Reason::Ok, Reason::StoreUnavailable));
    assert_eq!(remaining(&world.peek(&user("1"))), [4]);
    world.store().fail(false);
    assert_eq!(check(&both).iter().map(remaining).collect::<Vec<_>>(), [[9], [2]]);
}

/// Numbers that the store cannot count.
const ODD: AdHocLimit = AdHocLimit { capacity: NOT_KEPT, ..NUMBERS };

#[test]
fn numbers_that_the_store_cannot_count_are_this_nodes_part_and_no_failure() {
    let world = World::new("version: 1\nlimits: []\n");
    world.store().set_nodes(2);
    let limiter = &world.limiter;
    let took = world.ad_hoc(b"k", ODD, 3).unwrap();
    assert_eq!((took.limit, took.remaining), (4, 1), "half of it");
    let back = world.refund_ad_hoc(b"k", ODD, 1);
    let peek = world.peek_ad_hoc(b"k", ODD, 1);
    assert_eq!((back.remaining, peek.remaining), (2, 2));
    assert_eq!((limiter.store_failures(), world.store().calls()), (StoreFailures::default(), 0));
}

#[test]
fn what_the_store_cannot_count_does_not_keep_others_from_it() {
    let world = World::new(&limits(&[("a", "burst: { capacity: 10 }")]));
    world.store().set_nodes(2);
    let requests = [user("1"), user("2"), user("3").cost(Cost::new(3)), user("4").cost(Cost::new(2))];
    let odd = |request| Joint { request, by: JointBy::AdHoc(ODD, b"k") };
    let all = [odd(&requests[2]), joint(&requests[0], false), joint(&requests[1], true), odd(&requests[3])];
    let check = || run(world.limiter.check_joint_async(&all)).unwrap().decisions;
    let told = check();
    assert!(told.iter().all(|decision| decision.is_allowed()), "{told:?}");
    assert_eq!(told.iter().map(remaining).collect::<Vec<_>>(), [[1], [9], [3], [1]], "half of the odd one");
    assert_eq!((world.store().calls(), world.own_ad_hoc()), (1, 1), "one call, one bucket here");

    let denied: Vec<bool> = check().iter().map(|decision| decision.is_allowed()).collect();
    assert_eq!(denied, [false, true, true, false]);
    assert_eq!(remaining(&world.peek(&user("1"))), [9], "nothing was taken from the store");
    assert_eq!(throttle(&world, b"k", 0).unwrap().remaining, 3);
    assert_eq!(world.limiter.store_failures(), StoreFailures::default());

    world.clock.advance(Nanos::from_secs(3_600));
    world.store().fail(true);
    assert_eq!(
        check().iter().map(remaining).collect::<Vec<_>>(),
        [[1], [4], [1], [1]],
        "halves, not quarters"
    );
    assert_eq!(world.limiter.store_failures().local, 2, "the odd one does not miss the store");
}
