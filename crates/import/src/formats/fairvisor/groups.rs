//! Finds the rules of a list that form a group.

use std::collections::BTreeMap;

use crate::draft::Conditions;
use crate::log::ImportLog;

use super::Rule;

/// Rules of which only the first matching one applies.
#[derive(Debug, Default)]
pub(crate) struct RuleGroup {
    /// `None` if the group needs no name because it has only one rule.
    pub(crate) name: Option<String>,
    /// Their indices in the list.
    pub(crate) members: Vec<usize>,
}

/// Puts each rule into one group: that of the earlier rules with the same keys, unless one of those matches everything
/// that the rule matches.
pub(crate) fn of(rules: &[Rule<'_>], log: &mut ImportLog) -> Vec<RuleGroup> {
    let mut groups: Vec<RuleGroup> = Vec::new();
    // For each key the latest group, to which rules are still added.
    let mut open: BTreeMap<&[String], usize> = BTreeMap::new();
    for (index, rule) in rules.iter().enumerate() {
        let current = open.get(&rule.keys[..]).copied();
        let mut earlier = current.iter().flat_map(|&at| groups[at].members.iter().map(|&at| &rules[at]));
        let hiding = earlier.find(|earlier| covers(&earlier.conditions, &rule.conditions));
        if let Some(hiding) = hiding {
            let what = format!("`{}` is not in the group of `{}`", rule.name, hiding.name);
            log.note(&rule.item, what, "the other rule would always match first; so both apply, as before");
        }
        match current.filter(|_| hiding.is_none()) {
            Some(at) => {
                let what = "rules with the same limit_keys form a group";
                let why = "only the first matching rule applies, so that a general rule does not limit callers that \
                           have a rule of their own";
                if let [first] = groups[at].members[..] {
                    log.note_once(&rules[first].item, what, why);
                }
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

/// Does the first match everything that the second matches?
fn covers(first: &Conditions, second: &Conditions) -> bool {
    first.iter().all(|(name, values)| {
        let same = second.iter().find(|(other, _)| other == name);
        same.is_some_and(|(_, narrower)| narrower.iter().all(|value| values.contains(value)))
    })
}
