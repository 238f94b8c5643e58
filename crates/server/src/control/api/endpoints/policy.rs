//! Routes about the whole policy.

use http::HeaderName;
use http::header::ACCEPT;
use serde_json::Value;
use tidegate_document::parse_json;
use utoipa::ToSchema;

use crate::control::access::AccessRole;
use crate::control::api::answer::{JSON, YAML};
use crate::control::api::route::Answering;
use crate::control::api::{ApiAnswer, ApiCall, ApiError};
use crate::control::changing::{self, Edited, TextEdit};
use crate::control::masked_policy::{masked_document, masked_text};

/// Why the policy cannot be changed through the API, for those whose role may.
const READ_ONLY: HeaderName = HeaderName::from_static("x-read-only");

/// What a change of the policy answers.
#[derive(Debug, serde::Serialize, ToSchema)]
pub(crate) struct PolicyChanged {
    /// The number of the new version; that of the old one if nothing has changed.
    #[schema(example = 8)]
    version: u64,
    /// What the policy probably does not mean.
    #[schema(value_type = Vec<Object>)]
    warnings: Vec<Value>,
}

/// What a change of a tenant answers.
#[derive(Debug, serde::Serialize, ToSchema)]
pub(crate) struct TenantChanged {
    #[serde(flatten)]
    changed: PolicyChanged,
    /// What the tenant's parent has allotted; null if it has no allocated budget.
    allocation: Option<AllocationAnswer>,
}

/// What the children of an allocated budget are allotted together, per window of the budget.
#[derive(Debug, serde::Serialize, ToSchema)]
pub(crate) struct AllocationAnswer {
    /// The tenant that has the budget.
    parent: String,
    /// The sum of the children's rates, rounded up.
    sum: u64,
    /// The budget.
    total: u64,
    /// By how much the sum may exceed the budget.
    #[schema(example = 1.5)]
    overcommit_ratio: f64,
    /// What may still be allotted, overcommitment included.
    left: u64,
    /// The upstream that the budget is for, if it is for one.
    #[serde(skip_serializing_if = "Option::is_none")]
    upstream: Option<String>,
}

/// `GET /policy`: as it was written, or as JSON.
pub(in crate::control::api) fn get(call: ApiCall) -> Answering {
    Box::pin(async move {
        let (running, root) = call.control().document().await.ok_or(ApiError::Internal)?;
        let is_masked = call.principal().role < AccessRole::Editor;
        let (wanted, version) = (wanted(&call), running.version);
        // A large document takes a while.
        let written = call.control().run_long(move || {
            let is_json = is_json(&running.text);
            match wanted {
                Some(JSON) if !is_json && is_masked => (masked_document(&root).to_json() + "\n", JSON),
                Some(JSON) if !is_json => (root.to_json() + "\n", JSON),
                wanted => {
                    let written = if is_json { JSON } else { YAML };
                    let text = if is_masked { masked_text(&running.text) } else { running.text.to_string() };
                    (text, wanted.unwrap_or(written))
                }
            }
        });
        let (text, media_type) = written.await.ok_or(ApiError::Internal)?;
        let answer = ApiAnswer::text(text, media_type).version(version);
        Ok(match changing::writable(call.control()) {
            // It names a file of this machine, which is for those who would otherwise change the policy here.
            Err(why) if !is_masked => answer.header(READ_ONLY, &visible_ascii(&why.to_string())),
            _ => answer,
        })
    })
}

/// A text as the value of a header.
fn visible_ascii(text: &str) -> String {
    text.chars().map(|letter| if matches!(letter, ' '..='~') { letter } else { '?' }).collect()
}

/// Is a policy written in JSON? YAML in flow style begins in the same way.
fn is_json(text: &str) -> bool {
    text.trim_start().starts_with(['{', '[']) && parse_json(text).is_ok()
}

/// The first media type of a policy that `Accept` names.
fn wanted(call: &ApiCall) -> Option<&'static str> {
    let accepted = call.headers.get(ACCEPT)?.to_str().ok()?;
    accepted.split(',').find_map(|one| match one.split(';').next()?.trim() {
        JSON => Some(JSON),
        YAML | "application/x-yaml" | "text/yaml" => Some(YAML),
        _ => None,
    })
}

/// `PUT /policy`
pub(in crate::control::api) fn put(call: ApiCall) -> Answering {
    Box::pin(async move {
        let edit = document_edit(&call)?;
        changing::change(&call, edit).await
    })
}

/// The edit that replaces the policy by the document of a call.
///
/// # Errors
/// When the body is not UTF-8.
pub(super) fn document_edit(call: &ApiCall) -> Result<TextEdit, ApiError> {
    let text = call.text()?.to_owned();
    let must_be_json = call.media_type() == JSON;
    Ok(Box::new(move |_: &str| {
        if must_be_json {
            parse_json(&text).map_err(ApiError::Problems)?;
        }
        Ok(Edited { text: text.clone(), ..Edited::default() })
    }))
}
