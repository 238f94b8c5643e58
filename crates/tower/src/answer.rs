//! What a decision means for the answer: a refusal, or headers on the service's
//! own.

use std::fmt::Write;
use std::sync::Arc;

use http::header::{CONTENT_TYPE, HeaderName, HeaderValue, WWW_AUTHENTICATE};
use http::{Extensions, HeaderMap, Response, StatusCode};
use tidegate::engine::Decision;
use tidegate::engine::render::{headers, problem_body};

use crate::{Degraded, RateLimitInfo};

const GRPC: &str = "application/grpc";

/// How a decision goes on. It holds on to nothing of the decision, which should
/// not be kept while a service takes its time.
pub(crate) enum LayerOutcome {
    /// The service is not asked.
    Refuse(Box<Response<String>>),
    /// The service answers, and this is added.
    Pass(LayerAdditions),
}

/// What an admitted request and its response are given on their way.
pub(crate) struct LayerAdditions {
    headers: Vec<(HeaderName, HeaderValue)>,
    standing: RateLimitInfo,
    degraded: Option<Degraded>,
    degraded_header: Option<(HeaderName, HeaderValue)>,
}

impl LayerOutcome {
    /// For whoever asked by a request with these headers.
    pub(crate) fn to(decision: &Decision, asked: &HeaderMap) -> LayerOutcome {
        let (mut headers, standing) = (headers(decision), RateLimitInfo::of(decision));
        if decision.is_allowed() {
            let degraded = decision.degraded().map(|tag| Degraded(Arc::from(tag)));
            // The mark is told even where a layer further in speaks for the limits.
            let degraded_header = headers.pop_if(|(name, _)| name == headers::DEGRADED);
            return LayerOutcome::Pass(LayerAdditions { headers, standing, degraded, degraded_header });
        }
        let mut response = if is_grpc(asked) { grpc_refusal(decision) } else { http_refusal(decision) };
        response.headers_mut().extend(headers);
        response.extensions_mut().insert(standing);
        LayerOutcome::Refuse(Box::new(response))
    }
}

impl LayerAdditions {
    /// Tells the service what was decided.
    pub(crate) fn mark(&self, request: &mut Extensions) {
        request.insert(self.standing.clone());
        if let Some(degraded) = &self.degraded {
            request.insert(degraded.clone());
        }
    }

    /// Tells the client what was decided. If the response comes from a layer
    /// further in, the tighter of the two speaks.
    pub(crate) fn tell<B>(self, response: &mut Response<B>) {
        if let Some((name, mark)) = self.degraded_header {
            response.headers_mut().insert(name, mark);
        }
        let inner = response.extensions().get::<RateLimitInfo>();
        if inner.is_some_and(|inner| inner.is_tighter_than(&self.standing)) {
            return;
        }
        for (name, value) in self.headers {
            response.headers_mut().insert(name, value);
        }
        response.extensions_mut().insert(self.standing);
    }
}

fn headers(decision: &Decision) -> Vec<(HeaderName, HeaderValue)> {
    let mut headers = Vec::with_capacity(8);
    decision.headers(|name, value| {
        headers.push((
            HeaderName::from_static(name),
            HeaderValue::from_str(value).expect("only visible ASCII is written"),
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

/// Does a gRPC client ask? `application/grpc-web` is not meant: browsers
/// understand a plain 429.
fn is_grpc(asked: &HeaderMap) -> bool {
    let kind = asked.get(CONTENT_TYPE).map(HeaderValue::as_bytes).unwrap_or_default();
    let Some((start, rest)) = kind.split_at_checked(GRPC.len()) else { return false };
    start.eq_ignore_ascii_case(GRPC.as_bytes()) && matches!(rest.first(), None | Some(b'+' | b';' | b' '))
}

/// A refusal as gRPC has it: a response of nothing but trailers, which HTTP sees
/// as headers. `grpc-retry-pushback-ms` is what clients that retry by themselves
/// go by; below zero it tells them not to.
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

/// The message, percent-encoded as gRPC wants it.
fn grpc_message(decision: &Decision) -> String {
    let what = if decision.challenge().is_some() { "not authenticated" } else { "rate limited" };
    let mut message = format!("{what}: {}", decision.reason());
    let mut add = |text: std::fmt::Arguments<'_>| message.write_fmt(text).expect("a String takes all");
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
            _ => write!(encoded, "%{byte:02X}").expect("a String takes all"),
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
