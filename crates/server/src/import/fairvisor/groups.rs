//! Which rules of a list form a group.

use std::collections::BTreeMap;

use crate::import::draft::Conditions;
use crate::import::log::ImportLog;

use super::Rule;

/// Rules of which the first that matches applies.
#[derive(Debug, Default)]
pub(super) struct RuleGroup {
    /// Given to those of several rules.
    pub(super) name: Option<String>,
    /// Their places in the list.
    pub(super) members: Vec<usize>,
}

/// The rules, each in one group: with those before it that count alike, unless one of them leaves
/// nothing to it.
pub(super) fn of(rules: &[Rule<'_>], log: &mut ImportLog) -> Vec<RuleGroup> {
    let mut groups: Vec<RuleGroup> = Vec::new();
    // The group of each key that was started last: only that one still grows.
    let mut open: BTreeMap<&[String], usize> = BTreeMap::new();
    for (index, rule) in rules.iter().enumerate() {
        let current = open.get(&rule.keys[..]).copied();
        let mut earlier = current.iter().flat_map(|&at| groups[at].members.iter().map(|&at| &rules[at]));
        let hiding = earlier.find(|earlier| covers(&earlier.conditions, &rule.conditions));
        if let Some(hiding) = hiding {
            let what = format!("`{}` is not in the group of `{}`", rule.name, hiding.name);
            log.note(&rule.item, what, "it would never be reached there: both apply, as they did");
        }
        match current.filter(|_| hiding.is_none()) {
            Some(at) => {
                let what = "rules with the same limit_keys form a group";
                let why = "the first that matches applies, so that a general rule does not cap those with a rule of \
                           their own";
                log.note_once(&rules[groups[at].members[0]].item, what, why);
                groups[at].members.push(index);
            }
            None => {
                open.insert(&rule.keys, groups.len());
                groups.push(RuleGroup { name: None, members: vec![index] });
            }
        }
    }
    groups
}

/// Does the first match whatever the second matches?
fn covers(first: &Conditions, second: &Conditions) -> bool {
    first.iter().all(|(name, values)| {
        let same = second.iter().find(|(other, _)| other == name);
        same.is_some_and(|(_, narrower)| narrower.iter().all(|value| values.contains(value)))
    })
}
