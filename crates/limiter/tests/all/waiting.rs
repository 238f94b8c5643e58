//! Waiting for tokens, on a clock that only moves by hand.

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tidegate::engine::{Limiter, Policy, Request};
use tidegate::{Bucket, Clock, Cost, Keyed, ManualClock, MemoryOptions, Nanos, Outcome, Quota, Sleep};

fn poll<F: Future>(future: std::pin::Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

fn one_a_second(clock: &ManualClock) -> Bucket<ManualClock> {
    let bucket = Bucket::with_clock(Quota::per_second(1).unwrap(), clock.clone());
    assert!(bucket.take(Cost::ONE).is_allowed());
    bucket
}

#[test]
fn waits_exactly_until_the_token_is_there() {
    let clock = ManualClock::default();
    let bucket = one_a_second(&clock);
    let mut waiting = pin!(bucket.take_within(Cost::ONE, Duration::from_secs(2)));
    assert!(poll(waiting.as_mut()).is_pending());
    clock.advance(Nanos::from_millis(999));
    assert!(poll(waiting.as_mut()).is_pending());
    clock.advance(Nanos::from_millis(1));
    assert!(matches!(poll(waiting), Poll::Ready(Ok(decision)) if decision.is_allowed()));
}

#[test]
fn gives_up_at_once_when_the_wait_is_too_long() {
    let clock = ManualClock::default();
    let bucket = one_a_second(&clock);
    let hasty = pin!(bucket.take_within(Cost::ONE, Duration::from_millis(999)));
    assert!(matches!(poll(hasty), Poll::Ready(Err(denied)) if denied.wait() == Some(Nanos::SECOND)));
    let hopeless = pin!(bucket.take_within(Cost::new(2), Duration::from_secs(100)));
    assert!(matches!(poll(hopeless), Poll::Ready(Err(denied)) if denied.outcome == Outcome::Never));
}

#[test]
fn somebody_faster_only_makes_it_wait_within_its_patience() {
    let clock = ManualClock::default();
    let bucket = one_a_second(&clock);
    let mut waiting = pin!(bucket.take_within(Cost::ONE, Duration::from_millis(1_500)));
    assert!(poll(waiting.as_mut()).is_pending());
    clock.advance(Nanos::SECOND);
    assert!(bucket.take(Cost::ONE).is_allowed(), "somebody is faster");
    assert!(matches!(poll(waiting), Poll::Ready(Err(_))), "the next token comes after the deadline");
}

#[test]
fn dropping_the_wait_takes_nothing() {
    let clock = ManualClock::default();
    let bucket = one_a_second(&clock);
    {
        let mut waiting = pin!(bucket.take_within(Cost::ONE, Duration::from_secs(2)));
        assert!(poll(waiting.as_mut()).is_pending());
    }
    clock.advance(Nanos::SECOND);
    assert!(bucket.take(Cost::ONE).is_allowed());
}

#[tokio::test(flavor = "current_thread")]
async fn a_keyed_limiter_waits_for_its_own_key_and_is_woken_by_the_clock() {
    let clock = ManualClock::default();
    let quota = Quota::per_second(1).unwrap();
    let keyed: Keyed<str, _> =
        Keyed::with(quota, MemoryOptions { max_keys: 10, ..Default::default() }, clock.clone()).unwrap();
    let _ = keyed.take("alice", Cost::ONE);
    let start = clock.now();
    let (waited, ()) = tokio::join!(keyed.take_within("alice", Cost::ONE, Duration::from_secs(5)), async {
        assert!(keyed.take_within("bob", Cost::ONE, Duration::ZERO).await.is_ok(), "bob need not wait");
        clock.advance(Nanos::SECOND);
    });
    assert!(waited.is_ok());
    assert_eq!(clock.now().saturating_sub(start), Nanos::SECOND);
}

/// A clock whose sleeps end too early.
#[derive(Clone)]
struct Restless(ManualClock);

impl Clock for Restless {
    fn now(&self) -> Nanos {
        self.0.now()
    }
}

impl Sleep for Restless {
    fn sleep(&self, _: Nanos) -> impl Future<Output = ()> + Send {
        let mut asked = false;
        std::future::poll_fn(move |_| {
            if std::mem::replace(&mut asked, true) { Poll::Ready(()) } else { Poll::Pending }
        })
    }
}

#[test]
fn a_nap_that_ends_early_lets_nobody_go_early() {
    let clock = Restless(ManualClock::default());
    let policy = "version: 1\nlimits: [{ name: jobs, key: [user], sustained: { rate: 1 }, strategy: queue, \
                  queue: { max_depth: 2, max_wait: 3s } }]\n";
    let policy = Policy::parse(policy).unwrap_or_else(|error| panic!("{error}"));
    let limiter = Limiter::in_memory(policy, MemoryOptions::default(), clock.clone()).unwrap();
    let request = Request::new().user("1");
    let _ = limiter.check(&request);
    let mut waiting = pin!(limiter.admit(&request));
    for _ in 0..9 {
        assert!(poll(waiting.as_mut()).is_pending());
        clock.0.advance(Nanos::from_millis(111));
    }
    assert!(poll(waiting.as_mut()).is_pending(), "999 ms are not a second");
    clock.0.advance(Nanos::from_millis(1));
    let Poll::Ready(decision) = poll(waiting) else { panic!("a second is over") };
    assert_eq!(decision.queued(), Some(Nanos::SECOND.into()));
}
