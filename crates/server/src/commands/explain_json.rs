//! The output of `tidegate explain` as JSON.

use std::io::Write;

use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Value, json};
use tidegate::engine::{ExplainedDetector, ExplainedLimit, ExplainedTenant, Explanation};

use super::bucket_output::{BucketJson, bucket_json, parts_json};
use super::explain_output::is_by_limits;
use super::tenant_output;
use crate::identity::known_members::KnownMembers;
use crate::wire::trust_report;

/// The explanation as JSON.
pub(super) fn json(explanation: &Explanation, identity: Option<&KnownMembers>) -> String {
    let document = ExplanationJson { identity, ..whole(explanation) };
    let mut text = serde_json::to_string_pretty(&document).expect("it is plain JSON");
    text.push('\n');
    text
}

/// The explanation as a JSON value, without the decision and without who is asking.
pub(crate) fn value(explanation: &Explanation) -> Value {
    serde_json::to_value(document(explanation)).expect("it is plain JSON")
}

/// The same as text, which takes less time.
pub(crate) fn text(explanation: &Explanation) -> Box<RawValue> {
    to_raw_value(&document(explanation)).expect("it is plain JSON")
}

/// Writes the explanation with the decision, without who is asking.
///
/// # Errors
/// When that cannot be written.
pub(crate) fn write(explanation: &Explanation, out: impl Write) -> serde_json::Result<()> {
    serde_json::to_writer(out, &whole(explanation))
}

/// With the decision.
fn whole(explanation: &Explanation) -> ExplanationJson<'_> {
    let decision = RawValue::from_string(explanation.decision.to_json()).expect("a decision is JSON");
    ExplanationJson { decision: Some(decision), ..document(explanation) }
}

fn document(explanation: &Explanation) -> ExplanationJson<'_> {
    let is_charged = explanation.decision.is_allowed() && is_by_limits(&explanation.decision);
    let tenant = |tenant: &ExplainedTenant| {
        tenant_output::json(
            tenant,
            tenant.bucket.as_ref().map(|bucket| json!(bucket_json(bucket, is_charged))),
        )
    };
    let detector = |detector: &ExplainedDetector| {
        json!({
            "name": detector.name,
            "threshold": detector.threshold,
            "window_ms": detector.window.as_millis_ceil(),
            "penalty_ms": detector.penalty.as_millis_ceil(),
            "key": parts_json(&detector.key),
            "missing": detector.missing,
            "blocked_for_ms": detector.blocked_for.map(|left| left.as_millis_ceil()),
        })
    };
    let gate = explanation.gate.as_ref().map(|gate| {
        let mut shown = json!({ "list": gate.list, "match": gate.conditions, "reason": gate.reason });
        match gate.line {
            Some(line) => shown["line"] = line.into(),
            // The kill switch is no entry of a list.
            None if gate.is_kill_switch() => {}
            None => shown["live"] = true.into(),
        }
        shown
    });
    ExplanationJson {
        decision: None,
        request: json!({
            "path": explanation.path,
            "route": explanation.route.as_ref().map(|(route, _)| route),
            "route_cost": explanation.route.as_ref().and_then(|(_, cost)| *cost),
            "upstream": explanation.upstream,
            "cost": explanation.cost,
            "priority": explanation.priority,
        }),
        gate,
        bursts: explanation.detectors.iter().map(detector).collect(),
        limits: explanation.limits.iter().map(|limit| LimitJson::of(limit, is_charged)).collect(),
        tenants: explanation.tenants.iter().map(tenant).collect(),
        contended: explanation.contended.as_deref(),
        unknown_tenant: explanation.unknown_tenant.as_deref(),
        identity: None,
        trust: explanation.trust.as_ref().map(|report| json!(trust_report(report))),
    }
}

/// The JSON document. A struct keeps the order of the members, and `RawValue` the exact text of the decision.
#[derive(Serialize)]
struct ExplanationJson<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    decision: Option<Box<RawValue>>,
    request: Value,
    gate: Option<Value>,
    bursts: Vec<Value>,
    limits: Vec<LimitJson<'a>>,
    tenants: Vec<Value>,
    contended: Option<&'a str>,
    unknown_tenant: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    identity: Option<&'a KnownMembers>,
    #[serde(skip_serializing_if = "Option::is_none")]
    trust: Option<Value>,
}

/// A limit. The members are in the order of their names, as in a JSON value.
#[derive(Serialize)]
struct LimitJson<'a> {
    applies: bool,
    bucket: Option<BucketJson<'a>>,
    group: Option<&'a str>,
    line: u32,
    #[serde(rename = "match")]
    conditions: &'a [String],
    name: &'a str,
    tier: &'static str,
    unless: &'a [String],
    why_not: Option<&'a str>,
}

impl<'a> LimitJson<'a> {
    fn of(limit: &'a ExplainedLimit, is_charged: bool) -> LimitJson<'a> {
        LimitJson {
            applies: limit.why_not.is_none(),
            bucket: limit.bucket.as_ref().map(|bucket| bucket_json(bucket, is_charged)),
            group: limit.group.as_deref(),
            line: limit.line,
            conditions: &limit.conditions,
            name: &limit.name,
            tier: limit.tier.as_str(),
            unless: &limit.unless,
            why_not: limit.why_not.as_deref(),
        }
    }
}
