//! OAGW's `rate_limit` objects in every shape they come in, with upstreams, routes and tenants.

mod rate_limit;
mod tenants;

use super::draft::{Conditions, Draft, DraftLimit, DraftRoute};
use super::item::{SourceFields, SourceValue};
use super::log::ImportLog;
use super::{each_of, one_of, path_pattern};
use rate_limit::OagwRateLimit;

/// The members that make a map a `rate_limit` object.
const RATE_MEMBERS: &[&str] = &["sustained", "rate", "tokens_per_second"];

/// Reads whatever holds `rate_limit` objects.
pub(super) fn read(root: &SourceValue<'_>, draft: &mut Draft, log: &mut ImportLog) {
    if root.is_list() {
        read_list(root, draft, log);
    } else if is_one_thing(root) {
        one_of(root, draft, log, |draft, log| read_one(root, draft, log));
    } else {
        read_document(root, draft, log);
    }
    tenants::part_from_absent_parents(draft, log);
}

fn read_document(root: &SourceValue<'_>, draft: &mut Draft, log: &mut ImportLog) {
    let Some(mut document) = SourceFields::open(root, log) else { return };
    if let Some(upstreams) = document.take("upstreams") {
        each_of(&upstreams, draft, log, |item, draft, log| read_upstream(item, false, draft, log));
    }
    if let Some(routes) = document.take("routes") {
        each_of(&routes, draft, log, |item, draft, log| read_route(item, false, draft, log));
    }
    if let Some(tenants) = document.take("tenants") {
        each_of(&tenants, draft, log, |item, draft, log| tenants::read_one(item, None, draft, log));
    }
    read_singles(&mut document, draft, log);
    read_sync(&mut document, log);
    if document.item.has("rate_limit") {
        one_of(root, draft, log, |draft, log| read_holder(document, &Conditions::new(), draft, log));
    } else {
        document.finish(log);
    }
}

/// One upstream, route or tenant, where the document is about one only.
fn read_singles(document: &mut SourceFields<'_>, draft: &mut Draft, log: &mut ImportLog) {
    let is_map = |document: &SourceFields<'_>, name: &str| {
        document.item.node.get(name).is_some_and(|node| !node.entries().is_empty())
    };
    for name in ["upstream", "route", "tenant"] {
        if !is_map(document, name) {
            continue;
        }
        let Some(item) = document.take(name) else { continue };
        one_of(&item, draft, log, |draft, log| match name {
            "upstream" => read_upstream(&item, true, draft, log),
            "route" => read_route(&item, true, draft, log),
            _ => tenants::read_one(&item, None, draft, log),
        });
    }
}

/// A list is of tenants if one of them has a parent or children; else of whatever holds a limit.
fn read_list(list: &SourceValue<'_>, draft: &mut Draft, log: &mut ImportLog) {
    if list.node.items().iter().any(|node| tenants::is_tenant(&SourceValue::root(node))) {
        return each_of(list, draft, log, |item, draft, log| tenants::read_one(item, None, draft, log));
    }
    each_of(list, draft, log, |item, draft, log| {
        if is_one_thing(item) {
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

/// Is it a `rate_limit` object, a tenant or a route, rather than something that holds them?
fn is_one_thing(item: &SourceValue<'_>) -> bool {
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
    let why =
        "how nodes share their counts is a setting of the server: copy it to the settings file as it is";
    document.leave("rate_limit_sync", why, log);
}

/// An object with a `rate_limit`, known by its id, alias or name.
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

/// An upstream is told from others by its host, or by a descriptor that the gateway must send. The
/// only one need not be told from any.
fn read_upstream(item: &SourceValue<'_>, is_only: bool, draft: &mut Draft, log: &mut ImportLog) {
    let Some(mut fields) = SourceFields::open(item, log) else { return };
    if let Some(routes) = fields.take("routes") {
        each_of(&routes, draft, log, |item, draft, log| read_route(item, false, draft, log));
    }
    let host = fields.take("host").and_then(|host| host.text(log));
    if !fields.item.has("rate_limit") {
        return fields.finish(log);
    }
    // Its routes stay, even if its limit cannot.
    one_of(item, draft, log, |draft, log| {
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
            let what = "an upstream without `host` is told by `descriptor:upstream`";
            let why = "a request does not say where it goes: send `upstream` among its descriptors";
            log.note_once(item, what, why);
            Some(vec![("descriptor:upstream".to_owned(), vec![id.to_owned()])])
        }
        (None, None) if is_only => {
            let why = "it is the only one, and has no `id`, `alias` or `host` to be told by";
            log.note(item, "the limit of this upstream is for all requests", why);
            Some(Vec::new())
        }
        (None, None) => {
            log.problem(item, "this upstream cannot be told from others", "`id`, `alias` or `host`");
            None
        }
    }
}

/// A route with a cost only is an entry of `routes`; one with a rate is a limit on that path.
fn read_route(item: &SourceValue<'_>, is_only: bool, draft: &mut Draft, log: &mut ImportLog) {
    let Some(mut fields) = SourceFields::open(item, log) else { return };
    let (path, methods) = read_match(&mut fields, log);
    let Some(found) = fields.take("rate_limit") else {
        return fields.finish(log);
    };
    if path.is_none() && is_only && is_rate(&found) {
        let why = "it is the only one, and has no `path`";
        log.note(item, "the limit of this route is for all requests", why);
    } else if path.is_none() {
        log.problem(item, "`path` is missing", "the path of the route");
        return;
    }
    let pattern = match path {
        Some((path, place)) => match path_pattern(&path, &place, log) {
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

/// Path and methods of a route: its own members, or those of `match` or `match.http`.
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

/// Adds a limit that is no tenant's: sharing and budgets mean nothing there.
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
        let why = "only tenants share: write the objects as `tenants`, each with `id` and `parent`";
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
