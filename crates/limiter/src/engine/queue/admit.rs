//! Waiting in queues (feature `async`).

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use tidegate_core::Nanos;
use tidegate_policy::Request;

use super::QueueTicket;
use super::line::{QueueSlot, WaiterTurn};
use super::waiting::QueuedCharges;
use crate::engine::active::{Active, Charges};
use crate::engine::counting::stats::CountScope;
use crate::engine::decide::DecisionAndPlace;
use crate::engine::decide::conclude::{CanWait, conclude};
use crate::engine::decide::two_steps::Entered;
use crate::engine::decision::Decision;
use crate::engine::limiter::{Limiter, Operation};
use crate::engine::render::jitter::identity;
use crate::{Clock, Intent, NowOrLater, OwnedCharge, Sleep, Store, Verdict};

/// How often a request may be sent back to a queue when its turn has come.
const ROUNDS: usize = 16;

/// A request that waits in a line. Dropping it before its time gives its place
/// back.
struct InLine<'l, S: Store, C: Clock> {
    limiter: &'l Limiter<S, C>,
    /// Others may change the policy meanwhile; the place belongs to this one.
    set: Arc<Active>,
    reserved: Box<QueuedCharges>,
    /// The limit that it waits for, by its place in the plan.
    item: usize,
    ticket: QueueTicket,
    /// Is it still in the line?
    waits: bool,
}

/// How a wait has ended.
enum Waited {
    /// It is its turn.
    Turn(Nanos),
    TooLong,
    /// What it had reserved is lost.
    Missed,
}

impl<'l, S: Store, C: Clock> InLine<'l, S, C> {
    fn join(
        limiter: &'l Limiter<S, C>,
        set: Arc<Active>,
        reserved: Box<QueuedCharges>,
        tenant: u64,
    ) -> InLine<'l, S, C> {
        let charges = set.charges(&reserved.plan, reserved.payer(), &limiter.store);
        let (queued, place) = (&reserved.queued, reserved.queued.places[0]);
        let charge = charges[place.item].delayed(place.held.due.saturating_sub(reserved.at));
        let slot = QueueSlot {
            charge: OwnedCharge::from(&charge),
            from: queued.from,
            charged_at: queued.charged_at,
        };
        let is_paced = limiter.store.pace(&slot.charge_of(charge.cost), 0, reserved.at).is_some();
        let ticket = limiter.rooms.line_up(place.room, place.held.due, tenant, slot, is_paced);
        drop(charges);
        InLine { limiter, set, item: place.item, reserved, ticket, waits: true }
    }

    /// Resolves when something has happened in the line.
    async fn called(&self) {
        poll_fn(|context| match self.limiter.rooms.listen(self.ticket, context.waker()) {
            true => Poll::Ready(()),
            false => Poll::Pending,
        })
        .await;
    }

    /// All limits but the one that it has waited for, charged as of its turn; those that others wait for are looked
    /// after first.
    async fn charge_others(&self, turn: Nanos) -> Result<Verdict, S::Error> {
        let (limiter, plan) = (self.limiter, &self.reserved.plan);
        if plan.items().len() > 1 {
            limiter.spill_lines(&self.set, plan, turn);
        }
        let mut charges: Charges<'_> = self.set.charges(plan, self.reserved.payer(), &limiter.store);
        charges.remove(self.item);
        limiter.ask(Intent::Take, &charges, turn).await
    }
}

impl<S: Store, C: Sleep> InLine<'_, S, C> {
    /// Waits for its turn, until `deadline`.
    ///
    /// Only the clock says when. A nap may end early, since the timers of a runtime
    /// and the clock need not agree; then there is another.
    async fn wait(&mut self, deadline: Nanos) -> Waited {
        let clock = &self.limiter.clock;
        let mut now = clock.now();
        loop {
            let next = match self.limiter.rooms.look(self.ticket, &self.limiter.store, now) {
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
            let mut nap = pin!(clock.sleep(next.saturating_sub(now)));
            let mut called = pin!(self.called());
            poll_fn(|context| match called.as_mut().poll(context) {
                Poll::Ready(()) => Poll::Ready(()),
                Poll::Pending => nap.as_mut().poll(context),
            })
            .await;
            now = clock.now().max(now);
        }
    }
}

impl<S: Store, C: Clock> Drop for InLine<'_, S, C> {
    fn drop(&mut self) {
        if !self.waits {
            return;
        }
        let limiter = self.limiter;
        if let Some(slot) = limiter.rooms.quit(self.ticket, &limiter.store, limiter.clock.now()) {
            limiter.store.hand_back(&[slot.charge.as_charge()], slot.charged_at);
        }
    }
}

impl<S: Store, C: Sleep> Limiter<S, C> {
    /// Decides a request; where a `queue` limit makes it wait, resolves when its
    /// turn has come. Those who wait for one bucket are served by their tenants
    /// in turn, and within a tenant first come, first served; requests without a
    /// tenant take turns like one. Whoever is not served within the limit's
    /// `max_wait`, since others had their turn, is refused as `queue_timeout`.
    ///
    /// Where several limits apply, it waits for the one that refuses it longest,
    /// and all the others are charged when its turn has come. One that refuses it
    /// then decides as on arrival: it is refused, or waits for that one, for what is
    /// left of `max_wait`.
    ///
    /// While the store fails, nothing can be reserved there: a `queue` limit
    /// refuses as `reject` does.
    ///
    /// Dropping the future before that gives the place and the reserved cost
    /// back, and those behind move up.
    pub fn admit(&self, request: &Request<'_>) -> NowOrLater<'_, Decision> {
        let came = self.clock.now();
        self.in_turn(self.decide(request, Operation::Admit, came), request, came)
    }

    /// [`Limiter::admit`] for a request that has [entered](Limiter::enter) and now says who asks.
    pub fn admit_entered(&self, entered: Entered, request: &Request<'_>) -> NowOrLater<'_, Decision> {
        let came = entered.at();
        self.in_turn(self.decide_entered(entered, request, Operation::Admit), request, came)
    }

    /// The decision about a request that came at `came`, when its turn has come if it has to wait.
    fn in_turn<'s>(
        &'s self,
        decided: NowOrLater<'s, DecisionAndPlace>,
        request: &Request<'_>,
        came: Nanos,
    ) -> NowOrLater<'s, Decision> {
        match decided {
            NowOrLater::Now((decision, None)) => NowOrLater::Now(decision),
            decided => NowOrLater::later(self.wait_for_turn(decided, request.clone().into_owned(), came)),
        }
    }

    /// Waits where a request that came at `came` has to wait, and again where another limit then makes it wait.
    async fn wait_for_turn<'s>(
        &'s self,
        decided: NowOrLater<'s, DecisionAndPlace>,
        request: Request<'static>,
        came: Nanos,
    ) -> Decision {
        let request = &request;
        let tenant = request.tenant.as_deref().unwrap_or_default();
        let tenant = identity(std::iter::once(tenant.as_bytes()));
        let mut first = Some(decided);
        for _ in 0..ROUNDS {
            let (decision, reserved) = match first.take() {
                Some(decided) => decided.await,
                None => self.decide(request, Operation::AdmitAgain(came), self.clock.now()).await,
            };
            let Some(reserved) = reserved else { return decision };
            let decision = decision.under_full_policy();
            let mut line = InLine::join(self, decision.policy(), reserved, tenant);
            match line.wait(came.saturating_add(line.reserved.queued.max_wait)).await {
                Waited::Turn(turn) => {
                    let others = line.charge_others(turn).await;
                    if let Ok(others) = others
                        && others.allowed
                    {
                        self.rooms.go(line.ticket, &self.store, turn);
                        line.waits = false;
                        return self.let_go(request, decision, &line, others, (came, turn));
                    }
                }
                Waited::TooLong => break,
                Waited::Missed => {}
            }
            // Another limit refuses it now, or the store has failed: it is decided as on arrival.
            drop(line);
        }
        self.time_out(request).await
    }

    /// The admission of a request whose turn has come, as its limits stand then.
    fn let_go(
        &self,
        request: &Request<'_>,
        mut decision: Decision,
        line: &InLine<'_, S, C>,
        mut verdict: Verdict,
        (came, turn): (Nanos, Nanos),
    ) -> Decision {
        let (reserved, item) = (&line.reserved, line.item);
        let (set, ruling) = decision.ruling_mut();
        let mut waited_for = ruling.standings[item].decision;
        waited_for.reset_after = waited_for.reset_after.saturating_sub(turn.saturating_sub(reserved.at));
        verdict.decisions.insert(item, waited_for);
        *ruling = conclude(&set.rules, &reserved.plan, &verdict, turn, CanWait::Waits);
        ruling.wall = self.clock.wall_at(turn);
        ruling.standings[item].queued = true;
        ruling.queued = Some(turn.saturating_sub(came));
        ruling.shadow_denied.insert_many(0, reserved.shadow_denied.iter().copied());
        self.stats.queue_waits.record(turn.saturating_sub(came));
        let facts = set.rules.facts(request);
        self.stats.count(set, &facts, Some(&reserved.plan), ruling, CountScope::default());
        drop(facts);
        decision
    }

    /// The refusal of a request that has waited for too long: where its limits
    /// stand now.
    async fn time_out(&self, request: &Request<'_>) -> Decision {
        let (mut decision, _) = self.decide(request, Operation::Peek, self.clock.now()).await;
        let (set, ruling) = decision.ruling_mut();
        ruling.time_out();
        let facts = set.rules.facts(request);
        let plan = set.rules.plan(&facts);
        self.stats.count(set, &facts, Some(&plan), ruling, CountScope::default());
        drop(facts);
        decision
    }
}
