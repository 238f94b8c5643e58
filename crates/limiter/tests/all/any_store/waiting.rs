//! Queues on a slow store.

use std::future::Future;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};

use tidegate::engine::{Reason, Request};
use tidegate::{Clock, Nanos};

use super::flaky::{AHEAD, World, limits, remaining, run, user};

const QUEUE: &str = "strategy: queue, queue: { max_depth: 2, max_wait: 10m }";

/// Polls as often as a call of the store is pending.
fn poll<F: Future + ?Sized>(mut future: Pin<&mut F>) -> Option<F::Output> {
    for _ in 0..8 {
        if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            return Some(output);
        }
    }
    None
}

#[test]
fn whoever_waits_is_served_when_its_time_has_come() {
    let world = World::new(&limits(&[("jobs", QUEUE)]));
    assert!(world.check(&user("1")).is_allowed());
    let request = user("1");
    let mut waits = pin!(world.limiter.admit(&request));
    assert!(poll(waits.as_mut()).is_none());
    world.clock.advance(Nanos::from_secs(59));
    assert!(poll(waits.as_mut()).is_none());
    world.clock.advance(Nanos::SECOND);
    let served = poll(waits.as_mut()).unwrap();
    assert_eq!((served.is_allowed(), served.queued()), (true, Some(Nanos::MINUTE.into())));
    assert!(world.store().handed_back().is_empty());
}

#[test]
fn a_wait_counts_from_when_the_store_has_answered() {
    let world = World::new(&limits(&[("jobs", QUEUE)]));
    assert!(world.check(&user("1")).is_allowed());
    let request = user("1");
    let mut waits = pin!(world.limiter.admit(&request));
    // The store takes a second to answer each of two calls.
    for _ in 0..2 {
        assert!(waits.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        world.clock.advance(Nanos::SECOND);
    }
    assert!(poll(waits.as_mut()).is_none());
    world.clock.advance(Nanos::from_secs(59));
    assert!(poll(waits.as_mut()).is_none(), "a minute after the arrival is too early");
    world.clock.advance(Nanos::SECOND);
    assert!(poll(waits.as_mut()).unwrap().is_allowed());
}

#[test]
fn whoever_leaves_hands_back_by_the_stores_clock_and_under_the_same_tag() {
    let text = "
version: 1
limits:
- { name: jobs, key: [tenant, user], sustained: { rate: 1, window: minute }, strategy: queue, queue: { max_wait: 10m } }
- { name: all, key: [], sustained: { rate: 10 }, burst: { capacity: 10 } }
";
    let world = World::new(text);
    let request = Request::new().tenant("acme").user("1");
    assert!(world.check(&request).is_allowed());
    let began = world.clock.now();
    {
        let mut waits = pin!(world.limiter.admit(&request));
        assert!(poll(waits.as_mut()).is_none());
    }
    let (_, place) = run(world.limiter.take_place_async(&request));
    drop(place.expect("there is a place again"));
    let handed_back = world.store().handed_back();
    assert_eq!(
        handed_back.len(),
        3,
        "the delayed charge of the waiter, and both limits of the place with a fixed instant"
    );
    let asked = world.store().seen();
    for (charge, at) in handed_back {
        assert!(asked.contains(&charge), "{charge:?} was never made");
        assert_eq!(at, began.saturating_add(AHEAD));
    }
    assert_eq!(remaining(&world.peek(&request)), [0, 9], "as if they had never been charged");
    let (decision, place) = run(world.limiter.take_place_async(&request));
    assert_eq!(decision.queued(), Some(Nanos::MINUTE.into()));
    place.expect("a place").served();
}

#[test]
fn nobody_waits_while_the_store_fails() {
    let world = World::new(&limits(&[("jobs", QUEUE)]));
    world.store().fail(true);
    assert!(run(world.limiter.admit(&user("1"))).is_allowed(), "by this node's share");
    let refused = run(world.limiter.admit(&user("1")));
    assert_eq!((refused.is_allowed(), refused.reason()), (false, Reason::TokenBucketExceeded));
    assert_eq!((refused.queued(), refused.without_store()), (None, true));
}

#[test]
fn a_store_that_fails_between_two_calls_leaves_a_refusal() {
    let world = World::new(&limits(&[("jobs", QUEUE)]));
    assert!(world.check(&user("1")).is_allowed());
    world.store().fail_after(1);
    let refused = run(world.limiter.admit(&user("1")));
    assert_eq!((refused.reason(), refused.queued()), (Reason::TokenBucketExceeded, None));
    world.store().fail_after(usize::MAX);
    let places = [(); 2].map(|()| run(world.limiter.take_place_async(&user("1"))));
    assert!(
        places.iter().all(|(decision, place)| decision.queued().is_some() && place.is_some()),
        "it left its place"
    );
}

#[test]
fn whoever_goes_away_while_the_store_is_asked_leaves_its_places() {
    let world = World::new(&limits(&[("jobs", QUEUE)]));
    assert!(world.check(&user("1")).is_allowed());
    let request = user("1");
    for _ in 0..3 {
        let mut asks = pin!(world.limiter.take_place_async(&request));
        // Denied by the first call; the second is in progress.
        for _ in 0..2 {
            assert!(asks.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        }
    }
    assert_eq!(world.store().calls(), 1 + 3, "none of the second calls has reached the store");
    let places = [(); 2].map(|()| run(world.limiter.take_place_async(&request)));
    assert!(places.iter().all(|(_, place)| place.is_some()), "both places are free");
    let (full, none) = run(world.limiter.take_place_async(&request));
    assert_eq!((full.reason(), none.is_none()), (Reason::QueueFull, true), "and there are no more");
}

#[test]
fn those_of_one_cost_take_turns_on_a_store_that_others_charge_too() {
    let text = "
version: 1
limits:
- { name: jobs, key: [], sustained: { rate: 1 }, burst: { capacity: 5 }, strategy: queue, queue: { max_wait: 1m } }
";
    let world = World::new(text);
    let of = |tenant: &'static str, cost: u32| Request::new().tenant(tenant).cost(tidegate::Cost::new(cost));
    assert!(world.check(&of("a", 5)).is_allowed());
    let requests = [of("a", 1), of("a", 1), of("b", 5), of("b", 1)];
    let mut waits: Vec<_> =
        requests.iter().map(|request| Some(Box::pin(world.limiter.admit(request)))).collect();
    let mut gone = Vec::new();
    for second in 0..=9 {
        for _ in 0..2 {
            for (place, waiting) in waits.iter_mut().enumerate() {
                let Some(done) = waiting.as_mut().and_then(|waiting| poll(waiting.as_mut())) else {
                    continue;
                };
                assert!(done.is_allowed());
                *waiting = None;
                gone.push((second, place));
            }
        }
        world.clock.advance(Nanos::SECOND);
    }
    // One was charged ahead for the first second and one for the second, five for the seventh, and one for the
    // eighth.
    assert_eq!(gone, [(1, 0), (2, 3), (7, 2), (8, 1)]);
}

#[test]
fn a_slot_that_was_missed_for_good_is_asked_for_again() {
    let world = World::new(&limits(&[("jobs", QUEUE)]));
    assert!(world.check(&user("1")).is_allowed());
    let request = user("1");
    let mut waits = pin!(world.limiter.admit(&request));
    assert!(poll(waits.as_mut()).is_none());
    world.clock.advance(Nanos::from_secs(120));
    assert!(world.check(&user("1")).is_allowed(), "its delayed charge has expired");
    assert!(poll(waits.as_mut()).is_none(), "so it is charged again, and waits again");
    world.clock.advance(Nanos::MINUTE);
    assert_eq!(poll(waits.as_mut()).unwrap().queued(), Some(Nanos::from_secs(180).into()));
}

#[test]
fn whoever_is_let_go_while_the_store_fails_is_decided_without_it() {
    let text = "
version: 1
limits:
- { name: jobs, key: [user], sustained: { rate: 1, window: minute }, strategy: queue, queue: { max_wait: 10m } }
- { name: all, key: [], sustained: { rate: 10 }, burst: { capacity: 10 } }
";
    let world = World::new(text);
    let request = user("1");
    assert!(world.check(&request).is_allowed());
    let mut waits = pin!(world.limiter.admit(&request));
    assert!(poll(waits.as_mut()).is_none());
    assert_eq!(remaining(&world.peek(&user("2"))), [1, 9], "the other limit is charged when it goes");
    world.clock.advance(Nanos::MINUTE);
    world.store().fail(true);
    let decided = poll(waits.as_mut()).unwrap();
    assert!(decided.without_store() && decided.is_allowed(), "by this node's share");
    assert_eq!(world.store().handed_back().len(), 1);
}
