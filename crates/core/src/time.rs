//! Time as an argument: [`Nanos`], whole nanoseconds.

use core::fmt;
use core::time::Duration;

/// Whole nanoseconds: an instant counted from the Unix epoch, or a span of time.
///
/// Nothing in this crate reads a clock; every decision takes `now` from its caller. Instants are valid up to
/// [`Nanos::END`], ninety years after the epoch; a later `now` is read as `END`, so that an instant plus a fill
/// time cannot overflow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Nanos(u64);

impl Nanos {
    /// The Unix epoch, and the empty span.
    pub const ZERO: Nanos = Nanos(0);
    /// One millisecond.
    pub const MILLISECOND: Nanos = Nanos(1_000_000);
    /// One second.
    pub const SECOND: Nanos = Nanos(1_000_000_000);
    /// One minute.
    pub const MINUTE: Nanos = Nanos(60 * Nanos::SECOND.0);
    /// One hour.
    pub const HOUR: Nanos = Nanos(60 * Nanos::MINUTE.0);
    /// One day of 24 hours.
    pub const DAY: Nanos = Nanos(24 * Nanos::HOUR.0);
    /// One year of 365.25 days.
    pub const YEAR: Nanos = Nanos(8_766 * Nanos::HOUR.0);
    /// The last instant: ninety years after the epoch.
    pub const END: Nanos = Nanos(90 * Nanos::YEAR.0);
    /// The longest span that can be represented.
    pub const MAX: Nanos = Nanos(u64::MAX);

    /// A number of nanoseconds.
    pub const fn new(nanos: u64) -> Nanos {
        Nanos(nanos)
    }

    /// A number of milliseconds, at most [`Nanos::MAX`].
    pub const fn from_millis(millis: u64) -> Nanos {
        Nanos(millis.saturating_mul(Nanos::MILLISECOND.0))
    }

    /// A number of seconds, at most [`Nanos::MAX`].
    pub const fn from_secs(secs: u64) -> Nanos {
        Nanos(secs.saturating_mul(Nanos::SECOND.0))
    }

    /// The number of nanoseconds.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// Whole milliseconds, rounded up, so that a wait printed in milliseconds is never too short.
    pub const fn as_millis_ceil(self) -> u64 {
        self.0.div_ceil(Nanos::MILLISECOND.0)
    }

    /// Whole seconds, rounded up.
    pub const fn as_secs_ceil(self) -> u64 {
        self.0.div_ceil(Nanos::SECOND.0)
    }

    /// The sum, at most [`Nanos::MAX`].
    #[must_use]
    pub const fn saturating_add(self, other: Nanos) -> Nanos {
        Nanos(self.0.saturating_add(other.0))
    }

    /// The difference, or zero if `other` is later.
    #[must_use]
    pub const fn saturating_sub(self, other: Nanos) -> Nanos {
        Nanos(self.0.saturating_sub(other.0))
    }
}

impl From<Duration> for Nanos {
    /// Saturates at [`Nanos::MAX`], about 584 years.
    fn from(span: Duration) -> Nanos {
        Nanos(u64::try_from(span.as_nanos()).unwrap_or(u64::MAX))
    }
}

impl From<Nanos> for Duration {
    fn from(span: Nanos) -> Duration {
        Duration::from_nanos(span.0)
    }
}

impl fmt::Display for Nanos {
    /// In the largest fitting unit: `1.5s`, `100ms`, `2µs`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&Duration::from(*self), f)
    }
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString;

    use super::*;

    #[test]
    fn waits_round_up_to_what_people_read() {
        assert_eq!(Nanos::new(1).as_millis_ceil(), 1);
        assert_eq!(Nanos::MILLISECOND.as_millis_ceil(), 1);
        assert_eq!(Nanos::new(1_000_001).as_millis_ceil(), 2);
        assert_eq!(Nanos::ZERO.as_secs_ceil(), 0);
        assert_eq!(Nanos::MILLISECOND.as_secs_ceil(), 1);
    }

    #[test]
    fn spans_saturate_instead_of_wrapping() {
        assert_eq!(Nanos::from_secs(u64::MAX), Nanos::MAX);
        assert_eq!(Nanos::from(Duration::MAX), Nanos::MAX);
        assert_eq!(Nanos::ZERO.saturating_sub(Nanos::SECOND), Nanos::ZERO);
        assert_eq!(Nanos::MAX.saturating_add(Nanos::SECOND), Nanos::MAX);
    }

    #[test]
    fn reads_as_a_person_would_say_it() {
        assert_eq!(Nanos::from_millis(1_500).to_string(), "1.5s");
        assert_eq!(Nanos::from_millis(100).to_string(), "100ms");
    }
}
