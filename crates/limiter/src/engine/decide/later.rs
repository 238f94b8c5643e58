//! Decisions that have to wait for the store, or for a place in a queue.
//!
//! The future keeps the request, so that the bytes from which the request was read need not be kept while it waits. Every
//! decision that waits for the store allocates one, and moves it: so it keeps only what it needs while it waits, and what is rare
//! is boxed.

use std::ops::Deref;
use std::sync::Arc;

use arc_swap::Guard;
use smallvec::SmallVec;
use tidegate_core::Nanos;
use tidegate_policy::{Plan, Request};

use super::gates::GateNotes;
use super::{DecisionAndPlace, StoreResult, may_queue};
use crate::engine::active::{Active, Charges, Payer};
use crate::engine::decision::{RuleStanding, Ruling};
use crate::engine::limiter::{Limiter, Operation};
use crate::engine::queue::places::QueuedCharges;
use crate::now_or_later::both;
use crate::{Charge, Clock, Later, NowOrLater, Store};

/// A request that has passed the gates, kept while it waits.
#[derive(Debug)]
pub(crate) struct PendingRequest {
    pub(crate) request: KeptRequest,
    pub(crate) plan: Plan,
    /// What the gates noted about it.
    pub(crate) notes: GateNotes,
}

/// A request that is kept. It is large, so it has an allocation of its own.
#[derive(Clone, Debug)]
pub(crate) enum KeptRequest {
    Own(Box<Request<'static>>),
    /// The first of requests that somebody else keeps, too.
    Shared(Arc<[Request<'static>]>),
}

impl KeptRequest {
    pub(crate) fn own(request: &Request<'_>) -> KeptRequest {
        KeptRequest::Own(Box::new(request.clone().into_owned()))
    }
}

impl Deref for KeptRequest {
    type Target = Request<'static>;

    fn deref(&self) -> &Request<'static> {
        match self {
            KeptRequest::Own(request) => request,
            KeptRequest::Shared(requests) => &requests[0],
        }
    }
}

/// The step at which the decision on a request has to wait.
pub(super) enum Unfinished<'s, S: Store> {
    /// The limits have denied it, and a queue may accept it.
    Denied(Box<Ruling>),
    /// The store has not answered yet.
    Waiting(Later<'s, StoreResult<S>>),
    /// The server has not answered about burst detectors yet.
    Asking(Box<(NowOrLater<'s, StoreResult<S>>, Later<'s, bool>)>),
}

/// The answer of the store, and whether the server has counted bursts, if it was asked.
type Answered<S> = (StoreResult<S>, Option<bool>);

/// What follows from the store's answer.
#[expect(
    clippy::large_enum_variant,
    reason = "it is taken apart at once; a box would cost each decision an allocation"
)]
enum Concluded {
    Decided(DecisionAndPlace),
    /// The limits have denied it, and a queue may accept it.
    MayQueue(Box<Ruling>),
}

impl<S: Store, C: Clock> Limiter<S, C> {
    /// The rest of a decision that has to wait for the store, or for a place in a queue.
    pub(super) async fn decide_later(
        &self,
        set: Arc<Active>,
        mut pending: Box<PendingRequest>,
        unfinished: Unfinished<'_, S>,
        (operation, now): (Operation, Nanos),
    ) -> DecisionAndPlace {
        let at = (operation, now);
        // A decision is large: it is returned where it is made, and not kept while anything is awaited.
        let ruling = match unfinished {
            Unfinished::Denied(ruling) => ruling,
            Unfinished::Waiting(later) => {
                match self.conclude_answer(&set, &mut pending, (later.await, None), at) {
                    Concluded::Decided(decision) => return decision,
                    Concluded::MayQueue(ruling) => ruling,
                }
            }
            Unfinished::Asking(asking) => {
                let (charged, asking) = *asking;
                let (result, asked) = Box::pin(both(charged, asking)).await;
                match self.conclude_answer(&set, &mut pending, (result, Some(asked)), at) {
                    Concluded::Decided(decision) => return decision,
                    Concluded::MayQueue(ruling) => ruling,
                }
            }
        };
        Box::pin(self.queue_pending(set, pending, ruling, operation)).await
    }

    fn conclude_answer(
        &self,
        set: &Arc<Active>,
        pending: &mut PendingRequest,
        (result, asked): Answered<S>,
        (operation, now): (Operation, Nanos),
    ) -> Concluded {
        let PendingRequest { request, plan, notes } = pending;
        let facts = set.rules.facts(request);
        let charges = set.charges(plan, Payer::of(&set.rules, request), &self.store);
        let blocked = asked
            .and_then(|asked| self.conclude_shared((set, &facts), notes, asked, (&charges, &result), now));
        let ruling = match blocked {
            Some(mut ruling) => {
                notes.add_to(&mut ruling);
                self.jitter_and_count(set, &facts, None, &mut ruling, operation);
                ruling
            }
            None => {
                let (result, caller) = ((operation.intent(), &result), (operation.caller(), now));
                let mut ruling = self.ruling_of(set, plan, &charges, result, caller);
                if may_queue(&ruling, operation) {
                    return Concluded::MayQueue(Box::new(ruling));
                }
                self.finish(set, &facts, plan, &mut ruling, notes, operation);
                ruling
            }
        };
        Concluded::Decided((self.make_decision(Guard::from_inner(Arc::clone(set)), ruling), None))
    }

    /// Looks for a place in a queue for a request that the limits have denied.
    async fn queue_pending(
        &self,
        set: Arc<Active>,
        pending: Box<PendingRequest>,
        mut ruling: Box<Ruling>,
        operation: Operation,
    ) -> DecisionAndPlace {
        let PendingRequest { request, plan, notes } = &*pending;
        let facts = set.rules.facts(request);
        let mut charges = set.charges(plan, Payer::of(&set.rules, request), &self.store);
        let queued = self.queue_up(&set, plan, &mut charges, &mut ruling, operation).await;
        let taken = queued.map(|queued| (queued, delays_of(&charges, &ruling)));
        self.finish(&set, &facts, plan, &mut ruling, notes, operation);
        let tenant = Payer::of(&set.rules, request).tenant.map(Box::from);
        drop((charges, facts));
        let at = ruling.at;
        let in_queue = |(queued, taken)| Box::new(QueuedCharges { queued, pending, taken, tenant, at });
        let queued_charges = taken.map(in_queue);
        (self.make_decision(Guard::from_inner(set), *ruling), queued_charges)
    }
}

/// The delay of the charge on each limit; `None` where nothing was taken.
fn delays_of(charges: &Charges<'_>, ruling: &Ruling) -> SmallVec<[Option<Nanos>; 8]> {
    let taken = |(standing, charge): (&RuleStanding, &Charge<'_>)| {
        standing.decision.is_allowed().then_some(charge.delay)
    };
    ruling.standings.iter().zip(charges).map(taken).collect()
}
