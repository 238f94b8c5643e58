//! Numbers of foreign documents, exactly as written. Floats would change them.

/// The most digits before the point, and the most after it that are read: more than any quota needs.
const DIGITS_MAX: usize = 18;

/// A number of at least zero: `digits / 10^scale`, with the smallest possible scale.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Decimal {
    pub(crate) digits: u128,
    pub(crate) scale: u32,
}

impl Decimal {
    /// Reads `10`, `0.083`, `1.5e3`; `None` for anything else and for numbers that are too large. Digits after the
    /// eighteenth decimal are ignored.
    pub(crate) fn parse(text: &str) -> Option<Decimal> {
        let (mantissa, exponent) = match text.split_once(['e', 'E']) {
            Some((mantissa, exponent)) => (mantissa, exponent.parse::<i32>().ok()?),
            None => (text, 0),
        };
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let are_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
        let usable = are_digits(whole) && are_digits(fraction) && !(whole.is_empty() && fraction.is_empty());
        let limit = i32::try_from(DIGITS_MAX).expect("18 fits an i32");
        if !usable || whole.trim_start_matches('0').len() > DIGITS_MAX || exponent.abs() > limit {
            return None;
        }
        let fraction = &fraction[..fraction.len().min(DIGITS_MAX)];
        let digits = format!("0{whole}{fraction}").parse().ok()?;
        let scale = i32::try_from(fraction.len()).ok()? - exponent;
        Decimal { digits, scale: 0 }.shifted(scale).map(Decimal::reduced)
    }

    /// The number divided by ten to the power of `scale`.
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

    pub(crate) fn is_zero(self) -> bool {
        self.digits == 0
    }

    /// The number, if it is whole and fits a `u64`.
    pub(crate) fn whole(self) -> Option<u64> {
        if self.scale == 0 { u64::try_from(self.digits).ok() } else { None }
    }

    /// Rounded down to this many decimals.
    pub(crate) fn cut(self, decimals: u32) -> Decimal {
        let Some(excess) = self.scale.checked_sub(decimals) else { return self };
        let digits = 10_u128.checked_pow(excess).map_or(0, |divisor| self.digits / divisor);
        Decimal { digits, scale: decimals }.reduced()
    }

    /// Rounded down, as a decimal.
    pub(crate) fn floored(self) -> Decimal {
        self.cut(0)
    }

    /// Rounded down.
    pub(crate) fn floor(self) -> u128 {
        10_u128.checked_pow(self.scale).map_or(0, |divisor| self.digits / divisor)
    }

    /// Rounded up.
    pub(crate) fn ceil(self) -> u128 {
        self.floor() + u128::from(self.whole().is_none() && self.scale > 0)
    }

    /// Is it smaller than the other one?
    pub(crate) fn is_below(self, other: Decimal) -> bool {
        let scale = self.scale.max(other.scale);
        let scaled =
            |number: Decimal| Some(10_u128.checked_pow(scale - number.scale)?.saturating_mul(number.digits));
        scaled(self) < scaled(other)
    }

    /// The product, unless it overflows.
    pub(crate) fn times(self, other: Decimal) -> Option<Decimal> {
        let digits = self.digits.checked_mul(other.digits)?;
        Some(Decimal { digits, scale: self.scale + other.scale }.reduced())
    }
}

impl From<u64> for Decimal {
    fn from(number: u64) -> Decimal {
        Decimal { digits: u128::from(number), scale: 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        assert!(number("9.99").is_below(number("10")) && !number("10").is_below(number("1e1")));
        assert_eq!((number("2.5").ceil(), number("2").ceil(), number("0.1").floor()), (3, 2, 0));
    }
}
