//! Which tenants a token sees that is restricted to one of them.

use tidegate_policy::RuleSet;

/// A tenant and all tenants below it. One that the policy does not have is alone.
pub(crate) fn tenants_within(rules: &RuleSet, top: &str) -> Vec<String> {
    let tenants = rules.tenants();
    let is_below = |id: &str| tenants.chain(id).iter().any(|tenant| &*tenant.id == top);
    let listed = tenants.nodes().iter().map(|tenant| &*tenant.id);
    let below = listed.filter(|id| *id != top && is_below(id));
    std::iter::once(top).chain(below).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_subtree_is_a_tenant_and_all_below() {
        let text = "version: 1\ntenants: [{ id: a }, { id: b, parent: a }, { id: c, parent: b }, { id: d, parent: a }]";
        let rules = RuleSet::from(tidegate_policy::Policy::parse(text).expect("a policy"));
        assert_eq!(tenants_within(&rules, "b"), ["b", "c"]);
        assert_eq!(tenants_within(&rules, "a"), ["a", "b", "c", "d"]);
        assert_eq!(tenants_within(&rules, "gone"), ["gone"]);
    }
}
