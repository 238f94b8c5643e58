//! A trust score, computed from what is known about an account.
//!
//! The score is the sum of these terms, clamped to 0 to 1:
//! `min(age in days / 365, 0.3)`, `0.2` if the email is verified, `0.5 × success rate`, and
//! `−min(0.05 × violations, 0.2)`. The sum is exact; only its result is cut, to hundredths.

use std::fmt;

/// One, in millionths.
const ONE: u32 = 1_000_000;

/// One, in the unit of the terms that do not depend on a success rate: all of them are whole numbers of it.
const UNITS: u64 = 14_600;
const AGE_PER_DAY: u64 = UNITS / 365;
const AGE_MAX: u64 = UNITS * 3 / 10;
const EMAIL_VERIFIED: u64 = UNITS / 5;
const PER_VIOLATION: u64 = UNITS / 20;
const PENALTY_MAX: u64 = UNITS / 5;
const SUCCESS_MAX: u64 = UNITS / 2;

/// More violations than this make no difference to a score.
pub const VIOLATIONS_MAX: usize = (PENALTY_MAX / PER_VIOLATION) as usize;

/// The facts about an account from which its score is computed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TrustInputs {
    /// The age of the account in whole days; 0 if it is not known.
    pub account_age_days: u64,
    /// Whether its email address is verified; `false` if that is not known.
    pub email_verified: bool,
    /// How many of its requests succeeded in the last seven days.
    pub success: SuccessRate,
    /// How often it exceeded a limit in the last thirty days.
    pub violations_30d: u64,
}

/// How many of some requests succeeded. No requests at all, the default, count as a rate of 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SuccessRate {
    successes: u64,
    requests: u64,
}

impl SuccessRate {
    /// This many of this many requests; more successes than requests are read as a rate of 1.
    pub const fn new(successes: u64, requests: u64) -> SuccessRate {
        SuccessRate { successes: if successes < requests { successes } else { requests }, requests }
    }

    /// From a rate in millionths; more than a million is read as a million.
    pub const fn from_millionths(millionths: u32) -> SuccessRate {
        SuccessRate::new(millionths as u64, ONE as u64)
    }

    /// Parses a rate from 0 to 1. Decimals beyond the sixth are dropped.
    pub fn parse(text: &str) -> Option<SuccessRate> {
        let (whole, part) = text.split_once('.').unwrap_or((text, "0"));
        let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        if !digits(whole) || !digits(part) {
            return None;
        }
        let place = |index: usize| part.as_bytes().get(index).map_or(0, |byte| u32::from(byte - b'0'));
        match whole.trim_start_matches('0') {
            "" => Some(SuccessRate::from_millionths((0..6).fold(0, |sum, index| sum * 10 + place(index)))),
            "1" if part.bytes().all(|byte| byte == b'0') => Some(SuccessRate::from_millionths(ONE)),
            _ => None,
        }
    }

    /// In millionths, rounded down.
    pub const fn millionths(self) -> u32 {
        match self.requests {
            0 => 0,
            requests => (self.successes as u128 * ONE as u128 / requests as u128) as u32,
        }
    }
}

/// The score and its terms, in millionths.
///
/// The score is computed from exact fractions. The terms and the total shown here are each rounded down, so the
/// total may exceed the sum of the shown terms by up to two millionths.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TrustScore {
    /// For the age of the account: 1/365 per day, up to 0.3. That is reached after 110 days, not after a year.
    pub age: u32,
    /// For a verified email address: 0.2.
    pub email: u32,
    /// For success: half of the success rate.
    pub success: u32,
    /// Subtracted for violations: 0.05 each, up to 0.2.
    pub penalty: u32,
    /// The sum, clamped to 0 to 1.
    pub total: u32,
}

impl TrustScore {
    /// The score of an account.
    pub fn of(known: &TrustInputs) -> TrustScore {
        let age = known.account_age_days.saturating_mul(AGE_PER_DAY).min(AGE_MAX);
        let email = if known.email_verified { EMAIL_VERIFIED } else { 0 };
        let penalty = known.violations_30d.saturating_mul(PER_VIOLATION).min(PENALTY_MAX);
        // All terms over one denominator. Without requests there are no successes, and any number will do.
        let requests = u128::from(known.success.requests.max(1));
        let success = u128::from(SUCCESS_MAX) * u128::from(known.success.successes);
        let one = u128::from(UNITS) * requests;
        let raised = u128::from(age + email) * requests + success;
        let total = raised.saturating_sub(u128::from(penalty) * requests).min(one);
        let millionths = |part: u128| (part * u128::from(ONE) / one) as u32;
        let [age, email, penalty] =
            [age, email, penalty].map(|units| millionths(u128::from(units) * requests));
        TrustScore { age, email, success: millionths(success), penalty, total: millionths(total) }
    }

    /// The score in hundredths, rounded down, from 0 to 100: the trust by which limits are scaled.
    pub const fn hundredths(&self) -> u8 {
        // Cutting to millionths first does not change the hundredths.
        (self.total / (ONE / 100)) as u8
    }
}

/// A number of millionths as a decimal fraction.
fn fraction(millionths: u32) -> String {
    format!("{}.{:06}", millionths / ONE, millionths % ONE)
}

impl fmt::Display for TrustScore {
    /// Each term on a line of its own, then the total.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let terms = [
            ("account age", '+', self.age),
            ("verified email", '+', self.email),
            ("success rate", '+', self.success),
            ("violations", '-', self.penalty),
        ];
        for (what, sign, millionths) in terms {
            writeln!(f, "{what:<14} {sign}{}", fraction(millionths))?;
        }
        write!(f, "{:<14}  {}", "trust", fraction(self.total))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const NEWCOMER: TrustInputs = TrustInputs {
        account_age_days: 0,
        email_verified: false,
        success: SuccessRate { successes: 0, requests: 0 },
        violations_30d: 0,
    };

    #[test]
    fn the_age_term_saturates_at_110_days() {
        let age = |account_age_days| TrustScore::of(&TrustInputs { account_age_days, ..NEWCOMER }).age;
        assert_eq!([age(0), age(1), age(73), age(109)], [0, 2_739, 200_000, 298_630]);
        assert_eq!([age(110), age(365), age(u64::MAX)], [300_000; 3]);
    }

    #[test]
    fn every_term_counts_up_to_its_bound() {
        let best = TrustInputs {
            account_age_days: 110,
            email_verified: true,
            success: SuccessRate::new(7, 7),
            violations_30d: 0,
        };
        assert_eq!(TrustScore::of(&best).total, 1_000_000);
        assert_eq!(TrustScore::of(&best).hundredths(), 100);
        let boastful = TrustInputs { success: SuccessRate::new(u64::MAX, 7), ..best };
        assert_eq!(TrustScore::of(&boastful), TrustScore::of(&best));
        let total = |violations_30d| TrustScore::of(&TrustInputs { violations_30d, ..best }).total;
        assert_eq!([total(1), total(3), total(4)], [950_000, 850_000, 800_000]);
        assert_eq!([total(5), total(u64::MAX)], [800_000; 2]);
        assert_eq!(VIOLATIONS_MAX, 4);
    }

    #[test]
    fn it_never_falls_below_zero() {
        let score = TrustScore::of(&TrustInputs { violations_30d: 4, account_age_days: 10, ..NEWCOMER });
        assert_eq!((score.age, score.penalty, score.total), (27_397, 200_000, 0));
        assert_eq!(score.hundredths(), 0);
    }

    #[test]
    fn hundredths_are_cut_not_rounded() {
        let score =
            TrustScore::of(&TrustInputs { success: SuccessRate::new(999_999, 1_000_000), ..NEWCOMER });
        assert_eq!((score.total, score.hundredths()), (499_999, 49));
    }

    #[test]
    fn rates_are_parsed_without_floating_point() {
        for (text, millionths) in [
            ("0", 0),
            ("0.29", 290_000),
            ("00.5", 500_000),
            ("0.9999999", 999_999),
            ("1", ONE),
            ("1.00", ONE),
        ] {
            assert_eq!(SuccessRate::parse(text).map(SuccessRate::millionths), Some(millionths), "{text}");
        }
        for wrong in ["", ".5", "1.1", "2", "-0", "0.5 ", "1e-1", "0.", "true"] {
            assert_eq!(SuccessRate::parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn it_shows_how_it_adds_up() {
        let score = TrustScore::of(&TrustInputs {
            account_age_days: 109,
            email_verified: true,
            success: SuccessRate::from_millionths(900_000),
            violations_30d: 1,
        });
        let shown = "account age    +0.298630\nverified email +0.200000\nsuccess rate   +0.450000\n\
                     violations     -0.050000\ntrust           0.898630";
        assert_eq!(score.to_string(), shown);
    }

    /// A fraction that is not reduced.
    #[derive(Clone, Copy, Debug)]
    struct Fraction(i128, i128);

    impl Fraction {
        fn plus(self, other: Fraction) -> Fraction {
            Fraction(self.0 * other.1 + other.0 * self.1, self.1 * other.1)
        }

        fn min(self, other: Fraction) -> Fraction {
            if self.0 * other.1 <= other.0 * self.1 { self } else { other }
        }
    }

    /// The formula, term by term.
    fn model(days: u64, verified: bool, (successes, requests): (u64, u64), violations: u64) -> u8 {
        let age = Fraction(days.into(), 365).min(Fraction(3, 10));
        let email = if verified { Fraction(2, 10) } else { Fraction(0, 1) };
        let success = Fraction(i128::from(successes), 2 * i128::from(requests));
        let penalty = Fraction(5 * i128::from(violations), 100).min(Fraction(2, 10));
        let sum = age.plus(email).plus(success).plus(Fraction(-penalty.0, penalty.1));
        let sum = if sum.0 < 0 { Fraction(0, 1) } else { sum.min(Fraction(1, 1)) };
        (100 * sum.0 / sum.1) as u8
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(20_000))]
        #[test]
        fn the_score_is_the_formula_to_the_last_hundredth(
            days in 0_u64..400,
            verified: bool,
            (successes, requests) in prop_oneof![1_u64..400, Just(1_000_000), 1..1_u64 << 40]
                .prop_flat_map(|requests| (0..=requests, Just(requests))),
            violations in 0_u64..8,
        ) {
            let score = TrustScore::of(&TrustInputs {
                account_age_days: days,
                email_verified: verified,
                success: SuccessRate::new(successes, requests),
                violations_30d: violations,
            });
            prop_assert_eq!(score.hundredths(), model(days, verified, (successes, requests), violations));
            let sum = i64::from(score.age) + i64::from(score.email) + i64::from(score.success);
            let sum = (sum - i64::from(score.penalty)).clamp(0, ONE.into());
            prop_assert!((0..=2).contains(&(i64::from(score.total) - sum)), "the shown terms add up: {}", score);
        }
    }
}
