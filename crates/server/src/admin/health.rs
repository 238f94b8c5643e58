//! `/readyz`.

use http::StatusCode;
use serde_json::{Value, json};

use super::endpoints::{AdminResponse, object};
use crate::node::Node;
use crate::observe::{Readiness, ReadinessReason};

/// 200 if the server is ready for requests, 503 if not; the body has the reasons.
pub(super) fn ready(node: &Node) -> AdminResponse {
    let readiness = Readiness::of(node);
    let status = if readiness.is_ready() { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    let reasons = |list: &[ReadinessReason]| -> Vec<Value> {
        list.iter().map(|reason| json!({ "reason": reason.what, "detail": reason.detail })).collect()
    };
    let body = json!({
        "status": readiness.status(),
        "unready": reasons(&readiness.unready),
        "degraded": reasons(&readiness.degraded),
        "notes": reasons(&readiness.notes),
        "policy_version": node.limiter().version(),
    });
    object(status, &body)
}
