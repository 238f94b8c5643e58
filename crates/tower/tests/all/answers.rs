//! What clients get in responses, and services in requests.

use crate::common::{from, get, header, layer, send};
use http::StatusCode;
use serde_json::Value;
use tidegate::Nanos;
use tidegate::engine::Credential;
use tidegate_tower::RateLimitInfo;

const TWO: &str = "name: all, scope: global, sustained: { rate: 1, window: second }, burst: { capacity: 2 }";

#[test]
fn an_admitted_request_reaches_the_service_and_its_answer_has_headers() {
    let (_, layer) = layer(&[TWO]);
    let answer = send(&layer, get("/"));
    assert_eq!((answer.status(), answer.body().as_str()), (StatusCode::OK, "asked"));
    assert_eq!(header(&answer, "x-service"), "echo");
    assert_eq!(header(&answer, "x-seen-remaining"), "1", "the service is told");
    assert_eq!(header(&answer, "x-ratelimit-limit"), "2", "ours replaces the service's own");
    assert_eq!(answer.headers().get_all("x-ratelimit-limit").iter().count(), 1);
    assert_eq!(header(&answer, "x-ratelimit-remaining"), "1");
    assert_eq!(header(&answer, "x-ratelimit-reset"), "1800000001");
    assert_eq!(header(&answer, "retry-after"), "");
    assert!(answer.extensions().get::<RateLimitInfo>().unwrap().allowed);
}

#[test]
fn a_refused_request_is_told_why_and_when_to_come_back() {
    let (clock, layer) = layer(&[TWO]);
    let _ = (send(&layer, get("/")), send(&layer, get("/")));
    let answer = send(&layer, get("/"));
    assert_eq!(answer.status(), StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(header(&answer, "x-service"), "", "the service is not called");
    for (name, value) in [
        ("content-type", "application/problem+json"),
        ("retry-after", "1"),
        ("cache-control", "no-store"),
        ("x-ratelimit-remaining", "0"),
        ("x-ratelimit-rule", "all"),
        ("x-ratelimit-reason", "token_bucket_exceeded"),
    ] {
        assert_eq!(header(&answer, name), value, "{name}");
    }
    let body: Value = serde_json::from_str(answer.body()).unwrap();
    assert_eq!(body["status"], 429);
    assert_eq!(body["error"], "rate_limit_exceeded");
    assert_eq!((&body["retry_after"], &body["retry_after_ms"]), (&1.into(), &1000.into()));
    assert_eq!((&body["violated_rule"], &body["violated_tier"]), (&"all".into(), &"global".into()));
    let info = answer.extensions().get::<RateLimitInfo>().unwrap();
    assert_eq!((info.allowed, info.reason.as_str()), (false, "token_bucket_exceeded"));

    clock.advance(Nanos::SECOND);
    assert_eq!(send(&layer, get("/")).status(), StatusCode::OK, "the wait is a promise");
}

#[test]
fn no_wait_helps_a_request_that_costs_too_much() {
    let (_, layer) = layer(&["name: all, scope: global, cost: 3, sustained: { rate: 2 }"]);
    let answer = send(&layer, get("/"));
    assert_eq!(answer.status(), StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(header(&answer, "retry-after"), "");
    assert_eq!(header(&answer, "x-ratelimit-reason"), "cost_exceeds_capacity");
}

#[test]
fn a_credential_that_does_not_hold_is_401() {
    let (_, layer) = layer(&[TWO]);
    let layer = layer.with_request(|parts, request| match parts.headers.contains_key("authorization") {
        true => request.credential(Credential::Invalid),
        false => request,
    });
    let answer = send(&layer, get("/").header("authorization", "Bearer x"));
    assert_eq!(answer.status(), StatusCode::UNAUTHORIZED);
    assert_eq!(header(&answer, "www-authenticate"), "Bearer error=\"invalid_token\"");
    assert_eq!(header(&answer, "x-ratelimit-reason"), "invalid_credentials");
    let body: Value = serde_json::from_str(answer.body()).unwrap();
    assert_eq!((&body["status"], &body["error"]), (&401.into(), &"invalid_token".into()));
    let grpc = get("/").header("authorization", "Bearer x").header("content-type", "application/grpc");
    let answer = send(&layer, grpc);
    assert_eq!((answer.status(), header(&answer, "grpc-status")), (StatusCode::OK, "16"));
    assert_eq!(send(&layer, get("/")).status(), StatusCode::OK);
}

#[test]
fn headers_come_in_the_families_that_the_policy_chooses() {
    let (_, layer) = layer(&[&format!("{TWO}, headers: [ratelimit-03, ietf]")]);
    let answer = send(&layer, get("/"));
    assert_eq!(header(&answer, "x-ratelimit-remaining"), "");
    assert_eq!(header(&answer, "ratelimit-remaining"), "1");
    assert_eq!(header(&answer, "ratelimit-reset"), "1");
    assert_eq!(header(&answer, "ratelimit-policy"), "\"all\";q=2;w=2");
    assert_eq!(header(&answer, "ratelimit"), "\"all\";r=1;t=1");
}

#[test]
fn the_family_of_draft_seven_is_one_of_them() {
    let (_, layer) = layer(&[&format!("{TWO}, headers: ratelimit-07")]);
    let answer = send(&layer, get("/"));
    assert_eq!(header(&answer, "ratelimit"), "limit=2, remaining=1, reset=1");
    assert_eq!(header(&answer, "ratelimit-policy"), "2;w=2");
}

#[test]
fn headers_can_be_switched_off() {
    let (_, layer) = layer(&[&format!("{TWO}, response_headers: false")]);
    let admitted = send(&layer, get("/"));
    assert_eq!(header(&admitted, "x-ratelimit-limit"), "the service's own");
    assert_eq!(header(&admitted, "x-ratelimit-remaining"), "");
    let _ = send(&layer, get("/"));
    let refused = send(&layer, get("/"));
    assert_eq!(refused.status(), StatusCode::TOO_MANY_REQUESTS);
    assert_eq!((header(&refused, "retry-after"), header(&refused, "x-ratelimit-rule")), ("1", ""));
}

#[test]
fn a_limit_that_is_only_watched_never_refuses() {
    let (_, layer) = layer(&[&format!("{TWO}, mode: shadow")]);
    for _ in 0..5 {
        let answer = send(&layer, get("/"));
        assert_eq!(answer.status(), StatusCode::OK);
        assert_eq!(header(&answer, "x-ratelimit-remaining"), "", "a shadow limit sends no headers");
    }
}

#[test]
fn a_degraded_request_is_marked_and_served() {
    let degrade = format!("{TWO}, strategy: degrade, degrade: {{ tag: cheap }}");
    let (_, degrading) = layer(&[&degrade]);
    for _ in 0..2 {
        let answer = send(&degrading, get("/"));
        assert_eq!((header(&answer, "x-seen-degraded"), header(&answer, "x-ratelimit-degraded")), ("no", ""));
    }
    let answer = send(&degrading, get("/"));
    assert_eq!(answer.status(), StatusCode::OK);
    assert_eq!(header(&answer, "x-seen-degraded"), "cheap");
    assert_eq!(header(&answer, "x-ratelimit-degraded"), "cheap");

    let (_, silent) = layer(&[&format!("{degrade}, response_headers: false")]);
    let answers: Vec<_> = (0..3).map(|_| send(&silent, get("/"))).collect();
    assert_eq!(header(&answers[2], "x-seen-degraded"), "cheap", "the service is told");
    assert_eq!(header(&answers[2], "x-ratelimit-degraded"), "", "the client is not");
}

#[test]
fn what_no_limit_is_for_passes_without_headers() {
    let (_, layer) = layer(&["name: per-user, key: [user], sustained: { rate: 1 }"]);
    let answer = send(&layer, get("/"));
    assert_eq!(header(&answer, "x-ratelimit-remaining"), "");
    assert_eq!(header(&answer, "x-seen-remaining"), "-1");
}

#[test]
fn of_two_layers_the_tighter_one_speaks() {
    use std::pin::pin;
    use std::task::Poll;
    use tower::{Layer, ServiceExt};

    let (_, outer) = layer(&["name: outer, scope: global, sustained: { rate: 10 }"]);
    let (_, inner) = layer(&[TWO]);
    let both = || {
        let request = get("/").body("asked".to_owned()).unwrap();
        match crate::common::poll(pin!(outer.layer(inner.layer(crate::common::echo())).oneshot(request))) {
            Poll::Ready(answer) => crate::common::read(answer.unwrap()),
            Poll::Pending => panic!("the response is not ready"),
        }
    };
    let first = both();
    assert_eq!((header(&first, "x-ratelimit-limit"), header(&first, "x-ratelimit-remaining")), ("2", "1"));
    let _ = both();
    let refused = both();
    assert_eq!(refused.status(), StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(
        (header(&refused, "x-ratelimit-limit"), header(&refused, "x-ratelimit-remaining")),
        ("2", "0")
    );

    let (_, wide) = layer(&["name: wide, scope: global, sustained: { rate: 1000 }"]);
    let request = get("/").body(String::new()).unwrap();
    let Poll::Ready(answer) =
        crate::common::poll(pin!(outer.layer(wide.layer(crate::common::echo())).oneshot(request)))
    else {
        panic!("the response is not ready")
    };
    assert_eq!(header(&crate::common::read(answer.unwrap()), "x-ratelimit-limit"), "10");
}

#[test]
fn blocked_and_allowed_addresses_go_before_the_limits() {
    let (_, limiter) = crate::common::limiter(
        "version: 1\n\
         limits: [{ name: per-ip, key: [ip], sustained: { rate: 1, window: hour } }]\n\
         allow: [{ ip: 192.0.2.0/24 }]\n\
         block: [{ ip: 198.51.100.1 }]\n",
    );
    let layer = tidegate_tower::RateLimitLayer::new(limiter);
    for _ in 0..3 {
        assert_eq!(send(&layer, from("192.0.2.9")).status(), StatusCode::OK);
    }
    let blocked = send(&layer, from("198.51.100.1"));
    assert_eq!(blocked.status(), StatusCode::TOO_MANY_REQUESTS);
    assert_eq!((header(&blocked, "x-ratelimit-rule"), header(&blocked, "retry-after")), ("block", ""));
}
