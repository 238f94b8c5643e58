//! Routes that work on documents: checking a policy, its JSON Schema, and importing those of other rate limiters.

use std::sync::LazyLock;

use serde::Serialize;
use serde_json::Value;
use tidegate_import::ImportFormat;
use tidegate_policy::Policy;
use utoipa::ToSchema;

use crate::control::api::answer::JSON;
use crate::control::api::error::problem_json;
use crate::control::api::route::Answering;
use crate::control::api::{ApiAnswer, ApiCall, ApiError};

/// What was found in a policy.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Validation {
    /// Can it be used?
    valid: bool,
    /// Every problem, warnings included.
    #[schema(value_type = Vec<Object>)]
    problems: Vec<Value>,
}

/// `POST /validate`
pub(in crate::control::api) fn validate(call: ApiCall) -> Answering {
    Box::pin(async move {
        let (text, now) = (call.text()?.to_owned(), call.now);
        let turn = call.trial_turn().await?;
        let checked = turn.run(call.control(), move || {
            let (valid, problems) = match Policy::parse_at(&text, now) {
                Ok(policy) => (true, policy.warnings),
                Err(error) => (false, error.problems),
            };
            ApiAnswer::json(&Validation { valid, problems: problems.iter().map(problem_json).collect() })
        });
        checked.await
    })
}

/// A policy that was made of a document of another rate limiter.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ImportedPolicy {
    /// The policy, as YAML. It is not put in force.
    policy: String,
    /// What could not be imported or had to be interpreted.
    notes: Vec<String>,
}

/// `POST /import`
pub(in crate::control::api) fn import(call: ApiCall) -> Answering {
    Box::pin(async move {
        let from = call.query.get("from").and_then(ImportFormat::from_name);
        let formats = ImportFormat::NAMES.iter().map(|(name, ..)| *name).collect::<Vec<_>>().join(", ");
        let wanted = || ApiError::parameter("from", format!("it is required, and one of {formats}"));
        let (from, text) = (from.ok_or_else(wanted)?, call.text()?.to_owned());
        let is_json = call.media_type() == JSON || text.trim_start().starts_with(['{', '[']);
        let is_table = from == ImportFormat::Rules && !is_json;
        // The ending tells what the document is, as that of a file does.
        let name = if is_table { "body.csv" } else { "body" };
        let turn = call.trial_turn().await?;
        let imported = turn.run(call.control(), move || {
            let imported = tidegate_import::import(from, name, &text).map_err(ApiError::Problems)?;
            let notes = imported.notes.iter().map(ToString::to_string).collect();
            Ok(ApiAnswer::json(&ImportedPolicy { policy: imported.policy, notes }))
        });
        imported.await?
    })
}

/// `GET /schema`
pub(in crate::control::api) fn schema(_call: ApiCall) -> Answering {
    static TEXT: LazyLock<String> = LazyLock::new(tidegate_policy::json_schema);
    Box::pin(async { Ok(ApiAnswer::text(TEXT.clone(), JSON)) })
}
