//! `/debug/trust?user=…`: the trust score of a user, and what it was computed from.

use std::sync::Arc;

use http::{Request, StatusCode};
use serde_json::json;
use tidegate::{Clock, Nanos};
use tidegate_policy::query_value;

use super::endpoints::{AdminResponse, object, problem, refused};
use super::{AdminClient, guard};
use crate::node::Node;
use crate::wire::trust_report;

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
    let report = book.report(&user, now);
    let mut page = json!(trust_report(&report));
    page["user"] = user.into();
    page["applied"] = node.limiter().rules().uses_trust().into();
    page["age_seconds"] = (now.saturating_sub(report.computed).get() / Nanos::SECOND.get()).into();
    object(StatusCode::OK, &page)
}
