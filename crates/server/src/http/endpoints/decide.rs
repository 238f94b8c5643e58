//! The endpoints that answer one request with one decision.

use http::StatusCode;
use http::request::Parts;
use tidegate::engine::Decision;

use crate::http::Context;
use crate::http::response::decision::{HttpResponse, decided};
use crate::http::response::problem::HttpProblem;
use crate::observe::{Origin, Protocol};
use crate::wire;

/// `/v1/check`.
pub(crate) async fn check(context: &Context, parts: &Parts, text: &str) -> Result<HttpResponse, HttpProblem> {
    let request = wire::request(text)?;
    let decision = context.node.admit(origin(context, parts), &request).await;
    Ok(decided(&decision, status(&decision)))
}

/// `/v1/peek`.
pub(crate) async fn peek(context: &Context, text: &str) -> Result<HttpResponse, HttpProblem> {
    let request = wire::request(text)?;
    Ok(decided(&context.node.peek(&request).await, StatusCode::OK))
}

/// `/v1/refund`.
pub(crate) async fn refund(context: &Context, text: &str) -> Result<HttpResponse, HttpProblem> {
    let refund = wire::refund(text)?;
    Ok(decided(&context.node.refund(&refund.request, refund.cost).await, StatusCode::OK))
}

/// `/v1/throttle`.
pub(crate) async fn throttle(
    context: &Context,
    parts: &Parts,
    text: &str,
) -> Result<HttpResponse, HttpProblem> {
    let throttle = wire::throttle(text)?;
    let origin = origin(context, parts);
    let decision = context.node.check_ad_hoc(origin, &throttle.as_request()).await?;
    Ok(decided(&decision, status(&decision)))
}

/// The protocol of a request and, if tracing is on, its `traceparent`.
pub(crate) fn origin<'a>(context: &Context, parts: &'a Parts) -> Origin<'a> {
    let wanted = context.node.reads_traces();
    let traceparent = wanted.then(|| parts.headers.get("traceparent")).flatten();
    Origin { protocol: Protocol::Http, traceparent: traceparent.and_then(|value| value.to_str().ok()) }
}

/// The HTTP status of a decision.
pub(crate) fn status(decision: &Decision) -> StatusCode {
    StatusCode::from_u16(decision.status()).expect("a decision has status 200, 429 or 503")
}
