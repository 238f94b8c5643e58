//! The bucket of a limit in the JSON of `tidegate explain`.

use serde::Serialize;
use serde_json::{Value, json};
use tidegate::engine::{ExplainedBucket, ExplainedOverride};
use tidegate::{LimitDecision, Nanos};

/// A descriptor of a key, and its value.
#[derive(Serialize)]
pub(super) struct KeyPartJson<'a> {
    descriptor: &'a str,
    value: &'a str,
}

/// The parts of a key.
pub(super) fn parts_json(key: &[(String, String)]) -> Vec<KeyPartJson<'_>> {
    key.iter().map(|(descriptor, value)| KeyPartJson { descriptor, value }).collect()
}

/// A bucket. The members are in the order of their names, as in a JSON value.
#[derive(Serialize)]
pub(super) struct BucketJson<'a> {
    answer: StateJson,
    before: StateJson,
    cost: u32,
    cost_from: &'a str,
    key: Vec<KeyPartJson<'a>>,
    limit: &'a str,
    mode: &'static str,
    #[serde(rename = "override", skip_serializing_if = "Option::is_none")]
    overridden: Option<Value>,
    shared: bool,
    /// What this request takes from it.
    takes: u32,
    trust_hundredths: Option<u8>,
}

#[derive(Serialize)]
struct StateJson {
    allowed: bool,
    limit: u64,
    remaining: u64,
    reset_after_ms: u64,
    retry_after_ms: Option<u64>,
}

impl StateJson {
    fn of(decision: &LimitDecision) -> StateJson {
        StateJson {
            allowed: decision.is_allowed(),
            limit: decision.limit.into(),
            remaining: decision.remaining.into(),
            reset_after_ms: decision.reset_after.as_millis_ceil(),
            retry_after_ms: decision.wait().map(Nanos::as_millis_ceil),
        }
    }
}

/// `is_charged` says whether the request takes anything at all.
pub(super) fn bucket_json(bucket: &ExplainedBucket, is_charged: bool) -> BucketJson<'_> {
    BucketJson {
        answer: StateJson::of(&bucket.answer),
        before: StateJson::of(&bucket.before),
        cost: bucket.cost,
        cost_from: &bucket.cost_from,
        key: parts_json(&bucket.key),
        limit: &bucket.limit,
        mode: if bucket.shadow { "shadow" } else { "enforce" },
        overridden: bucket.overridden.as_ref().map(|overridden| {
            json!({
                "id": overridden.id,
                "reason": overridden.reason,
                "until": overridden.until.map(until_text),
                "instead_of": overridden.instead_of,
                "refused": overridden.is_refused,
            })
        }),
        shared: bucket.is_shared,
        takes: if is_charged && bucket.answer.is_allowed() { bucket.cost } else { 0 },
        trust_hundredths: bucket.trust,
    }
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
