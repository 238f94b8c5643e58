//! What a limiter tells an [`Observer`]: every denial and every penalty, once, on the thread that decides.

use std::fmt;
use std::sync::Arc;

use tidegate_core::{Algorithm, LimitDecision, Nanos};
use tidegate_policy::{Descriptor, Facts, Plan};

use super::active::Active;
use super::bursts::BurstAction;
use super::counting::stats::CountScope;
use super::decide::conclude::{exceeded, refuses};
use super::decision::{Refuser, Ruling};
use super::limiter::Limiter;
use super::reason::Reason;
use super::trust::violated_item;
use crate::{BurstCount, BurstSubject, Clock, Store};

/// Is told what a limiter does, for logs and audits.
pub trait Observer: fmt::Debug + Send + Sync {
    /// Called on the thread that decides, before the decision is returned: it must be fast and must not block.
    fn observe(&self, incident: &Incident<'_, '_>);

    /// Called in the same way when an ad hoc bucket denies a request. Such a decision takes less than half a microsecond, so
    /// an observer that only counts a repetition can do that without making an [`Incident`].
    #[inline]
    fn observe_ad_hoc(&self, denial: &AdHocDenial<'_>) {
        self.observe(&denial.incident());
    }
}

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum IncidentKind {
    /// A limit, or an ad hoc bucket, denied a request. If several limits deny it, there is an incident for each.
    LimitExceeded,
    /// An entry of `block` denied a request.
    Blocked,
    /// A burst detector denied a request of a key that it has blocked before.
    BurstDenied,
    /// A burst detector warned a key.
    BurstWarned,
    /// A burst detector blocked a key.
    BurstBlocked,
    /// A request named a tenant that the policy does not have. It was denied if there is a reason.
    UnknownTenant,
    /// A request was denied because its credential is invalid, or its API key is not known.
    InvalidCredentials,
}

/// Something that happened to a request.
#[derive(Clone, Copy, Debug)]
pub struct Incident<'a, 'q> {
    /// What happened.
    pub kind: IncidentKind,
    /// Why the request was denied; `None` if it was not.
    pub reason: Option<Reason>,
    /// The name of the limit or the burst detector.
    pub name: Option<&'a str>,
    /// The algorithm of the limit.
    pub algorithm: Option<Algorithm>,
    /// The key of the bucket or of the detector, as bytes that identify it.
    pub key: &'a [u8],
    /// The descriptors whose values the key consists of; none for ad hoc buckets.
    pub key_parts: &'a [Descriptor],
    /// The request; `None` for ad hoc buckets, and for a penalty that this node has heard of later.
    pub facts: Option<&'a Facts<'a, 'q>>,
    /// Whom a penalty is about that this node has heard of later.
    pub subject: Option<&'a BurstSubject>,
    /// What is left in the bucket.
    pub remaining: Option<u32>,
    /// After how long the limit would admit the request; `None` if no wait helps or none is known.
    pub retry_after: Option<Nanos>,
    /// When it happened, on the monotonic clock.
    pub at: Nanos,
    /// The version of the policy in force.
    pub policy_version: Option<u64>,
    /// Does it count as a violation of the request's user, which lowers the user's trust score?
    pub is_violation: bool,
}

impl<'a, 'q> Incident<'a, 'q> {
    fn new(kind: IncidentKind, set: &Active, facts: &'a Facts<'a, 'q>, at: Nanos) -> Incident<'a, 'q> {
        Incident { facts: Some(facts), policy_version: Some(set.version), ..Incident::bare(kind, at) }
    }

    fn bare(kind: IncidentKind, at: Nanos) -> Incident<'a, 'q> {
        Incident {
            kind,
            reason: None,
            name: None,
            algorithm: None,
            key: &[],
            key_parts: &[],
            facts: None,
            subject: None,
            remaining: None,
            retry_after: None,
            at,
            policy_version: None,
            is_violation: false,
        }
    }
}

/// The denial of an ad hoc bucket.
#[derive(Clone, Copy, Debug)]
pub struct AdHocDenial<'a> {
    /// The key of the bucket.
    pub key: &'a [u8],
    /// What was decided.
    pub decision: &'a LimitDecision,
    /// When it happened, on the monotonic clock.
    pub at: Nanos,
}

impl<'a> AdHocDenial<'a> {
    /// Why the request was denied.
    #[inline]
    pub fn reason(&self) -> Reason {
        if self.decision.is_never() { Reason::CostExceedsCapacity } else { Reason::TokenBucketExceeded }
    }

    /// The denial as an incident.
    pub fn incident<'q>(&self) -> Incident<'a, 'q> {
        Incident {
            reason: Some(self.reason()),
            name: Some("throttle"),
            algorithm: Some(Algorithm::TokenBucket),
            key: self.key,
            remaining: Some(self.decision.remaining),
            retry_after: self.decision.wait(),
            ..Incident::bare(IncidentKind::LimitExceeded, self.at)
        }
    }
}

impl<S: Store, C: Clock> Limiter<S, C> {
    /// Tells an observer of every denial and every penalty from now on.
    #[must_use]
    pub fn with_observer(mut self, observer: Arc<dyn Observer>) -> Self {
        if let Some(ad_hoc) = &mut self.ad_hoc {
            ad_hoc.observer = Some(Arc::clone(&observer));
        }
        self.observer = Some(observer);
        self
    }

    /// Counts a decision that was made. A denial is also recorded as a violation of its user, if trust is computed,
    /// and reported to the observer.
    #[inline]
    pub(super) fn count_decision(
        &self,
        set: &Active,
        facts: &Facts<'_, '_>,
        plan: Option<&Plan>,
        ruling: &Ruling,
        scope: CountScope<'_>,
    ) {
        if self.is_tried_out {
            // Nobody reads counters of a candidate, and its denials are nobody's violations: its report compares it with
            // the policy in force.
            return;
        }
        self.stats.count(set, facts, plan, ruling, scope);
        if let Some(plan) = plan.filter(|plan| !plan.overrides.is_empty()) {
            self.record_overrides(set, plan, ruling.at);
        }
        if ruling.allowed {
            return;
        }
        if self.trust_book.is_none() && self.observer.is_none() {
            return;
        }
        let violated = violated_item(set, facts, plan, ruling, scope);
        if violated.is_some() {
            self.record_violation(facts, ruling.at);
        }
        if let Some(observer) = &self.observer {
            observe_denial(&**observer, set, facts, (plan, violated), ruling, scope);
        }
    }

    /// Tells the observer that a burst detector has warned or blocked a key.
    pub(super) fn observe_burst(
        &self,
        set: &Active,
        facts: &Facts<'_, '_>,
        (detector, key): (usize, &[u8]),
        action: BurstAction,
        at: Nanos,
    ) {
        let Some(observer) = &self.observer else { return };
        let rule = &set.rules.detectors()[detector];
        observer.observe(&Incident {
            name: Some(&rule.name),
            key,
            key_parts: &rule.key,
            retry_after: block_span(action, rule.penalty),
            ..Incident::new(kind_of(action), set, facts, at)
        });
    }

    /// Tells the observer that a burst detector has warned or blocked a key after its requests were decided.
    pub(super) fn observe_late_burst(
        &self,
        action: BurstAction,
        about: Option<(&BurstCount, &BurstSubject)>,
        at: Nanos,
    ) {
        let Some(observer) = &self.observer else { return };
        let bare = Incident::bare(kind_of(action), at);
        let Some((count, subject)) = about else { return observer.observe(&bare) };
        observer.observe(&Incident {
            name: Some(&subject.detector),
            key: &count.key.to_be_bytes(),
            subject: Some(subject),
            retry_after: block_span(action, count.detector.penalty),
            policy_version: Some(subject.policy_version),
            ..bare
        });
    }

    /// Tells the observer that a request names a tenant that the policy does not have.
    pub(super) fn observe_unknown_tenant(
        &self,
        set: &Active,
        facts: &Facts<'_, '_>,
        is_denied: bool,
        at: Nanos,
    ) {
        let Some(observer) = &self.observer else { return };
        let reason = is_denied.then_some(Reason::UnknownTenant);
        observer.observe(&Incident { reason, ..Incident::new(IncidentKind::UnknownTenant, set, facts, at) });
    }
}

fn kind_of(action: BurstAction) -> IncidentKind {
    match action {
        BurstAction::Warned => IncidentKind::BurstWarned,
        BurstAction::Blocked => IncidentKind::BurstBlocked,
    }
}

/// How long a key is refused.
fn block_span(action: BurstAction, penalty: Nanos) -> Option<Nanos> {
    (action == BurstAction::Blocked).then(|| penalty.saturating_add(penalty))
}

fn observe_denial(
    observer: &dyn Observer,
    set: &Active,
    facts: &Facts<'_, '_>,
    (plan, violated): (Option<&Plan>, Option<usize>),
    ruling: &Ruling,
    scope: CountScope<'_>,
) {
    let kind = match ruling.refuser {
        None | Some(Refuser::Rule(_)) => IncidentKind::LimitExceeded,
        Some(Refuser::Block) => IncidentKind::Blocked,
        Some(Refuser::Detector(_)) => IncidentKind::BurstDenied,
        Some(Refuser::Credentials | Refuser::UnknownKey) => IncidentKind::InvalidCredentials,
        // The observer was told when the tenant was looked up.
        Some(Refuser::UnknownTenant) => return,
    };
    let denial = Incident {
        reason: Some(ruling.reason),
        retry_after: ruling.retry_after,
        ..Incident::new(kind, set, facts, ruling.at)
    };
    match (ruling.refuser, plan) {
        (Some(Refuser::Rule(number)), None) => {
            let rule = set.rules.rule(number);
            let (name, algorithm) = (Some(&*rule.name), Some(rule.limit.algorithm()));
            observer.observe(&Incident { name, algorithm, ..denial });
        }
        (Some(Refuser::Detector(number)), _) => {
            let rule = &set.rules.detectors()[number as usize];
            let mut key = tidegate_policy::KeyBytes::new();
            // The detector has blocked the request by this key, so the request has it.
            let _written = facts.write_key(&rule.key, &mut key);
            observer.observe(&Incident { name: Some(&rule.name), key: &key, key_parts: &rule.key, ..denial });
        }
        (_, Some(plan)) => observe_limits(observer, set, (plan, violated), ruling, scope, &denial),
        (_, None) => observer.observe(&denial),
    }
}

/// One incident for each limit that was counted as having denied the request.
fn observe_limits(
    observer: &dyn Observer,
    set: &Active,
    (plan, violated): (&Plan, Option<usize>),
    ruling: &Ruling,
    scope: CountScope<'_>,
    denial: &Incident<'_, '_>,
) {
    // Whoever has waited too long in a queue is denied, even if the limit would admit it by now.
    let waited_for = ruling.tightest.filter(|&tightest| !refuses(&set.rules, &ruling.standings[tightest]));
    for (index, (item, standing)) in plan.items().iter().zip(&ruling.standings).enumerate() {
        let is_counted = !scope.counted_elsewhere.get(index).is_some_and(|elsewhere| *elsewhere);
        if !is_counted || !(refuses(&set.rules, standing) || waited_for == Some(index)) {
            continue;
        }
        let (rule, decision) = (set.rules.rule(item.rule), &standing.decision);
        let (reason, retry_after) = match ruling.refuser == Some(Refuser::Rule(item.rule)) {
            true => (ruling.reason, ruling.retry_after),
            false if decision.is_never() => (Reason::CostExceedsCapacity, None),
            false => (exceeded(rule), decision.wait()),
        };
        // The key that requests without a key share identifies nobody.
        let key_parts: &[Descriptor] = if plan.is_shared(item) { &[] } else { &rule.key };
        observer.observe(&Incident {
            reason: Some(reason),
            name: Some(&rule.name),
            algorithm: Some(rule.limit.algorithm()),
            key: plan.key(item),
            key_parts,
            remaining: Some(decision.remaining),
            retry_after,
            is_violation: violated == Some(index),
            ..*denial
        });
    }
}
