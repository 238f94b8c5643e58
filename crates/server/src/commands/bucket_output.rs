//! The bucket of a limit in the JSON of `tidegate explain`.

use serde_json::{Value, json};
use tidegate::engine::ExplainedBucket;

/// The parts of a key as a JSON list.
pub(super) fn parts_json(key: &[(String, String)]) -> Value {
    key.iter().map(|(name, value)| json!({ "descriptor": name, "value": value })).collect()
}

/// `takes` is what this request takes from the bucket; `is_charged` says whether it takes anything at all.
pub(super) fn bucket_json(bucket: &ExplainedBucket, is_charged: bool) -> Value {
    let state = |decision: &tidegate::LimitDecision| {
        json!({
            "allowed": decision.is_allowed(),
            "limit": decision.limit,
            "remaining": decision.remaining,
            "reset_after_ms": decision.reset_after.as_millis_ceil(),
            "retry_after_ms": decision.wait().map(|wait| wait.as_millis_ceil()),
        })
    };
    json!({
        "key": parts_json(&bucket.key),
        "shared": bucket.is_shared,
        "limit": bucket.limit,
        "trust_hundredths": bucket.trust,
        "cost": bucket.cost,
        "cost_from": bucket.cost_from,
        "takes": if is_charged && bucket.answer.is_allowed() { bucket.cost } else { 0 },
        "before": state(&bucket.before),
        "answer": state(&bucket.answer),
        "mode": if bucket.shadow { "shadow" } else { "enforce" },
    })
}
