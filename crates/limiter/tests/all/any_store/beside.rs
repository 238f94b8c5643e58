//! Candidates on a slow store: a decision never waits for one.

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use tidegate::engine::beside::{BackgroundWork, Candidate, ComparisonTotals};
use tidegate::engine::{Joint, JointBy};
use tidegate::{Later, ManualClock, Nanos};

use super::flaky::{Flaky, World, limits, policy, run, user};

type Tried = Arc<Candidate<Flaky, ManualClock>>;
type Waiting = Arc<Mutex<Vec<Later<'static, ()>>>>;

/// A candidate on a store of its own kind; what it finishes later is kept for the test.
fn beside(world: &World, text: &str) -> (Tried, Waiting) {
    let waiting = Waiting::default();
    let kept = Arc::clone(&waiting);
    let background: BackgroundWork = Box::new(move |work| {
        kept.lock().unwrap().push(work);
        true
    });
    let store = Flaky::new(world.clock.clone());
    let candidate = world.limiter.candidate(policy(text), store, "candidate: ", background).unwrap();
    let candidate = Arc::new(candidate);
    world.limiter.set_candidates(std::slice::from_ref(&candidate));
    (candidate, waiting)
}

fn poll<F: Future + ?Sized>(future: Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

const ONE: &[(&str, &str)] = &[("a", "burst: { capacity: 3 }")];
const LESS: &[(&str, &str)] = &[("b", "burst: { capacity: 1 }")];

#[test]
fn both_calls_are_under_way_before_either_is_answered() {
    let world = World::new(&limits(ONE));
    let (candidate, waiting) = beside(&world, &limits(LESS));
    let request = user("1");
    let mut deciding = pin!(world.limiter.check_async(&request));
    // Each store is pending once, and decides when it is polled again.
    assert!(poll(deciding.as_mut()).is_pending());
    assert_eq!((world.store().calls(), candidate.limiter().store().inner().calls()), (0, 0));
    let Poll::Ready(decision) = poll(deciding.as_mut()) else { panic!("both have answered") };
    assert!(decision.is_allowed());
    assert_eq!((world.store().calls(), candidate.limiter().store().inner().calls()), (1, 1));
    assert_eq!(candidate.report().totals().both_admit, 1);
    assert!(waiting.lock().unwrap().is_empty(), "nothing is left to do");
    let names: Vec<String> =
        candidate.limiter().store().inner().seen().into_iter().map(|seen| seen.0).collect();
    assert_eq!(names, ["candidate: b\u{1f}user"]);
}

#[test]
fn a_late_candidate_is_compared_in_the_background() {
    let world = World::new(&limits(ONE));
    let (candidate, waiting) = beside(&world, &limits(LESS));
    candidate.limiter().store().inner().pause_longer(3);
    assert!(world.check(&user("1")).is_allowed());
    assert!(world.check(&user("1")).is_allowed());
    assert_eq!(candidate.report().totals(), ComparisonTotals::default(), "nobody has waited for it");
    let late: Vec<Later<'static, ()>> = std::mem::take(&mut *waiting.lock().unwrap());
    assert_eq!(late.len(), 2);
    late.into_iter().for_each(run);
    let totals = candidate.report().totals();
    assert_eq!((totals.both_admit, totals.newly_denied), (1, 1));
    let found = candidate.report().snapshot().newly_denied;
    assert_eq!((&*found.keys[0].rule, &*found.keys[0].key), ("b", "1"));
}

#[test]
fn a_decision_that_is_made_at_once_is_compared_with_one_that_is_not() {
    let world = World::new("version: 1\nlimits: []\n");
    let (candidate, waiting) = beside(&world, &limits(LESS));
    for _ in 0..2 {
        assert!(world.check(&user("1")).is_allowed());
        let late: Vec<Later<'static, ()>> = std::mem::take(&mut *waiting.lock().unwrap());
        late.into_iter().for_each(run);
    }
    let totals = candidate.report().totals();
    assert_eq!((totals.both_admit, totals.newly_denied, totals.not_compared), (1, 1, 0));
}

#[test]
fn a_store_that_fails_is_no_reason_to_decide_otherwise() {
    let world = World::new(&limits(ONE));
    let (candidate, _) = beside(&world, &limits(LESS));
    candidate.limiter().store().inner().fail(true);
    assert_eq!(world.admitted(&user("1")), 3);
    assert_eq!(candidate.report().totals().not_compared, 20);

    candidate.limiter().store().inner().fail(false);
    world.store().fail(true);
    let without = world.check(&user("2"));
    assert!(without.without_store());
    assert_eq!(candidate.report().totals().not_compared, 21, "the fallback is no measure");
}

#[test]
fn what_cannot_be_finished_is_counted() {
    let world = World::new("version: 1\nlimits: []\n");
    let store = Flaky::new(world.clock.clone());
    let candidate =
        world.limiter.candidate(policy(&limits(LESS)), store, "c: ", Box::new(|_| false)).unwrap();
    let candidate = Arc::new(candidate);
    world.limiter.set_candidates(std::slice::from_ref(&candidate));
    assert!(world.check(&user("1")).is_allowed());
    assert_eq!(candidate.report().totals().not_compared, 1);
    world.limiter.set_candidates::<Flaky>(&[]);
    assert!(world.check(&user("1")).is_allowed());
    assert_eq!(candidate.report().totals().not_compared, 1, "it has ended");
}

#[test]
fn requests_in_queues_and_together_are_compared() {
    let queue = "strategy: queue, queue: { max_depth: 2, max_wait: 10m }";
    let world = World::new(&limits(&[("jobs", queue)]));
    let (candidate, waiting) = beside(&world, &limits(LESS));
    assert!(run(world.limiter.admit(&user("1"))).is_allowed());
    let request = user("1");
    let mut waits = pin!(world.limiter.admit(&request));
    for _ in 0..8 {
        assert!(poll(waits.as_mut()).is_pending());
    }
    world.clock.advance(Nanos::MINUTE);
    let mut served = None;
    for _ in 0..8 {
        if let Poll::Ready(decision) = poll(waits.as_mut()) {
            served = Some(decision.is_allowed());
            break;
        }
    }
    assert_eq!(served, Some(true));
    let totals = candidate.report().totals();
    assert_eq!((totals.both_admit, totals.newly_denied), (1, 1), "the candidate decided when it came");

    let requests = [user("2"), user("3")];
    let joint = requests.each_ref().map(|request| Joint { request, by: JointBy::Policy });
    assert!(run(world.limiter.check_joint_async(&joint)).unwrap().allowed);
    // Queues and joint decisions make more calls than one, so that a comparison may come later.
    std::mem::take(&mut *waiting.lock().unwrap()).into_iter().for_each(run);
    assert_eq!(candidate.report().totals().both_admit, 2);
}
