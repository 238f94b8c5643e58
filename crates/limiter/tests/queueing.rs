//! `strategy: queue`: who waits, how long, and what happens when somebody leaves.

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use tidegate::policy::{Limiter, Policy, Reason, Request};
use tidegate::{ManualClock, Memory, MemoryOptions, Nanos};

type Manual = Limiter<Memory<ManualClock>, ManualClock>;

/// One a second, one at once; two may wait, for three seconds at most.
const QUEUE: &str = "
version: 1
limits:
  - name: jobs
    key: [user]
    sustained: { rate: 1 }
    strategy: queue
    queue: { max_depth: 2, max_wait: 3s }
";

fn limiter(policy: &str) -> (Manual, ManualClock) {
    let clock = ManualClock::default();
    let options = MemoryOptions { max_keys: 1_000, ..MemoryOptions::default() };
    let policy = Policy::parse(policy).unwrap_or_else(|error| panic!("{error}"));
    (Limiter::in_memory(policy, options, clock.clone()).unwrap(), clock)
}

fn poll<F: Future>(future: std::pin::Pin<&mut F>) -> Option<F::Output> {
    match future.poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => Some(output),
        Poll::Pending => None,
    }
}

#[test]
fn first_come_first_served() {
    let (limiter, clock) = limiter(QUEUE);
    let request = Request::new().user("1");
    assert!(poll(pin!(limiter.admit(&request))).unwrap().queued().is_none(), "one is there");
    let (mut first, mut second) = (pin!(limiter.admit(&request)), pin!(limiter.admit(&request)));
    assert!(poll(first.as_mut()).is_none());
    assert!(poll(second.as_mut()).is_none());
    let full = poll(pin!(limiter.admit(&request))).unwrap();
    assert_eq!((full.is_allowed(), full.reason(), full.status()), (false, Reason::QueueFull, 503));
    clock.advance(Nanos::from_millis(999));
    assert!(poll(first.as_mut()).is_none());
    clock.advance(Nanos::from_millis(1));
    let served = poll(first.as_mut()).unwrap();
    assert_eq!((served.is_allowed(), served.queued()), (true, Some(Nanos::SECOND)));
    assert!(poll(second.as_mut()).is_none());
    clock.advance(Nanos::SECOND);
    assert_eq!(poll(second.as_mut()).unwrap().queued(), Some(Nanos::from_secs(2)));
}

#[test]
fn who_leaves_gives_its_place_and_its_tokens_back() {
    let (limiter, clock) = limiter(QUEUE);
    let request = Request::new().user("1");
    limiter.check(&request);
    {
        let mut leaver = pin!(limiter.admit(&request));
        assert!(poll(leaver.as_mut()).is_none());
    }
    let mut next = pin!(limiter.admit(&request));
    assert!(poll(next.as_mut()).is_none());
    clock.advance(Nanos::SECOND);
    assert_eq!(poll(next.as_mut()).unwrap().queued(), Some(Nanos::SECOND), "not behind the one that left");
}

#[test]
fn nobody_gets_what_is_waited_for() {
    let (limiter, clock) = limiter(QUEUE);
    let request = Request::new().user("1");
    limiter.check(&request);
    let mut waiting = pin!(limiter.admit(&request));
    assert!(poll(waiting.as_mut()).is_none());
    clock.advance(Nanos::SECOND);
    assert!(!limiter.check(&request).is_allowed(), "it is reserved");
    assert!(poll(waiting.as_mut()).unwrap().is_allowed());
    clock.advance(Nanos::SECOND);
    assert!(limiter.check(&request).is_allowed());
}

#[test]
fn a_wait_that_is_too_long_is_refused_with_the_time_to_come_back() {
    let (limiter, _) = limiter(&QUEUE.replace("max_wait: 3s", "max_wait: 900ms"));
    let request = Request::new().user("1");
    limiter.check(&request);
    let refused = poll(pin!(limiter.admit(&request))).unwrap();
    assert_eq!((refused.reason(), refused.retry_after()), (Reason::QueueTimeout, Some(Nanos::SECOND)));
    assert!(!limiter.check(&request).is_allowed());
    assert_eq!(limiter.check(&request).retry_after(), Some(Nanos::SECOND), "nothing was reserved for it");
}

#[test]
fn a_limit_that_rejects_is_not_waited_for() {
    let rejecting =
        format!("{QUEUE}  - {{ name: strict, key: [], sustained: {{ rate: 1, window: minute }} }}\n");
    let (limiter, _) = limiter(&rejecting);
    let request = Request::new().user("1");
    assert!(limiter.check(&request).is_allowed());
    let refused = poll(pin!(limiter.admit(&request))).unwrap();
    assert_eq!((refused.violated_rule(), refused.reason()), (Some("strict"), Reason::TokenBucketExceeded));
}

#[test]
fn a_reservation_can_be_held_without_a_runtime() {
    let (limiter, clock) = limiter(QUEUE);
    let request = Request::new().user("1");
    limiter.check(&request);
    let (decision, reservation) = limiter.reserve(&request);
    assert_eq!(decision.queued(), Some(Nanos::SECOND));
    drop(reservation.expect("it has to wait"));
    let (decision, reservation) = limiter.reserve(&request);
    assert_eq!(decision.queued(), Some(Nanos::SECOND), "the first one was given back");
    clock.advance(Nanos::SECOND);
    reservation.expect("it has to wait").served();
    assert_eq!(limiter.check(&request).retry_after(), Some(Nanos::SECOND), "and the second was used");
}

#[test]
fn other_limits_are_charged_when_the_request_comes() {
    let also = format!(
        "{QUEUE}  - {{ name: all, key: [], sustained: {{ rate: 1, window: hour }}, burst: {{ capacity: 10 }} }}\n"
    );
    let (limiter, clock) = limiter(&also);
    let request = Request::new().user("1");
    limiter.check(&request);
    let mut waiting = pin!(limiter.admit(&request));
    assert!(poll(waiting.as_mut()).is_none());
    let left = |user: &'static str| {
        limiter.peek(&Request::new().user(user)).limits().last().unwrap().decision.remaining
    };
    assert_eq!(left("2"), 8);
    clock.advance(Nanos::SECOND);
    assert!(poll(waiting.as_mut()).unwrap().is_allowed());
    assert_eq!(left("2"), 8);
}

#[test]
fn what_was_not_taken_is_not_given_back() {
    let also = format!(
        "{QUEUE}  - {{ name: soft, key: [], sustained: {{ rate: 1, window: hour }}, strategy: degrade }}\n\
         \x20 - {{ name: watched, key: [], sustained: {{ rate: 1, window: hour }}, mode: shadow }}\n"
    );
    let (limiter, _) = limiter(&also);
    let request = Request::new().user("1");
    assert!(limiter.check(&request).degraded().is_none());
    for _ in 0..3 {
        drop(limiter.reserve(&request));
    }
    let decision = limiter.peek(&Request::new().user("2"));
    assert_eq!(decision.degraded(), Some("degraded"), "it is still empty");
    assert_eq!(decision.shadow_denied().collect::<Vec<_>>(), ["watched"]);
}

#[test]
fn the_longest_of_several_queues_is_waited_for_and_must_be_bearable() {
    let two = |patience: &str| {
        format!(
            "{}  - {{ name: slow, key: [], sustained: {{ rate: 1, window: 4s }}, strategy: queue, queue: {{ max_wait: 10s }} }}\n",
            QUEUE.replace("max_wait: 3s", patience)
        )
    };
    let request = Request::new().user("1");
    let (limiter, _) = limiter(&two("max_wait: 9s"));
    limiter.check(&request);
    assert_eq!(limiter.reserve(&request).0.queued(), Some(Nanos::from_secs(4)));
    let (impatient, _) = self::limiter(&two("max_wait: 2s"));
    impatient.check(&request);
    let (refused, _) = impatient.reserve(&request);
    assert_eq!((refused.reason(), refused.violated_rule()), (Reason::QueueTimeout, Some("slow")));
    assert_eq!(refused.retry_after(), Some(Nanos::from_secs(4)));
}

#[test]
fn an_edit_that_starts_anew_is_not_paid_twice() {
    let (limiter, _) = limiter(QUEUE);
    let request = Request::new().user("1");
    limiter.check(&request);
    let (_, reservation) = limiter.reserve(&request);
    let anew = QUEUE.replace(
        "sustained: { rate: 1 }",
        "carry: reset\n    sustained: { rate: 1 }\n    burst: { capacity: 3 }",
    );
    limiter.swap(Policy::parse(&anew).unwrap()).unwrap();
    for _ in 0..3 {
        assert!(limiter.check(&request).is_allowed());
    }
    drop(reservation);
    assert!(!limiter.check(&request).is_allowed(), "what is gone is not given back");
}
