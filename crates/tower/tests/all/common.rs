//! A limited service on a manual clock, and helpers to call it.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use http::{Request, Response};
use http_body::Body;
use tidegate::engine::{Limiter, Policy};
use tidegate::{ManualClock, Memory, MemoryOptions};
use tidegate_tower::{Degraded, PeerAddr, RateLimitInfo, RateLimitLayer};
use tower::{Layer, Service, ServiceExt, service_fn};

pub(crate) type TestLayer = RateLimitLayer<Memory<ManualClock>, ManualClock>;

pub(crate) fn limiter(policy: &str) -> (ManualClock, Arc<Limiter<Memory<ManualClock>, ManualClock>>) {
    let policy = Policy::parse(policy).unwrap_or_else(|error| panic!("{error}"));
    let clock = ManualClock::default();
    let options = MemoryOptions { max_keys: 1_000, ..MemoryOptions::default() };
    (clock.clone(), Arc::new(Limiter::in_memory(policy, options, clock).unwrap()))
}

/// A layer with these limits, each the inside of a YAML flow map.
pub(crate) fn layer(limits: &[&str]) -> (ManualClock, TestLayer) {
    let mut policy = "version: 1\nlimits:\n".to_owned();
    limits.iter().for_each(|limit| policy.push_str(&format!("- {{ {limit} }}\n")));
    let (clock, limiter) = limiter(&policy);
    (clock, RateLimitLayer::new(limiter))
}

/// A service that returns the body of the request, and in headers what the layer has added to the request.
pub(crate) fn echo()
-> impl Service<Request<String>, Response = Response<String>, Error = Infallible, Future: Send + 'static>
+ Clone
+ Send
+ 'static {
    service_fn(async |request: Request<String>| {
        let degraded = request.extensions().get::<Degraded>().map_or("no", |tag| &tag.0).to_owned();
        let info = request.extensions().get::<RateLimitInfo>().expect("the layer inserts it");
        let remaining = info.tightest.as_ref().map_or(-1, |limit| i64::from(limit.remaining));
        let response = Response::builder()
            .header("x-service", "echo")
            .header("x-ratelimit-limit", "the service's own")
            .header("x-seen-remaining", remaining)
            .header("x-seen-degraded", degraded);
        Ok(response.body(request.into_body()).unwrap())
    })
}

pub(crate) fn get(path: &str) -> http::request::Builder {
    Request::builder().uri(path)
}

pub(crate) fn from(peer: &str) -> http::request::Builder {
    get("/").extension(PeerAddr(SocketAddr::new(peer.parse().unwrap(), 4711)))
}

/// A response whose body has been read.
pub(crate) type TextResponse = Response<String>;

/// Calls an [`echo`] behind the layer. The response must be ready at once.
pub(crate) fn send(layer: &TestLayer, request: http::request::Builder) -> TextResponse {
    let answering = layer.layer(echo()).oneshot(request.body("asked".to_owned()).unwrap());
    match poll(pin!(answering)) {
        Poll::Ready(answer) => read(answer.unwrap()),
        Poll::Pending => panic!("the response is not ready"),
    }
}

pub(crate) fn poll<F: Future>(future: std::pin::Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

pub(crate) fn read<B: Body<Data = Bytes, Error: std::fmt::Debug>>(response: Response<B>) -> TextResponse {
    let (parts, body) = response.into_parts();
    let mut body = pin!(body);
    let mut text = String::new();
    loop {
        match body.as_mut().poll_frame(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(Some(frame)) => {
                let data = frame.unwrap().into_data().expect("no trailers");
                text.push_str(std::str::from_utf8(&data).unwrap());
            }
            Poll::Ready(None) => return Response::from_parts(parts, text),
            Poll::Pending => panic!("the body is not ready"),
        }
    }
}

/// A header's value; empty if there is none.
pub(crate) fn header<'a>(answer: &'a TextResponse, name: &str) -> &'a str {
    answer.headers().get(name).map_or("", |value| value.to_str().unwrap())
}
