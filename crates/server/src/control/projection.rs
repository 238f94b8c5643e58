//! The limits of a policy as rows of a table that people can read with any SQL client.
//!
//! The rows are a projection: the document is the truth, and nothing is read back from them.

use std::collections::BTreeMap;

use tidegate::Nanos;
use tidegate_database::RuleRow;
use tidegate_document::DocumentNode;
use tidegate_policy::{Condition, Descriptor, Numbers, Rule, RuleSet, Tier};

/// The rows of a policy: one for each limit, or one for each plan that a limit names. The limits of tenants, and those
/// that are switched off, have none. `document` is the tree that the rules were compiled from.
pub(crate) fn rule_rows(rules: &RuleSet, document: &DocumentNode) -> Vec<RuleRow> {
    let descriptions = descriptions(document);
    let mut rows = Vec::new();
    for rule in rules.limits().iter().filter(|rule| rule.enabled) {
        let row = RuleRow {
            key_pattern: key_pattern(rule),
            scope: scope(rule).to_owned(),
            rate_per_second: per_second(rule.numbers),
            burst_capacity: i64::from(rule.numbers.capacity),
            plan: None,
            description: descriptions.get(&*rule.name).cloned(),
            limit_name: rule.name.to_string(),
        };
        match plans(rule) {
            [] => rows.push(row),
            plans => {
                rows.extend(plans.iter().map(|plan| RuleRow { plan: Some(plan.to_string()), ..row.clone() }))
            }
        }
    }
    rows
}

/// What the document says about each limit.
fn descriptions(document: &DocumentNode) -> BTreeMap<String, String> {
    let limits = document.get("limits").map(DocumentNode::items).unwrap_or_default();
    let member = |limit: &DocumentNode, name: &str| limit.get(name)?.scalar().map(str::to_owned);
    limits.iter().filter_map(|limit| member(limit, "name").zip(member(limit, "description"))).collect()
}

fn plans(rule: &Rule) -> &[Box<str>] {
    let plans = rule.conditions.iter().find_map(|condition| match condition {
        Condition::Value(Descriptor::Plan, plans) => Some(&**plans),
        _ => None,
    });
    plans.unwrap_or_default()
}

/// The paths that the limit is for, joined by `,`.
fn paths(rule: &Rule) -> Option<String> {
    let paths = rule.conditions.iter().find_map(|condition| match condition {
        Condition::Path(patterns) => Some(patterns),
        _ => None,
    });
    paths.map(|patterns| patterns.iter().map(ToString::to_string).collect::<Vec<_>>().join(","))
}

/// Such as `user:{user_id}`, `endpoint:/api/search` or `global`.
fn key_pattern(rule: &Rule) -> String {
    let paths = paths(rule);
    if rule.key.is_empty() {
        return paths.map_or_else(|| "global".to_owned(), |paths| format!("endpoint:{paths}"));
    }
    let mut parts: Vec<String> = rule.key.iter().map(part).collect();
    parts.extend(paths);
    parts.join(":")
}

fn part(descriptor: &Descriptor) -> String {
    match descriptor {
        Descriptor::User => "user:{user_id}".to_owned(),
        Descriptor::Client => "client:{client_id}".to_owned(),
        Descriptor::Route => "endpoint:{route}".to_owned(),
        other => format!("{other}:{{{other}}}"),
    }
}

fn scope(rule: &Rule) -> &'static str {
    match rule.tier {
        Tier::Global if paths(rule).is_some() => "endpoint",
        Tier::Global => "global",
        Tier::Tenant => "tenant",
        Tier::User => "user",
        Tier::Ip => "ip",
        Tier::Route => "endpoint",
        Tier::Client => "client",
        Tier::Custom => "custom",
    }
}

/// Only for people to read: no decision is made with it.
fn per_second(numbers: Numbers) -> f64 {
    numbers.rate as f64 * Nanos::SECOND.get() as f64 / numbers.window.get() as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_say_what_limits_say() {
        let text = "version: 1
limits:
- { name: free, key: [user], match: { plan: [free, trial] }, sustained: { rate: 10 }, burst: { capacity: 50 }, description: small }
- { name: search, key: [], match: { path: /api/search }, sustained: { rate: 60000, window: minute }, burst: { capacity: 2000 } }
- { name: all, key: [], sustained: { rate: 50000 } }
- { name: off, key: [ip], sustained: { rate: 1 }, enabled: false }
- { name: combined, key: [client, ip], match: { path: [/a, /b/**] }, sustained: { rate: 1 } }
tenants:
- { id: t, rate_limit: { sustained: { rate: 1 } } }
";
        let rules: RuleSet = tidegate_policy::Policy::parse(text).expect("it is valid").into();
        let rows = rule_rows(&rules, &tidegate_document::parse(text).expect("it is valid"));
        let shown: Vec<_> = rows
            .iter()
            .map(|row| {
                (row.key_pattern.as_str(), row.scope.as_str(), row.rate_per_second, row.plan.as_deref())
            })
            .collect();
        assert_eq!(
            shown,
            [
                ("user:{user_id}", "user", 10.0, Some("free")),
                ("user:{user_id}", "user", 10.0, Some("trial")),
                ("endpoint:/api/search", "endpoint", 1_000.0, None),
                ("global", "global", 50_000.0, None),
                ("client:{client_id}:ip:{ip}:/a,/b/**", "custom", 1.0, None),
            ]
        );
        assert_eq!((rows[0].description.as_deref(), rows[0].burst_capacity), (Some("small"), 50));
    }
}
