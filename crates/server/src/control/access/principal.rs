//! A principal: who a request of the admin API comes from.

use std::sync::Arc;

use tidegate_database::{StoredToken, UnixMillis};
use tidegate_policy::Tenants;

use super::AccessRole;

/// Who a request comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Principal {
    /// The name in the audit, such as `token:3f2a`.
    pub actor: Arc<str>,
    /// What it may do.
    pub role: AccessRole,
    /// The tenant to whose subtree it is restricted, if it is.
    pub tenant: Option<Arc<str>>,
    /// When its token ends, if it does.
    pub expires: Option<UnixMillis>,
}

impl Principal {
    /// The holder of the one admin token of a server without a database.
    pub fn admin() -> Principal {
        Principal { actor: "admin token".into(), role: AccessRole::Admin, tenant: None, expires: None }
    }

    /// The holder of a token; `None` if its role is not known here.
    pub(super) fn of(token: &StoredToken) -> Option<Principal> {
        Some(Principal {
            actor: format!("token:{}", token.id).into(),
            role: token.role.parse().ok()?,
            tenant: token.tenant.as_deref().map(Arc::from),
            expires: token.expires_at,
        })
    }

    /// Is a tenant within the subtree that it may see? `None` is what belongs to no tenant.
    pub(crate) fn sees(&self, tenants: &Tenants, tenant: Option<&str>) -> bool {
        match (&self.tenant, tenant) {
            (None, _) => true,
            (Some(_), None) => false,
            (Some(own), Some(tenant)) => {
                let chain = tenants.chain(tenant);
                // A tenant that the policy does not list has the chain of the entry `*`, which does not end with its id.
                let is_listed = chain.last().is_some_and(|last| *last.id == *tenant);
                is_listed && chain.iter().any(|node| *node.id == **own)
            }
        }
    }

    /// The tenants that it sees; `None` is all of them. Its own is among them even if the policy no longer has it: what
    /// was recorded about it stays its own.
    pub(crate) fn visible_tenants(&self, tenants: &Tenants) -> Option<Vec<String>> {
        let own = self.tenant.as_deref()?;
        let listed = tenants.nodes().iter().map(|tenant| &*tenant.id);
        let below = listed.filter(|id| *id != own && self.sees(tenants, Some(id)));
        Some(std::iter::once(own).chain(below).map(str::to_owned).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_subtree_is_the_tenant_and_what_is_below_it() {
        let policy = "version: 1\nlimits: []\ntenants:\n\
            - { id: acme, rate_limit: { sustained: { rate: 9 } } }\n\
            - { id: shop, parent: acme, rate_limit: { sustained: { rate: 3 } } }\n\
            - { id: other, rate_limit: { sustained: { rate: 9 } } }\n\
            - { id: \"*\", rate_limit: { sustained: { rate: 1 } } }\n";
        let rules = tidegate_policy::RuleSet::from(tidegate_policy::Policy::parse(policy).expect("a policy"));
        let sees = |own: Option<&str>, tenant: Option<&str>| {
            Principal { tenant: own.map(Arc::from), ..Principal::admin() }.sees(rules.tenants(), tenant)
        };
        assert!(sees(None, None) && sees(None, Some("other")));
        assert!(sees(Some("acme"), Some("acme")) && sees(Some("acme"), Some("shop")));
        assert!(!sees(Some("shop"), Some("acme")), "not what is above");
        assert!(!sees(Some("acme"), Some("other")) && !sees(Some("acme"), Some("nobody")));
        assert!(!sees(Some("*"), Some("nobody")) && !sees(Some("acme"), None));
        let visible = |own: Option<&str>| {
            Principal { tenant: own.map(Arc::from), ..Principal::admin() }.visible_tenants(rules.tenants())
        };
        assert_eq!(visible(None), None);
        assert_eq!(visible(Some("acme")), Some(vec!["acme".to_owned(), "shop".to_owned()]));
        assert_eq!(visible(Some("gone")), Some(vec!["gone".to_owned()]));
    }
}
