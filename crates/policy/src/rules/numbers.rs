//! The numbers of a limit, independent of its algorithm.

use std::fmt;

use tidegate_core::{Algorithm, Limit, LogQuota, Nanos, Quota, QuotaError, WindowQuota};

/// A rate and a burst.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Numbers {
    /// Tokens a window.
    pub rate: u64,
    /// The length of the window.
    pub window: Nanos,
    /// The burst: how many tokens may be taken at once.
    pub capacity: u32,
}

impl Numbers {
    /// The lower rate with its window, and the smaller burst. Of equal rates the first.
    #[must_use]
    pub fn least(self, other: Numbers) -> Numbers {
        // rate / window < rate' / window', by multiplying across.
        let slower = u128::from(other.rate) * u128::from(self.window.get())
            < u128::from(self.rate) * u128::from(other.window.get());
        let (rate, window) = if slower { (other.rate, other.window) } else { (self.rate, self.window) };
        Numbers { rate, window, capacity: self.capacity.min(other.capacity) }
    }

    /// The same for a window algorithm: the window stays, and the rate is at most the other rate converted to this
    /// window. If that is less than one, the result is the other's longer window with the smaller of the two rates.
    #[must_use]
    pub fn least_in_window(self, other: Numbers) -> Numbers {
        let share = u128::from(other.rate) * u128::from(self.window.get()) / u128::from(other.window.get());
        let share = u64::try_from(share).unwrap_or(u64::MAX);
        let (rate, window) = if share == 0 {
            (self.rate.min(other.rate), other.window)
        } else {
            (self.rate.min(share), self.window)
        };
        Numbers { rate, window, capacity: u32::try_from(rate).unwrap_or(u32::MAX) }
    }

    /// Limits the rate; the burst stays.
    #[must_use]
    pub fn with_rate_at_most(self, rate: u64) -> Numbers {
        Numbers { rate: self.rate.min(rate), ..self }
    }

    /// The numbers at a trust in hundredths; `None` if they are not whole.
    #[must_use]
    pub fn trusted(self, hundredths: u8) -> Option<Numbers> {
        let rate = self.rate.checked_mul(200 + u64::from(hundredths))?;
        let capacity = u64::from(self.capacity) * (100 + u64::from(hundredths)) / 100;
        let capacity = u32::try_from(capacity).ok()?;
        rate.is_multiple_of(200).then_some(Numbers { rate: rate / 200, capacity, ..self })
    }

    /// The limit that an algorithm has with these numbers, in words.
    pub fn describe(&self, algorithm: Algorithm) -> String {
        let window = WindowLength(self.window);
        match algorithm {
            Algorithm::TokenBucket => format!("token bucket, {self}"),
            Algorithm::SlidingWindow => format!("sliding window, {} per {window}", self.rate),
            Algorithm::SlidingLog => format!("sliding log, {} per {window}", self.rate),
            Algorithm::FixedWindow => format!("fixed window, {} per {window}", self.rate),
        }
    }

    /// The limit that an algorithm has with these numbers; window algorithms ignore the burst.
    ///
    /// # Errors
    /// When the numbers are out of range for the algorithm.
    pub fn limit(&self, algorithm: Algorithm) -> Result<Limit, QuotaError> {
        let counted = u32::try_from(self.rate).unwrap_or(u32::MAX);
        match algorithm {
            Algorithm::TokenBucket => Quota::new(self.rate, self.window, self.capacity).map(Limit::from),
            Algorithm::SlidingWindow => WindowQuota::new(counted, self.window).map(Limit::sliding_window),
            Algorithm::FixedWindow => WindowQuota::new(counted, self.window).map(Limit::fixed_window),
            Algorithm::SlidingLog => LogQuota::new(counted, self.window).map(Limit::from),
        }
    }
}

impl fmt::Display for Numbers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} per {}, burst {}", self.rate, WindowLength(self.window), self.capacity)
    }
}

/// Displays a window as documents write it.
pub(crate) struct WindowLength(pub(crate) Nanos);

impl fmt::Display for WindowLength {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Nanos::SECOND => f.write_str("second"),
            Nanos::MINUTE => f.write_str("minute"),
            Nanos::HOUR => f.write_str("hour"),
            Nanos::DAY => f.write_str("day"),
            other => write!(f, "{other}"),
        }
    }
}
