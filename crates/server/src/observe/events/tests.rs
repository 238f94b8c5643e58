use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Mutex, PoisonError};

use tidegate::engine::{AdHocLimit, AdHocRequest, Limiter, Policy, Request};
use tidegate::{Clock, MemoryOptions, NowOrLater};

use super::*;

/// A sink that keeps everything, waits while it is locked, and fails if it is told to.
#[derive(Clone, Debug, Default)]
struct Kept(Arc<Mutex<(Vec<AuditEvent>, bool)>>);

impl Kept {
    fn lock(&self) -> std::sync::MutexGuard<'_, (Vec<AuditEvent>, bool)> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn sums(&self) -> BTreeMap<&'static str, u64> {
        let mut sums = BTreeMap::new();
        self.lock().0.iter().for_each(|event| *sums.entry(event.name.as_str()).or_default() += event.count);
        sums
    }
}

impl EventSink for Kept {
    fn name(&self) -> &'static str {
        "file"
    }

    fn write(&mut self, events: &[AuditEvent]) -> Result<(), EventsUnwritten> {
        let mut kept = self.lock();
        if kept.1 {
            return Err(EventsUnwritten { written: 0, error: io::Error::other("no space left") });
        }
        kept.0.extend_from_slice(events);
        Ok(())
    }
}

/// A sink that reports each write, and then waits to be told to go on.
#[derive(Debug)]
struct Slow(Sender<()>, Receiver<()>);

impl EventSink for Slow {
    fn name(&self) -> &'static str {
        "stdout"
    }

    fn write(&mut self, _: &[AuditEvent]) -> Result<(), EventsUnwritten> {
        let _ended = self.0.send(());
        let _ended = self.1.recv();
        Ok(())
    }
}

fn events_to(sink: impl EventSink + 'static) -> Events {
    Events::to(vec![Box::new(sink)], Some("node-1"), MonotonicClock::new()).expect("a thread")
}

const POLICY: &str =
    "version: 1\nlimits:\n- { name: per-user, key: [user], sustained: { rate: 1, window: hour } }\n";

fn limiter(events: &Events) -> Limiter {
    let options = MemoryOptions { max_keys: 100_000, ..MemoryOptions::default() };
    let limiter = Limiter::new(Policy::parse(POLICY).unwrap()).unwrap().with_ad_hoc(options).unwrap();
    limiter.with_observer(events.observer().expect("events are on"))
}

#[test]
fn denials_of_limits_and_of_ad_hoc_buckets_are_told_with_who_and_what() {
    let kept = Kept::default();
    let events = events_to(kept.clone());
    let limiter = limiter(&events);
    let request = Request::new().user("42").ip([192, 0, 2, 7]).path("/api/videos?q=cats");
    for _ in 0..10 {
        let _decision = limiter.check(&request);
    }
    let limit = AdHocLimit { capacity: 2, rate: 1, window: Nanos::MINUTE };
    for cost in [2, 1, 1, 1 << 40] {
        let request = AdHocRequest { key: b"job:7", limit, cost };
        let NowOrLater::Now(answer) = limiter.check_ad_hoc(&request, limiter.clock().now()) else {
            panic!("memory")
        };
        let _answer = answer.unwrap();
    }
    events.flush();
    let kept = kept.lock();
    let told: Vec<_> =
        kept.0.iter().map(|event| (event.limit.as_deref(), event.key.as_deref(), event.count)).collect();
    assert!(told.contains(&(Some("per-user"), Some("42"), 9)), "{told:?}");
    assert!(told.contains(&(Some("throttle"), Some("job:7"), 2)), "{told:?}");
    assert!(told.contains(&(Some("throttle"), Some("job:7"), 1)), "a cost that is never admitted: {told:?}");
    let denied = kept.0.iter().find(|event| event.limit.as_deref() == Some("per-user")).unwrap();
    assert_eq!((denied.user.as_deref(), denied.ip), (Some("42"), Some([192, 0, 2, 7].into())));
    assert_eq!((denied.endpoint.as_deref(), denied.kind), (Some("/api/videos"), Some("token_bucket")));
    assert_eq!((denied.node.as_deref(), denied.policy_version), (Some("node-1"), Some(1)));
    assert_eq!((denied.remaining, denied.reason.as_deref()), (Some(0), Some("token_bucket_exceeded")));
    assert!(denied.retry_after_ms.is_some_and(|wait| wait > 3_500_000) && denied.first <= denied.last);
}

#[test]
fn a_disk_that_is_full_loses_events_and_says_how_many() {
    let kept = Kept::default();
    let events = events_to(kept.clone());
    kept.lock().1 = true;
    events.store_fallback(true, Nanos::SECOND);
    events.flush();
    assert_eq!(events.dropped()[0], EventFate { place: "file", count: 1 });
    kept.lock().1 = false;
    events.store_fallback(false, Nanos::SECOND);
    events.penalty_lifted("burst", "42, /login", None, Nanos::SECOND);
    events.kill_switch_changed(true, None, Nanos::SECOND);
    events.flush();
    let told = [("kill_switch_changed", 1), ("penalty_lifted", 1), ("store_fallback_ended", 1)];
    assert_eq!((kept.sums(), events.written()[0].count), (told.into(), 3));
}

#[test]
fn decisions_do_not_wait_for_a_disk_that_does_not_answer_and_no_count_is_lost() {
    let (kept, (report, reported), (go_on, told)) = (Kept::default(), channel(), channel());
    let sinks: Vec<Box<dyn EventSink>> = vec![Box::new(Slow(report, told)), Box::new(kept.clone())];
    let events = Events::to(sinks, None, MonotonicClock::new()).unwrap();
    let limiter = limiter(&events);
    events.store_fallback(true, Nanos::SECOND);
    reported.recv().expect("the thread writes, and waits now");
    // More keys than can be kept apart while nothing is written.
    let users = (crate::bounds::EVENT_TABLES_QUEUED_MAX + 3) * OPEN_EVENTS_PER_SHARD + OPEN_EVENTS_SHARED;
    for user in 0..users {
        let request = Request::new().user(format!("user-{user}"));
        assert!(limiter.check(&request).is_allowed());
        assert!(!limiter.check(&request).is_allowed());
    }
    for _ in 0..crate::bounds::EVENTS_QUEUED_MAX + 5 {
        events.kill_switch_changed(true, None, Nanos::SECOND);
    }
    assert!(events.merged() > 0, "details are lost");
    assert_eq!(events.dropped().last(), Some(&EventFate { place: "queue", count: 5 }));
    drop(go_on);
    events.flush();
    drop((limiter, events));
    // The thread ends when everything is written.
    while reported.recv().is_ok() {}
    let sums = kept.sums();
    assert_eq!(sums["rate_limit_exceeded"], users as u64);
    assert_eq!(sums["kill_switch_changed"], crate::bounds::EVENTS_QUEUED_MAX as u64);
}
