//! What all limits together let through to a service.
//!
//! Of the limits that apply to every request to the service, the lowest bounds it. In a group one limit applies to a
//! request, so what they admit is added up. A limit by a key counts only if the number of keys is known.

use std::collections::{BTreeSet, HashMap};

use super::reach::Reach;
use crate::compile::overlap;
use crate::rules::{Rule, Tenant, TenantBucket, TenantCharge, Tenants};
use crate::{Condition, Descriptor, Strategy};

/// How many limits and tenants are looked at in total.
const COMPARISONS_MAX: usize = 5_000_000;

/// The requests that go to a service: those for which the conditions hold, and those of `unless` do not.
#[derive(Clone, Copy, Debug)]
pub(super) struct ServedRequests<'a> {
    pub(super) conditions: &'a [Condition],
    pub(super) unless: &'a [Condition],
    /// The number of the upstream that all of them go to.
    pub(super) upstream: Option<u32>,
}

/// The limits and the tenants of a policy.
pub(super) struct AdmissionBounds<'r> {
    /// Entries of `limits`, then the limits of tenants.
    rules: &'r [Rule],
    tenants: &'r Tenants,
    /// Is every request charged to one of the tenants?
    has_tenants_only: bool,
    denies_unknown_tenants: bool,
    /// The limits of each group in order, and each limit without a group.
    groups: Vec<Vec<&'r Rule>>,
    /// Limits without a group for certain upstreams: they apply to nothing else.
    by_upstream: HashMap<&'r str, Vec<&'r Rule>>,
    left: usize,
}

impl<'r> AdmissionBounds<'r> {
    /// Of `rules`, the first `limit_count` are entries of `limits`.
    pub(super) fn new(
        rules: &'r [Rule],
        limit_count: usize,
        tenants: &'r Tenants,
        has_default_tenant: bool,
        denies_unknown_tenants: bool,
    ) -> AdmissionBounds<'r> {
        let mut numbers: HashMap<u32, usize> = HashMap::new();
        let mut groups: Vec<Vec<&Rule>> = Vec::new();
        let mut by_upstream: HashMap<&str, Vec<&Rule>> = HashMap::new();
        for rule in rules[..limit_count].iter().filter(|rule| rule.enabled && !rule.is_shadow()) {
            let names = values(&rule.conditions, &Descriptor::Upstream);
            match (&rule.group, names) {
                (Some(group), _) => match numbers.get(&group.number) {
                    Some(&place) => groups[place].push(rule),
                    None => {
                        numbers.insert(group.number, groups.len());
                        groups.push(vec![rule]);
                    }
                },
                (None, None) => groups.push(vec![rule]),
                (None, Some(names)) => {
                    names.iter().for_each(|name| by_upstream.entry(name).or_default().push(rule));
                }
            }
        }
        let is_everybody_known = denies_unknown_tenants || tenants.unlisted.is_some();
        AdmissionBounds {
            rules,
            tenants,
            has_tenants_only: has_default_tenant && is_everybody_known,
            denies_unknown_tenants,
            groups,
            by_upstream,
            left: COMPARISONS_MAX,
        }
    }

    /// Has so much been compared that the rest is not looked at?
    pub(super) fn is_exhausted(&self) -> bool {
        self.left == 0
    }

    /// How many of these requests can be admitted; `None` if any number can.
    pub(super) fn of(&mut self, served: ServedRequests<'_>) -> Option<Reach> {
        let mut left = self.left;
        let mut group = |group: &[&Rule]| {
            left = left.saturating_sub(group.len());
            if left == 0 { None } else { of_group(group, served) }
        };
        let by_group = self.groups.iter().filter_map(|members| group(members)).reduce(Reach::min);
        let names = values(served.conditions, &Descriptor::Upstream).unwrap_or_default();
        let single = names.first().and_then(|name| self.by_upstream.get(&**name));
        let by_limit = single.into_iter().flatten().filter_map(|rule| group(&[rule])).reduce(Reach::min);
        self.left = left;
        let by_tenants = self.of_tenants(served);
        by_group.into_iter().chain(by_limit).chain(by_tenants).reduce(Reach::min)
    }

    /// How many of these requests the limits of tenants admit.
    fn of_tenants(&mut self, served: ServedRequests<'_>) -> Option<Reach> {
        if self.tenants.is_empty() {
            return None;
        }
        let tenants: Vec<&Tenant> = match values(served.conditions, &Descriptor::Tenant) {
            Some(ids) => {
                let known: Vec<&Tenant> = ids.iter().filter_map(|id| self.tenants.get(id)).collect();
                if known.len() < ids.len() && !self.denies_unknown_tenants {
                    return None;
                }
                known
            }
            None if self.has_tenants_only => self.tenants.nodes().iter().collect(),
            None => return None,
        };
        self.left = self.left.saturating_sub(tenants.len());
        if self.left == 0 {
            return None;
        }
        // The buckets nearest to the root, which most tenants share; or those of the tenants themselves. Both bound all
        // requests.
        let outer = self.of_buckets(&tenants, served.upstream, |charges| {
            charges.iter().find(|charge| self.is_one_bucket(charge))
        });
        let inner = self.of_buckets(&tenants, served.upstream, |charges| {
            charges.iter().rfind(|charge| self.is_one_bucket(charge))
        });
        outer.into_iter().chain(inner).reduce(Reach::min)
    }

    /// What the buckets admit together that `choose` takes, one for each tenant; `None` if a tenant has none.
    fn of_buckets<'t>(
        &self,
        tenants: &[&'t Tenant],
        upstream: Option<u32>,
        choose: impl Fn(&'t [TenantCharge]) -> Option<&'t TenantCharge>,
    ) -> Option<Reach> {
        let chosen = tenants.iter().map(|tenant| choose(tenant.charges(upstream)).map(|charge| charge.rule));
        let chosen: BTreeSet<u32> = chosen.collect::<Option<_>>()?;
        let reach = |number: u32| Reach::of_bucket(&self.rules[number as usize]);
        Some(chosen.into_iter().map(reach).fold(Reach::default(), Reach::plus))
    }

    /// Is it one bucket that denies requests, and not one for each value of a key?
    fn is_one_bucket(&self, charge: &TenantCharge) -> bool {
        let rule = &self.rules[charge.rule as usize];
        denies(rule)
            && match charge.bucket {
                TenantBucket::Own => rule.key.is_empty(),
                TenantBucket::Aggregate | TenantBucket::Remainder => true,
                TenantBucket::Enforced => false,
            }
    }
}

/// What the limits of a group admit of these requests; `None` if any number of them can get past the group.
fn of_group(group: &[&Rule], served: ServedRequests<'_>) -> Option<Reach> {
    let mut sum = Reach::default();
    for rule in group.iter().filter(|rule| !are_apart(&rule.conditions, served.conditions)) {
        // Trust raises the numbers of a limit.
        if !denies(rule) || rule.adaptive {
            return None;
        }
        sum = sum.plus(Reach::of_bucket(rule).times(buckets(rule, served)?));
        if overlap::matches_all(rule, served.conditions, served.unless) {
            return Some(sum);
        }
    }
    None
}

/// Does it deny what exceeds it?
fn denies(rule: &Rule) -> bool {
    !rule.is_shadow() && !matches!(rule.strategy, Strategy::Degrade { .. })
}

/// How many buckets of a limit these requests can take from; `None` if any number. Conditions on all descriptors of its
/// key leave only so many.
fn buckets(rule: &Rule, served: ServedRequests<'_>) -> Option<u128> {
    rule.key.iter().try_fold(1_u128, |product, descriptor| {
        let lists = [&*rule.conditions, served.conditions].map(|conditions| values(conditions, descriptor));
        let count = lists.into_iter().flatten().map(<[_]>::len).min()?;
        Some(product.saturating_mul(count as u128))
    })
}

/// The values that conditions leave for a descriptor; `None` if any value, or if a request can have several of them.
fn values<'c>(conditions: &'c [Condition], descriptor: &Descriptor) -> Option<&'c [Box<str>]> {
    conditions.iter().find_map(|condition| match condition {
        Condition::Value(tested, values) if tested == descriptor && is_single(tested) => Some(&**values),
        _ => None,
    })
}

/// Does a request have no more than one value of it, which is compared as it is?
fn is_single(descriptor: &Descriptor) -> bool {
    matches!(
        descriptor,
        Descriptor::Tenant | Descriptor::User | Descriptor::Client | Descriptor::Plan | Descriptor::Upstream
    )
}

/// Is it certain that no request fulfils both lists of conditions?
fn are_apart(one: &[Condition], other: &[Condition]) -> bool {
    one.iter().any(|condition| {
        let Condition::Value(descriptor, mine) = condition else { return false };
        let theirs = values(other, descriptor).filter(|_| is_single(descriptor));
        theirs.is_some_and(|theirs| theirs.iter().all(|value| mine.binary_search(value).is_err()))
    })
}
