//! The tenant tree: a list with parents by name, or objects with children in them.

use crate::import::draft::{Draft, DraftTenant, fits};
use crate::import::item::{SourceFields, SourceValue};
use crate::import::log::ImportLog;
use crate::import::one_of;

use super::rate_limit::{self, OagwRateLimit};

/// Only a tenant has a parent or children.
pub(super) fn is_tenant(item: &SourceValue<'_>) -> bool {
    item.has("id") && (item.has("parent") || item.has("children"))
}

/// Reads a tenant and what is nested in it; how deep that can be is bounded by the parser.
pub(super) fn read_one(item: &SourceValue<'_>, parent: Option<&str>, draft: &mut Draft, log: &mut ImportLog) {
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
    // A tenant whose limit cannot be used stays in the tree, without one.
    let found = fields.take("rate_limit");
    let found = found.and_then(|found| log.attempt(&found, |log| rate_limit::read(&found, log)));
    let children = fields.take("children");
    fields.finish(log);
    let rate_limit = found.and_then(|found| members(found, log));
    let id = own.as_ref().map(|(id, ..)| id.clone());
    if let Some((id, written, description)) = own {
        let parent = written.or_else(|| parent.map(str::to_owned));
        let (at, path) = (item.at, item.path.clone());
        let tenant = DraftTenant { id: id.clone(), parent, description, at, path, rate_limit };
        // Requests name tenants by their ids, so an id cannot be changed as a name can.
        if !fits(&id) {
            log.skip(item, format!("`{id}` is no id of a tenant"), "letters, digits and `._:/-`");
        } else if !draft.add_tenant(tenant) {
            log.skip(item, format!("the tenant `{id}` is there twice"), "each tenant once");
        }
    }
    for child in children.map(|children| children.list(log)).unwrap_or_default() {
        one_of(&child, draft, log, |draft, log| read_one(&child, id.as_deref(), draft, log));
    }
}

/// A tenant whose parent is not carried over, or not in the document, is a root.
pub(super) fn part_from_absent_parents(draft: &mut Draft, log: &mut ImportLog) {
    let mut tenants = std::mem::take(&mut draft.tenants);
    for tenant in &mut tenants {
        if let Some(parent) = tenant.parent.take_if(|parent| !draft.has_tenant(parent)) {
            let what = format!("the parent of `{}` is left out", tenant.id);
            let why = format!("there is no tenant `{parent}` to have; what it would have bounded is not");
            log.note_at(tenant.at, tenant.path.clone(), what, why);
        }
    }
    draft.tenants = tenants;
}

/// The members of a tenant's `rate_limit`, in the order in which people write them.
fn members(found: OagwRateLimit<'_>, log: &mut ImportLog) -> Option<Vec<(&'static str, String)>> {
    let mut members = Vec::new();
    members.extend(found.sharing.map(|(_, sharing)| ("sharing", sharing)));
    if !matches!(found.scope.as_str(), "tenant" | "global") {
        members.push(("scope", found.scope));
    }
    match found.terms {
        Some(terms) => members.extend(terms.members()),
        None => {
            let what = "this tenant has no rate of its own";
            let why = "sharing and budget need one: what is above it applies instead";
            log.note(&found.item, what, why);
            return None;
        }
    }
    members.extend(found.budget.map(|(_, budget)| ("budget", budget)));
    Some(members)
}
