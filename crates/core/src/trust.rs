//! Limits for trusted clients: a higher capacity and a slightly faster rate.
//!
//! Trust is a whole number of hundredths *t*. Capacities, and the limits of windows and logs, are multiplied by
//! `(100 + t)/100` and rounded down; a rate is multiplied by `(200 + t)/200`, exactly.

use crate::{Limit, LogQuota, Meter, Quota, QuotaError, WindowQuota};

impl Limit {
    /// The highest trust, in hundredths.
    pub const TRUST_MAX: u8 = 100;

    /// The same limit for a client with this trust. A trust of zero gives the limit itself.
    ///
    /// ```
    /// use tidegate_core::{Limit, Nanos, Quota};
    /// let limit = Limit::from(Quota::new(10, Nanos::SECOND, 50)?);
    /// assert_eq!(limit.trusted(80)?, Limit::from(Quota::new(14, Nanos::SECOND, 90)?));
    /// # Ok::<(), tidegate_core::QuotaError>(())
    /// ```
    ///
    /// # Errors
    /// `hundredths` is above [`Limit::TRUST_MAX`], or a number leaves the range of its algorithm. A limit that
    /// can be scaled to 100 can also be scaled to less, unless its rate, in lowest terms, is over a window of
    /// more than 1.4 years.
    pub fn trusted(&self, hundredths: u8) -> Result<Limit, QuotaError> {
        if hundredths > Limit::TRUST_MAX {
            return Err(QuotaError::TrustTooHigh { hundredths });
        }
        if hundredths == 0 {
            return Ok(*self);
        }
        Ok(match self {
            Limit::Meter(Meter::TokenBucket(quota)) => Limit::token_bucket(bucket(quota, hundredths)?),
            Limit::Meter(Meter::SlidingWindow(quota)) => Limit::sliding_window(window(quota, hundredths)?),
            Limit::Meter(Meter::FixedWindow(quota)) => Limit::fixed_window(window(quota, hundredths)?),
            Limit::Log(quota) => Limit::Log(LogQuota::new(grown(quota.limit(), hundredths), quota.window())?),
        })
    }
}

fn bucket(quota: &Quota, hundredths: u8) -> Result<Quota, QuotaError> {
    let capacity = u64::from(quota.capacity()) * (100 + u64::from(hundredths)) / 100;
    let too_large = |_| QuotaError::CapacityTooLarge { capacity };
    let capacity = u32::try_from(capacity).map_err(too_large)?;
    Quota::from_rate(quota.rate().times(200 + u64::from(hundredths), 200)?, capacity)
}

fn window(quota: &WindowQuota, hundredths: u8) -> Result<WindowQuota, QuotaError> {
    WindowQuota::new(grown(quota.limit(), hundredths), quota.length())
}

/// The limit of a window or a log is at most a million, so the product cannot overflow.
const fn grown(limit: u32, hundredths: u8) -> u32 {
    limit * (100 + hundredths as u32) / 100
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Nanos;

    fn bucket(tokens: u64, window: Nanos, capacity: u32) -> Limit {
        Quota::new(tokens, window, capacity).unwrap().into()
    }

    #[test]
    fn capacity_doubles_and_the_rate_grows_by_half() {
        let limit = bucket(1, Nanos::SECOND, 7);
        assert_eq!(limit.trusted(0), Ok(limit));
        assert_eq!(limit.trusted(50), Ok(bucket(5, Nanos::from_secs(4), 10)), "10.5 rounded down");
        assert_eq!(limit.trusted(100), Ok(bucket(3, Nanos::from_secs(2), 14)));
        assert_eq!(limit.trusted(1), Ok(bucket(201, Nanos::from_secs(200), 7)), "exactly, to the hundredth");
    }

    #[test]
    fn windows_and_logs_scale_like_a_capacity() {
        let windows = |limit| WindowQuota::new(limit, Nanos::MINUTE).unwrap();
        let log = |limit| Limit::from(LogQuota::new(limit, Nanos::MINUTE).unwrap());
        assert_eq!(
            Limit::sliding_window(windows(5)).trusted(50),
            Ok(Limit::sliding_window(windows(7))),
            "7.5 rounded down"
        );
        assert_eq!(Limit::fixed_window(windows(5)).trusted(100), Ok(Limit::fixed_window(windows(10))));
        assert_eq!(log(5).trusted(99), Ok(log(9)));
    }

    #[test]
    fn out_of_range_is_refused() {
        let limit = bucket(1, Nanos::SECOND, 7);
        assert_eq!(limit.trusted(101), Err(QuotaError::TrustTooHigh { hundredths: 101 }));
        let large = bucket(1_000, Nanos::SECOND, u32::MAX);
        let capacity = u64::from(u32::MAX) * 101 / 100;
        assert_eq!(large.trusted(1), Err(QuotaError::CapacityTooLarge { capacity }));
        let fast = bucket(1_000_000_000, Nanos::SECOND, 1);
        assert!(matches!(fast.trusted(1), Err(QuotaError::TooFast { .. })));
        let windows = Limit::fixed_window(WindowQuota::new(1_000_000, Nanos::SECOND).unwrap());
        assert!(matches!(windows.trusted(1), Err(QuotaError::LimitTooLarge { .. })));
        let log = Limit::from(LogQuota::new(5_001, Nanos::SECOND).unwrap());
        assert!(log.trusted(99).is_ok() && log.trusted(100).is_err());
    }

    #[test]
    fn the_slowest_rate_takes_any_trust() {
        let slowest = bucket(1, Nanos::new(366 * Nanos::DAY.get()), 100);
        for hundredths in 1..=Limit::TRUST_MAX {
            let limit = slowest.trusted(hundredths);
            assert!(limit.is_ok(), "{hundredths}: {limit:?}");
        }
    }
}
