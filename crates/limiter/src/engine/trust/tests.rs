use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use super::*;
use crate::engine::{Decision, Incident, Joint, JointBy, Limiter, Observer, Policy};
use crate::{Clock, Cost, ManualClock, Memory, MemoryOptions};

const DAY: u64 = 86_400;
const TODAY: u64 = 20_000 * DAY;

/// Ten at once per user, five in all for everybody on `/shared`.
const POLICY: &str = "version: 1\nadaptive: { trust: true }\nlimits:\n\
    - { name: per-user, key: [user], sustained: { rate: 1, window: day }, burst: { capacity: 10 } }\n\
    - { name: shared, match: { path: /shared }, key: [path], sustained: { rate: 1, window: day }, burst: { capacity: 5 } }\n";

struct World {
    limiter: Limiter<Memory<ManualClock>, ManualClock>,
    clock: ManualClock,
}

impl World {
    fn new(policy: &str, options: TrustOptions) -> World {
        let clock = ManualClock::new(Nanos::from_secs(TODAY));
        let size = MemoryOptions { max_keys: 1_000, ..MemoryOptions::default() };
        let policy = Policy::parse(policy).unwrap();
        let limiter = Limiter::in_memory(policy, size, clock.clone()).unwrap().with_trust(options);
        World { limiter, clock }
    }

    fn book(&self) -> &TrustBook {
        self.limiter.trust_book().unwrap()
    }

    fn now(&self) -> Nanos {
        self.clock.wall()
    }

    /// The capacity that a request meets, without charging it.
    fn capacity(&self, request: &Request<'_>) -> Option<u32> {
        limit_of(&self.limiter.peek(request))
    }

    /// The score of a user, computed now.
    fn fresh(&self, user: &str) -> TrustScore {
        self.clock.advance(Nanos::from_secs(60));
        self.book().report(user, self.now()).score
    }
}

/// The capacity of the limit that a decision reports.
fn limit_of(decision: &Decision) -> Option<u32> {
    decision.tightest().map(|standing| standing.decision.limit)
}

fn user(name: &str) -> Request<'_> {
    Request::new().user(name)
}

/// Older than 110 days, and verified: 0.5.
fn half() -> AccountFacts {
    let created = Some(Nanos::from_secs(TODAY - 200 * DAY));
    AccountFacts { created, email_verified: Some(true), success_rate: None }
}

#[test]
fn each_source_raises_the_limits_of_its_users() {
    let claims = TrustClaims {
        created: Some("since".to_owned()),
        email_verified: Some("verified".to_owned()),
        success_rate: None,
    };
    let world = World::new(POLICY, TrustOptions { claims, ..TrustOptions::default() });
    assert_eq!(world.capacity(&user("a")), Some(10), "nobody is known");
    world.book().set_facts("a", half(), world.now());
    assert_eq!(world.capacity(&user("a")), Some(15), "the program");
    world.book().replace_listed(HashMap::from([("b".into(), half())]));
    assert_eq!((world.capacity(&user("b")), world.book().listed()), (Some(15), 1), "the list");
    let since = (TODAY - 200 * DAY).to_string();
    let claimed = user("c").claim("since", since.as_str()).claim("verified", "true");
    assert_eq!(world.capacity(&claimed), Some(15), "claims");
    assert_eq!(world.capacity(&user("c")), Some(10), "only with the claims");
    world.book().record_outcomes("d", 3, 1, world.now());
    assert_eq!(world.capacity(&user("d")), Some(13), "outcomes: 0.375 cut to 0.37");
    world.book().replace_listed(HashMap::new());
    assert_eq!(world.capacity(&user("b")), Some(10), "the list has changed");
}

#[test]
fn the_nearest_source_that_knows_a_fact_counts() {
    let claims = TrustClaims { email_verified: Some("verified".to_owned()), ..TrustClaims::default() };
    let world = World::new(POLICY, TrustOptions { claims, ..TrustOptions::default() });
    let rate = |millionths| Some(SuccessRate::from_millionths(millionths));
    let listed = AccountFacts { email_verified: Some(true), success_rate: rate(1_000_000), created: None };
    world.book().replace_listed(HashMap::from([("a".into(), listed)]));
    assert_eq!(world.capacity(&user("a")), Some(17));
    let told = AccountFacts { success_rate: rate(500_000), ..half() };
    world.book().set_facts("a", told, world.now());
    assert_eq!(world.capacity(&user("a")), Some(17), "0.3 of age, 0.2, and 0.25 of success");
    assert_eq!(world.capacity(&user("a").claim("verified", "false")), Some(15), "the claim");
    world.book().record_outcomes("a", 0, 1, world.now());
    assert_eq!(world.fresh("a").success, 0, "outcomes rather than the rate that was told");
    assert_eq!(world.fresh("a").total, 500_000);
}

#[test]
fn accounts_that_are_kept_count_at_once_after_claims_and_before_what_was_told() {
    let claims = TrustClaims { email_verified: Some("verified".to_owned()), ..TrustClaims::default() };
    let world = World::new(POLICY, TrustOptions { claims, max_users: 1, ..TrustOptions::default() });
    let (book, now) = (world.book(), world.now());
    let rate = |millionths| Some(SuccessRate::from_millionths(millionths));
    book.set_facts("a", AccountFacts { success_rate: rate(1_000_000), ..half() }, now);
    assert_eq!(world.capacity(&user("a")), Some(20));
    let facts = AccountFacts { success_rate: rate(500_000), email_verified: Some(false), created: None };
    let mut account = TrustAccount { facts, ..TrustAccount::default() };
    book.set_account("a", Some(account));
    assert_eq!(world.capacity(&user("a")), Some(15), "0.3 of the age that was told, 0.25 of success; cut");
    assert_eq!(world.capacity(&user("a").claim("verified", "true")), Some(17), "the claim");
    account.outcomes.add(1, 0, now);
    book.set_account("a", Some(account));
    assert_eq!(world.capacity(&user("a")), Some(18), "outcomes rather than the rate");
    assert_eq!((book.account("a"), book.account("b")), (Some(account), None));
    let names: Vec<String> = (0..1_000).map(|number| number.to_string()).collect();
    let all = |facts| names.iter().map(move |name| (name.as_str(), TrustAccount { facts, ..account }));
    book.replace_accounts(all(half()));
    assert_eq!((book.accounts(), book.account("a")), (1_000, None));
    assert_eq!(
        (world.capacity(&user("7")), world.capacity(&user("a"))),
        (Some(20), Some(20)),
        "all are kept"
    );
    book.set_account("7", None);
    assert_eq!(world.capacity(&user("7")), Some(10));
    book.replace_accounts(all(AccountFacts::default()).take(10));
    book.set_account("facts", Some(TrustAccount { facts: half(), ..TrustAccount::default() }));
    book.drop_ended_accounts(Nanos::from_secs(TODAY + 7 * DAY - 1));
    assert_eq!(book.accounts(), 11);
    book.drop_ended_accounts(Nanos::from_secs(TODAY + 7 * DAY));
    assert_eq!(book.accounts(), 1);
}

#[test]
fn the_trust_of_a_request_wins_and_the_policy_must_use_it() {
    let world = World::new(POLICY, TrustOptions::default());
    world.book().set_facts("a", half(), world.now());
    assert_eq!(world.capacity(&user("a").trust(Trust::NONE)), Some(10));
    assert_eq!(world.capacity(&user("a").trust(Trust::FULL)), Some(20));
    assert_eq!(world.capacity(&Request::new().client("a").ip([192, 0, 2, 1])), None, "no user, no score");
    let off = World::new(&POLICY.replace("trust: true", "trust: false"), TrustOptions::default());
    off.book().set_facts("a", half(), off.now());
    assert_eq!(off.capacity(&user("a")), Some(10));
    assert_eq!(off.limiter.explain(&user("a")).trust, None);
}

#[test]
fn denials_lower_the_score_for_thirty_days() {
    let world = World::new(POLICY, TrustOptions::default());
    world.book().set_facts("a", half(), world.now());
    for _ in 0..15 {
        assert!(world.limiter.check(&user("a")).is_allowed());
    }
    assert!(!world.limiter.peek(&user("a")).is_allowed());
    assert_eq!(world.fresh("a").penalty, 0, "a peek is no violation");
    assert!(!world.limiter.check(&user("a")).is_allowed());
    assert_eq!((world.fresh("a").penalty, world.fresh("a").total), (50_000, 450_000));
    for _ in 0..9 {
        assert!(!world.limiter.check(&user("a")).is_allowed());
    }
    assert_eq!(world.fresh("a").penalty, 200_000);
    assert_eq!(world.fresh("b").penalty, 0, "only hers");
    world.clock.advance(Nanos::from_secs(30 * DAY - 3_600));
    assert_eq!(world.fresh("a").penalty, 200_000);
    world.clock.advance(Nanos::from_secs(3_600));
    assert_eq!(world.fresh("a").penalty, 0);
}

#[test]
fn denials_by_limits_of_everybody_are_nobodys_violation() {
    let world = World::new(POLICY, TrustOptions::default());
    world.book().set_facts("a", half(), world.now());
    let shared = || user("a").path("/shared");
    let answers: Vec<bool> = (0..7).map(|_| world.limiter.check(&shared()).is_allowed()).collect();
    assert_eq!(answers, [true, true, true, true, true, false, false]);
    assert_eq!(world.fresh("a").penalty, 0);
}

/// Several requests of one batch share a bucket: it is charged, and violated, once.
#[test]
fn requests_that_are_decided_together_violate_a_bucket_once() {
    let world = World::new(POLICY, TrustOptions::default());
    world.book().set_facts("a", half(), world.now());
    assert!(world.limiter.check(&user("a").cost(Cost::new(15))).is_allowed());
    let (a, b) = (user("a"), user("b"));
    let parts = [&a, &a, &b].map(|request| Joint { request, by: JointBy::Policy });
    assert!(!world.limiter.check_joint(&parts).unwrap().allowed);
    assert_eq!(world.fresh("a").penalty, 50_000);
    assert_eq!(world.fresh("b").penalty, 0);
}

#[derive(Debug, Default)]
struct Violators(Mutex<Vec<(String, String)>>);

impl Observer for Violators {
    fn observe(&self, incident: &Incident<'_, '_>) {
        let user = incident.facts.and_then(|facts| facts.request.user.as_deref());
        if let (true, Some(user), Some(limit)) = (incident.is_violation, user, incident.name) {
            self.0.lock().unwrap().push((user.to_owned(), limit.to_owned()));
        }
    }
}

/// If two limits deny a request, it is one violation.
#[test]
fn the_observer_is_told_of_each_violation_once() {
    let policy = "version: 1\nadaptive: { trust: true }\nlimits:\n\
        - { name: first, key: [user], sustained: { rate: 1, window: day }, burst: { capacity: 2 } }\n\
        - { name: second, key: [user], sustained: { rate: 1, window: day }, burst: { capacity: 2 } }\n\
        - { name: all, key: [], sustained: { rate: 1, window: day }, burst: { capacity: 3 } }\n";
    let World { limiter, clock } = World::new(policy, TrustOptions::default());
    let violators = Arc::new(Violators::default());
    let world = World { limiter: limiter.with_observer(Arc::clone(&violators) as Arc<dyn Observer>), clock };
    for name in ["a", "a", "a", "b", "b", "b"] {
        let _ = world.limiter.check(&user(name));
    }
    let told = std::mem::take(&mut *violators.0.lock().unwrap());
    let violations = |name: &str| world.book().report(name, world.now()).inputs.violations_30d;
    world.clock.advance(Nanos::from_secs(60));
    assert_eq!(told, [("a".to_owned(), "first".to_owned())], "the others were denied for the limit of all");
    assert_eq!((violations("a"), violations("b")), (1, 0));
}

#[test]
fn restored_violations_count_like_those_that_were_seen() {
    let [seen, restored] = [(); 2].map(|()| World::new(POLICY, TrustOptions::default()));
    let at = |days: u64| Nanos::from_secs(TODAY - days * DAY);
    for world in [&seen, &restored] {
        world.book().set_facts("a", half(), world.now());
        assert_eq!(world.capacity(&user("a")), Some(15));
    }
    for days in [31, 20, 20, 2] {
        seen.book().record_violation("a", at(days));
    }
    for (days, count) in [(2, 1), (20, 2), (31, 1)] {
        restored.book().restore_violations("a", count, at(days));
    }
    assert_eq!(restored.capacity(&user("a")), Some(13), "at once, not when the score that is kept has ended");
    for _ in 0..40 {
        [&seen, &restored].iter().for_each(|world| world.clock.advance(Nanos::from_secs(DAY)));
        let [seen, restored] = [&seen, &restored].map(|world| world.book().report("a", world.now()));
        assert_eq!(seen, restored);
    }
    restored.book().restore_violations("a", u64::MAX, restored.now());
    assert_eq!(restored.fresh("a").penalty, 200_000);
}

#[test]
fn a_score_is_kept_for_a_while_and_read_as_it_is_used() {
    let world = World::new(POLICY, TrustOptions::default());
    world.book().set_facts("a", half(), world.now());
    assert_eq!(world.capacity(&user("a")), Some(15));
    let used = world.book().report("a", world.now());
    (0..4).for_each(|_| world.book().record_violation("a", world.now()));
    assert_eq!((world.capacity(&user("a")), world.book().report("a", world.now())), (Some(15), used));
    world.clock.advance(Nanos::from_secs(59));
    assert_eq!(world.capacity(&user("a")), Some(15));
    world.clock.advance(Nanos::from_secs(1));
    assert_eq!(world.capacity(&user("a")), Some(13), "computed again");
    assert_eq!(world.book().report("a", world.now()).inputs.violations_30d, 4);
    world.book().set_facts("a", AccountFacts::default(), world.now());
    let unknown = world.book().report("a", world.now());
    assert_eq!(
        (unknown.is_known, unknown.trust(), world.capacity(&user("a"))),
        (false, None, Some(10)),
        "at once"
    );
}

/// A score that another thread began to compute before must not be kept.
#[test]
fn what_is_told_counts_at_once_whatever_others_are_computing() {
    let world = World::new(POLICY, TrustOptions::default());
    let (a, is_done) = (user("a"), AtomicBool::new(false));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_done.load(Ordering::Relaxed) {
                world.capacity(&a);
            }
        });
        for round in 0..20_000 {
            let (facts, capacity) = if round % 2 == 0 { (half(), 15) } else { (AccountFacts::default(), 10) };
            world.book().set_facts("a", facts, world.now());
            let found = world.capacity(&a);
            if found != Some(capacity) {
                is_done.store(true, Ordering::Relaxed);
            }
            assert_eq!(found, Some(capacity), "round {round}");
        }
        is_done.store(true, Ordering::Relaxed);
    });
}

#[test]
fn every_way_to_decide_has_the_same_trust() {
    let world = World::new(POLICY, TrustOptions::default());
    world.book().set_facts("a", half(), world.now());
    let a = user("a");
    assert_eq!(limit_of(&world.limiter.check(&a)), Some(15), "check");
    assert_eq!(limit_of(&world.limiter.refund(&a, Cost::ONE)), Some(15), "refund");
    let entered = world.limiter.enter(&Request::new());
    assert_eq!(limit_of(&world.limiter.check_entered(entered, &a)), Some(15), "in two steps");
    let joint = world.limiter.check_joint(&[Joint { request: &a, by: JointBy::Policy }]).unwrap();
    assert_eq!(limit_of(&joint.decisions[0]), Some(15), "jointly");
    let explained = world.limiter.explain(&a);
    assert_eq!(explained.limits[0].bucket.as_ref().and_then(|bucket| bucket.trust), Some(50));
    assert_eq!(explained.trust.map(|report| report.score.total), Some(500_000), "explain");
    assert_eq!(world.limiter.trust().buckets()[5], 3, "what was decided is counted: all but the refund");
}

#[test]
fn memory_is_bounded_and_what_is_forgotten_is_counted() {
    let world = World::new(POLICY, TrustOptions { max_users: 128, ..TrustOptions::default() });
    for number in 0..10_000 {
        let name = number.to_string();
        world.book().set_facts(&name, half(), world.now());
        world.book().record_violation(&name, world.now());
        assert_eq!(world.capacity(&user(&name)), Some(14));
    }
    let (facts, violations) = world.book().forgotten();
    assert!(facts >= 10_000 - 128 && violations >= 10_000 - 128, "{facts} {violations}");
}
