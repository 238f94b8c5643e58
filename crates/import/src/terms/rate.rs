//! Rates of foreign documents as whole numbers of tokens per window.

use tidegate_core::{Nanos, Rate};

use super::decimal::Decimal;
use super::window::{Unit, UnitWindow};

/// The most decimals of a rate that are imported: its window is then 10⁹ s, which are 32 years.
const DECIMALS_MAX: u32 = 9;

/// A whole number of tokens per window: the field `sustained` of a policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SustainedRate {
    pub(crate) rate: u64,
    pub(crate) window: UnitWindow,
}

impl SustainedRate {
    /// Multiplies rate and window by a power of ten until the rate is whole: 0.083 per second are 83 per 1000 s.
    /// Decimals that would need a window longer than policies allow are cut off.
    ///
    /// # Errors
    /// With a message, if no policy allows the rate.
    pub(crate) fn new(rate: Decimal, window: UnitWindow) -> Result<SustainedRate, String> {
        let fits = |decimals: &u32| stretched(window, *decimals).is_some();
        let decimals = (0..=DECIMALS_MAX).rev().find(fits).ok_or("this window is too long")?;
        let cut = rate.cut(decimals);
        let longer = stretched(window, cut.scale).ok_or("this window is too long")?;
        let tokens = u64::try_from(cut.digits).map_err(|_| "this rate has too many digits")?;
        match SustainedRate::checked(tokens, longer) {
            // So slow that the decimals that were cut off matter.
            Err(_) if cut != rate && cut.floor() == 0 => SustainedRate::one_per(rate, window),
            pace => pace,
        }
    }

    /// A rate below one as a single token in a longer window, rounded up to a millisecond.
    ///
    /// # Errors
    /// With a message, if no policy allows the rate.
    pub(crate) fn one_per(rate: Decimal, window: UnitWindow) -> Result<SustainedRate, String> {
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

    /// Is it exactly this rate, without rounding?
    pub(crate) fn is_exactly(self, rate: Decimal, window: UnitWindow) -> bool {
        u128::from(self.rate) == rate.digits && Some(self.window) == stretched(window, rate.scale)
    }
}

/// The window times ten to the power of `decimals`, unless that is longer than policies allow.
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
            assert_eq!((pace.rate, pace.window.to_text().as_str()), (tokens, window), "{rate}");
        }
    }

    #[test]
    fn the_window_keeps_its_unit() {
        let rate = Decimal::parse("0.25").unwrap();
        let pace = SustainedRate::new(rate, UnitWindow::MINUTE).unwrap();
        assert_eq!((pace.rate, pace.window.to_text().as_str()), (25, "100m"));
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
            // Cut to nine decimals it would be slower than 1 per 366 days, the slowest rate of a policy.
            ("0.0000000317", 1, "31545741325ms"),
        ] {
            let pace = pace(rate);
            assert_eq!((pace.rate, pace.window.to_text().as_str()), (tokens, window), "{rate}");
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
            assert_eq!((pace.rate, pace.window.to_text().as_str()), (tokens, window));
        }
    }

    #[test]
    fn slow_rates_are_one_in_a_longer_window() {
        let of = |rate: &str| SustainedRate::one_per(Decimal::parse(rate).unwrap(), UnitWindow::SECOND);
        assert_eq!(of("0.5").unwrap().window.to_text(), "2s");
        assert_eq!(of("0.3333333333333333").unwrap().window.to_text(), "3001ms");
        assert!(of("0.00000000001").is_err());
    }

    #[test]
    fn what_a_policy_cannot_say_is_refused() {
        for rate in ["0.00000001", "2000000000", "0.000000000000000001"] {
            let rate = Decimal::parse(rate).unwrap();
            assert!(SustainedRate::new(rate, UnitWindow::SECOND).is_err(), "{rate:?}");
        }
    }
}
