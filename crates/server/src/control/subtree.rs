//! What a token sees of a policy if it is restricted to a tenant: the subtree of that tenant, and the entries that are
//! about tenants of the subtree alone.

use std::collections::{HashMap, HashSet};

use tidegate_document::{DocumentNode, ValueKind};

use super::access::Principal;
use super::api::ApiError;
use super::collection::Collection;

/// What a caller sees of a policy.
#[derive(Clone, Debug)]
pub(crate) enum Sight {
    /// Everything.
    Whole,
    /// The subtree of a tenant.
    Subtree {
        /// The tenant.
        top: String,
        /// It and all tenants below it.
        tenants: HashSet<String>,
        /// The groups of limits that the caller does not see.
        foreign_groups: HashSet<String>,
    },
}

/// The entry for tenants that are not listed.
const UNLISTED: &str = "*";

impl Sight {
    /// What a caller sees of a document.
    pub(crate) fn of(principal: &Principal, document: &DocumentNode) -> Sight {
        let Some(top) = &principal.tenant else { return Sight::Whole };
        let mut children: HashMap<&str, Vec<&str>> = HashMap::new();
        let mut tenants = HashSet::new();
        for tenant in document.get("tenants").map(DocumentNode::items).unwrap_or_default() {
            let Some(id) = member(tenant, "id") else { continue };
            if id == &**top {
                tenants.insert(id.to_owned());
            }
            if let Some(parent) = member(tenant, "parent") {
                children.entry(parent).or_default().push(id);
            }
        }
        let mut open: Vec<&str> = tenants.iter().map(|_| &**top).collect();
        while let Some(parent) = open.pop() {
            let below = children.remove(parent).unwrap_or_default();
            tenants.extend(below.iter().map(|id| (*id).to_owned()));
            open.extend(below);
        }
        let sight = Sight::Subtree { top: top.to_string(), tenants, foreign_groups: HashSet::new() };
        let limits = document.get("limits").map(DocumentNode::items).unwrap_or_default();
        let unseen = limits.iter().filter(|limit| !sight.sees(Collection::Limits, limit));
        let groups = unseen.filter_map(|limit| member(limit, "group")).map(str::to_owned).collect();
        match sight {
            Sight::Subtree { top, tenants, .. } => Sight::Subtree { top, tenants, foreign_groups: groups },
            Sight::Whole => Sight::Whole,
        }
    }

    /// Does the caller see a tenant?
    pub(crate) fn has_tenant(&self, id: &str) -> bool {
        match self {
            Sight::Whole => true,
            Sight::Subtree { tenants, .. } => tenants.contains(id),
        }
    }

    /// Does the caller see an entry?
    pub(crate) fn sees(&self, collection: Collection, entry: &DocumentNode) -> bool {
        if matches!(self, Sight::Whole) {
            return true;
        }
        match collection {
            Collection::Tenants => member(entry, "id").is_some_and(|id| self.has_tenant(id)),
            _ => {
                let named = named_tenants(collection, entry);
                !named.is_empty() && named.iter().all(|id| id.scalar().is_some_and(|id| self.has_tenant(id)))
            }
        }
    }

    /// Checks that the caller may change or remove an entry that it sees.
    ///
    /// # Errors
    /// 403 for its own tenant, for what is about that tenant itself, and for exemptions from limits.
    pub(crate) fn check_editable(
        &self,
        collection: Collection,
        entry: &DocumentNode,
    ) -> Result<(), ApiError> {
        let Sight::Subtree { top, .. } = self else { return Ok(()) };
        if collection == Collection::Allow {
            return Err(ApiError::Outside(format!(
                "the token is restricted to `{top}`: entries of `allow` come before all limits, so they are for \
                 tokens without a tenant"
            )));
        }
        let is_about_top = match collection {
            Collection::Tenants => member(entry, "id") == Some(top),
            _ => named_tenants(collection, entry).iter().any(|id| id.scalar() == Some(top)),
        };
        match is_about_top {
            true => Err(ApiError::Outside(format!(
                "the token is restricted to `{top}`, and that entry is its parent's to edit"
            ))),
            false => Ok(()),
        }
    }

    /// Checks that the new content of an entry keeps it inside the caller's subtree, below its own tenant.
    ///
    /// # Errors
    /// 403 if it does not.
    pub(crate) fn check_written(&self, collection: Collection, entry: &DocumentNode) -> Result<(), ApiError> {
        let Sight::Subtree { top, foreign_groups, .. } = self else { return Ok(()) };
        self.check_editable(collection, entry)?;
        if collection == Collection::Limits
            && let Some(group) = member(entry, "group").filter(|group| foreign_groups.contains(*group))
        {
            // The first limit of a group that matches is the only one of it that counts.
            return Err(ApiError::Outside(format!(
                "the token is restricted to `{top}`: the group `{group}` has limits of others, which this one could \
                 take the place of"
            )));
        }
        let is_inside = match collection {
            Collection::Tenants => {
                let parent = member(entry, "parent").is_some_and(|parent| self.has_tenant(parent));
                parent && member(entry, "id") != Some(UNLISTED)
            }
            _ => self.sees(collection, entry),
        };
        let wanted = match collection {
            _ if is_inside => return Ok(()),
            Collection::Tenants => "`parent` must be that tenant or one below it",
            Collection::Limits => "`match.tenant` must name tenants below it, and no others",
            Collection::Allow | Collection::Block => "`tenant` must name tenants below it, and no others",
            Collection::Routes | Collection::Upstreams | Collection::Bursts => {
                "such entries are about all tenants"
            }
        };
        Err(ApiError::Outside(format!("the token is restricted to `{top}`: {wanted}")))
    }
}

/// The tenants that an entry is about; none for what is about requests of all tenants.
fn named_tenants(collection: Collection, entry: &DocumentNode) -> &[DocumentNode] {
    let condition = match collection {
        Collection::Limits => entry.get("match").and_then(|conditions| conditions.get("tenant")),
        Collection::Allow | Collection::Block => entry.get("tenant"),
        Collection::Routes | Collection::Upstreams | Collection::Bursts | Collection::Tenants => None,
    };
    let Some(condition) = condition else { return &[] };
    match &condition.kind {
        ValueKind::List(items) => items,
        _ => std::slice::from_ref(condition),
    }
}

fn member<'d>(node: &'d DocumentNode, name: &str) -> Option<&'d str> {
    node.get(name)?.scalar()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::access::AccessRole;

    fn node(text: &str) -> DocumentNode {
        tidegate_document::parse(text).expect("a document")
    }

    #[test]
    fn a_restricted_token_sees_its_subtree_and_what_is_about_it_alone() {
        let document = node(
            "tenants: [{ id: root }, { id: t, parent: root }, { id: low, parent: mid }, { id: mid, parent: t }, \
             { id: other, parent: root }, { id: 7, parent: t }]",
        );
        let principal = Principal {
            actor: "a".into(),
            role: AccessRole::Editor,
            tenant: Some("t".into()),
            expires: None,
        };
        let sight = Sight::of(&principal, &document);
        for (id, inside) in
            [("t", true), ("mid", true), ("low", true), ("7", true), ("root", false), ("other", false)]
        {
            assert_eq!(sight.has_tenant(id), inside, "{id}");
        }
        let sees = |collection, text: &str| sight.sees(collection, &node(text));
        assert!(sees(Collection::Limits, "{ name: a, match: { tenant: [mid, low] } }"));
        assert!(!sees(Collection::Limits, "{ name: a, match: { tenant: [mid, other] } }"));
        assert!(!sees(Collection::Limits, "{ name: a, match: { tenant: [] } }"));
        assert!(!sees(Collection::Limits, "{ name: a, match: { plan: free } }"));
        assert!(sees(Collection::Allow, "{ tenant: low, ip: 10.0.0.1 }"));
        assert!(!sees(Collection::Routes, "{ path: /a, unless: { tenant: low } }"));
        let written = |text: &str| sight.check_written(Collection::Tenants, &node(text)).is_ok();
        assert!(written("{ id: new, parent: t }"));
        assert!(!written("{ id: new, parent: root }") && !written("{ id: new }"));
        assert!(!written("{ id: '*', parent: t }"), "it would apply to tenants of others");
        let editable = |collection, text: &str| sight.check_editable(collection, &node(text)).is_ok();
        assert!(!editable(Collection::Tenants, "{ id: t }") && editable(Collection::Tenants, "{ id: mid }"));
        assert!(!editable(Collection::Block, "{ tenant: [mid, t] }"), "it is about the tenant itself");
        assert!(editable(Collection::Block, "{ tenant: mid }"));
        assert!(!editable(Collection::Allow, "{ tenant: mid }"), "it would exempt from limits above");
        let gone = Principal { tenant: Some("gone".into()), ..principal };
        assert!(!Sight::of(&gone, &document).has_tenant("gone"));
    }
}
