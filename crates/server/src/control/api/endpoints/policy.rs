//! Routes about the whole policy.

use serde_json::Value;

use crate::control::api::answer::{JSON, YAML};
use crate::control::api::route::Answering;
use crate::control::api::{ApiAnswer, ApiCall};

/// `GET /policy`: as it was written.
pub(in crate::control::api) fn get(call: ApiCall) -> Answering {
    Box::pin(async move {
        let running = call.control().running();
        let is_json = serde_json::from_str::<Value>(&running.text).is_ok();
        let media_type = if is_json { JSON } else { YAML };
        Ok(ApiAnswer::text(running.text.to_string(), media_type).version(running.version))
    })
}
