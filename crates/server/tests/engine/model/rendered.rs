//! The JSON of a decision.

use serde_json::{Value, json};

use super::decide::Said;
use super::exact::Wait;

pub(super) fn shadow_denied(said: &[Said], noted: &[String]) -> Vec<String> {
    let limits = said.iter().filter(|(limit, reading)| limit.shadow && !reading.admits);
    noted.iter().cloned().chain(limits.map(|(limit, _)| limit.name.clone())).collect()
}

pub(super) fn millis(wait: Wait) -> Value {
    wait.millis().map_or(Value::Null, number)
}

pub(super) fn number(value: i128) -> Value {
    json!(i64::try_from(value).expect("a number that is printed fits"))
}

pub(super) fn entries(said: &[Said]) -> Value {
    said.iter()
        .map(|(limit, reading)| {
            let mut entry = json!({
                "name": limit.name, "tier": limit.tier, "allowed": reading.admits,
                "limit": number(limit.quota.capacity), "remaining": number(reading.remaining),
                "reset_after_ms": millis(Wait::For(reading.reset)),
                "retry_after_ms": if reading.admits { json!(0) } else { millis(reading.wait) },
            });
            if let Some(id) = &limit.overridden {
                entry["override"] = json!(id);
            }
            if limit.shadow {
                entry["mode"] = json!("shadow");
            }
            entry
        })
        .collect()
}

/// An allowed decision, with the numbers of the tightest limit if there is one.
pub(super) fn admitted(reason: &str, speaking: Option<&Said>, shadow_denied: &[String]) -> Value {
    let (limit, remaining, reset) = described(speaking);
    json!({
        "allowed": true, "reason": reason, "limit": limit, "remaining": remaining, "reset_after_ms": reset,
        "retry_after": 0, "retry_after_ms": 0, "violated_rule": null, "violated_tier": null,
        "degraded": false, "shadow_denied": shadow_denied, "limits": [],
    })
}

/// A denial by limits.
pub(super) fn denied(reason: &str, worst: &Said, wait: Wait, said: &[Said], noted: &[String]) -> Value {
    let (limit, _) = worst;
    let mut decision = refused(reason, Some(&limit.name), Some(limit.tier), wait);
    let (limit, remaining, reset) = described(Some(worst));
    decision["limit"] = limit;
    decision["remaining"] = remaining;
    decision["reset_after_ms"] = reset;
    decision["shadow_denied"] = json!(shadow_denied(said, noted));
    decision["limits"] = entries(said);
    decision
}

/// A denial before any limit.
pub(super) fn refused(reason: &str, rule: Option<&str>, tier: Option<&str>, wait: Wait) -> Value {
    let (limit, remaining, reset) = described(None);
    json!({
        "allowed": false, "reason": reason, "limit": limit, "remaining": remaining, "reset_after_ms": reset,
        "retry_after": wait.seconds().map_or(Value::Null, |seconds| number(seconds.max(1))),
        "retry_after_ms": millis(wait), "violated_rule": rule, "violated_tier": tier,
        "degraded": false, "shadow_denied": [], "limits": [],
    })
}

/// `limit`, `remaining` and `reset_after_ms`.
pub(super) fn described(said: Option<&Said>) -> (Value, Value, Value) {
    match said {
        None => (json!(-1), json!(-1), Value::Null),
        Some((limit, reading)) => {
            (number(limit.quota.capacity), number(reading.remaining), millis(Wait::For(reading.reset)))
        }
    }
}
