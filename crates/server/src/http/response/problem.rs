//! What goes wrong before there is a decision: `application/problem+json`.

use http::StatusCode;
use http::header::{
    ALLOW, CACHE_CONTROL, CONNECTION, CONTENT_TYPE, HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE,
};
use tidegate::engine::AdHocError;
use tidegate::engine::render::problem_body;

use super::answer::HttpAnswer;
use crate::bounds::HEADERS_MAX;
use crate::http::body::BodyError;
use crate::http::endpoints::ENDPOINTS;
use crate::serve::OutboxFull;
use crate::wire::RequestError;

/// Why a question has no answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum HttpProblem {
    /// There is nothing at this path.
    #[error("there is nothing at this path; see `endpoints`")]
    NotFound,
    /// It is not asked like that.
    #[error("this path is asked by {allow}")]
    Method {
        /// How it is asked.
        allow: &'static str,
    },
    /// Too many headers.
    #[error("the request has more than {HEADERS_MAX} headers")]
    Headers,
    /// No body.
    #[error(transparent)]
    Body(#[from] BodyError),
    /// Answers that were not taken use up what there is for them.
    #[error(transparent)]
    Answers(#[from] OutboxFull),
    /// The body is no text.
    #[error("the body is not UTF-8")]
    NoText,
    /// The body is not what is asked for.
    #[error(transparent)]
    Request(#[from] RequestError),
    /// The numbers of an ad-hoc bucket make no limit.
    #[error(transparent)]
    AdHoc(#[from] AdHocError),
    /// A parameter or header is not what it should be.
    #[error("{detail}")]
    Field {
        /// Which.
        field: &'static str,
        /// What is wrong.
        detail: String,
    },
    /// A token is needed.
    #[error("this endpoint needs `Authorization: Bearer` with the token of the settings (`auth.http_token`)")]
    Unauthorized,
    /// A token would be needed, and there is none.
    #[error(
        "this endpoint is off: the listener is not on loopback and the settings have no `auth.http_token`"
    )]
    Off,
    /// It may be from a page in a browser.
    #[error(
        "on loopback this endpoint is not for web pages: `Host` must be localhost or an address, without \
         `Origin`; or send the token of the settings (`auth.http_token`)"
    )]
    Page,
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
            | HttpProblem::NoText
            | HttpProblem::Request(_)
            | HttpProblem::Field { .. } => StatusCode::BAD_REQUEST,
            HttpProblem::AdHoc(AdHocError::Numbers(_)) => StatusCode::BAD_REQUEST,
            HttpProblem::AdHoc(_) | HttpProblem::Body(BodyError::NoRoom) | HttpProblem::Answers(_) => {
                StatusCode::SERVICE_UNAVAILABLE
            }
            HttpProblem::Unauthorized => StatusCode::UNAUTHORIZED,
            HttpProblem::Off | HttpProblem::Page => StatusCode::FORBIDDEN,
        }
    }

    fn field(&self) -> Option<String> {
        match self {
            HttpProblem::Request(error) => error.field(),
            HttpProblem::Field { field, .. } => Some((*field).to_owned()),
            HttpProblem::AdHoc(AdHocError::Numbers(error)) => Some(field_of(error).to_owned()),
            _ => None,
        }
    }

    /// The answer that says so.
    pub(crate) fn answer(&self) -> HttpAnswer {
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
                ENDPOINTS.iter().map(|known| format!("{} {}", known.asked_by(), known.path)).collect();
        }
        let mut answer = HttpAnswer::new(body.to_string().into_bytes().into());
        *answer.status_mut() = status;
        let headers = answer.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(problem_body::CONTENT_TYPE));
        // It may be otherwise in a moment.
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
            // What is left of the body would be taken for the next request, or be waited for.
            HttpProblem::Body(_) => {
                headers.insert(CONNECTION, HeaderValue::from_static("close"));
            }
            _ => {}
        }
        answer
    }
}

/// Which of the numbers it is that makes no limit.
fn field_of(error: &tidegate::QuotaError) -> &'static str {
    use tidegate::QuotaError;
    match error {
        QuotaError::ZeroRate | QuotaError::TooFast { .. } => "rate",
        QuotaError::ZeroWindow | QuotaError::WindowTooLong { .. } | QuotaError::TooSlow { .. } => "window",
        _ => "capacity",
    }
}
