//! A trust score, computed from what is known about an account.
//!
//! The score is the sum of these terms, clamped to 0 to 1:
//! `min(age in days / 365, 0.3)`, `0.2` if the email is verified, `0.5 × success rate`, and
//! `−min(0.05 × violations, 0.2)`.

use std::fmt;

/// One, in millionths.
const ONE: u32 = 1_000_000;
const AGE_MAX: u32 = 300_000;
const EMAIL_VERIFIED: u32 = 200_000;
const PER_VIOLATION: u32 = 50_000;
const PENALTY_MAX: u32 = 200_000;

/// The facts about an account from which its score is computed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TrustInputs {
    /// The age of the account in whole days.
    pub account_age_days: u64,
    /// Whether its email address is verified.
    pub email_verified: bool,
    /// The fraction of its requests that succeeded in the last seven days, in millionths; more than a million
    /// is read as a million.
    pub success_rate_millionths: u32,
    /// How often it exceeded a limit in the last thirty days.
    pub violations_30d: u64,
}

/// The score and its terms, in millionths.
///
/// Each term is rounded down to a millionth, and the total is exactly their sum, clamped to 0 to 1, so that the
/// displayed terms add up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
        let age = at_most(known.account_age_days.saturating_mul(u64::from(ONE)) / 365, AGE_MAX);
        let email = if known.email_verified { EMAIL_VERIFIED } else { 0 };
        let success = known.success_rate_millionths.min(ONE) / 2;
        let penalty = at_most(known.violations_30d.saturating_mul(u64::from(PER_VIOLATION)), PENALTY_MAX);
        let total = (age + email + success).saturating_sub(penalty).min(ONE);
        TrustScore { age, email, success, penalty, total }
    }

    /// The score in hundredths, rounded down, from 0 to 100: the trust by which limits are scaled.
    pub const fn hundredths(&self) -> u8 {
        (self.total / (ONE / 100)) as u8
    }
}

/// The smaller of the two, which fits into 32 bits.
fn at_most(value: u64, most: u32) -> u32 {
    u32::try_from(value).map_or(most, |value| value.min(most))
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
            writeln!(f, "{what:<14} {sign}{}.{:06}", millionths / ONE, millionths % ONE)?;
        }
        write!(f, "{:<14}  {}.{:06}", "trust", self.total / ONE, self.total % ONE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NEWCOMER: TrustInputs = TrustInputs {
        account_age_days: 0,
        email_verified: false,
        success_rate_millionths: 0,
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
            success_rate_millionths: 1_000_000,
            violations_30d: 0,
        };
        assert_eq!(TrustScore::of(&best).total, 1_000_000);
        assert_eq!(TrustScore::of(&best).hundredths(), 100);
        let boastful = TrustInputs { success_rate_millionths: u32::MAX, ..best };
        assert_eq!(TrustScore::of(&boastful), TrustScore::of(&best));
        let total = |violations_30d| TrustScore::of(&TrustInputs { violations_30d, ..best }).total;
        assert_eq!([total(1), total(3), total(4)], [950_000, 850_000, 800_000]);
        assert_eq!([total(5), total(u64::MAX)], [800_000; 2]);
    }

    #[test]
    fn it_never_falls_below_zero() {
        let score = TrustScore::of(&TrustInputs { violations_30d: 4, account_age_days: 10, ..NEWCOMER });
        assert_eq!((score.age, score.penalty, score.total), (27_397, 200_000, 0));
        assert_eq!(score.hundredths(), 0);
    }

    #[test]
    fn hundredths_are_cut_not_rounded() {
        let score = TrustScore::of(&TrustInputs { success_rate_millionths: 999_999, ..NEWCOMER });
        assert_eq!((score.total, score.hundredths()), (499_999, 49));
    }

    #[test]
    fn it_shows_how_it_adds_up() {
        let score = TrustScore::of(&TrustInputs {
            account_age_days: 109,
            email_verified: true,
            success_rate_millionths: 900_000,
            violations_30d: 1,
        });
        let shown = "account age    +0.298630\nverified email +0.200000\nsuccess rate   +0.450000\n\
                     violations     -0.050000\ntrust           0.898630";
        assert_eq!(score.to_string(), shown);
    }
}
