//! `strategy: queue`: requests that wait, on a manual clock.

use std::convert::Infallible;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;

use crate::common::{TestLayer, get, header, layer, poll, read};
use http::{Request, Response, StatusCode};
use tidegate::{Clock, ManualClock, MemoryOptions, Nanos, Sleep};
use tidegate_tower::{RateLimitInfo, ResponseFuture};
use tower::{Layer, Service, service_fn};

const QUEUE: &str = "name: all, scope: global, strategy: queue, queue: { max_depth: 2, max_wait: 5s }, \
                     sustained: { rate: 1, window: second }";

/// A layer with one token, which is used up.
fn exhausted() -> (ManualClock, TestLayer) {
    let (clock, layer) = layer(&[QUEUE]);
    assert_eq!(crate::common::send(&layer, get("/")).status(), StatusCode::OK);
    (clock, layer)
}

fn start(layer: &TestLayer) -> Pin<Box<ResponseFuture<String, Infallible>>> {
    let mut service = layer.layer(service_fn(async |request: Request<String>| {
        Ok::<_, Infallible>(Response::new(request.into_body()))
    }));
    Box::pin(service.call(get("/").body("waited".to_owned()).unwrap()))
}

fn finish(answering: Pin<Box<ResponseFuture<String, Infallible>>>) -> crate::common::TextResponse {
    match poll(pin!(answering)) {
        Poll::Ready(answer) => read(answer.unwrap()),
        Poll::Pending => panic!("the request still waits"),
    }
}

#[test]
fn a_request_waits_for_its_token() {
    let (clock, layer) = exhausted();
    let mut waiting = start(&layer);
    assert!(poll(waiting.as_mut()).is_pending());
    clock.advance(Nanos::from_millis(999));
    assert!(poll(waiting.as_mut()).is_pending());
    clock.advance(Nanos::from_millis(1));
    let answer = finish(waiting);
    assert_eq!((answer.status(), answer.body().as_str()), (StatusCode::OK, "waited"));
    assert_eq!(answer.extensions().get::<RateLimitInfo>().unwrap().queued, Some(Nanos::SECOND.into()));
}

#[test]
fn a_full_queue_refuses_with_503() {
    let (clock, layer) = exhausted();
    let mut waiting = [start(&layer), start(&layer)];
    waiting.iter_mut().for_each(|waiting| assert!(poll(waiting.as_mut()).is_pending()));
    let refused = finish(start(&layer));
    assert_eq!(refused.status(), StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(header(&refused, "x-ratelimit-reason"), "queue_full");
    assert_eq!(header(&refused, "retry-after"), "3", "after the waiting requests");
    for waiting in waiting {
        clock.advance(Nanos::SECOND);
        assert_eq!(finish(waiting).status(), StatusCode::OK);
    }
}

#[test]
fn a_client_that_goes_away_gives_its_place_back() {
    let (clock, layer) = exhausted();
    let mut waiting = [start(&layer), start(&layer)];
    waiting.iter_mut().for_each(|waiting| assert!(poll(waiting.as_mut()).is_pending()));
    waiting.into_iter().rev().for_each(drop);
    let mut next = start(&layer);
    assert!(poll(next.as_mut()).is_pending(), "the queue has a free place");
    clock.advance(Nanos::SECOND);
    assert_eq!(finish(next).status(), StatusCode::OK, "it gets the first token");
}

/// The clock of a tokio runtime.
#[derive(Clone)]
struct RuntimeClock(tokio::time::Instant);

impl Clock for RuntimeClock {
    fn now(&self) -> Nanos {
        let nanos = u64::try_from(self.0.elapsed().as_nanos()).unwrap();
        Nanos::from_secs(1_000).saturating_add(Nanos::new(nanos))
    }
}

impl Sleep for RuntimeClock {
    fn sleep(&self, span: Nanos) -> impl Future<Output = ()> + Send {
        tokio::time::sleep(span.into())
    }
}

/// The same on tokio's paused clock, which advances when all tasks wait.
#[tokio::test(start_paused = true)]
async fn waiting_works_on_a_runtime() {
    use std::time::Duration;

    use tidegate::engine::{Limiter, Policy};
    use tidegate_tower::RateLimitLayer;
    use tokio::time::timeout;

    let policy = Policy::parse(
        "version: 1\n\
         limits:\n\
         - { name: all, scope: global, strategy: queue, queue: { max_depth: 1, max_wait: 2m },\n    \
         sustained: { rate: 1, window: minute } }\n",
    );
    let clock = RuntimeClock(tokio::time::Instant::now());
    let limiter = Limiter::in_memory(policy.unwrap(), MemoryOptions::default(), clock).unwrap();
    let layer = RateLimitLayer::new(Arc::new(limiter));
    let send = || layer.layer(crate::common::echo()).call(get("/").body(String::new()).unwrap());
    assert_eq!(send().await.unwrap().status(), StatusCode::OK);
    assert!(timeout(Duration::from_secs(30), send()).await.is_err(), "it waits longer than the timeout");
    let patient = timeout(Duration::from_secs(61), send()).await.expect("a minute is enough");
    assert_eq!(patient.unwrap().status(), StatusCode::OK);
}
