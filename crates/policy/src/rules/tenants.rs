//! The compiled tree of tenants.

use std::collections::HashMap;

use super::Numbers;
use crate::document::{BudgetMode, Sharing};

/// The tenants of a policy.
#[derive(Debug, Default)]
pub struct Tenants {
    pub(crate) nodes: Box<[Tenant]>,
    pub(crate) by_id: HashMap<Box<str>, usize>,
    /// The entry for every tenant that is not listed.
    pub(crate) unlisted: Option<usize>,
}

/// A tenant.
#[derive(Clone, Debug)]
pub struct Tenant {
    /// Its id; `*` for the entry of all tenants that are not listed.
    pub id: Box<str>,
    /// The index of its parent in [`Tenants::nodes`].
    pub parent: Option<usize>,
    /// How many ancestors it has.
    pub depth: u32,
    /// Its limit for all requests.
    pub limit: ResolvedTenantLimit,
    /// Its limits for single upstreams, by the number of the upstream.
    pub upstreams: Vec<(u32, ResolvedTenantLimit)>,
    /// The buckets that a request of this tenant takes tokens from, from the root down.
    pub(crate) charges: Vec<TenantCharge>,
    /// The same for requests to an upstream for which it or an ancestor has a limit, ordered by the upstream's number.
    pub(crate) upstream_charges: Vec<(u32, Vec<TenantCharge>)>,
}

/// The limit of a tenant, and what remains of it after those of its ancestors. There is one for all requests, and one
/// for each upstream.
#[derive(Clone, Debug)]
pub struct ResolvedTenantLimit {
    /// Whether the limit binds the tenants below.
    pub sharing: Sharing,
    /// How its budget is used.
    pub budget: BudgetMode,
    /// Is the limit itself in shadow mode? Then it caps no tenant below.
    pub shadow: bool,
    /// Its own numbers as written, before its budget caps the rate.
    pub own: Option<Numbers>,
    /// Its own numbers, with the rate capped by its budget.
    pub capped: Option<Numbers>,
    /// The numbers that apply: the lowest of its own and of those of all ancestors that are not private.
    pub effective: Option<Numbers>,
    /// What its budget has left for children without numbers of their own, if there are any.
    pub remainder: Option<Numbers>,
    /// What its children are allotted, if its budget is allocated.
    pub allocation: Option<Allocation>,
}

/// What the children of an allocated budget are allotted together, per window of the budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Allocation {
    /// The sum of the children's rates, rounded up.
    pub sum: u64,
    /// The budget.
    pub total: u64,
    /// By how much the sum may exceed the budget, in millionths.
    pub overcommit_millionths: u64,
    /// What may still be allotted: the budget with its overcommitment, without the sum, rounded down.
    pub left: u64,
    /// Is the sum larger than the budget with its overcommitment?
    pub is_exceeded: bool,
}

/// An allocated budget of a tenant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TenantAllocation<'t> {
    /// The id of the tenant that has the budget.
    pub tenant: &'t str,
    /// The number of the upstream that it is for; `None`: for all requests.
    pub upstream: Option<u32>,
    /// What its children are allotted.
    pub allocation: Allocation,
}

/// A bucket that a request of a tenant takes tokens from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TenantCharge {
    /// The number of its rule.
    pub rule: u32,
    /// The index of the tenant whose limit it is.
    pub node: u32,
    /// Which bucket it is.
    pub bucket: TenantBucket,
    /// Is it of a limit for one upstream?
    pub is_of_upstream: bool,
}

/// Which bucket of a tenant's limit a request takes tokens from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TenantBucket {
    /// That of the tenant that the request names, divided by its `scope`.
    Own,
    /// That of an ancestor, for all tenants below together.
    Aggregate,
    /// What remains of an ancestor's budget, for all children without numbers of their own together.
    Remainder,
    /// The limit of an ancestor, enforced for the named tenant alone, because its own limit would loosen it.
    Enforced,
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

    /// The entry of a tenant: the one with its id, else the one for tenants that are not listed.
    pub fn get(&self, id: &str) -> Option<&Tenant> {
        self.by_id.get(id).copied().or(self.unlisted).map(|index| &self.nodes[index])
    }

    /// The entry of a tenant and its ancestors, from the root down.
    pub fn chain(&self, id: &str) -> Vec<&Tenant> {
        let mut chain: Vec<&Tenant> =
            std::iter::successors(self.get(id), |node| node.parent.map(|index| &self.nodes[index])).collect();
        chain.reverse();
        chain
    }

    /// The ancestor whose limit denied a request of this tenant, rather than the tenant's own; `rule` is the number of
    /// the rule that denied it.
    pub fn contended(&self, id: &str, upstream: Option<u32>, rule: u32) -> Option<&Tenant> {
        let charges = self.get(id)?.charges(upstream);
        let charge =
            charges.iter().find(|charge| charge.rule == rule && charge.bucket != TenantBucket::Own)?;
        self.nodes.get(charge.node as usize)
    }

    /// The tenants from whose limits the effective rate and burst of a tenant come, in this order: itself or ancestors.
    /// `upstream` is the number of an upstream; `None`: for all requests. `None` if nothing limits it there.
    pub fn origins(&self, id: &str, upstream: Option<u32>) -> Option<(&str, &str)> {
        let chain = self.chain(id);
        let named = chain.last().copied()?;
        // From the tenant up: of equal numbers, the nearest count.
        let binding = chain.into_iter().rev().filter_map(|tenant| {
            let limit = tenant.limit_for(upstream)?;
            let binds = std::ptr::eq(tenant, named) || (limit.sharing != Sharing::Private && !limit.shadow);
            Some((&*tenant.id, limit.capped.filter(|_| binds)?))
        });
        let binding: Vec<(&str, Numbers)> = binding.collect();
        let per_time = |one: &Numbers, other: &Numbers| u128::from(one.rate) * u128::from(other.window.get());
        let rate = binding.iter().min_by(|(_, a), (_, b)| per_time(a, b).cmp(&per_time(b, a)))?;
        let burst = binding.iter().min_by_key(|(_, numbers)| numbers.capacity)?;
        Some((rate.0, burst.0))
    }

    /// The allocated budgets that the numbers of a listed tenant count in: those of its parent, then its own, each for
    /// all requests before those for single upstreams.
    pub fn allocations(&self, id: &str) -> Vec<TenantAllocation<'_>> {
        let Some(&index) = self.by_id.get(id) else { return Vec::new() };
        let tenant = &self.nodes[index];
        let parent = tenant.parent.map(|parent| &self.nodes[parent]);
        parent.into_iter().chain([tenant]).flat_map(Tenant::allocations).collect()
    }

    /// How many generations of tenants there are.
    pub fn generations(&self) -> u32 {
        self.nodes.iter().map(|node| node.depth + 1).max().unwrap_or_default()
    }
}

impl Tenant {
    /// The buckets that a request of this tenant takes tokens from, from the root down. `upstream` is the number of the
    /// upstream that the request goes to.
    pub fn charges(&self, upstream: Option<u32>) -> &[TenantCharge] {
        let of_upstream = |upstream: u32| {
            let found = self.upstream_charges.binary_search_by_key(&upstream, |(number, _)| *number).ok();
            found.map(|index| &self.upstream_charges[index].1[..])
        };
        upstream.and_then(of_upstream).unwrap_or(&self.charges)
    }

    /// Its limit for an upstream; `None`: for all requests.
    fn limit_for(&self, upstream: Option<u32>) -> Option<&ResolvedTenantLimit> {
        match upstream {
            None => Some(&self.limit),
            Some(upstream) => {
                self.upstreams.iter().find(|(number, _)| *number == upstream).map(|(_, limit)| limit)
            }
        }
    }

    fn allocations(&self) -> impl Iterator<Item = TenantAllocation<'_>> {
        let of_upstreams = self.upstreams.iter().map(|(upstream, limit)| (Some(*upstream), limit));
        std::iter::once((None, &self.limit)).chain(of_upstreams).filter_map(|(upstream, limit)| {
            Some(TenantAllocation { tenant: &self.id, upstream, allocation: limit.allocation? })
        })
    }

    /// All its limits: for all requests, then for single upstreams.
    pub(crate) fn limits_mut(&mut self) -> impl Iterator<Item = &mut ResolvedTenantLimit> {
        std::iter::once(&mut self.limit).chain(self.upstreams.iter_mut().map(|(_, limit)| limit))
    }
}

impl ResolvedTenantLimit {
    /// Its numbers, for changing them.
    pub(crate) fn numbers_mut(&mut self) -> impl Iterator<Item = &mut Numbers> {
        [&mut self.own, &mut self.capped, &mut self.effective, &mut self.remainder].into_iter().flatten()
    }
}
