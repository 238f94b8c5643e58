//! Explanations for readers who may not see secrets, or not the whole policy.

use std::collections::HashMap;

use serde_json::Value;
use tidegate_document::DocumentNode;

use super::collection::Collection;
use super::subtree::Sight;

/// Hides the values of conditions wherever an explanation shows conditions.
pub(super) fn hide(json: &mut Value, hidden: &HashMap<String, String>) {
    for limit in json["limits"].as_array_mut().into_iter().flatten() {
        let conditions = ["match", "unless"].map(|member| limit[member].take());
        let texts = conditions.iter().filter_map(Value::as_array).flatten().filter_map(Value::as_str);
        if let Value::String(why_not) = &mut limit["why_not"] {
            for (whole, shown) in texts.filter_map(|text| hidden.get_key_value(text)) {
                *why_not = why_not.replace(whole, shown);
            }
        }
        let [matched, unless] = conditions;
        limit["match"] = shown(matched, hidden);
        limit["unless"] = shown(unless, hidden);
    }
    if json["gate"].is_object() {
        let conditions = json["gate"]["match"].take();
        json["gate"]["match"] = shown(conditions, hidden);
    }
}

/// A list of conditions without the values that are hidden.
fn shown(conditions: Value, hidden: &HashMap<String, String>) -> Value {
    let Value::Array(conditions) = conditions else { return conditions };
    let shown = |condition: Value| match condition.as_str().and_then(|text| hidden.get(text)) {
        Some(shown) => shown.as_str().into(),
        None => condition,
    };
    conditions.into_iter().map(shown).collect()
}

/// Hides what a restricted caller does not see of the policy in force: limits that do not apply, and how those that do
/// are written. What applies to its requests is told with its name and numbers. Users and burst detectors are not of one
/// tenant, so what is known about a user and what detectors do are not told at all.
pub(super) fn hide_unseen(json: &mut Value, sight: &Sight, root: &DocumentNode) {
    let entries = |collection: Collection| {
        let entries = root.get(collection.as_str()).map(DocumentNode::items).unwrap_or_default();
        entries.iter().map(move |entry| (entry, sight.sees(collection, entry)))
    };
    remove(json, &["trust", "bursts"]);
    for list in ["limits", "tenants"] {
        for entry in json[list].as_array_mut().into_iter().flatten() {
            // It is the score of the user.
            entry.get_mut("bucket").into_iter().for_each(|bucket| remove(bucket, &["trust_hundredths"]));
        }
    }
    if let Some(limits) = json["limits"].as_array_mut() {
        limits.retain(|limit| limit["applies"] == true);
        for limit in limits {
            let is_it = |entry: &DocumentNode| {
                entry.get("name").and_then(DocumentNode::scalar) == limit["name"].as_str()
            };
            if !entries(Collection::Limits).any(|(entry, is_seen)| is_seen && is_it(entry)) {
                remove(limit, &["match", "unless", "line", "group"]);
            }
        }
    }
    let gate = &mut json["gate"];
    let list = [Collection::Allow, Collection::Block].into_iter().find(|list| gate["list"] == list.as_str());
    if let Some(list) = list {
        let mut here = entries(list).filter(|(entry, _)| gate["line"] == entry.at.line).peekable();
        let is_seen = here.peek().is_some() && here.all(|(_, is_seen)| is_seen);
        if !is_seen {
            remove(gate, &["match", "line", "reason"]);
        }
    }
}

/// Hides who has overridden a limit, why and until when, where the caller does not see the override. That there is one, and
/// what it is in place of, is part of the numbers.
pub(super) fn hide_overrides(json: &mut Value, is_seen: impl Fn(&str) -> bool) {
    for list in ["limits", "tenants"] {
        for entry in json[list].as_array_mut().into_iter().flatten() {
            let Some(overridden) = entry.pointer_mut("/bucket/override") else { continue };
            if !overridden["id"].as_str().is_some_and(&is_seen) {
                remove(overridden, &["id", "reason", "until"]);
            }
        }
    }
}

fn remove(json: &mut Value, members: &[&str]) {
    if let Some(object) = json.as_object_mut() {
        members.iter().for_each(|member| drop(object.remove(*member)));
    }
}
