//! Bundles: policies with a selector, kill switches, overrides.

use crate::draft::{Conditions, Draft, DraftBlock};
use crate::formats::{path_pattern, read_each};
use crate::log::ImportLog;
use crate::source::{SourceFields, SourceValue};

use super::{Context, descriptor, read_rules};

/// Reads the top level of a bundle.
pub(crate) fn read(bundle: &mut SourceFields<'_>, draft: &mut Draft, log: &mut ImportLog) {
    for (name, why) in [
        ("bundle_version", "the server numbers the versions of a policy"),
        ("issued_at", "a policy has no creation date"),
        ("expires_at", "a policy does not expire"),
    ] {
        bundle.leave_out(name, why, log);
    }
    if let Some(shadow) = bundle.take("global_shadow") {
        draft.shadow = read_override(&shadow, log);
    }
    let switches_off = bundle.take("kill_switch_override").is_some_and(|item| {
        let on = read_override(&item, log);
        if on {
            let why = "an override switches them off; remove `enabled: false` in `block` to end it";
            log.note(&item, "the kill switches are imported disabled", why);
        }
        on
    });
    if let Some(switches) = bundle.take("kill_switches") {
        for switch in switches.list(log) {
            let block = log.attempt(&switch, |log| read_switch(&switch, log));
            draft.blocks.extend(block.map(|block| DraftBlock { enabled: !switches_off, ..block }));
        }
    }
    if let Some(policies) = bundle.take("policies") {
        read_each(&policies, draft, log, read_policy);
    }
}

/// Is the override on? In a policy it has no end.
fn read_override(item: &SourceValue<'_>, log: &mut ImportLog) -> bool {
    let Some(mut fields) = SourceFields::open(item, log) else { return false };
    let on = fields.flag("enabled", log).unwrap_or(false);
    fields.leave_out("reason", "a policy has no reason for it", log);
    let why =
        if on { "the override stays in force until the policy is changed" } else { "the override is off" };
    fields.leave_out("expires_at", why, log);
    fields.finish(log);
    on
}

fn read_switch(item: &SourceValue<'_>, log: &mut ImportLog) -> Option<DraftBlock> {
    let mut fields = SourceFields::open(item, log)?;
    let key = fields.need("scope_key", "a descriptor such as header:x-api-key", log);
    let key = key.and_then(|key| descriptor(&key.text(log)?, &key, log));
    let value = fields.need("scope_value", "the value that is refused", log);
    let value = value.and_then(|value| value.text(log));
    let route = fields.take("route").and_then(|route| exact_path(&route, log));
    let reason = fields.text("reason", log);
    let until = fields.text("expires_at", log);
    fields.finish(log);
    let mut conditions = vec![(key?, vec![value?])];
    conditions.extend(route.map(|path| ("path".to_owned(), vec![path])));
    Some(DraftBlock { conditions, reason, until, enabled: true })
}

fn read_policy(item: &SourceValue<'_>, draft: &mut Draft, log: &mut ImportLog) {
    let Some(mut policy) = SourceFields::open(item, log) else { return };
    let id = policy.take("id").and_then(|id| Some((id.text(log)?, id)));
    let id = id.map_or_else(String::new, |(id, origin)| {
        let why =
            "limits are named by their rules; where two rules have one name, the second is named by both";
        log.note_once(&origin, "the `id` of a policy names only its groups", why);
        id
    });
    let spec = policy.need("spec", "a selector and rules", log);
    policy.finish(log);
    let Some(mut spec) = spec.and_then(|spec| SourceFields::open(&spec, log)) else { return };
    let mut context = Context { policy: id, ..Context::default() };
    if let Some(selector) = spec.take("selector") {
        context.conditions = read_selector(&selector, log);
    }
    if let Some(mode) = spec.take("mode") {
        match mode.text(log).as_deref() {
            Some("shadow") => context.shadow = true,
            Some("enforce") | None => {}
            Some(_) => log.problem(&mode, "this mode is not known", "enforce or shadow"),
        }
    }
    let rules = spec.need("rules", "a list of rules", log);
    let fallback = spec.take("fallback_limit");
    let loops = "requests are not compared with each other; a detector in `bursts` counts them by key";
    spec.leave_out("loop_detection", loops, log);
    spec.leave_out("circuit_breaker", "spending is not monitored; a limit can bound it instead", log);
    spec.finish(log);
    let mark = draft.mark();
    if let Some(rules) = rules {
        read_rules(&rules, fallback.as_ref(), &context, draft, log);
    }
    // The selector and the mode are written with each limit.
    if draft.mark() == mark {
        log.note(item, "this policy is left out", "it has no rule that could be imported");
    }
}

fn read_selector(item: &SourceValue<'_>, log: &mut ImportLog) -> Conditions {
    let Some(mut selector) = SourceFields::open(item, log) else { return Vec::new() };
    let mut conditions = Vec::new();
    let mut paths = Vec::new();
    let exact = selector.take("pathExact");
    paths.extend(exact.as_ref().and_then(|path| exact_path(path, log)));
    let prefix = selector.take("pathPrefix").and_then(|prefix| Some((literal_path(&prefix, log)?, prefix)));
    let everything = matches!(&prefix, Some((prefix, _)) if prefix == "/");
    if let Some((prefix, origin)) = prefix.filter(|_| !everything) {
        let prefix = prefix.trim_end_matches('/');
        paths.extend(path_pattern(&format!("{prefix}/**"), &origin, log));
        let why = "a pattern that ends in `/**` also matches the path before it";
        log.note_once(&origin, format!("the prefix `{prefix}/` matches `{prefix}` too"), why);
    }
    if everything {
        if let Some(path) = exact.filter(|_| !paths.is_empty()) {
            let why = "the prefix `/` matches every path, this one included";
            log.note(&path, "`pathExact` is left out", why);
        }
    } else if !paths.is_empty() {
        conditions.push(("path".to_owned(), paths));
    }
    for (name, condition) in [("methods", "methods"), ("hosts", "host")] {
        let values = selector.take(name).map(|values| values.texts(log)).unwrap_or_default();
        if !values.is_empty() {
            conditions.push((condition.to_owned(), values));
        }
    }
    selector.finish(log);
    conditions
}

/// A path without wildcards.
fn exact_path(item: &SourceValue<'_>, log: &mut ImportLog) -> Option<String> {
    let path = literal_path(item, log)?;
    path_pattern(&path, item, log)
}

/// The text of a path or a prefix, which mean themselves. In a policy `*` and `{name}` would match any segment.
fn literal_path(item: &SourceValue<'_>, log: &mut ImportLog) -> Option<String> {
    let path = item.text(log)?;
    if path.contains(['*', '{', '}']) {
        let message = "a path that is meant literally cannot contain `*`, `{` or `}`: in a policy they match any segment";
        log.problem(item, message, "a path without them");
        return None;
    }
    Some(path)
}
