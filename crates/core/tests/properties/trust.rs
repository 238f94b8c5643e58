//! Limits scaled by trust, checked with exact fractions.

use proptest::prelude::*;
use tidegate_core::{Limit, Meter, Nanos, Quota, QuotaError};

use crate::cases;
use crate::exact::{Exact, ratio, whole};
use crate::quotas::{LONGEST, bucket, log, windows};

fn rate(quota: &Quota) -> Exact {
    ratio(quota.rate().tokens(), quota.rate().nanos())
}

/// `number · (100 + t)/100`, rounded down.
fn grown(number: u32, hundredths: u8) -> Exact {
    (whole(number) * ratio(100 + u32::from(hundredths), 100)).floor()
}

proptest! {
    #![proptest_config(cases(1_024))]

    #[test]
    fn scales_a_bucket_exactly_or_refuses_for_a_reason(numbers in bucket(), hundredths in 0_u8..=100) {
        let quota = numbers.quota();
        let (capacity, faster) =
            (grown(quota.capacity(), hundredths), rate(&quota) * ratio(200 + u32::from(hundredths), 200));
        match Limit::from(quota).trusted(hundredths) {
            Ok(Limit::Meter(Meter::TokenBucket(scaled))) => {
                prop_assert_eq!(whole(scaled.capacity()), capacity);
                prop_assert_eq!(rate(&scaled), faster);
            }
            Err(QuotaError::CapacityTooLarge { .. }) => prop_assert!(capacity > whole(u32::MAX)),
            Err(QuotaError::TooFast { .. }) => prop_assert!(faster > whole(1)),
            Err(QuotaError::TooLongToFill { .. }) => prop_assert!(capacity / faster > whole(LONGEST)),
            Err(QuotaError::WindowTooLong { .. }) => prop_assert!(faster.denom() > &(u64::MAX / 2).into()),
            other => prop_assert!(false, "{other:?}"),
        }
    }

    /// If the numbers are in range at the highest trust, they are at any lower one.
    #[test]
    fn the_most_trust_is_the_hardest(numbers in bucket(), hundredths in 0_u8..=100) {
        let limit = Limit::from(numbers.quota());
        if limit.trusted(Limit::TRUST_MAX).is_ok() && numbers.quota().rate().nanos() <= Nanos::YEAR.get() {
            prop_assert!(limit.trusted(hundredths).is_ok(), "{limit} at {hundredths}");
        }
    }

    #[test]
    fn scales_windows_and_logs_like_a_capacity(
        (window, log) in (windows(), log()),
        hundredths in 0_u8..=100,
    ) {
        for limit in [Limit::from(window.meter()), Limit::from(log)] {
            match limit.trusted(hundredths) {
                Ok(scaled) => {
                    prop_assert_eq!(whole(scaled.capacity()), grown(limit.capacity(), hundredths));
                    prop_assert_eq!(scaled.algorithm(), limit.algorithm());
                }
                Err(QuotaError::LimitTooLarge { max, .. }) => {
                    prop_assert!(grown(limit.capacity(), hundredths) > whole(max));
                }
                Err(QuotaError::TooFast { .. }) => {}
                Err(other) => prop_assert!(false, "{other:?}"),
            }
        }
    }
}
