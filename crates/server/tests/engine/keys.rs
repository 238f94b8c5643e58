//! Resetting keys and granting tokens, against a naive model: neither lets more through than it says.

use proptest::prelude::*;
use tidegate::engine::{Limiter, Policy, Request, TouchedLimit};
use tidegate::{Clock, Cost, ManualClock, MemoryOptions, Nanos, NowOrLater};
use tidegate_policy::Rule;
use tidegate_server::wire::trace_line;

use crate::engine::Case;
use crate::model::Model;
use crate::properties::{cases, check};

/// Ten an hour in every algorithm, for each user.
const POLICY: &str = "version: 1
limits:
- { name: bucket, key: [user], match: { path: /bucket }, sustained: { rate: 10, window: hour } }
- { name: sliding, key: [user], match: { path: /sliding }, algorithm: sliding_window, sustained: { rate: 10, window: hour } }
- { name: fixed, key: [user], match: { path: /fixed }, algorithm: fixed_window, sustained: { rate: 10, window: hour } }
- { name: log, key: [user], match: { path: /log }, algorithm: sliding_log, sustained: { rate: 10, window: hour } }
";
const NAMES: [&str; 4] = ["bucket", "sliding", "fixed", "log"];
const CAPACITY: u32 = 10;
const HOUR_MILLIS: u64 = 3_600_000;

#[derive(Clone, Debug)]
enum Step {
    Take(u32),
    Grant(u32),
    Reset,
    /// Milliseconds.
    Wait(u64),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (0_u32..5).prop_map(Step::Take),
        2 => (1_u32..15).prop_map(Step::Grant),
        1 => Just(Step::Reset),
        1 => (1_u64..2_000_000).prop_map(Step::Wait),
    ]
}

/// Memory answers at once.
pub(crate) fn done<E: std::fmt::Debug>(answer: NowOrLater<'_, Result<(), E>>) {
    match answer {
        NowOrLater::Now(answer) => answer.expect("memory always answers"),
        NowOrLater::Later(_) => panic!("memory answers at once"),
    }
}

fn new_limiter() -> (Limiter<tidegate::Memory<ManualClock>, ManualClock>, ManualClock) {
    let clock = ManualClock::new(Nanos::from_secs(1_800_000_000));
    let policy = Policy::parse(POLICY).expect("a policy");
    let options = MemoryOptions { max_keys: 1_000, ..MemoryOptions::default() };
    (Limiter::in_memory(policy, options, clock.clone()).expect("a limiter"), clock)
}

/// Random policies, of which every few requests the buckets of an earlier one are reset: the engine decides as the model
/// does, which knows a reset bucket as one that nobody has used.
#[test]
fn after_a_reset_the_engine_decides_as_the_model_does() {
    check(cases() / 2, |case| {
        if case.policy.to_string().contains("\"queue\"") {
            // A request that waits is admitted later than it is decided here.
            return Ok(());
        }
        let case = &Case { trust: None, ..case.clone() };
        let policy = Policy::parse(&case.policy.to_string()).map_err(|error| error.to_string())?;
        let clock = ManualClock::new(Nanos::ZERO);
        let options = MemoryOptions { max_keys: 1_000, ..MemoryOptions::default() };
        let limiter =
            Limiter::in_memory(policy, options, clock.clone()).map_err(|error| error.to_string())?;
        limiter.set_invalid_credentials(case.invalid());
        let mut model = Model::new(case);
        for (step, line) in case.trace.iter().enumerate() {
            let text = line.to_string();
            let asked = trace_line(&text).map_err(|error| error.to_string())?;
            clock.set(asked.at);
            if step % 3 == 2 {
                let earlier = &case.trace[step / 2];
                let earlier_text = earlier.to_string();
                let reset = trace_line(&earlier_text).map_err(|error| error.to_string())?;
                done(limiter.reset_async(&reset.request, &|_| true));
                model.reset(earlier);
            }
            let found = limiter.check_at(&asked.request, asked.at).to_json();
            let mut found: serde_json::Value =
                serde_json::from_str(&found).map_err(|error| error.to_string())?;
            found["at_ms"] = line["at_ms"].clone();
            let expected = model.decide(line);
            if found != expected {
                return Err(format!("{case:?}\nstep {step}: {text}\nengine: {found}\nmodel:  {expected}"));
            }
        }
        Ok(())
    });
}

proptest! {
    /// While time stands still, every algorithm is a counter.
    #[test]
    fn resets_and_grants_do_exactly_what_they_say(
        which in 0_usize..4,
        steps in proptest::collection::vec(step(), 1..60),
    ) {
        let (limiter, _clock) = new_limiter();
        let path = format!("/{}", NAMES[which]);
        let request = |cost: u32| Request::new().user("1").path(&*path).cost(Cost::new(cost));
        let (mut left, all) = (CAPACITY, |_: &Rule| true);
        for step in steps {
            match step {
                Step::Take(cost) => {
                    prop_assert_eq!(limiter.check(&request(cost)).is_allowed(), cost <= left);
                    left -= if cost <= left { cost } else { 0 };
                }
                Step::Grant(tokens) => {
                    done(limiter.grant_async(&request(1), Cost::new(tokens), &all));
                    left = CAPACITY.min(left + tokens);
                }
                Step::Reset => {
                    done(limiter.reset_async(&request(1), &all));
                    left = CAPACITY;
                }
                Step::Wait(_) => {}
            }
            prop_assert_eq!(limiter.peek(&request(0)).tightest().map(|limit| limit.decision.remaining), Some(left));
        }
    }

    /// While time passes, what is admitted is bounded by what the limit admits by itself and what grants and resets have put
    /// into the bucket; and another key has nothing of it.
    #[test]
    fn resets_and_grants_never_let_more_through(
        which in 0_usize..4,
        steps in proptest::collection::vec(step(), 1..80),
    ) {
        let (limiter, clock) = new_limiter();
        let path = format!("/{}", NAMES[which]);
        let request = |cost: u32| Request::new().user("1").path(&*path).cost(Cost::new(cost));
        let other = Request::new().user("2").path(&*path).cost(Cost::new(CAPACITY));
        prop_assert!(limiter.check(&other).is_allowed());
        let left = || {
            let peeked = limiter.peek(&request(0));
            u64::from(peeked.tightest().expect("the limit applies").decision.remaining)
        };
        let (mut admitted, mut given, mut waited, begin) = (0_u64, 0_u64, 0_u64, clock.now());
        for step in steps {
            match step {
                Step::Take(cost) => {
                    if limiter.check(&request(cost)).is_allowed() {
                        admitted += u64::from(cost);
                    }
                }
                Step::Grant(tokens) => {
                    let before = left();
                    done(limiter.grant_async(&request(1), Cost::new(tokens), &|_| true));
                    let most = u64::from(CAPACITY).min(before + u64::from(tokens));
                    // What is taken from the count of the window before weighs less than a token now, and is rounded down.
                    prop_assert!(left() == most || NAMES[which] == "sliding" && left() <= most);
                    given += most - before;
                }
                Step::Reset => {
                    let before = left();
                    done(limiter.reset_async(&request(1), &|_| true));
                    prop_assert_eq!(left(), u64::from(CAPACITY));
                    given += left() - before;
                }
                Step::Wait(millis) => {
                    waited += millis;
                    clock.set(begin.saturating_add(Nanos::from_millis(waited)));
                }
            }
        }
        // A bucket fills all the time, the others admit their limit in each window; the clock begins with a window.
        let by_itself = match NAMES[which] {
            "bucket" => u64::from(CAPACITY) + waited * u64::from(CAPACITY) / HOUR_MILLIS,
            _ => u64::from(CAPACITY) * (waited / HOUR_MILLIS + 1),
        };
        prop_assert!(admitted <= by_itself + given, "{} by {} and {}", admitted, by_itself, given);
        if waited == 0 {
            prop_assert!(!limiter.check(&Request::new().user("2").path(&*path)).is_allowed());
        }
    }
}

#[test]
fn only_the_chosen_limits_are_reset() {
    let policy = "version: 1
limits:
- { name: a, key: [user], sustained: { rate: 2, window: hour } }
- { name: b, key: [user], sustained: { rate: 2, window: hour } }
";
    let limiter = Limiter::new(Policy::parse(policy).expect("a policy")).expect("a limiter");
    let request = Request::new().user("1").cost(Cost::new(2));
    assert!(limiter.check(&request).is_allowed());
    let only_a = |rule: &Rule| &*rule.name == "a";
    assert_eq!(limiter.limits_of(&request, &only_a), [TouchedLimit { name: "a".into(), is_shared: false }]);
    done(limiter.reset_async(&request, &only_a));
    let left: Vec<u32> = limiter.peek(&request).limits().map(|limit| limit.decision.remaining).collect();
    assert_eq!(left, [2, 0]);
}
