//! Instants as pairs of numbers that are each exact in a double, for scripts.
//!
//! The state of a bucket is an instant in ticks of its quota, up to 2⁶⁴. A script keeps it as a number of periods and
//! the ticks within the last one. A period is the shortest span of whole seconds that is a whole number of ticks.

use tidegate_core::{Limit, Meter, Nanos, Quota, WindowQuota};

use crate::calls::State;

/// The largest number in a script: the sum of two such numbers is still exact in a double.
const LARGEST: u128 = 1 << 52;
/// The two counts of a window are packed into one number: before · 2²⁰ + now.
const COUNT: u64 = 1 << 20;
const SECOND: u64 = Nanos::SECOND.get();
const MICRO: u64 = 1_000;

/// How a token bucket counts time in a script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Scale {
    /// Seconds in a period.
    pub(crate) period: u64,
    /// Ticks in a period.
    pub(crate) base: u64,
    /// If `nanos` is one: ticks in a microsecond. Otherwise: how many more ticks than nanoseconds there are in every
    /// `nanos` nanoseconds.
    pub(crate) ticks: u64,
    /// See `ticks`.
    pub(crate) nanos: u64,
    token: u64,
    span: u64,
    /// Ticks and nanoseconds, as in core.
    rate: (u64, u64),
}

impl Scale {
    /// `None` if the numbers are too large for a script.
    pub(crate) fn new(quota: &Quota) -> Option<Scale> {
        let ticks = quota.ticks();
        let span = ticks.token.checked_mul(u64::from(quota.capacity()))?;
        let (token, rate) = (ticks.token, (ticks.ticks, ticks.nanos));
        if ticks.nanos == 1 {
            let base = ticks.ticks.checked_mul(SECOND).filter(|&base| u128::from(base) <= LARGEST)?;
            return Some(Scale { period: 1, base, ticks: ticks.ticks * MICRO, nanos: 1, token, span, rate });
        }
        let common = greatest_common_divisor(ticks.nanos, SECOND);
        let period = ticks.nanos / common;
        let base = u128::from(SECOND / common) * u128::from(ticks.ticks);
        if u128::from(period) * u128::from(SECOND) > LARGEST || base > LARGEST {
            return None;
        }
        let more = ticks.ticks - ticks.nanos;
        Some(Scale { period, base: base as u64, ticks: more, nanos: ticks.nanos, token, span, rate })
    }

    /// Ticks as a pair.
    pub(crate) fn pair(&self, ticks: u64) -> (u64, u64) {
        (ticks / self.base, ticks % self.base)
    }

    /// A pair as ticks; `None` if it is no valid pair.
    pub(crate) fn ticks_of(&self, (periods, rest): (u64, u64)) -> Option<u64> {
        periods.checked_mul(self.base)?.checked_add(rest).filter(|_| rest < self.base)
    }

    /// A cost in ticks.
    pub(crate) fn cost(&self, tokens: u32) -> (u64, u64) {
        self.pair(u64::from(tokens).saturating_mul(self.token))
    }

    /// Ticks from empty to full.
    pub(crate) fn span(&self) -> (u64, u64) {
        self.pair(self.span)
    }

    /// Ticks in a token.
    pub(crate) fn token(&self) -> (u64, u64) {
        self.pair(self.token)
    }

    /// An instant in ticks.
    pub(crate) fn instant(&self, at: Nanos) -> (u64, u64) {
        let at = at.min(Nanos::END);
        let ticks = u128::from(at.get()) * u128::from(self.rate.0) / u128::from(self.rate.1);
        self.pair(u64::try_from(ticks).expect("every instant of a quota fits 64 bits"))
    }

    /// How many periods in the future a state may lie: twice the time to fill, and a day.
    pub(crate) fn far(&self) -> u64 {
        2 * (self.span / self.base + 1) + Nanos::DAY.get().div_ceil(self.period * SECOND)
    }
}

/// How many windows in the future a state may lie: two and a day, or one minute where core represents no more.
pub(crate) fn max_windows_ahead(meter: &Meter, quota: &WindowQuota) -> u64 {
    let sees_all = meter.as_of(Nanos::ZERO, Nanos::END) == Nanos::END;
    if sees_all {
        2 + Nanos::DAY.get().div_ceil(quota.length().get())
    } else {
        Nanos::MINUTE.get().div_ceil(quota.length().get())
    }
}

/// Checks that a script can count this limit exactly; the error says why not.
pub(crate) fn countable(limit: &Limit) -> Result<(), &'static str> {
    let window = match limit {
        Limit::Meter(Meter::TokenBucket(quota)) => {
            let too_long = "its rate, in lowest terms, is over more than 52 days";
            return Scale::new(quota).map(|_| ()).ok_or(too_long);
        }
        Limit::Meter(Meter::SlidingWindow(quota) | Meter::FixedWindow(quota)) => quota.length(),
        Limit::Log(quota) => quota.window(),
    };
    if window.get() % MICRO != 0 {
        return Err("its window is no whole number of microseconds");
    }
    if u128::from(window.get() / MICRO) > LARGEST {
        return Err("its window is longer than 142 years");
    }
    Ok(())
}

/// The two numbers that are stored for a meter's state; for a window, its state as of `at`.
pub(crate) fn to_pair(meter: &Meter, word: u64, at: Nanos) -> (u64, u64) {
    match meter {
        Meter::TokenBucket(quota) => Scale::new(quota).map_or((0, 0), |scale| scale.pair(word)),
        Meter::SlidingWindow(quota) | Meter::FixedWindow(quota) => {
            let (number, before, now) = quota.counts(word, at);
            (number, u64::from(before) * COUNT + u64::from(now))
        }
    }
}

/// The state from its two numbers; `None` if they are no valid state.
pub(crate) fn from_pair(meter: &Meter, (first, second): (u64, u64)) -> Option<State> {
    let word = match meter {
        Meter::TokenBucket(quota) => Scale::new(quota)?.ticks_of((first, second))?,
        Meter::SlidingWindow(quota) | Meter::FixedWindow(quota) => {
            let (before, now) = (second / COUNT, second % COUNT);
            let most = u64::from(quota.count_max());
            if before > most || now > most {
                return None;
            }
            quota.word(first, before as u32, now as u32)
        }
    };
    Some(State::Word(word))
}

/// Rounds up to whole microseconds.
pub(crate) fn whole_micros(span: Nanos) -> Nanos {
    Nanos::new(span.get().div_ceil(MICRO).saturating_mul(MICRO))
}

/// Microseconds since the epoch.
pub(crate) fn micros(at: Nanos) -> u64 {
    at.get() / MICRO
}

/// An instant from microseconds since the epoch.
pub(crate) fn nanos_of(micros: u64) -> Nanos {
    Nanos::new(micros.saturating_mul(MICRO))
}

/// The bytes of a number as a double. All numbers here are below 2⁵³, so this is exact.
pub(crate) fn double(number: u64) -> [u8; 8] {
    debug_assert!(number <= 1 << 53, "{number} is not exact in a double");
    (number as f64).to_le_bytes()
}

/// A number from the bytes of a double; `None` if it is no whole number below 2⁵³.
pub(crate) fn whole(bytes: &[u8]) -> Option<u64> {
    let number = f64::from_le_bytes(bytes.try_into().ok()?);
    let is_whole = number >= 0.0 && number < (1_u64 << 53) as f64 && number.fract() == 0.0;
    is_whole.then_some(number as u64)
}

fn greatest_common_divisor(mut a: u64, mut b: u64) -> u64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate_core::{LogQuota, token_bucket};

    #[test]
    fn usual_rates_count_in_seconds() {
        let minute = Scale::new(&Quota::new(100, Nanos::MINUTE, 10).unwrap()).unwrap();
        assert_eq!((minute.period, minute.base, minute.ticks, minute.nanos), (1, SECOND, 1_000, 1));
        let thirds = Scale::new(&Quota::per_second(3).unwrap()).unwrap();
        assert_eq!((thirds.base, thirds.ticks), (3 * SECOND, 3_000));
        let odd = Scale::new(&Quota::per_second(999_983).unwrap()).unwrap();
        assert_eq!((odd.period, odd.base, odd.nanos), (1, 1_001 * 999_983, SECOND));
        let elevenths = Scale::new(&Quota::new(11, Nanos::DAY, 3).unwrap()).unwrap();
        assert_eq!(elevenths.period, 86_400);
    }

    #[test]
    fn an_instant_is_cores() {
        for quota in [Quota::per_second(7), Quota::new(11, Nanos::DAY, 9), Quota::per_minute(999_983)] {
            let quota = quota.unwrap();
            let scale = Scale::new(&quota).unwrap();
            let now = Nanos::new(1_800_000_123_456_789_000);
            let all = tidegate_core::Cost::new(quota.capacity());
            let full_at = token_bucket::charge(0, &quota, all, now).unwrap();
            let at = scale.ticks_of(scale.instant(now)).unwrap();
            assert_eq!(full_at, at + scale.span, "{quota}");
        }
    }

    #[test]
    fn what_cannot_be_counted_is_refused() {
        let year = Nanos::new(365 * Nanos::DAY.get());
        assert!(countable(&Quota::new(7, year, 7).unwrap().into()).is_err());
        assert!(countable(&Quota::new(5, year, 5).unwrap().into()).is_ok());
        assert!(countable(&Limit::fixed_window(WindowQuota::new(1, Nanos::new(1_500)).unwrap())).is_err());
        assert!(countable(&LogQuota::new(1, Nanos::new(2_000)).unwrap().into()).is_ok());
    }

    #[test]
    fn only_whole_numbers_are_read() {
        assert_eq!(whole(&double(1 << 52)), Some(1 << 52));
        for wrong in [f64::NAN, -1.0, 0.5, f64::INFINITY, 1e300] {
            assert_eq!(whole(&wrong.to_le_bytes()), None);
        }
        assert_eq!(whole(b"short"), None);
    }
}
