//! `strategy: queue`: which requests wait, how long, and what happens when one leaves.

mod envelope;
mod kept;
mod several;
mod turns;
mod world;

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use tidegate::engine::{Limiter, Policy, Priority, Reason, Request};
use tidegate::{ManualClock, Memory, MemoryOptions, Nanos};

type Manual = Limiter<Memory<ManualClock>, ManualClock>;

/// One per second, one at once; two may wait, for three seconds at most.
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

fn poll<F: Future + ?Sized>(future: std::pin::Pin<&mut F>) -> Option<F::Output> {
    match future.poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => Some(output),
        Poll::Pending => None,
    }
}

#[test]
fn first_come_first_served() {
    let (limiter, clock) = limiter(QUEUE);
    let request = Request::new().user("1");
    assert!(poll(pin!(limiter.admit(&request))).unwrap().queued().is_none(), "one token is available");
    let (mut first, mut second) = (pin!(limiter.admit(&request)), pin!(limiter.admit(&request)));
    assert!(poll(first.as_mut()).is_none());
    assert!(poll(second.as_mut()).is_none());
    let full = poll(pin!(limiter.admit(&request))).unwrap();
    assert_eq!((full.is_allowed(), full.reason(), full.status()), (false, Reason::QueueFull, 503));
    clock.advance(Nanos::from_millis(999));
    assert!(poll(first.as_mut()).is_none());
    clock.advance(Nanos::from_millis(1));
    let served = poll(first.as_mut()).unwrap();
    assert_eq!((served.is_allowed(), served.queued()), (true, Some(Nanos::SECOND.into())));
    assert!(poll(second.as_mut()).is_none());
    clock.advance(Nanos::SECOND);
    assert_eq!(poll(second.as_mut()).unwrap().queued(), Some(Nanos::from_secs(2).into()));
}

#[test]
fn who_leaves_gives_its_place_and_its_tokens_back() {
    let (limiter, clock) = limiter(QUEUE);
    let request = Request::new().user("1");
    let _ = limiter.check(&request);
    {
        let mut leaver = pin!(limiter.admit(&request));
        assert!(poll(leaver.as_mut()).is_none());
    }
    let mut next = pin!(limiter.admit(&request));
    assert!(poll(next.as_mut()).is_none());
    clock.advance(Nanos::SECOND);
    assert_eq!(
        poll(next.as_mut()).unwrap().queued(),
        Some(Nanos::SECOND.into()),
        "not behind the one that left"
    );
}

#[test]
fn nobody_gets_what_is_waited_for() {
    let (limiter, clock) = limiter(QUEUE);
    let request = Request::new().user("1");
    let _ = limiter.check(&request);
    let mut waiting = pin!(limiter.admit(&request));
    assert!(poll(waiting.as_mut()).is_none());
    clock.advance(Nanos::SECOND);
    assert!(!limiter.check(&request).is_allowed(), "it is charged ahead");
    assert!(poll(waiting.as_mut()).unwrap().is_allowed());
    clock.advance(Nanos::SECOND);
    assert!(limiter.check(&request).is_allowed());
}

#[test]
fn a_wait_that_is_too_long_is_refused_with_the_time_to_come_back() {
    let (limiter, _) = limiter(&QUEUE.replace("max_wait: 3s", "max_wait: 900ms"));
    let request = Request::new().user("1");
    let _ = limiter.check(&request);
    let refused = poll(pin!(limiter.admit(&request))).unwrap();
    assert_eq!((refused.reason(), refused.wait()), (Reason::QueueTimeout, Some(Nanos::SECOND)));
    assert!(!limiter.check(&request).is_allowed());
    assert_eq!(limiter.check(&request).wait(), Some(Nanos::SECOND), "nothing was charged for it");
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
    let _ = limiter.check(&request);
    let (decision, place) = limiter.take_place(&request);
    assert_eq!(decision.queued(), Some(Nanos::SECOND.into()));
    drop(place.expect("it has to wait"));
    let (decision, place) = limiter.take_place(&request);
    assert_eq!(decision.queued(), Some(Nanos::SECOND.into()), "the first one was given back");
    clock.advance(Nanos::SECOND);
    place.expect("it has to wait").served();
    assert_eq!(limiter.check(&request).wait(), Some(Nanos::SECOND), "and the second was used");
}

#[test]
fn an_edit_that_starts_anew_is_not_paid_twice() {
    let (limiter, _) = limiter(QUEUE);
    let request = Request::new().user("1");
    let _ = limiter.check(&request);
    let (_, place) = limiter.take_place(&request);
    let anew = QUEUE.replace(
        "sustained: { rate: 1 }",
        "carry: reset\n    sustained: { rate: 1 }\n    burst: { capacity: 3 }",
    );
    limiter.swap(Policy::parse(&anew).unwrap()).unwrap();
    for _ in 0..3 {
        assert!(limiter.check(&request).is_allowed());
    }
    drop(place);
    assert!(!limiter.check(&request).is_allowed(), "charges from before a reset are not handed back");
}

/// One per second for all requests together.
const SHARED: &str = "
version: 1
limits:
  - name: jobs
    key: []
    sustained: { rate: 1 }
    strategy: queue
    queue: { max_depth: 1000, max_wait: 1000s }
";

type Waiting<'l> =
    Vec<(&'static str, std::pin::Pin<Box<dyn Future<Output = tidegate::engine::Decision> + 'l>>)>;

/// Requests of these tenants, waiting.
fn lined_up<'l>(limiter: &'l Manual, tenants: &[&'static str]) -> Waiting<'l> {
    let wait = |tenant: &&'static str| {
        let tenant = *tenant;
        let mut future: std::pin::Pin<Box<dyn Future<Output = _> + 'l>> = Box::pin(async move {
            let request = if tenant.is_empty() { Request::new() } else { Request::new().tenant(tenant) };
            limiter.admit(&request).await
        });
        assert!(poll(future.as_mut()).is_none(), "it has to wait");
        (tenant, future)
    };
    tenants.iter().map(wait).collect()
}

/// The requests that are admitted; the others stay.
fn through<'l>(waiting: &mut Waiting<'l>) -> Vec<(&'static str, tidegate::engine::Decision)> {
    let mut done = Vec::new();
    // Twice: the waiter that watches the clock may be polled after those that it notifies.
    for _ in 0..2 {
        for (tenant, mut future) in std::mem::take(waiting) {
            match poll(future.as_mut()) {
                Some(decision) => done.push((tenant, decision)),
                None => waiting.push((tenant, future)),
            }
        }
    }
    done
}

/// The requests that are admitted, second by second.
fn served(clock: &ManualClock, waiting: &mut Waiting<'_>, seconds: u64) -> Vec<&'static str> {
    let mut order = Vec::new();
    for _ in 0..seconds {
        clock.advance(Nanos::SECOND);
        let now = through(waiting);
        assert!(now.len() <= 1, "one a second");
        assert!(now.iter().all(|(_, decision)| decision.is_allowed()));
        order.extend(now.into_iter().map(|(tenant, _)| tenant));
    }
    order
}

#[test]
fn tenants_are_served_in_turn() {
    let (limiter, clock) = limiter(SHARED);
    let _ = limiter.check(&Request::new());
    let mut waiting = lined_up(&limiter, &["a", "a", "a", "a", "a", "a", "a", "a", "a", "a", "b"]);
    assert_eq!(served(&clock, &mut waiting, 3), ["a", "b", "a"]);
    waiting.extend(lined_up(&limiter, &["c", "", "c", ""]));
    assert_eq!(served(&clock, &mut waiting, 6), ["a", "c", "", "a", "c", ""]);
    assert_eq!(served(&clock, &mut waiting, 6), ["a"; 6]);
    assert!(waiting.is_empty());
    assert_eq!(limiter.queue_waits().snapshot().count(), 15);
    assert_eq!(limiter.limit_counters()[0].1.queued, 15);
    assert!(!limiter.check(&Request::new()).is_allowed(), "the last second is used up");
    clock.advance(Nanos::SECOND);
    assert!(limiter.check(&Request::new()).is_allowed(), "and nothing was lost");
}

#[test]
fn who_is_overtaken_for_too_long_is_refused_and_gives_its_place_back() {
    let (limiter, clock) =
        limiter(&SHARED.replace("1000s", "3s").replace("rate: 1 }", "rate: 1 }\n    burst: { capacity: 2 }"));
    let _ = limiter.check(&Request::new().cost(tidegate::Cost::new(2)));
    let mut waiting = lined_up(&limiter, &["a", "a", "a"]);
    clock.advance(Nanos::from_millis(500));
    let late = poll(pin!(limiter.admit(&Request::new().tenant("b")))).unwrap();
    assert_eq!((late.reason(), late.wait()), (Reason::QueueTimeout, Some(Nanos::from_millis(3_500))));
    clock.advance(Nanos::from_millis(500));
    waiting.extend(lined_up(&limiter, &["b"]));
    assert_eq!(through(&mut waiting).len(), 1);
    clock.advance(Nanos::SECOND);
    assert_eq!(through(&mut waiting)[0].0, "b", "it is its turn");
    clock.advance(Nanos::SECOND);
    let now = through(&mut waiting);
    let told: Vec<_> = now.iter().map(|(_, decision)| decision.reason()).collect();
    assert_eq!(told, [Reason::Ok, Reason::QueueTimeout]);
    let refused = &now[1].1;
    assert_eq!((refused.status(), refused.wait()), (503, Some(Nanos::SECOND)), "its place is free again");
    assert_eq!(limiter.decided(Reason::QueueTimeout), 2);
    clock.advance(Nanos::SECOND);
    assert!(limiter.check(&Request::new()).is_allowed());
}

#[test]
fn when_one_leaves_the_middle_those_behind_move_up() {
    let (limiter, clock) = limiter(SHARED);
    let _ = limiter.check(&Request::new());
    let mut waiting = lined_up(&limiter, &["a", "b", "c", "d"]);
    drop(waiting.remove(1));
    assert_eq!(served(&clock, &mut waiting, 3), ["a", "c", "d"]);
    clock.advance(Nanos::SECOND);
    assert!(limiter.check(&Request::new()).is_allowed(), "the last place was handed back");
    assert!(!limiter.check(&Request::new()).is_allowed());
}

#[test]
fn a_thousand_wait_and_each_is_served_in_its_turn() {
    let (limiter, clock) = limiter(SHARED);
    let _ = limiter.check(&Request::new());
    let tenants: Vec<&'static str> = ["a"; 900].into_iter().chain(["b"; 100]).collect();
    let mut waiting = lined_up(&limiter, &tenants);
    let full = poll(pin!(limiter.admit(&Request::new()))).unwrap();
    assert_eq!(full.reason(), Reason::QueueFull);
    assert_eq!(served(&clock, &mut waiting, 200), ["a", "b"].repeat(100));
    clock.advance(Nanos::from_secs(800));
    let rest = through(&mut waiting);
    let (allowed, late): (Vec<_>, Vec<_>) = rest.iter().partition(|(_, decision)| decision.is_allowed());
    assert_eq!((allowed.len(), late.len()), (1, 799), "a bucket saves no more than it holds");
    assert!(late.iter().all(|(_, decision)| decision.reason() == Reason::QueueTimeout));
}

#[test]
fn costs_of_different_size_are_never_served_before_the_bucket_allows() {
    let (limiter, clock) = limiter(&SHARED.replace("rate: 1 }", "rate: 1 }\n    burst: { capacity: 5 }"));
    let with =
        |tenant: &'static str, cost: u32| Request::new().tenant(tenant).cost(tidegate::Cost::new(cost));
    let _ = limiter.check(&with("a", 5));
    let (first, second, third) = (with("a", 4), with("a", 1), with("b", 2));
    let (mut first, mut second, mut third) =
        (pin!(limiter.admit(&first)), pin!(limiter.admit(&second)), pin!(limiter.admit(&third)));
    assert!(
        poll(first.as_mut()).is_none() && poll(second.as_mut()).is_none() && poll(third.as_mut()).is_none()
    );
    clock.advance(Nanos::from_secs(4));
    assert!(poll(first.as_mut()).is_some());
    clock.advance(Nanos::SECOND);
    assert!(poll(third.as_mut()).is_none() && poll(second.as_mut()).is_none(), "two are waited for");
    clock.advance(Nanos::SECOND);
    assert!(poll(second.as_mut()).is_none(), "it is not its turn");
    assert_eq!(poll(third.as_mut()).unwrap().queued(), Some(Nanos::from_secs(6).into()));
    assert!(poll(second.as_mut()).is_none());
    clock.advance(Nanos::SECOND);
    assert_eq!(poll(second.as_mut()).unwrap().queued(), Some(Nanos::from_secs(7).into()));
}

#[tokio::test]
async fn those_who_wait_wake_each_other() {
    let (limiter, clock) = limiter(SHARED);
    let _ = limiter.check(&Request::new());
    let limiter = std::sync::Arc::new(limiter);
    let order = std::sync::Arc::new(std::sync::Mutex::new(String::new()));
    let ask = |tenant: &'static str| {
        let (limiter, order) = (limiter.clone(), order.clone());
        async move {
            assert!(limiter.admit(&Request::new().tenant(tenant)).await.is_allowed());
            order.lock().unwrap().push_str(tenant);
        }
    };
    let tasks: Vec<_> = ["a", "a", "a", "b", "b", "c"].map(|tenant| tokio::spawn(ask(tenant))).into();
    for _ in 0..6 {
        tokio::task::yield_now().await;
        clock.advance(Nanos::SECOND);
        // Only woken waiters are polled: first the one that watches the clock, then those that it notifies.
        for _ in 0..4 {
            tokio::task::yield_now().await;
        }
    }
    for task in tasks {
        task.await.unwrap();
    }
    assert_eq!(*order.lock().unwrap(), "abcaba");
}

/// A higher priority goes first, stated by the request or read from it; a header that a client may have set itself
/// gives none.
#[test]
fn the_urgent_are_served_first() {
    let queue = QUEUE.replace("max_depth: 2, max_wait: 3s", "max_depth: 4, max_wait: 10s");
    let (limiter, clock) =
        limiter(&format!("{queue}defaults: {{ priority: {{ from: 'header:x-priority' }} }}\n"));
    let request = || Request::new().user("1");
    assert!(poll(pin!(limiter.admit(&request()))).unwrap().is_allowed());
    let urgent = || request().header("x-priority", "90");
    let (usual, forged) = (request(), urgent());
    let believed = Request { headers_trusted: true, ..urgent() };
    let stated = request().priority(Priority::MAX);
    let mut waiting = [&usual, &forged, &believed, &stated].map(|request| Box::pin(limiter.admit(request)));
    assert!(waiting.iter_mut().all(|waiting| poll(waiting.as_mut()).is_none()));
    let mut served = Vec::new();
    for _ in 0..4 {
        clock.advance(Nanos::SECOND);
        for (number, waiting) in waiting.iter_mut().enumerate() {
            if !served.contains(&number) && poll(waiting.as_mut()).is_some() {
                served.push(number);
            }
        }
    }
    assert_eq!(served, [3, 2, 0, 1]);
}
