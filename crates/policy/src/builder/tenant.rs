//! Builds tenants.

use std::time::Duration;

use tidegate_core::{Algorithm, Carry};
use tidegate_document::ValueKind;

use crate::document::{BudgetMode, HeaderFamily, Remainder, Sharing, UNLISTED, words};
use crate::{OnStoreError, Span, Spanned};

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
    upstreams: Option<Entry>,
    /// Is what remains of its budget kept in reserve?
    reserves: bool,
}

impl TenantBuilder {
    /// A tenant without a limit of its own. Requests name it by this id, which is unique in the policy.
    pub fn new(id: impl Into<String>) -> TenantBuilder {
        let mut entry = Entry::default();
        entry.set("id", entry::text(id));
        TenantBuilder { entry, rate_limit: None, upstreams: None, reserves: false }
    }

    /// The entry for every tenant that the policy does not list; each of them has a bucket of its own.
    pub fn unlisted() -> TenantBuilder {
        TenantBuilder::new(UNLISTED)
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

    /// Keeps in reserve what an allocated budget has left: every tenant directly below must have a rate of its own. By
    /// default those without one share it.
    pub fn reserve_remainder(mut self) -> TenantBuilder {
        self.reserves = true;
        self
    }

    /// Adds a limit for requests to one upstream. `limit` gets an empty builder, of which only the limit is used.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tidegate_policy::TenantBuilder;
    /// let minute = Duration::from_secs(60);
    /// let partner = TenantBuilder::new("partner").upstream("openai", |limit| limit.rate(5_000, minute));
    /// ```
    pub fn upstream(
        mut self,
        name: impl Into<String>,
        limit: impl FnOnce(TenantBuilder) -> TenantBuilder,
    ) -> TenantBuilder {
        let mut limit = limit(TenantBuilder::new(""));
        let mut upstream = Entry::default();
        if let Some(rate_limit) = limit.take_limit() {
            upstream.set_map("rate_limit", rate_limit);
        }
        self.upstreams.get_or_insert_default().set_map(&name.into(), upstream);
        self
    }

    terms_methods!();

    fn terms(&mut self) -> &mut Entry {
        self.rate_limit.get_or_insert_default()
    }

    fn take_limit(&mut self) -> Option<Entry> {
        let mut limit = self.rate_limit.take()?;
        if let (true, Some(ValueKind::Map(budget))) =
            (self.reserves, limit.get_mut("budget").map(|budget| &mut budget.kind))
        {
            let word = entry::text(words::word_of(words::REMAINDERS, Remainder::Reserve));
            budget.push((Spanned::new("remainder".to_owned(), Span::default()), word));
        }
        Some(limit)
    }

    pub(super) fn into_entry(mut self) -> Entry {
        if let Some(rate_limit) = self.take_limit() {
            self.entry.set_map("rate_limit", rate_limit);
        }
        if let Some(upstreams) = self.upstreams {
            self.entry.set_map("upstreams", upstreams);
        }
        self.entry
    }
}
