//! A principal: who a request of the admin API comes from.

use std::sync::Arc;

use super::Role;

/// Who a request comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Principal {
    /// The name in the audit, such as `token:3f2a`.
    pub actor: Arc<str>,
    /// What it may do.
    pub role: Role,
    /// The tenant to whose subtree it is restricted, if it is.
    pub tenant: Option<Arc<str>>,
}

impl Principal {
    /// The holder of the one admin token of a server without a database.
    pub fn admin() -> Principal {
        Principal { actor: "admin token".into(), role: Role::Admin, tenant: None }
    }
}
