//! Which numbers are accepted: all within the range, and no others.

use num_traits::Zero;
use proptest::prelude::*;
use tidegate_core::{LogQuota, Nanos, Quota, WindowQuota};

use crate::cases;
use crate::exact::{ratio, whole};
use crate::quotas::{LONGEST, SLOWEST_TOKEN, up_to};

/// A rate from one in 366 days to 10⁹ a second, over at most 200 years.
fn is_rate(tokens: u64, window: u64) -> bool {
    if tokens.is_zero() || window.is_zero() || window > LONGEST {
        return false;
    }
    let rate = ratio(tokens, window);
    rate >= ratio(1, SLOWEST_TOKEN) && rate <= whole(1)
}

/// A rate, and a capacity that it fills within 200 years.
fn is_bucket(tokens: u64, window: u64, capacity: u32) -> bool {
    let fills = || whole(capacity) / ratio(tokens, window) <= whole(LONGEST);
    capacity > 0 && is_rate(tokens, window) && fills()
}

/// Numbers around a point, and zero.
fn around(point: u64) -> impl Strategy<Value = u64> {
    prop_oneof![8 => (-2_i64..=2).prop_map(move |off| point.saturating_add_signed(off)), 1 => Just(0)]
}

/// Tokens and a window on both sides of every edge of a rate.
fn rate(most: u64) -> impl Strategy<Value = (u64, u64)> {
    let window = prop_oneof![up_to(u64::MAX), up_to(LONGEST), around(LONGEST), around(SLOWEST_TOKEN)];
    let free = (prop_oneof![up_to(most), around(most)], window);
    let fastest = up_to(most).prop_flat_map(|tokens| (Just(tokens), around(tokens)));
    let slowest = up_to(most.min(200))
        .prop_flat_map(|tokens| (Just(tokens), around(tokens.saturating_mul(SLOWEST_TOKEN))));
    prop_oneof![free, fastest, slowest]
}

/// Capacities on both sides of what fills in 200 years.
fn capacity((tokens, window): (u64, u64)) -> impl Strategy<Value = u32> {
    let most = u128::from(LONGEST) * u128::from(tokens) / u128::from(window.max(1));
    let most = u64::try_from(most).unwrap_or(u64::MAX);
    prop_oneof![up_to(u64::from(u32::MAX)), around(most)]
        .prop_map(|capacity| u32::try_from(capacity).unwrap_or(u32::MAX))
}

/// A rate, and a capacity on both sides of what it fills in 200 years.
fn bucket() -> impl Strategy<Value = (u64, u64, u32)> {
    let free = rate(u64::MAX).prop_flat_map(|rate| (Just(rate.0), Just(rate.1), capacity(rate)));
    // The rate over 100 years, filled twice.
    let to_the_nanosecond = (100..=u32::MAX / 2).prop_flat_map(|tokens| {
        let window = around(LONGEST / 2);
        (Just(u64::from(tokens)), window, Just(2 * tokens))
    });
    prop_oneof![4 => free, 1 => to_the_nanosecond]
}

proptest! {
    #![proptest_config(cases(4_096))]

    #[test]
    fn of_a_bucket((tokens, window, capacity) in bucket()) {
        let quota = Quota::new(tokens, Nanos::new(window), capacity);
        prop_assert_eq!(quota.is_ok(), is_bucket(tokens, window, capacity), "{:?}", quota);
    }

    #[test]
    fn of_windows((limit, length) in rate(1_000_000)) {
        let expected = limit <= 1_000_000 && is_rate(limit, length);
        let quota = WindowQuota::new(limit as u32, Nanos::new(length));
        prop_assert_eq!(quota.is_ok(), expected, "{:?}", quota);
    }

    #[test]
    fn of_a_log((limit, window) in rate(10_000)) {
        let expected = limit <= 10_000 && is_rate(limit, window);
        let quota = LogQuota::new(limit as u32, Nanos::new(window));
        prop_assert_eq!(quota.is_ok(), expected, "{:?}", quota);
    }
}
