//! The configuration of envoyproxy/ratelimit: a `domain` and a tree of `descriptors`.
//!
//! There, a descriptor of a request finds one node of the tree at most: the one at its own depth,
//! an exact value before a wildcard before no value. So the limits of a domain form one group here,
//! the deepest first, and at each level in that order.

mod node;

use super::decimal::{SustainedRate, Unit, UnitWindow};
use super::draft::{Draft, DraftLimit, fitting};
use super::item::{SourceFields, SourceValue};
use super::log::ImportLog;
use super::terms::{DraftCost, DraftTerms, pace};
use node::{DescriptorStep, Grant};

const PREFIX: &str = "descriptor:";

/// Reads one domain.
pub(super) fn read(root: &SourceValue<'_>, draft: &mut Draft, log: &mut ImportLog) {
    let Some(mut document) = SourceFields::open(root, log) else { return };
    let domain = document.need("domain", "the domain of the requests", log);
    let domain = domain.and_then(|domain| domain.text(log));
    let descriptors = document.need("descriptors", "a list of descriptors", log);
    document.finish(log);
    let (Some(domain), Some(descriptors)) = (domain, descriptors) else { return };

    let mut found = Vec::new();
    log.note_if_empty(&descriptors);
    node::read_siblings(&descriptors, &mut Vec::new(), &mut found, log);
    // Stable, so that each level keeps its order.
    found.sort_by_key(|found| std::cmp::Reverse(found.entries.len()));
    let group = (found.len() > 1).then(|| fitting(&domain));
    if group.is_some() {
        let what = "the limits of the domain form a group, the deepest first";
        let why = "one descriptor of a request finds one limit at most; a descriptor with entries that are not \
                   configured had none, and here meets the limit on those of its entries that are";
        log.note(&descriptors, what, why);
    }
    for found in &found {
        let item = &found.grant.item;
        let Some(terms) = log.attempt(item, |log| read_grant(&found.grant, log)) else { continue };
        let name = match &found.grant.name {
            Some((name, place)) => draft.claim(name, place, log),
            None => draft.claim_quietly(&name_of(&domain, &found.entries)),
        };
        let mut limit = DraftLimit::new(name, terms);
        limit.group.clone_from(&group);
        limit.shadow = found.shadow;
        limit.conditions.push(("domain".to_owned(), vec![domain.clone()]));
        if found.grant.unlimited {
            limit.comment = Some("Unlimited there: this is as much as a bucket can grant.".to_owned());
        }
        if limit.terms.cost != DraftCost::One {
            limit.comment = Some("0 requests there: what costs 2 never fits a limit of 1.".to_owned());
        }
        for entry in &found.entries {
            add_entry(&mut limit, entry, log);
        }
        if found.shadow && group.is_some() {
            let what = "a shadow limit does not end its group";
            let why = "where it applies, the next limit of the group is enforced as well";
            log.note_once(&found.grant.item, what, why);
        }
        draft.limits.push(limit);
    }
}

/// `edge/foo/bar:banned`
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

/// An exact value is a condition; any value, or one that a wildcard matches, is part of the key.
fn add_entry(limit: &mut DraftLimit, entry: &DescriptorStep<'_>, log: &mut ImportLog) {
    let descriptor = format!("{PREFIX}{}", entry.key);
    let twice =
        limit.key.contains(&descriptor) || limit.conditions.iter().any(|(name, _)| *name == descriptor);
    if twice {
        return disable(limit, entry, "an entry of a request has one value, so a key cannot come twice", log);
    }
    let is_wild = entry.is_wild();
    let any_value = entry.value.as_deref().is_none_or(|value| value == "*");
    if is_wild && !any_value && !add_path(limit, entry) {
        return disable(limit, entry, "a condition names whole values; only paths have patterns", log);
    }
    match &entry.value {
        Some(value) if !is_wild => limit.conditions.push((descriptor, vec![value.clone()])),
        // What the wildcard matches shares one bucket, and the condition says what it matches.
        Some(_) if entry.shared && !any_value => {}
        Some(_) if entry.shared => {
            disable(limit, entry, "a bucket that all values share has no counterpart", log);
        }
        _ => limit.key.push(descriptor),
    }
}

/// The entry `path` is also the request's path, and a prefix that ends in a slash is a pattern.
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
    limit.comment = Some(format!("Disabled: the entry `{}` of `{value}` cannot be said here.", entry.key));
    let what = format!("the value `{value}` is left out");
    log.note(&entry.item, what, format!("{why}; the limit comes disabled"));
}

/// A counter per window, as it is there.
fn read_grant(grant: &Grant<'_>, log: &mut ImportLog) -> Option<DraftTerms> {
    if grant.unlimited {
        let pace = SustainedRate { rate: 1_000_000_000, window: UnitWindow::SECOND };
        let why =
            "in a group it must stand before what is less specific, so it is a limit, and a very large one";
        log.note(&grant.item, "`unlimited` becomes the largest bucket there is", why);
        return Some(DraftTerms::bucket(pace, Some(u32::MAX)));
    }
    let (Some((requests, place)), Some((unit, unit_place))) = (&grant.requests, &grant.unit) else {
        let want = "`unit` and `requests_per_unit`, or `unlimited`";
        log.problem(&grant.item, "this limit says nothing", want);
        return None;
    };
    let Some(window) = window(unit, unit_place, log) else {
        let want = "second, minute, hour, day, week, month or year";
        log.problem(unit_place, "this unit is not known", want);
        return None;
    };
    let count = window.count.saturating_mul(grant.multiplier);
    let pace = pace((*requests).max(1).into(), UnitWindow { count, ..window }, place, log)?;
    let mut terms = DraftTerms::counter(pace, place, log);
    if *requests == 0 {
        terms.cost = DraftCost::Fixed(2);
        log.note(place, "0 requests become a limit of 1 that a request costs 2 of", "a limit cannot be 0");
    }
    terms.checked(place, log)
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
    log.note(item, format!("`{unit}` becomes {days} days"), "a window is a fixed number of days");
    Some(UnitWindow { count: days, unit: Unit::Day })
}

#[cfg(test)]
mod tests;
