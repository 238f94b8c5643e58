//! The events that a new policy leads to: which limits were added, changed or removed, and what is exempt now.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use tidegate::Nanos;
use tidegate_policy::{Condition, Descriptor, GateRule, Rule, RuleSet};

use super::describe::{cut, shown};
use super::event::{AuditEvent, EventName};
use crate::bounds::POLICY_CHANGES_MAX;

/// The events of replacing a policy by another, which has this version now.
pub(crate) fn policy_changes(
    before: &RuleSet,
    after: &RuleSet,
    version: u64,
    wall: Nanos,
) -> Vec<AuditEvent> {
    let (old, new) = (by_name(before), by_name(after));
    let names: BTreeSet<&str> = old.keys().chain(new.keys()).copied().collect();
    let updated = AuditEvent::new(EventName::RateLimitConfigUpdated, wall);
    let changed = names.into_iter().filter_map(|name| {
        let kind = match (old.get(name), new.get(name)) {
            (None, _) => "added",
            (_, None) => "removed",
            (Some(old), Some(new)) if !are_same(old, new) => "changed",
            _ => return None,
        };
        Some(AuditEvent { limit: Some(name.into()), kind: Some(kind), ..updated.clone() })
    });
    let mut events = bounded(changed, &updated);
    if events.is_empty() {
        events.push(updated);
    }
    events.extend(new_exemptions(before, after, wall));
    events.iter_mut().for_each(|event| event.policy_version = Some(version));
    events
}

/// An event for each entry of `allow` that the policy before does not have.
pub(crate) fn new_exemptions(before: &RuleSet, after: &RuleSet, wall: Nanos) -> Vec<AuditEvent> {
    // As texts, so that long lists are compared fast.
    let identity = |entry: &GateRule| format!("{:?} {:?}", entry.conditions, entry.until);
    let known: HashSet<String> = before.allow().entries().iter().map(identity).collect();
    let added = AuditEvent::new(EventName::RateLimitWhitelistAdded, wall);
    let new = after.allow().entries().iter().filter(|entry| !known.contains(&identity(entry)));
    bounded(new.map(|entry| exempt(entry, &added)), &added)
}

/// The first events; the others as one event that only counts them.
fn bounded(events: impl Iterator<Item = AuditEvent>, others: &AuditEvent) -> Vec<AuditEvent> {
    let mut events = events.fuse();
    let mut bounded: Vec<AuditEvent> = events.by_ref().take(POLICY_CHANGES_MAX).collect();
    let count = events.count() as u64;
    if count > 0 {
        bounded.push(AuditEvent { count, ..others.clone() });
    }
    bounded
}

/// The rules by name; limits of tenants may share one.
fn by_name(rules: &RuleSet) -> BTreeMap<&str, Vec<&Rule>> {
    let mut named: BTreeMap<&str, Vec<&Rule>> = BTreeMap::new();
    rules.rules().iter().for_each(|rule| named.entry(&rule.name).or_default().push(rule));
    named
}

fn are_same(old: &[&Rule], new: &[&Rule]) -> bool {
    old.len() == new.len() && old.iter().zip(new).all(|(old, new)| old.is_same_as(new))
}

/// The event of a new entry of `allow`.
fn exempt(entry: &GateRule, added: &AuditEvent) -> AuditEvent {
    let mut event = AuditEvent { kind: Some("allow"), ..added.clone() };
    let mut key = Vec::new();
    for condition in &entry.conditions {
        let Condition::Value(descriptor, values) = condition else {
            key.push(condition.to_string());
            continue;
        };
        let values: Vec<_> = values.iter().map(|value| shown(descriptor, (&**value).into())).collect();
        key.push(format!("{descriptor}: {}", values.join(", ")));
        if let [value] = &values[..] {
            match descriptor {
                Descriptor::User => event.user = Some(cut(value)),
                Descriptor::Client => event.client = Some(cut(value)),
                Descriptor::Tenant => event.tenant = Some(cut(value)),
                _ => {}
            }
        }
    }
    if let [Condition::Address(networks)] = &*entry.conditions
        && let [network] = &**networks
        && network.prefix_len() == network.max_prefix_len()
    {
        event.ip = Some(network.addr());
    }
    event.key = Some(cut(&key.join("; ")));
    event.reason = entry.reason.as_deref().map(cut);
    event
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(limits: &str, allow: &str) -> RuleSet {
        let text = format!("version: 1\nlimits: [{limits}]\nallow: [{allow}]\n");
        tidegate_policy::Policy::parse(&text).expect("a policy").into()
    }

    fn limit(name: &str, rate: u32) -> String {
        format!("{{ name: {name}, key: [user], sustained: {{ rate: {rate} }} }}")
    }

    #[test]
    fn each_edited_limit_is_told_and_no_other() {
        let before = rules(&[limit("a", 1), limit("b", 1), limit("c", 1)].join(", "), "");
        // The order and the place in the document do not matter.
        let after = rules(&[limit("d", 1), limit("c", 1), limit("b", 2)].join(",\n  "), "");
        let seen: Vec<_> = policy_changes(&before, &after, 7, Nanos::SECOND)
            .iter()
            .map(|event| {
                (event.name, event.limit.clone().unwrap(), event.kind.unwrap(), event.policy_version)
            })
            .collect();
        let told = |limit: &str, kind| (EventName::RateLimitConfigUpdated, limit.into(), kind, Some(7));
        assert_eq!(seen, [told("a", "removed"), told("b", "changed"), told("d", "added")]);
        let same = policy_changes(&before, &before, 8, Nanos::SECOND);
        assert_eq!(same.iter().map(|event| (&event.limit, event.count)).collect::<Vec<_>>(), [(&None, 1)]);
    }

    #[test]
    fn many_edits_are_bounded_and_all_are_counted() {
        let many: Vec<String> = (0..POLICY_CHANGES_MAX + 5).map(|n| limit(&format!("l{n}"), 1)).collect();
        let events = policy_changes(&rules("", ""), &rules(&many.join(", "), ""), 2, Nanos::SECOND);
        assert_eq!(events.len(), POLICY_CHANGES_MAX + 1);
        assert_eq!(events.last().map(|event| (event.limit.is_none(), event.count)), Some((true, 5)));
    }

    #[test]
    fn a_new_exemption_is_told_without_its_secret() {
        let old = "{ ip: 10.0.0.0/8, reason: internal }";
        let new = "{ \"header:x-api-key\": partner-key, user: \"42\", reason: partner }, { ip: 192.0.2.7 }";
        let events = policy_changes(&rules("", old), &rules("", &format!("{new}, {old}")), 2, Nanos::SECOND);
        let [_, partner, address] = &events[..] else { panic!("{events:?}") };
        assert_eq!(partner.name, EventName::RateLimitWhitelistAdded);
        assert_eq!((partner.user.as_deref(), partner.reason.as_deref()), (Some("42"), Some("partner")));
        let key = partner.key.as_deref().expect("it has conditions");
        assert!(key.contains("header:x-api-key: part…#") && !key.contains("partner-key"), "{key}");
        assert_eq!(address.ip, Some([192, 0, 2, 7].into()));
    }
}
