//! The configuration of envoyproxy/ratelimit: a `domain` and a tree of `descriptors`.
//!
//! In the source, a descriptor of a request matches at most one node of the tree, at the descriptor's own depth: an
//! exact value wins over a wildcard, and a wildcard over a node without a value. So the limits of a domain become one
//! group, the deepest first, and on each level in that order.

mod tree;

use crate::draft::{Draft, DraftLimit, to_name};
use crate::log::ImportLog;
use crate::source::{SourceFields, SourceValue};
use crate::terms::{DraftCost, DraftTerms, SustainedRate, Unit, UnitWindow, pace};
use tree::{DescriptorStep, EnvoyRateLimit};

const PREFIX: &str = "descriptor:";

/// Reads one domain.
pub(crate) fn read(root: &SourceValue<'_>, draft: &mut Draft, log: &mut ImportLog) {
    let Some(mut document) = SourceFields::open(root, log) else { return };
    let domain = document.need("domain", "the domain of the requests", log);
    let domain = domain.and_then(|domain| Some((domain.text(log)?, domain)));
    let descriptors = document.need("descriptors", "a list of descriptors", log);
    document.finish(log);
    let (Some((domain, origin)), Some(descriptors)) = (domain, descriptors) else { return };

    let mut found = Vec::new();
    log.note_if_empty(&descriptors);
    tree::read_siblings(&descriptors, &mut Vec::new(), &mut found, log);
    if found.is_empty() {
        log.note(&origin, "`domain` is left out", "it has no limits");
    }
    // The sort is stable, so each level keeps its order.
    found.sort_by_key(|found| std::cmp::Reverse(found.entries.len()));
    let group = (found.len() > 1).then(|| to_name(&domain));
    if group.is_some() {
        let what = "the limits of the domain form a group, the deepest descriptors first";
        let why = "as in the source, at most one limit applies to a descriptor; but one with entries that are not \
                   configured had no limit there, and has the limit of its other entries here";
        log.note(&descriptors, what, why);
    }
    for found in &found {
        let item = &found.rate_limit.item;
        let Some(terms) = log.attempt(item, |log| read_terms(&found.rate_limit, log)) else { continue };
        let name = match &found.rate_limit.name {
            Some((name, origin)) => draft.claim(name, origin, log),
            None => draft.claim_without_note(&name_of(&domain, &found.entries)),
        };
        let mut limit = DraftLimit::new(name, terms);
        limit.group.clone_from(&group);
        limit.shadow = found.shadow;
        limit.conditions.push(("domain".to_owned(), vec![domain.clone()]));
        if found.rate_limit.unlimited {
            limit.remark("Unlimited in the source: this is the largest possible bucket.");
        }
        if limit.terms.cost != DraftCost::One {
            limit.remark("0 requests in the source: a request costs 2, which a limit of 1 never admits.");
        }
        for entry in &found.entries {
            add_entry(&mut limit, entry, log);
        }
        if found.shadow && group.is_some() {
            let what = "a shadow limit does not replace the next one of its group";
            let why = "where it matches, the next matching limit of the group is enforced as well";
            log.note_once(&found.rate_limit.item, what, why);
        }
        draft.limits.push(limit);
    }
}

/// A name for the limit of these entries: `edge/foo/bar:banned`.
fn name_of(domain: &str, entries: &[DescriptorStep<'_>]) -> String {
    let mut name = domain.to_owned();
    for entry in entries {
        name.push('/');
        name.push_str(&entry.key);
        if let Some(value) = &entry.value {
            name.push(':');
            name.push_str(value);
        }
    }
    name
}

/// Adds an entry: an exact value becomes a condition, any other entry a part of the key.
fn add_entry(limit: &mut DraftLimit, entry: &DescriptorStep<'_>, log: &mut ImportLog) {
    let descriptor = format!("{PREFIX}{}", entry.key);
    let twice =
        limit.key.contains(&descriptor) || limit.conditions.iter().any(|(name, _)| *name == descriptor);
    if twice {
        return disable(
            limit,
            entry,
            "a request has one value for each key, so a key cannot appear twice",
            log,
        );
    }
    let has_wildcard = entry.has_wildcard();
    let any_value = entry.value.as_deref().is_none_or(|value| value == "*");
    if has_wildcard && !any_value && !add_path(limit, entry) {
        return disable(limit, entry, "conditions match whole values; only paths support patterns", log);
    }
    match &entry.value {
        Some(value) if !has_wildcard => limit.conditions.push((descriptor, vec![value.clone()])),
        // All values that the wildcard matches share one bucket; the path condition selects them.
        Some(_) if entry.shared && !any_value => {}
        Some(_) if entry.shared => {
            disable(limit, entry, "a policy cannot let all values share one bucket", log);
        }
        _ => limit.key.push(descriptor),
    }
}

/// Adds a path condition for the entry `path` with a prefix such as `/api/*`; `false` for any other wildcard.
fn add_path(limit: &mut DraftLimit, entry: &DescriptorStep<'_>) -> bool {
    let Some(prefix) = entry.value.as_deref().and_then(|value| value.strip_suffix("/*")) else {
        return false;
    };
    let fits = entry.key == "path" && !prefix.contains('*') && (prefix.is_empty() || prefix.starts_with('/'));
    if fits {
        limit.conditions.push(("path".to_owned(), vec![format!("{prefix}/**")]));
    }
    fits
}

fn disable(limit: &mut DraftLimit, entry: &DescriptorStep<'_>, why: &str, log: &mut ImportLog) {
    limit.enabled = false;
    let value = entry.value.as_deref().unwrap_or("any value").replace(['\n', '\r'], " ");
    limit.remark(&format!("Disabled: a policy cannot express the value `{value}` of `{}`.", entry.key));
    let shared = if entry.shared { ", for which all values share one bucket," } else { "" };
    let what = format!("the value `{value}` of `{}`{shared} is left out", entry.key);
    log.note(&entry.item, what, format!("{why}; the limit is disabled"));
}

/// The terms of a `rate_limit`: a fixed window, as in the source.
fn read_terms(rate_limit: &EnvoyRateLimit<'_>, log: &mut ImportLog) -> Option<DraftTerms> {
    if rate_limit.unlimited {
        let pace = SustainedRate { rate: 1_000_000_000, window: UnitWindow::SECOND };
        let why = "without a limit here, a less specific limit of the group would apply";
        log.note(&rate_limit.item, "`unlimited` becomes the largest possible bucket", why);
        return Some(DraftTerms::bucket(pace, Some(u32::MAX)));
    }
    let (Some((requests, origin)), Some((unit, unit_origin))) = (&rate_limit.requests, &rate_limit.unit)
    else {
        let want = "`unit` and `requests_per_unit`, or `unlimited`";
        log.problem(&rate_limit.item, "this limit has no rate", want);
        return None;
    };
    let Some(window) = window(unit, unit_origin, log) else {
        let want = "second, minute, hour, day, week, month or year";
        log.problem(unit_origin, "this unit is not known", want);
        return None;
    };
    let count = window.count.saturating_mul(rate_limit.multiplier);
    let pace = pace((*requests).max(1).into(), UnitWindow { count, ..window }, origin, log)?;
    let mut terms = DraftTerms::counter(pace, origin, log);
    if *requests == 0 {
        terms.cost = DraftCost::PerCall(2);
        log.note(
            origin,
            "0 requests become a limit of 1 with a cost of 2",
            "a limit cannot be 0, and a cost above the limit is never admitted",
        );
    }
    terms.checked(origin, log)
}

fn window(unit: &str, item: &SourceValue<'_>, log: &mut ImportLog) -> Option<UnitWindow> {
    if let Some(unit) = Unit::from_word(unit) {
        return Some(UnitWindow { count: 1, unit });
    }
    let days = match unit.to_ascii_lowercase().as_str() {
        "week" => 7,
        "month" => 30,
        "year" => 365,
        _ => return None,
    };
    log.note(item, format!("`{unit}` becomes {days} days"), "a window has a fixed number of days");
    Some(UnitWindow { count: days, unit: Unit::Day })
}

#[cfg(test)]
mod tests;
