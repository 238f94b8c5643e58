//! Routes about the penalties of burst detectors.

use http::Method;
use serde::Serialize;
use tidegate::Clock;
use utoipa::ToSchema;

use crate::admin::penalties::{id_text, parse_id, shown};
use crate::control::access::AccessRole;
use crate::control::api::query::{PAGE, REASON};
use crate::control::api::route::{Answering, ApiRoute, RouteAccess, TenantRule};
use crate::control::api::shape::{AnswerShape, JsonShape};
use crate::control::api::{ApiAnswer, ApiCall, ApiError};

/// A penalty of a burst detector.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct PenaltyEntry {
    /// Its name.
    id: String,
    /// The detector.
    detector: String,
    /// The client's key; of values that may be secrets a few characters and a hash.
    key: String,
    /// `warning` or `block`.
    kind: String,
    /// When it ends.
    until: Option<String>,
}

/// The routes.
pub(in crate::control::api) fn routes() -> Vec<ApiRoute> {
    let answer = JsonShape::of::<PenaltyEntry>();
    let access = |role| RouteAccess::Role(role, TenantRule::Subtree);
    let listed = "The warnings and blocks of burst detectors that are in force.";
    let (list_of, one) = (AnswerShape::List(answer), AnswerShape::Json(answer));
    vec![
        ApiRoute {
            query: &[PAGE],
            ..ApiRoute::new(Method::GET, "/penalties", access(AccessRole::Viewer), listed, list_of, list)
        },
        ApiRoute {
            query: &[REASON],
            ..ApiRoute::new(
                Method::DELETE,
                "/penalties/{id}",
                access(AccessRole::Operator),
                "Lifts a penalty.",
                one,
                lift,
            )
        },
    ]
}

/// `GET /penalties`
fn list(call: ApiCall) -> Answering {
    Box::pin(async move {
        // A penalty does not say of which tenant it is.
        if call.principal().tenant.is_some() {
            return Ok(ApiAnswer::list(Vec::new(), None));
        }
        let wrong = || ApiError::parameter("cursor", "it must be the `next` of an earlier page".to_owned());
        let after = call.query.get("cursor").map(|id| parse_id(id).ok_or_else(wrong)).transpose()?;
        let page = call.node.limiter().burst_penalties(after, call.query.page_length()).await;
        let mut items: Vec<_> = page.penalties.iter().map(shown).collect();
        if let Some(wanted) = call.query.get("q") {
            items.retain(|item| item.to_string().contains(wanted));
        }
        Ok(ApiAnswer::list(items, page.next.map(id_text)))
    })
}

/// `DELETE /penalties/{id}`
fn lift(call: ApiCall) -> Answering {
    Box::pin(async move {
        let (name, reason) = (call.path.get(0), call.reason()?);
        let unknown = || ApiError::NotFound { what: "penalty", name: name.chars().take(64).collect() };
        let id = parse_id(name).filter(|_| call.principal().tenant.is_none()).ok_or_else(unknown)?;
        let lifted = call.node.limiter().lift_burst_penalty(id).await;
        let lifted = lifted.map_err(|error| ApiError::Unavailable(error.to_string()))?.ok_or_else(unknown)?;
        let by = Some((&*call.principal().actor, reason.as_deref()));
        call.node.events().penalty_lifted(&lifted.detector, &lifted.key, by, call.node.clock().wall());
        Ok(ApiAnswer::json(&shown(&lifted)))
    })
}
