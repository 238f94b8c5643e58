use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::task::{Context, Poll, Waker};

use tidegate::{Clock, Cost, LimitRef, ManualClock};
use tidegate_core::{Limit, Quota};

use super::*;

fn limit() -> LimitRef {
    let quota = Quota::per_second(10).expect("a quota");
    LimitRef::new("orders", Limit::token_bucket(quota), 7)
}

fn cost(tokens: u32) -> Cost {
    Cost::new(tokens)
}

#[test]
fn a_charge_owns_what_it_names_and_gives_it_back_unchanged() {
    let limit = limit();
    let charge = Charge {
        tag: Some(b"acme"),
        ..Charge::new(&limit, b"alice", cost(3)).delayed(Nanos::from_millis(5))
    };
    let owned = standalone(&charge);
    let again = owned.as_charge();
    assert_eq!(
        (again.key, again.tag, again.cost, again.delay),
        (charge.key, charge.tag, charge.cost, charge.delay)
    );
    assert_eq!(again.limit.id(), 7);
}

#[test]
fn renewals_come_first_and_many_at_once_and_hand_backs_in_their_order() {
    let (limit, backlog) = (limit(), MaintenanceBacklog::new());
    for n in 1..=2 {
        assert!(backlog.hand_back(&[Charge::new(&limit, b"alice", cost(n))], Nanos::from_secs(n.into())));
    }
    for n in 0..40_u8 {
        assert!(backlog.renew(&Charge::new(&limit, &[n], cost(0))));
    }
    let task_of_live = || {
        let (beside, task) = backlog.take()?;
        assert!(beside.is_none());
        Some(task)
    };
    let renewed = |task: Option<MaintenanceTask>| match task {
        Some(MaintenanceTask::Renew(buckets)) => {
            buckets.iter().map(|bucket| bucket.key[0]).collect::<Vec<_>>()
        }
        other => panic!("not a renewal: {other:?}"),
    };
    assert_eq!(renewed(task_of_live()), (0..32).collect::<Vec<_>>());
    assert_eq!(renewed(task_of_live()), (32..40).collect::<Vec<_>>());
    for n in 1..=2 {
        match task_of_live() {
            Some(MaintenanceTask::HandBack { charges, at }) => {
                assert_eq!((charges[0].cost, at), (cost(n), Nanos::from_secs(n.into())));
            }
            other => panic!("not a hand-back: {other:?}"),
        }
    }
    assert!(backlog.take().is_none());
}

#[test]
fn what_has_no_room_is_dropped_and_counted() {
    let (limit, backlog) = (limit(), MaintenanceBacklog::new());
    let charge = Charge::new(&limit, b"alice", cost(1));
    for _ in 0..WAITING_MAX {
        assert!(backlog.hand_back(&[charge], Nanos::ZERO));
        assert!(backlog.renew(&charge));
    }
    assert!(!backlog.hand_back(&[charge], Nanos::ZERO));
    assert!(!backlog.renew(&charge));
    assert_eq!(backlog.dropped(), 2);
}

#[test]
fn the_node_count_is_the_most_of_the_last_three() {
    let nodes = NodeCount::new();
    assert_eq!(nodes.count(), 1);
    let counts: Vec<u32> = [4, 3, 3, 3, 0, 2]
        .into_iter()
        .map(|told| {
            nodes.note(told);
            nodes.count()
        })
        .collect();
    assert_eq!(counts, [4, 4, 4, 3, 3, 3]);
}

/// Counts the heartbeats and tasks that it runs; tasks end only when `may_end` is set.
#[derive(Debug, Default)]
struct Diary {
    heartbeats: AtomicU32,
    begun: AtomicU32,
    ended: AtomicU32,
    may_end: AtomicBool,
    failing: AtomicBool,
    counts_sent: AtomicU32,
}

impl MaintenanceRunner for Diary {
    async fn heartbeat(&self) {
        self.heartbeats.fetch_add(1, Ordering::Relaxed);
    }

    async fn run_task(&self, _beside: Option<Arc<StoreSide>>, _task: MaintenanceTask) {
        self.begun.fetch_add(1, Ordering::Relaxed);
        poll_fn(|_| if self.may_end.load(Ordering::Relaxed) { Poll::Ready(()) } else { Poll::Pending }).await;
        self.ended.fetch_add(1, Ordering::Relaxed);
    }

    async fn send_counts(&self) {
        self.counts_sent.fetch_add(1, Ordering::Relaxed);
    }

    fn is_failing(&self) -> bool {
        self.failing.load(Ordering::Relaxed)
    }
}

/// Polls `run_maintenance` for `millis`, in steps of 10 ms.
fn run(running: &mut Pin<Box<impl Future<Output = ()>>>, clock: &ManualClock, millis: u64) {
    let mut context = Context::from_waker(Waker::noop());
    assert!(running.as_mut().poll(&mut context).is_pending());
    for _ in 0..millis / 10 {
        clock.advance(Nanos::from_millis(10));
        assert!(running.as_mut().poll(&mut context).is_pending());
    }
}

#[test]
fn it_beats_every_second_and_probes_a_failing_server_twice_as_often() {
    let (diary, backlog, clock) = (Diary::default(), MaintenanceBacklog::new(), ManualClock::default());
    let mut running = Box::pin(run_maintenance(&diary, &backlog, &clock));
    run(&mut running, &clock, 10_000);
    assert_eq!(diary.heartbeats.load(Ordering::Relaxed), 11);

    diary.failing.store(true, Ordering::Relaxed);
    run(&mut running, &clock, 10_000);
    assert_eq!(diary.heartbeats.load(Ordering::Relaxed), 31);
}

#[test]
fn several_chores_are_under_way_at_once_and_all_get_done() {
    let (limit, diary, backlog, clock) =
        (limit(), Diary::default(), MaintenanceBacklog::new(), ManualClock::default());
    let mut running = Box::pin(run_maintenance(&diary, &backlog, &clock));
    run(&mut running, &clock, 10);
    for _ in 0..20 {
        backlog.hand_back(&[Charge::new(&limit, b"alice", cost(1))], clock.now());
    }
    run(&mut running, &clock, 100);
    assert_eq!(diary.begun.load(Ordering::Relaxed), WORKERS as u32);

    diary.may_end.store(true, Ordering::Relaxed);
    run(&mut running, &clock, 100);
    assert_eq!(diary.ended.load(Ordering::Relaxed), 20);
}

#[test]
fn a_chore_wakes_whoever_sleeps() {
    let (limit, diary, backlog, clock) =
        (limit(), Diary::default(), MaintenanceBacklog::new(), ManualClock::default());
    let woken = Arc::new(Flag::default());
    let waker = Waker::from(Arc::clone(&woken));
    let mut running = Box::pin(run_maintenance(&diary, &backlog, &clock));
    assert!(running.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());

    woken.0.store(false, Ordering::Relaxed);
    backlog.renew(&Charge::new(&limit, b"alice", cost(0)));
    assert!(woken.0.load(Ordering::Relaxed));
}

#[derive(Debug, Default)]
struct Flag(AtomicBool);

impl std::task::Wake for Flag {
    fn wake(self: Arc<Flag>) {
        self.0.store(true, Ordering::Relaxed);
    }
}
