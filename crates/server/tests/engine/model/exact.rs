//! Exact fractions, instants and waits.

use num_bigint::BigInt;
use num_rational::Ratio;
use num_traits::ToPrimitive;

/// A fraction of unbounded integers.
pub(crate) type Exact = Ratio<BigInt>;

/// Nanoseconds in a millisecond.
pub(crate) const MILLISECOND: i128 = 1_000_000;
/// Nanoseconds in a second.
pub(crate) const SECOND: i128 = 1_000 * MILLISECOND;

/// A whole number.
pub(crate) fn whole(number: i128) -> Exact {
    Exact::from_integer(BigInt::from(number))
}

/// `over / under`.
pub(crate) fn fraction(over: i128, under: i128) -> Exact {
    Exact::new(BigInt::from(over), BigInt::from(under))
}

/// Rounded down.
pub(crate) fn floor(value: &Exact) -> i128 {
    value.floor().to_integer().to_i128().expect("the numbers of a test are small")
}

/// Rounded up.
pub(crate) fn ceil(value: &Exact) -> i128 {
    value.ceil().to_integer().to_i128().expect("the numbers of a test are small")
}

/// How long until a limit would admit, in whole nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Wait {
    /// This long.
    For(i128),
    /// Forever: longer than every other wait.
    Never,
}

impl Wait {
    /// No wait.
    pub(crate) const NONE: Wait = Wait::For(0);

    /// In milliseconds, rounded up.
    pub(crate) fn millis(self) -> Option<i128> {
        self.in_units(MILLISECOND)
    }

    /// In seconds, rounded up.
    pub(crate) fn seconds(self) -> Option<i128> {
        self.in_units(SECOND)
    }

    fn in_units(self, unit: i128) -> Option<i128> {
        match self {
            Wait::For(nanos) => Some(nanos.div_euclid(unit) + i128::from(nanos.rem_euclid(unit) > 0)),
            Wait::Never => None,
        }
    }
}

/// A decimal such as `12.345`, times `10^places`, truncated. Trust and instants are written as decimals; binary
/// floating point would round them.
pub(crate) fn decimal(text: &str, places: u32) -> i128 {
    let (mantissa, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
    let (integer, decimals) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits: i128 = format!("{integer}{decimals}").parse().expect("a decimal");
    let exponent: i32 = exponent.parse().expect("an exponent");
    let shift = exponent - i32::try_from(decimals.len()).expect("a short decimal")
        + i32::try_from(places).expect("few places");
    let power = 10i128.pow(shift.unsigned_abs());
    if shift < 0 { digits / power } else { digits * power }
}

/// A duration such as `250ms` or `2m`, or the name of a window, in nanoseconds.
pub(crate) fn span(text: &str) -> i128 {
    let word = match text {
        "second" => "1s",
        "minute" => "1m",
        "hour" => "1h",
        "day" => "1d",
        other => other,
    };
    let digits = word.find(|c: char| !c.is_ascii_digit()).expect("a unit");
    let unit = match &word[digits..] {
        "ms" => MILLISECOND,
        "s" => SECOND,
        "m" => 60 * SECOND,
        "h" => 3_600 * SECOND,
        "d" => 86_400 * SECOND,
        other => panic!("{other} is no unit"),
    };
    word[..digits].parse::<i128>().expect("a number of units") * unit
}

#[test]
fn decimals_are_cut_and_never_bent() {
    assert_eq!(decimal("0.29", 2), 29);
    assert_eq!(decimal("0.999", 2), 99);
    assert_eq!(decimal("1", 2), 100);
    assert_eq!(decimal("12.345", 3), 12_345);
    assert_eq!(decimal("5e-3", 2), 0);
    assert_eq!(decimal("1.5e3", 0), 1_500);
    assert_eq!(span("minute"), 60 * SECOND);
    assert_eq!(span("250ms"), 250 * MILLISECOND);
}
