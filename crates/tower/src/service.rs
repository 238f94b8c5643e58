//! The service: describes the request, lets the limiter decide, then refuses the request or calls the inner service.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use http::request::Parts;
use http::{Request, Response};
use tidegate::engine::Limiter;
use tidegate::{Memory, MonotonicClock, Sleep, Store};
use tower_service::Service;

use crate::ResponseBody;
use crate::describe::Describe;
use crate::outcome::LayerOutcome;

/// A service whose requests are limited. Made by [`RateLimitLayer`](crate::RateLimitLayer).
pub struct RateLimit<I, S = Memory, C = MonotonicClock> {
    inner: I,
    limiter: Arc<Limiter<S, C>>,
    describe: Arc<Describe>,
}

impl<I, S, C> RateLimit<I, S, C> {
    pub(crate) fn new(inner: I, limiter: Arc<Limiter<S, C>>, describe: Arc<Describe>) -> Self {
        RateLimit { inner, limiter, describe }
    }

    /// The inner service.
    pub fn get_ref(&self) -> &I {
        &self.inner
    }

    /// The inner service, mutable.
    pub fn get_mut(&mut self) -> &mut I {
        &mut self.inner
    }

    /// Unwraps the inner service.
    pub fn into_inner(self) -> I {
        self.inner
    }
}

impl<I, S, C, ReqBody, ResBody> Service<Request<ReqBody>> for RateLimit<I, S, C>
where
    I: Service<Request<ReqBody>, Response = Response<ResBody>> + Clone + Send + 'static,
    I::Future: Send,
    S: Store + 'static,
    C: Sleep + 'static,
    ReqBody: Send + 'static,
{
    type Response = Response<ResponseBody<ResBody>>;
    type Error = I::Error;
    type Future = ResponseFuture<ResBody, I::Error>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), I::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<ReqBody>) -> Self::Future {
        // Call the service that `poll_ready` was called on; its clone may not be ready.
        let clone = self.inner.clone();
        let mut inner = std::mem::replace(&mut self.inner, clone);
        let (limiter, describe) = (Arc::clone(&self.limiter), Arc::clone(&self.describe));
        ResponseFuture(Box::pin(async move {
            let (mut parts, body) = request.into_parts();
            match decide(&limiter, &describe, &parts).await {
                LayerOutcome::Refuse(response) => Ok(response.map(ResponseBody::of_refusal)),
                LayerOutcome::Pass(pass) => {
                    pass.add_to_request(&mut parts.extensions);
                    let response = inner.call(Request::from_parts(parts, body)).await?;
                    let mut response = response.map(ResponseBody::of_service);
                    pass.add_to_response(&mut response);
                    Ok(response)
                }
            }
        }))
    }
}

async fn decide<S: Store, C: Sleep>(
    limiter: &Limiter<S, C>,
    describe: &Describe,
    parts: &Parts,
) -> LayerOutcome {
    let request = match describe.request(parts) {
        Ok(request) => request,
        Err(fault) => return LayerOutcome::unidentified(&fault, &parts.headers),
    };
    if request.ip.is_none() {
        describe.address_check.without_address(limiter);
    }
    let decision = limiter.admit(&request).await;
    LayerOutcome::new(&decision, &parts.headers)
}

impl<I: Clone, S, C> Clone for RateLimit<I, S, C> {
    fn clone(&self) -> Self {
        RateLimit::new(self.inner.clone(), Arc::clone(&self.limiter), Arc::clone(&self.describe))
    }
}

impl<I: fmt::Debug, S, C> fmt::Debug for RateLimit<I, S, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RateLimit")
            .field("inner", &self.inner)
            .field("limiter", &self.limiter)
            .field("describe", &self.describe)
            .finish()
    }
}

/// The future of a [`RateLimit`]. Dropping it while its request waits in a queue gives back its place and its tokens.
#[must_use = "futures do nothing unless they are polled"]
pub struct ResponseFuture<B, E>(Pin<Box<Responding<B, E>>>);

type Responding<B, E> = dyn Future<Output = Result<Response<ResponseBody<B>>, E>> + Send;

impl<B, E> Future for ResponseFuture<B, E> {
    type Output = Result<Response<ResponseBody<B>>, E>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        self.0.as_mut().poll(context)
    }
}

impl<B, E> fmt::Debug for ResponseFuture<B, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResponseFuture").finish_non_exhaustive()
    }
}
