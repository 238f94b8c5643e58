//! Renders a decision as an HTTP response.

use http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderName, HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderMap, Response, StatusCode};
use tidegate::engine::Decision;
use tidegate::engine::render::problem_body;

use super::body::HttpResponseBody;

/// A response of the HTTP listener.
pub(crate) type HttpResponse = Response<HttpResponseBody>;

/// Initial capacity for headers: enough for most responses.
const HEADERS_USUAL: usize = 8;
/// Initial capacity for a body: enough for a decision about a few limits.
const BYTES_USUAL: usize = 512;
pub(crate) const JSON: HeaderValue = HeaderValue::from_static("application/json");
const PROBLEM: HeaderValue = HeaderValue::from_static(problem_body::CONTENT_TYPE);

/// The decision as JSON, for a program that asked for one.
pub(crate) fn decided(decision: &Decision, status: StatusCode) -> HttpResponse {
    let mut body = Vec::with_capacity(BYTES_USUAL);
    write(decision, &mut body);
    with_headers(decision, status, JSON, body)
}

/// 204 with headers only, for a proxy whose client may pass.
pub(crate) fn passed(decision: &Decision) -> HttpResponse {
    let mut answer = HttpResponse::default();
    *answer.status_mut() = StatusCode::NO_CONTENT;
    add_headers(decision, answer.headers_mut());
    answer
}

/// A problem body, for a proxy whose client may not pass.
pub(crate) fn refused(decision: &Decision, status: StatusCode) -> HttpResponse {
    with_headers(decision, status, PROBLEM, decision.problem_body(status.as_u16()).into_bytes())
}

/// 401 with `WWW-Authenticate`, for a proxy whose client has an invalid credential.
pub(crate) fn challenged(decision: &Decision, challenge: &'static str) -> HttpResponse {
    let mut answer = refused(decision, StatusCode::UNAUTHORIZED);
    answer.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static(challenge));
    answer
}

/// Writes a decision as JSON.
pub(crate) fn write(decision: &Decision, body: &mut Vec<u8>) {
    body.push(b'{');
    decision.write_json_members(body);
    body.push(b'}');
}

fn with_headers(decision: &Decision, status: StatusCode, kind: HeaderValue, body: Vec<u8>) -> HttpResponse {
    let mut answer = HttpResponse::new(body.into());
    *answer.status_mut() = status;
    let headers = answer.headers_mut();
    headers.reserve(HEADERS_USUAL);
    headers.insert(CONTENT_TYPE, kind);
    add_headers(decision, headers);
    answer
}

fn add_headers(decision: &Decision, headers: &mut HeaderMap) {
    decision.headers(|name, value| {
        let value = HeaderValue::from_str(value).expect("only visible ASCII is written");
        headers.insert(header_name(name), value);
    });
}

/// The `HeaderName` of a header that decisions use, as a constant: parsing the name on each response is slower.
fn header_name(name: &'static str) -> HeaderName {
    match name {
        "x-ratelimit-limit" => const { HeaderName::from_static("x-ratelimit-limit") },
        "x-ratelimit-remaining" => const { HeaderName::from_static("x-ratelimit-remaining") },
        "x-ratelimit-reset" => const { HeaderName::from_static("x-ratelimit-reset") },
        "ratelimit-limit" => const { HeaderName::from_static("ratelimit-limit") },
        "ratelimit-remaining" => const { HeaderName::from_static("ratelimit-remaining") },
        "ratelimit-reset" => const { HeaderName::from_static("ratelimit-reset") },
        "ratelimit-policy" => const { HeaderName::from_static("ratelimit-policy") },
        "ratelimit" => const { HeaderName::from_static("ratelimit") },
        "x-ratelimit-rule" => const { HeaderName::from_static("x-ratelimit-rule") },
        "x-ratelimit-reason" => const { HeaderName::from_static("x-ratelimit-reason") },
        "x-ratelimit-degraded" => const { HeaderName::from_static("x-ratelimit-degraded") },
        "retry-after" => RETRY_AFTER,
        "cache-control" => CACHE_CONTROL,
        other => HeaderName::from_static(other),
    }
}
