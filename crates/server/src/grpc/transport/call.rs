//! One call: what is asked for, and by which means it is answered.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use h2::RecvStream;
use h2::server::SendResponse;
use http::header::CONTENT_TYPE;
use http::request::Parts;
use http::{HeaderMap, Method as HttpMethod, Request, StatusCode};
use tidegate::NowOrLater;
use tokio::time::timeout;

use super::body::Body;
use super::error::CallError;
use super::reply;
use crate::bounds::BODY_TIMEOUT;
use crate::grpc::{authz, health, reflection, rls};
use crate::node::Node;
use crate::observe::{Origin, Protocol};
use crate::serve::{CountedBytes, ResponseBacklog, Peer};

/// What can be asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Method {
    ShouldRateLimit,
    Authorize,
    HealthCheck,
    HealthWatch,
    Reflect,
}

impl Method {
    fn of(path: &str) -> Option<Method> {
        Some(match path {
            "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit" => Method::ShouldRateLimit,
            "/envoy.service.auth.v3.Authorization/Check" => Method::Authorize,
            "/grpc.health.v1.Health/Check" => Method::HealthCheck,
            "/grpc.health.v1.Health/Watch" => Method::HealthWatch,
            // The two differ in nothing but their names.
            "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo"
            | "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo" => Method::Reflect,
            _ => return None,
        })
    }
}

/// A call whose answer has to be waited for.
pub(crate) type WaitingCall<'n> = Pin<Box<dyn Future<Output = ()> + Send + 'n>>;

/// A call that is not answered yet.
#[derive(Debug)]
pub(crate) struct GrpcCall {
    method: Method,
    peer: Peer,
    head: Parts,
    body: Body,
    backlog: Arc<ResponseBacklog>,
    respond: SendResponse<CountedBytes>,
}

impl GrpcCall {
    /// Looks at a call that has just come. What cannot be answered is refused.
    pub(crate) fn open(
        request: Request<RecvStream>,
        respond: SendResponse<CountedBytes>,
        peer: Peer,
        backlog: Arc<ResponseBacklog>,
    ) -> Option<GrpcCall> {
        let (head, body) = request.into_parts();
        if head.method != HttpMethod::POST {
            reply::refuse(respond, StatusCode::METHOD_NOT_ALLOWED);
            return None;
        }
        if !is_grpc(&head.headers) {
            reply::refuse(respond, StatusCode::UNSUPPORTED_MEDIA_TYPE);
            return None;
        }
        let Some(method) = Method::of(head.uri.path()) else {
            reply::fail(respond, &CallError::UnknownMethod(head.uri.path().to_owned()));
            return None;
        };
        if head.headers.get("grpc-encoding").is_some_and(|encoding| encoding != "identity") {
            reply::fail(respond, &CallError::Compressed);
            return None;
        }
        Some(GrpcCall { method, peer, head, body: Body::new(body), backlog, respond })
    }

    /// Answers a call whose answer is there at once, without a future on the heap; otherwise returns the future that
    /// will answer it.
    pub(crate) fn answer_now<'n>(mut self, node: &'n Node, cx: &mut Context<'_>) -> Option<WaitingCall<'n>> {
        let waits = match self.method {
            Method::HealthCheck | Method::ShouldRateLimit => false,
            // A reset frees a place in a wait queue only when the future that holds the place is polled. A call that
            // arrived after the reset is queued behind that future, so it finds the place free.
            Method::Authorize => true,
            Method::HealthWatch | Method::Reflect => true,
        };
        // A client that has left too many answers unread waits for the next one.
        let waits = waits || self.backlog.is_full();
        let message = if waits { Poll::Pending } else { self.body.poll_only(cx) };
        let Poll::Ready(message) = message else { return Some(Box::pin(self.answer(node))) };
        match message.and_then(|message| Ok(self.backlog.check_budget().map(|()| message)?)) {
            Ok(message) => self.answer_unary(node, message, cx),
            Err(error) => {
                reply::fail(self.respond, &error);
                None
            }
        }
    }

    /// Answers a call of one message that is complete. What has to wait for the store is polled once here, so that the
    /// store gets calls in the order in which they arrived.
    fn answer_unary<'n>(
        self,
        node: &'n Node,
        message: Bytes,
        cx: &mut Context<'_>,
    ) -> Option<WaitingCall<'n>> {
        let answer = match self.method {
            Method::ShouldRateLimit => {
                let origin = origin(node, &self.head, Protocol::Rls);
                rls::should_rate_limit(node, origin, self.peer, message)
            }
            Method::HealthCheck => NowOrLater::Now(health::check(node, message)),
            Method::Authorize | Method::HealthWatch | Method::Reflect => {
                unreachable!("these calls are always waited for")
            }
        };
        let GrpcCall { backlog, respond, .. } = self;
        match answer {
            NowOrLater::Now(answer) => {
                reply::answer(respond, answer, &backlog);
                None
            }
            NowOrLater::Later(later) => {
                let mut waiting: WaitingCall<'n> =
                    Box::pin(async move { reply::answer(respond, later.await, &backlog) });
                waiting.as_mut().poll(cx).is_pending().then_some(waiting)
            }
        }
    }

    /// Answers, however long that takes.
    async fn answer(mut self, node: &Node) {
        if self.method == Method::Reflect {
            // Each in a box: otherwise every call that waits would take the memory of the largest.
            return Box::pin(reflection::converse(self.body, self.respond, &self.backlog)).await;
        }
        if let Err(no_room) = self.backlog.wait_for_capacity().await {
            return reply::fail(self.respond, &no_room.into());
        }
        match timeout(BODY_TIMEOUT, self.body.only()).await {
            Ok(Ok(message)) => Box::pin(self.answer_message(node, message)).await,
            Ok(Err(error)) => reply::fail(self.respond, &error),
            Err(_) => reply::fail(self.respond, &CallError::TooSlow),
        }
    }

    /// Answers a call whose message is there.
    async fn answer_message(self, node: &Node, message: Bytes) {
        match self.method {
            Method::ShouldRateLimit => {
                let origin = origin(node, &self.head, Protocol::Rls);
                let answer = rls::should_rate_limit(node, origin, self.peer, message).await;
                reply::answer(self.respond, answer, &self.backlog);
            }
            Method::HealthCheck => {
                reply::answer(self.respond, health::check(node, message), &self.backlog);
            }
            Method::Authorize => Box::pin(self.authorize(node, message)).await,
            Method::HealthWatch => Box::pin(health::watch(node, message, self.respond, &self.backlog)).await,
            Method::Reflect => unreachable!("it is a conversation of many messages"),
        }
    }

    /// A queue may make it wait: no longer than the client does. A client that goes away frees its place.
    async fn authorize(self, node: &Node, message: Bytes) {
        let GrpcCall { head, peer, backlog, mut respond, .. } = self;
        let patience = patience(&head.headers).unwrap_or(Duration::MAX);
        let check = authz::check(node, origin(node, &head, Protocol::ExtAuthz), peer, message);
        let answer = tokio::select! {
            biased;
            answer = timeout(patience, check) => answer,
            _gone = std::future::poll_fn(|cx| respond.poll_reset(cx)) => return,
        };
        reply::answer(respond, answer.unwrap_or(Err(CallError::Deadline)), &backlog);
    }
}

/// Nobody looks for a trace unless somebody wants spans.
fn origin<'h>(node: &Node, head: &'h Parts, protocol: Protocol) -> Origin<'h> {
    let told = if node.traces().is_on() { head.headers.get("traceparent") } else { None };
    let traceparent = told.and_then(|value| value.to_str().ok());
    Origin { protocol, traceparent }
}

/// `application/grpc`, perhaps with `+proto`.
fn is_grpc(headers: &HeaderMap) -> bool {
    let kind = headers.get(CONTENT_TYPE).map_or(&b""[..], |kind| kind.as_bytes());
    let rest = kind.strip_prefix(b"application/grpc");
    rest.is_some_and(|rest| matches!(rest, b"" | b"+proto") || rest.starts_with(b";"))
}

/// How long the client waits, as `grpc-timeout` says it: up to eight digits and a unit.
fn patience(headers: &HeaderMap) -> Option<Duration> {
    let text = headers.get("grpc-timeout")?.to_str().ok()?;
    let (number, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    let number: u64 = number.parse::<u32>().ok()?.into();
    Some(match unit {
        "H" => Duration::from_secs(number.saturating_mul(3_600)),
        "M" => Duration::from_secs(number.saturating_mul(60)),
        "S" => Duration::from_secs(number),
        "m" => Duration::from_millis(number),
        "u" => Duration::from_micros(number),
        "n" => Duration::from_nanos(number),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timeout_is_a_number_and_a_unit() {
        let patience = |text: &'static str| {
            patience(&HeaderMap::from_iter([(
                http::HeaderName::from_static("grpc-timeout"),
                http::HeaderValue::from_static(text),
            )]))
        };
        assert_eq!(patience("20m"), Some(Duration::from_millis(20)));
        assert_eq!(patience("99999999H"), Some(Duration::from_secs(99_999_999 * 3_600)));
        for text in ["", "m", "20", "20x", "-1S", "1.5S", "99999999999S"] {
            assert_eq!(patience(text), None, "{text}");
        }
    }

    #[test]
    fn only_grpc_is_grpc() {
        let is_grpc = |kind: &'static str| {
            is_grpc(&HeaderMap::from_iter([(CONTENT_TYPE, http::HeaderValue::from_static(kind))]))
        };
        assert!(is_grpc("application/grpc") && is_grpc("application/grpc+proto"));
        assert!(!is_grpc("application/grpc-web") && !is_grpc("application/json"));
        assert!(!is_grpc("application/grpc+json"));
    }
}
