//! Fairvisor's policies: bundles of policies with a selector and rules, or a bare list of rules.
//!
//! Rules of one list with the same `limit_keys` form a group, of which only the first matching rule applies: a rule
//! without `match` is for all callers that no earlier rule matches. In the source, all matching rules apply; so a rule
//! that could never be the first match starts a new group.

mod algorithms;
mod bundle;
mod groups;

use tidegate_policy::Descriptor;

use crate::draft::{Conditions, Draft, DraftLimit};
use crate::log::ImportLog;
use crate::source::{SourceFields, SourceValue};
use crate::terms::DraftTerms;
use crate::yaml;

/// What all rules of one list share.
#[derive(Debug, Default)]
struct Context {
    /// The policy's id; empty for a bare list.
    policy: String,
    conditions: Conditions,
    shadow: bool,
}

/// A rule that has been read.
struct Rule<'a> {
    item: SourceValue<'a>,
    name: String,
    keys: Vec<String>,
    conditions: Conditions,
    /// Several if the rule has several limits, such as tokens per minute and tokens per day.
    parts: Vec<(&'static str, DraftTerms)>,
}

/// Reads a bundle, a map with `rules`, a list of rules, or a single rule.
pub(crate) fn read(root: &SourceValue<'_>, draft: &mut Draft, log: &mut ImportLog) {
    read_document(root, draft, log);
    add_habits(root, draft, log);
}

/// Writes out what Fairvisor does without being told.
fn add_habits(root: &SourceValue<'_>, draft: &mut Draft, log: &mut ImportLog) {
    let families = yaml::list(&["ratelimit-03", "ietf"]);
    draft.defaults = vec![
        ("headers", families),
        ("retry_jitter", "0.5".to_owned()),
        ("on_store_error", "open".to_owned()),
    ];
    draft.defaults_comment = Some(
        "What Fairvisor does without being told: its headers, up to half of the wait added, open if the store fails.",
    );
    if !draft.limits.is_empty() {
        let what = "the header X-Fairvisor-Reason of a denial becomes X-RateLimit-Reason";
        let why = "Fairvisor's other habits are in `defaults`: its header families, its jitter, and that a failing \
                   store admits requests";
        log.note(root, what, why);
    }
}

fn read_document(root: &SourceValue<'_>, draft: &mut Draft, log: &mut ImportLog) {
    let context = Context::default();
    if root.is_list() {
        return read_rules(root, None, &context, draft, log);
    }
    if root.has("algorithm") {
        let rule = log.attempt(root, |log| read_rule(root, log));
        return add_rules(rule.into_iter().collect(), None, &context, draft, log);
    }
    let Some(mut document) = SourceFields::open(root, log) else { return };
    if root.has("policies") {
        bundle::read(&mut document, draft, log);
    } else if let Some(rules) = document.take("rules") {
        let fallback = document.take("fallback_limit");
        read_rules(&rules, fallback.as_ref(), &context, draft, log);
    } else {
        log.problem(root, "there are no rules", "`policies`, `rules` or a list of rules");
    }
    document.finish(log);
}

fn read_rules(
    list: &SourceValue<'_>,
    fallback: Option<&SourceValue<'_>>,
    context: &Context,
    draft: &mut Draft,
    log: &mut ImportLog,
) {
    log.note_if_empty(list);
    let items = list.list(log);
    let rules = items.iter().filter_map(|item| log.attempt(item, |log| read_rule(item, log))).collect();
    add_rules(rules, fallback, context, draft, log);
}

fn read_rule<'a>(item: &SourceValue<'a>, log: &mut ImportLog) -> Option<Rule<'a>> {
    let mut fields = SourceFields::open(item, log)?;
    let name = fields.text("name", log).unwrap_or_else(|| "limit".to_owned());
    let keys = fields.take("limit_keys");
    if keys.as_ref().is_none_or(|keys| keys.is_list() && keys.node.items().is_empty()) {
        let what = "without `limit_keys` all callers share one bucket";
        log.note(item, what, "add `limit_keys` to have a bucket for each caller");
    }
    let keys = keys.map(|keys| read_keys(&keys, log)).unwrap_or_default();
    let mut conditions = Vec::new();
    if let Some(found) = fields.take("match") {
        let entries = SourceFields::open(&found, log)?;
        for (written, entry) in entries.entries() {
            if let Some(descriptor) = descriptor(&written, &entry, log) {
                conditions.push((descriptor, entry.texts(log)));
            }
        }
    }
    let parts = algorithms::read(&mut fields, log);
    fields.finish(log);
    Some(Rule { item: item.clone(), name, keys, conditions, parts: parts? })
}

fn read_keys(item: &SourceValue<'_>, log: &mut ImportLog) -> Vec<String> {
    let mut keys = Vec::new();
    for key in item.list(log) {
        let Some(written) = key.text(log) else { continue };
        keys.extend(descriptor(&written, &key, log));
    }
    keys
}

/// The descriptor of a policy for one of Fairvisor. Values that Fairvisor computes itself, such as the country of an
/// address, must be sent by the caller.
fn descriptor(written: &str, item: &SourceValue<'_>, log: &mut ImportLog) -> Option<String> {
    let (kind, name) = written.split_once(':').unwrap_or((written, ""));
    let named = match kind {
        "ip" if name == "address" => Some("ip".to_owned()),
        "jwt" | "query" if !name.is_empty() => Some(written.to_owned()),
        "header" if !name.is_empty() => Some(written.to_ascii_lowercase()),
        "ip" | "ua" if !name.is_empty() => {
            let why = "Tidegate does not compute it: the caller must send it with each request";
            log.note(item, format!("`{written}` becomes `descriptor:{written}`"), why);
            Some(format!("descriptor:{written}"))
        }
        _ => None,
    };
    let named = named.filter(|named| Descriptor::parse(named).is_some());
    if named.is_none() {
        let want = "jwt:<name>, header:<name>, query:<name> or ip:address";
        log.problem(item, "this descriptor is not known", want);
    }
    named
}

/// Puts the rules of one list into groups and adds them to the draft.
fn add_rules(
    rules: Vec<Rule<'_>>,
    fallback: Option<&SourceValue<'_>>,
    context: &Context,
    draft: &mut Draft,
    log: &mut ImportLog,
) {
    let mut groups = groups::of(&rules, log);
    let last = fallback.and_then(|item| Some((item, log.attempt(item, |log| read_rule(item, log))?)));
    let is_closing = last.is_some() && groups.len() == 1;
    for group in &mut groups {
        if group.members.len() > 1 || is_closing {
            group.name = Some(draft.claim_group(&group_of(&rules[group.members[0]].keys, context)));
        }
    }
    for (index, rule) in rules.iter().enumerate() {
        let group = groups.iter().find(|group| group.members.contains(&index));
        add_rule(rule, group.and_then(|group| group.name.clone()), true, context, draft, log);
    }
    let Some((item, rule)) = last else { return };
    if let (true, [group]) = (is_closing, &groups[..]) {
        add_rule(&rule, group.name.clone(), true, context, draft, log);
    } else {
        let why = "it applies where no rule matches, which needs all rules in a single group; the limit is disabled";
        log.note(item, "`fallback_limit` cannot be imported as it is", why);
        add_rule(&rule, None, false, context, draft, log);
    }
}

fn group_of(keys: &[String], context: &Context) -> String {
    let keys = if keys.is_empty() { "all".to_owned() } else { keys.join("/") };
    if context.policy.is_empty() { keys } else { format!("{}/{keys}", context.policy) }
}

fn add_rule(
    rule: &Rule<'_>,
    group: Option<String>,
    enabled: bool,
    context: &Context,
    draft: &mut Draft,
    log: &mut ImportLog,
) {
    for (suffix, terms) in &rule.parts {
        let wanted = format!("{}{suffix}", rule.name);
        let wanted = if draft.has_name(&wanted) && !context.policy.is_empty() {
            format!("{}/{wanted}", context.policy)
        } else {
            wanted
        };
        let name = draft.claim(&wanted, &rule.item, log);
        let conditions = context.conditions.iter().chain(&rule.conditions).cloned().collect();
        // Two limits of one rule apply together, so they cannot be in one group.
        let group = group.as_ref().map(|group| format!("{group}{suffix}"));
        let key = rule.keys.clone();
        let shadow = context.shadow;
        draft.limits.push(DraftLimit {
            enabled,
            group,
            conditions,
            key,
            shadow,
            ..DraftLimit::new(name, terms.clone())
        });
    }
}

#[cfg(test)]
mod tests;
