//! OAGW's `rate_limit` objects in all their shapes, of upstreams, routes and tenants.
//!
//! A limit applies where it stands: that of an upstream to requests to that upstream, that of a route to its path (and its
//! upstream), that of a tenant to the tenant and those below it, everywhere or for one upstream.

mod rate_limit;
mod routes;
mod tenants;
mod upstreams;

use super::{read_each, read_or_undo};
use crate::draft::{Conditions, Draft, DraftLimit};
use crate::log::ImportLog;
use crate::source::{SourceFields, SourceValue};
use rate_limit::OagwRateLimit;
use upstreams::is_upstream;

/// A map with one of these members is a `rate_limit` object.
const RATE_MEMBERS: &[&str] = &["sustained", "rate", "tokens_per_second"];

/// Where an upstream or a route stands: within an upstream, within a tenant.
#[derive(Clone, Debug, Default)]
struct Place {
    upstream: Option<String>,
    tenant: Option<String>,
    /// Is it the only one of its kind in the document?
    is_only: bool,
}

impl Place {
    /// The place of the only upstream or route of a document.
    fn only() -> Place {
        Place { is_only: true, ..Place::default() }
    }

    fn conditions(&self) -> Conditions {
        let parts = [("upstream", &self.upstream), ("tenant", &self.tenant)];
        parts.iter().filter_map(|(name, value)| Some(((*name).to_owned(), vec![(*value).clone()?]))).collect()
    }
}

/// What an object says about its limit besides the numbers.
#[derive(Debug)]
struct About {
    description: Option<String>,
    enabled: bool,
}

impl About {
    fn read(fields: &mut SourceFields<'_>, log: &mut ImportLog) -> About {
        let description = fields.text("description", log);
        About { description, enabled: fields.flag("enabled", log).unwrap_or(true) }
    }
}

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
    draft.settle_upstreams(log);
}

fn read_document(root: &SourceValue<'_>, draft: &mut Draft, log: &mut ImportLog) {
    let Some(mut document) = SourceFields::open(root, log) else { return };
    let mut place = Place::default();
    if let Some(upstreams) = document.take("upstreams") {
        read_upstreams(&upstreams, &place, draft, log);
    }
    place.upstream = read_single_upstream(&mut document, draft, log);
    if let Some(routes) = document.take("routes") {
        read_each(&routes, draft, log, |item, draft, log| routes::read(item, &place, draft, log));
    }
    if let Some(tenants) = document.take("tenants") {
        read_each(&tenants, draft, log, |item, draft, log| tenants::read_one(item, None, draft, log));
    }
    read_singles(&mut document, place, draft, log);
    read_sync(&mut document, log);
    if document.item.has("rate_limit") {
        read_or_undo(root, draft, log, |draft, log| read_holder(document, draft, log));
    } else {
        document.finish(log);
    }
}

/// Reads a list of upstreams, or a map of them by name.
fn read_upstreams(item: &SourceValue<'_>, place: &Place, draft: &mut Draft, log: &mut ImportLog) {
    if !item.is_map() {
        return read_each(item, draft, log, |item, draft, log| {
            upstreams::read(item, None, place, draft, log);
        });
    }
    for (name, item) in SourceFields::open(item, log).map(|fields| fields.entries()).unwrap_or_default() {
        read_or_undo(&item, draft, log, |draft, log| {
            upstreams::read(&item, Some(&name), place, draft, log);
        });
    }
}

/// Is this member a map with something in it?
fn has_map(fields: &SourceFields<'_>, name: &str) -> bool {
    fields.item.node.get(name).is_some_and(|node| !node.entries().is_empty())
}

/// Reads `upstream`, for documents with only one, and returns its name: the routes beside it are its routes.
fn read_single_upstream(
    document: &mut SourceFields<'_>,
    draft: &mut Draft,
    log: &mut ImportLog,
) -> Option<String> {
    let item = has_map(document, "upstream").then(|| document.take("upstream")).flatten()?;
    let mut name = None;
    read_or_undo(&item, draft, log, |draft, log| {
        name = upstreams::read(&item, None, &Place::only(), draft, log);
    });
    name
}

/// Reads `route` and `tenant`, for documents with only one of a kind.
fn read_singles(document: &mut SourceFields<'_>, place: Place, draft: &mut Draft, log: &mut ImportLog) {
    let place = Place { is_only: true, ..place };
    for name in ["route", "tenant"] {
        if !has_map(document, name) {
            continue;
        }
        let Some(item) = document.take(name) else { continue };
        read_or_undo(&item, draft, log, |draft, log| match name {
            "route" => routes::read(&item, &place, draft, log),
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
        let upstream = read_single_upstream(&mut fields, draft, log);
        read_singles(&mut fields, Place { upstream, ..Place::default() }, draft, log);
        read_sync(&mut fields, log);
        if fields.item.has("rate_limit") {
            read_holder(fields, draft, log);
        } else {
            fields.finish(log);
        }
    });
}

/// Is it a single `rate_limit` object, tenant, route or upstream, rather than a document with several?
fn is_single_item(item: &SourceValue<'_>) -> bool {
    is_rate(item) || tenants::is_tenant(item) || is_route(item) || is_upstream(item)
}

fn is_rate(item: &SourceValue<'_>) -> bool {
    RATE_MEMBERS.iter().any(|name| item.has(name))
}

fn is_route(item: &SourceValue<'_>) -> bool {
    item.has("path") || item.has("match")
}

fn read_one(item: &SourceValue<'_>, draft: &mut Draft, log: &mut ImportLog) {
    if is_rate(item) {
        let bare = rate_limit::read(item, log);
        let about = About { description: None, enabled: true };
        add_limit("rate-limit", bare, Vec::new(), about, draft, log);
    } else if tenants::is_tenant(item) {
        tenants::read_one(item, None, draft, log);
    } else if is_route(item) {
        routes::read(item, &Place::default(), draft, log);
    } else {
        upstreams::read(item, None, &Place::default(), draft, log);
    }
}

fn read_sync(document: &mut SourceFields<'_>, log: &mut ImportLog) {
    let why = "this is a setting of the server: copy it unchanged to the settings file";
    document.leave_out("rate_limit_sync", why, log);
}

/// Reads an object with a `rate_limit` for all requests; the limit is named by its id, alias or name.
fn read_holder(mut fields: SourceFields<'_>, draft: &mut Draft, log: &mut ImportLog) {
    let name = fields.take_any(&["id", "alias", "name"]).and_then(|name| name.text(log));
    let about = About::read(&mut fields, log);
    let found = fields.take("rate_limit").and_then(|item| rate_limit::read(&item, log));
    fields.finish(log);
    let name = name.unwrap_or_else(|| "rate-limit".to_owned());
    add_limit(&name, found, Vec::new(), about, draft, log);
}

/// Adds a limit that does not belong to a tenant. `sharing` and `budget` have no meaning for it.
fn add_limit(
    name: &str,
    found: Option<OagwRateLimit<'_>>,
    conditions: Conditions,
    about: About,
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
    let About { description, enabled } = about;
    draft.limits.push(DraftLimit { description, enabled, conditions, key, ..DraftLimit::new(name, terms) });
}

#[cfg(test)]
mod tests;
