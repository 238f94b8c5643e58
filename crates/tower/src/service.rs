//! The service: describe, decide, then refuse or pass on.

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
use crate::answer::LayerOutcome;
use crate::describe::Describe;

/// A service whose requests are limited. Made by
/// [`RateLimitLayer`](crate::RateLimitLayer).
pub struct RateLimit<I, S = Memory, C = MonotonicClock> {
    inner: I,
    limiter: Arc<Limiter<S, C>>,
    describe: Arc<Describe>,
}

impl<I, S, C> RateLimit<I, S, C> {
    pub(crate) fn new(inner: I, limiter: Arc<Limiter<S, C>>, describe: Arc<Describe>) -> Self {
        RateLimit { inner, limiter, describe }
    }

    /// The service within.
    pub fn get_ref(&self) -> &I {
        &self.inner
    }

    /// The service within, to be changed.
    pub fn get_mut(&mut self) -> &mut I {
        &mut self.inner
    }

    /// The service within, without this one.
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
        // The one that was polled is ready; a clone of it need not be.
        let clone = self.inner.clone();
        let mut inner = std::mem::replace(&mut self.inner, clone);
        let (limiter, describe) = (Arc::clone(&self.limiter), Arc::clone(&self.describe));
        ResponseFuture(Box::pin(async move {
            let (mut parts, body) = request.into_parts();
            match decide(&limiter, &describe, &parts).await {
                LayerOutcome::Refuse(response) => Ok(response.map(ResponseBody::of_refusal)),
                LayerOutcome::Pass(pass) => {
                    pass.mark(&mut parts.extensions);
                    let response = inner.call(Request::from_parts(parts, body)).await?;
                    let mut response = response.map(ResponseBody::of_service);
                    pass.tell(&mut response);
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
    let request = describe.request(parts);
    let decision = limiter.admit(&request).await;
    LayerOutcome::to(&decision, &parts.headers)
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

/// What a [`RateLimit`] answers, later. Dropping it while its request waits in a
/// queue gives the place, and what was reserved, back.
#[must_use = "futures do nothing unless they are polled"]
pub struct ResponseFuture<B, E>(Pin<Box<Answering<B, E>>>);

type Answering<B, E> = dyn Future<Output = Result<Response<ResponseBody<B>>, E>> + Send;

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
