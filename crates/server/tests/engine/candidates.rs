//! A candidate decides as a replay by its policy alone would, and changes nothing for anybody.

use std::sync::Arc;

use proptest::test_runner::{Config, TestCaseError, TestError, TestRunner};
use serde_json::Value;
use tidegate::engine::beside::{Candidate, ComparisonTotals};
use tidegate::engine::{Joint, JointBy, Limiter, OverrideRule, Overrides, Policy, Reason, Request, RuleSet};
use tidegate::{Cost, ManualClock, Memory, MemoryOptions, Nanos, OverrideNumbers};
use tidegate_policy::Descriptor;
use tidegate_server::replay::run_text;
use tidegate_server::wire::trace_line;

use crate::engine::Case;
use crate::generate::case;
use crate::keys::done;
use crate::properties::{cases, on_large_stack};

type Virtual = Limiter<Memory<ManualClock>, ManualClock>;
type Tried = Arc<Candidate<Memory<ManualClock>, ManualClock>>;

const OPTIONS: MemoryOptions = MemoryOptions { max_keys: 1_000, max_log_entries: 4_000 };

/// A limiter by a policy, as `case` sets it.
fn limiter(policy: &Value, case: &Case, clock: &ManualClock) -> Result<Virtual, String> {
    let policy = Policy::parse(&policy.to_string()).map_err(|error| error.to_string())?;
    let limiter = Limiter::in_memory(policy, OPTIONS, clock.clone()).map_err(|error| error.to_string())?;
    limiter.set_invalid_credentials(case.invalid());
    Ok(limiter)
}

/// A candidate beside a limiter.
fn beside(limiter: &Virtual, policy: &str) -> Result<Tried, String> {
    let policy = Policy::parse(policy).map_err(|error| error.to_string())?;
    let store = Memory::with_clock(OPTIONS, limiter.clock().clone()).map_err(|error| error.to_string())?;
    let candidate = limiter.candidate(policy, store, "candidate: ", Box::new(|_| false));
    let candidate = Arc::new(candidate.map_err(|error| error.to_string())?);
    limiter.set_candidates(std::slice::from_ref(&candidate));
    Ok(candidate)
}

fn count(totals: &mut ComparisonTotals, live: bool, tried: bool) {
    *match (live, tried) {
        (true, true) => &mut totals.both_admit,
        (false, false) => &mut totals.both_deny,
        (true, false) => &mut totals.newly_denied,
        (false, true) => &mut totals.newly_admitted,
    } += 1;
}

/// Resets the keys of a request, or grants them some tokens.
fn act_on(limiter: &Virtual, request: &Request<'_>, step: usize) {
    done(match step % 8 {
        3 => limiter.grant_async(request, Cost::new(2), &|_| true),
        _ => limiter.reset_async(request, &|_| true),
    });
}

fn check_pair(one: &Case, other: &Case) -> Result<(), String> {
    let clock = ManualClock::new(Nanos::ZERO);
    let alone = limiter(&one.policy, one, &clock)?;
    let accompanied = limiter(&one.policy, one, &clock)?;
    let replay = limiter(&other.policy, one, &clock)?;
    let candidate = beside(&accompanied, &other.policy.to_string())?;
    let mut expected = ComparisonTotals::default();
    for (step, line) in one.trace.iter().enumerate() {
        let text = line.to_string();
        let asked = trace_line(&text).map_err(|error| error.to_string())?;
        clock.set(asked.at);
        if step % 4 == 3 {
            let earlier = one.trace[step / 2].to_string();
            let earlier = trace_line(&earlier).map_err(|error| error.to_string())?.request;
            for limiter in [&alone, &accompanied, &replay] {
                act_on(limiter, &earlier, step);
            }
        }
        let without = alone.take_place_at(&asked.request, asked.at);
        let with = accompanied.take_place_at(&asked.request, asked.at);
        if with.to_json() != without.to_json() {
            return Err(format!("{one:?}\n{text}\nalone: {without:?}\nwith:  {with:?}"));
        }
        let tried = replay.take_place_at(&asked.request, asked.at);
        count(&mut expected, with.is_allowed(), tried.is_allowed());
    }
    let found = candidate.report().snapshot();
    if found.totals != expected {
        return Err(format!("{one:?}\n{other:?}\nfound {:?}, expected {expected:?}", found.totals));
    }
    let sum = |found: &tidegate::engine::beside::DifferingDecisions| {
        found.by_rule.values().sum::<u64>() + found.by_others
    };
    if (sum(&found.newly_denied), sum(&found.newly_admitted))
        != (expected.newly_denied, expected.newly_admitted)
    {
        return Err(format!("{one:?}\n{other:?}\nis counted otherwise by limit: {found:?}"));
    }
    let counted = |limiter: &Virtual| Reason::ALL.map(|reason| limiter.decided(reason));
    if counted(&alone) != counted(&accompanied) {
        return Err(format!("{one:?}\n{other:?}\nthe candidate's decisions are counted as the limiter's"));
    }
    Ok(())
}

#[test]
fn a_report_equals_a_replay_and_no_decision_changes() {
    // Two random policies at once.
    on_large_stack(check_pairs);
}

fn check_pairs() {
    let config = Config {
        cases: cases() / 4,
        source_file: Some(file!()),
        max_shrink_iters: 4_000,
        ..Config::default()
    };
    let ran = TestRunner::new(config)
        .run(&(case(), case()), |(one, other)| check_pair(&one, &other).map_err(TestCaseError::fail));
    match ran {
        Ok(()) => {}
        Err(TestError::Fail(reason, _)) => panic!("{reason}"),
        Err(error) => panic!("{error}"),
    }
}

const LIVE: &str = "version: 1\nlimits: [{ name: a, key: [user], sustained: { rate: 10 } }]\n";
const STRICTER: &str = "version: 1\nlimits: [{ name: b, key: [user], sustained: { rate: 2 } }]\n";

fn started(live: &str, tried: &str) -> (Virtual, Tried, ManualClock) {
    let clock = ManualClock::new(Nanos::SECOND);
    let policy = Policy::parse(live).expect("a policy");
    let limiter = Limiter::in_memory(policy, OPTIONS, clock.clone()).expect("a limiter");
    let candidate = beside(&limiter, tried).expect("a candidate");
    (limiter, candidate, clock)
}

#[test]
fn a_report_equals_what_simulate_says_of_the_same_trace() {
    let trace: String =
        (0..40).map(|n| format!("{{\"at_ms\":{},\"user\":\"{}\"}}\n", n * 50, n % 3)).collect();
    let (limiter, candidate, clock) = started(LIVE, STRICTER);
    for line in trace.lines() {
        let asked = trace_line(line).expect("a line");
        clock.set(asked.at.max(Nanos::SECOND));
        let _ = limiter.take_place_at(&asked.request, asked.at);
    }
    let allowed = |policy| {
        let decisions = run_text(policy, &trace).expect("it runs");
        decisions.lines().map(|line| line.contains("\"allowed\":true")).collect::<Vec<bool>>()
    };
    let mut expected = ComparisonTotals::default();
    for (live, tried) in allowed(LIVE).into_iter().zip(allowed(STRICTER)) {
        count(&mut expected, live, tried);
    }
    assert_eq!(candidate.report().totals(), expected);
    assert!(expected.newly_denied > 0 && expected.both_admit > 0, "{expected:?}");
}

#[test]
fn a_report_shows_limits_keys_and_examples() {
    let (limiter, candidate, _) = started(LIVE, STRICTER);
    for _ in 0..5 {
        let _ = limiter.check(&Request::new().user("42").method("GET").path("/videos?token=secret"));
    }
    let found = candidate.report().snapshot().newly_denied;
    assert_eq!(found.by_rule.iter().map(|(name, n)| (&**name, *n)).collect::<Vec<_>>(), [("b", 3)]);
    assert_eq!((&*found.keys[0].rule, &*found.keys[0].key, found.keys[0].count), ("b", "42", 3));
    let example = &found.examples[0];
    assert_eq!((example.user.as_deref(), example.path.as_deref()), (Some("42"), Some("/videos")));
    assert_eq!((example.live.allowed, example.candidate.rule.as_deref()), (true, Some("b")));
    assert_eq!(found.examples.len(), 3);
}

#[test]
fn a_report_is_bounded() {
    let (limiter, candidate, clock) = started("version: 1\nlimits: []\n", {
        "version: 1\nlimits: [{ name: b, key: [user], sustained: { rate: 1, window: hour } }]\n"
    });
    for n in 0..500_u64 {
        let user = format!("{n}{}", "x".repeat(1_000));
        let request = Request::new().user(&*user).path(&*user);
        for _ in 0..2 {
            let _ = limiter.check(&request);
        }
        clock.set(Nanos::from_secs(2 + n));
    }
    let found = candidate.report().snapshot().newly_denied;
    assert_eq!((found.by_rule["b"], found.examples.len(), found.keys.len()), (500, 32, 64));
    let shown = |example: &tidegate::engine::beside::ComparedExample| {
        example.path.as_deref().is_some_and(|path| path.chars().count() == 128)
    };
    assert!(found.examples.iter().all(shown));
    let newest = found.examples.last().and_then(|example| example.user.clone());
    assert!(newest.is_some_and(|user| user.starts_with("499x")), "new examples take the place of old ones");
}

#[test]
fn what_holds_for_the_policy_in_force_holds_for_a_candidate() {
    let (limiter, candidate, _) = started(LIVE, "version: 1\nlimits: []\nblock: [{ user: good }]\n");
    let gates = "version: 1\nlimits: []\nblock: [{ user: bad }]\nallow: [{ user: [good, new] }]\n";
    limiter.set_live_gates(Some(Policy::parse(gates).expect("live entries")));
    let ask = |user: &str| limiter.check(&Request::new().user(user)).is_allowed();
    assert_eq!(["bad", "good", "new"].map(ask), [false, true, true]);
    let totals = candidate.report().totals();
    assert_eq!(
        (totals.both_deny, totals.both_admit, totals.newly_denied),
        (1, 1, 1),
        "its block comes first"
    );

    limiter.set_kill_switch(true);
    assert!(["bad", "good"].map(ask).iter().all(|allowed| *allowed));
    let killed = candidate.report().totals();
    assert_eq!((killed.both_admit, killed.newly_denied), (3, 1), "both are switched off");

    // One that is added later finds what holds.
    let later = beside(&limiter, LIVE).expect("a candidate");
    assert!(ask("bad"));
    assert_eq!(later.report().totals().both_admit, 1);
}

#[test]
fn overrides_hold_for_a_candidate_and_are_not_used_by_it() {
    let (limiter, candidate, _) =
        started(LIVE, "version: 1\nlimits: [{ name: b, sustained: { rate: 2 } }]\n");
    let who = Policy::parse("version: 1\nlimits: []\nblock: [{ user: big }]\n").expect("conditions");
    let who = RuleSet::from(who).block().entries()[0].clone();
    let used = Arc::default();
    let doubled = OverrideRule::new("o", "b", OverrideNumbers::Times(200), who, Arc::clone(&used));
    limiter.set_overrides(Some(Overrides::new([doubled])));
    (0..5).for_each(|_| assert!(limiter.check(&Request::new().user("big")).is_allowed()));
    let totals = candidate.report().totals();
    assert_eq!((totals.both_admit, totals.newly_denied), (4, 1), "two, and two more");
    assert_eq!(used.last_used(), None, "no request was decided by it");
    limiter.set_overrides(None);
    assert!(limiter.check(&Request::new().user("big")).is_allowed());
    assert_eq!(candidate.report().totals().newly_denied, 2);
}

#[test]
fn a_candidate_that_is_the_policy_itself_differs_in_nothing() {
    let slow = "version: 1\nlimits: [{ name: a, key: [user], sustained: { rate: 2, window: hour } }]\n";
    let (limiter, candidate, clock) = started(slow, slow);
    let request = Request::new().user("big");
    let admitted = |most: usize| (0..most).filter(|_| limiter.check(&request).is_allowed()).count();
    assert_eq!(admitted(4), 2);
    done(limiter.grant_async(&request, Cost::ONE, &|_| true));
    assert_eq!(admitted(4), 1, "granted");
    done(limiter.reset_async(&request, &|_| true));
    assert_eq!(admitted(4), 2, "reset");
    let who = Policy::parse("version: 1\nlimits: []\nblock: [{ user: big }]\n").expect("conditions");
    let who = RuleSet::from(who).block().entries()[0].clone();
    let raised = OverrideRule::new("o", "a", OverrideNumbers::Times(10_000), who, Arc::default());
    limiter.set_overrides(Some(Overrides::new([raised])));
    done(limiter.renumber_async("a", &[Descriptor::User], &request));
    clock.advance(Nanos::MINUTE);
    assert_eq!(admitted(9), 3, "two hundred an hour");
    let totals = candidate.report().totals();
    assert_eq!((totals.newly_denied, totals.newly_admitted, totals.both_admit), (0, 0, 8));
}

#[test]
fn what_is_carried_of_a_request_has_what_the_keys_of_a_candidate_depend_on() {
    let (limiter, _candidate, _) =
        started(LIVE, "version: 1\nlimits: [{ name: a, key: [user, ip], sustained: { rate: 2 } }]\n");
    let [ip, other] =
        ["203.0.113.7", "203.0.113.8"].map(|text| text.parse::<std::net::IpAddr>().expect("an address"));
    let whole = Request::new().user("42").ip(ip).path("/orders");
    assert!(
        limiter.touch_the_same(&whole, &Request::new().user("42").ip(ip), &|_| true),
        "nobody counts by path"
    );
    assert!(
        !limiter.touch_the_same(&whole, &Request::new().user("42"), &|_| true),
        "the candidate counts by address"
    );
    assert!(!limiter.touch_the_same(&whole, &Request::new().user("42").ip(other), &|_| true));
}

#[test]
fn peeks_are_not_compared_and_refunds_are_followed() {
    let (limiter, candidate, _) = started(LIVE, STRICTER);
    let request = Request::new().user("42");
    let _ = limiter.peek(&request);
    assert_eq!(candidate.report().totals(), ComparisonTotals::default());
    for _ in 0..2 {
        assert!(limiter.check(&request).is_allowed());
    }
    let _ = limiter.refund(&request, Cost::ONE);
    assert!(limiter.check(&request).is_allowed());
    assert_eq!(candidate.report().totals().both_admit, 3, "the candidate got the token back, too");
}

#[test]
fn requests_that_are_decided_together_are_compared_once() {
    let (limiter, candidate, _) = started(LIVE, STRICTER);
    let requests = [Request::new().user("1"), Request::new().user("2")];
    let joint = requests.each_ref().map(|request| Joint { request, by: JointBy::Policy });
    for _ in 0..3 {
        assert!(limiter.check_joint(&joint).expect("no ad hoc bucket").allowed);
    }
    let totals = candidate.report().totals();
    assert_eq!((totals.both_admit, totals.newly_denied), (2, 1));
}

#[test]
fn a_client_that_is_refused_before_it_is_identified_is_compared_if_it_can_be() {
    let blocks = "version: 1\nlimits: []\nblock: [{ ip: 203.0.113.7 }]\n";
    let request = Request::new().ip([203, 0, 113, 7]);
    for (tried, both_deny, not_compared) in [(blocks, 1, 0), (LIVE, 0, 1)] {
        let (limiter, candidate, _) = started(blocks, tried);
        assert!(!limiter.check_entered(limiter.enter(&request), &request).is_allowed());
        let totals = candidate.report().totals();
        assert_eq!((totals.both_deny, totals.not_compared), (both_deny, not_compared), "{tried}");
    }
    let (limiter, candidate, _) = started(LIVE, blocks);
    assert!(limiter.check_entered(limiter.enter(&request), &request).is_allowed());
    assert_eq!(candidate.report().totals().newly_denied, 1);
}
