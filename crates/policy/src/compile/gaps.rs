//! Finds requests that evade limits because they lack a key.

use std::collections::HashMap;

use super::{Compiler, overlap};
use crate::document::{LimitEntry, Missing};
use crate::rules::Rule;
use crate::{Descriptor, Problem};

/// How many comparisons are made in total.
const COMPARISONS_MAX: usize = 1_000_000;

impl Compiler<'_> {
    /// Warns of groups that no limit of applies to requests without a key. A limit without a group is one of its own.
    /// Limits that say `missing` are meant as they are.
    pub(super) fn check_gaps(&mut self, entries: &[LimitEntry], rules: &[Rule]) {
        let by_name: HashMap<&str, &LimitEntry> =
            entries.iter().map(|entry| (entry.name.value.as_str(), entry)).collect();
        let has_default = self.defaults.tenant.is_some();
        let enforced = || rules.iter().filter(|rule| rule.enabled && !rule.is_shadow());
        let mut groups: HashMap<u32, Vec<&Rule>> = HashMap::new();
        for rule in enforced() {
            if let Some(group) = &rule.group {
                groups.entry(group.number).or_default().push(rule);
            }
        }
        // A limit by address or path applies to every request that comes through a proxy.
        let everywhere: Vec<&Rule> =
            enforced().filter(|rule| !rule.key.is_empty() && absent(rule, has_default).is_none()).collect();
        let (mut reported, mut left) = (Vec::new(), COMPARISONS_MAX);
        for rule in enforced() {
            let (Some(descriptor), Some(entry)) = (absent(rule, has_default), by_name.get(&*rule.name))
            else {
                continue;
            };
            let group = rule.group.as_ref().map(|group| group.number);
            let is_known = group.is_some_and(|group| reported.contains(&group));
            if entry.missing.is_some() || is_known {
                continue;
            }
            let members = group.and_then(|group| groups.get(&group)).map(Vec::as_slice).unwrap_or_default();
            let catches = |other: &&Rule| {
                left = left.saturating_sub(1);
                left > 0 && absent(other, has_default).is_none() && overlap::matches_wherever(other, rule)
            };
            if members.iter().chain(&everywhere).any(catches) || left == 0 {
                continue;
            }
            reported.extend(group);
            self.report(gap(rule, entry, descriptor));
        }
    }
}

/// The first descriptor of a limit's key that a request may lack so that the limit does not apply to it. With a default
/// tenant no request lacks one.
fn absent(rule: &Rule, has_default_tenant: bool) -> Option<&Descriptor> {
    let is_tested = |descriptor: &Descriptor| {
        rule.conditions.iter().any(|condition| condition.descriptor() == *descriptor)
    };
    if rule.missing != Missing::Skip {
        return None;
    }
    let is_default = |descriptor: &Descriptor| has_default_tenant && *descriptor == Descriptor::Tenant;
    rule.key.iter().find(|part| may_be_absent(part) && !is_default(part) && !is_tested(part))
}

/// Can a client leave it out? Envoy sends descriptors and a domain where a limit is meant to apply, and not elsewhere;
/// the address and the path are there in every HTTP request.
fn may_be_absent(descriptor: &Descriptor) -> bool {
    match descriptor {
        Descriptor::Tenant
        | Descriptor::User
        | Descriptor::Client
        | Descriptor::Plan
        | Descriptor::Upstream
        | Descriptor::Header(_)
        | Descriptor::Query(_)
        | Descriptor::Jwt(_) => true,
        Descriptor::Ip
        | Descriptor::Route
        | Descriptor::Method
        | Descriptor::Host
        | Descriptor::Path
        | Descriptor::Domain
        | Descriptor::Credential
        | Descriptor::Custom(_) => false,
    }
}

fn gap(rule: &Rule, entry: &LimitEntry, descriptor: &Descriptor) -> Problem {
    let at = entry.key.iter().flatten().find(|written| written.value == *descriptor);
    let at = at.map_or(entry.at, |written| written.at);
    let message = match &rule.group {
        Some(group) => {
            format!("no limit of the group `{}` applies to requests without `{descriptor}`", group.name)
        }
        None => format!("`{}` does not apply to requests without `{descriptor}`", rule.name),
    };
    let hint = match &rule.group {
        Some(group) => format!(
            "write `missing: shared` (one bucket for all of them) or `missing: deny`; or add a limit by `ip` to the group \
             `{}`; or write `missing: skip` if they may pass",
            group.name
        ),
        None => "write `missing: shared` (one bucket for all of them) or `missing: deny`; or give it a `group` together \
                 with a limit by `ip`; or write `missing: skip` if they may pass"
            .to_owned(),
    };
    let want = format!("a limit for requests without `{descriptor}` too");
    Problem::warning(at, format!("{}.key", entry.path), message).want(want).hint(hint)
}
