//! Buckets that are named by what identifies them, whether or not a request with just that would be limited by them.

use tidegate_core::Cost;

use super::{Plan, Rule, RuleSet, TenantBucket, TenantCharge};
use crate::{Descriptor, Facts, TENANT_PREFIX};

impl RuleSet {
    /// A plan with the buckets of the limits of this name that have the key of a request, whether or not the limits would
    /// apply to the request. `named` are the descriptors that the request has. Only buckets that are identified by just
    /// these are in it: requests with other values may take from others too.
    pub fn plan_of_keys(&self, name: &str, named: &[Descriptor], facts: &Facts<'_, '_>) -> Plan {
        let mut plan = Plan::default();
        if name.starts_with(TENANT_PREFIX) {
            self.plan_tenants(facts, &mut plan);
            let own = self.own_buckets(named, facts);
            plan.items.retain(|item| *self.rule(item.rule).name == *name && own.contains(&item.rule));
            return plan;
        }
        for (number, rule) in self.rules.iter().enumerate() {
            let start = plan.keys.len();
            let is_meant = *rule.name == *name && are_the_same(&rule.key, named);
            if is_meant && facts.write_key(&rule.key, &mut plan.keys).is_ok() {
                plan.push(number as u32, start, Cost::ZERO);
            }
        }
        plan
    }

    /// A plan with the buckets that have the key of a request, of limits that do not apply to it: because of its path, for
    /// instance. `applied` is the plan of those that do. At most `most` of them, in the order of the document.
    pub fn plan_of_other_keys(
        &self,
        facts: &Facts<'_, '_>,
        applied: &Plan,
        chosen: &dyn Fn(&Rule) -> bool,
        most: usize,
    ) -> Plan {
        let mut plan = Plan { trust: facts.request.trust, ..Plan::default() };
        for (number, rule) in (0..).zip(self.limits()) {
            let (start, is_applied) = (plan.keys.len(), applied.items.iter().any(|item| item.rule == number));
            if plan.items.len() >= most || rule.key.is_empty() || is_applied || !chosen(rule) {
                continue;
            }
            if facts.write_key(&rule.key, &mut plan.keys).is_ok() {
                plan.push(number, start, Cost::ZERO);
            }
        }
        plan
    }

    /// The numbers of the rules whose buckets belong to the tenant of a request alone, and are identified by just these
    /// descriptors.
    fn own_buckets(&self, named: &[Descriptor], facts: &Facts<'_, '_>) -> Vec<u32> {
        let Some(tenant) = facts.tenant().and_then(|id| self.tenants.get(id)) else { return Vec::new() };
        let has_children = |node: u32| self.tenants.nodes.iter().any(|one| one.parent == Some(node as usize));
        let is_own = |charged: &&TenantCharge| {
            let scope: &[Descriptor] = match charged.bucket {
                // Requests of its children may take from the same bucket.
                TenantBucket::Own if !has_children(charged.node) => &self.rule(charged.rule).key,
                TenantBucket::Enforced => &[],
                TenantBucket::Own | TenantBucket::Aggregate | TenantBucket::Remainder => return false,
            };
            let upstream = charged.is_of_upstream.then_some(Descriptor::Upstream);
            let scope = scope.iter().filter(|part| **part != Descriptor::Tenant).cloned();
            let key: Vec<Descriptor> = scope.chain([Descriptor::Tenant]).chain(upstream).collect();
            are_the_same(&key, named)
        };
        let charges = tenant.charges(facts.upstream_number());
        charges.iter().filter(is_own).map(|charged| charged.rule).collect()
    }
}

/// Are these the same descriptors, in any order?
fn are_the_same(key: &[Descriptor], named: &[Descriptor]) -> bool {
    key.len() == named.len() && key.iter().all(|part| named.contains(part))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Policy, Request};

    const POLICY: &str = "version: 1
defaults: { tenant: public }
upstreams: [{ name: openai, hosts: [api.openai.com] }]
limits:
- { name: per-user, key: [user], match: { path: /api/** }, sustained: { rate: 1 } }
- { name: per-both, key: [client, user], sustained: { rate: 1 } }
- { name: per-tenant, key: [tenant], sustained: { rate: 1 } }
- { name: all, key: [], sustained: { rate: 1 } }
tenants:
- { id: public, rate_limit: { sustained: { rate: 1 } } }
- { id: parent, rate_limit: { sharing: inherit, sustained: { rate: 9 } } }
- id: leaf
  parent: parent
  rate_limit: { scope: user, sustained: { rate: 1 } }
  upstreams: { openai: { rate_limit: { sustained: { rate: 1 } } } }
- { id: '*', rate_limit: { sustained: { rate: 1 } } }
";

    /// The limits of this name in the plan for a request that has these descriptors.
    fn found(name: &str, who: &[(&str, &str)]) -> usize {
        let rules = RuleSet::from(Policy::parse(POLICY).expect("it is valid"));
        let value = |wanted: &str| {
            who.iter().find(|(name, _)| *name == wanted).map(|(_, value)| (*value).to_owned().into())
        };
        let request = Request {
            user: value("user"),
            client: value("client"),
            tenant: value("tenant"),
            upstream: value("upstream"),
            ..Request::default()
        };
        let named: Vec<Descriptor> =
            who.iter().map(|(name, _)| Descriptor::parse(name).expect("it is one")).collect();
        rules.plan_of_keys(name, &named, &rules.facts(&request)).items().len()
    }

    #[test]
    fn a_bucket_is_named_by_just_what_identifies_it() {
        let user = ("user", "42");
        assert_eq!(found("per-user", &[user]), 1, "whatever the path is");
        assert_eq!(found("per-user", &[user, ("client", "app")]), 0, "others of this user take from it too");
        assert_eq!(found("per-both", &[user, ("client", "app")]), 1, "in any order");
        assert_eq!(found("per-both", &[user]), 0);
        assert_eq!(found("per-tenant", &[user]), 0, "the tenant is only the default one");
        assert_eq!(found("per-tenant", &[("tenant", "public")]), 1);
        assert_eq!(found("all", &[user]), 0);
        assert_eq!(found("unknown", &[user]), 0);
    }

    #[test]
    fn limits_that_do_not_apply_may_have_the_key_of_a_request() {
        let rules = RuleSet::from(Policy::parse(POLICY).expect("it is valid"));
        let request = Request { user: Some("42".into()), ..Request::default() };
        let facts = rules.facts(&request);
        let mut applied = Plan::default();
        rules.plan_into(&facts, &mut applied);
        let others = |chosen: &dyn Fn(&Rule) -> bool, most| -> Vec<String> {
            let plan = rules.plan_of_other_keys(&facts, &applied, chosen, most);
            plan.items().iter().map(|item| rules.rule(item.rule).name.to_string()).collect()
        };
        assert_eq!(others(&|_| true, 9), ["per-user"], "the request has no path");
        assert!(others(&|_| false, 9).is_empty() && others(&|_| true, 0).is_empty());
    }

    #[test]
    fn a_tenant_is_part_of_what_identifies_its_buckets() {
        let (leaf, user) = (("tenant", "leaf"), ("user", "42"));
        assert_eq!(found("tenant:public", &[("tenant", "public")]), 1);
        assert_eq!(found("tenant:public", &[user]), 0);
        assert_eq!(found("tenant:leaf", &[leaf, user]), 1);
        assert_eq!(found("tenant:leaf", &[leaf]), 0, "each user has one");
        assert_eq!(found("tenant:leaf/openai", &[leaf, ("upstream", "openai")]), 1);
        assert_eq!(found("tenant:leaf/openai", &[leaf]), 0);
        assert_eq!(found("tenant:parent", &[("tenant", "parent")]), 0, "its children may take from it");
        assert_eq!(found("tenant:parent", &[leaf]), 1, "the limit of its parent, for it alone");
        assert_eq!(found("tenant:*", &[("tenant", "anybody")]), 1);
    }
}
