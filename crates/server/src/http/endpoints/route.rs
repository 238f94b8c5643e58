//! Routes a request from hyper to its endpoint.

use std::convert::Infallible;
use std::sync::Arc;

use bytes::Bytes;
use http::header::{ALLOW, CONNECTION, HOST, HeaderValue, TRANSFER_ENCODING};
use http::request::Parts;
use http::{Method, Request, StatusCode, Version};
use hyper::body::Body;

use super::{Endpoint, EndpointAction};
use super::{batch, decide, forward_auth, guard, identify};
use crate::bounds::HEADERS_MAX;
use crate::http::response::decision::HttpResponse;
use crate::http::response::problem::HttpProblem;
use crate::http::{Context, body};

/// Answers a request. Errors become problem bodies.
pub(crate) async fn answer<B>(context: Arc<Context>, request: Request<B>) -> Result<HttpResponse, Infallible>
where
    B: Body<Data = Bytes> + Unpin,
{
    let _in_flight = context.activity.begin();
    let (parts, body) = request.into_parts();
    let mut answer = match route(&context, &parts, body).await {
        Ok(answer) => answer,
        Err(problem) => problem.response(),
    };
    if parts.version == Version::HTTP_2 {
        answer.body_mut().count(&context.backlog);
    }
    // Request smuggling: servers disagree about where a request with both `Transfer-Encoding` and `Content-Length`
    // ends. hyper uses the chunks and does not say that there was a length too, so the connection is closed after
    // every chunked request, together with whatever was smuggled in behind it.
    if parts.headers.contains_key(TRANSFER_ENCODING) {
        answer.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    }
    Ok(answer)
}

async fn route<B>(context: &Arc<Context>, parts: &Parts, body: B) -> Result<HttpResponse, HttpProblem>
where
    B: Body<Data = Bytes> + Unpin,
{
    // While the client leaves too many responses unread, its next request waits, and its body stays unread.
    context.backlog.wait_for_capacity().await?;
    if parts.headers.len() > HEADERS_MAX {
        return Err(HttpProblem::Headers);
    }
    // HTTP/1.1 requires exactly one `Host`; servers disagree about which of two counts.
    if parts.version == Version::HTTP_11 && parts.headers.get_all(HOST).iter().count() != 1 {
        return Err(HttpProblem::Field {
            field: "host",
            detail: "an HTTP/1.1 request must have exactly one `Host`".to_owned(),
        });
    }
    let endpoint = Endpoint::at(parts.uri.path()).ok_or(HttpProblem::NotFound)?;
    if endpoint.action == EndpointAction::ForwardAuth {
        return forward_auth::answer(context, parts).await;
    }
    if endpoint.action == EndpointAction::Identify {
        guard::check(context, parts, endpoint.access)?;
        return identify::answer(context, parts);
    }
    if parts.method != Method::POST {
        return wrong_method(&parts.method);
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
        EndpointAction::ForwardAuth | EndpointAction::Identify | EndpointAction::Batch => {
            unreachable!("they have returned above")
        }
    }
}

fn wrong_method(method: &Method) -> Result<HttpResponse, HttpProblem> {
    const ALLOWED: &str = "POST, OPTIONS";
    if *method != Method::OPTIONS {
        return Err(HttpProblem::Method { allow: ALLOWED });
    }
    let mut answer = HttpResponse::default();
    *answer.status_mut() = StatusCode::NO_CONTENT;
    answer.headers_mut().insert(ALLOW, HeaderValue::from_static(ALLOWED));
    Ok(answer)
}
