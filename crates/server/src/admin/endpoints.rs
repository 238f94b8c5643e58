//! The endpoints of the admin listener, and the responses that they share.

use std::sync::Arc;

use bytes::Bytes;
use http::header::{
    ALLOW, CACHE_CONTROL, CONTENT_TYPE, HeaderValue, LOCATION, RETRY_AFTER, WWW_AUTHENTICATE,
};
use http::{Method, Request, Response, StatusCode};
use hyper::body::Incoming;
use serde_json::{Value, json};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use super::guard::{self, AdminRefusal};
use super::{AdminClient, health, hot_keys, penalties, trust};
use crate::bounds::{API_BODY_BYTES_MAX, BODY_BYTES_MAX};
use crate::control::api::{self, ApiError};
use crate::control::console;
use crate::http::body::collect;
use crate::node::Node;
use crate::observe;
use crate::serve::BacklogFull;

/// A response of the admin listener.
pub(super) type AdminResponse = Response<Bytes>;

/// The paths of the endpoints, and what each shows.
pub(super) const ENDPOINTS: [(&str, &str); 7] = [
    ("/healthz", "200 while the server is alive"),
    ("/readyz", "200 if the server may get requests, 503 with the reasons if not"),
    ("/metrics", "metrics in the Prometheus text format"),
    (
        "/debug/hot-keys",
        "the keys with the most consumption and the most denials; only from this machine or with a token",
    ),
    (
        "/debug/trust",
        "the trust score of a user and its terms (?user=…); only from this machine or with a token",
    ),
    (
        penalties::PATH,
        "the burst penalties in force; DELETE /debug/penalties/{id} lifts one; access as for hot keys",
    ),
    (console::PREFIX, "the console, for browsers"),
];

/// Answers a request. Its body, if it has one, is ignored.
pub(super) async fn respond(
    node: Arc<Node>,
    caller: AdminClient,
    request: Request<Incoming>,
) -> AdminResponse {
    if let Err(refusal) = guard::check_host(&node, &request) {
        return refused(refusal);
    }
    let path = request.uri().path();
    if let Err(error) = guard::check_privacy(&node, caller, path) {
        return error.render();
    }
    if path.starts_with("/api/") || path.starts_with(console::PREFIX) {
        return control_plane(node, caller, request).await;
    }
    if path == console::PREFIX.trim_end_matches('/') {
        return moved(console::PREFIX);
    }
    if let Some(id) = penalties::id_of(path) {
        return penalties::one(&node, caller, &request, id).await;
    }
    if path != "/" && ENDPOINTS.iter().all(|(endpoint, _)| *endpoint != path) {
        return not_found();
    }
    if request.method() != Method::GET && request.method() != Method::HEAD {
        return wrong_method("this endpoint is read-only: use GET or HEAD", "GET, HEAD");
    }
    match path {
        "/healthz" => text(StatusCode::OK, "text/plain; charset=utf-8", "alive\n".to_owned()),
        "/readyz" => health::ready(&node),
        "/metrics" => metrics(node).await,
        "/debug/hot-keys" => hot_keys::hot_keys(node, caller, &request).await,
        "/debug/trust" => trust::trust(node, caller, &request).await,
        penalties::PATH => penalties::list(&node, caller, &request).await,
        _ => text(StatusCode::OK, "text/plain; charset=utf-8", index()),
    }
}

/// Answers a call of the admin API or of the console, on the runtime of the control plane.
async fn control_plane(node: Arc<Node>, caller: AdminClient, request: Request<Incoming>) -> AdminResponse {
    let (head, body) = request.into_parts();
    let is_console = head.uri.path().starts_with(console::PREFIX);
    let most = if is_console { BODY_BYTES_MAX } else { API_BODY_BYTES_MAX };
    let budget = node.body_budget().account(caller.address, node.is_loopback_or_proxy(caller.address));
    let (body, share) = match collect(body, most, &budget).await {
        Ok(body) => body.into_owned_parts(),
        Err(error) => return ApiError::from(error).render(),
    };
    let Some(control) = node.control() else { return ApiError::NoControlPlane.render() };
    let on = Arc::clone(&node);
    // Hyper drops this function's future when the client disconnects. The call goes on, so that nothing is left half
    // written; what writes nothing ends.
    let left = CancellationToken::new();
    let _present = left.clone().drop_guard();
    let answering = control.runtime().spawn(async move {
        // The share of the budget is held for as long as the call may hold the body.
        let _share = share;
        match is_console {
            true => console::respond(on, caller, head, body).await,
            false => api::respond(on, caller, head, body, left).await,
        }
    });
    answering.await.unwrap_or_else(|_panicked| ApiError::Internal.render())
}

/// Renders one metrics page at a time: with many limits it takes some milliseconds.
async fn metrics(node: Arc<Node>) -> AdminResponse {
    let permits = Arc::clone(&node.metrics().scrapes);
    match run_serialized(permits, move || observe::metrics_page(&node)).await {
        Some(page) => text(StatusCode::OK, observe::CONTENT_TYPE, page),
        None => {
            problem(StatusCode::INTERNAL_SERVER_ERROR, "the metrics page could not be rendered", json!({}))
        }
    }
}

/// Renders a page on a blocking thread, so that a health check does not wait for it. The permit is kept until the page is
/// rendered, even if the client has disconnected meanwhile.
async fn run_serialized(
    permits: Arc<Semaphore>,
    make: impl FnOnce() -> String + Send + 'static,
) -> Option<String> {
    let permit = permits.acquire_owned().await.expect("the semaphore is never closed");
    let making = move || {
        let _turn = permit;
        make()
    };
    tokio::task::spawn_blocking(making).await.ok()
}

/// 308, to the address that was meant.
fn moved(path: &'static str) -> AdminResponse {
    let mut answer =
        text(StatusCode::PERMANENT_REDIRECT, "text/plain; charset=utf-8", format!("it is at {path}\n"));
    answer.headers_mut().insert(LOCATION, HeaderValue::from_static(path));
    answer
}

/// 405, with the methods that the path has.
pub(super) fn wrong_method(detail: &str, allowed: &'static str) -> AdminResponse {
    let mut answer = problem(StatusCode::METHOD_NOT_ALLOWED, detail, json!({}));
    answer.headers_mut().insert(ALLOW, HeaderValue::from_static(allowed));
    answer
}

fn index() -> String {
    let mut page = format!("tidegate {}\n\n", env!("CARGO_PKG_VERSION"));
    for (path, what) in ENDPOINTS {
        page.push_str(&format!("{path:<18}{what}\n"));
    }
    page
}

fn not_found() -> AdminResponse {
    let paths: Vec<&str> = ENDPOINTS.iter().map(|(path, _)| *path).collect();
    let detail = format!("no endpoint has this path; the endpoints are {}", paths.join(", "));
    problem(StatusCode::NOT_FOUND, &detail, json!({ "endpoints": paths }))
}

/// A response with a text body.
pub(super) fn text(status: StatusCode, content_type: &'static str, body: String) -> AdminResponse {
    let mut answer = Response::new(Bytes::from(body));
    *answer.status_mut() = status;
    let headers = answer.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert("x-content-type-options", HeaderValue::from_static("nosniff"));
    answer
}

/// A response with a JSON body.
pub(super) fn object(status: StatusCode, body: &Value) -> AdminResponse {
    text(status, "application/json", format!("{body}\n"))
}

/// The response to a refused request.
pub(super) fn refused(refusal: AdminRefusal) -> AdminResponse {
    problem(refusal.status(), &refusal.to_string(), json!({}))
}

/// 503 while the budget for unread responses is used up.
pub(super) fn backlog_full(full: BacklogFull) -> AdminResponse {
    let mut answer = problem(StatusCode::SERVICE_UNAVAILABLE, &full.to_string(), json!({}));
    answer.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
    answer
}

/// A response with a problem body.
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
        let permits = Arc::new(Semaphore::new(1));
        let (finish, finished) = std::sync::mpsc::channel::<()>();
        let making = tokio::spawn(run_serialized(Arc::clone(&permits), move || {
            finished.recv().expect("it is told to");
            String::new()
        }));
        while permits.available_permits() > 0 {
            tokio::task::yield_now().await;
        }
        making.abort();
        assert!(making.await.is_err_and(|error| error.is_cancelled()));
        assert_eq!(permits.available_permits(), 0, "the page is still being made");
        finish.send(()).expect("it waits");
        assert_eq!(run_serialized(permits, || "next".to_owned()).await.as_deref(), Some("next"));
    }
}
