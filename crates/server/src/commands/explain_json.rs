//! The output of `tidegate explain` as JSON.

use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};
use tidegate::engine::{ExplainedBucket, ExplainedDetector, ExplainedLimit, ExplainedTenant, Explanation};

use super::bucket_output::{bucket_json, parts_json};
use super::explain_output::is_by_limits;
use super::tenant_output;
use crate::identity::known_members::KnownMembers;
use crate::wire::trust_report;

/// The explanation as JSON.
pub(super) fn json(explanation: &Explanation, identity: Option<&KnownMembers>) -> String {
    let decision = RawValue::from_string(explanation.decision.to_json()).expect("a decision is JSON");
    let document = document(explanation, decision, identity);
    let mut text = serde_json::to_string_pretty(&document).expect("it is plain JSON");
    text.push('\n');
    text
}

/// The explanation as a JSON value, without the decision and without who is asking.
pub(crate) fn value(explanation: &Explanation) -> Value {
    // Without `..`, so that a new member cannot be missing here.
    let ExplanationJson {
        decision: (),
        request,
        gate,
        bursts,
        limits,
        tenants,
        contended,
        unknown_tenant,
        identity: _,
        trust,
    } = document(explanation, (), None);
    let mut members = Map::new();
    let mut member = |name: &str, value: Value| drop(members.insert(name.to_owned(), value));
    member("request", request);
    member("gate", gate.into());
    member("bursts", bursts.into());
    member("limits", limits.into());
    member("tenants", tenants.into());
    member("contended", contended.into());
    member("unknown_tenant", unknown_tenant.into());
    trust.into_iter().for_each(|trust| member("trust", trust));
    members.into()
}

fn document<'e, D>(
    explanation: &'e Explanation,
    decision: D,
    identity: Option<&'e KnownMembers>,
) -> ExplanationJson<'e, D> {
    let is_charged = explanation.decision.is_allowed() && is_by_limits(&explanation.decision);
    let bucket_json = |bucket: &ExplainedBucket| bucket_json(bucket, is_charged);
    let limit = |limit: &ExplainedLimit| {
        json!({
            "name": limit.name,
            "tier": limit.tier.as_str(),
            "line": limit.line,
            "applies": limit.why_not.is_none(),
            "why_not": limit.why_not,
            "match": limit.conditions,
            "unless": limit.unless,
            "group": limit.group,
            "bucket": limit.bucket.as_ref().map(&bucket_json),
        })
    };
    let tenant =
        |tenant: &ExplainedTenant| tenant_output::json(tenant, tenant.bucket.as_ref().map(&bucket_json));
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
        decision,
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
        limits: explanation.limits.iter().map(limit).collect(),
        tenants: explanation.tenants.iter().map(tenant).collect(),
        contended: explanation.contended.as_deref(),
        unknown_tenant: explanation.unknown_tenant.as_deref(),
        identity,
        trust: explanation.trust.as_ref().map(|report| json!(trust_report(report))),
    }
}

/// The JSON document. A struct keeps the order of the members, and `RawValue` the exact text of the decision.
#[derive(Serialize)]
struct ExplanationJson<'a, D> {
    decision: D,
    request: Value,
    gate: Option<Value>,
    bursts: Vec<Value>,
    limits: Vec<Value>,
    tenants: Vec<Value>,
    contended: Option<&'a str>,
    unknown_tenant: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    identity: Option<&'a KnownMembers>,
    #[serde(skip_serializing_if = "Option::is_none")]
    trust: Option<Value>,
}
