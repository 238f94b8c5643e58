//! The policy that an import builds, entry by entry.

mod entries;
mod finish;
mod names;
mod repair;
mod upstreams;

use std::collections::BTreeSet;

use crate::log::ImportLog;
use crate::source::SourceValue;
use names::unique;

pub(crate) use entries::{
    Conditions, DraftBlock, DraftLimit, DraftRoute, DraftTenant, DraftUpstream, LimitMembers, UpstreamLimit,
};
pub(crate) use finish::finish;
pub(crate) use names::{is_name, to_name};

/// A policy that is being built.
#[derive(Debug, Default)]
pub(crate) struct Draft {
    /// `defaults.mode: shadow`
    pub(crate) shadow: bool,
    /// Further members of `defaults`, as YAML: what the source does without being told.
    pub(crate) defaults: Vec<(&'static str, String)>,
    /// A comment above `defaults`.
    pub(crate) defaults_comment: Option<&'static str>,
    pub(crate) limits: Vec<DraftLimit>,
    pub(crate) upstreams: Vec<DraftUpstream>,
    pub(crate) routes: Vec<DraftRoute>,
    pub(crate) tenants: Vec<DraftTenant>,
    pub(crate) blocks: Vec<DraftBlock>,
    names: BTreeSet<String>,
    tenant_ids: BTreeSet<String>,
    groups: BTreeSet<String>,
    upstream_names: BTreeSet<String>,
    /// The limits of tenants for upstreams, until [`Draft::settle_upstreams`].
    upstream_limits: Vec<UpstreamLimit>,
}

/// How many entries the draft had at some time, to return to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mark {
    limits: usize,
    upstream_limits: usize,
    routes: usize,
    blocks: usize,
}

impl Draft {
    /// A name that a policy allows and no other limit has. If it differs from the wanted name, a note says so.
    pub(crate) fn claim(&mut self, wanted: &str, item: &SourceValue<'_>, log: &mut ImportLog) -> String {
        let name = self.claim_without_note(wanted);
        if name != wanted {
            let why = "names are unique and contain only letters, digits and `._:/-`";
            log.note(item, format!("`{wanted}` is renamed to `{name}`"), why);
        }
        name
    }

    /// The same without a note, for names that are not in the source.
    pub(crate) fn claim_without_note(&mut self, wanted: &str) -> String {
        unique(wanted, &mut self.names)
    }

    /// A name that no other group has.
    pub(crate) fn claim_group(&mut self, wanted: &str) -> String {
        unique(wanted, &mut self.groups)
    }

    /// Adds a tenant; `false` if there is one with its id already.
    pub(crate) fn add_tenant(&mut self, tenant: DraftTenant) -> bool {
        let is_new = self.tenant_ids.insert(tenant.id.clone());
        if is_new {
            self.tenants.push(tenant);
        }
        is_new
    }

    /// Is there a tenant with this id?
    pub(crate) fn has_tenant(&self, id: &str) -> bool {
        self.tenant_ids.contains(id)
    }

    /// The entries there are now, for [`Draft::undo_to`].
    pub(crate) fn mark(&self) -> Mark {
        Mark {
            limits: self.limits.len(),
            upstream_limits: self.upstream_limits.len(),
            routes: self.routes.len(),
            blocks: self.blocks.len(),
        }
    }

    /// Was a limit added since that is for this tenant alone?
    pub(crate) fn limits_tenant_since(&self, mark: Mark, tenant: &str) -> bool {
        let names_it =
            |(name, values): &(String, Vec<String>)| name == "tenant" && values.iter().any(|id| id == tenant);
        self.limits[mark.limits..].iter().any(|limit| limit.conditions.iter().any(names_it))
            || self.upstream_limits[mark.upstream_limits..].iter().any(|limit| limit.tenant == tenant)
    }

    /// Removes the entries that were added since.
    pub(crate) fn undo_to(&mut self, mark: Mark) {
        for limit in self.limits.drain(mark.limits..) {
            self.names.remove(&limit.name);
        }
        self.upstream_limits.truncate(mark.upstream_limits);
        self.routes.truncate(mark.routes);
        self.blocks.truncate(mark.blocks);
    }

    /// Does a limit have this name?
    pub(crate) fn has_name(&self, name: &str) -> bool {
        self.names.contains(name)
    }

    /// Has it no entries?
    pub(crate) fn is_empty(&self) -> bool {
        self.limits.is_empty() && self.routes.is_empty() && self.tenants.is_empty() && self.blocks.is_empty()
    }

    /// Has it no entries but tenants without a `rate_limit`?
    pub(crate) fn limits_nothing(&self) -> bool {
        let is_limited = |tenant: &DraftTenant| tenant.rate_limit.is_some() || !tenant.upstreams.is_empty();
        let limited = self.tenants.iter().any(is_limited);
        self.limits.is_empty() && self.routes.is_empty() && self.blocks.is_empty() && !limited
    }
}

#[cfg(test)]
mod tests {
    use super::names::NAME_BYTES_MAX;
    use super::*;
    use crate::terms::{DraftTerms, SustainedRate, UnitWindow};

    #[test]
    fn names_are_unique() {
        let mut draft = Draft::default();
        let names: Vec<String> = (0..3).map(|_| draft.claim_without_note("a b")).collect();
        assert_eq!(names, ["a-b", "a-b-2", "a-b-3"]);
        let long = "x".repeat(NAME_BYTES_MAX);
        draft.claim_without_note(&long);
        let second = draft.claim_without_note(&long);
        assert_eq!(second.len(), NAME_BYTES_MAX);
        assert!(second.ends_with("-2"));
    }

    #[test]
    fn what_is_taken_back_leaves_its_name() {
        let mut draft = Draft::default();
        let pace = SustainedRate { rate: 1, window: UnitWindow::SECOND };
        let add = |draft: &mut Draft| {
            let name = draft.claim_without_note("a");
            draft.limits.push(DraftLimit::new(name, DraftTerms::bucket(pace, None)));
        };
        add(&mut draft);
        let mark = draft.mark();
        add(&mut draft);
        draft.undo_to(mark);
        add(&mut draft);
        let names: Vec<&str> = draft.limits.iter().map(|limit| limit.name.as_str()).collect();
        assert_eq!(names, ["a", "a-2"]);
    }
}
