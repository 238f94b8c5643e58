//! Waiting in queues until it is a request's turn (feature `async`).

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use tidegate_core::Nanos;
use tidegate_policy::Request;

use super::QueueTicket;
use super::fair_queue::{DelayedCharge, WaiterRank, WaiterTurn};
use super::places::QueuedCharges;
use crate::engine::active::{Active, Charges};
use crate::engine::beside::BesideStage;
use crate::engine::counting::stats::CountScope;
use crate::engine::decide::DecisionAndPlace;
use crate::engine::decide::conclude::{CanWait, conclude};
use crate::engine::decide::entered::Entered;
use crate::engine::decision::Decision;
use crate::engine::limiter::{Limiter, Operation};
use crate::engine::render::jitter::identity;
use crate::{Clock, Intent, NowOrLater, OwnedCharge, Sleep, Store, Verdict};

/// How often a request may be queued again when another limit denies it after its wait.
const ROUNDS: usize = 16;

/// A request that waits in a [`FairQueue`](super::fair_queue::FairQueue). Dropping it before its turn gives its
/// place back.
struct QueuedRequest<'l, S: Store, C: Clock> {
    limiter: &'l Limiter<S, C>,
    /// The policy of its place; the policy in force may change meanwhile.
    set: Arc<Active>,
    charges_ahead: Box<QueuedCharges>,
    /// The limit that it waits for, as an index into the plan.
    item: usize,
    ticket: QueueTicket,
    /// Is it still in the queue?
    waits: bool,
}

/// How a wait has ended.
enum Waited {
    /// It is its turn.
    Turn(Nanos),
    TooLong,
    /// Its delayed charge is lost.
    Missed,
}

impl<'l, S: Store, C: Clock> QueuedRequest<'l, S, C> {
    fn join(
        limiter: &'l Limiter<S, C>,
        set: Arc<Active>,
        charges_ahead: Box<QueuedCharges>,
        rank: WaiterRank,
    ) -> QueuedRequest<'l, S, C> {
        let charges = set.charges(&charges_ahead.pending.plan, charges_ahead.payer(), &limiter.store);
        let (queued, place) = (&charges_ahead.queued, charges_ahead.queued.places[0]);
        let charge = charges[place.item].delayed(place.held.due.saturating_sub(charges_ahead.at));
        let delayed = DelayedCharge {
            charge: OwnedCharge::from(&charge),
            from: queued.from,
            charged_at: queued.charged_at,
        };
        let is_paced = limiter.store.pace(&delayed.charge_of(charge.cost), 0, charges_ahead.at).is_some();
        let ticket = limiter.queues.join(place.queue, place.held.due, rank, delayed, is_paced);
        drop(charges);
        QueuedRequest { limiter, set, item: place.item, charges_ahead, ticket, waits: true }
    }

    /// Resolves when this waiter was notified.
    async fn notified(&self) {
        poll_fn(|context| match self.limiter.queues.register_waker(self.ticket, context.waker()) {
            true => Poll::Ready(()),
            false => Poll::Pending,
        })
        .await;
    }

    /// Charges all limits except the one that it has waited for, as of its turn. First it discards the overflow
    /// of those that others wait for.
    async fn charge_others(&self, turn: Nanos) -> Result<Verdict, S::Error> {
        let (limiter, plan) = (self.limiter, &self.charges_ahead.pending.plan);
        if plan.items().len() > 1 {
            limiter.discard_queue_overflow(&self.set, plan, turn);
        }
        let mut charges: Charges<'_> = self.set.charges(plan, self.charges_ahead.payer(), &limiter.store);
        charges.remove(self.item);
        limiter.charge_store(Intent::Take, &charges, turn).await
    }
}

impl<S: Store, C: Sleep> QueuedRequest<'_, S, C> {
    /// Waits for its turn, until `deadline`.
    ///
    /// Only the clock decides when that is. A sleep may end early, because the timers of a runtime and the
    /// clock need not agree; then it sleeps again.
    async fn wait(&mut self, deadline: Nanos) -> Waited {
        let clock = &self.limiter.clock;
        let mut now = clock.now();
        loop {
            let next = match self.limiter.queues.check_turn(self.ticket, &self.limiter.store, now) {
                WaiterTurn::Now => return Waited::Turn(now),
                WaiterTurn::Later(next) => next,
                WaiterTurn::Missed => {
                    self.waits = false;
                    return Waited::Missed;
                }
            };
            if now >= deadline {
                return Waited::TooLong;
            }
            let next = next.min(deadline);
            let mut sleep = pin!(clock.sleep(next.saturating_sub(now)));
            let mut notified = pin!(self.notified());
            poll_fn(|context| match notified.as_mut().poll(context) {
                Poll::Ready(()) => Poll::Ready(()),
                Poll::Pending => sleep.as_mut().poll(context),
            })
            .await;
            now = clock.now().max(now);
        }
    }
}

impl<S: Store, C: Clock> Drop for QueuedRequest<'_, S, C> {
    fn drop(&mut self) {
        if !self.waits {
            return;
        }
        let limiter = self.limiter;
        if let Some(delayed) = limiter.queues.give_up(self.ticket, &limiter.store, limiter.clock.now()) {
            limiter.store.hand_back(&[delayed.charge.as_charge()], delayed.charged_at);
        }
    }
}

impl<S: Store, C: Sleep> Limiter<S, C> {
    /// Decides a request; if a `queue` limit makes it wait, resolves when it is its turn. The requests that
    /// wait for one bucket are served round-robin by tenant, within a tenant by priority, and of equal priorities first
    /// come, first served; requests without a tenant form one group. A request that is not served within the limit's
    /// `max_wait`, because others were, is denied with the reason `queue_timeout`.
    ///
    /// If several limits apply, the request waits for the one with the longest wait, and all others are charged
    /// when it is its turn. If one of them denies it then, the request is decided as on arrival: it is denied,
    /// or waits for that limit, for the rest of `max_wait`.
    ///
    /// While the store fails, nothing can be charged ahead of time there, so a `queue` limit denies like
    /// `reject`.
    ///
    /// Dropping the future before its turn gives the place and the charge back, and the requests behind move
    /// up.
    pub fn admit(&self, request: &Request<'_>) -> NowOrLater<'_, Decision> {
        let arrived = self.clock.now();
        let how = (Operation::Admit, BesideStage::Admit);
        self.decide_with_besides(request, how, arrived, |decided| self.wait_if_queued(decided, arrived))
    }

    /// [`Limiter::admit`] for a request that has [entered](Limiter::enter) and whose identity is now known.
    pub fn admit_entered(&self, entered: Entered, request: &Request<'_>) -> NowOrLater<'_, Decision> {
        let (arrived, stage) = (entered.at(), entered.beside_stage(BesideStage::Admit));
        let decided = self.decide_entered(entered, request, Operation::Admit);
        self.besides_of(self.wait_if_queued(decided, arrived), request, stage, arrived)
    }

    /// The decision on a request that arrived at `arrived`; if it has to wait, the decision at its turn.
    fn wait_if_queued<'s>(
        &'s self,
        decided: NowOrLater<'s, DecisionAndPlace>,
        arrived: Nanos,
    ) -> NowOrLater<'s, Decision> {
        match decided {
            NowOrLater::Now((decision, None)) => NowOrLater::Now(decision),
            NowOrLater::Now((decision, Some(ahead))) => {
                NowOrLater::later(self.wait_for_turn(decision, ahead, arrived))
            }
            NowOrLater::Later(decided) => NowOrLater::later(async move {
                let (decision, ahead) = decided.await;
                let Some(ahead) = ahead else { return decision };
                // Boxed, because it is rare and large, and every decision that waits for the store would be as large.
                let waiting = Box::pin(self.wait_for_turn(decision, ahead, arrived));
                waiting.await
            }),
        }
    }

    /// Waits in the queue of a limit, and again if another limit then makes the request wait.
    async fn wait_for_turn(
        &self,
        decision: Decision,
        charges_ahead: Box<QueuedCharges>,
        arrived: Nanos,
    ) -> Decision {
        let request = &charges_ahead.pending.request.clone();
        let mut first = Some((decision, Some(charges_ahead)));
        for _ in 0..ROUNDS {
            let (decision, charges_ahead) = match first.take() {
                Some(decided) => decided,
                None => self.decide(request, Operation::AdmitAgain(arrived), self.clock.now()).await,
            };
            let Some(charges_ahead) = charges_ahead else { return decision };
            let decision = decision.under_full_policy();
            let tenant = charges_ahead.tenant.as_deref().unwrap_or_default();
            let tenant = identity(std::iter::once(tenant.as_bytes()));
            let policy = decision.policy();
            let priority = policy.rules.priority(&policy.rules.facts(request));
            let mut queued =
                QueuedRequest::join(self, policy, charges_ahead, WaiterRank { tenant, priority });
            match queued.wait(arrived.saturating_add(queued.charges_ahead.queued.max_wait)).await {
                Waited::Turn(turn) => {
                    let others = queued.charge_others(turn).await;
                    if let Ok(others) = others
                        && others.allowed
                    {
                        self.queues.admit(queued.ticket, &self.store, turn);
                        queued.waits = false;
                        return self.admit_after_wait(request, decision, &queued, others, (arrived, turn));
                    }
                }
                Waited::TooLong => break,
                Waited::Missed => {}
            }
            // Another limit denies it now, or the store has failed: it is decided as on arrival.
            drop(queued);
        }
        self.time_out(request).await
    }

    /// The admission of a request whose turn it is, with the state of its limits at that time.
    fn admit_after_wait(
        &self,
        request: &Request<'_>,
        mut decision: Decision,
        queued: &QueuedRequest<'_, S, C>,
        mut verdict: Verdict,
        (arrived, turn): (Nanos, Nanos),
    ) -> Decision {
        let (charges_ahead, item) = (&queued.charges_ahead, queued.item);
        let (set, ruling) = decision.ruling_mut();
        let mut waited_for = ruling.standings[item].decision;
        waited_for.reset_after = waited_for.reset_after.saturating_sub(turn.saturating_sub(charges_ahead.at));
        verdict.decisions.insert(item, waited_for);
        let plan = &charges_ahead.pending.plan;
        let charges = set.charges(plan, charges_ahead.payer(), &self.store);
        *ruling = conclude(&set.rules, (plan, &charges), &verdict, turn, CanWait::Waits);
        ruling.wall = self.clock.wall_at(turn);
        ruling.standings[item].queued = true;
        ruling.queued = Some(turn.saturating_sub(arrived));
        charges_ahead.pending.notes.add_to(ruling);
        self.stats.queue_waits.record(turn.saturating_sub(arrived));
        let facts = set.rules.facts(request);
        self.count_decision(set, &facts, Some(plan), ruling, CountScope::default());
        drop((charges, facts));
        decision
    }

    /// The denial of a request that has waited too long, with the current state of its limits.
    async fn time_out(&self, request: &Request<'_>) -> Decision {
        let (mut decision, _) = self.decide(request, Operation::Peek, self.clock.now()).await;
        let (set, ruling) = decision.ruling_mut();
        ruling.time_out();
        let facts = set.rules.facts(request);
        let plan = self.plan_of(set, &facts, self.clock.now());
        self.count_decision(set, &facts, Some(&plan), ruling, CountScope::default());
        drop(facts);
        decision
    }
}
