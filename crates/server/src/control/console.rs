//! The console: its files, and the sessions of browsers. `POST /console/login` exchanges a token for a cookie,
//! `POST /console/logout` ends the session.

use std::sync::Arc;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, SET_COOKIE};
use http::request::Parts;
use http::{Method, Response};
use serde::{Deserialize, Serialize};

use super::access::{AccessError, AccessProof, RequestSite, cookie, no_cookie};
use super::api::{AnswerView, ApiAnswer, ApiError, rfc3339};
use super::console_files;
use crate::admin::AdminClient;
use crate::node::Node;

/// The path that everything of the console begins with.
pub(crate) const PREFIX: &str = "/console/";

/// What a login sends, as JSON or as a form.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Login {
    token: String,
}

/// What a login is answered with.
#[derive(Debug, Serialize)]
struct LoggedIn {
    role: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    tenant: Option<String>,
    /// When the session ends at the latest.
    expires: String,
}

/// Answers a request whose body has arrived. It runs on the runtime of the control plane.
pub(crate) async fn respond(
    node: Arc<Node>,
    client: AdminClient,
    head: Parts,
    body: Bytes,
) -> Response<Bytes> {
    if let Some(file) = console_files::answer_to(&head) {
        return match head.method {
            Method::GET => file,
            Method::HEAD => file.map(|_| Bytes::new()),
            _ => ApiError::Method { allowed: vec![Method::GET, Method::HEAD] }.render(),
        };
    }
    let answered = answer_to(&node, client, &head, &body).await;
    answered.map_or_else(|error| error.render(), |answer| answer.render(&AnswerView::SINGLE))
}

async fn answer_to(
    node: &Node,
    client: AdminClient,
    head: &Parts,
    body: &[u8],
) -> Result<ApiAnswer, ApiError> {
    let control = node.control().ok_or(ApiError::NoControlPlane)?;
    let page = head.uri.path().strip_prefix(PREFIX).unwrap_or_default();
    if !matches!(page, "login" | "logout") {
        return Err(ApiError::NoRoute);
    }
    if head.method != Method::POST {
        return Err(ApiError::Method { allowed: vec![Method::POST] });
    }
    let address = client.address_of(node, &head.headers);
    if page == "logout" {
        let proof = AccessProof { headers: &head.headers, address, writes: true, may_use_session: true };
        control.access().end_session(proof).await?;
        return Ok(ApiAnswer::json(&serde_json::json!({})).header(SET_COOKIE, &no_cookie()));
    }
    // A page of another site could otherwise log its own token in, and watch what is done with it.
    if RequestSite::of(&head.headers) == RequestSite::Foreign {
        return Err(AccessError::ForeignSite.into());
    }
    let token = sent_token(head, body)?;
    let begun = control.access().begin_session(token.as_bytes(), address).await;
    let begun = begun.inspect_err(|error| node.note_access_error(error, address))?;
    tracing::info!(actor = &*begun.principal.actor, "a session has begun");
    let answer = LoggedIn {
        role: begun.principal.role.as_str(),
        tenant: begun.principal.tenant.as_deref().map(str::to_owned),
        expires: rfc3339(begun.ends),
    };
    Ok(ApiAnswer::json(&answer).header(SET_COOKIE, &cookie(&begun.secret)))
}

/// The token in the body of a login.
fn sent_token(head: &Parts, body: &[u8]) -> Result<String, ApiError> {
    let sent = head.headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let token = match sent.split(';').next().unwrap_or_default().trim() {
        "application/json" => {
            // The reason could quote the token.
            let login = serde_json::from_slice::<Login>(body);
            login.map_err(|_| ApiError::body("/token", "the body must be {\"token\": \"…\"}"))?.token
        }
        "application/x-www-form-urlencoded" => {
            let mut fields = form_urlencoded::parse(body);
            let token = fields.find(|(name, _)| name == "token").map(|(_, value)| value.into_owned());
            token.ok_or_else(|| ApiError::body("/token", "the form has no field `token`"))?
        }
        _ => {
            return Err(ApiError::MediaType {
                wanted: "application/json or application/x-www-form-urlencoded",
            });
        }
    };
    Ok(token.trim().to_owned())
}
