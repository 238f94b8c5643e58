//! The quota of a token bucket, checked once so that deciding cannot fail.

use core::fmt;

use crate::reciprocal::{div_floor, fraction, reciprocal, scale_ceil, scale_floor};
use crate::{Nanos, QuotaError, Rate};

/// A sustained rate and a burst on top of it: the numbers of a token bucket.
///
/// Over any span of `t` the bucket admits at most `capacity + rate·t`, and it never denies a cost that it
/// holds.
///
/// # Its own tick
///
/// A third of a second is not a whole number of nanoseconds, so a bucket of three per second that counted in
/// nanoseconds would drift. Each quota therefore counts time in a tick of its own, chosen so that *a token is a
/// whole number of ticks*: with the rate `n` tokens per `w` nanoseconds in lowest terms, the tick is 1/n ns if
/// instants then still fit 64 bits; otherwise a token is `ceil(w/n)` ticks, each a little shorter than a
/// nanosecond. `now` is rounded down to that tick; everything after that is exact.
#[derive(Clone, Copy, Debug)]
pub struct Quota {
    rate: Rate,
    capacity: u32,
    /// Ticks in one token.
    token: u64,
    /// Ticks in a full bucket: `capacity · token`.
    span: u64,
    /// True for most rates: a tick is a nanosecond, and nothing has to be converted.
    tick_is_nano: bool,
    /// Ticks in a nanosecond: the integer part, and the fraction rounded up.
    ticks_whole: u64,
    ticks_part: u128,
    /// Nanoseconds in a tick, rounded down.
    nanos_per_tick: u128,
    /// The reciprocal of `token`, for counting whole tokens.
    per_token: u128,
}

impl Quota {
    /// The longest time that an empty bucket may take to fill.
    pub const FILL_MAX: Nanos = Nanos::new(200 * Nanos::YEAR.get());

    /// A bucket of `capacity` tokens, refilled by `tokens` per `window`.
    ///
    /// ```
    /// use core::time::Duration;
    /// use tidegate_core::Quota;
    ///
    /// // 6,000 per minute, 600 of them at once.
    /// let quota = Quota::new(6_000, Duration::from_secs(60), 600)?;
    /// assert_eq!(quota.capacity(), 600);
    /// # Ok::<(), tidegate_core::QuotaError>(())
    /// ```
    ///
    /// # Errors
    /// A number is zero or out of range (see [`Rate::new`]), or the bucket would take longer than
    /// [`Quota::FILL_MAX`] to fill.
    pub fn new(tokens: u64, window: impl Into<Nanos>, capacity: u32) -> Result<Quota, QuotaError> {
        Quota::from_rate(Rate::new(tokens, window)?, capacity)
    }

    /// A bucket of `capacity` tokens, refilled at `rate`.
    ///
    /// # Errors
    /// The capacity is zero or takes longer than [`Quota::FILL_MAX`] to fill.
    pub const fn from_rate(rate: Rate, capacity: u32) -> Result<Quota, QuotaError> {
        if capacity == 0 {
            return Err(QuotaError::ZeroCapacity);
        }
        let (n, w) = (rate.tokens(), rate.nanos());
        let fill = (capacity as u128 * w as u128).div_ceil(n as u128);
        if fill > Quota::FILL_MAX.get() as u128 {
            return Err(QuotaError::TooLongToFill { capacity });
        }
        let last_tick = capacity as u128 * w as u128 + Nanos::END.get() as u128 * n as u128;
        let scale = if last_tick <= u64::MAX as u128 {
            Scale { token: w, ticks_whole: n, ticks_part: 0, nanos_per_tick: inverse(1, n) }
        } else {
            Scale::stretched(n, w)
        };
        assert!(scale.token > 0, "a token takes at least one tick");
        let span = match scale.token.checked_mul(capacity as u64) {
            Some(span) => span,
            None => panic!("the ticks of a full bucket fit 64 bits"),
        };
        Ok(Quota {
            rate,
            capacity,
            token: scale.token,
            span,
            tick_is_nano: n == 1,
            ticks_whole: scale.ticks_whole,
            ticks_part: scale.ticks_part,
            nanos_per_tick: scale.nanos_per_tick,
            per_token: reciprocal(scale.token),
        })
    }

    /// `rate` tokens per second, and a capacity of `rate`.
    ///
    /// # Errors
    /// As [`Quota::new`].
    pub const fn per_second(rate: u32) -> Result<Quota, QuotaError> {
        Quota::of(rate, Nanos::SECOND)
    }

    /// `rate` tokens per minute, and a capacity of `rate`.
    ///
    /// # Errors
    /// As [`Quota::new`].
    pub const fn per_minute(rate: u32) -> Result<Quota, QuotaError> {
        Quota::of(rate, Nanos::MINUTE)
    }

    /// `rate` tokens per hour, and a capacity of `rate`.
    ///
    /// # Errors
    /// As [`Quota::new`].
    pub const fn per_hour(rate: u32) -> Result<Quota, QuotaError> {
        Quota::of(rate, Nanos::HOUR)
    }

    /// `rate` tokens per window, and a capacity of `rate`.
    const fn of(rate: u32, window: Nanos) -> Result<Quota, QuotaError> {
        match Rate::of(rate as u64, window) {
            Ok(per_window) => Quota::from_rate(per_window, rate),
            Err(error) => Err(error),
        }
    }

    /// The same rate with another capacity.
    ///
    /// # Errors
    /// As [`Quota::from_rate`].
    pub const fn with_capacity(self, capacity: u32) -> Result<Quota, QuotaError> {
        Quota::from_rate(self.rate, capacity)
    }

    /// The sustained rate.
    pub const fn rate(&self) -> Rate {
        self.rate
    }

    /// The most that can be taken at once.
    pub const fn capacity(&self) -> u32 {
        self.capacity
    }

    /// The tick of this quota, for stores that repeat the arithmetic elsewhere (in Lua, for example).
    pub const fn ticks(&self) -> Ticks {
        if self.ticks_part == 0 {
            Ticks { ticks: self.ticks_whole, nanos: 1, token: self.token }
        } else {
            Ticks { ticks: self.rate.tokens() * self.token, nanos: self.rate.nanos(), token: self.token }
        }
    }

    /// Ticks in one token.
    #[inline(always)]
    pub(crate) const fn token(&self) -> u64 {
        self.token
    }

    /// Ticks that an empty bucket takes to fill.
    #[inline(always)]
    pub(crate) const fn span(&self) -> u64 {
        self.span
    }

    /// `now` in ticks, rounded down.
    #[inline(always)]
    pub(crate) const fn ticks_at(&self, now: Nanos) -> u64 {
        let now = if now.get() < Nanos::END.get() { now.get() } else { Nanos::END.get() };
        if self.tick_is_nano { now } else { now * self.ticks_whole + scale_floor(now, self.ticks_part) }
    }

    /// A span of ticks in nanoseconds, rounded up.
    #[inline(always)]
    pub(crate) const fn nanos_of(&self, ticks: u64) -> Nanos {
        Nanos::new(if self.tick_is_nano { ticks } else { scale_ceil(ticks, self.nanos_per_tick) })
    }

    /// Whole tokens in `level` ticks, which is at most the span.
    #[inline(always)]
    pub(crate) const fn tokens_in(&self, level: u64) -> u32 {
        div_floor(level, self.per_token) as u32
    }
}

/// The tick of a quota. An instant is `floor(nanoseconds · ticks / nanos)` ticks after the Unix epoch; the
/// state of a bucket is such an instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticks {
    /// This many ticks…
    pub ticks: u64,
    /// …in this many nanoseconds; 1 if a nanosecond is a whole number of ticks.
    pub nanos: u64,
    /// Ticks in a token.
    pub token: u64,
}

/// The conversion factors of a quota's tick.
struct Scale {
    token: u64,
    ticks_whole: u64,
    ticks_part: u128,
    nanos_per_tick: u128,
}

impl Scale {
    /// A token of `c = ceil(w/n)` ticks. Then `w` nanoseconds are `n·c` ticks: at least `w` of them and fewer
    /// than `w + n ≤ 2w`. So an instant in ticks needs one bit more than in nanoseconds, and twice (90 + 200)
    /// years is below 2⁶⁴.
    const fn stretched(n: u64, w: u64) -> Scale {
        let token = w.div_ceil(n);
        let ticks = n * token;
        let (part, cut) = fraction(ticks - w, w);
        Scale { token, ticks_whole: 1, ticks_part: part + cut as u128, nanos_per_tick: inverse(w, ticks) }
    }
}

const _: () = assert!(
    2 * (Nanos::END.get() as u128 + Quota::FILL_MAX.get() as u128) <= u64::MAX as u128,
    "every instant of every quota fits 64 bits"
);

/// `num / den` as a 128-bit binary fraction rounded down; 1 is written as all ones.
const fn inverse(num: u64, den: u64) -> u128 {
    if num == den { u128::MAX } else { fraction(num, den).0 }
}

impl PartialEq for Quota {
    /// Compares rate and capacity; the other fields follow from them.
    fn eq(&self, other: &Quota) -> bool {
        self.rate == other.rate && self.capacity == other.capacity
    }
}

impl Eq for Quota {}

impl fmt::Display for Quota {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, burst {}", self.rate, self.capacity)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_a_whole_number_of_ticks() {
        let three = Quota::new(3, Nanos::SECOND, 3).unwrap();
        assert_eq!((three.token, three.ticks_whole), (1_000_000_000, 3), "thirds of a nanosecond");
        let odd = Quota::new(999_983, Nanos::SECOND, 10).unwrap();
        assert_eq!((odd.token, odd.ticks_whole), (1_001, 1), "a little under a nanosecond");
        let one_second = odd.ticks_at(Nanos::SECOND);
        assert_eq!(one_second, 1_001 * 999_983, "a second refills exactly the rate");
    }

    #[test]
    fn quotas_out_of_range_are_refused() {
        assert_eq!(Quota::per_second(0), Err(QuotaError::ZeroRate));
        assert_eq!(Quota::new(1, Nanos::SECOND, 0), Err(QuotaError::ZeroCapacity));
        let year = Nanos::new(366 * Nanos::DAY.get());
        assert!(Quota::new(1, year, 199).is_ok());
        assert_eq!(Quota::new(1, year, 200), Err(QuotaError::TooLongToFill { capacity: 200 }));
        assert!(Quota::new(1, Nanos::SECOND, u32::MAX).is_ok());
    }

    #[test]
    fn the_largest_instants_fit() {
        // The rate closest to one tick per nanosecond whose tick is stretched most.
        let fastest = Quota::new(999_999_999, Nanos::SECOND, u32::MAX).unwrap();
        let slowest = Quota::new(7, Nanos::new(2_558 * Nanos::DAY.get() + 1), 199).unwrap();
        for quota in [fastest, slowest, Quota::per_second(1).unwrap()] {
            assert!(quota.ticks_at(Nanos::MAX).checked_add(quota.span()).is_some(), "{quota}");
            assert_eq!(quota.ticks_at(Nanos::MAX), quota.ticks_at(Nanos::END));
        }
    }
}
