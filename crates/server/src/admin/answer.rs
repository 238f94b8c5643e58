//! From a request to the answer of the endpoint that it names.

use std::sync::Arc;

use bytes::Bytes;
use http::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE, HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{Method, Request, Response, StatusCode};
use hyper::body::Incoming;
use serde_json::{Value, json};
use tokio::sync::Semaphore;

use super::gate::{self, AdminRefusal};
use super::{AdminClient, debug, health};
use crate::node::Node;
use crate::observe;
use crate::serve::OutboxFull;

/// What is sent back.
pub(super) type AdminResponse = Response<Bytes>;

/// The endpoints, and what is there.
pub(super) const ENDPOINTS: [(&str, &str); 4] = [
    ("/healthz", "200 while the server is alive"),
    ("/readyz", "200 when requests may come, 503 when not, with the reasons"),
    ("/metrics", "metrics in the Prometheus text format"),
    (
        "/debug/hot-keys",
        "the keys that take the most and that are denied the most; from this machine, or with a token",
    ),
];

/// The answer to a request. Its body, if there is one, is not looked at.
pub(super) async fn to(node: Arc<Node>, caller: AdminClient, request: Request<Incoming>) -> AdminResponse {
    if let Err(refusal) = gate::host(&node, &request) {
        return refused(refusal);
    }
    let path = request.uri().path();
    if path != "/" && ENDPOINTS.iter().all(|(endpoint, _)| *endpoint != path) {
        return not_found();
    }
    if request.method() != Method::GET && request.method() != Method::HEAD {
        let detail = "everything here is only looked at";
        let mut answer = problem(StatusCode::METHOD_NOT_ALLOWED, detail, json!({}));
        answer.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
        return answer;
    }
    match path {
        "/healthz" => text(StatusCode::OK, "text/plain; charset=utf-8", "alive\n".to_owned()),
        "/readyz" => health::ready(&node),
        "/metrics" => metrics(node).await,
        "/debug/hot-keys" => debug::hot_keys(node, caller, &request).await,
        _ => text(StatusCode::OK, "text/plain; charset=utf-8", index()),
    }
}

/// One page at a time: with many limits it takes some milliseconds.
async fn metrics(node: Arc<Node>) -> AdminResponse {
    let turns = Arc::clone(&node.metrics().scrapes);
    match in_turn(turns, move || observe::metrics_page(&node)).await {
        Some(page) => text(StatusCode::OK, observe::CONTENT_TYPE, page),
        None => problem(StatusCode::INTERNAL_SERVER_ERROR, "the page could not be made", json!({})),
    }
}

/// Makes a page on a thread that may block, which one that decides must not. Its turn lasts as long as
/// that takes, even if whoever asked is gone meanwhile.
async fn in_turn(turns: Arc<Semaphore>, make: impl FnOnce() -> String + Send + 'static) -> Option<String> {
    let turn = turns.acquire_owned().await.expect("it is never closed");
    let making = move || {
        let _turn = turn;
        make()
    };
    tokio::task::spawn_blocking(making).await.ok()
}

fn index() -> String {
    let mut page = format!("tidegate {}\n\n", env!("CARGO_PKG_VERSION"));
    for (path, what) in ENDPOINTS {
        page.push_str(&format!("{path:<17}{what}\n"));
    }
    page
}

fn not_found() -> AdminResponse {
    let paths: Vec<&str> = ENDPOINTS.iter().map(|(path, _)| *path).collect();
    let detail = format!("there is nothing here; there is {}", paths.join(", "));
    problem(StatusCode::NOT_FOUND, &detail, json!({ "endpoints": paths }))
}

/// A page of text.
pub(super) fn text(status: StatusCode, content_type: &'static str, body: String) -> AdminResponse {
    let mut answer = Response::new(Bytes::from(body));
    *answer.status_mut() = status;
    let headers = answer.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert("x-content-type-options", HeaderValue::from_static("nosniff"));
    answer
}

/// A JSON object.
pub(super) fn object(status: StatusCode, body: &Value) -> AdminResponse {
    text(status, "application/json", format!("{body}\n"))
}

/// Why somebody may not look.
pub(super) fn refused(refusal: AdminRefusal) -> AdminResponse {
    problem(refusal.status(), &refusal.to_string(), json!({}))
}

/// Nothing is made while answers that were not taken use up what there is for them.
pub(super) fn no_room(no_room: OutboxFull) -> AdminResponse {
    let mut answer = problem(StatusCode::SERVICE_UNAVAILABLE, &no_room.to_string(), json!({}));
    answer.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
    answer
}

/// Why there is nothing else, for programs and people.
pub(super) fn problem(status: StatusCode, detail: &str, mut members: Value) -> AdminResponse {
    members["type"] = "about:blank".into();
    members["title"] = status.canonical_reason().unwrap_or("Error").into();
    members["status"] = status.as_u16().into();
    members["detail"] = detail.into();
    let mut answer = text(status, "application/problem+json", format!("{members}\n"));
    if status == StatusCode::UNAUTHORIZED {
        answer.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    }
    answer
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_page_keeps_its_turn_when_nobody_waits_for_it() {
        let turns = Arc::new(Semaphore::new(1));
        let (finish, finished) = std::sync::mpsc::channel::<()>();
        let making = tokio::spawn(in_turn(Arc::clone(&turns), move || {
            finished.recv().expect("it is told to");
            String::new()
        }));
        while turns.available_permits() > 0 {
            tokio::task::yield_now().await;
        }
        making.abort();
        assert!(making.await.is_err_and(|error| error.is_cancelled()));
        assert_eq!(turns.available_permits(), 0, "the page is still being made");
        finish.send(()).expect("it waits");
        assert_eq!(in_turn(turns, || "next".to_owned()).await.as_deref(), Some("next"));
    }
}
