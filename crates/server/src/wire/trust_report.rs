//! A trust score as JSON, with its terms and what it was computed from.

use serde::Serialize;
use tidegate::engine::trust::TrustReport;
use utoipa::ToSchema;

/// A score, its terms and its inputs.
#[derive(Debug, Serialize)]
pub(crate) struct ShownScore {
    /// Is anything known about the account? If not, its limits are as the policy has them.
    pub(crate) known: bool,
    /// The trust, from 0 to 1, cut to hundredths.
    pub(crate) trust: f64,
    /// What it is the sum of.
    pub(crate) terms: ShownTerms,
    /// What the terms were computed from.
    pub(crate) inputs: ShownInputs,
}

/// The terms of a score.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ShownTerms {
    /// For the age of the account: 1/365 for each day, at most 0.3.
    account_age: f64,
    /// For a verified email address: 0.2.
    email_verified: f64,
    /// For success: half of the success rate.
    success_rate: f64,
    /// For violations: −0.05 for each, at least −0.2.
    violations: f64,
}

/// What a score is computed from. What is not known is 0 or false.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ShownInputs {
    /// The age of the account in days.
    account_age_days: u64,
    /// Is its email address verified?
    email_verified: bool,
    /// The success rate of its requests in the last seven days.
    success_rate: f64,
    /// How often it has exceeded limits of this node in the last thirty days.
    violations_30d: u64,
}

/// The score, its terms and its inputs.
pub(crate) fn trust_report(report: &TrustReport) -> ShownScore {
    let TrustReport { is_known, inputs, score, .. } = report;
    ShownScore {
        known: *is_known,
        trust: f64::from(score.hundredths()) / 100.0,
        terms: ShownTerms {
            account_age: millionths(score.age),
            email_verified: millionths(score.email),
            success_rate: millionths(score.success),
            // Subtracted from 0, because `-0.0` would be written for no violations.
            violations: 0.0 - millionths(score.penalty),
        },
        inputs: ShownInputs {
            account_age_days: inputs.account_age_days,
            email_verified: inputs.email_verified,
            success_rate: millionths(inputs.success.millionths()),
            violations_30d: inputs.violations_30d,
        },
    }
}

/// A number of millionths as a fraction.
pub(crate) fn millionths(number: u32) -> f64 {
    f64::from(number) / 1_000_000.0
}
