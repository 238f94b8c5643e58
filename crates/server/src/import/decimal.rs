//! Numbers of foreign documents, exactly as written: no float ever holds them.

use tidegate::{Nanos, Rate};

/// The most digits before the point, and the most behind it that count: more than any quota needs.
const DIGITS_MAX: usize = 18;

/// The most decimals of a rate that are carried over: 10⁹ s are 32 years.
const DECIMALS_MAX: u32 = 9;

/// A number of zero or more: `digits / 10^scale`, in lowest terms of ten.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Decimal {
    digits: u128,
    scale: u32,
}

impl Decimal {
    /// Reads `10`, `0.083`, `1.5e3`; `None` for anything else and for what is too large. What is
    /// behind the eighteenth decimal does not count.
    pub(super) fn parse(text: &str) -> Option<Decimal> {
        let (mantissa, exponent) = match text.split_once(['e', 'E']) {
            Some((mantissa, exponent)) => (mantissa, exponent.parse::<i32>().ok()?),
            None => (text, 0),
        };
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let are_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
        let usable = are_digits(whole) && are_digits(fraction) && !(whole.is_empty() && fraction.is_empty());
        let limit = i32::try_from(DIGITS_MAX).expect("it is small");
        if !usable || whole.trim_start_matches('0').len() > DIGITS_MAX || exponent.abs() > limit {
            return None;
        }
        let fraction = &fraction[..fraction.len().min(DIGITS_MAX)];
        let digits = format!("0{whole}{fraction}").parse().ok()?;
        let scale = i32::try_from(fraction.len()).ok()? - exponent;
        Decimal { digits, scale: 0 }.shifted(scale).map(Decimal::reduced)
    }

    /// Divided by ten to the power of `scale`.
    fn shifted(self, scale: i32) -> Option<Decimal> {
        match u32::try_from(scale) {
            Ok(scale) => Some(Decimal { scale, ..self }),
            Err(_) => {
                let factor = 10_u128.checked_pow(scale.unsigned_abs())?;
                Some(Decimal { digits: self.digits.checked_mul(factor)?, scale: 0 })
            }
        }
    }

    fn reduced(mut self) -> Decimal {
        while self.scale > 0 && self.digits.is_multiple_of(10) {
            self.digits /= 10;
            self.scale -= 1;
        }
        self
    }

    pub(super) fn is_zero(self) -> bool {
        self.digits == 0
    }

    /// The number, if it is whole and fits.
    pub(super) fn whole(self) -> Option<u64> {
        if self.scale == 0 { u64::try_from(self.digits).ok() } else { None }
    }

    /// With at most so many decimals, rounded down.
    fn cut(self, decimals: u32) -> Decimal {
        let Some(excess) = self.scale.checked_sub(decimals) else { return self };
        let digits = 10_u128.checked_pow(excess).map_or(0, |divisor| self.digits / divisor);
        Decimal { digits, scale: decimals }.reduced()
    }

    /// Without its decimals.
    pub(super) fn floored(self) -> Decimal {
        self.cut(0)
    }

    /// Rounded down.
    pub(super) fn floor(self) -> u128 {
        10_u128.checked_pow(self.scale).map_or(0, |divisor| self.digits / divisor)
    }

    /// Rounded up.
    pub(super) fn ceil(self) -> u128 {
        self.floor() + u128::from(self.whole().is_none() && self.scale > 0)
    }

    /// The product, unless it is beyond all use.
    pub(super) fn times(self, other: Decimal) -> Option<Decimal> {
        let digits = self.digits.checked_mul(other.digits)?;
        Some(Decimal { digits, scale: self.scale + other.scale }.reduced())
    }
}

impl From<u64> for Decimal {
    fn from(number: u64) -> Decimal {
        Decimal { digits: u128::from(number), scale: 0 }
    }
}

/// What windows are counted in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unit {
    Millisecond,
    Second,
    Minute,
    Hour,
    Day,
}

impl Unit {
    /// The word and the letters that policies use, and the length.
    fn parts(self) -> (&'static str, &'static str, Nanos) {
        match self {
            Unit::Millisecond => ("1ms", "ms", Nanos::MILLISECOND),
            Unit::Second => ("second", "s", Nanos::SECOND),
            Unit::Minute => ("minute", "m", Nanos::MINUTE),
            Unit::Hour => ("hour", "h", Nanos::HOUR),
            Unit::Day => ("day", "d", Nanos::DAY),
        }
    }

    /// Reads the word, in any case.
    pub(super) fn from_word(word: &str) -> Option<Unit> {
        let all = [Unit::Second, Unit::Minute, Unit::Hour, Unit::Day];
        all.into_iter().find(|unit| unit.parts().0.eq_ignore_ascii_case(word))
    }
}

/// A length of time: so many units.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct UnitWindow {
    pub(super) count: u64,
    pub(super) unit: Unit,
}

impl UnitWindow {
    pub(super) const SECOND: UnitWindow = UnitWindow { count: 1, unit: Unit::Second };
    pub(super) const MINUTE: UnitWindow = UnitWindow { count: 1, unit: Unit::Minute };
    pub(super) const DAY: UnitWindow = UnitWindow { count: 1, unit: Unit::Day };

    /// So many seconds, told in the word that fits exactly: 60 s are a minute.
    pub(super) fn of_seconds(seconds: u64) -> UnitWindow {
        match seconds {
            60 => UnitWindow::MINUTE,
            3_600 => UnitWindow { count: 1, unit: Unit::Hour },
            86_400 => UnitWindow::DAY,
            _ => UnitWindow { count: seconds, unit: Unit::Second },
        }
    }

    /// `minute`, or a duration such as `30s`.
    pub(super) fn shown(self) -> String {
        let (word, letters, _) = self.unit.parts();
        if self.count == 1 { word.to_owned() } else { format!("{}{letters}", self.count) }
    }

    /// Its length, where that can be said.
    pub(super) fn nanos(self) -> Option<Nanos> {
        self.count.checked_mul(self.unit.parts().2.get()).map(Nanos::new)
    }
}

/// A whole number of tokens per window: what `sustained` says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SustainedRate {
    pub(super) rate: u64,
    pub(super) window: UnitWindow,
}

impl SustainedRate {
    /// The same rate in whole numbers, by powers of ten: 0.083 a second are 83 in 1000 s. Decimals
    /// for which the longest window has no room are cut off.
    ///
    /// # Errors
    /// With a sentence, where a policy cannot say it.
    pub(super) fn new(rate: Decimal, window: UnitWindow) -> Result<SustainedRate, String> {
        let fits = |decimals: &u32| stretched(window, *decimals).is_some();
        let decimals = (0..=DECIMALS_MAX).rev().find(fits).ok_or("this window is too long")?;
        let cut = rate.cut(decimals);
        let longer = stretched(window, cut.scale).ok_or("this window is too long")?;
        let tokens = u64::try_from(cut.digits).map_err(|_| "this rate has too many digits")?;
        match SustainedRate::checked(tokens, longer) {
            // So slow that the digits behind the cut matter.
            Err(_) if cut != rate && cut.floor() == 0 => SustainedRate::one_per(rate, window),
            pace => pace,
        }
    }

    /// A rate below one as a single token in a window that is longer, to the millisecond.
    ///
    /// # Errors
    /// With a sentence, where a policy cannot say it.
    pub(super) fn one_per(rate: Decimal, window: UnitWindow) -> Result<SustainedRate, String> {
        let millis = |window: UnitWindow| Some(u128::from(window.nanos()?.get() / Nanos::MILLISECOND.get()));
        let product = 10_u128.checked_pow(rate.scale).and_then(|ten| ten.checked_mul(millis(window)?));
        let longer = product.filter(|_| !rate.is_zero()).map(|product| product.div_ceil(rate.digits));
        let count = longer.and_then(|longer| u64::try_from(longer).ok()).ok_or("this rate is too slow")?;
        let window = match count.is_multiple_of(1_000) {
            true => UnitWindow::of_seconds(count / 1_000),
            false => UnitWindow { count, unit: Unit::Millisecond },
        };
        SustainedRate::checked(1, window)
    }

    fn checked(rate: u64, window: UnitWindow) -> Result<SustainedRate, String> {
        let nanos = window.nanos().ok_or("this window is too long")?;
        Rate::new(rate, nanos).map_err(|error| error.to_string())?;
        Ok(SustainedRate { rate, window })
    }

    /// Is it this rate, and not one that is a little lower?
    pub(super) fn is_exactly(self, rate: Decimal, window: UnitWindow) -> bool {
        u128::from(self.rate) == rate.digits && Some(self.window) == stretched(window, rate.scale)
    }
}

/// The window ten to the power of `decimals` times, unless that is more than a policy can say.
fn stretched(window: UnitWindow, decimals: u32) -> Option<UnitWindow> {
    let count = 10_u64.checked_pow(decimals)?.checked_mul(window.count)?;
    let window = UnitWindow { count, ..window };
    (window.nanos()? <= Rate::WINDOW_MAX).then_some(window)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pace(rate: &str) -> SustainedRate {
        SustainedRate::new(Decimal::parse(rate).unwrap(), UnitWindow::SECOND).unwrap()
    }

    #[test]
    fn fractions_become_whole_numbers_over_longer_windows() {
        for (rate, tokens, window) in [
            ("10", 10, "second"),
            ("10.0", 10, "second"),
            ("0.5", 5, "10s"),
            ("0.083", 83, "1000s"),
            ("0.033", 33, "1000s"),
            ("2.5", 25, "10s"),
            ("1e-3", 1, "1000s"),
            ("1.5e3", 1500, "second"),
        ] {
            let pace = pace(rate);
            assert_eq!((pace.rate, pace.window.shown().as_str()), (tokens, window), "{rate}");
        }
    }

    #[test]
    fn the_window_keeps_its_unit() {
        let rate = Decimal::parse("0.25").unwrap();
        let pace = SustainedRate::new(rate, UnitWindow::MINUTE).unwrap();
        assert_eq!((pace.rate, pace.window.shown().as_str()), (25, "100m"));
    }

    #[test]
    fn digits_beyond_the_ninth_are_cut() {
        for (rate, tokens, window) in [
            ("0.33333333", 33_333_333, "100000000s"),
            ("0.3333333333", 333_333_333, "1000000000s"),
            ("0.0166666666666667", 16_666_666, "1000000000s"),
            ("0.00016666666666666666", 166_666, "1000000000s"),
            ("1.6666666666666667e-5", 16_666, "1000000000s"),
            ("33.333333333333336", 33_333_333_333, "1000000000s"),
            ("0.5000000000000", 5, "10s"),
            // Nine decimals would be slower than 1 per 366 days, which this is not.
            ("0.0000000317", 1, "31545741325ms"),
        ] {
            let pace = pace(rate);
            assert_eq!((pace.rate, pace.window.shown().as_str()), (tokens, window), "{rate}");
            let exact = pace.is_exactly(Decimal::parse(rate).unwrap(), UnitWindow::SECOND);
            assert_eq!(exact, ["0.33333333", "0.5000000000000"].contains(&rate), "{rate}");
        }
    }

    #[test]
    fn long_windows_leave_room_for_fewer_decimals() {
        let third = Decimal::parse("0.333333333333").unwrap();
        for (unit, tokens, window) in [
            (Unit::Minute, 33_333_333, "100000000m"),
            (Unit::Hour, 333_333, "1000000h"),
            (Unit::Day, 3_333, "10000d"),
        ] {
            let pace = SustainedRate::new(third, UnitWindow { count: 1, unit }).unwrap();
            assert_eq!((pace.rate, pace.window.shown().as_str()), (tokens, window));
        }
    }

    #[test]
    fn slow_rates_are_one_in_a_longer_window() {
        let of = |rate: &str| SustainedRate::one_per(Decimal::parse(rate).unwrap(), UnitWindow::SECOND);
        assert_eq!(of("0.5").unwrap().window.shown(), "2s");
        assert_eq!(of("0.3333333333333333").unwrap().window.shown(), "3001ms");
        assert!(of("0.00000000001").is_err());
    }

    #[test]
    fn what_a_policy_cannot_say_is_refused() {
        for rate in ["0.00000001", "2000000000", "0.000000000000000001"] {
            let rate = Decimal::parse(rate).unwrap();
            assert!(SustainedRate::new(rate, UnitWindow::SECOND).is_err(), "{rate:?}");
        }
    }

    #[test]
    fn only_plain_numbers_are_numbers() {
        for text in ["", ".", "-1", "+1", "1_000", "0x10", "1.2.3", "ten", "1e99", "1234567890123456789"] {
            assert_eq!(Decimal::parse(text), None, "{text}");
        }
        assert_eq!(Decimal::parse("0.0"), Decimal::parse("0"));
    }

    #[test]
    fn rounding_and_products_are_exact() {
        let number = |text| Decimal::parse(text).unwrap();
        assert_eq!(number("100").times(number("1.5")), Some(number("150")));
        assert_eq!(number("5").times(number("1.3")).unwrap().floor(), 6);
        assert_eq!((number("2.5").ceil(), number("2").ceil(), number("0.1").floor()), (3, 2, 0));
    }

    #[test]
    fn seconds_are_told_in_words_where_they_fit() {
        let shown = |seconds| UnitWindow::of_seconds(seconds).shown();
        assert_eq!([shown(1), shown(60), shown(90), shown(86_400)], ["second", "minute", "90s", "day"]);
    }
}
