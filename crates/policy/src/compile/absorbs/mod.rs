//! Warns where the limits let more requests through to a service than it can take, as `absorbs` of an upstream or of a
//! limit says.

mod bounds;
mod reach;
#[cfg(test)]
mod tests;

use std::collections::HashMap;

use super::Compiler;
use crate::document::{Absorbs, Document, LimitEntry, UpstreamEntry};
use crate::rules::{Rule, Tenants, Upstreams};
use crate::{Condition, Descriptor, Problem, Spanned};

use bounds::{AdmissionBounds, ServedRequests};
use reach::Reach;

impl Compiler<'_> {
    /// Checks every `absorbs`. Of `rules`, the first `limit_count` are the entries of `limits`.
    pub(super) fn check_absorbs(
        &mut self,
        document: &Document,
        (rules, limit_count): (&[Rule], usize),
        tenants: &Tenants,
        upstreams: &Upstreams,
    ) {
        let defaults = &document.defaults;
        let has_default = defaults.tenant.is_some();
        let mut bounds =
            AdmissionBounds::new(rules, limit_count, tenants, has_default, defaults.deny_unknown_tenants);
        for entry in document.upstreams.iter().filter(|entry| entry.enabled) {
            let Some(absorbs) = &entry.absorbs else { continue };
            let name = Box::from(entry.name.value.as_str());
            let conditions = [Condition::Value(Descriptor::Upstream, Box::from([name]))];
            let upstream = upstreams.number(&entry.name.value);
            let reach = bounds.of(ServedRequests { conditions: &conditions, unless: &[], upstream });
            if !bounds.is_exhausted() && !is_absorbed(reach, absorbs.value) {
                self.report(too_much_for_upstream(entry, absorbs, reach));
            }
        }
        let by_name: HashMap<&str, &Rule> =
            rules[..limit_count].iter().map(|rule| (&*rule.name, rule)).collect();
        for entry in document.limits.iter().filter(|entry| entry.enabled) {
            let (Some(absorbs), Some(rule)) = (&entry.absorbs, by_name.get(entry.name.value.as_str())) else {
                continue;
            };
            let upstream = rule.conditions.iter().find_map(|condition| match condition {
                Condition::Value(Descriptor::Upstream, names) if names.len() == 1 => {
                    upstreams.number(&names[0])
                }
                _ => None,
            });
            let (conditions, unless) = (&*rule.conditions, &*rule.unless);
            let reach = bounds.of(ServedRequests { conditions, unless, upstream });
            if !bounds.is_exhausted() && !is_absorbed(reach, absorbs.value) {
                self.report(too_much_for_limit(entry, rule, absorbs, reach));
            }
        }
    }
}

fn is_absorbed(reach: Option<Reach>, absorbs: Absorbs) -> bool {
    reach.is_some_and(|reach| reach.is_within(absorbs.burst, absorbs.rate))
}

/// How many requests can get through, in words.
fn told(reach: Option<Reach>) -> String {
    match reach {
        Some(reach) => format!("{} requests at once and {} a second", reach.burst(), reach.per_second()),
        None => "any number of requests".to_owned(),
    }
}

fn too_much_for_upstream(entry: &UpstreamEntry, absorbs: &Spanned<Absorbs>, reach: Option<Reach>) -> Problem {
    let (name, Absorbs { rate, burst }) = (&entry.name.value, absorbs.value);
    let message =
        format!("{} can reach `{name}`, which absorbs {burst} at once and {rate} a second", told(reach));
    let hint = format!(
        "add a limit for all requests to it: `match: {{ upstream: {name} }}, key: [], sustained: {{ rate: {rate} }}, \
         burst: {{ capacity: {burst} }}`"
    );
    let problem = Problem::warning(absorbs.at, format!("{}.absorbs", entry.path), message);
    problem.want("limits that keep all requests to it within that").hint(hint)
}

fn too_much_for_limit(
    entry: &LimitEntry,
    rule: &Rule,
    absorbs: &Spanned<Absorbs>,
    reach: Option<Reach>,
) -> Problem {
    let (name, Absorbs { rate, burst }) = (&entry.name.value, absorbs.value);
    let message = format!(
        "{} can reach what is behind `{name}`, which absorbs {burst} at once and {rate} a second",
        told(reach)
    );
    let total = format!("`key: [], sustained: {{ rate: {rate} }}, burst: {{ capacity: {burst} }}`");
    let hint = match (&*rule.key, reach) {
        ([], Some(_)) => format!("lower its numbers, or add a limit for the same requests: {total}"),
        ([], None) => {
            format!("let it deny requests, or add a limit for the same requests that does: {total}")
        }
        _ => format!(
            "`{name}` has a bucket for each key, and they add up: add a limit for the same requests that counts all of \
             them together: {total}"
        ),
    };
    let problem = Problem::warning(absorbs.at, format!("{}.absorbs", entry.path), message);
    problem.want("limits that keep all of these requests within that").hint(hint)
}
