//! `/readyz`.

use http::StatusCode;
use serde_json::{Value, json};

use super::answer::{AdminResponse, object};
use crate::node::Node;
use crate::observe::{Readiness, ReadinessReason};

/// May requests come here, and is all as it should be?
pub(super) fn ready(node: &Node) -> AdminResponse {
    let readiness = Readiness::of(node);
    let status = if readiness.is_ready() { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    let told = |troubles: &[ReadinessReason]| -> Vec<Value> {
        troubles.iter().map(|trouble| json!({ "reason": trouble.what, "detail": trouble.detail })).collect()
    };
    let body = json!({
        "status": readiness.status(),
        "unready": told(&readiness.unready),
        "degraded": told(&readiness.degraded),
        "policy_version": node.limiter().version(),
    });
    object(status, &body)
}
