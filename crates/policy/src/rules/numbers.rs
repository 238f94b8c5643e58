//! A rate and a burst, before they are put into an algorithm.

use std::fmt;

use tidegate_core::{Algorithm, Limit, LogQuota, Nanos, Quota, QuotaError, WindowQuota};

/// A rate per window, and a burst.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Numbers {
    /// Tokens a window.
    pub rate: u64,
    /// The window.
    pub window: Nanos,
    /// The most at once.
    pub capacity: u32,
}

impl Numbers {
    /// The lesser rate with its window, and the lesser burst; of equal rates the
    /// first.
    #[must_use]
    pub fn least(self, other: Numbers) -> Numbers {
        // rate / window < rate' / window', by multiplying across.
        let slower = u128::from(other.rate) * u128::from(self.window.get())
            < u128::from(self.rate) * u128::from(other.window.get());
        let (rate, window) = if slower { (other.rate, other.window) } else { (self.rate, self.window) };
        Numbers { rate, window, capacity: self.capacity.min(other.capacity) }
    }

    /// The same for an algorithm that counts in windows: the window stays, and the
    /// limit is at most what the other rate comes to in it. Where that is less
    /// than one, the other's longer window is taken, with the lesser count.
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

    /// At most `total` a window of its own, and at once.
    #[must_use]
    pub fn capped(self, total: u64) -> Numbers {
        let capacity = u32::try_from(total).unwrap_or(u32::MAX).min(self.capacity);
        Numbers { rate: self.rate.min(total), capacity, ..self }
    }

    /// The numbers at a degree of trust in hundredths, if they are whole.
    #[must_use]
    pub fn trusted(self, hundredths: u8) -> Option<Numbers> {
        let rate = self.rate.checked_mul(200 + u64::from(hundredths))?;
        let capacity = u64::from(self.capacity) * (100 + u64::from(hundredths)) / 100;
        let capacity = u32::try_from(capacity).ok()?;
        rate.is_multiple_of(200).then_some(Numbers { rate: rate / 200, capacity, ..self })
    }

    /// What an algorithm makes of them, in words.
    pub fn describe(&self, algorithm: Algorithm) -> String {
        let window = WindowLength(self.window);
        match algorithm {
            Algorithm::TokenBucket => format!("token bucket, {self}"),
            Algorithm::SlidingWindow => format!("sliding window, {} per {window}", self.rate),
            Algorithm::SlidingLog => format!("sliding log, {} per {window}", self.rate),
            Algorithm::FixedWindow => format!("fixed window, {} per {window}", self.rate),
        }
    }

    /// The limit that an algorithm makes of them; window algorithms have no
    /// burst.
    ///
    /// # Errors
    /// When they are out of range for it.
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

/// A window as a document would put it.
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
