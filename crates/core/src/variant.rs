//! Other numbers for a limit: an override of its numbers, and the trust of a client.
//!
//! A multiplier is a whole number of hundredths *h*. Capacities, and the limits of windows and logs, are multiplied by
//! `h/100` and rounded down, to at least one; a rate is multiplied by `h/100`, exactly. Trust scales the result.

use crate::{Limit, LogQuota, Meter, Nanos, Quota, QuotaError, Rate, WindowQuota};

/// Numbers in place of those of a limit, before trust scales them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OverrideNumbers {
    /// The numbers of the limit, times so many hundredths.
    Times(u16),
    /// These numbers; the limit keeps the one that is missing.
    Fixed {
        /// The sustained rate. A window or a log keeps its length, and admits what this rate is in that time.
        rate: Option<Rate>,
        /// The most that can be taken at once; only token buckets have it.
        capacity: Option<u32>,
    },
}

impl OverrideNumbers {
    /// The lowest multiplier, in hundredths.
    pub const TIMES_MIN: u16 = 1;
    /// The highest multiplier, in hundredths.
    pub const TIMES_MAX: u16 = 10_000;
}

/// What the numbers of a limit are scaled by: an override, and then the trust of the client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct LimitVariant {
    /// The numbers before trust; `None` for those of the limit.
    pub numbers: Option<OverrideNumbers>,
    /// The trust, in hundredths.
    pub trust: u8,
}

impl LimitVariant {
    /// The limit itself.
    pub const PLAIN: LimitVariant = LimitVariant { numbers: None, trust: 0 };

    /// The limit at a trust, without an override.
    pub const fn at_trust(trust: u8) -> LimitVariant {
        LimitVariant { numbers: None, trust }
    }

    /// The same override without trust.
    #[must_use]
    pub const fn untrusted(self) -> LimitVariant {
        LimitVariant { trust: 0, ..self }
    }
}

impl From<OverrideNumbers> for LimitVariant {
    fn from(numbers: OverrideNumbers) -> LimitVariant {
        LimitVariant { numbers: Some(numbers), trust: 0 }
    }
}

impl Limit {
    /// The limit with the numbers of a variant.
    ///
    /// ```
    /// use tidegate_core::{Limit, LimitVariant, Nanos, OverrideNumbers, Quota};
    /// let limit = Limit::from(Quota::new(10, Nanos::SECOND, 50)?);
    /// let doubled = LimitVariant { numbers: Some(OverrideNumbers::Times(200)), trust: 100 };
    /// assert_eq!(limit.at(doubled)?, Limit::from(Quota::new(30, Nanos::SECOND, 200)?));
    /// # Ok::<(), tidegate_core::QuotaError>(())
    /// ```
    ///
    /// # Errors
    /// A number leaves the range of its algorithm.
    pub fn at(&self, variant: LimitVariant) -> Result<Limit, QuotaError> {
        match variant.numbers {
            None => self.trusted(variant.trust),
            Some(numbers) => self.overridden(numbers)?.trusted(variant.trust),
        }
    }

    fn overridden(&self, numbers: OverrideNumbers) -> Result<Limit, QuotaError> {
        Ok(match self {
            Limit::Meter(Meter::TokenBucket(quota)) => Limit::token_bucket(bucket(quota, numbers)?),
            Limit::Meter(Meter::SlidingWindow(quota)) => Limit::sliding_window(window(quota, numbers)?),
            Limit::Meter(Meter::FixedWindow(quota)) => Limit::fixed_window(window(quota, numbers)?),
            Limit::Log(quota) => {
                Limit::Log(LogQuota::new(counted(quota.limit(), quota.window(), numbers)?, quota.window())?)
            }
        })
    }

    /// How long an unused token bucket would take to fill if it were empty; zero for windows and logs.
    pub fn fill_time(&self) -> Nanos {
        match self {
            Limit::Meter(Meter::TokenBucket(quota)) => quota.nanos_of(quota.span()),
            Limit::Meter(Meter::SlidingWindow(_) | Meter::FixedWindow(_)) | Limit::Log(_) => Nanos::ZERO,
        }
    }
}

fn bucket(quota: &Quota, numbers: OverrideNumbers) -> Result<Quota, QuotaError> {
    match numbers {
        OverrideNumbers::Times(hundredths) => {
            let rate = quota.rate().times(u64::from(hundredths), 100)?;
            Quota::from_rate(rate, times(quota.capacity(), hundredths)?)
        }
        OverrideNumbers::Fixed { rate, capacity } => {
            Quota::from_rate(rate.unwrap_or(quota.rate()), capacity.unwrap_or(quota.capacity()))
        }
    }
}

fn window(quota: &WindowQuota, numbers: OverrideNumbers) -> Result<WindowQuota, QuotaError> {
    WindowQuota::new(counted(quota.limit(), quota.length(), numbers)?, quota.length())
}

/// The limit of a window or a log.
fn counted(limit: u32, window: Nanos, numbers: OverrideNumbers) -> Result<u32, QuotaError> {
    match numbers {
        OverrideNumbers::Times(hundredths) => times(limit, hundredths),
        OverrideNumbers::Fixed { rate: None, .. } => Ok(limit),
        OverrideNumbers::Fixed { rate: Some(rate), .. } => {
            let count = u128::from(rate.tokens()) * u128::from(window.get()) / u128::from(rate.nanos());
            if count == 0 {
                return Err(QuotaError::TooSlow { tokens: rate.tokens(), window: Nanos::new(rate.nanos()) });
            }
            Ok(u32::try_from(count).unwrap_or(u32::MAX))
        }
    }
}

fn times(number: u32, hundredths: u16) -> Result<u32, QuotaError> {
    if hundredths == 0 {
        return Err(QuotaError::ZeroCapacity);
    }
    let product = (u64::from(number) * u64::from(hundredths) / 100).max(1);
    u32::try_from(product).map_err(|_| QuotaError::CapacityTooLarge { capacity: product })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bucket(tokens: u64, window: Nanos, capacity: u32) -> Limit {
        Quota::new(tokens, window, capacity).unwrap().into()
    }

    fn times(hundredths: u16) -> LimitVariant {
        OverrideNumbers::Times(hundredths).into()
    }

    #[test]
    fn a_multiplier_is_exact_for_a_rate_and_rounds_a_capacity_down() {
        let limit = bucket(1, Nanos::SECOND, 7);
        assert_eq!(limit.at(LimitVariant::PLAIN), Ok(limit));
        assert_eq!(limit.at(times(100)), Ok(limit));
        assert_eq!(limit.at(times(150)), Ok(bucket(3, Nanos::from_secs(2), 10)), "10.5 rounded down");
        assert_eq!(limit.at(times(1)), Ok(bucket(1, Nanos::from_secs(100), 1)), "at least one");
        assert_eq!(limit.at(times(10_000)), Ok(bucket(100, Nanos::SECOND, 700)));
        let trusted = LimitVariant { trust: 100, ..times(150) };
        assert_eq!(limit.at(trusted), limit.at(times(150)).unwrap().trusted(100), "trust scales the result");
    }

    #[test]
    fn windows_and_logs_keep_their_length() {
        let windows = |limit| Limit::fixed_window(WindowQuota::new(limit, Nanos::MINUTE).unwrap());
        let log = |limit| Limit::from(LogQuota::new(limit, Nanos::MINUTE).unwrap());
        assert_eq!(windows(5).at(times(250)), Ok(windows(12)), "12.5 rounded down");
        assert_eq!(log(5).at(times(1)), Ok(log(1)));
        let fixed = |tokens, window, capacity| {
            LimitVariant::from(OverrideNumbers::Fixed {
                rate: Some(Rate::new(tokens, window).unwrap()),
                capacity,
            })
        };
        assert_eq!(windows(5).at(fixed(70, Nanos::MINUTE, Some(9))), Ok(windows(70)));
        assert_eq!(log(5).at(fixed(120, Nanos::HOUR, None)), Ok(log(2)), "two a minute");
        assert!(matches!(log(5).at(fixed(1, Nanos::HOUR, None)), Err(QuotaError::TooSlow { .. })));
    }

    #[test]
    fn the_number_that_is_missing_is_that_of_the_limit() {
        let limit = bucket(10, Nanos::SECOND, 50);
        let fixed = |rate, capacity| limit.at(OverrideNumbers::Fixed { rate, capacity }.into());
        assert_eq!(fixed(None, Some(200)), Ok(bucket(10, Nanos::SECOND, 200)));
        assert_eq!(fixed(Some(Rate::new(1, Nanos::MINUTE).unwrap()), None), Ok(bucket(1, Nanos::MINUTE, 50)));
        assert_eq!(fixed(None, Some(0)), Err(QuotaError::ZeroCapacity));
    }

    #[test]
    fn out_of_range_is_refused() {
        let capacity = u64::from(u32::MAX) * 2;
        let large = bucket(1_000, Nanos::SECOND, u32::MAX);
        assert_eq!(large.at(times(200)), Err(QuotaError::CapacityTooLarge { capacity }));
        assert!(matches!(
            bucket(1_000_000_000, Nanos::SECOND, 1).at(times(101)),
            Err(QuotaError::TooFast { .. })
        ));
        let slowest = bucket(1, Nanos::new(366 * Nanos::DAY.get()), 1);
        assert!(matches!(slowest.at(times(99)), Err(QuotaError::TooSlow { .. })));
        assert_eq!(slowest.at(times(0)), Err(QuotaError::ZeroRate));
        let log = Limit::from(LogQuota::new(5_001, Nanos::SECOND).unwrap());
        assert!(matches!(log.at(times(200)), Err(QuotaError::LimitTooLarge { .. })));
    }
}
