//! A trust score as JSON, with its terms and what it was computed from.

use serde_json::{Value, json};
use tidegate::engine::trust::TrustReport;

/// The score, its terms and its inputs.
pub(crate) fn trust_report(report: &TrustReport) -> Value {
    let TrustReport { is_known, inputs, score, .. } = report;
    json!({
        "known": is_known,
        "trust": f64::from(score.hundredths()) / 100.0,
        "terms": {
            "account_age": millionths(score.age),
            "email_verified": millionths(score.email),
            "success_rate": millionths(score.success),
            // Subtracted from 0, because `-0.0` would be written for no violations.
            "violations": 0.0 - millionths(score.penalty),
        },
        "inputs": {
            "account_age_days": inputs.account_age_days,
            "email_verified": inputs.email_verified,
            "success_rate": millionths(inputs.success.millionths()),
            "violations_30d": inputs.violations_30d,
        },
    })
}

fn millionths(number: u32) -> f64 {
    f64::from(number) / 1_000_000.0
}
