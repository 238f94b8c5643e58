//! `/v1/identify`: shows who a proxied request is taken for, and where each member came from. It reads the request like
//! `/v1/forward-auth`, decides nothing, charges nothing and is not counted.

use http::header::{AUTHORIZATION, CACHE_CONTROL, CONTENT_TYPE, HeaderValue};
use http::request::Parts;
use tidegate::Clock;
use tidegate::engine::Credential;

use super::forward_auth::{ForwardAuthRequest, headers_of, read};
use crate::http::Context;
use crate::http::response::decision::{HttpResponse, JSON};
use crate::http::response::problem::HttpProblem;
use crate::identity::access;

/// Answers with the members that are known.
pub(crate) fn answer(context: &Context, parts: &Parts) -> Result<HttpResponse, HttpProblem> {
    let mut headers = headers_of(parts);
    // The token that opens this endpoint is the caller's, not the client's.
    if access::has_token(&parts.headers, context.node.settings().http_token.as_deref()) {
        headers.retain(|(name, _)| !name.eq_ignore_ascii_case(AUTHORIZATION.as_str()));
    }
    let (who, request) = read(context, &ForwardAuthRequest::of(parts, &headers))?;
    let identity = context.node.identity();
    let unusable = |fault| HttpProblem::Identity { fault, deny_status: None };
    let key = identity.presented_key(headers.iter().copied(), &request).map_err(unusable)?;
    let verified = identity.verify(&who, key.as_deref(), context.node.clock().wall()).unwrap_or_default();
    // The request borrows claims from `verified`, so it must not live longer.
    let mut request = request;
    let members = identity.origins(&verified, headers.iter().copied(), who.trusted, &mut request);
    let mut members = members.map_err(unusable)?;
    let from = identity.address_source(&who, context.peer.address);
    members.add("ip", who.ip.to_string(), from);
    let is_token = verified.rejection().is_some() || !request.jwt.is_empty();
    let source = match verified.credential() {
        Credential::None => None,
        Credential::Valid | Credential::Invalid if is_token => Some("header:authorization".to_owned()),
        _ => identity.key_place(),
    };
    if let Some(source) = source {
        members.add("credential", verified.credential().as_str(), source);
    }
    let body = serde_json::to_vec(&members).expect("texts are JSON");
    let mut answer = HttpResponse::new(body.into());
    answer.headers_mut().insert(CONTENT_TYPE, JSON);
    answer.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    Ok(answer)
}
