//! The entries of `tenants` as written.

use crate::{Descriptor, Span, Spanned};

use super::LimitTerms;

/// An entry of `tenants`.
#[derive(Clone, Debug)]
pub struct TenantEntry {
    /// Where it is, as a path: `tenants[3]`.
    pub path: String,
    /// The whole entry.
    pub at: Span,
    /// `id`
    pub id: Spanned<String>,
    /// `enabled`: a tenant that is switched off has no limit, but is still known.
    pub enabled: bool,
    /// `parent`
    pub parent: Option<Spanned<String>>,
    /// `rate_limit`
    pub rate_limit: Option<TenantLimit>,
    /// `upstreams`: limits for requests to one upstream.
    pub upstreams: Vec<TenantUpstream>,
}

/// An entry of `upstreams` of a tenant.
#[derive(Clone, Debug)]
pub struct TenantUpstream {
    /// The name of the upstream.
    pub name: Spanned<String>,
    /// `rate_limit`
    pub rate_limit: Option<TenantLimit>,
}

/// `rate_limit` of a tenant.
#[derive(Clone, Debug)]
pub struct TenantLimit {
    /// Where it is, as a path: `tenants[3].rate_limit`.
    pub path: String,
    /// The whole of it.
    pub at: Span,
    /// `sharing`
    pub sharing: Sharing,
    /// `budget`
    pub budget: Option<Budget>,
    /// `scope`, if it adds a descriptor; `tenant` and `global` add none.
    pub scope: Option<Spanned<Descriptor>>,
    /// Its other fields.
    pub terms: LimitTerms,
}

/// `sharing`
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sharing {
    /// Does not bind the tenants below.
    #[default]
    Private,
    /// Binds the tenants below.
    Inherit,
    /// Binds the tenants below.
    Enforce,
}

/// `budget`
#[derive(Clone, Copy, Debug)]
pub struct Budget {
    /// Where it was written.
    pub at: Span,
    /// `mode`
    pub mode: BudgetMode,
    /// `total`, at least one.
    pub total: Option<Spanned<u64>>,
    /// `overcommit_ratio`, in millionths: one to two.
    pub overcommit: Option<Spanned<u32>>,
    /// `remainder`
    pub remainder: Remainder,
}

/// `budget.remainder`: what happens to the part of an allocated budget that no child has been allotted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Remainder {
    /// The children without numbers of their own share it.
    #[default]
    Shared,
    /// Nobody gets it.
    Reserve,
}

/// `budget.mode`
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BudgetMode {
    /// There is no budget.
    #[default]
    Unlimited,
    /// The rates of the tenants below must fit in it.
    Allocated,
    /// The tenants below take tokens from it.
    Shared,
}
