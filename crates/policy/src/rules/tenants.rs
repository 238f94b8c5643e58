//! The compiled tree of tenants.

use std::collections::HashMap;

use super::Numbers;
use crate::document::{BudgetMode, Sharing};

/// The tenants of a policy.
#[derive(Debug, Default)]
pub struct Tenants {
    pub(crate) nodes: Box<[Tenant]>,
    pub(crate) by_id: HashMap<Box<str>, usize>,
}

/// A tenant.
#[derive(Clone, Debug)]
pub struct Tenant {
    /// Its id.
    pub id: Box<str>,
    /// The index of its parent in [`Tenants::nodes`].
    pub parent: Option<usize>,
    /// Whether its limit binds the tenants below.
    pub sharing: Sharing,
    /// How its budget is used.
    pub budget: BudgetMode,
    /// Is its limit in shadow mode?
    pub shadow: bool,
    /// Its own numbers as written, before its budget caps them.
    pub own: Option<Numbers>,
    /// Its own numbers, capped by its budget.
    pub capped: Option<Numbers>,
    /// The numbers that apply: the lowest of its own and of those of all ancestors that are not private.
    pub effective: Option<Numbers>,
    /// The buckets that a request of this tenant takes tokens from, from the root down.
    pub(crate) charges: Vec<TenantCharge>,
}

/// A bucket that a request of a tenant takes tokens from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TenantCharge {
    pub(crate) rule: u32,
    /// Is it the tenant's own bucket, not that of an ancestor?
    pub(crate) is_own: bool,
}

impl Tenants {
    /// Does the policy have no tenants?
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// All tenants, in the order of the document.
    pub fn nodes(&self) -> &[Tenant] {
        &self.nodes
    }

    /// A tenant by its id.
    pub fn get(&self, id: &str) -> Option<&Tenant> {
        self.by_id.get(id).map(|&index| &self.nodes[index])
    }

    /// A tenant and its ancestors, from the root down.
    pub fn chain(&self, id: &str) -> Vec<&Tenant> {
        let mut chain: Vec<&Tenant> =
            std::iter::successors(self.get(id), |node| node.parent.map(|index| &self.nodes[index])).collect();
        chain.reverse();
        chain
    }
}
