//! Routes about the API itself: the OpenAPI document, and who the caller is.

use std::sync::LazyLock;

use serde::Serialize;
use utoipa::ToSchema;

use crate::control::api::answer::JSON;
use crate::control::api::route::Answering;
use crate::control::api::{ApiAnswer, ApiCall, openapi, rfc3339};

/// Who the caller is.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct WhoAmI {
    /// The name in the audit.
    actor: String,
    /// What the token may do.
    #[schema(value_type = String, example = "viewer")]
    role: &'static str,
    /// The tenant that the token is restricted to.
    #[serde(skip_serializing_if = "Option::is_none")]
    tenant: Option<String>,
    /// When the token ends.
    #[serde(skip_serializing_if = "Option::is_none")]
    expires: Option<String>,
}

/// `GET /whoami`
pub(in crate::control::api) fn who_am_i(call: ApiCall) -> Answering {
    Box::pin(async move {
        let principal = call.principal();
        Ok(ApiAnswer::json(&WhoAmI {
            actor: principal.actor.to_string(),
            role: principal.role.as_str(),
            tenant: principal.tenant.as_deref().map(str::to_owned),
            expires: principal.expires.map(rfc3339),
        }))
    })
}

/// `GET /openapi.json`
pub(in crate::control::api) fn openapi(_call: ApiCall) -> Answering {
    // It needs no token, so it must cost little.
    static TEXT: LazyLock<String> = LazyLock::new(openapi::text);
    Box::pin(async { Ok(ApiAnswer::text(TEXT.clone(), JSON)) })
}
