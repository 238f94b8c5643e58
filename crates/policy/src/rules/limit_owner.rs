//! Whose limit it is that has a name.

use super::{RuleSet, Tenant};
use crate::TENANT_PREFIX;

impl RuleSet {
    /// The tenant whose limit has this name in decisions: its limit for all requests, one for an upstream, or what remains of
    /// a budget. Ids and upstreams may contain `/` and `:`, so the name alone does not tell where the id ends: of all ways to
    /// read it, that one is right which names a limit that there is. There is at most one, since the compiler refuses two
    /// limits of tenants with one name. `None` for other limits.
    pub fn tenant_of_limit(&self, name: &str) -> Option<&Tenant> {
        let told = name.strip_prefix(TENANT_PREFIX)?;
        let remainder = told.strip_suffix(":remainder").and_then(|told| self.owner(told, true));
        self.owner(told, false).or(remainder)
    }

    fn owner(&self, told: &str, is_remainder: bool) -> Option<&Tenant> {
        let of_upstream = told.match_indices('/').map(|(at, _)| (&told[..at], Some(&told[at + 1..])));
        std::iter::once((told, None)).chain(of_upstream).find_map(|(id, upstream)| {
            let tenant = self.tenants.by_id.get(id).map(|index| &self.tenants.nodes[*index])?;
            let limit = match upstream {
                None => &tenant.limit,
                Some(upstream) => {
                    let number = self.upstreams.number(upstream)?;
                    tenant.upstreams.iter().find(|(own, _)| *own == number).map(|(_, limit)| limit)?
                }
            };
            let numbers = if is_remainder { limit.remainder } else { limit.effective };
            numbers.map(|_| tenant)
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use crate::{Policy, RuleSet};

    /// Ids and upstreams that look like each other's names.
    const POLICY: &str = "version: 1
limits: [{ name: per-user, key: [user], sustained: { rate: 5 } }]
upstreams: [{ name: openai, hosts: [a.example] }, { name: b/openai, hosts: [b.example] }, { name: x:remainder, hosts: [c.example] }]
tenants:
- id: acme
  rate_limit: { sharing: enforce, sustained: { rate: 90, window: minute }, budget: { mode: allocated, total: 90, remainder: shared } }
  upstreams: { openai: { rate_limit: { sharing: enforce, sustained: { rate: 9 } } } }
- { id: shop, parent: acme }
- { id: acme/eu, parent: acme, upstreams: { openai: { rate_limit: { sustained: { rate: 3 } } } } }
- { id: a, upstreams: { b/openai: { rate_limit: { sustained: { rate: 3 } } } } }
- { id: a/b, rate_limit: { sustained: { rate: 3 } } }
- { id: \"c:remainder\", rate_limit: { sustained: { rate: 3 } }, upstreams: { \"x:remainder\": { rate_limit: { sustained: { rate: 3 } } } } }
- { id: c }
- { id: \"*\", rate_limit: { sustained: { rate: 1 } } }
";

    #[test]
    fn every_limit_of_a_tenant_has_its_owner() {
        let rules = RuleSet::from(Policy::parse(POLICY).expect("a policy"));
        let owner = |name: &str| rules.tenant_of_limit(name).map(|tenant| tenant.id.to_string());
        let named: BTreeMap<&str, Option<String>> =
            rules.rules().iter().map(|rule| (&*rule.name, owner(&rule.name))).collect();
        let named: Vec<(&str, &str)> =
            named.iter().map(|(name, owner)| (*name, owner.as_deref().unwrap_or("nobody"))).collect();
        let expected = [
            ("per-user", "nobody"),
            ("tenant:*", "*"),
            ("tenant:a/b", "a/b"),
            ("tenant:a/b/openai", "a"),
            ("tenant:acme", "acme"),
            ("tenant:acme/eu", "acme/eu"),
            ("tenant:acme/eu/openai", "acme/eu"),
            ("tenant:acme/openai", "acme"),
            ("tenant:acme:remainder", "acme"),
            ("tenant:c:remainder", "c:remainder"),
            ("tenant:c:remainder/x:remainder", "c:remainder"),
            ("tenant:shop", "shop"),
            ("tenant:shop/openai", "shop"),
        ];
        assert_eq!(named, expected);
        for unknown in ["tenant:", "tenant:nobody", "tenant:c", "tenant:acme/none", "tenant:a", "acme"] {
            assert_eq!(owner(unknown), None, "{unknown}");
        }
    }
}
