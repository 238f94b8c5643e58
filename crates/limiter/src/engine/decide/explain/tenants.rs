//! Explains the limits along a chain of tenants.

use tidegate_policy::document::{BudgetMode, Sharing};
use tidegate_policy::{Facts, ResolvedTenantLimit, Tenant, TenantBucket, TenantCharge};

use super::{Buckets, ExplainedBucket};
use crate::engine::active::Active;
use crate::engine::decision::{Refuser, Ruling};

/// A limit of a tenant in the chain.
#[derive(Clone, Debug)]
pub struct ExplainedTenant {
    /// The name of the limit without `tenant:`: the id of the tenant, followed by `/` and the upstream if the limit
    /// is for one, and by `:remainder` for what its budget has left.
    pub name: String,
    /// The id of the tenant.
    pub id: String,
    /// The upstream that the limit is for.
    pub upstream: Option<String>,
    /// Whether the limit binds its descendants.
    pub sharing: Sharing,
    /// Its budget.
    pub budget: BudgetMode,
    /// Its own numbers.
    pub own: Option<String>,
    /// The numbers that apply to it: the lowest in its chain.
    pub effective: Option<String>,
    /// Its role in this request, in words.
    pub part: String,
    /// Its bucket, if the request is charged there.
    pub bucket: Option<ExplainedBucket>,
}

impl Active {
    /// The ancestor whose limit denies a request, rather than its own tenant's.
    pub(crate) fn contended(&self, facts: &Facts<'_, '_>, ruling: &Ruling) -> Option<&Tenant> {
        let Some(Refuser::Rule(rule)) = ruling.refuser.filter(|_| !ruling.allowed) else { return None };
        if (rule as usize) < self.rules.limits().len() {
            return None;
        }
        self.rules.tenants().contended(facts.tenant()?, facts.upstream_number(), rule)
    }
}

pub(super) fn explain_tenants(buckets: &Buckets<'_, '_, '_>) -> Vec<ExplainedTenant> {
    let (set, facts, plan) = (buckets.set, buckets.facts, buckets.plan);
    let tenants = set.rules.tenants();
    let Some((named, id)) = facts.tenant().and_then(|id| Some((tenants.get(id)?, id))) else {
        return Vec::new();
    };
    let charges = named.charges(facts.upstream_number());
    // The charges of tenants are the last ones of the plan, in the same order.
    let first = plan.items().len() - charges.len();
    let charged: Vec<(&TenantCharge, usize)> = charges.iter().zip(first..).collect();
    let mut explained = Vec::new();
    for tenant in tenants.chain(id) {
        let number = facts.upstream_number();
        let of_upstream = tenant.upstreams.iter().find(|(of, _)| Some(*of) == number).map(|(_, limit)| limit);
        let limits = [(false, Some(&tenant.limit)), (true, of_upstream)];
        let limits: Vec<(bool, &ResolvedTenantLimit)> =
            limits.into_iter().filter_map(|(upstream, limit)| Some((upstream, limit?))).collect();
        for is_remainder in [false, true] {
            for &(is_of_upstream, limit) in &limits {
                let found = charged.iter().find(|(charge, _)| {
                    std::ptr::eq(&tenants.nodes()[charge.node as usize], tenant)
                        && charge.is_of_upstream == is_of_upstream
                        && (charge.bucket == TenantBucket::Remainder) == is_remainder
                });
                if is_remainder && found.is_none() {
                    continue;
                }
                let bucket = found.map(|(_, index)| buckets.explain(*index));
                let part = part(found.map(|(charge, _)| charge.bucket), (named, id), tenant, limit, facts);
                let upstream = facts.upstream().filter(|_| is_of_upstream);
                explained.push(entry(tenant, upstream, (limit, is_remainder), part, bucket));
            }
        }
    }
    explained
}

fn entry(
    tenant: &Tenant,
    upstream: Option<&str>,
    (limit, is_remainder): (&ResolvedTenantLimit, bool),
    part: String,
    bucket: Option<ExplainedBucket>,
) -> ExplainedTenant {
    let name = format!(
        "{}{}{}",
        tenant.id,
        upstream.map(|upstream| format!("/{upstream}")).unwrap_or_default(),
        if is_remainder { ":remainder" } else { "" }
    );
    let (own, effective) =
        if is_remainder { (limit.remainder, limit.remainder) } else { (limit.own, limit.effective) };
    ExplainedTenant {
        name,
        id: tenant.id.to_string(),
        upstream: upstream.map(str::to_owned),
        sharing: limit.sharing,
        budget: limit.budget,
        own: own.map(|own| own.to_string()),
        effective: effective.map(|effective| effective.to_string()),
        part,
        bucket,
    }
}

/// The role of a limit in a request, in words.
fn part(
    bucket: Option<TenantBucket>,
    (named, id): (&Tenant, &str),
    tenant: &Tenant,
    limit: &ResolvedTenantLimit,
    facts: &Facts<'_, '_>,
) -> String {
    let is_named = std::ptr::eq(named, tenant);
    let who = match (is_named, &*named.id == id) {
        (true, false) => format!("stands for the tenant `{}`, which is not listed", super::printable(id)),
        (true, true) if facts.request.tenant.is_none() => {
            "the default tenant: the request names none".to_owned()
        }
        _ => "named by the request".to_owned(),
    };
    match bucket {
        Some(TenantBucket::Own) => format!("{who}, charged"),
        Some(TenantBucket::Aggregate) => "has a budget: also charged".to_owned(),
        Some(TenantBucket::Remainder) => {
            "what its budget has left for tenants without a rate of their own: also charged".to_owned()
        }
        Some(TenantBucket::Enforced) => {
            format!("enforced beside the limit of `{}`, which would loosen it", named.id)
        }
        None if is_named => format!("{who}, no limit in its chain"),
        None if limit.own.is_none() => "has no limit of its own".to_owned(),
        None if limit.sharing == Sharing::Private => "private: does not bind its descendants".to_owned(),
        None if limit.shadow => "in shadow mode: does not bind its descendants".to_owned(),
        None => "only caps its descendants".to_owned(),
    }
}
