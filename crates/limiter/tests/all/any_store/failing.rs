//! Decisions while the store fails.

use tidegate::engine::{Reason, Request, StoreFailures, Trust};
use tidegate::{Cost, LimitError, Nanos};

use super::flaky::{NOT_COUNTED, World, limits, policy, remaining, run, user};

const LOCAL: &str = "burst: { capacity: 10 }, on_store_error: local";
const OPEN: &str = "burst: { capacity: 10 }, on_store_error: open";
const CLOSED: &str = "burst: { capacity: 10 }, on_store_error: closed";

#[test]
fn a_closed_limit_refuses_until_the_store_is_back() {
    let world = World::new(&limits(&[("a", CLOSED)]));
    assert_eq!(remaining(&world.check(&user("1"))), [9]);
    world.store().fail(true);
    let refused = world.check(&user("1"));
    assert_eq!((refused.reason(), refused.status()), (Reason::StoreUnavailable, 503));
    assert_eq!((refused.violated_rule(), refused.wait()), (Some("a"), Some(Nanos::SECOND)));
    assert!(refused.without_store() && refused.to_json().contains("store_unavailable"), "{refused:?}");
    assert_eq!(refused.limits().next().unwrap().decision.limit, 10);
    world.store().fail(false);
    let admitted = world.check(&user("1"));
    assert_eq!((remaining(&admitted), admitted.without_store()), (vec![8], false));
    assert_eq!(world.limiter.store_failures(), StoreFailures { closed: 1, ..StoreFailures::default() });
    assert_eq!(world.limiter.decided(Reason::StoreUnavailable), 1);
}

#[test]
fn an_open_limit_admits_and_is_not_charged() {
    let world = World::new(&limits(&[("a", OPEN)]));
    let _ = world.check(&user("1"));
    world.store().fail(true);
    assert_eq!(world.admitted(&user("1")), 20);
    let decision = world.check(&user("1"));
    let told = *decision.limits().next().unwrap().decision;
    assert_eq!((told.limit, told.remaining, told.reset_after), (10, 10, Nanos::ZERO));
    assert!(decision.without_store());
    assert_eq!(world.limiter.store_failures().open, 21);
    world.store().fail(false);
    assert_eq!(remaining(&world.check(&user("1"))), [8]);
}

#[test]
fn a_local_limit_goes_by_this_nodes_share() {
    let world = World::new(&limits(&[("a", LOCAL)]));
    world.store().set_nodes(2);
    world.store().fail(true);
    assert_eq!(world.admitted(&user("1")), 5, "half of the burst");
    let denied = world.check(&user("1"));
    assert_eq!((denied.reason(), denied.status()), (Reason::TokenBucketExceeded, 429));
    assert_eq!(denied.wait(), Some(Nanos::from_secs(120)), "half of the rate");
    assert!(denied.without_store());
    world.clock.advance(Nanos::from_secs(120));
    assert!(world.check(&user("1")).is_allowed());
    world.store().fail(false);
    assert_eq!(world.admitted(&user("1")), 10, "the store was not charged");
    world.store().fail(true);
    assert_eq!(world.admitted(&user("1")), 0, "the local share is still used up");
    assert_eq!(world.limiter.store_failures().local, 20 + 1 + 1 + 20);
}

#[test]
fn another_count_of_nodes_divides_anew() {
    let world = World::new(&limits(&[("a", LOCAL), ("b", "burst: { capacity: 2 }")]));
    world.store().fail(true);
    let told = |name| world.peek(&user(name)).limits().map(|limit| limit.decision.limit).collect::<Vec<_>>();
    assert_eq!(told("1"), [10, 2], "alone");
    for (nodes, share) in [(2, [5, 1]), (3, [3, 1]), (1_000, [1, 1]), (0, [10, 2])] {
        world.store().set_nodes(nodes);
        assert_eq!(told("1"), share, "{nodes} nodes");
    }
    assert!(world.check(&user("1")).is_allowed() && world.check(&user("1")).is_allowed());
    world.store().set_nodes(2);
    assert_eq!(remaining(&world.peek(&user("1"))), [5, 0], "what was used stays used");
}

#[test]
fn a_swap_reaches_the_share_too() {
    let world = World::new(&limits(&[("a", LOCAL)]));
    world.store().set_nodes(2);
    world.store().fail(true);
    assert_eq!(world.admitted(&user("1")), 5);
    let other = [("new", "burst: { capacity: 6 }"), ("a", "burst: { capacity: 40 }")];
    world.limiter.swap(policy(&limits(&other))).unwrap();
    assert_eq!(remaining(&world.peek(&user("1"))), [3, 0], "state belongs to a name");
    assert_eq!(remaining(&world.peek(&user("2"))), [3, 20]);
    world.limiter.swap(policy(&limits(&[("new", CLOSED)]))).unwrap();
    assert_eq!(world.check(&user("2")).reason(), Reason::StoreUnavailable);
}

#[test]
fn a_policy_that_the_store_cannot_count_is_refused_by_the_name_of_its_limit() {
    let world = World::new(&limits(&[("a", LOCAL)]));
    let odd = format!("burst: {{ capacity: {NOT_COUNTED} }}");
    let other = limits(&[("a", "burst: { capacity: 20 }"), ("odd", &odd)]);
    let refused = world.limiter.swap(policy(&other)).unwrap_err();
    assert_eq!(refused, LimitError::NotShared { name: "odd".into(), why: "it is odd" });
    assert!(refused.to_string().contains("`odd`"), "{refused}");
    assert_eq!((world.limiter.version(), remaining(&world.peek(&user("1")))), (1, vec![10]));
    world.store().fail(true);
    assert_eq!(remaining(&world.peek(&user("1"))), [10], "the share is the old one too");
}

#[test]
fn all_or_nothing_without_the_store_too() {
    let world = World::new(&limits(&[("a", LOCAL), ("b", "burst: { capacity: 2 }"), ("c", OPEN)]));
    world.store().fail(true);
    assert_eq!(world.admitted(&user("1")), 2);
    let denied = world.check(&user("1"));
    assert_eq!((denied.violated_rule(), denied.reason()), (Some("b"), Reason::TokenBucketExceeded));
    assert_eq!(remaining(&denied), [8, 0, 10], "nothing was taken from the other limits");

    world.limiter.swap(policy(&limits(&[("a", LOCAL), ("c", OPEN), ("d", CLOSED)]))).unwrap();
    let refused = world.check(&user("1"));
    assert_eq!((refused.violated_rule(), refused.reason()), (Some("d"), Reason::StoreUnavailable));
    assert_eq!(remaining(&refused), [8, 10, 0]);
    assert_eq!(world.limiter.store_failures().closed, 1);
}

#[test]
fn the_longest_wait_speaks() {
    let world = World::new(&limits(&[("a", "burst: { capacity: 1 }"), ("d", CLOSED)]));
    world.limiter.swap(policy(&limits(&[("a", "burst: { capacity: 1 }")]))).unwrap();
    world.store().fail(true);
    assert!(world.check(&user("1")).is_allowed());
    world.limiter.swap(policy(&limits(&[("a", "burst: { capacity: 1 }"), ("d", CLOSED)]))).unwrap();
    let denied = world.check(&user("1"));
    assert_eq!((denied.violated_rule(), denied.status()), (Some("a"), 429), "a minute, not a second");
    let never = world.check(&user("2").cost(Cost::new(11)));
    assert_eq!((never.reason(), never.wait()), (Reason::CostExceedsCapacity, None));
}

#[test]
fn shadow_and_degrade_refuse_nobody() {
    let shadow = format!("{CLOSED}, mode: shadow");
    let degrade = format!("{CLOSED}, strategy: degrade, degrade: {{ tag: slow }}");
    let world = World::new(&limits(&[("watched", &shadow), ("marked", &degrade), ("own", LOCAL)]));
    world.store().fail(true);
    let decision = world.check(&user("1"));
    assert!(decision.is_allowed() && decision.without_store());
    assert_eq!(
        (decision.degraded(), decision.shadow_denied().collect::<Vec<_>>()),
        (Some("slow"), vec!["watched"])
    );
    assert_eq!(remaining(&decision)[2], 9, "the others are charged");
    assert!(world.limiter.closed_limits().is_empty());
}

#[test]
fn without_anything_to_fall_back_on_local_is_closed() {
    let text = limits(&[("a", LOCAL)]);
    let world = World::without_fallback(&text);
    assert!(
        !world.limiter.closed_limits().is_empty() && World::new(&text).limiter.closed_limits().is_empty()
    );
    assert_eq!(World::new(&limits(&[("a", CLOSED)])).limiter.closed_limits(), ["a"]);
    assert!(World::without_fallback(&limits(&[("a", OPEN)])).limiter.closed_limits().is_empty());
    world.store().fail(true);
    assert_eq!(world.check(&user("1")).reason(), Reason::StoreUnavailable);
    let free = world.check(&user("1").cost(Cost::ZERO));
    assert_eq!(
        (free.is_allowed(), free.reason()),
        (true, Reason::Ok),
        "what costs nothing is always admitted"
    );
}

#[test]
fn peeks_tell_the_same_and_count_nothing() {
    let world = World::new(&limits(&[("a", LOCAL)]));
    world.store().fail(true);
    for _ in 0..20 {
        let peek = world.peek(&user("1"));
        assert_eq!((remaining(&peek), peek.without_store()), (vec![10], true));
    }
    world.limiter.swap(policy(&limits(&[("a", CLOSED)]))).unwrap();
    assert_eq!(world.peek(&user("1")).reason(), Reason::StoreUnavailable);
    assert_eq!(world.limiter.store_failures(), StoreFailures::default());
}

#[test]
fn refunds_reach_the_share_unless_a_limit_is_closed() {
    let refund = |world: &World, cost| run(world.limiter.refund_async(&user("1"), Cost::new(cost)));
    let world = World::new(&limits(&[("a", LOCAL)]));
    let _ = world.check(&user("1").cost(Cost::new(5)));
    assert_eq!(remaining(&refund(&world, 2)), [7], "to the store");
    world.store().fail(true);
    let _ = world.check(&user("1").cost(Cost::new(5)));
    let given = refund(&world, 2);
    assert_eq!((given.is_allowed(), remaining(&given), given.without_store()), (true, vec![7], true));
    world.limiter.swap(policy(&limits(&[("a", LOCAL), ("d", CLOSED)]))).unwrap();
    let refused = refund(&world, 2);
    assert_eq!(
        (refused.reason(), remaining(&refused)),
        (Reason::StoreUnavailable, vec![7, 0]),
        "and nothing is given"
    );
}

#[test]
fn trust_scales_the_share() {
    let world = World::new(
        "version: 1\nadaptive: { trust: true }\nlimits: [{ name: a, key: [user], sustained: { rate: 1, window: minute }, burst: \
         { capacity: 10 } }]\n",
    );
    world.store().set_nodes(2);
    world.store().fail(true);
    assert_eq!(world.admitted(&user("1").trust(Trust::FULL)), 10, "twice the share of half");
    assert_eq!(world.admitted(&user("2")), 5);
}

#[test]
fn what_comes_before_limits_needs_no_store() {
    let text = limits(&[("a", CLOSED)])
        + "block: [{ user: bad }]\nallow: [{ user: good }]\n\
           bursts: [{ name: flood, key: [client], window: 10s, threshold: 1, penalty: 60s }]\n";
    let world = World::new(&text);
    world.store().fail(true);
    let reason = |request: &Request<'_>| world.check(request).reason();
    assert_eq!(reason(&user("bad")), Reason::Blocked);
    assert_eq!(reason(&user("good")), Reason::Allowlisted);
    assert_eq!(reason(&Request::new()), Reason::NoLimit);
    assert_eq!(world.store().calls(), 0, "none of them calls the store");
    let client = Request::new().client("c");
    assert_eq!((reason(&client), reason(&client)), (Reason::NoLimit, Reason::NoLimit), "a warning");
    world.clock.advance(Nanos::from_secs(10));
    assert_eq!(reason(&client), Reason::NoLimit);
    assert_eq!(reason(&client), Reason::BurstBlocked);
    world.limiter.set_kill_switch(true);
    assert_eq!(reason(&user("1")), Reason::KillSwitch);
    assert_eq!(world.store().calls(), 0);
}
