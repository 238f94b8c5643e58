//! Renders decisions for Envoy: headers and dynamic metadata.

use std::collections::BTreeMap;

use prost_types::value::Kind;
use prost_types::{ListValue, Struct, Value};
use tidegate::engine::Decision;
use tidegate::engine::render::problem_body;

use super::proto::envoy::config::core::v3::HeaderValue;

/// The most restrictive of several decisions, which is reported for all of them: if any refuses, the refusal with the
/// longest wait; otherwise the one with the smallest part of its capacity remaining.
pub(super) fn most_restrictive<'d>(decisions: impl Iterator<Item = &'d Decision>) -> Option<&'d Decision> {
    let mut found = None;
    for decision in decisions {
        if found.is_none_or(|found| is_more_restrictive(decision, found)) {
            found = Some(decision);
        }
    }
    found
}

fn is_more_restrictive(one: &Decision, other: &Decision) -> bool {
    match (one.is_allowed(), other.is_allowed()) {
        (true, false) => false,
        (false, true) => true,
        (false, false) => match (one.wait(), other.wait()) {
            (_, None) => false,
            (None, Some(_)) => true,
            (Some(one), Some(other)) => one > other,
        },
        (true, true) => match (one.tightest(), other.tightest()) {
            (Some(one), Some(other)) => one.decision.has_less_left_than(other.decision),
            (one, other) => one.is_some() && other.is_none(),
        },
    }
}

/// The response headers for the client.
pub(super) fn response_headers(decision: &Decision) -> Vec<HeaderValue> {
    let mut headers = Vec::with_capacity(8);
    if !decision.is_allowed() {
        headers.push(header("content-type", problem_body::CONTENT_TYPE));
    }
    decision.headers(|name, value| headers.push(header(name, value)));
    headers
}

/// The request header that marks a degraded request for the upstream.
pub(super) fn degraded_header(decision: &Decision) -> Option<HeaderValue> {
    let mut mark = None;
    decision.degraded_header(|name, value| mark = Some(header(name, value)));
    mark
}

pub(super) fn header(name: &str, value: &str) -> HeaderValue {
    HeaderValue { key: name.to_owned(), value: value.to_owned(), raw_value: Default::default() }
}

/// Dynamic metadata for filters and access logs. `None` for a request that was admitted, is not degraded, was not denied
/// by a shadow limit, and about which burst detectors say nothing.
pub(super) fn metadata<'d>(
    reported: &Decision,
    decisions: impl Iterator<Item = &'d Decision> + Clone,
) -> Option<Struct> {
    let shadow: Vec<Value> = decisions
        .clone()
        .flat_map(Decision::shadow_denied)
        .map(|name| Value { kind: Some(text(name)) })
        .collect();
    let mark = decisions.clone().find_map(Decision::degraded);
    let burst = decisions.clone().filter_map(Decision::burst).map(|(state, _)| state).max();
    if reported.is_allowed() && mark.is_none() && shadow.is_empty() && burst.is_none() {
        return None;
    }
    let mut fields = BTreeMap::new();
    let mut put = |name: &str, kind: Kind| fields.insert(name.to_owned(), Value { kind: Some(kind) });
    put("reason", text(reported.reason().as_str()));
    if !reported.is_allowed() {
        put("violated_rule", reported.violated_rule().map_or(NULL, text));
        put("violated_tier", reported.violated_tier().map_or(NULL, |tier| text(tier.as_str())));
        // Numbers of a `Struct` are floats. That is fine here: no decision is made from a reported wait.
        let wait = reported.wait().map(|wait| Kind::NumberValue(wait.as_millis_ceil() as f64));
        put("retry_after_ms", wait.unwrap_or(NULL));
    }
    if let Some(mark) = mark {
        put("degraded", text(mark));
    }
    if let Some(burst) = burst {
        put("burst", text(burst.as_str()));
    }
    if !shadow.is_empty() {
        put("shadow_denied", Kind::ListValue(ListValue { values: shadow }));
    }
    Some(Struct { fields })
}

const NULL: Kind = Kind::NullValue(0);

fn text(text: &str) -> Kind {
    Kind::StringValue(text.to_owned())
}
