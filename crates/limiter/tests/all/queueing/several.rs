//! Several limits, of which one or more queue.

use std::pin::pin;

use tidegate::Nanos;
use tidegate::engine::{Reason, Request};

use super::{QUEUE, SHARED, limiter, poll};

#[test]
fn other_limits_are_charged_when_the_request_is_let_go() {
    let also = format!(
        "{QUEUE}  - {{ name: all, key: [], sustained: {{ rate: 1, window: hour }}, burst: {{ capacity: 10 }} }}\n"
    );
    let (limiter, clock) = limiter(&also);
    let request = Request::new().user("1");
    let _ = limiter.check(&request);
    let mut waiting = pin!(limiter.admit(&request));
    assert!(poll(waiting.as_mut()).is_none());
    let left = |user: &'static str| {
        limiter.peek(&Request::new().user(user)).limits().last().unwrap().decision.remaining
    };
    assert_eq!(left("2"), 9);
    clock.advance(Nanos::SECOND);
    let served = poll(waiting.as_mut()).unwrap();
    assert_eq!(left("2"), 8);
    let told: Vec<_> = served.limits().map(|limit| limit.decision.remaining).collect();
    assert_eq!((served.is_allowed(), told), (true, vec![0, 8]));
    let counted: Vec<_> =
        limiter.limit_counters().into_iter().map(|(_, count)| (count.allowed, count.queued)).collect();
    assert_eq!(counted, [(2, 0), (1, 1)], "once each, and only the one that was waited for as queued");
}

#[test]
fn a_limit_that_refuses_whoever_is_let_go_decides_as_on_arrival() {
    let also = format!(
        "{QUEUE}  - {{ name: all, key: [], sustained: {{ rate: 1, window: 10s }}, burst: {{ capacity: 2 }} }}\n"
    );
    let (limiter, clock) = limiter(&also);
    let request = Request::new().user("1");
    let _ = limiter.check(&request);
    let (mut waiting, mut behind) = (pin!(limiter.admit(&request)), pin!(limiter.admit(&request)));
    assert!(poll(waiting.as_mut()).is_none() && poll(behind.as_mut()).is_none());
    assert!(limiter.check(&Request::new().user("2")).is_allowed(), "the other limit is not charged yet");
    clock.advance(Nanos::SECOND);
    let refused = poll(waiting.as_mut()).unwrap();
    assert_eq!((refused.violated_rule(), refused.status()), (Some("all"), 429));
    assert_eq!(refused.wait(), Some(Nanos::from_secs(9)));
    let refused = poll(behind.as_mut()).unwrap();
    assert_eq!(refused.violated_rule(), Some("all"), "it has moved up");
    assert_eq!(limiter.decided(Reason::TokenBucketExceeded), 2, "counted once");
    assert_eq!(limiter.queue_waits().snapshot().count(), 0);
    assert_eq!(
        limiter.peek(&request).limits().next().unwrap().decision.remaining,
        1,
        "both have handed their charges back"
    );
}

#[test]
fn a_queue_that_refuses_whoever_is_let_go_is_waited_for_as_long_as_may_be() {
    let two = |patience: &str| {
        format!(
            "{QUEUE}  - {{ name: all, key: [], sustained: {{ rate: 1, window: 2s }}, burst: {{ capacity: 2 }}, strategy: queue, queue: {{ max_wait: {patience} }} }}\n"
        )
    };
    for (patience, waits) in [("3s", Some(Nanos::from_secs(2))), ("1500ms", None)] {
        let (limiter, clock) = limiter(&two(patience));
        let request = Request::new().user("1");
        let _ = limiter.check(&request);
        let mut waiting = pin!(limiter.admit(&request));
        assert!(poll(waiting.as_mut()).is_none());
        assert!(limiter.check(&Request::new().user("2")).is_allowed());
        clock.advance(Nanos::SECOND);
        let again = poll(waiting.as_mut());
        let Some(waits) = waits else {
            let refused = again.unwrap();
            assert_eq!((refused.reason(), refused.violated_rule()), (Reason::QueueTimeout, Some("all")));
            continue;
        };
        assert!(again.is_none(), "it waits for the other one");
        clock.advance(Nanos::SECOND);
        let served = poll(waiting.as_mut()).unwrap();
        assert_eq!(
            (served.is_allowed(), served.queued()),
            (true, Some(waits.into())),
            "counted from its arrival"
        );
        assert_eq!(limiter.queue_waits().snapshot().count(), 1);
        assert_eq!(limiter.decided(Reason::Ok), 3);
    }
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
        drop(limiter.take_place(&request));
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
    let _ = limiter.check(&request);
    assert_eq!(limiter.take_place(&request).0.queued(), Some(Nanos::from_secs(4).into()));
    let (impatient, _) = super::limiter(&two("max_wait: 2s"));
    let _ = impatient.check(&request);
    let (refused, _) = impatient.take_place(&request);
    assert_eq!((refused.reason(), refused.violated_rule()), (Reason::QueueTimeout, Some("slow")));
    assert_eq!(refused.wait(), Some(Nanos::from_secs(4)));
}

#[test]
fn who_waits_in_two_lines_goes_when_both_let_it_go() {
    let two = format!(
        "{SHARED}  - {{ name: slow, key: [user], sustained: {{ rate: 1, window: 4s }}, strategy: queue, queue: {{ max_wait: 100s }} }}\n"
    );
    let (limiter, clock) = limiter(&two);
    let (one, two) = (Request::new().user("1").tenant("a"), Request::new().user("2").tenant("b"));
    let _ = limiter.check(&one);
    let (mut slow, mut quick) = (pin!(limiter.admit(&one)), pin!(limiter.admit(&two)));
    assert!(poll(slow.as_mut()).is_none() && poll(quick.as_mut()).is_none());
    clock.advance(Nanos::from_secs(2));
    assert!(poll(slow.as_mut()).is_none(), "its own bucket is not ready");
    assert!(poll(quick.as_mut()).is_some(), "other users do not wait for it");
    clock.advance(Nanos::from_secs(2));
    assert_eq!(poll(slow.as_mut()).unwrap().queued(), Some(Nanos::from_secs(4).into()));
}
