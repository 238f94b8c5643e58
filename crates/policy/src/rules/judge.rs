//! Explains why each limit applies to a request or not. The result is that of [`RuleSet::plan`], computed more
//! slowly and with the reasons.

use super::excepts;
use crate::document::Missing;
use crate::{Condition, Descriptor, Facts, Rule, RuleSet};

/// A limit of the policy, and whether it applies.
#[derive(Clone, Debug)]
pub struct Judgement<'r> {
    /// The number of the rule.
    pub number: u32,
    /// The limit.
    pub rule: &'r Rule,
    /// Whether it applies.
    pub standing: Applicability<'r>,
}

/// Whether a limit applies.
#[derive(Clone, Debug)]
pub enum Applicability<'r> {
    /// It applies.
    Applies,
    /// It is switched off.
    Disabled,
    /// A condition does not hold.
    Unmet {
        /// The condition.
        condition: &'r Condition,
        /// The request's value of that descriptor.
        saw: Option<String>,
    },
    /// All conditions of its `unless` hold.
    Excepted(&'r [Condition]),
    /// The request lacks this descriptor of the limit's key.
    NoKey(&'r Descriptor),
    /// The request lacks this descriptor, and takes from the bucket that all such requests share.
    AppliesShared(&'r Descriptor),
    /// The request lacks this descriptor, and is denied for that.
    DeniesMissing(&'r Descriptor),
    /// An earlier limit of its group applies.
    GroupTaken {
        /// The earlier limit.
        by: &'r Rule,
    },
}

impl RuleSet {
    /// Every limit of `limits`, in order, with whether it applies.
    pub fn judge<'r>(&'r self, facts: &Facts<'_, '_>) -> Vec<Judgement<'r>> {
        let mut taken: Vec<(u32, &Rule)> = Vec::new();
        let judge = |(number, rule): (u32, &'r Rule)| {
            let standing = standing(rule, facts, &taken);
            let closes = !rule.is_shadow()
                && matches!(
                    standing,
                    Applicability::Applies
                        | Applicability::AppliesShared(_)
                        | Applicability::DeniesMissing(_)
                );
            if let Some(group) = rule.group.as_ref().filter(|_| closes) {
                taken.push((group.number, rule));
            }
            Judgement { number, rule, standing }
        };
        (0..).zip(self.limits()).map(judge).collect()
    }
}

fn standing<'r>(rule: &'r Rule, facts: &Facts<'_, '_>, taken: &[(u32, &'r Rule)]) -> Applicability<'r> {
    if !rule.enabled {
        return Applicability::Disabled;
    }
    if let Some(condition) = rule.conditions.iter().find(|condition| !condition.holds(facts)) {
        let saw = facts.value(&condition.descriptor()).map(|value| value.into_owned());
        return Applicability::Unmet { condition, saw };
    }
    if excepts(&rule.unless, facts) {
        return Applicability::Excepted(&rule.unless);
    }
    let by = rule.group.as_ref().and_then(|group| taken.iter().find(|(number, _)| *number == group.number));
    if let Some((_, by)) = by {
        return Applicability::GroupTaken { by };
    }
    match rule.key.iter().find(|descriptor| facts.value(descriptor).is_none()) {
        Some(missing) => match rule.missing {
            Missing::Skip => Applicability::NoKey(missing),
            Missing::Shared => Applicability::AppliesShared(missing),
            Missing::Deny => Applicability::DeniesMissing(missing),
        },
        None => Applicability::Applies,
    }
}
