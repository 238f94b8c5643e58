//! Where the engine uses a trust book: the trust of a request, and the violations of its user.

use std::sync::Arc;

use tidegate_core::Nanos;
use tidegate_policy::{Facts, Plan};

use super::{TrustBook, TrustOptions, TrustReport};
use crate::engine::active::Active;
use crate::engine::counting::stats::CountScope;
use crate::engine::decision::{Refuser, Ruling};
use crate::engine::limiter::Limiter;
use crate::engine::reason::Reason;
use crate::{Clock, Store};

impl<S: Store, C: Clock> Limiter<S, C> {
    /// Computes the trust of requests that have none of their own, where the policy has `adaptive.trust: true`.
    #[must_use]
    pub fn with_trust(self, options: TrustOptions) -> Self {
        self.with_trust_book(Arc::new(TrustBook::new(options)))
    }

    /// [`Limiter::with_trust`] with a book that another part of the program also writes to.
    #[must_use]
    pub fn with_trust_book(mut self, book: Arc<TrustBook>) -> Self {
        self.trust_book = Some(book);
        self
    }

    /// What is known about users, if the limiter computes their trust.
    pub fn trust_book(&self) -> Option<&TrustBook> {
        self.trust_book.as_deref()
    }

    /// The score that the trust of a request is taken from: none if trust is not computed, is not used, or if the
    /// request has its own.
    pub(in crate::engine) fn trust_report(
        &self,
        set: &Active,
        facts: &Facts<'_, '_>,
        now: Nanos,
    ) -> Option<TrustReport> {
        let book = self.trust_book.as_ref()?;
        if facts.request.trust.is_some() || !set.rules.uses_trust() {
            return None;
        }
        book.report_on(facts.request, self.clock.wall_at(now))
    }

    /// Sets the trust of a plan whose request has none of its own. It is decided once for a request: what is
    /// charged, waits in a queue or is decided without the store has the same trust.
    #[inline]
    pub(in crate::engine) fn compute_trust(
        &self,
        set: &Active,
        facts: &Facts<'_, '_>,
        plan: &mut Plan,
        now: Nanos,
    ) {
        if self.trust_book.is_some()
            && let Some(report) = self.trust_report(set, facts, now)
        {
            plan.trust = report.trust();
        }
    }

    /// The plan of a request, with its trust and overrides.
    pub(in crate::engine) fn plan_of(&self, set: &Active, facts: &Facts<'_, '_>, now: Nanos) -> Plan {
        let mut plan = set.rules.plan(facts);
        self.compute_trust(set, facts, &mut plan, now);
        self.apply_overrides(set, facts, &mut plan, now);
        plan
    }

    /// Records a denial that is a violation.
    pub(in crate::engine) fn record_violation(&self, facts: &Facts<'_, '_>, at: Nanos) {
        if let (Some(book), Some(user)) = (&self.trust_book, facts.request.user.as_deref()) {
            book.record_violation(user, self.clock.wall_at(at));
        }
    }
}

/// The item of the plan whose limit a denial was a violation of, if it was one: a limit that counts by caller has
/// denied the user more than it holds. Denials by limits of tenants, routes or everybody say nothing about the user.
/// Of requests that are decided together and share a bucket, one has violated it: the one that it is counted with.
pub(in crate::engine) fn violated_item(
    set: &Active,
    facts: &Facts<'_, '_>,
    plan: Option<&Plan>,
    ruling: &Ruling,
    scope: CountScope<'_>,
) -> Option<usize> {
    if !exceeds_a_limit(ruling.reason) || facts.request.user.is_none() {
        return None;
    }
    let Some(Refuser::Rule(number)) = ruling.refuser else { return None };
    let item = plan?.items().iter().position(|item| item.rule == number)?;
    let is_counted = !scope.counted_elsewhere.get(item).is_some_and(|elsewhere| *elsewhere);
    (set.rules.rule(number).adaptive && is_counted).then_some(item)
}

fn exceeds_a_limit(reason: Reason) -> bool {
    matches!(
        reason,
        Reason::TokenBucketExceeded
            | Reason::SlidingWindowExceeded
            | Reason::SlidingLogExceeded
            | Reason::FixedWindowExceeded
    )
}
