//! Finds limits that never apply because an earlier limit of their group always matches first.

use std::collections::HashMap;

use crate::Condition;
use crate::document::Missing;
use crate::rules::Rule;

/// How many limits of a group are compared with each other: the number of comparisons grows with its square.
pub(super) const COMPARED_MAX: usize = 1_000;

/// How many comparisons of values are made in total.
const COMPARISONS_MAX: usize = 5_000_000;

/// Each rule that never applies, with the one that always matches first.
pub(super) fn hidden(rules: &[Rule]) -> Vec<(&Rule, &Rule)> {
    let mut groups: HashMap<u32, Vec<&Rule>> = HashMap::new();
    let mut found = Vec::new();
    let mut left = COMPARISONS_MAX;
    for rule in rules.iter().filter(|rule| rule.enabled) {
        let Some(group) = &rule.group else { continue };
        let earlier = groups.entry(group.number).or_default();
        let mut hides = |earlier: &&&Rule| {
            left = left.saturating_sub(values(earlier).saturating_mul(values(rule)));
            left > 0 && hides(earlier, rule)
        };
        if let Some(by) = earlier.iter().find(&mut hides) {
            found.push((rule, *by));
        }
        if !rule.is_shadow() && earlier.len() < COMPARED_MAX {
            earlier.push(rule);
        }
    }
    found
}

/// The number of values in the rule's conditions, plus one.
fn values(rule: &Rule) -> usize {
    1 + rule.conditions.iter().chain(&rule.unless).map(Condition::size).sum::<usize>()
}

/// Does `earlier` apply wherever `later` would?
fn hides(earlier: &Rule, later: &Rule) -> bool {
    let matches =
        earlier.conditions.iter().all(|mine| later.conditions.iter().any(|theirs| mine.covers(theirs)));
    // Where `later` applies, the request has its key and the descriptors of its conditions. `earlier` applies there
    // too only if these include its own key.
    let has_key = earlier.key.iter().all(|descriptor| {
        later.key.contains(descriptor)
            || later.conditions.iter().any(|condition| condition.descriptor() == *descriptor)
    });
    let has_key = has_key || earlier.missing != Missing::Skip;
    // What `unless` leaves to later limits is not compared, except that the same `unless` leaves the same.
    let excepts_no_more = earlier.unless.is_empty() || earlier.unless == later.unless;
    matches && has_key && excepts_no_more
}
