//! Routes that try things out: checking a policy, and its JSON Schema.

use serde::Serialize;
use serde_json::Value;
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
        let checked = call.control().run_long(move || Policy::parse_at(&text, now)).await;
        let (valid, problems) = match checked.ok_or(ApiError::Internal)? {
            Ok(policy) => (true, policy.warnings),
            Err(error) => (false, error.problems),
        };
        Ok(ApiAnswer::json(&Validation { valid, problems: problems.iter().map(problem_json).collect() }))
    })
}

/// `GET /schema`
pub(in crate::control::api) fn schema(_call: ApiCall) -> Answering {
    Box::pin(async { Ok(ApiAnswer::text(tidegate_policy::json_schema(), JSON)) })
}
