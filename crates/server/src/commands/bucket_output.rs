//! The bucket of a limit in the JSON of `tidegate explain`.

use serde_json::{Value, json};
use tidegate::Nanos;
use tidegate::engine::{ExplainedBucket, ExplainedOverride};

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
    let mut shown = json!({
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
    });
    if let Some(overridden) = &bucket.overridden {
        shown["override"] = json!({
            "id": overridden.id,
            "reason": overridden.reason,
            "until": overridden.until.map(until_text),
            "instead_of": overridden.instead_of,
            "refused": overridden.is_refused,
        });
    }
    shown
}

/// An override in words: what it is in place of, why, and until when.
pub(super) fn override_line(overridden: &ExplainedOverride) -> String {
    let ExplainedOverride { id, instead_of, .. } = overridden;
    let reason = overridden.reason.as_deref().map(|reason| format!(" ({reason})")).unwrap_or_default();
    let until = overridden.until.map(|until| format!(" until {}", until_text(until))).unwrap_or_default();
    match overridden.is_refused {
        false => format!("by the override {id}{reason}{until}, in place of {instead_of}"),
        true => format!("the override {id}{reason}{until} has no effect: the limit cannot have its numbers"),
    }
}

/// A point in time as documents write it.
fn until_text(until: Nanos) -> String {
    let seconds = i64::try_from(until.get() / 1_000_000_000).unwrap_or(i64::MAX);
    jiff::Timestamp::from_second(seconds).map(|time| time.to_string()).unwrap_or_default()
}
