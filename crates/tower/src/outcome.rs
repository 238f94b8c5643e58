//! Turns a decision into a refusal, or into headers for the response of the service.

use std::fmt::Write;
use std::sync::Arc;

use http::header::{CONTENT_TYPE, HeaderName, HeaderValue, WWW_AUTHENTICATE};
use http::{Extensions, HeaderMap, Response, StatusCode};
use tidegate::engine::render::{headers, problem_body};
use tidegate::engine::{Decision, IdentityFault};

use crate::{Degraded, RateLimitInfo};

const GRPC: &str = "application/grpc";

/// The outcome of a decision. It borrows nothing from the decision, which should not be kept while the service works.
pub(crate) enum LayerOutcome {
    /// The request is refused with this response; the service is not called.
    Refuse(Box<Response<String>>),
    /// The service is called, and this is added to request and response.
    Pass(LayerAdditions),
}

/// What is added to an admitted request and to its response.
pub(crate) struct LayerAdditions {
    headers: Vec<(HeaderName, HeaderValue)>,
    info: RateLimitInfo,
    degraded: Option<Degraded>,
    degraded_header: Option<(HeaderName, HeaderValue)>,
}

impl LayerOutcome {
    /// For a request with these headers.
    pub(crate) fn new(decision: &Decision, request: &HeaderMap) -> LayerOutcome {
        let (mut headers, info) = (headers(decision), RateLimitInfo::of(decision));
        if decision.is_allowed() {
            let degraded = decision.degraded().map(|tag| Degraded(Arc::from(tag)));
            // Taken out of the list: this header is added even if an inner layer provides the other ones.
            let degraded_header = headers.pop_if(|(name, _)| name == headers::DEGRADED);
            return LayerOutcome::Pass(LayerAdditions { headers, info, degraded, degraded_header });
        }
        let mut response = if is_grpc(request) { grpc_refusal(decision) } else { http_refusal(decision) };
        response.headers_mut().extend(headers);
        response.extensions_mut().insert(info);
        LayerOutcome::Refuse(Box::new(response))
    }

    /// For a request with these headers whose identity cannot be used.
    pub(crate) fn unidentified(fault: &IdentityFault, request: &HeaderMap) -> LayerOutcome {
        let mut response = Response::new(String::new());
        let headers = response.headers_mut();
        if is_grpc(request) {
            headers.insert(CONTENT_TYPE, HeaderValue::from_static(GRPC));
            headers.insert("grpc-status", HeaderValue::from_static("3"));
            let message = percent_encoded(&format!("unusable identity: {fault}"));
            if let Ok(message) = HeaderValue::from_str(&message) {
                headers.insert("grpc-message", message);
            }
        } else {
            headers.insert(CONTENT_TYPE, HeaderValue::from_static(problem_body::CONTENT_TYPE));
            *response.status_mut() = StatusCode::BAD_REQUEST;
            *response.body_mut() = problem_body::identity_body(fault);
        }
        LayerOutcome::Refuse(Box::new(response))
    }
}

impl LayerAdditions {
    /// Adds the decision to the extensions of the request, for the service.
    pub(crate) fn add_to_request(&self, request: &mut Extensions) {
        request.insert(self.info.clone());
        if let Some(degraded) = &self.degraded {
            request.insert(degraded.clone());
        }
    }

    /// Adds headers and extensions to the response. If an inner layer has added its own and they are tighter, those
    /// stay.
    pub(crate) fn add_to_response<B>(self, response: &mut Response<B>) {
        if let Some((name, tag)) = self.degraded_header {
            response.headers_mut().insert(name, tag);
        }
        let inner = response.extensions().get::<RateLimitInfo>();
        if inner.is_some_and(|inner| inner.is_tighter_than(&self.info)) {
            return;
        }
        for (name, value) in self.headers {
            response.headers_mut().insert(name, value);
        }
        response.extensions_mut().insert(self.info);
    }
}

fn headers(decision: &Decision) -> Vec<(HeaderName, HeaderValue)> {
    let mut headers = Vec::with_capacity(8);
    decision.headers(|name, value| {
        headers.push((
            HeaderName::from_static(name),
            HeaderValue::from_str(value).expect("header values are visible ASCII"),
        ));
    });
    headers
}

fn http_refusal(decision: &Decision) -> Response<String> {
    let status = StatusCode::from_u16(decision.client_status()).unwrap_or(StatusCode::TOO_MANY_REQUESTS);
    let mut response = Response::new(decision.problem_body(status.as_u16()));
    *response.status_mut() = status;
    let kind = HeaderValue::from_static(problem_body::CONTENT_TYPE);
    response.headers_mut().insert(CONTENT_TYPE, kind);
    if let Some(challenge) = decision.challenge() {
        response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static(challenge));
    }
    response
}

/// Is it a gRPC request? `application/grpc-web` is not one: browsers understand a plain 429.
fn is_grpc(request: &HeaderMap) -> bool {
    let kind = request.get(CONTENT_TYPE).map(HeaderValue::as_bytes).unwrap_or_default();
    let Some((start, rest)) = kind.split_at_checked(GRPC.len()) else { return false };
    start.eq_ignore_ascii_case(GRPC.as_bytes()) && matches!(rest.first(), None | Some(b'+' | b';' | b' '))
}

/// A gRPC refusal: a response with trailers only, which HTTP sends as headers. Clients that retry automatically wait
/// `grpc-retry-pushback-ms`; a negative value means that they must not retry.
fn grpc_refusal(decision: &Decision) -> Response<String> {
    let status = HeaderValue::from_static(match decision.client_status() {
        401 => "16",
        503 => "14",
        _ => "8",
    });
    let wait = decision.wait().and_then(|wait| i32::try_from(wait.as_millis_ceil()).ok());
    let mut response = Response::new(String::new());
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(GRPC));
    headers.insert("grpc-status", status);
    headers.insert("grpc-retry-pushback-ms", HeaderValue::from(wait.unwrap_or(-1)));
    if let Ok(message) = HeaderValue::from_str(&grpc_message(decision)) {
        headers.insert("grpc-message", message);
    }
    response
}

/// The message, percent-encoded as gRPC requires.
fn grpc_message(decision: &Decision) -> String {
    let what = if decision.challenge().is_some() { "not authenticated" } else { "rate limited" };
    let mut message = format!("{what}: {}", decision.reason());
    let mut add =
        |text: std::fmt::Arguments<'_>| message.write_fmt(text).expect("writing to a String cannot fail");
    if let Some(rule) = decision.violated_rule().filter(|rule| *rule != decision.reason().as_str()) {
        add(format_args!(" ({rule})"));
    }
    if let Some(secs) = decision.retry_after_secs() {
        add(format_args!(", retry after {secs} s"));
    }
    percent_encoded(&message)
}

fn percent_encoded(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b' '..=b'~' if byte != b'%' => encoded.push(byte.into()),
            _ => write!(encoded, "%{byte:02X}").expect("writing to a String cannot fail"),
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grpc_is_told_by_its_content_type() {
        for (kind, expected) in [
            ("application/grpc", true),
            ("Application/gRPC+proto", true),
            ("application/grpc; charset=x", true),
            ("application/grpc-web", false),
            ("application/grpcs", false),
            ("application/json", false),
            ("", false),
        ] {
            let headers = HeaderMap::from_iter([(CONTENT_TYPE, HeaderValue::from_static(kind))]);
            assert_eq!(is_grpc(&headers), expected, "{kind}");
        }
        assert!(!is_grpc(&HeaderMap::new()));
    }

    #[test]
    fn messages_are_percent_encoded() {
        assert_eq!(percent_encoded("100 % für Ü\n"), "100 %25 f%C3%BCr %C3%9C%0A");
    }
}
