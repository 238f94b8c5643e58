use std::collections::HashMap;

use proptest::prelude::*;
use tidegate_core::{Quota, token_bucket};

use super::*;
use crate::ManualClock;

const OPTIONS: MemoryOptions = MemoryOptions { max_keys: 2_000, max_log_entries: 0 };
const START: Nanos = Nanos::from_secs(1_800_000_000);

fn limit(capacity: u32, rate: u64, window: Nanos) -> AdHocLimit {
    AdHocLimit { capacity, rate, window }
}

/// Three different limits.
fn small() -> (AdHocBuckets<ManualClock>, ManualClock) {
    let clock = ManualClock::new(START);
    (AdHocBuckets::with_sets_max(OPTIONS, clock.clone(), 3).unwrap(), clock)
}

#[test]
fn a_bucket_is_its_key_and_its_numbers() {
    let (throttle, _) = small();
    let (two, three) = (limit(2, 1, Nanos::SECOND), limit(3, 1, Nanos::SECOND));
    let left = |key: &[u8], numbers| throttle.take(key, numbers, Cost::ONE, START).unwrap().remaining;
    assert_eq!((left(b"a", two), left(b"a", three), left(b"b", two), left(b"a", two)), (1, 2, 1, 0));
    assert!(!throttle.take(b"a", two, Cost::ONE, START).unwrap().is_allowed());
    assert_eq!((throttle.counters().allowed, throttle.counters().denied), (4, 1));
    assert_eq!(throttle.stats().keys, 3);
}

#[test]
fn what_makes_no_bucket_is_refused() {
    let (throttle, _) = small();
    let good = limit(2, 1, Nanos::SECOND);
    assert_eq!(throttle.take(b"", good, Cost::ONE, START), Err(AdHocError::EmptyKey));
    let zero = throttle.take(b"a", limit(0, 1, Nanos::SECOND), Cost::ONE, START);
    assert_eq!(zero, Err(AdHocError::Numbers(QuotaError::ZeroCapacity)));
    assert_eq!(throttle.sets.len(), 0, "a refused limit is not registered");
}

#[test]
fn peeks_and_refunds() {
    let (throttle, _) = small();
    let numbers = limit(5, 1, Nanos::SECOND);
    let _ = throttle.take(b"a", numbers, Cost::new(4), START).unwrap();
    assert_eq!(throttle.peek(b"a", numbers, Cost::ONE, START).unwrap().remaining, 1);
    assert_eq!(throttle.refund(b"a", numbers, Cost::new(2), START).unwrap().remaining, 3);
    assert_eq!(throttle.refund(b"a", numbers, Cost::new(9), START).unwrap().remaining, 5);
    assert_eq!(throttle.counters().allowed, 1);
}

#[test]
fn a_decision_names_the_limit_and_has_headers() {
    let (throttle, _) = small();
    let numbers = limit(1, 1, Nanos::MINUTE);
    assert!(throttle.check(b"a", numbers, Cost::ONE).unwrap().is_allowed());
    let denied = throttle.check(b"a", numbers, Cost::ONE).unwrap();
    assert_eq!(
        (denied.violated_rule(), denied.violated_tier().unwrap().as_str()),
        (Some("throttle"), "custom")
    );
    assert_eq!(denied.wait(), Some(Nanos::MINUTE));
    let mut names = Vec::new();
    denied.headers(|name, _| names.push(name));
    assert!(names.contains(&"x-ratelimit-limit") && names.contains(&"retry-after"), "{names:?}");
    let never = throttle.check(b"a", numbers, Cost::new(2)).unwrap();
    assert_eq!((never.reason(), never.wait()), (Reason::CostExceedsCapacity, None));
}

#[test]
fn numbers_without_end_are_refused_when_none_are_idle_and_taken_when_they_are() {
    let (throttle, clock) = small();
    let take = |capacity: u32| throttle.take(b"a", limit(capacity, 1, Nanos::SECOND), Cost::ONE, clock.now());
    for capacity in 1..=3 {
        assert!(take(capacity).unwrap().is_allowed());
    }
    let refused = take(4).unwrap_err();
    assert_eq!(refused, AdHocError::TooMany(2));
    assert!(refused.to_string().starts_with("more than 2 different ad hoc limits"), "{refused}");
    assert!(!take(1).unwrap().is_allowed(), "limits in use still decide");
    clock.advance(Nanos::from_millis(2_999));
    assert!(take(4).is_err(), "idle after a second to fill and two of grace");
    clock.advance(Nanos::from_millis(1));
    assert!(take(4).is_ok());
    assert_eq!(throttle.sets.len(), 3, "the others are not full yet");
    assert_eq!(take(2).unwrap().remaining, 1, "in three seconds its bucket has filled, but it is there");
    for capacity in 100..10_000 {
        clock.advance(Nanos::from_secs(10_000));
        assert!(take(capacity).unwrap().is_allowed());
        assert!(throttle.sets.len() <= 3 && throttle.stats().keys <= 3);
    }
}

#[test]
fn numbers_in_constant_use_lose_nothing_and_lock_nobody_out() {
    let clock = ManualClock::new(START);
    let throttle = AdHocBuckets::new(OPTIONS, clock.clone()).unwrap();
    let busy = |number: u64| limit(1_000_000, 1 + number, Nanos::HOUR);
    let mut taken = 0;
    for round in 0..300_000_u32 {
        clock.advance(Nanos::from_millis(1));
        let other = limit(1 + round, 1_000_000_000, Nanos::SECOND);
        assert!(throttle.take(b"a", other, Cost::ONE, clock.now()).unwrap().is_allowed(), "round {round}");
        if round % 20_000 == 0 {
            taken += 1;
            for number in 0..4 {
                let said = throttle.take(b"a", busy(number), Cost::ONE, clock.now()).unwrap();
                assert_eq!(said.remaining, 1_000_000 - taken, "round {round}");
            }
        }
    }
    assert!(throttle.sets.len() <= SETS_MAX);
    assert!(throttle.sets.numbers() <= SETS_MAX, "version numbers are reused");
}

#[test]
fn a_set_that_comes_back_starts_with_full_buckets_of_its_own() {
    let (throttle, clock) = small();
    let take = |numbers, cost| throttle.take(b"a", numbers, Cost::new(cost), clock.now()).unwrap();
    let first = limit(5, 1, Nanos::SECOND);
    assert!(take(first, 5).is_allowed());
    clock.advance(Nanos::from_secs(7));
    let hour = |capacity| limit(capacity, 1, Nanos::HOUR);
    for capacity in 1..=3 {
        assert_eq!(
            take(hour(capacity), capacity).remaining,
            0,
            "whichever limit had its version number before"
        );
    }
    assert_eq!(throttle.peek(b"a", first, Cost::ONE, clock.now()), Err(AdHocError::TooMany(2)));
    clock.advance(Nanos::from_secs(3_602));
    assert_eq!(take(first, 1).remaining, 4);
    assert_eq!(take(hour(3), 1).remaining, 0, "an hour refills one token");
}

#[test]
fn a_size_that_cannot_be_reserved_is_an_error_that_names_it() {
    let options = MemoryOptions { max_keys: usize::MAX / 64, max_log_entries: 0 };
    let error = AdHocBuckets::new(options, ManualClock::new(START)).unwrap_err();
    assert!(matches!(error, MemoryError::Allocate { .. }), "{error}");
    assert!(error.to_string().contains("bytes for 288230376151711743 keys"), "{error}");
}

#[test]
fn threads_that_bring_new_numbers_do_not_disturb_each_other() {
    let throttle = AdHocBuckets::with_sets_max(OPTIONS, MonotonicClock::new(), 3).unwrap();
    let numbers = limit(100, 1, Nanos::HOUR);
    let admitted: u32 = std::thread::scope(|scope| {
        let count = |seed: u32| {
            let throttle = &throttle;
            move || {
                let mut admitted = 0;
                for n in 0..2_000 {
                    let now = throttle.sets.clock().now();
                    // A nanosecond to fill: idle a second or two after its use.
                    let other = limit(1, 1_000_000_000 - u64::from(seed * 2_000 + n), Nanos::SECOND);
                    let _ = throttle.take(b"a", other, Cost::ONE, now);
                    admitted += u32::from(throttle.take(b"a", numbers, Cost::ONE, now).unwrap().is_allowed());
                }
                admitted
            }
        };
        let threads: Vec<_> = (0..4).map(|seed| scope.spawn(count(seed))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    assert_eq!(admitted, 100);
}

proptest! {
    /// Every decision is that of a bucket that was never removed.
    #[test]
    fn moving_neither_refills_nor_takes(
        steps in prop::collection::vec((0_usize..14, 0_u32..3, 1_u32..6, 0_u64..6_000_000_000), 1..400),
    ) {
        let (throttle, clock) = small();
        let mut buckets: HashMap<(usize, u32), u64> = HashMap::new();
        for (number, key, cost, pause) in steps {
            clock.advance(Nanos::new(if pause > 3_000_000_000 { pause } else { pause % 1_000 }));
            let now = clock.now();
            let numbers = limit(5, 1 + number as u64, Nanos::SECOND);
            let quota = Quota::new(numbers.rate, numbers.window, numbers.capacity).unwrap();
            let answer = throttle.take(&key.to_le_bytes(), numbers, Cost::new(cost), now);
            let Ok(decision) = answer else {
                prop_assert_eq!(answer, Err(AdHocError::TooMany(2)));
                continue;
            };
            let state = buckets.entry((number, key)).or_default();
            let (expected, next) = token_bucket::take(*state, &quota, Cost::new(cost), now);
            *state = next.unwrap_or(*state);
            prop_assert_eq!(decision, expected);
        }
    }
}
