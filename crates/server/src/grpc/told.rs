//! What Envoy is told of a decision beside yes or no: headers and metadata.

use std::collections::BTreeMap;

use prost_types::value::Kind;
use prost_types::{ListValue, Struct, Value};
use tidegate::engine::Decision;
use tidegate::engine::render::problem_body;

use super::proto::envoy::config::core::v3::HeaderValue;

/// The one of several decisions that speaks for all: if any refuses, the refusal with the longest wait;
/// else the one with the smallest share remaining.
pub(super) fn speaker<'d>(decisions: impl Iterator<Item = &'d Decision>) -> Option<&'d Decision> {
    let mut speaker = None;
    for decision in decisions {
        if speaker.is_none_or(|held| speaks_before(decision, held)) {
            speaker = Some(decision);
        }
    }
    speaker
}

fn speaks_before(one: &Decision, other: &Decision) -> bool {
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

/// The headers for the client.
pub(super) fn response_headers(decision: &Decision) -> Vec<HeaderValue> {
    let mut headers = Vec::with_capacity(8);
    if !decision.is_allowed() {
        headers.push(header("content-type", problem_body::CONTENT_TYPE));
    }
    decision.headers(|name, value| headers.push(header(name, value)));
    headers
}

/// The mark of a degraded request, for the upstream.
pub(super) fn degraded(decision: &Decision) -> Option<HeaderValue> {
    let mut mark = None;
    decision.degraded_header(|name, value| mark = Some(header(name, value)));
    mark
}

pub(super) fn header(name: &str, value: &str) -> HeaderValue {
    HeaderValue { key: name.to_owned(), value: value.to_owned(), raw_value: Default::default() }
}

/// What filters and access logs may want to know; nothing where a request was admitted and no limit has
/// anything against it.
pub(super) fn metadata<'d>(
    speaker: &Decision,
    decisions: impl Iterator<Item = &'d Decision> + Clone,
) -> Option<Struct> {
    let shadow: Vec<Value> = decisions
        .clone()
        .flat_map(Decision::shadow_denied)
        .map(|name| Value { kind: Some(text(name)) })
        .collect();
    let mark = decisions.clone().find_map(Decision::degraded);
    if speaker.is_allowed() && mark.is_none() && shadow.is_empty() {
        return None;
    }
    let mut fields = BTreeMap::new();
    let mut put = |name: &str, kind: Kind| fields.insert(name.to_owned(), Value { kind: Some(kind) });
    put("reason", text(speaker.reason().as_str()));
    if !speaker.is_allowed() {
        put("violated_rule", speaker.violated_rule().map_or(NULL, text));
        put("violated_tier", speaker.violated_tier().map_or(NULL, |tier| text(tier.as_str())));
        // Numbers of a Struct are floats; a wait that is told is not decided by again.
        let wait = speaker.wait().map(|wait| Kind::NumberValue(wait.as_millis_ceil() as f64));
        put("retry_after_ms", wait.unwrap_or(NULL));
    }
    if let Some(mark) = mark {
        put("degraded", text(mark));
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
