//! Waiting in queues (feature `async`).

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use smallvec::SmallVec;
use tidegate_core::Nanos;
use tidegate_policy::Request;

use super::active::Active;
use super::deciding::Decided;
use super::decision::Decision;
use super::entering::Entered;
use super::jitter::identity;
use super::limiter::{Ask, Limiter};
use super::line::{Slot, Turn};
use super::queue::Ticket;
use super::stats::Counted;
use super::waiting::Reserved;
use crate::{Charge, Clock, Sleep, Store};

/// The places of a request that waits. Dropping it before its time gives them
/// back.
struct InLine<'l, S: Store, C: Clock> {
    limiter: &'l Limiter<S, C>,
    /// Others may change the policy meanwhile; the places belong to this one.
    set: Arc<Active>,
    reserved: Box<Reserved>,
    tickets: SmallVec<[Ticket; 2]>,
    served: bool,
}

impl<'l, S: Store, C: Clock> InLine<'l, S, C> {
    fn join(
        limiter: &'l Limiter<S, C>,
        set: Arc<Active>,
        reserved: Box<Reserved>,
        tenant: u64,
    ) -> InLine<'l, S, C> {
        let charges = set.charges(&reserved.plan, reserved.payer(), &limiter.store);
        let queued = &reserved.queued;
        let mut tickets = SmallVec::new();
        for place in &queued.places {
            let Charge { limit, key, cost, tag, .. } = charges[place.item];
            let slot = Slot {
                limit: limit.clone(),
                key: key.into(),
                tag: tag.map(Box::from),
                cost,
                from: queued.from,
                delay: place.due.saturating_sub(reserved.at),
                charged_at: queued.charged_at,
            };
            tickets.push(limiter.rooms.line_up(place.room, place.due, tenant, slot));
        }
        drop(charges);
        InLine { limiter, set, reserved, tickets, served: false }
    }

    /// When it has waited too long.
    fn deadline(&self) -> Nanos {
        let patience = self.reserved.queued.places.iter().map(|place| place.max_wait).min();
        self.reserved.at.saturating_add(patience.unwrap_or_default())
    }

    /// Whose turn it is: its own, when all lines say so.
    fn look(&self, now: Nanos) -> Turn {
        let mut turn = Turn::Now;
        for &ticket in &self.tickets {
            turn = match (turn, self.limiter.rooms.look(ticket, now)) {
                (Turn::Later(a), Turn::Later(b)) => Turn::Later(a.min(b)),
                (later @ Turn::Later(_), Turn::Now) | (Turn::Now, later) => later,
            };
        }
        turn
    }

    /// Resolves when something has happened in one of the lines.
    async fn called(&self) {
        poll_fn(|context| {
            // All of them are to know whom to call, so none is left out.
            let listen = |ticket: &&Ticket| self.limiter.rooms.listen(**ticket, context.waker());
            let called = self.tickets.iter().filter(listen).count() > 0;
            if called { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }
}

impl<S: Store, C: Sleep> InLine<'_, S, C> {
    /// Waits for its turn, and tells when it came; `None` if that takes too long.
    ///
    /// Only the clock says when. A nap may end early, since the timers of a runtime
    /// and the clock need not agree; then there is another.
    async fn wait(&self) -> Option<Nanos> {
        let (clock, deadline) = (&self.limiter.clock, self.deadline());
        let mut now = clock.now();
        loop {
            let Turn::Later(next) = self.look(now) else { return Some(now) };
            if now >= deadline {
                return None;
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
        let limiter = self.limiter;
        if self.served {
            return self.tickets.iter().for_each(|&ticket| limiter.rooms.finish(ticket));
        }
        let now = limiter.clock.now();
        for &ticket in &self.tickets {
            for slot in limiter.rooms.quit(ticket, now) {
                limiter.store.hand_back(&[slot.charge()], slot.charged_at);
            }
        }
        let places = &self.reserved.queued.places;
        let has_no_line = |item: usize| places.iter().all(|place| place.item != item);
        limiter.give_back(&self.set, &self.reserved, has_no_line);
    }
}

impl<S: Store, C: Sleep> Limiter<S, C> {
    /// Decides a request; where a `queue` limit makes it wait, resolves when its
    /// turn has come. Those who wait for one bucket are served by their tenants
    /// in turn, and within a tenant first come, first served; requests without a
    /// tenant take turns like one. Whoever is not served within the limit's
    /// `max_wait`, since others had their turn, is refused as `queue_timeout`.
    ///
    /// While the store fails, nothing can be reserved there: a `queue` limit
    /// refuses as `reject` does.
    ///
    /// Dropping the future before that gives the place and the reserved cost
    /// back, and those behind move up.
    pub async fn admit(&self, request: &Request<'_>) -> Decision {
        let decided = self.decide(request, Ask::Admit, self.clock.now()).await;
        self.wait_for_turn(decided, request).await
    }

    /// [`Limiter::admit`] for a request that has [entered](Limiter::enter) and now says who asks.
    pub async fn admit_entered(&self, entered: Entered, request: &Request<'_>) -> Decision {
        let decided = self.decide_entered(entered, request, Ask::Admit).await;
        self.wait_for_turn(decided, request).await
    }

    async fn wait_for_turn(&self, (decision, reserved): Decided, request: &Request<'_>) -> Decision {
        let Some(reserved) = reserved else { return decision };
        let mut decision = decision.settled();
        let tenant = request.tenant.as_deref().unwrap_or_default();
        let tenant = identity(std::iter::once(tenant.as_bytes()));
        let mut line = InLine::join(self, decision.policy(), reserved, tenant);
        let Some(turn) = line.wait().await else {
            drop(line);
            return self.time_out(request).await;
        };
        line.served = true;
        let waited = turn.saturating_sub(line.reserved.at);
        self.stats.queue_waits.record(waited);
        let (set, ruling) = decision.ruling_mut();
        ruling.serve_after(waited);
        let facts = set.rules.facts(request);
        self.stats.count(set, &facts, Some(&line.reserved.plan), ruling, Counted::default());
        drop(facts);
        decision
    }

    /// The refusal of a request that has waited for too long: where its limits
    /// stand now.
    async fn time_out(&self, request: &Request<'_>) -> Decision {
        let (mut decision, _) = self.decide(request, Ask::Peek, self.clock.now()).await;
        let (set, ruling) = decision.ruling_mut();
        ruling.time_out();
        let facts = set.rules.facts(request);
        let plan = set.rules.plan(&facts);
        self.stats.count(set, &facts, Some(&plan), ruling, Counted::default());
        drop(facts);
        decision
    }
}
