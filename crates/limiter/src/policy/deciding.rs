//! The one way from a request to its decision: what comes before limits, one store call, settling.
//!
//! Where the store waits, so does this; `Limiter::decide_now` is the same without a wait, since what a future keeps
//! while it waits takes a quarter of the time of a decision in memory. What both do is in the functions that they
//! share, and a test holds the two together.

use std::sync::Arc;

use arc_swap::Guard;
use smallvec::SmallVec;
use tidegate_core::{Cost, Nanos};
use tidegate_policy::{Facts, Plan, Request};

use super::active::{Active, Charges, Payer};
use super::decision::{Decision, RuleStanding, Ruling};
use super::fallback::mark;
use super::limiter::{Ask, Limiter};
use super::opening::ShadowDenied;
use super::settle::{Caller, settle};
use super::waiting::{Queued, Reserved};
use crate::ready::ready_now;
use crate::{Charge, Clock, Intent, Memory, Store, Verdict};

impl<C: Clock> Limiter<Memory<C>, C> {
    /// Decides a request, and charges it if it is admitted. A limit whose
    /// strategy is `queue` refuses here; [`Limiter::admit`] waits.
    pub fn check(&self, request: &Request<'_>) -> Decision {
        self.check_at(request, self.clock.now())
    }

    /// [`Limiter::check`] as of an instant, for those that have read the clock.
    pub fn check_at(&self, request: &Request<'_>, now: Nanos) -> Decision {
        self.decide_now(request, Ask::Check, now).0
    }

    /// What [`Limiter::check`] would say; nothing is charged or counted, and
    /// what remains is told as it stands.
    pub fn peek(&self, request: &Request<'_>) -> Decision {
        self.decide_now(request, Ask::Peek, self.clock.now()).0
    }

    /// Decides a request without waiting, where a `queue` limit may make it
    /// wait: then its cost is reserved, and [`Decision::queued`] says for how
    /// long. The reservation stays; this is for worlds in which time is told, not
    /// waited for.
    pub fn reserve_at(&self, request: &Request<'_>, now: Nanos) -> Decision {
        self.decide_now(request, Ask::Reserve, now).0
    }

    /// Gives `cost` back to every limit that applies, never above a capacity,
    /// and tells where they stand then.
    pub fn refund(&self, request: &Request<'_>, cost: Cost) -> Decision {
        ready_now(self.refund_async(request, cost))
    }
}

impl<S: Store, C: Clock> Limiter<S, C> {
    /// Decides a request on any store, and charges it if it is admitted. A limit whose strategy is `queue` refuses
    /// here; [`Limiter::admit`] waits. While the store fails, each limit's `on_store_error` decides, and
    /// [`Decision::without_store`] says so.
    pub async fn check_async(&self, request: &Request<'_>) -> Decision {
        self.check_async_at(request, self.clock.now()).await
    }

    /// [`Limiter::check_async`] as of an instant, for those that have read the clock.
    pub async fn check_async_at(&self, request: &Request<'_>, now: Nanos) -> Decision {
        self.decide(request, Ask::Check, now).await.0
    }

    /// [`Limiter::check_async_at`] for those who would rather not wait, if they need not: `None`, with nothing decided,
    /// where the store may wait.
    #[inline]
    pub fn check_at_once(&self, request: &Request<'_>, now: Nanos) -> Option<Decision> {
        self.is_at_once.then(|| self.decide_now(request, Ask::Check, now).0)
    }

    /// What [`Limiter::check_async`] would say; nothing is charged or counted, and what remains is told as it stands.
    pub async fn peek_async(&self, request: &Request<'_>) -> Decision {
        self.decide(request, Ask::Peek, self.clock.now()).await.0
    }

    /// Gives `cost` back to every limit that applies, never above a capacity, and tells where they stand then. What
    /// is given back while the store fails reaches only limits that are `local` then; if one is `closed`, nothing is
    /// given back, and the decision is a refusal.
    pub async fn refund_async(&self, request: &Request<'_>, cost: Cost) -> Decision {
        let now = self.clock.now();
        let set = Guard::from_inner(self.active.load_full());
        let facts = set.rules.facts(request);
        let plan = set.rules.plan(&facts);
        let charges = set.charges_of(&plan, Payer::of(request), cost, &self.store);
        let ruling = match self.ask(Intent::Refund, &charges, now).await {
            Ok(verdict) => settle(&set.rules, &plan, &verdict, now, Caller::DoesNotWait),
            Err(_) => self.rule_without(&set, &plan, request, &charges, Intent::Refund, now),
        };
        drop((charges, facts));
        self.told(set, ruling)
    }

    pub(super) async fn decide(&self, request: &Request<'_>, ask: Ask, now: Nanos) -> Decided {
        match self.is_at_once {
            true => self.decide_now(request, ask, now),
            false => {
                let set = Guard::from_inner(self.active.load_full());
                self.decide_waiting(set, Before::Nothing, request, ask, now).await
            }
        }
    }

    /// On a store that never waits.
    fn decide_now(&self, request: &Request<'_>, ask: Ask, now: Nanos) -> Decided {
        self.decide_now_under(self.active.load(), Before::Nothing, request, ask, now)
    }

    /// The same under a policy that was loaded already.
    #[inline]
    pub(super) fn decide_now_under(
        &self,
        set: Guard<Arc<Active>>,
        before: Before,
        request: &Request<'_>,
        ask: Ask,
        now: Nanos,
    ) -> Decided {
        let facts = set.rules.facts(request);
        let (mut plan, mut shadow_denied) = (Plan::default(), ShadowDenied::new());
        let ruling = self.rule_before(&set, &facts, (ask, now), before, &mut plan, &mut shadow_denied);
        if let Some(ruling) = ruling {
            drop(facts);
            return (self.told(set, ruling), None);
        }
        if ask != Ask::Peek {
            self.settle_lines(&set, &plan, now);
        }
        let mut charges = set.charges(&plan, Payer::of(request), &self.store);
        // A verdict is large: it is looked at where it is. That a store never waits was seen when it was put to use.
        let mut ruling = match &self.store.charge_at_once(ask.intent(), &charges, now) {
            Some(Ok(verdict)) => settle(&set.rules, &plan, verdict, now, ask.caller()),
            Some(Err(_)) | None => self.rule_without(&set, &plan, request, &charges, ask.intent(), now),
        };
        let mut reserved: Option<Box<Reserved>> = None;
        if may_queue(&ruling, ask) {
            let queued = ready_now(self.queue_up(&set, &plan, &mut charges, &mut ruling, ask));
            reserved = queued.map(|queued| reserve(queued, request, &charges, &ruling, &shadow_denied));
        }
        shadow_denied.append(&mut ruling.shadow_denied);
        ruling.shadow_denied = shadow_denied;
        self.close(&set, &facts, Some(&plan), &mut ruling, ask);
        drop((charges, facts));
        if let Some(reserved) = &mut reserved {
            reserved.plan = plan;
        }
        (self.told(set, ruling), reserved)
    }

    /// On a store that may wait. What is quick to hold of a policy is dear to others while it is held, so that is held
    /// in another way.
    pub(super) async fn decide_waiting(
        &self,
        set: Guard<Arc<Active>>,
        before: Before,
        request: &Request<'_>,
        ask: Ask,
        now: Nanos,
    ) -> Decided {
        let facts = set.rules.facts(request);
        let (mut plan, mut shadow_denied) = (Plan::default(), ShadowDenied::new());
        let ruling = self.rule_before(&set, &facts, (ask, now), before, &mut plan, &mut shadow_denied);
        if let Some(ruling) = ruling {
            drop(facts);
            return (self.told(set, ruling), None);
        }
        let mut charges = set.charges(&plan, Payer::of(request), &self.store);
        let mut ruling = match self.ask(ask.intent(), &charges, now).await {
            Ok(verdict) => settle(&set.rules, &plan, &verdict, now, ask.caller()),
            Err(_) => self.rule_without(&set, &plan, request, &charges, ask.intent(), now),
        };
        let mut reserved: Option<Box<Reserved>> = None;
        if may_queue(&ruling, ask) {
            let queued = self.queue_up(&set, &plan, &mut charges, &mut ruling, ask).await;
            reserved = queued.map(|queued| reserve(queued, request, &charges, &ruling, &shadow_denied));
        }
        shadow_denied.append(&mut ruling.shadow_denied);
        ruling.shadow_denied = shadow_denied;
        self.close(&set, &facts, Some(&plan), &mut ruling, ask);
        drop((charges, facts));
        if let Some(reserved) = &mut reserved {
            reserved.plan = plan;
        }
        (self.told(set, ruling), reserved)
    }

    /// One call to the store; none where there is nothing to ask.
    pub(super) async fn ask(
        &self,
        intent: Intent,
        charges: &[Charge<'_>],
        now: Nanos,
    ) -> Result<Verdict, S::Error> {
        if charges.is_empty() {
            return Ok(Verdict { allowed: true, decisions: SmallVec::new(), at: now });
        }
        self.store.charge(intent, charges, now).await
    }

    /// The ruling, where the limits have no part in it; otherwise `plan` is what they are to be asked.
    #[inline]
    fn rule_before(
        &self,
        set: &Active,
        facts: &Facts<'_, '_>,
        (ask, now): (Ask, Nanos),
        before: Before,
        plan: &mut Plan,
        shadow_denied: &mut ShadowDenied,
    ) -> Option<Ruling> {
        let opening = match before {
            Before::Nothing => self.open(set, facts, (ask, now), plan, shadow_denied),
            Before::Unidentified(noted) => {
                *shadow_denied = noted;
                self.open_identified(set, facts, (ask, now), plan, shadow_denied)
            }
        };
        let mut ruling = opening.ruling(now)?;
        ruling.shadow_denied = std::mem::take(shadow_denied);
        self.close(set, facts, None, &mut ruling, ask);
        Some(ruling)
    }

    /// What the limits of a request amount to while the store fails.
    #[cold]
    fn rule_without(
        &self,
        set: &Active,
        plan: &Plan,
        request: &Request<'_>,
        charges: &Charges<'_>,
        intent: Intent,
        now: Nanos,
    ) -> Ruling {
        let subject = |place: usize| (plan.items()[place].rule, request.trust);
        let without = self.fall_back(set, subject, charges, intent, now);
        let mut ruling = settle(&set.rules, plan, &without.verdict, now, Caller::DoesNotWait);
        mark(&mut ruling, &without.closed);
        ruling
    }
}

/// How far a request has come already.
pub(super) enum Before {
    /// Nothing was looked at.
    Nothing,
    /// It has passed what needs no credential; what a policy in shadow would have refused there.
    Unidentified(ShadowDenied),
}

/// A decision, and what is reserved for a request that has to wait; that is rare and large, so it is kept apart.
pub(super) type Decided = (Decision, Option<Box<Reserved>>);

/// Is it refused so that it may be made to wait?
fn may_queue(ruling: &Ruling, ask: Ask) -> bool {
    !ruling.allowed && ask.caller() == Caller::Waits && !ruling.without_store
}

/// What a request that waits has reserved; its plan is still in use.
fn reserve(
    queued: Queued,
    request: &Request<'_>,
    charges: &Charges<'_>,
    ruling: &Ruling,
    shadow_denied: &ShadowDenied,
) -> Box<Reserved> {
    let taken = |(standing, charge): (&RuleStanding, &Charge<'_>)| {
        standing.decision.is_allowed().then_some(charge.delay)
    };
    Box::new(Reserved {
        queued,
        plan: Plan::default(),
        taken: ruling.standings.iter().zip(charges).map(taken).collect(),
        trust: request.trust,
        tenant: request.tenant.as_deref().map(Box::from),
        at: ruling.at,
        shadow_denied: shadow_denied.clone(),
    })
}
