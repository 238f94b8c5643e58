//! The admin API: everything under `/api/v1/` on the admin listener.
//!
//! [`table`] lists all routes, and everything else is derived from it: which route a request takes, who may use it, the
//! OpenAPI document, and the reference page. A route's handler gets an [`ApiCall`], whose parameters are checked, and
//! returns an [`ApiAnswer`] or an [`ApiError`]; [`render`](ApiAnswer::render) writes either.

mod answer;
mod call;
mod csv;
mod endpoints;
pub(super) mod error;
pub(crate) mod openapi;
pub(super) mod query;
pub(crate) mod route;
pub(crate) mod shape;
mod statuses;
pub(crate) mod table;
mod time;

use std::sync::Arc;

use bytes::Bytes;
use http::request::Parts;
use http::{Method, Response};
use tidegate::Clock;
use tokio_util::sync::CancellationToken;

use answer::AnswerFormat;
pub(crate) use answer::{AnswerView, ApiAnswer, EventFeed};
pub(crate) use call::ApiCall;
pub(crate) use error::ApiError;
pub(crate) use time::rfc3339;

use super::access::AccessProof;
use crate::admin::AdminClient;
use crate::node::Node;
use query::Query;
use route::{ApiRoute, PathValues, RouteAccess, TenantRule};

/// The path that all routes begin with.
pub(crate) const PREFIX: &str = "/api/v1";

/// Answers a request whose body has arrived. It runs on the runtime of the control plane, and to its end even if `left` is
/// cancelled: the client has disconnected then.
pub(crate) async fn respond(
    node: Arc<Node>,
    client: AdminClient,
    head: Parts,
    body: Bytes,
    left: CancellationToken,
) -> Response<Bytes> {
    let found = find(&head.method, head.uri.path().strip_prefix(PREFIX).unwrap_or_default());
    let shape = found.as_ref().ok().and_then(|(route, _)| route.listed());
    let answered = answer_to(&node, client, &head, (body, left), found).await;
    let is_head = head.method == Method::HEAD;
    let mut response = match answered {
        Ok(answer) => answer.render(&AnswerView {
            format: AnswerFormat::of(&head.headers),
            query: head.uri.query().unwrap_or_default(),
            shape,
        }),
        Err(error) => error.render(),
    };
    if is_head {
        response.extensions_mut().clear();
        *response.body_mut() = Bytes::new();
    }
    response
}

async fn answer_to(
    node: &Arc<Node>,
    client: AdminClient,
    head: &Parts,
    (body, left): (Bytes, CancellationToken),
    found: Result<(&'static ApiRoute, PathValues), ApiError>,
) -> Result<ApiAnswer, ApiError> {
    let control = node.control().ok_or(ApiError::NoControlPlane)?;
    let address = client.address_of(node, &head.headers);
    let (route, values) = match found {
        Ok(found) => found,
        // Such calls are limited, too.
        Err(error) => {
            return Err(control.access().open_call(address).map_or_else(ApiError::from, |()| error));
        }
    };
    let principal = match route.access {
        RouteAccess::Open => {
            control.access().open_call(address)?;
            None
        }
        RouteAccess::Role(role, tenants) => {
            let proof = AccessProof {
                headers: &head.headers,
                address,
                writes: !head.method.is_safe(),
                may_use_session: client.is_private(),
            };
            let principal = control.access().authenticate(proof).await;
            let principal = principal.inspect_err(|error| node.note_access_error(error, address))?;
            if principal.role < role {
                return Err(ApiError::Role { needed: role, role: principal.role });
            }
            if principal.tenant.is_some() && tenants == TenantRule::Whole {
                return Err(ApiError::RestrictedToTenant);
            }
            Some(principal)
        }
    };
    let query = Query::parse(head.uri.query().unwrap_or_default(), &route.query())?;
    let call = ApiCall {
        node: Arc::clone(node),
        principal,
        method: head.method.clone(),
        target: head.uri.to_string(),
        path: values,
        query,
        headers: head.headers.clone(),
        body,
        left,
        collection: route.collection,
        now: node.clock().wall(),
    };
    call.check_body(&route.body)?;
    (route.handler)(call).await
}

/// The methods to name in `Allow`, of routes whose path is whole or has values. A whole path is a resource of its own: the
/// document describes `/trust/outcomes` and `/trust/{user}` apart, though a user may have that name.
fn methods_of(found: Vec<(bool, Method)>) -> Vec<Method> {
    let has_whole = found.iter().any(|(is_whole, _)| *is_whole);
    found.into_iter().filter(|(is_whole, _)| *is_whole || !has_whole).map(|(_, method)| method).collect()
}

/// The route of a request, and the values in its path.
fn find(method: &Method, path: &str) -> Result<(&'static ApiRoute, PathValues), ApiError> {
    let method = if *method == Method::HEAD { &Method::GET } else { method };
    let mut allowed = Vec::new();
    for route in table::routes() {
        let Some(values) = route.matches(path) else { continue };
        if route.method == *method {
            return Ok((route, values));
        }
        allowed.push((!route.path.contains('{'), route.method.clone()));
    }
    match allowed.is_empty() {
        true => Err(ApiError::NoRoute),
        false => Err(ApiError::Method { allowed: methods_of(allowed) }),
    }
}
