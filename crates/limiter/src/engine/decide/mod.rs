//! The one way from a request to its decision: what comes before limits, one store call, settling.
//!
//! `begin` and `finish` stand around that call. Where the store answers at once, all of it is one function call, and
//! nothing is kept; where it does not, what `finish` needs goes into a future ([`Limiter::decide_later`]). The future
//! owns the request, so that nobody has to keep the bytes that a request was read from while it waits.

pub(super) mod conclude;
pub(super) mod explain;
pub(super) mod fallback;
pub(super) mod gates;
pub(super) mod joint;
pub(super) mod two_steps;

use std::sync::Arc;

use arc_swap::Guard;
use smallvec::SmallVec;
use tidegate_core::{Cost, Nanos};
use tidegate_policy::{Facts, Plan, Request};

use super::active::{Active, Charges, Payer};
use super::decision::{Decision, RuleStanding, Ruling};
use super::limiter::{Limiter, Operation};
use super::queue::waiting::{QueuedCharges, TakenPlaces};
use crate::{Charge, Clock, Intent, Later, Memory, NowOrLater, Store, Verdict};
use conclude::{CanWait, conclude};
use fallback::mark;
use gates::ShadowDenied;

impl<C: Clock> Limiter<Memory<C>, C> {
    /// Decides a request, and charges it if it is admitted. A limit whose
    /// strategy is `queue` refuses here; [`Limiter::admit`] waits.
    pub fn check(&self, request: &Request<'_>) -> Decision {
        self.check_at(request, self.clock.now())
    }

    /// [`Limiter::check`] as of an instant, for those that have read the clock.
    pub fn check_at(&self, request: &Request<'_>, now: Nanos) -> Decision {
        self.decide(request, Operation::Check, now).expect_now().0
    }

    /// What [`Limiter::check`] would say; nothing is charged or counted, and
    /// what remains is told as it stands.
    pub fn peek(&self, request: &Request<'_>) -> Decision {
        self.decide(request, Operation::Peek, self.clock.now()).expect_now().0
    }

    /// Decides a request without waiting, where a `queue` limit may make it
    /// wait: then its cost is reserved, and [`Decision::queued`] says for how
    /// long. The reservation stays; this is for worlds in which time is told, not
    /// waited for.
    pub fn take_place_at(&self, request: &Request<'_>, now: Nanos) -> Decision {
        self.decide(request, Operation::TakePlace, now).expect_now().0
    }

    /// Gives `cost` back to every limit that applies, never above a capacity,
    /// and tells where they stand then.
    pub fn refund(&self, request: &Request<'_>, cost: Cost) -> Decision {
        self.refund_async(request, cost).expect_now()
    }
}

impl<S: Store, C: Clock> Limiter<S, C> {
    /// Decides a request on any store, and charges it if it is admitted. A limit whose strategy is `queue` refuses
    /// here; [`Limiter::admit`] waits. While the store fails, each limit's `on_store_error` decides, and
    /// [`Decision::without_store`] says so.
    pub fn check_async(&self, request: &Request<'_>) -> NowOrLater<'_, Decision> {
        self.check_async_at(request, self.clock.now())
    }

    /// [`Limiter::check_async`] as of an instant, for those that have read the clock.
    #[inline]
    pub fn check_async_at(&self, request: &Request<'_>, now: Nanos) -> NowOrLater<'_, Decision> {
        self.decide(request, Operation::Check, now).map(|(decision, _)| decision)
    }

    /// What [`Limiter::check_async`] would say; nothing is charged or counted, and what remains is told as it stands.
    pub fn peek_async(&self, request: &Request<'_>) -> NowOrLater<'_, Decision> {
        self.decide(request, Operation::Peek, self.clock.now()).map(|(decision, _)| decision)
    }

    /// Gives `cost` back to every limit that applies, never above a capacity, and tells where they stand then. What
    /// is given back while the store fails reaches only limits that are `local` then; if one is `closed`, nothing is
    /// given back, and the decision is a refusal.
    pub fn refund_async(&self, request: &Request<'_>, cost: Cost) -> NowOrLater<'_, Decision> {
        let (now, set) = (self.clock.now(), self.active.load_full());
        let plan = set.rules.plan(&set.rules.facts(request));
        let given_back = move |set: Arc<Active>, plan: &Plan, request: &Request<'_>, said: &Said<S>| {
            let charges = set.charges_of(plan, Payer::of(request), cost, &self.store);
            let ruling =
                self.rule(&set, plan, request, &charges, (Intent::Refund, said), (CanWait::DoesNotWait, now));
            drop(charges);
            self.told(Guard::from_inner(set), ruling)
        };
        let charges = set.charges_of(&plan, Payer::of(request), cost, &self.store);
        let asked = self.ask(Intent::Refund, &charges, now);
        drop(charges);
        match asked {
            NowOrLater::Now(said) => NowOrLater::Now(given_back(set, &plan, request, &said)),
            NowOrLater::Later(later) => {
                let request = request.clone().into_owned();
                NowOrLater::later(async move { given_back(set, &plan, &request, &later.await) })
            }
        }
    }

    #[inline]
    pub(super) fn decide(
        &self,
        request: &Request<'_>,
        ask: Operation,
        now: Nanos,
    ) -> NowOrLater<'_, DecisionAndPlace> {
        self.decide_under(self.active.load(), EntryStage::Nothing, request, ask, now)
    }

    /// The same under a policy that was loaded already.
    #[inline]
    pub(super) fn decide_under(
        &self,
        set: Guard<Arc<Active>>,
        before: EntryStage,
        request: &Request<'_>,
        ask: Operation,
        now: Nanos,
    ) -> NowOrLater<'_, DecisionAndPlace> {
        let facts = set.rules.facts(request);
        let (mut plan, mut shadow_denied) = (Plan::default(), ShadowDenied::new());
        if let Some(ruling) = self.begin(&set, &facts, (ask, now), before, &mut plan, &mut shadow_denied) {
            drop(facts);
            return NowOrLater::Now((self.told(set, ruling), None));
        }
        let charges = set.charges(&plan, Payer::of(request), &self.store);
        let asked = match self.ask(ask.intent(), &charges, now) {
            // What the store says is large: it is looked at where it is.
            NowOrLater::Now(ref said) => {
                let said = (ask.intent(), said);
                let mut ruling = self.rule(&set, &plan, request, &charges, said, (ask.caller(), now));
                if !may_queue(&ruling, ask) {
                    self.finish(&set, &facts, &plan, &mut ruling, shadow_denied, ask);
                    drop((charges, facts));
                    return NowOrLater::Now((self.told(set, ruling), None));
                }
                Asked::Refused(Box::new(ruling))
            }
            NowOrLater::Later(later) => Asked::Waiting(later),
        };
        drop((charges, facts));
        let begun = Begun {
            // A guard that is held for long slows down everybody who loads the policy.
            set: Guard::into_inner(set),
            request: request.clone().into_owned(),
            plan,
            shadow_denied,
        };
        NowOrLater::later(self.decide_later(begun, asked, ask, now))
    }

    /// The rest of a decision that has to wait: for the store, or for what it says of a place in a queue.
    async fn decide_later(
        &self,
        begun: Begun,
        asked: Asked<'_, S>,
        ask: Operation,
        now: Nanos,
    ) -> DecisionAndPlace {
        let Begun { set, request, plan, shadow_denied } = begun;
        let set = Guard::from_inner(set);
        let facts = set.rules.facts(&request);
        let mut charges = set.charges(&plan, Payer::of(&request), &self.store);
        let mut ruling = match asked {
            Asked::Refused(ruling) => *ruling,
            Asked::Waiting(later) => {
                let said = &later.await;
                self.rule(&set, &plan, &request, &charges, (ask.intent(), said), (ask.caller(), now))
            }
        };
        let mut reserved: Option<Box<QueuedCharges>> = None;
        if may_queue(&ruling, ask) {
            let queued = self.queue_up(&set, &plan, &mut charges, &mut ruling, ask).await;
            reserved = queued.map(|queued| in_queue(queued, &request, &charges, &ruling, &shadow_denied));
        }
        self.finish(&set, &facts, &plan, &mut ruling, shadow_denied, ask);
        drop((charges, facts));
        if let Some(reserved) = &mut reserved {
            reserved.plan = plan;
        }
        (self.told(set, ruling), reserved)
    }

    /// One call to the store; none where there is nothing to ask.
    #[inline]
    pub(super) fn ask(&self, intent: Intent, charges: &[Charge<'_>], now: Nanos) -> NowOrLater<'_, Said<S>> {
        if charges.is_empty() {
            return NowOrLater::Now(Ok(Verdict { allowed: true, decisions: SmallVec::new(), at: now }));
        }
        self.store.charge(intent, charges, now)
    }

    /// What comes before the store is asked: the ruling, where the limits have no part in it; otherwise `plan` is what
    /// they are to be asked.
    #[inline]
    fn begin(
        &self,
        set: &Active,
        facts: &Facts<'_, '_>,
        (ask, now): (Operation, Nanos),
        before: EntryStage,
        plan: &mut Plan,
        shadow_denied: &mut ShadowDenied,
    ) -> Option<Ruling> {
        let opening = match before {
            EntryStage::Nothing => self.open(set, facts, (ask, now), plan, shadow_denied),
            EntryStage::Unidentified(noted) => {
                *shadow_denied = noted;
                self.open_identified(set, facts, (ask, now), plan, shadow_denied)
            }
        };
        let Some(mut ruling) = opening.ruling(now) else {
            if ask != Operation::Peek {
                self.spill_lines(set, plan, now);
            }
            return None;
        };
        ruling.shadow_denied = std::mem::take(shadow_denied);
        self.close(set, facts, None, &mut ruling, ask);
        Some(ruling)
    }

    /// What comes after the store has answered, and after a queue, if there is one.
    #[inline]
    fn finish(
        &self,
        set: &Active,
        facts: &Facts<'_, '_>,
        plan: &Plan,
        ruling: &mut Ruling,
        mut shadow_denied: ShadowDenied,
        ask: Operation,
    ) {
        shadow_denied.append(&mut ruling.shadow_denied);
        ruling.shadow_denied = shadow_denied;
        self.close(set, facts, Some(plan), ruling, ask);
    }

    /// What the limits of a request amount to, by what the store said, or by what they do without it.
    #[inline]
    fn rule(
        &self,
        set: &Active,
        plan: &Plan,
        request: &Request<'_>,
        charges: &Charges<'_>,
        (intent, said): (Intent, &Said<S>),
        (caller, now): (CanWait, Nanos),
    ) -> Ruling {
        match said {
            Ok(verdict) => conclude(&set.rules, plan, verdict, now, caller),
            Err(_) => self.rule_without(set, plan, request, charges, intent, now),
        }
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
        let mut ruling = conclude(&set.rules, plan, &without.verdict, now, CanWait::DoesNotWait);
        mark(&mut ruling, &without.closed);
        ruling
    }
}

/// How far a request has come already.
pub(super) enum EntryStage {
    /// Nothing was looked at.
    Nothing,
    /// It has passed what needs no credential; what a policy in shadow would have refused there.
    Unidentified(ShadowDenied),
}

/// What a store says to a call.
type Said<S> = Result<Verdict, <S as Store>::Error>;

/// A request that has passed what comes before limits, as it is kept while it waits.
struct Begun {
    set: Arc<Active>,
    request: Request<'static>,
    plan: Plan,
    shadow_denied: ShadowDenied,
}

/// What is known of the limits of a request that has to wait.
enum Asked<'s, S: Store> {
    /// They have refused it, and a queue may take it.
    Refused(Box<Ruling>),
    /// Nothing: the store has to be waited for.
    Waiting(Later<'s, Said<S>>),
}

/// A decision, and what is reserved for a request that has to wait; that is rare and large, so it is kept apart.
pub(super) type DecisionAndPlace = (Decision, Option<Box<QueuedCharges>>);

/// Is it refused so that it may be made to wait?
fn may_queue(ruling: &Ruling, ask: Operation) -> bool {
    !ruling.allowed && ask.caller() == CanWait::Waits && !ruling.without_store
}

/// What a request that waits has reserved; its plan is still in use.
fn in_queue(
    queued: TakenPlaces,
    request: &Request<'_>,
    charges: &Charges<'_>,
    ruling: &Ruling,
    shadow_denied: &ShadowDenied,
) -> Box<QueuedCharges> {
    let taken = |(standing, charge): (&RuleStanding, &Charge<'_>)| {
        standing.decision.is_allowed().then_some(charge.delay)
    };
    Box::new(QueuedCharges {
        queued,
        plan: Plan::default(),
        taken: ruling.standings.iter().zip(charges).map(taken).collect(),
        trust: request.trust,
        tenant: request.tenant.as_deref().map(Box::from),
        at: ruling.at,
        shadow_denied: shadow_denied.clone(),
    })
}
