//! From a request to its endpoint.

use std::convert::Infallible;
use std::sync::Arc;

use bytes::Bytes;
use http::header::{ALLOW, CONNECTION, HOST, HeaderValue, TRANSFER_ENCODING};
use http::request::Parts;
use http::{Method, Request, StatusCode, Version};
use hyper::body::Body;

use super::{Endpoint, EndpointAction};
use super::{batch, decide, forward_auth, guard};
use crate::bounds::HEADERS_MAX;
use crate::http::response::answer::HttpAnswer;
use crate::http::response::problem::HttpProblem;
use crate::http::{Context, body};

/// Answers a request.
pub(crate) async fn answer<B>(context: Arc<Context>, request: Request<B>) -> Result<HttpAnswer, Infallible>
where
    B: Body<Data = Bytes> + Unpin,
{
    let _under_way = context.activity.begin();
    let (parts, body) = request.into_parts();
    let mut answer = match route(&context, &parts, body).await {
        Ok(answer) => answer,
        Err(problem) => problem.answer(),
    };
    if parts.version == Version::HTTP_2 {
        answer.body_mut().count(&context.outbox);
    }
    // A request with both lengths reads differently to different servers. Hyper takes the chunks and
    // does not say that there was a length too, so nothing after a chunked request is believed to be
    // one: whatever was smuggled in behind it goes with the connection.
    if parts.headers.contains_key(TRANSFER_ENCODING) {
        answer.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    }
    Ok(answer)
}

async fn route<B>(context: &Arc<Context>, parts: &Parts, body: B) -> Result<HttpAnswer, HttpProblem>
where
    B: Body<Data = Bytes> + Unpin,
{
    // Whoever does not take its answers is not answered further; its next request waits, unread.
    context.outbox.room().await?;
    if parts.headers.len() > HEADERS_MAX {
        return Err(HttpProblem::Headers);
    }
    // Two of them read differently to different servers, and HTTP/1.1 asks for one.
    if parts.version == Version::HTTP_11 && parts.headers.get_all(HOST).iter().count() != 1 {
        return Err(HttpProblem::Field {
            field: "host",
            detail: "an HTTP/1.1 request has one `Host`".to_owned(),
        });
    }
    let endpoint = Endpoint::at(parts.uri.path()).ok_or(HttpProblem::NotFound)?;
    if endpoint.action == EndpointAction::ForwardAuth {
        return forward_auth::answer(context, parts).await;
    }
    if parts.method != Method::POST {
        return not_asked_so(&parts.method);
    }
    guard::check(context, parts, endpoint.access)?;
    let body = body::collect(body, endpoint.body_max, &context.bodies).await?;
    if endpoint.action == EndpointAction::Batch {
        return batch::batch(context, parts, body).await;
    }
    let text = body.text()?;
    match endpoint.action {
        EndpointAction::Check => decide::check(context, parts, text).await,
        EndpointAction::Peek => decide::peek(context, text).await,
        EndpointAction::Refund => decide::refund(context, text).await,
        EndpointAction::Throttle => decide::throttle(context, parts, text).await,
        EndpointAction::ForwardAuth | EndpointAction::Batch => unreachable!("they have returned above"),
    }
}

fn not_asked_so(method: &Method) -> Result<HttpAnswer, HttpProblem> {
    const ALLOWED: &str = "POST, OPTIONS";
    if *method != Method::OPTIONS {
        return Err(HttpProblem::Method { allow: ALLOWED });
    }
    let mut answer = HttpAnswer::default();
    *answer.status_mut() = StatusCode::NO_CONTENT;
    answer.headers_mut().insert(ALLOW, HeaderValue::from_static(ALLOWED));
    Ok(answer)
}
