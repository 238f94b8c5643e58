//! Finds limits that never apply because an earlier limit of their group always matches first.

use std::collections::HashMap;

use crate::document::Missing;
use crate::rules::Rule;
use crate::{Condition, Descriptor};

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
    // Where `later` applies, the request has the descriptors of its conditions, and its key unless it applies without.
    // `earlier` applies there too only if these include its own key, or if it applies without its key.
    let is_there = |descriptor: &Descriptor| {
        let has_key = later.missing == Missing::Skip && later.key.contains(descriptor);
        has_key || later.conditions.iter().any(|condition| condition.descriptor() == *descriptor)
    };
    let has_key = earlier.missing != Missing::Skip || earlier.key.iter().all(is_there);
    has_key && matches_wherever(earlier, later)
}

/// Does a rule match every request that `other` matches? `true` is certain; `false` may be wrong.
pub(super) fn matches_wherever(rule: &Rule, other: &Rule) -> bool {
    matches_all(rule, &other.conditions, &other.unless)
}

/// Does a rule match every request for which these conditions hold, and those of `unless` do not? `true` is certain;
/// `false` may be wrong.
pub(super) fn matches_all(rule: &Rule, conditions: &[Condition], unless: &[Condition]) -> bool {
    let covers = rule.conditions.iter().all(|mine| conditions.iter().any(|theirs| mine.covers(theirs)));
    // What an `unless` leaves out is not compared, except that the same one leaves out the same.
    covers && (rule.unless.is_empty() || *rule.unless == *unless)
}
