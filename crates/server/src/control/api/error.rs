//! Why a call was not answered as it was meant to be, and the problem body of each case.

use std::fmt::Display;

use bytes::Bytes;
use http::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE, HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{Method, Response, StatusCode};
use serde_json::{Value, json};
use tidegate_database::DatabaseError;
use tidegate_policy::Problem;

use crate::control::access::{AccessError, AccessRole};
use crate::http::body::BodyError;

/// Why a call was not answered as it was meant to be.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ApiError {
    /// The server has no control plane; only tests have such a server.
    #[error("this server has no admin API")]
    NoControlPlane,
    /// No route has the path.
    #[error("no route has this path; GET /api/v1/openapi.json lists them")]
    NoRoute,
    /// The path has no such method.
    #[error("this path does not have this method")]
    Method {
        /// The methods that it has.
        allowed: Vec<Method>,
    },
    /// The caller is not known.
    #[error(transparent)]
    Access(AccessError),
    /// A session is used by a page of another site.
    #[error(transparent)]
    ForeignSite(AccessError),
    /// The listener does not serve this without TLS.
    #[error("{0}")]
    NotHere(&'static str),
    /// The role of the caller is too small.
    #[error("this needs the role `{needed}`, and the token has the role `{role}`")]
    Role {
        /// The role that is needed.
        needed: AccessRole,
        /// The role of the caller.
        role: AccessRole,
    },
    /// The route is about the whole system.
    #[error("the token is restricted to a tenant, and this is about the whole system")]
    RestrictedToTenant,
    /// The caller is restricted to a tenant, and this lies outside of its subtree or is its parent's.
    #[error("{0}")]
    Outside(String),
    /// There is no entry of that name, or the caller may not know of it.
    #[error("there is no {what} `{name}`")]
    NotFound {
        /// What it would be: `limit`.
        what: &'static str,
        /// The name.
        name: String,
    },
    /// A part of the request is not valid.
    #[error("{place}: {detail}")]
    Invalid {
        /// Where: `body`, `query`, or the name of a header.
        place: String,
        /// A JSON pointer into the body, or the name of the parameter.
        pointer: String,
        /// What is wrong.
        detail: String,
    },
    /// The body has another media type than the route takes.
    #[error("the body must be {wanted}; set `Content-Type`")]
    MediaType {
        /// The media types that the route takes.
        wanted: &'static str,
    },
    /// The body is too large or did not arrive.
    #[error("{detail}")]
    Body {
        /// The status of the answer.
        status: StatusCode,
        /// What is wrong.
        detail: String,
    },
    /// The state of the server does not allow it.
    #[error("{0}")]
    Conflict(String),
    /// `If-Match` names another version than the one in force.
    #[error("the policy has the version {active} by now; read it again and repeat the change")]
    Stale {
        /// The version in force.
        active: u64,
    },
    /// The document would not be valid.
    #[error("the policy would not be valid: {}", counted(.0))]
    Problems(Vec<Problem>),
    /// The new value cannot be used, for a reason that is not a problem of the document. The last member has more
    /// about it.
    #[error("{detail}")]
    Unprocessable {
        /// What is wrong.
        detail: String,
        /// A JSON pointer into the body.
        pointer: String,
        /// Further members of the problem body.
        more: Value,
    },
    /// Too many calls.
    #[error("{detail}")]
    TooMany {
        /// Of what.
        detail: String,
        /// When to try again, in seconds.
        retry_after: u64,
    },
    /// Something that the call needs does not answer.
    #[error("{0}")]
    Unavailable(String),
    /// A bug.
    #[error("this call has failed unexpectedly; the log has more")]
    Internal,
}

impl From<AccessError> for ApiError {
    fn from(error: AccessError) -> ApiError {
        match error {
            AccessError::TooMany { retry_after, .. } => {
                ApiError::TooMany { detail: error.to_string(), retry_after }
            }
            AccessError::Unavailable | AccessError::NoRandomNumbers => {
                ApiError::Unavailable(error.to_string())
            }
            AccessError::NoSessionOfProvider => ApiError::Unprocessable {
                detail: error.to_string(),
                pointer: "/token".to_owned(),
                more: Value::Null,
            },
            AccessError::ForeignSite => ApiError::ForeignSite(error),
            AccessError::Missing | AccessError::Invalid | AccessError::SessionEnded => {
                ApiError::Access(error)
            }
        }
    }
}

impl From<BodyError> for ApiError {
    fn from(error: BodyError) -> ApiError {
        let status = match error {
            BodyError::TooLarge { .. } => StatusCode::PAYLOAD_TOO_LARGE,
            BodyError::Slow => StatusCode::REQUEST_TIMEOUT,
            BodyError::Broken => StatusCode::BAD_REQUEST,
            BodyError::BudgetExhausted => StatusCode::SERVICE_UNAVAILABLE,
        };
        ApiError::Body { status, detail: error.to_string() }
    }
}

impl From<DatabaseError> for ApiError {
    fn from(error: DatabaseError) -> ApiError {
        match error {
            DatabaseError::Unavailable(_) => ApiError::Unavailable(error.to_string()),
            DatabaseError::Full(_) => ApiError::Conflict(error.to_string()),
            DatabaseError::Cursor => ApiError::parameter("cursor", error.to_string()),
            DatabaseError::SearchTooLong(_) => ApiError::parameter("q", error.to_string()),
            other => {
                tracing::error!(error = %other, "the database failed");
                ApiError::Internal
            }
        }
    }
}

fn counted(problems: &[Problem]) -> String {
    match problems.iter().filter(|problem| problem.is_error()).count() {
        1 => "1 problem".to_owned(),
        count => format!("{count} problems"),
    }
}

/// The most problems that an answer lists.
const PROBLEMS_MAX: usize = 1_000;

impl ApiError {
    /// A parameter in the query is wrong.
    pub(crate) fn parameter(name: &str, detail: String) -> ApiError {
        let shown: String = name.chars().take(64).collect();
        ApiError::Invalid { place: format!("query parameter `{shown}`"), pointer: shown, detail }
    }

    /// The body is wrong at this place.
    pub(crate) fn body(pointer: &str, detail: impl Display) -> ApiError {
        ApiError::Invalid {
            place: "body".to_owned(),
            pointer: pointer.to_owned(),
            detail: detail.to_string(),
        }
    }

    /// A header is wrong.
    pub(crate) fn header(name: &str, detail: &str) -> ApiError {
        ApiError::Invalid {
            place: format!("header `{name}`"),
            pointer: name.to_owned(),
            detail: detail.to_owned(),
        }
    }

    /// What needs a database is asked of a server without one.
    pub(crate) fn needs_database(what: &str) -> ApiError {
        ApiError::Conflict(format!(
            "{what} need a database, and this server has none: start it with `--data DIR`, or set `database.url` in \
             the settings"
        ))
    }

    /// The status of the answer.
    pub(crate) fn status(&self) -> StatusCode {
        match self {
            ApiError::NoControlPlane | ApiError::NoRoute | ApiError::NotFound { .. } => StatusCode::NOT_FOUND,
            ApiError::Method { .. } => StatusCode::METHOD_NOT_ALLOWED,
            ApiError::Access(_) => StatusCode::UNAUTHORIZED,
            ApiError::Role { .. } | ApiError::RestrictedToTenant | ApiError::Outside(_) => {
                StatusCode::FORBIDDEN
            }
            ApiError::ForeignSite(_) | ApiError::NotHere(_) => StatusCode::FORBIDDEN,
            ApiError::Invalid { .. } => StatusCode::BAD_REQUEST,
            ApiError::MediaType { .. } => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            ApiError::Body { status, .. } => *status,
            ApiError::Conflict(_) => StatusCode::CONFLICT,
            ApiError::Stale { .. } => StatusCode::PRECONDITION_FAILED,
            ApiError::Problems(_) | ApiError::Unprocessable { .. } => StatusCode::UNPROCESSABLE_ENTITY,
            ApiError::TooMany { .. } => StatusCode::TOO_MANY_REQUESTS,
            ApiError::Unavailable(_) => StatusCode::SERVICE_UNAVAILABLE,
            ApiError::Internal => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }

    /// The answer.
    pub(crate) fn render(&self) -> Response<Bytes> {
        let status = self.status();
        let mut body = match self {
            ApiError::Unprocessable { more: Value::Object(more), .. } => Value::Object(more.clone()),
            _ => json!({}),
        };
        body["type"] = "about:blank".into();
        body["title"] = status.canonical_reason().unwrap_or("Error").into();
        body["status"] = status.as_u16().into();
        body["detail"] = self.to_string().into();
        match self {
            ApiError::Invalid { pointer, .. } | ApiError::Unprocessable { pointer, .. } => {
                body["pointer"] = pointer.as_str().into();
            }
            ApiError::Problems(problems) => {
                body["problems"] = problems.iter().take(PROBLEMS_MAX).map(problem_json).collect();
            }
            _ => {}
        }
        let mut response = Response::new(Bytes::from(format!("{body}\n")));
        *response.status_mut() = status;
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        headers.insert("x-content-type-options", HeaderValue::from_static("nosniff"));
        match self {
            ApiError::Access(_) => {
                headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
            }
            ApiError::Method { allowed } => {
                let allowed: Vec<&str> = allowed.iter().map(Method::as_str).collect();
                headers.extend(HeaderValue::from_str(&allowed.join(", ")).ok().map(|value| (ALLOW, value)));
            }
            ApiError::TooMany { retry_after, .. } => {
                headers.insert(RETRY_AFTER, HeaderValue::from(*retry_after));
            }
            ApiError::Unavailable(_) => {
                headers.insert(RETRY_AFTER, HeaderValue::from_static("1"));
            }
            _ => {}
        }
        response
    }
}

/// A problem of a document, as answers show it.
pub(crate) fn problem_json(problem: &Problem) -> Value {
    json!({
        "severity": problem.severity.to_string(),
        "path": problem.path,
        "line": problem.at.line,
        "column": problem.at.column,
        "message": problem.message,
        "saw": problem.saw,
        "want": problem.want,
        "hint": problem.hint,
    })
}
