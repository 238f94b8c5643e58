//! `/debug/trust?user=…`: the trust score of a user, and what it was computed from.

use std::sync::Arc;

use http::{Request, StatusCode};
use serde_json::{Value, json};
use tidegate::engine::trust::TrustReport;
use tidegate::{Clock, Nanos};
use tidegate_policy::query_value;

use super::endpoints::{AdminResponse, object, problem, refused};
use super::{AdminClient, guard};
use crate::node::Node;

/// Renders the page. It tells about users, so it is not for everybody who can connect.
pub(super) async fn trust<B>(node: Arc<Node>, caller: AdminClient, request: &Request<B>) -> AdminResponse {
    if let Err(refusal) = guard::check_token(&node, caller, request.headers()) {
        return refused(refusal);
    }
    let Some(book) = node.limiter().trust_book() else {
        let detail = "trust is not computed here; add `trust` to the settings";
        return problem(StatusCode::NOT_FOUND, detail, json!({}));
    };
    let Some(user) = query_value(request.uri().query().unwrap_or_default(), "user") else {
        return problem(StatusCode::BAD_REQUEST, "name the user: `/debug/trust?user=42`", json!({}));
    };
    let now = node.clock().wall();
    let is_applied = node.limiter().rules().uses_trust();
    object(StatusCode::OK, &page(&user, &book.report(&user, now), is_applied, now))
}

fn page(user: &str, report: &TrustReport, is_applied: bool, now: Nanos) -> Value {
    let TrustReport { is_known, inputs, score, computed } = report;
    json!({
        "user": user,
        "known": is_known,
        "applied": is_applied,
        "trust": hundredths(score.hundredths()),
        "terms": {
            "account_age": millionths(score.age),
            "email_verified": millionths(score.email),
            "success_rate": millionths(score.success),
            // A difference, so that none is not shown as -0.
            "violations": 0.0 - millionths(score.penalty),
        },
        "inputs": {
            "account_age_days": inputs.account_age_days,
            "email_verified": inputs.email_verified,
            "success_rate": millionths(inputs.success.millionths()),
            "violations_30d": inputs.violations_30d,
        },
        "age_seconds": now.saturating_sub(*computed).get() / Nanos::SECOND.get(),
    })
}

fn hundredths(number: u8) -> f64 {
    f64::from(number) / 100.0
}

fn millionths(number: u32) -> f64 {
    f64::from(number) / 1_000_000.0
}
