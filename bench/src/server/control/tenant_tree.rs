//! A policy of 1,000 tenants, three levels deep, and changes of it.

use std::fmt::Write;

use crate::server::limits::HOT;

/// The tenants without a parent. Each has as many partners below it, and each partner as many customers.
const ROOTS: u32 = 10;
const PARTNERS_PER_ROOT: u32 = 9;
const CUSTOMERS_PER_PARTNER: u32 = 10;
/// The tenants that requests are of.
pub(crate) const CUSTOMERS: u32 = ROOTS * PARTNERS_PER_ROOT * CUSTOMERS_PER_PARTNER;

/// The rate of a customer. A change sets a larger one, at most twice as large, and that of the burst.
const CUSTOMER_RATE: u32 = 2_000;
/// The rate of a partner and of a root, and what they may allot: enough for twice the rates of all below.
const PARTNER_RATE: u32 = 2 * CUSTOMERS_PER_PARTNER * CUSTOMER_RATE;
const ROOT_RATE: u32 = PARTNERS_PER_ROOT * PARTNER_RATE;

/// The policy, as people write it: a comment here and there, one line for each entry.
pub(super) fn policy() -> String {
    let mut text = format!(
        "# Customers of partners.
version: 1
limits:
  - {{ name: hot-path, match: {{ plan: {HOT}, path: /api/** }}, key: [path], sustained: {{ rate: 10000000, window: second }}, burst: {{ capacity: 10000000 }} }}
  - {{ name: hot-overall, match: {{ plan: {HOT} }}, key: [], sustained: {{ rate: 10000000, window: second }}, burst: {{ capacity: 10000000 }} }}
tenants:
"
    );
    let allots = |rate| format!("sharing: inherit, budget: {{ mode: allocated, total: {rate} }}");
    let mut add = |id: &str, parent: &str, rate: u32, more: &str| {
        writeln!(
            text,
            "  - {{ id: {id}{parent}, rate_limit: {{ sustained: {{ rate: {rate} }}, burst: {{ capacity: {rate} }}{more} }} }}"
        )
        .expect("writing to a string succeeds");
    };
    for root in 0..ROOTS {
        add(&format!("root-{root}"), "", ROOT_RATE, &format!(", {}", allots(ROOT_RATE)));
        for partner in 0..PARTNERS_PER_ROOT {
            let partner = root * PARTNERS_PER_ROOT + partner;
            let id = format!("partner-{partner}");
            add(&id, &format!(", parent: root-{root}"), PARTNER_RATE, &format!(", {}", allots(PARTNER_RATE)));
            for customer in 0..CUSTOMERS_PER_PARTNER {
                let customer = partner * CUSTOMERS_PER_PARTNER + customer;
                add(&customer_id(customer), &format!(", parent: {id}"), CUSTOMER_RATE, "");
            }
        }
    }
    text
}

/// The tenant of this number, as requests name it.
pub(super) fn customer_id(number: u32) -> String {
    format!("tenant-{number:08}")
}

/// The customer that a change is about, and its new burst: different for every change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TenantChange {
    pub(super) customer: u32,
    pub(super) capacity: u32,
}

impl TenantChange {
    /// The change of this number. Changes go all over the document.
    pub(super) fn nth(number: u32) -> TenantChange {
        TenantChange {
            customer: number * 7 % CUSTOMERS,
            capacity: CUSTOMER_RATE + 1 + number % CUSTOMER_RATE,
        }
    }

    /// A merge patch of the tenant.
    pub(super) fn patch(self) -> String {
        let capacity = self.capacity;
        format!(r#"{{"rate_limit":{{"sustained":{{"rate":{capacity}}},"burst":{{"capacity":{capacity}}}}}}}"#)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_a_thousand_tenants_on_three_levels() {
        let policy = tidegate_policy::Policy::parse(&policy()).expect("valid");
        assert!(policy.warnings.is_empty(), "{:?}", policy.warnings);
        let text = super::policy();
        assert_eq!(text.lines().filter(|line| line.contains("id: ")).count(), 1_000);
        for customer in [0, CUSTOMERS - 1] {
            assert_eq!(policy.rules.tenants().chain(&customer_id(customer)).len(), 3);
        }
    }

    #[test]
    fn neighbouring_changes_differ() {
        for number in 0..2_000 {
            let (change, next) = (TenantChange::nth(number), TenantChange::nth(number + 1));
            assert!(change.customer < CUSTOMERS && change.capacity > CUSTOMER_RATE);
            assert!(change.capacity <= 2 * CUSTOMER_RATE, "the budgets suffice");
            assert_ne!((change.customer, change.capacity), (next.customer, next.capacity));
        }
    }
}
