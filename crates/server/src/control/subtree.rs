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
        Sight::Subtree { top: top.to_string(), tenants }
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
            Collection::Limits => {
                self.is_about(entry.get("match").and_then(|conditions| conditions.get("tenant")))
            }
            Collection::Allow | Collection::Block => self.is_about(entry.get("tenant")),
            // These are about requests of all tenants.
            Collection::Routes | Collection::Upstreams | Collection::Bursts => false,
        }
    }

    /// Checks that the caller may change or remove an entry that it sees.
    ///
    /// # Errors
    /// 403 for its own tenant.
    pub(crate) fn check_editable(&self, collection: Collection, name: &str) -> Result<(), ApiError> {
        match self {
            Sight::Subtree { top, .. } if collection == Collection::Tenants && name == top => {
                Err(ApiError::Outside(format!(
                    "the token is restricted to `{top}`, and that entry is its parent's to edit"
                )))
            }
            _ => Ok(()),
        }
    }

    /// Checks that the new content of an entry keeps it inside the caller's subtree.
    ///
    /// # Errors
    /// 403 if it does not.
    pub(crate) fn check_written(&self, collection: Collection, entry: &DocumentNode) -> Result<(), ApiError> {
        let Sight::Subtree { top, .. } = self else { return Ok(()) };
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
            Collection::Limits => "`match.tenant` must name tenants of its subtree, and no others",
            Collection::Allow | Collection::Block => {
                "`tenant` must name tenants of its subtree, and no others"
            }
            Collection::Routes | Collection::Upstreams | Collection::Bursts => {
                "such entries are about all tenants"
            }
        };
        Err(ApiError::Outside(format!("the token is restricted to `{top}`: {wanted}")))
    }

    /// Does a condition name tenants of the subtree, and no others?
    fn is_about(&self, condition: Option<&DocumentNode>) -> bool {
        let Some(condition) = condition else { return false };
        let named = match &condition.kind {
            ValueKind::List(items) => &items[..],
            _ => std::slice::from_ref(condition),
        };
        let has = |id: &DocumentNode| id.scalar().is_some_and(|id| self.has_tenant(id));
        !named.is_empty() && named.iter().all(has)
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
        assert!(sight.check_editable(Collection::Tenants, "t").is_err());
        assert!(sight.check_editable(Collection::Tenants, "mid").is_ok());
        let gone = Principal { tenant: Some("gone".into()), ..principal };
        assert!(!Sight::of(&gone, &document).has_tenant("gone"));
    }
}
