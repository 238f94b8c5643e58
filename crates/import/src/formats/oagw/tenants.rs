//! The tenant tree: a list of tenants that name their parents, or nested objects with `children`.

use crate::draft::{Draft, DraftTenant, is_name};
use crate::formats::read_or_undo;
use crate::log::ImportLog;
use crate::source::{SourceFields, SourceValue};

use super::rate_limit::{self, OagwRateLimit};
use super::{Place, read_upstreams};

/// Is it a tenant? Only tenants have a parent or children.
pub(crate) fn is_tenant(item: &SourceValue<'_>) -> bool {
    item.has("id") && ["parent", "parent_id", "children"].iter().any(|name| item.has(name))
}

/// Reads a tenant and its children. The parser bounds the depth of nesting.
pub(crate) fn read_one(item: &SourceValue<'_>, parent: Option<&str>, draft: &mut Draft, log: &mut ImportLog) {
    let Some(mut fields) = SourceFields::open(item, log) else { return };
    let own = log.attempt(item, |log| {
        let id = fields.take_any(&["id", "name"]).and_then(|id| id.text(log));
        let written = fields.take_any(&["parent", "parent_id"]).and_then(|parent| parent.text(log));
        let description = fields.text("description", log);
        if id.is_none() {
            log.problem(item, "`id` is missing", "the tenant's id");
        }
        Some((id?, written, description))
    });
    // A tenant whose limit cannot be read stays in the tree without a limit.
    let found = fields.take("rate_limit");
    let found = found.and_then(|found| log.attempt(&found, |log| rate_limit::read(&found, log)));
    let enabled = fields.take("enabled");
    if let Some(item) = enabled.filter(|enabled| enabled.flag(log) == Some(false)) {
        let why = "the limits of the tenant apply here all the same: remove them if they should not";
        log.note(&item, "`enabled: false` is left out", why);
    }
    let children = fields.take("children");
    let upstreams = fields.take("upstreams");
    fields.finish(log);
    let rate_limit = found.and_then(|found| members(found, log));
    let id = own.as_ref().map(|(id, ..)| id.clone());
    if let Some((id, written, description)) = own {
        let parent = written.or_else(|| parent.map(str::to_owned));
        let (at, path) = (item.at, item.path.clone());
        let tenant =
            DraftTenant { id: id.clone(), parent, description, at, path, rate_limit, upstreams: Vec::new() };
        // Requests name tenants by id, so an id cannot be replaced by a similar one, as names of limits are.
        if !is_name(&id) {
            log.skip(item, format!("`{id}` is not a valid tenant id"), "letters, digits and `._:/-`");
        } else if !draft.add_tenant(tenant) {
            log.skip(item, format!("the tenant `{id}` appears twice"), "each tenant once");
        }
    }
    if let (Some(id), Some(upstreams)) = (&id, upstreams) {
        let place = Place { tenant: Some(id.clone()), ..Place::default() };
        read_upstreams(&upstreams, &place, draft, log);
    }
    for child in children.map(|children| children.list(log)).unwrap_or_default() {
        read_or_undo(&child, draft, log, |draft, log| read_one(&child, id.as_deref(), draft, log));
    }
}

/// Makes roots of the tenants whose parent was skipped or is not in the document.
pub(crate) fn detach_from_missing_parents(draft: &mut Draft, log: &mut ImportLog) {
    let mut tenants = std::mem::take(&mut draft.tenants);
    for tenant in &mut tenants {
        if let Some(parent) = tenant.parent.take_if(|parent| !draft.has_tenant(parent)) {
            let what = format!("the parent of `{}` is left out", tenant.id);
            let why = format!("there is no tenant `{parent}`, so its limits do not apply to this one");
            log.note_at(tenant.at, tenant.path.clone(), what, why);
        }
    }
    draft.tenants = tenants;
}

/// The members of a tenant's `rate_limit`, in the usual order.
pub(crate) fn members(found: OagwRateLimit<'_>, log: &mut ImportLog) -> Option<Vec<(&'static str, String)>> {
    let mut members = Vec::new();
    members.extend(found.sharing.map(|(_, sharing)| ("sharing", sharing)));
    match found.scope.as_str() {
        "tenant" => {}
        "global" => {
            let what = "the scope `global` of a tenant's limit is the tenant";
            log.note(&found.item, what, "a tenant's limit counts the requests of that tenant");
        }
        _ => members.push(("scope", found.scope)),
    }
    match found.terms {
        Some(terms) => members.extend(terms.members()),
        None => {
            let why = "it has no rate, which its other members need; the limits of the tenant's parents apply instead";
            log.note(&found.item, "`rate_limit` is left out", why);
            return None;
        }
    }
    members.extend(found.budget.map(|(_, budget)| ("budget", budget)));
    Some(members)
}
