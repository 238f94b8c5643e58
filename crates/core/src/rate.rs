//! Refill rates: tokens per time, as an exact fraction.

use core::cmp::Ordering;
use core::fmt;

use crate::{Nanos, QuotaError};

/// A rate of `tokens` per `window`, kept in lowest terms: 60 per minute *is* one per second, and rates over
/// different windows compare exactly.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Rate {
    tokens: u64,
    nanos: u64,
}

impl Rate {
    /// The slowest rate: one token in 366 days.
    pub const SLOWEST: Rate = Rate { tokens: 1, nanos: 366 * Nanos::DAY.get() };
    /// The fastest rate: 10⁹ tokens per second.
    pub const FASTEST: Rate = Rate { tokens: 1, nanos: 1 };
    /// The longest window: 200 years.
    pub const WINDOW_MAX: Nanos = Nanos::new(200 * Nanos::YEAR.get());
    /// The largest number of nanoseconds in lowest terms: a quota has up to twice as many ticks in that time,
    /// which must fit 64 bits.
    const COUNTED_MAX: u64 = u64::MAX / 2;

    /// `tokens` per `window`.
    ///
    /// # Errors
    /// Either is zero, the window is longer than [`Rate::WINDOW_MAX`], or the rate is outside [`Rate::SLOWEST`]
    /// to [`Rate::FASTEST`].
    pub fn new(tokens: u64, window: impl Into<Nanos>) -> Result<Rate, QuotaError> {
        Rate::of(tokens, window.into())
    }

    /// [`Rate::new`] as a `const fn`.
    pub(crate) const fn of(tokens: u64, window: Nanos) -> Result<Rate, QuotaError> {
        let nanos = window.get();
        if tokens == 0 {
            return Err(QuotaError::ZeroRate);
        }
        if nanos == 0 {
            return Err(QuotaError::ZeroWindow);
        }
        if nanos > Rate::WINDOW_MAX.get() {
            return Err(QuotaError::WindowTooLong { window });
        }
        if tokens > nanos {
            return Err(QuotaError::TooFast { tokens, window });
        }
        if (nanos as u128) > (tokens as u128) * (Rate::SLOWEST.nanos as u128) {
            return Err(QuotaError::TooSlow { tokens, window });
        }
        let common = greatest_common_divisor(tokens, nanos);
        Ok(Rate { tokens: tokens / common, nanos: nanos / common })
    }

    /// The rate multiplied by `num / den`, exactly.
    ///
    /// # Errors
    /// The product is too fast or too slow, or its window, in lowest terms, is too long to count in.
    pub(crate) const fn times(self, num: u64, den: u64) -> Result<Rate, QuotaError> {
        if num == 0 {
            return Err(QuotaError::ZeroRate);
        }
        let common = greatest_common_divisor(num, den);
        let (num, den) = (num / common, den / common);
        // Both fractions are in lowest terms, so common factors exist only crosswise.
        let (above, below) =
            (greatest_common_divisor(self.tokens, den), greatest_common_divisor(self.nanos, num));
        let nanos = (self.nanos / below) as u128 * (den / above) as u128;
        if nanos > Rate::COUNTED_MAX as u128 {
            return Err(QuotaError::WindowTooLong { window: Nanos::MAX });
        }
        let tokens = (self.tokens / above) as u128 * (num / below) as u128;
        let nanos = nanos as u64;
        let tokens = if tokens > u64::MAX as u128 { u64::MAX } else { tokens as u64 };
        if tokens > nanos {
            return Err(QuotaError::TooFast { tokens, window: Nanos::new(nanos) });
        }
        if (nanos as u128) > (tokens as u128) * (Rate::SLOWEST.nanos as u128) {
            return Err(QuotaError::TooSlow { tokens, window: Nanos::new(nanos) });
        }
        Ok(Rate { tokens, nanos })
    }

    /// Tokens per [`Rate::nanos`], in lowest terms.
    pub const fn tokens(self) -> u64 {
        self.tokens
    }

    /// Nanoseconds for [`Rate::tokens`], in lowest terms.
    pub const fn nanos(self) -> u64 {
        self.nanos
    }
}

impl PartialOrd for Rate {
    fn partial_cmp(&self, other: &Rate) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Rate {
    /// Slower is less. Compared as fractions, without rounding.
    fn cmp(&self, other: &Rate) -> Ordering {
        let cross = |a: &Rate, b: &Rate| u128::from(a.tokens) * u128::from(b.nanos);
        cross(self, other).cmp(&cross(other, self))
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} per {}", self.tokens, Nanos::new(self.nanos))
    }
}

const fn greatest_common_divisor(mut a: u64, mut b: u64) -> u64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString;

    use super::*;

    #[test]
    fn equal_rates_are_equal_however_they_are_written() {
        let minute = Rate::new(60, Nanos::MINUTE).unwrap();
        assert_eq!(minute, Rate::new(1, Nanos::SECOND).unwrap());
        assert_eq!(minute.to_string(), "1 per 1s");
    }

    #[test]
    fn rates_compare_across_windows() {
        let a = Rate::new(1_000, Nanos::MINUTE).unwrap();
        let b = Rate::new(17, Nanos::SECOND).unwrap();
        assert!(a < b, "16.67 a second is slower than 17");
        assert!(Rate::SLOWEST < Rate::FASTEST);
    }

    #[test]
    fn the_range_is_kept() {
        assert_eq!(Rate::new(1, Nanos::new(366 * Nanos::DAY.get())), Ok(Rate::SLOWEST));
        assert_eq!(Rate::new(1_000_000_000, Nanos::SECOND), Ok(Rate::FASTEST));
        assert_eq!(Rate::new(0, Nanos::SECOND), Err(QuotaError::ZeroRate));
        assert_eq!(Rate::new(1, Nanos::ZERO), Err(QuotaError::ZeroWindow));
        assert!(matches!(Rate::new(1_000_000_001, Nanos::SECOND), Err(QuotaError::TooFast { .. })));
        let slow = Nanos::new(366 * Nanos::DAY.get() + 1);
        assert!(matches!(Rate::new(1, slow), Err(QuotaError::TooSlow { .. })));
        assert!(matches!(Rate::new(1 << 40, Nanos::MAX), Err(QuotaError::WindowTooLong { .. })));
    }
}
