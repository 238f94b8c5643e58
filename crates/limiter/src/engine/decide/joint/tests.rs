use super::*;
use crate::engine::counting::counters::RuleOutcome;
use crate::engine::{Policy, Reason};
use crate::{ManualClock, MemoryOptions};

const OPTIONS: MemoryOptions = MemoryOptions { max_keys: 1_000, max_log_entries: 1_000 };

const POLICY: &str = "
version: 1
limits:
- { name: user, key: [user], sustained: { rate: 1, window: minute }, burst: { capacity: 10 } }
- { name: all, key: [], match: { plan: free }, sustained: { rate: 1, window: minute }, burst: { capacity: 3 } }
- { name: soft, key: [client], mode: shadow, sustained: { rate: 1, window: minute } }
- { name: line, key: [route], strategy: queue, sustained: { rate: 1, window: minute } }
block: [{ user: bad }]
allow: [{ user: good }]
";

struct World {
    limiter: Limiter<Memory<ManualClock>, ManualClock>,
}

fn world() -> World {
    let clock = ManualClock::default();
    let policy = Policy::parse(POLICY).unwrap_or_else(|error| panic!("{error}"));
    let limiter = Limiter::in_memory(policy, OPTIONS, clock).unwrap();
    World { limiter: limiter.with_ad_hoc(OPTIONS).unwrap() }
}

impl World {
    fn check(&self, requests: &[Request<'_>]) -> Vec<Decision> {
        let joint: Vec<_> = requests.iter().map(|request| Joint { request, by: JointBy::Policy }).collect();
        let make_decision = self.limiter.check_joint(&joint).unwrap();
        assert_eq!(make_decision.allowed, make_decision.decisions.iter().all(Decision::is_allowed));
        make_decision.decisions
    }

    /// What is left of limits, by peeking.
    fn left(&self, request: &Request<'_>) -> Vec<u32> {
        self.limiter.peek(request).limits().map(|limit| limit.decision.remaining).collect()
    }

    fn counted(&self, name: &str, outcome: RuleOutcome) -> u64 {
        let all = self.limiter.limit_counters();
        all.iter().find(|(own, _)| own == name).unwrap().1.get(outcome)
    }
}

fn user(name: &str, cost: u32) -> Request<'_> {
    Request::new().user(name).cost(Cost::new(cost))
}

fn remaining(decision: &Decision) -> Vec<u32> {
    decision.limits().map(|limit| limit.decision.remaining).collect()
}

#[test]
fn a_bucket_that_several_reach_is_charged_once_with_the_largest_cost() {
    let world = world();
    let decisions = world.check(&[user("1", 2), user("1", 5), user("2", 1), user("1", 5)]);
    assert!(decisions.iter().all(Decision::is_allowed));
    assert_eq!(decisions.iter().map(remaining).collect::<Vec<_>>(), [[5], [5], [9], [5]]);
    assert_eq!(world.left(&user("1", 1)), [5]);
    assert_eq!(world.counted("user", RuleOutcome::Allowed), 2, "each bucket once");
    let consumed: Vec<_> = world.limiter.top_consumers(2).keys.into_iter().map(|key| key.count).collect();
    assert_eq!(consumed, [5, 1]);
    assert_eq!(world.limiter.decided(Reason::Ok), 4, "and each decision");
}

#[test]
fn if_one_is_refused_none_is_charged_and_each_says_what_its_own_limits_say() {
    let world = world();
    let free = Request::new().plan("free").cost(Cost::new(4));
    let decisions = world.check(&[user("1", 2), free.clone(), user("2", 10)]);
    let allowed: Vec<bool> = decisions.iter().map(Decision::is_allowed).collect();
    assert_eq!(allowed, [true, false, true]);
    assert_eq!(decisions.iter().map(remaining).collect::<Vec<_>>(), [[10], [3], [10]]);
    assert_eq!(
        (decisions[1].violated_rule(), decisions[1].reason()),
        (Some("all"), Reason::CostExceedsCapacity)
    );
    assert_eq!((world.left(&user("1", 1)), world.left(&free)), (vec![10], vec![3]));
    assert!(world.limiter.top_consumers(9).keys.is_empty(), "nothing was admitted");
    assert_eq!(world.counted("all", RuleOutcome::Denied), 1);
}

#[test]
fn a_smaller_cost_that_would_have_passed_says_so() {
    let world = world();
    let _ = world.limiter.check(&user("1", 6));
    let decisions = world.check(&[user("1", 3), user("1", 5)]);
    assert_eq!((decisions[0].is_allowed(), decisions[1].is_allowed()), (true, false));
    assert_eq!(decisions[1].wait(), Some(Nanos::MINUTE));
    assert_eq!(world.left(&user("1", 1)), [4]);
}

#[test]
fn a_gate_that_refuses_refuses_all_and_one_that_admits_is_not_charged() {
    let world = world();
    let refused = world.check(&[user("1", 1), user("bad", 1)]);
    assert_eq!((refused[0].is_allowed(), refused[1].reason()), (true, Reason::Blocked));
    assert_eq!(remaining(&refused[0]), [10]);
    assert_eq!(world.left(&user("1", 1)), [10]);
    let passed = world.check(&[user("1", 1), user("good", 1)]);
    assert_eq!((passed[0].reason(), passed[1].reason()), (Reason::Ok, Reason::Allowlisted));
    world.limiter.set_kill_switch(true);
    let all = world.check(&[user("1", 99), user("bad", 1)]);
    assert!(all.iter().all(|decision| decision.reason() == Reason::KillSwitch));
}

#[test]
fn what_is_only_watched_refuses_nobody_and_is_charged_if_all_pass() {
    let world = world();
    let watched = Request::new().client("c").user("1");
    let first = world.check(&[watched.clone(), user("2", 1)]);
    assert!(first[0].shadow_denied().next().is_none());
    let second = world.check(&[watched.clone(), user("2", 1)]);
    assert!(second.iter().all(Decision::is_allowed));
    assert_eq!(second[0].shadow_denied().collect::<Vec<_>>(), ["soft"]);
    assert_eq!(world.counted("soft", RuleOutcome::ShadowDenied), 1);
    world.check(&[Request::new().client("d"), user("2", 99)]);
    assert_eq!(world.left(&Request::new().client("d")), [1]);
}

#[test]
fn a_queue_is_not_waited_for() {
    let world = world();
    let route = || Request::new().path("/jobs");
    assert!(world.check(&[route(), user("1", 1)])[0].is_allowed());
    let refused = world.check(&[route(), user("1", 1)]);
    assert_eq!((refused[0].is_allowed(), refused[0].reason()), (false, Reason::TokenBucketExceeded));
    assert_eq!(world.left(&user("1", 1)), [9]);
}

#[test]
fn numbers_of_its_own_replace_the_policys_all_or_nothing_with_the_rest() {
    let world = world();
    let limit = AdHocLimit { capacity: 3, rate: 1, window: Nanos::MINUTE };
    let (own, other) = (user("1", 2), user("2", 1));
    let joint = [
        Joint { request: &own, by: JointBy::AdHoc(limit, b"1") },
        Joint { request: &other, by: JointBy::Policy },
        Joint { request: &other, by: JointBy::AdHoc(limit, b"1") },
    ];
    let check = || world.limiter.check_joint(&joint).unwrap().decisions;
    let left = || {
        world
            .limiter
            .own_ad_hoc()
            .unwrap()
            .peek(b"1", limit, Cost::ONE, world.limiter.clock.now())
            .unwrap()
            .remaining
    };
    let first = check();
    assert!(first.iter().all(Decision::is_allowed));
    assert_eq!((remaining(&first[0]), remaining(&first[2]), left()), (vec![1], vec![1], 1), "charged once");
    assert_eq!(world.left(&own), [10], "the policy's own bucket is left alone");
    let second = check();
    let allowed: Vec<bool> = second.iter().map(Decision::is_allowed).collect();
    assert_eq!(allowed, [false, true, true]);
    assert_eq!((second[0].violated_rule(), left()), (Some("throttle"), 1));
    assert_eq!(world.left(&other), [9], "nothing was charged");
    assert_eq!((world.limiter.ad_hoc_counters().allowed, world.limiter.ad_hoc_counters().denied), (1, 1));

    let bad =
        [Joint { request: &own, by: JointBy::AdHoc(AdHocLimit { capacity: 0, ..limit }, b"1") }, joint[1]];
    assert!(world.limiter.check_joint(&bad).is_err());
    assert_eq!((world.left(&other), world.limiter.decided(Reason::Ok)), (vec![9], 5));
}

#[test]
fn numbers_of_its_own_that_would_have_passed_are_not_counted_as_passed() {
    let world = world();
    let limit = AdHocLimit { capacity: 3, rate: 1, window: Nanos::MINUTE };
    let (own, other) = (user("1", 1), user("2", 99));
    let joint = [
        Joint { request: &own, by: JointBy::AdHoc(limit, b"1") },
        Joint { request: &other, by: JointBy::Policy },
    ];
    let decisions = world.limiter.check_joint(&joint).unwrap().decisions;
    assert_eq!((decisions[0].is_allowed(), decisions[1].is_allowed()), (true, false));
    assert_eq!((world.limiter.ad_hoc_counters().allowed, world.limiter.ad_hoc_counters().denied), (0, 0));
}

#[test]
fn many_buckets_are_each_charged_once() {
    let world = world();
    let names: Vec<String> = (0..100).map(|number| number.to_string()).collect();
    let requests: Vec<_> =
        [1, 3, 2].iter().flat_map(|&cost| names.iter().map(move |n| user(n, cost))).collect();
    assert!(
        world.check(&requests).iter().all(|decision| decision.is_allowed() && remaining(decision) == [7])
    );
    let limit = AdHocLimit { capacity: 10, rate: 1, window: Nanos::MINUTE };
    let own =
        |request| Joint { request, by: JointBy::AdHoc(limit, request.user.as_deref().unwrap().as_bytes()) };
    let joint: Vec<_> = requests.iter().map(own).collect();
    let decisions = world.limiter.check_joint(&joint).unwrap().decisions;
    assert!(decisions.iter().all(|decision| decision.is_allowed() && remaining(decision) == [7]));
}

#[test]
fn threads_never_get_more_than_there_is_and_leave_nothing_behind() {
    let world = world();
    let limit = AdHocLimit { capacity: 4, rate: 1, window: Nanos::HOUR };
    let request = user("1", 1);
    let admitted: usize = std::thread::scope(|scope| {
        let operation = || {
            let both = [
                Joint { request: &request, by: JointBy::Policy },
                Joint { request: &request, by: JointBy::AdHoc(limit, b"k") },
            ];
            let check = || world.limiter.check_joint(&both).unwrap();
            (0..500).filter(|_| check().allowed).count()
        };
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(operation)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    assert_eq!(admitted, 4);
    assert_eq!(world.left(&request), [6], "what refused calls had taken was handed back");
}
