//! Compiles `limits`.

use std::collections::HashMap;

use super::{Compiler, overlap, terms};
use crate::Descriptor;
use crate::document::LimitEntry;
use crate::rules::{Group, Rule, TagRule, Tier};

impl Compiler<'_> {
    pub(super) fn limits(&mut self, entries: &[LimitEntry]) -> Vec<Rule> {
        let groups = group_numbers(entries);
        let rules: Vec<Rule> = entries.iter().filter_map(|entry| self.limit(entry, &groups)).collect();
        self.check_hidden(entries, &rules);
        rules
    }

    fn limit(&mut self, entry: &LimitEntry, groups: &HashMap<&str, u32>) -> Option<Rule> {
        let terms = &entry.terms;
        let numbers = self.numbers(&entry.path, terms)?;
        let limit = numbers.limit(terms::algorithm(terms)).ok()?;
        let written = entry.key.as_deref().unwrap_or_default();
        let key: Box<[Descriptor]> = written.iter().map(|descriptor| descriptor.value.clone()).collect();
        let adaptive = self.trust && key.iter().any(names_a_caller);
        if adaptive {
            let at = terms.sustained.as_ref().map_or(entry.at, |sustained| sustained.at);
            self.check_trust(at, &format!("{}.sustained", entry.path), &limit, numbers);
        }
        let group = entry.group.as_ref().and_then(|group| {
            let number = *groups.get(group.value.as_str())?;
            Some(Group { name: group.value.as_str().into(), number })
        });
        let tag = if key.contains(&Descriptor::Tenant) { TagRule::Tenant } else { TagRule::Own };
        let rule = Rule {
            ceiling: None,
            name: entry.name.value.as_str().into(),
            state: None,
            at: entry.at,
            tier: Tier::of(&key),
            enabled: entry.enabled,
            group,
            conditions: self.conditions(&entry.conditions),
            unless: self.conditions(&entry.unless),
            key,
            missing: entry.missing.map(|missing| missing.value).unwrap_or_default(),
            limit,
            numbers,
            carry: terms.carry,
            cost: terms::cost(terms.cost.as_ref()),
            strategy: terms::strategy(&terms.strategy),
            mode: self.mode(terms.mode),
            headers: self.families(terms.headers.as_ref(), terms.response_headers),
            retry_jitter: terms.retry_jitter.or(self.defaults.retry_jitter).unwrap_or_default(),
            on_store_error: terms.on_store_error.or(self.defaults.on_store_error).unwrap_or_default(),
            sets_on_store_error: terms.on_store_error.or(self.defaults.on_store_error).is_some(),
            adaptive,
            tag,
        };
        self.check_own_cost(entry, &rule);
        Some(rule)
    }

    /// Warns of limits that never apply because an earlier one of their group always matches first.
    fn check_hidden(&mut self, entries: &[LimitEntry], rules: &[Rule]) {
        let by_name: HashMap<&str, &LimitEntry> =
            entries.iter().map(|entry| (entry.name.value.as_str(), entry)).collect();
        for (hidden, by) in overlap::hidden(rules) {
            let Some(entry) = by_name.get(&*hidden.name) else { continue };
            let message =
                format!("never applies: `{}` on line {} comes first in its group", by.name, by.at.line);
            let problem = crate::Problem::warning(entry.at, entry.path.as_str(), message);
            let hint = "move it above that one, give it another group, or remove it";
            self.report(problem.saw(format!("`{}`", hidden.name)).hint(hint));
        }
    }
}

/// Trust belongs to a caller, so it scales only limits whose key names one.
fn names_a_caller(descriptor: &Descriptor) -> bool {
    matches!(descriptor, Descriptor::User | Descriptor::Client | Descriptor::Ip | Descriptor::Header(_))
}

/// Gives each group a number.
fn group_numbers(entries: &[LimitEntry]) -> HashMap<&str, u32> {
    let mut numbers = HashMap::new();
    for group in entries.iter().filter_map(|entry| entry.group.as_ref()) {
        let next = numbers.len() as u32;
        numbers.entry(group.value.as_str()).or_insert(next);
    }
    numbers
}
