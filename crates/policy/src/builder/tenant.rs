//! Builds tenants.

use std::time::Duration;

use tidegate_core::{Algorithm, Carry};

use crate::OnStoreError;
use crate::document::{BudgetMode, HeaderFamily, Sharing, words};

use super::entry::{self, Entry};
use super::terms::{self, terms_methods};

/// Builds one tenant of a [`PolicyBuilder`](crate::PolicyBuilder): its position in the tree, and its limit.
///
/// ```
/// use std::time::Duration;
/// use tidegate_policy::document::{BudgetMode, Sharing};
/// use tidegate_policy::{PolicyBuilder, TenantBuilder};
///
/// let minute = Duration::from_secs(60);
/// let policy = PolicyBuilder::new()
///     .tenant(
///         TenantBuilder::new("partner")
///             .rate(10_000, minute)
///             .sharing(Sharing::Enforce)
///             .budget(BudgetMode::Allocated, 10_000),
///     )
///     .tenant(TenantBuilder::new("shop").parent("partner").rate(2_000, minute).burst(500))
///     .build()?;
/// assert_eq!(policy.rules.tenants().chain("shop").len(), 2);
/// # Ok::<(), tidegate_policy::PolicyError>(())
/// ```
#[derive(Clone, Debug)]
#[must_use = "a tenant does nothing until it is added to a policy"]
pub struct TenantBuilder {
    entry: Entry,
    rate_limit: Option<Entry>,
}

impl TenantBuilder {
    /// A tenant without a limit of its own. Requests name it by this id, which is unique in the policy.
    pub fn new(id: impl Into<String>) -> TenantBuilder {
        let mut entry = Entry::default();
        entry.set("id", entry::text(id));
        TenantBuilder { entry, rate_limit: None }
    }

    /// Sets the tenant above this one. Without a parent it is a root.
    pub fn parent(mut self, id: impl Into<String>) -> TenantBuilder {
        self.entry.set("parent", entry::text(id));
        self
    }

    /// Limits the tenant to `rate` tokens in each `window`, which is a whole number of milliseconds. Without a rate of
    /// its own it has that of the tenants above whose limits bind it.
    pub fn rate(mut self, rate: u64, window: Duration) -> TenantBuilder {
        terms::sustained(self.terms(), rate, window);
        self
    }

    /// Sets whether the limit binds the tenants below. By default it does not.
    pub fn sharing(mut self, sharing: Sharing) -> TenantBuilder {
        self.terms().set("sharing", entry::text(words::word_of(words::SHARING, sharing)));
        self
    }

    /// Lets the tenants below share `total` tokens a window. [`BudgetMode::Unlimited`] has no total: what is given is
    /// left out.
    pub fn budget(self, mode: BudgetMode, total: u64) -> TenantBuilder {
        self.overcommitted_budget(mode, total, 100)
    }

    /// The same, where the rates of the tenants below may add up to this many per cent of the total, from 100 to 200.
    pub fn overcommitted_budget(mut self, mode: BudgetMode, total: u64, percent: u32) -> TenantBuilder {
        let mut budget = Entry::default();
        budget.set("mode", entry::text(words::word_of(words::BUDGETS, mode)));
        if mode != BudgetMode::Unlimited {
            budget.set("total", entry::number(total));
            budget.set("overcommit_ratio", entry::percent(percent));
        }
        self.terms().set_map("budget", budget);
        self
    }

    terms_methods!();

    fn terms(&mut self) -> &mut Entry {
        self.rate_limit.get_or_insert_default()
    }

    pub(super) fn into_entry(mut self) -> Entry {
        if let Some(rate_limit) = self.rate_limit {
            self.entry.set_map("rate_limit", rate_limit);
        }
        self.entry
    }
}
