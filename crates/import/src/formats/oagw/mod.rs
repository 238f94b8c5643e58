//! OAGW's `rate_limit` objects in all their shapes, of upstreams, routes and tenants.

mod rate_limit;
mod tenants;

use super::{path_pattern, read_each, read_or_undo};
use crate::draft::{Conditions, Draft, DraftLimit, DraftRoute};
use crate::log::ImportLog;
use crate::source::{SourceFields, SourceValue};
use rate_limit::OagwRateLimit;

/// A map with one of these members is a `rate_limit` object.
const RATE_MEMBERS: &[&str] = &["sustained", "rate", "tokens_per_second"];

/// Reads a document that contains `rate_limit` objects on any level.
pub(crate) fn read(root: &SourceValue<'_>, draft: &mut Draft, log: &mut ImportLog) {
    if root.is_list() {
        read_list(root, draft, log);
    } else if is_single_item(root) {
        read_or_undo(root, draft, log, |draft, log| read_one(root, draft, log));
    } else {
        read_document(root, draft, log);
    }
    tenants::detach_from_missing_parents(draft, log);
}

fn read_document(root: &SourceValue<'_>, draft: &mut Draft, log: &mut ImportLog) {
    let Some(mut document) = SourceFields::open(root, log) else { return };
    if let Some(upstreams) = document.take("upstreams") {
        read_each(&upstreams, draft, log, |item, draft, log| read_upstream(item, false, draft, log));
    }
    if let Some(routes) = document.take("routes") {
        read_each(&routes, draft, log, |item, draft, log| read_route(item, false, draft, log));
    }
    if let Some(tenants) = document.take("tenants") {
        read_each(&tenants, draft, log, |item, draft, log| tenants::read_one(item, None, draft, log));
    }
    read_singles(&mut document, draft, log);
    read_sync(&mut document, log);
    if document.item.has("rate_limit") {
        read_or_undo(root, draft, log, |draft, log| read_holder(document, &Conditions::new(), draft, log));
    } else {
        document.finish(log);
    }
}

/// Reads `upstream`, `route` and `tenant`, for documents with only one of a kind.
fn read_singles(document: &mut SourceFields<'_>, draft: &mut Draft, log: &mut ImportLog) {
    let is_map = |document: &SourceFields<'_>, name: &str| {
        document.item.node.get(name).is_some_and(|node| !node.entries().is_empty())
    };
    for name in ["upstream", "route", "tenant"] {
        if !is_map(document, name) {
            continue;
        }
        let Some(item) = document.take(name) else { continue };
        read_or_undo(&item, draft, log, |draft, log| match name {
            "upstream" => read_upstream(&item, true, draft, log),
            "route" => read_route(&item, true, draft, log),
            _ => tenants::read_one(&item, None, draft, log),
        });
    }
}

/// Reads a list: of tenants if one of the items has a parent or children, otherwise of items with a `rate_limit`.
fn read_list(list: &SourceValue<'_>, draft: &mut Draft, log: &mut ImportLog) {
    if list.node.items().iter().any(|node| tenants::is_tenant(&SourceValue::root(node))) {
        return read_each(list, draft, log, |item, draft, log| tenants::read_one(item, None, draft, log));
    }
    read_each(list, draft, log, |item, draft, log| {
        if is_single_item(item) {
            return read_one(item, draft, log);
        }
        let Some(mut fields) = SourceFields::open(item, log) else { return };
        read_singles(&mut fields, draft, log);
        read_sync(&mut fields, log);
        if fields.item.has("rate_limit") {
            read_holder(fields, &Conditions::new(), draft, log);
        } else {
            fields.finish(log);
        }
    });
}

/// Is it a single `rate_limit` object, tenant or route, rather than a document with several?
fn is_single_item(item: &SourceValue<'_>) -> bool {
    is_rate(item) || tenants::is_tenant(item) || item.has("path") || item.has("match")
}

fn is_rate(item: &SourceValue<'_>) -> bool {
    RATE_MEMBERS.iter().any(|name| item.has(name))
}

fn read_one(item: &SourceValue<'_>, draft: &mut Draft, log: &mut ImportLog) {
    if is_rate(item) {
        let bare = rate_limit::read(item, log);
        add_limit("rate-limit", bare, Vec::new(), None, draft, log);
    } else if tenants::is_tenant(item) {
        tenants::read_one(item, None, draft, log);
    } else {
        read_route(item, false, draft, log);
    }
}

fn read_sync(document: &mut SourceFields<'_>, log: &mut ImportLog) {
    let why = "this is a setting of the server: copy it unchanged to the settings file";
    document.leave_out("rate_limit_sync", why, log);
}

/// Reads an object with a `rate_limit`; the limit is named by its id, alias or name.
fn read_holder(
    mut fields: SourceFields<'_>,
    conditions: &Conditions,
    draft: &mut Draft,
    log: &mut ImportLog,
) {
    let name = fields.take_any(&["id", "alias", "name"]).and_then(|name| name.text(log));
    let description = fields.text("description", log);
    let found = fields.take("rate_limit").and_then(|item| rate_limit::read(&item, log));
    fields.finish(log);
    let name = name.unwrap_or_else(|| "rate-limit".to_owned());
    add_limit(&name, found, conditions.clone(), description, draft, log);
}

/// Reads an upstream. Its limit matches requests by the host, or by a descriptor that the gateway must send; if it is
/// the only upstream, no condition is needed.
fn read_upstream(item: &SourceValue<'_>, is_only: bool, draft: &mut Draft, log: &mut ImportLog) {
    let Some(mut fields) = SourceFields::open(item, log) else { return };
    if let Some(routes) = fields.take("routes") {
        read_each(&routes, draft, log, |item, draft, log| read_route(item, false, draft, log));
    }
    let host = fields.take("host").and_then(|host| host.text(log));
    if !fields.item.has("rate_limit") {
        return fields.finish(log);
    }
    // Problems of its limit do not remove its routes.
    read_or_undo(item, draft, log, |draft, log| {
        if let Some(conditions) = upstream_conditions(item, host, is_only, log) {
            read_holder(fields, &conditions, draft, log);
        }
    });
}

fn upstream_conditions(
    item: &SourceValue<'_>,
    host: Option<String>,
    is_only: bool,
    log: &mut ImportLog,
) -> Option<Conditions> {
    let known_as = ["id", "alias", "name"].iter().find_map(|name| item.node.get(name)?.scalar());
    match (host, known_as) {
        (Some(host), _) => Some(vec![("host".to_owned(), vec![host])]),
        (None, Some(id)) => {
            let what = "an upstream without `host` is matched by `descriptor:upstream`";
            let why = "a request does not name its upstream: send it as the descriptor `upstream`";
            log.note_once(item, what, why);
            Some(vec![("descriptor:upstream".to_owned(), vec![id.to_owned()])])
        }
        (None, None) if is_only => {
            let why = "it is the only upstream, and has no `id`, `alias` or `host`";
            log.note(item, "the limit of this upstream applies to all requests", why);
            Some(Vec::new())
        }
        (None, None) => {
            log.problem(item, "this upstream cannot be identified", "`id`, `alias` or `host`");
            None
        }
    }
}

/// Reads a route: one with only a cost becomes an entry of `routes`, one with a rate a limit for that path.
fn read_route(item: &SourceValue<'_>, is_only: bool, draft: &mut Draft, log: &mut ImportLog) {
    let Some(mut fields) = SourceFields::open(item, log) else { return };
    let (path, methods) = read_match(&mut fields, log);
    let Some(found) = fields.take("rate_limit") else {
        return fields.finish(log);
    };
    if path.is_none() && is_only && is_rate(&found) {
        let why = "it is the only route, and has no `path`";
        log.note(item, "the limit of this route applies to all requests", why);
    } else if path.is_none() {
        log.problem(item, "`path` is missing", "the path of the route");
        return;
    }
    let pattern = match path {
        Some((path, origin)) => match path_pattern(&path, &origin, log) {
            Some(pattern) => Some(pattern),
            None => return,
        },
        None => None,
    };
    if let (false, Some(path)) = (is_rate(&found), &pattern) {
        if let Some(cost) = rate_limit::read_cost_only(&found, log) {
            draft.routes.push(DraftRoute { path: path.clone(), methods, cost });
        }
        return fields.finish(log);
    }
    let name = fields.take_any(&["id", "name"]).and_then(|name| name.text(log));
    let description = fields.text("description", log);
    fields.finish(log);
    let name = name.or_else(|| pattern.clone()).unwrap_or_else(|| "rate-limit".to_owned());
    let mut conditions: Conditions =
        pattern.map(|path| ("path".to_owned(), vec![path])).into_iter().collect();
    if !methods.is_empty() {
        conditions.push(("methods".to_owned(), methods));
    }
    let found = rate_limit::read(&found, log);
    add_limit(&name, found, conditions, description, draft, log);
}

/// Path and methods of a route, from the route itself, `match` or `match.http`.
fn read_match<'a>(
    route: &mut SourceFields<'a>,
    log: &mut ImportLog,
) -> (Option<(String, SourceValue<'a>)>, Vec<String>) {
    let mut inner = route.take("match").and_then(|item| SourceFields::open(&item, log));
    let mut innermost =
        inner.as_mut().and_then(|fields| fields.take("http")).and_then(|item| SourceFields::open(&item, log));
    let mut take = |name: &str| {
        let own = route.take(name);
        own.or_else(|| inner.as_mut()?.take(name)).or_else(|| innermost.as_mut()?.take(name))
    };
    let (path, methods) = (take("path"), take("methods"));
    let path = path.and_then(|path| Some((path.text(log)?, path)));
    let methods = methods.map(|methods| methods.texts(log)).unwrap_or_default();
    for fields in [inner, innermost].into_iter().flatten() {
        fields.finish(log);
    }
    (path, methods)
}

/// Adds a limit that does not belong to a tenant. `sharing` and `budget` have no meaning for it.
fn add_limit(
    name: &str,
    found: Option<OagwRateLimit<'_>>,
    conditions: Conditions,
    description: Option<String>,
    draft: &mut Draft,
    log: &mut ImportLog,
) {
    let Some(found) = found else { return };
    for (member, _) in found.sharing.iter().chain(&found.budget) {
        let why = "only tenants can share: write the objects as `tenants`, each with `id` and `parent`";
        log.note(member, "this is left out", why);
    }
    let Some(terms) = found.terms else {
        log.problem(&found.item, "there is no rate", "`sustained`, `rate` or `tokens_per_second`");
        return;
    };
    let name = draft.claim(name, &found.item, log);
    let key = match found.scope.as_str() {
        "global" => Vec::new(),
        scope => vec![scope.to_owned()],
    };
    draft.limits.push(DraftLimit { description, conditions, key, ..DraftLimit::new(name, terms) });
}

#[cfg(test)]
mod tests;
