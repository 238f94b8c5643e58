//! Errors before there is a decision, rendered as `application/problem+json`.

use http::StatusCode;
use http::header::{
    ALLOW, CACHE_CONTROL, CONNECTION, CONTENT_TYPE, HeaderName, HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE,
};
use tidegate::engine::AdHocError;
use tidegate::engine::render::problem_body;
use tidegate_policy::IdentityFault;

use super::decision::HttpResponse;
use crate::bounds::HEADERS_MAX;
use crate::http::body::BodyError;
use crate::http::endpoints::ENDPOINTS;
use crate::serve::BacklogFull;
use crate::wire::RequestError;

/// Why a request got no decision.
#[derive(Debug, thiserror::Error)]
pub(crate) enum HttpProblem {
    /// No endpoint has this path.
    #[error("no endpoint has this path; `endpoints` lists those that exist")]
    NotFound,
    /// The endpoint does not allow this method.
    #[error("this endpoint allows only {allow}")]
    Method {
        /// The methods it allows.
        allow: &'static str,
    },
    /// The request has too many headers.
    #[error("the request has more than {HEADERS_MAX} headers")]
    Headers,
    /// The body could not be read.
    #[error(transparent)]
    Body(#[from] BodyError),
    /// The budget for unread responses is used up.
    #[error(transparent)]
    Backlog(#[from] BacklogFull),
    /// The body is not UTF-8.
    #[error("the body is not UTF-8")]
    NotUtf8,
    /// The body is not a valid request.
    #[error(transparent)]
    Request(#[from] RequestError),
    /// The ad hoc bucket cannot be charged.
    #[error(transparent)]
    AdHoc(#[from] AdHocError),
    /// A parameter or header is invalid.
    #[error("{detail}")]
    Field {
        /// Its name.
        field: &'static str,
        /// What is wrong with it.
        detail: String,
    },
    /// A source of the client's identity has a value that cannot be used.
    #[error("{fault}")]
    Identity {
        /// The source and what is wrong.
        fault: IdentityFault,
        /// The status in place of 400, if the proxy chose one for refusals.
        deny_status: Option<StatusCode>,
    },
    /// The endpoint needs the token of the settings.
    #[error(
        "this endpoint needs `Authorization: Bearer` with the token from the settings (`auth.http_token`)"
    )]
    Unauthorized,
    /// The endpoint needs a token, and the settings have none.
    #[error(
        "this endpoint is off: the listener is not on loopback, and the settings have no `auth.http_token`"
    )]
    Disabled,
    /// The request may come from a web page in a browser.
    #[error(
        "on loopback this endpoint is not for web pages: send no `Origin`, and `localhost` or an IP address as \
         `Host`; or send the token from the settings (`auth.http_token`)"
    )]
    WebPage,
}

impl HttpProblem {
    fn status(&self) -> StatusCode {
        match self {
            HttpProblem::NotFound => StatusCode::NOT_FOUND,
            HttpProblem::Method { .. } => StatusCode::METHOD_NOT_ALLOWED,
            HttpProblem::Headers => StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
            HttpProblem::Body(BodyError::TooLarge { .. }) => StatusCode::PAYLOAD_TOO_LARGE,
            HttpProblem::Body(BodyError::Slow) => StatusCode::REQUEST_TIMEOUT,
            HttpProblem::Body(BodyError::Broken)
            | HttpProblem::NotUtf8
            | HttpProblem::Request(_)
            | HttpProblem::Field { .. } => StatusCode::BAD_REQUEST,
            HttpProblem::Identity { deny_status, .. } => deny_status.unwrap_or(StatusCode::BAD_REQUEST),
            HttpProblem::AdHoc(AdHocError::Numbers(_)) => StatusCode::BAD_REQUEST,
            HttpProblem::AdHoc(_)
            | HttpProblem::Body(BodyError::BudgetExhausted)
            | HttpProblem::Backlog(_) => StatusCode::SERVICE_UNAVAILABLE,
            HttpProblem::Unauthorized => StatusCode::UNAUTHORIZED,
            HttpProblem::Disabled | HttpProblem::WebPage => StatusCode::FORBIDDEN,
        }
    }

    fn field(&self) -> Option<String> {
        match self {
            HttpProblem::Request(error) => error.field(),
            HttpProblem::Field { field, .. } => Some((*field).to_owned()),
            HttpProblem::Identity { fault, .. } => Some(fault.source.clone()),
            HttpProblem::AdHoc(AdHocError::Numbers(error)) => Some(field_of(error).to_owned()),
            _ => None,
        }
    }

    /// The response that reports this problem.
    pub(crate) fn response(&self) -> HttpResponse {
        let status = self.status();
        let mut body = serde_json::json!({
            "type": "about:blank",
            "title": status.canonical_reason().unwrap_or("Error"),
            "status": status.as_u16(),
            "detail": self.to_string(),
        });
        if let Some(field) = self.field() {
            body["field"] = field.into();
        }
        if let HttpProblem::NotFound = self {
            body["endpoints"] =
                ENDPOINTS.iter().map(|known| format!("{} {}", known.method(), known.path)).collect();
        }
        let mut answer = HttpResponse::new(body.to_string().into_bytes().into());
        *answer.status_mut() = status;
        let headers = answer.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(problem_body::CONTENT_TYPE));
        // The condition is temporary: do not cache it, and let the client retry.
        if status == StatusCode::SERVICE_UNAVAILABLE {
            headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
            headers.insert(RETRY_AFTER, HeaderValue::from_static("1"));
        }
        match self {
            HttpProblem::Method { allow } => {
                headers.insert(ALLOW, HeaderValue::from_static(allow));
            }
            HttpProblem::Unauthorized => {
                headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer realm=\"tidegate\""));
            }
            // For proxies that drop the body of a refusal.
            HttpProblem::Identity { fault, .. } => {
                if let Ok(source) = HeaderValue::from_str(&fault.source) {
                    headers.insert(HeaderName::from_static("x-tidegate-source"), source);
                }
                headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
            }
            // The rest of the body was not read: the server would parse it as the next request, or wait for it.
            HttpProblem::Body(_) => {
                headers.insert(CONNECTION, HeaderValue::from_static("close"));
            }
            _ => {}
        }
        answer
    }
}

/// The member that makes the quota of an ad hoc bucket invalid.
fn field_of(error: &tidegate::QuotaError) -> &'static str {
    use tidegate::QuotaError;
    match error {
        QuotaError::ZeroRate | QuotaError::TooFast { .. } => "rate",
        QuotaError::ZeroWindow | QuotaError::WindowTooLong { .. } | QuotaError::TooSlow { .. } => "window",
        _ => "capacity",
    }
}
