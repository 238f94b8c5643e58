use std::thread;

use proptest::prelude::*;

use super::*;

#[test]
fn nothing_is_lost_between_threads() {
    let totals = Totals::new(40);
    thread::scope(|scope| {
        for _ in 0..2 * SHARDS {
            scope.spawn(|| (0..4_000).for_each(|n| totals.add(n % 40)));
        }
    });
    assert!((0..40).all(|index| totals.get(index) == 100 * 2 * SHARDS as u64));
}

#[test]
#[should_panic(expected = "counter 3 of 3")]
fn a_counter_that_does_not_exist_is_a_mistake() {
    Totals::new(3).add(3);
}

#[test]
fn outcomes_are_counted_apart() {
    let counters = RuleCounters::new();
    for (times, outcome) in RuleOutcome::ALL.into_iter().enumerate() {
        (0..=times).for_each(|_| counters.count(outcome));
    }
    let seen = counters.snapshot();
    assert_eq!((seen.allowed, seen.denied, seen.shadow_denied), (1, 2, 3));
    assert_eq!((seen.degraded, seen.queued), (4, 5));
    assert_eq!(seen.remaining.count(), 0, "outcomes and shares are kept apart");
    assert_eq!(RuleOutcome::ALL.map(|outcome| seen.get(outcome)), [1, 2, 3, 4, 5]);
    assert_eq!(RuleOutcome::ALL.map(RuleOutcome::as_str)[2], "shadow_denied");
}

#[test]
fn a_share_on_a_bound_belongs_below_it() {
    let cases =
        [(0, 0), (1, 1), (2, 5), (5, 5), (6, 10), (50, 50), (51, 75), (90, 90), (91, 100), (100, 100)];
    for (remaining, bound) in cases {
        let counters = RuleCounters::new();
        counters.count_remaining(remaining, 100);
        let found = counters.snapshot().remaining.buckets().find(|(_, count)| *count == 1);
        assert_eq!(found, Some((bound, 1)), "{remaining} of 100");
    }
}

#[test]
fn shares_are_summed_in_millionths() {
    let counters = RuleCounters::new();
    [(0, 10), (5, 10), (1, 3), (9, 3), (1, 0)]
        .into_iter()
        .for_each(|(remaining, limit)| counters.count_remaining(remaining, limit));
    assert_eq!(counters.snapshot().remaining.sum_millionths(), 500_000 + 333_333 + 1_000_000 + 1_000_000);
}

#[test]
fn odd_shares_have_a_bucket_too() {
    let last = RatioHistogram::BOUNDS_PERCENT.len() - 1;
    assert_eq!(RatioHistogram::bucket(0, 0), last);
    assert_eq!(RatioHistogram::bucket(7, 3), last);
    assert_eq!(RatioHistogram::bucket(u32::MAX, u32::MAX), last);
    assert_eq!(RatioHistogram::bucket(1, u32::MAX), 1, "a little is not nothing");
}

#[test]
fn quantiles_name_the_bound_that_they_stay_within() {
    let counters = RuleCounters::new();
    assert_eq!(counters.snapshot().remaining.quantile(500), None);
    (0..50).for_each(|_| counters.count_remaining(0, 10));
    (0..45).for_each(|_| counters.count_remaining(4, 10));
    (0..5).for_each(|_| counters.count_remaining(10, 10));
    let shares = counters.snapshot().remaining;
    assert_eq!(shares.quantile(0), Some(0));
    assert_eq!(shares.quantile(500), Some(0));
    assert_eq!(shares.quantile(501), Some(50));
    assert_eq!(shares.quantile(950), Some(50));
    assert_eq!(shares.quantile(951), Some(100));
    assert_eq!(shares.quantile(u32::MAX), Some(100));
}

#[test]
fn trust_is_counted_in_tenths() {
    let trust = TrustHistogram::new();
    for hundredths in [0, 1, 10, 11, 95, 100, 255] {
        trust.count(hundredths);
    }
    assert_eq!(trust.buckets(), [1, 2, 1, 0, 0, 0, 0, 0, 0, 0, 3]);
    assert_eq!(trust.sum_hundredths(), 317);
}

proptest! {
    #[test]
    fn a_bucket_holds_what_lies_between_its_bounds(limit in 1_u32.., part: u32) {
        let remaining = part % limit;
        let bucket = RatioHistogram::bucket(remaining, limit);
        let within = |bound: u32| u64::from(remaining) * 100 <= u64::from(bound) * u64::from(limit);
        prop_assert!(within(RatioHistogram::BOUNDS_PERCENT[bucket]));
        prop_assert!(bucket == 0 || !within(RatioHistogram::BOUNDS_PERCENT[bucket - 1]));
    }
}
