//! From a request to its decision: gates, one store call, conclusion. [`gates`] and [`conclude`](mod@conclude)
//! are those two steps, [`fallback`] replaces the store while it fails; [`joint`], [`entered`] and [`explain`]
//! are the other ways to decide.
//!
//! `begin` and `finish` run before and after the store call. If the store answers at once, all of it is one
//! function call and nothing is kept. Otherwise what `finish` needs goes into a future ([`later`]).

pub(super) mod conclude;
pub(super) mod entered;
pub(super) mod explain;
pub(super) mod fallback;
pub(super) mod gates;
pub(super) mod joint;
mod later;

use std::sync::Arc;

use arc_swap::Guard;
use smallvec::SmallVec;
use tidegate_core::{Cost, Nanos};
use tidegate_policy::{Facts, Plan, Request};

use super::active::{Active, Charges, Payer};
use super::beside::BesideStage;
use super::decision::{Decision, Ruling};
use super::limiter::{Limiter, Operation};
use super::queue::places::QueuedCharges;
use crate::{Charge, Clock, Intent, Memory, NowOrLater, Store, Verdict};
use conclude::{CanWait, conclude};
use fallback::mark_without_store;
use gates::{GateNotes, GateOutcome};
pub(crate) use later::PendingRequest;
use later::{KeptRequest, Unfinished};

impl<C: Clock> Limiter<Memory<C>, C> {
    /// Decides a request, and charges it if it is admitted. A limit with the strategy `queue` denies here;
    /// [`Limiter::admit`] waits.
    pub fn check(&self, request: &Request<'_>) -> Decision {
        self.check_at(request, self.clock.now())
    }

    /// [`Limiter::check`] at a given instant, for callers that have read the clock already.
    pub fn check_at(&self, request: &Request<'_>, now: Nanos) -> Decision {
        let decision = self.decide(request, Operation::Check, now).expect_now().0;
        self.besides_of_now(&decision, request, BesideStage::Check, now);
        decision
    }

    /// The decision that [`Limiter::check`] would return; nothing is charged or counted, and `remaining` is the
    /// current state.
    pub fn peek(&self, request: &Request<'_>) -> Decision {
        self.decide(request, Operation::Peek, self.clock.now()).expect_now().0
    }

    /// Decides a request without waiting, even if a `queue` limit makes it wait: then its cost is charged ahead
    /// of time, and [`Decision::queued`] says for how long it would wait. The charge is not handed back. This
    /// is for simulations, in which time does not pass by itself.
    pub fn take_place_at(&self, request: &Request<'_>, now: Nanos) -> Decision {
        let decision = self.decide(request, Operation::TakePlace, now).expect_now().0;
        self.besides_of_now(&decision, request, BesideStage::Admit, now);
        decision
    }

    /// Gives `cost` back to every limit that applies, never above a capacity, and returns their state after
    /// that.
    pub fn refund(&self, request: &Request<'_>, cost: Cost) -> Decision {
        self.refund_async(request, cost).expect_now()
    }
}

impl<S: Store, C: Clock> Limiter<S, C> {
    /// Decides a request on any store, and charges it if it is admitted. A limit with the strategy `queue`
    /// denies here; [`Limiter::admit`] waits. While the store fails, the `on_store_error` of each limit
    /// decides, and [`Decision::without_store`] is true.
    pub fn check_async(&self, request: &Request<'_>) -> NowOrLater<'_, Decision> {
        self.check_async_at(request, self.clock.now())
    }

    /// [`Limiter::check_async`] at a given instant, for callers that have read the clock already.
    #[inline]
    pub fn check_async_at(&self, request: &Request<'_>, now: Nanos) -> NowOrLater<'_, Decision> {
        let how = (Operation::Check, BesideStage::Check);
        self.decide_with_besides(request, how, now, |decided| decided.map(|(decision, _)| decision))
    }

    /// The decision that [`Limiter::check_async`] would return; nothing is charged or counted, and `remaining`
    /// is the current state.
    pub fn peek_async(&self, request: &Request<'_>) -> NowOrLater<'_, Decision> {
        self.decide(request, Operation::Peek, self.clock.now()).map(|(decision, _)| decision)
    }

    /// Gives `cost` back to every limit that applies, never above a capacity, and returns their state after
    /// that. While the store fails, tokens can only be given back to `local` limits; if one is `closed`,
    /// nothing is given back, and the decision is a denial.
    pub fn refund_async(&self, request: &Request<'_>, cost: Cost) -> NowOrLater<'_, Decision> {
        if self.besides.is_some() {
            self.each_beside(|beside| beside.refund(request, cost));
        }
        let (now, set) = (self.clock.now(), self.active.load_full());
        let plan = self.plan_of(&set, &set.rules.facts(request), now);
        let given_back = move |set: Arc<Active>,
                               plan: &Plan,
                               request: &Request<'_>,
                               result: &StoreResult<S>| {
            let charges = set.charges_of(plan, Payer::of(&set.rules, request), cost, &self.store);
            let ruling =
                self.ruling_of(&set, plan, &charges, (Intent::Refund, result), (CanWait::DoesNotWait, now));
            drop(charges);
            self.make_decision(Guard::from_inner(set), ruling)
        };
        let charges = set.charges_of(&plan, Payer::of(&set.rules, request), cost, &self.store);
        let result = self.charge_store(Intent::Refund, &charges, now);
        drop(charges);
        match result {
            NowOrLater::Now(result) => NowOrLater::Now(given_back(set, &plan, request, &result)),
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
        operation: Operation,
        now: Nanos,
    ) -> NowOrLater<'_, DecisionAndPlace> {
        self.decide_under(self.active.load(), EntryStage::Nothing, request, operation, now)
    }

    /// [`Limiter::decide`] for the first of requests that the caller keeps.
    pub(super) fn decide_kept(
        &self,
        requests: &Arc<[Request<'static>]>,
        operation: Operation,
        now: Nanos,
    ) -> NowOrLater<'_, DecisionAndPlace> {
        let keep = || KeptRequest::Shared(Arc::clone(requests));
        self.decide_keeping(self.active.load(), EntryStage::Nothing, (&requests[0], keep), operation, now)
    }

    /// [`Limiter::decide`] under a policy that is already loaded.
    #[inline]
    pub(super) fn decide_under(
        &self,
        set: Guard<Arc<Active>>,
        before: EntryStage,
        request: &Request<'_>,
        operation: Operation,
        now: Nanos,
    ) -> NowOrLater<'_, DecisionAndPlace> {
        self.decide_keeping(set, before, (request, || KeptRequest::own(request)), operation, now)
    }

    /// The same; `keep` keeps the request if it has to wait.
    #[inline]
    fn decide_keeping(
        &self,
        set: Guard<Arc<Active>>,
        before: EntryStage,
        (request, keep): (&Request<'_>, impl FnOnce() -> KeptRequest),
        operation: Operation,
        now: Nanos,
    ) -> NowOrLater<'_, DecisionAndPlace> {
        let facts = set.rules.facts(request);
        let (mut plan, mut notes) = (Plan::default(), GateNotes::default());
        if let Some(ruling) = self.begin(&set, &facts, (operation, now), before, &mut plan, &mut notes) {
            drop(facts);
            return NowOrLater::Now((self.make_decision(set, ruling), None));
        }
        let charges = set.charges(&plan, Payer::of(&set.rules, request), &self.store);
        let charged = self.charge_store(operation.intent(), &charges, now);
        let asking = self.count_shared(&set, &facts, &mut notes, (&charged, charges.is_empty()), now);
        let unfinished = match (charged, asking) {
            // The verdict is large, so it is used by reference.
            (NowOrLater::Now(ref result), None) => {
                let result = (operation.intent(), result);
                let mut ruling = self.ruling_of(&set, &plan, &charges, result, (operation.caller(), now));
                if !may_queue(&ruling, operation) {
                    self.finish(&set, &facts, &plan, &mut ruling, &notes, operation);
                    drop((charges, facts));
                    return NowOrLater::Now((self.make_decision(set, ruling), None));
                }
                Unfinished::Denied(Box::new(ruling))
            }
            (NowOrLater::Later(later), None) => Unfinished::Waiting(later),
            (charged, Some(asking)) => Unfinished::Asking(Box::new((charged, asking))),
        };
        drop((charges, facts));
        let pending = Box::new(PendingRequest { request: keep(), plan, notes });
        // Holding an `arc_swap::Guard` across an await slows every other reader, so take a full `Arc`.
        NowOrLater::later(self.decide_later(Guard::into_inner(set), pending, unfinished, (operation, now)))
    }

    /// One call to the store; none if there is nothing to charge.
    #[inline]
    pub(super) fn charge_store(
        &self,
        intent: Intent,
        charges: &[Charge<'_>],
        now: Nanos,
    ) -> NowOrLater<'_, StoreResult<S>> {
        if charges.is_empty() {
            return NowOrLater::Now(Ok(Verdict { allowed: true, decisions: SmallVec::new(), at: now }));
        }
        self.store.charge(intent, charges, now)
    }

    /// Runs the gates. Returns the ruling if they decide; otherwise `plan` has the limits to charge.
    #[inline]
    fn begin(
        &self,
        set: &Active,
        facts: &Facts<'_, '_>,
        (operation, now): (Operation, Nanos),
        before: EntryStage,
        plan: &mut Plan,
        notes: &mut GateNotes,
    ) -> Option<Ruling> {
        let gates = match before {
            EntryStage::Nothing => self.check_gates(set, facts, (operation, now), plan, notes),
            EntryStage::Unidentified(noted) => {
                *notes = noted;
                self.check_credential_and_gates(set, facts, (operation, now), plan, notes)
            }
        };
        let gates = match gates {
            GateOutcome::Open => self.check_keys(set, facts, operation, plan, notes),
            decided => decided,
        };
        let Some(mut ruling) = gates.ruling(now) else {
            if operation != Operation::Peek {
                self.discard_queue_overflow(set, plan, now);
            }
            return None;
        };
        self.add_shared(set, facts, notes, now);
        notes.add_to(&mut ruling);
        self.jitter_and_count(set, facts, None, &mut ruling, operation);
        Some(ruling)
    }

    /// Completes a ruling after the store has answered, and after the queue, if there is one.
    #[inline]
    fn finish(
        &self,
        set: &Active,
        facts: &Facts<'_, '_>,
        plan: &Plan,
        ruling: &mut Ruling,
        notes: &GateNotes,
        operation: Operation,
    ) {
        notes.add_to(ruling);
        self.jitter_and_count(set, facts, Some(plan), ruling, operation);
    }

    /// The ruling of the limits on a request, from the store's verdict, or from the fallback if the store
    /// failed.
    #[inline]
    pub(super) fn ruling_of(
        &self,
        set: &Active,
        plan: &Plan,
        charges: &Charges<'_>,
        (intent, result): (Intent, &StoreResult<S>),
        (caller, now): (CanWait, Nanos),
    ) -> Ruling {
        match result {
            Ok(verdict) => conclude(&set.rules, (plan, charges), verdict, now, caller),
            Err(_) => self.ruling_without_store(set, plan, charges, intent, now),
        }
    }

    /// The ruling of the limits on a request while the store fails.
    #[cold]
    fn ruling_without_store(
        &self,
        set: &Active,
        plan: &Plan,
        charges: &Charges<'_>,
        intent: Intent,
        now: Nanos,
    ) -> Ruling {
        let subject = |index: usize| (plan.items()[index].rule, set.variant_of(plan, index));
        let without = self.fall_back(set, subject, charges, intent, now);
        let mut ruling = conclude(&set.rules, (plan, charges), &without.verdict, now, CanWait::DoesNotWait);
        mark_without_store(&mut ruling, &without.closed);
        ruling
    }
}

/// Which gates a request has passed already.
#[expect(
    clippy::large_enum_variant,
    reason = "it is passed on once; a box would cost each request an allocation"
)]
pub(super) enum EntryStage {
    /// None.
    Nothing,
    /// Those that need no credential; with what they noted.
    Unidentified(GateNotes),
}

/// The result of a store call.
type StoreResult<S> = Result<Verdict, <S as Store>::Error>;

/// A decision, and the charges of a request that has to wait in a queue; they are rare and large, so they are
/// boxed.
pub(super) type DecisionAndPlace = (Decision, Option<Box<QueuedCharges>>);

/// May a denied request wait in a queue?
fn may_queue(ruling: &Ruling, operation: Operation) -> bool {
    !ruling.allowed && operation.caller() == CanWait::Waits && !ruling.without_store
}
