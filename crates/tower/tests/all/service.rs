//! How the layer behaves as a tower service.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::{Context, Poll};

use crate::common::{get, layer, poll};
use http::{Request, Response, StatusCode};
use tower::{Layer, Service, ServiceExt, service_fn};

const ONE: &str = "name: all, scope: global, sustained: { rate: 1, window: hour }";

/// A service that panics when it is called before `poll_ready`, as services may. Its clones are not ready.
struct Picky {
    ready: bool,
    calls: Arc<AtomicU32>,
}

impl Clone for Picky {
    fn clone(&self) -> Picky {
        Picky { ready: false, calls: Arc::clone(&self.calls) }
    }
}

impl Service<Request<()>> for Picky {
    type Response = Response<String>;
    type Error = &'static str;
    type Future = std::future::Ready<Result<Response<String>, &'static str>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), &'static str>> {
        self.ready = true;
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Request<()>) -> Self::Future {
        assert!(std::mem::take(&mut self.ready), "called without having been polled");
        self.calls.fetch_add(1, Ordering::Relaxed);
        std::future::ready(Ok(Response::new(String::new())))
    }
}

#[test]
fn the_service_that_was_polled_is_the_one_that_is_called() {
    let (_, layer) = layer(&["name: all, scope: global, sustained: { rate: 2, window: hour }"]);
    let calls = Arc::new(AtomicU32::new(0));
    let mut service = layer.layer(Picky { ready: false, calls: Arc::clone(&calls) });
    let mut statuses = Vec::new();
    for _ in 0..3 {
        let Poll::Ready(Ok(ready)) = poll(pin!(service.ready())) else { panic!("always ready") };
        let Poll::Ready(answer) = poll(pin!(ready.call(get("/").body(()).unwrap()))) else {
            panic!("the response is not ready")
        };
        statuses.push(answer.unwrap().status().as_u16());
    }
    assert_eq!(statuses, [200, 200, 429]);
    assert_eq!(calls.load(Ordering::Relaxed), 2, "a refused request does not reach it");
}

#[test]
fn errors_of_the_service_pass_through() {
    let (_, layer) = layer(&[ONE]);
    let broken = service_fn(async |_: Request<()>| Err::<Response<String>, _>("broken"));
    let answer = poll(pin!(layer.layer(broken).oneshot(get("/").body(()).unwrap())));
    assert_eq!(answer.map(Result::unwrap_err), Poll::Ready("broken"));
}

#[test]
fn the_policy_can_be_changed_while_it_runs() {
    use tidegate::engine::Policy;

    let (_, layer) = layer(&[ONE]);
    assert_eq!(crate::common::send(&layer, get("/")).status(), StatusCode::OK);
    assert_eq!(crate::common::send(&layer, get("/")).status(), StatusCode::TOO_MANY_REQUESTS);
    layer.limiter().swap(Policy::parse("version: 1\nlimits: []\n").unwrap()).unwrap();
    assert_eq!(crate::common::send(&layer, get("/")).status(), StatusCode::OK);
}
