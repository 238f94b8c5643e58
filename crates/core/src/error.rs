//! Why a quota was refused.

use crate::Nanos;

/// Why the numbers of a quota were refused: each message says what was seen,
/// what is wanted and what to try.
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
        /// The window that was asked for.
        window: Nanos,
    },
    /// More than 10⁹ tokens a second.
    #[error("{tokens} per {window} is faster than 1000000000 per second; lower the rate")]
    TooFast {
        /// The tokens per window that were asked for.
        tokens: u64,
        /// The window that was asked for.
        window: Nanos,
    },
    /// Less than one token in 366 days.
    #[error("{tokens} per {window} is slower than 1 per 366 days; shorten the window")]
    TooSlow {
        /// The tokens per window that were asked for.
        tokens: u64,
        /// The window that was asked for.
        window: Nanos,
    },
    /// A bucket that would take more than 200 years to fill.
    #[error(
        "a capacity of {capacity} takes more than 200 years to fill at this rate; lower it or raise the rate"
    )]
    TooLongToFill {
        /// The capacity that was asked for.
        capacity: u32,
    },
    /// A window algorithm's limit above what its counters hold.
    #[error(
        "a limit of {limit} per window is above {max}, the most this algorithm counts; use a token bucket"
    )]
    LimitTooLarge {
        /// The limit that was asked for.
        limit: u32,
        /// The most the algorithm counts.
        max: u32,
    },
    /// A trusted client's capacity above 2³²−1.
    #[error("a capacity of {capacity} for trusted clients is above 4294967295; lower the capacity")]
    CapacityTooLarge {
        /// The capacity that came out.
        capacity: u64,
    },
    /// Trust above the whole of it.
    #[error("a trust of {hundredths} hundredths is above 100")]
    TrustTooHigh {
        /// The trust that was asked for.
        hundredths: u8,
    },
}
