//! Errors of constructing a quota.

use crate::Nanos;

/// Why the numbers of a quota are invalid. Each message names the value, the allowed range and what to try.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum QuotaError {
    /// A rate of zero tokens.
    #[error("a rate of 0 would never admit anything; use at least 1 per window")]
    ZeroRate,
    /// A window of no length.
    #[error("a window of 0 has no rate; use at least 1ms")]
    ZeroWindow,
    /// A capacity or limit of zero.
    #[error("a capacity of 0 would never admit anything; use at least 1")]
    ZeroCapacity,
    /// A window beyond 200 years.
    #[error("a window of {window} is longer than 200 years; write the same rate over a shorter one")]
    WindowTooLong {
        /// The window given.
        window: Nanos,
    },
    /// More than 10⁹ tokens a second.
    #[error("{tokens} per {window} is faster than 1000000000 per second; lower the rate")]
    TooFast {
        /// The tokens per window given.
        tokens: u64,
        /// The window given.
        window: Nanos,
    },
    /// Less than one token in 366 days.
    #[error("{tokens} per {window} is slower than 1 per 366 days; shorten the window")]
    TooSlow {
        /// The tokens per window given.
        tokens: u64,
        /// The window given.
        window: Nanos,
    },
    /// A bucket that would take more than 200 years to fill.
    #[error(
        "a capacity of {capacity} takes more than 200 years to fill at this rate; lower it or raise the rate"
    )]
    TooLongToFill {
        /// The capacity given.
        capacity: u32,
    },
    /// The limit of a window algorithm is above what its counters hold.
    #[error(
        "a limit of {limit} per window is above {max}, the most this algorithm counts; use a token bucket"
    )]
    LimitTooLarge {
        /// The limit given.
        limit: u32,
        /// The highest limit that the algorithm can count.
        max: u32,
    },
    /// The capacity, scaled by trust or by an override, is above 2³²−1.
    #[error("a capacity scaled to {capacity} is above 4294967295; lower the capacity")]
    CapacityTooLarge {
        /// The capacity after scaling.
        capacity: u64,
    },
    /// A trust above 100 hundredths.
    #[error("a trust of {hundredths} hundredths is above 100")]
    TrustTooHigh {
        /// The trust given.
        hundredths: u8,
    },
}
