//! One call: finds its method, reads its message, and answers it.

use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use tidegate::NowOrLater;
use tokio::time::timeout;

use super::body::Body;
use super::error::{CallError, Quoted};
use super::reply;
use crate::bounds::BODY_TIMEOUT;
use crate::bounds::budget::BudgetAccount;
use crate::grpc::http2::call_stream::{RequestStream, ResponseStream, StreamWatch};
use crate::grpc::http2::head::{CallHead, KeptField};
use crate::grpc::{authz, health, reflection, rls};
use crate::node::Node;
use crate::observe::{Origin, Protocol};
use crate::serve::{Peer, ResponseBacklog};

/// The methods of all services.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Method {
    ShouldRateLimit,
    Authorize,
    HealthCheck,
    HealthWatch,
    Reflect,
}

impl Method {
    fn of(path: &[u8]) -> Option<Method> {
        Some(match path {
            b"/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit" => Method::ShouldRateLimit,
            b"/envoy.service.auth.v3.Authorization/Check" => Method::Authorize,
            b"/grpc.health.v1.Health/Check" => Method::HealthCheck,
            b"/grpc.health.v1.Health/Watch" => Method::HealthWatch,
            // The two versions differ only in their names.
            b"/grpc.reflection.v1.ServerReflection/ServerReflectionInfo"
            | b"/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo" => Method::Reflect,
            _ => return None,
        })
    }
}

/// The future that answers a call which has to wait.
pub(crate) type WaitingCall<'n> = Pin<Box<dyn Future<Output = ()> + Send + 'n>>;

/// A call that is not answered yet.
#[derive(Debug)]
pub(crate) struct GrpcCall {
    method: Method,
    peer: Peer,
    head: CallHead,
    body: Body,
    backlog: Arc<ResponseBacklog>,
    respond: ResponseStream,
}

impl GrpcCall {
    /// Checks the head of a new call. One that cannot be answered is refused here.
    pub(crate) fn open(
        head: CallHead,
        request: RequestStream,
        respond: ResponseStream,
        peer: Peer,
        backlog: &Arc<ResponseBacklog>,
        bodies: &Arc<BudgetAccount>,
    ) -> Option<GrpcCall> {
        if !head.is_post {
            reply::refuse(respond, "405");
            return None;
        }
        if !is_grpc(&head) {
            reply::refuse(respond, "415");
            return None;
        }
        let Some(method) = Method::of(head.path()) else {
            let path = String::from_utf8_lossy(head.path());
            reply::fail(respond, &CallError::UnknownMethod(Quoted::new(&path)));
            return None;
        };
        if head.get(KeptField::GrpcEncoding).is_some_and(|encoding| encoding != b"identity") {
            reply::fail(respond, &CallError::Compressed);
            return None;
        }
        let (body, backlog) = (Body::new(request, bodies), Arc::clone(backlog));
        Some(GrpcCall { method, peer, head, body, backlog, respond })
    }

    /// Answers a call that need not wait, without a future on the heap; otherwise returns the future that will answer
    /// it.
    pub(crate) fn answer_now<'n>(mut self, node: &'n Node, cx: &mut Context<'_>) -> Option<WaitingCall<'n>> {
        let waits = match self.method {
            Method::HealthCheck | Method::ShouldRateLimit => false,
            // A reset frees a slot in a wait queue only when the future that holds the slot is polled. A call that
            // arrived after the reset is queued behind that future, so it finds the slot free.
            Method::Authorize => true,
            Method::HealthWatch | Method::Reflect => true,
        };
        // While the client leaves too many responses unread, its next call waits.
        let waits = waits || self.backlog.is_full();
        let message = if waits { Poll::Pending } else { self.body.poll_single(cx) };
        let Poll::Ready(message) = message else {
            return Some(while_open(self.respond.watch(), self.answer(node)));
        };
        match message.and_then(|message| Ok(self.backlog.check_budget().map(|()| message)?)) {
            Ok(message) => self.answer_unary(node, message, cx),
            Err(error) => {
                reply::fail(self.respond, &error);
                None
            }
        }
    }

    /// Answers a call whose one message is complete. A future that waits for the store is polled once here, so that the
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
                unreachable!("`answer_now` makes these calls wait")
            }
        };
        let GrpcCall { respond, body, .. } = self;
        match answer {
            NowOrLater::Now(answer) => {
                reply::answer(respond, answer);
                None
            }
            NowOrLater::Later(later) => {
                let mut waiting = while_open(respond.watch(), async move {
                    reply::answer(respond, later.await);
                    // Until here, its message counts against the budget.
                    drop(body);
                });
                waiting.as_mut().poll(cx).is_pending().then_some(waiting)
            }
        }
    }

    /// Answers a call that has to wait.
    async fn answer(mut self, node: &Node) {
        if self.method == Method::Reflect {
            // Each kind is boxed: unboxed, every waiting call would take the memory of the largest.
            return Box::pin(reflection::converse(self.body, self.respond, &self.backlog)).await;
        }
        if let Err(full) = self.backlog.wait_for_capacity().await {
            return reply::fail(self.respond, &full.into());
        }
        match timeout(BODY_TIMEOUT, self.body.single()).await {
            Ok(Ok(message)) => Box::pin(self.answer_message(node, message)).await,
            Ok(Err(error)) => reply::fail(self.respond, &error),
            Err(_) => reply::fail(self.respond, &CallError::TooSlow),
        }
    }

    /// Answers a call whose message is complete.
    async fn answer_message(self, node: &Node, message: Bytes) {
        match self.method {
            Method::ShouldRateLimit => {
                let origin = origin(node, &self.head, Protocol::Rls);
                let answer = rls::should_rate_limit(node, origin, self.peer, message).await;
                reply::answer(self.respond, answer);
            }
            Method::HealthCheck => reply::answer(self.respond, health::check(node, message)),
            Method::Authorize => Box::pin(self.authorize(node, message)).await,
            Method::HealthWatch => Box::pin(health::watch(node, message, self.respond, &self.backlog)).await,
            Method::Reflect => unreachable!("`answer` handles it: it has many messages"),
        }
    }

    /// Answers an authorization, which may wait in a wait queue, up to the client's deadline. A client that cancels the
    /// call frees its slot.
    async fn authorize(self, node: &Node, message: Bytes) {
        let GrpcCall { head, peer, respond, body: _counted, .. } = self;
        let deadline = client_timeout(&head).unwrap_or(Duration::MAX);
        let check = authz::check(node, origin(node, &head, Protocol::ExtAuthz), peer, message);
        let answer = timeout(deadline, check).await;
        reply::answer(respond, answer.unwrap_or(Err(CallError::Deadline)));
    }
}

/// Drops a call that waits, for whatever it waits, when its stream ends. Otherwise a client could reset its calls and
/// make ever more of them wait.
fn while_open<'n>(mut stream: StreamWatch, call: impl Future<Output = ()> + Send + 'n) -> WaitingCall<'n> {
    Box::pin(async move {
        let mut call = pin!(call);
        let is_done = |cx: &mut Context<'_>| match stream.poll_gone(cx) {
            Poll::Ready(()) => Poll::Ready(()),
            Poll::Pending => call.as_mut().poll(cx),
        };
        std::future::poll_fn(is_done).await;
    })
}

/// The protocol of a call and, if tracing is on, its `traceparent`.
fn origin<'h>(node: &Node, head: &'h CallHead, protocol: Protocol) -> Origin<'h> {
    let header = if node.reads_traces() { head.get(KeptField::Traceparent) } else { None };
    let traceparent = header.and_then(|value| std::str::from_utf8(value).ok());
    Origin { protocol, traceparent }
}

/// Is the content type `application/grpc` or `application/grpc+proto`?
fn is_grpc(head: &CallHead) -> bool {
    let kind = head.get(KeptField::ContentType).unwrap_or_default();
    let rest = kind.strip_prefix(b"application/grpc");
    rest.is_some_and(|rest| matches!(rest, b"" | b"+proto") || rest.starts_with(b";"))
}

/// How long the client waits, from `grpc-timeout`: one to eight digits and a unit.
fn client_timeout(head: &CallHead) -> Option<Duration> {
    let text = std::str::from_utf8(head.get(KeptField::GrpcTimeout)?).ok()?;
    let (number, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    if number.len() > 8 || !number.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let number: u64 = number.parse().ok()?;
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
        let read = |text: &str| client_timeout(&CallHead::with(KeptField::GrpcTimeout, text));
        assert_eq!(read("20m"), Some(Duration::from_millis(20)));
        assert_eq!(read("99999999H"), Some(Duration::from_secs(99_999_999 * 3_600)));
        for text in ["", "m", "20", "20x", "-1S", "1.5S", "99999999999S", "+1S", "100000000S", "000000001S"] {
            assert_eq!(read(text), None, "{text}");
        }
    }

    #[test]
    fn only_grpc_is_grpc() {
        let is_grpc = |kind: &str| is_grpc(&CallHead::with(KeptField::ContentType, kind));
        assert!(is_grpc("application/grpc") && is_grpc("application/grpc+proto"));
        assert!(!is_grpc("application/grpc-web") && !is_grpc("application/json"));
        assert!(!is_grpc("application/grpc+json"));
    }
}
