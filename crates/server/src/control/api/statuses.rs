//! The statuses with which routes refuse calls, for the OpenAPI document. What a route can answer follows from the table.

use http::{Method, StatusCode};
use serde_json::{Map, Value, json};

use super::route::{ApiRoute, RouteAccess, TenantRule};
use super::shape::BodyShape;

/// Every status of a refusal that belongs to a route, and what it means.
const MEANINGS: &[(StatusCode, &str)] = &[
    (StatusCode::BAD_REQUEST, "A parameter, a header or the body is not valid."),
    (StatusCode::UNAUTHORIZED, "The token is missing or not valid."),
    (StatusCode::FORBIDDEN, "The token may not do this, or the listener does not serve it."),
    (StatusCode::NOT_FOUND, "There is no such entry, or the token may not see it."),
    (StatusCode::REQUEST_TIMEOUT, "The body did not arrive in time."),
    (
        StatusCode::CONFLICT,
        "The state of the server does not allow it: a name is taken, the policy comes from a file, or there is no \
         database.",
    ),
    (StatusCode::PRECONDITION_FAILED, "`If-Match` names another version than the one in force."),
    (StatusCode::PAYLOAD_TOO_LARGE, "The body is too large."),
    (StatusCode::UNSUPPORTED_MEDIA_TYPE, "The body has a media type that the route does not take."),
    (StatusCode::UNPROCESSABLE_ENTITY, "The value cannot be used. Nothing was changed."),
    (StatusCode::TOO_MANY_REQUESTS, "Too many calls; `Retry-After` says when to repeat this one."),
];

/// The key of all statuses that are no fault of the caller.
const SERVER_ERRORS: &str = "5XX";

/// Can a route answer with a status of [`MEANINGS`]?
fn answers_with(route: &ApiRoute, status: StatusCode) -> bool {
    let has_body = !matches!(route.body, BodyShape::None);
    let writes_version = route.is_versioned_write();
    match status {
        StatusCode::UNAUTHORIZED => route.access != RouteAccess::Open,
        // Bodies and parameters of routes that are about a subtree may name tenants and entries.
        StatusCode::NOT_FOUND => {
            let is_subtree = matches!(route.access, RouteAccess::Role(_, TenantRule::Subtree));
            route.path_names().next().is_some() || (is_subtree && route.method != Method::GET)
        }
        StatusCode::CONFLICT => {
            !matches!(route.access, RouteAccess::Open | RouteAccess::Role(_, TenantRule::Any))
        }
        StatusCode::PRECONDITION_FAILED => writes_version,
        StatusCode::REQUEST_TIMEOUT | StatusCode::PAYLOAD_TOO_LARGE => has_body,
        StatusCode::UNSUPPORTED_MEDIA_TYPE => has_body && !matches!(route.body, BodyShape::Text),
        StatusCode::UNPROCESSABLE_ENTITY => {
            writes_version || (has_body && !matches!(route.body, BodyShape::PolicyDraft))
        }
        _ => true,
    }
}

/// The responses with which a route refuses calls, as references to [`components`].
pub(super) fn refusals(route: &ApiRoute) -> impl Iterator<Item = (String, Value)> {
    let statuses = MEANINGS.iter().filter(|(status, _)| answers_with(route, *status));
    let keys = statuses.map(|(status, _)| status.as_u16().to_string()).chain([SERVER_ERRORS.to_owned()]);
    keys.map(|key| {
        let reference = json!({ "$ref": format!("#/components/responses/{key}") });
        (key, reference)
    })
}

/// The responses that all routes share.
pub(super) fn components() -> Value {
    let refusal = |about: &str| {
        json!({
            "description": about,
            "content": { "application/problem+json": { "schema": { "$ref": "#/components/schemas/Problem" } } },
        })
    };
    let mut responses = Map::new();
    for (status, about) in MEANINGS {
        let mut response = refusal(about);
        let header = match *status {
            StatusCode::UNAUTHORIZED => Some(("WWW-Authenticate", json!({ "type": "string" }))),
            StatusCode::TOO_MANY_REQUESTS => {
                Some(("Retry-After", json!({ "type": "integer", "minimum": 1 })))
            }
            _ => None,
        };
        if let Some((name, schema)) = header {
            response["headers"] = json!({ name: { "required": true, "schema": schema } });
        }
        responses.insert(status.as_u16().to_string(), response);
    }
    let about = "Something that the call needs does not answer, or the call has failed. Repeat it later.";
    responses.insert(SERVER_ERRORS.to_owned(), refusal(about));
    Value::Object(responses)
}
