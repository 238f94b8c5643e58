//! The constructors of the layer, and stores of other kinds.

use std::convert::Infallible;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use crate::common::{from, get};
use http::{Request, Response, StatusCode};
use tidegate::engine::PolicyError;
use tidegate::{
    Charge, Clock, Intent, LimitError, LimitRef, LimitVariant, Memory, MemoryOptions, NamedLimit, Nanos,
    NowOrLater, OverrideNumbers, Sleep, Store, Verdict,
};
use tidegate_tower::{LayerError, LimitBuilder, PolicyBuilder, RateLimitLayer};
use tower::{Layer, ServiceExt, service_fn};

async fn status<S: Store + 'static, C: Clock + Sleep + 'static>(
    layer: &RateLimitLayer<S, C>,
    request: http::request::Builder,
) -> StatusCode {
    let service = service_fn(async |_: Request<()>| Ok::<_, Infallible>(Response::new(String::new())));
    layer.layer(service).oneshot(request.body(()).unwrap()).await.unwrap().status()
}

#[tokio::test]
async fn ten_an_hour_for_each_address_take_one_line() {
    let layer = RateLimitLayer::per_ip(10, Duration::from_secs(3_600)).unwrap();
    for _ in 0..10 {
        assert_eq!(status(&layer, from("203.0.113.7")).await, StatusCode::OK);
    }
    assert_eq!(status(&layer, from("203.0.113.7")).await, StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(status(&layer, from("203.0.113.8")).await, StatusCode::OK);
    assert_eq!(status(&layer, get("/")).await, StatusCode::OK, "a request without an address is not limited");
}

#[tokio::test]
async fn all_of_several_limits_must_admit() {
    let layer = RateLimitLayer::for_limits([
        LimitBuilder::per_hour("per-ip", 5).key(["ip"]),
        LimitBuilder::per_hour("uploads", 1).key(["ip"]).when("path", ["/upload/**"]),
    ])
    .unwrap();
    let upload = || from("203.0.113.7").uri("/upload/a");
    assert_eq!(status(&layer, upload()).await, StatusCode::OK);
    assert_eq!(status(&layer, upload()).await, StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(status(&layer, from("203.0.113.7")).await, StatusCode::OK);
}

#[test]
fn numbers_that_no_limit_can_have_are_refused() {
    for (requests, window) in [
        (0, Duration::from_secs(1)),
        (10, Duration::ZERO),
        (10, Duration::from_nanos(1)),
        (u64::MAX, Duration::from_secs(1)),
    ] {
        let refused = RateLimitLayer::per_ip(requests, window).unwrap_err();
        let LayerError::Policy(PolicyError { problems, .. }) = refused else { panic!("{refused}") };
        assert!(problems[0].path.starts_with("limits[0]"), "{problems:?}");
    }
}

/// A store like those in other processes: it answers later.
struct Remote {
    memory: Memory,
    charges: AtomicU32,
}

impl Store for Remote {
    type Error = Infallible;

    fn limits(&self, limits: &[NamedLimit<'_>], now: Nanos) -> Result<Vec<LimitRef>, LimitError> {
        self.memory.limits(limits, now)
    }

    fn variant(&self, limit: &LimitRef, variant: LimitVariant) -> Result<LimitRef, LimitError> {
        self.memory.variant(limit, variant)
    }

    fn expect_overrides(&self, limit: &LimitRef, numbers: &[OverrideNumbers]) {
        self.memory.expect_overrides(limit, numbers);
    }

    fn charge(
        &self,
        intent: Intent,
        charges: &[Charge<'_>],
        now: Nanos,
    ) -> NowOrLater<'_, Result<Verdict, Infallible>> {
        self.charges.fetch_add(1, Ordering::Relaxed);
        match self.memory.charge(intent, charges, now) {
            NowOrLater::Now(verdict) => NowOrLater::later(async {
                tokio::task::yield_now().await;
                verdict
            }),
            later => later,
        }
    }

    fn hand_back(&self, charges: &[Charge<'_>], at: Nanos) {
        self.memory.hand_back(charges, at);
    }
}

#[tokio::test]
async fn the_layer_works_over_any_store() {
    let policy = PolicyBuilder::new().limit(LimitBuilder::per_hour("per-ip", 1).key(["ip"])).build().unwrap();
    let memory = Memory::new(MemoryOptions { max_keys: 1_000, ..MemoryOptions::default() }).unwrap();
    let store = Remote { memory, charges: AtomicU32::new(0) };
    let layer = RateLimitLayer::with_store(policy, store).unwrap();
    assert_eq!(status(&layer, from("203.0.113.7")).await, StatusCode::OK);
    assert_eq!(status(&layer, from("203.0.113.7")).await, StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(layer.limiter().store().charges.load(Ordering::Relaxed), 2);
}
