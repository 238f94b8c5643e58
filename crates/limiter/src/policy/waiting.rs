//! `strategy: queue`: reserving what is not there yet, and waiting for it.

use std::sync::Arc;

use smallvec::SmallVec;
use tidegate_core::Nanos;
use tidegate_policy::{Plan, Request, Strategy, Trust};

use super::active::{Active, Charges};
use super::decision::{Decision, Reason, Ruling};
use super::limiter::{Ask, Limiter};
use super::queue::{RoomKey, room_of};
use super::settle::{Caller, can_be_waited_for, refuses, settle};
use crate::{Clock, Intent, Memory};

/// How often a reservation is tried again when others are faster.
const ATTEMPTS: usize = 16;

/// Places that a request has taken in queues.
pub(super) type Places = SmallVec<[(RoomKey, Nanos); 2]>;

/// What a request that waits has reserved, so that it can be given back.
#[derive(Debug)]
pub(super) struct Reserved {
    pub(super) places: Places,
    pub(super) plan: Plan,
    /// What was taken from each limit, and how much later it counts; nothing was
    /// taken from one that only watches or marks and denied.
    pub(super) taken: SmallVec<[Option<Nanos>; 8]>,
    pub(super) trust: Option<Trust>,
    pub(super) at: Nanos,
}

/// Why a request cannot wait.
enum Refusal {
    /// A limit refuses that nobody can wait for.
    Final,
    /// A queue has no place for it.
    Queue(Reason),
}

impl<C: Clock> Limiter<Memory<C>, C> {
    /// For a request that was refused: if only queues refuse it, reserves its
    /// place and makes the ruling an admission, later.
    pub(super) fn queue_up(
        &self,
        set: &Active,
        plan: &Plan,
        charges: &mut Charges<'_>,
        ruling: &mut Ruling,
    ) -> Option<Places> {
        let mut places = Places::new();
        let mut refusal = Refusal::Queue(Reason::QueueTimeout);
        for _ in 0..ATTEMPTS {
            if let Err(why) = self.take_places(set, charges, ruling, &mut places) {
                refusal = why;
                break;
            }
            let verdict = self.take(charges, ruling.at);
            *ruling = settle(&set.rules, plan, &verdict, ruling.at, Caller::Waits);
            if ruling.allowed {
                mark_queued(ruling, charges);
                return Some(places);
            }
        }
        self.leave(&mut places);
        if let Refusal::Queue(reason) = refusal {
            ruling.reason = reason;
        }
        None
    }

    /// A place in the queue of every limit that refuses, and a later instant for
    /// its charge. The request waits for the longest of them, so none may have
    /// less patience than that.
    fn take_places(
        &self,
        set: &Active,
        charges: &mut Charges<'_>,
        ruling: &Ruling,
        places: &mut Places,
    ) -> Result<(), Refusal> {
        let (rules, now) = (&set.rules, ruling.at);
        let standings = &ruling.standings;
        let refusing: SmallVec<[usize; 8]> =
            (0..standings.len()).filter(|&item| refuses(rules, &standings[item])).collect();
        let wait_of = |item: usize| standings[item].decision.retry_after().unwrap_or(Nanos::MAX);
        let room = |item: usize, charges: &Charges<'_>| {
            room_of(set.bound[standings[item].rule as usize].watched.id, charges[item].key)
        };
        if !refusing.iter().all(|&item| can_be_waited_for(rules, &standings[item])) {
            return Err(Refusal::Final);
        }
        let longest = refusing.iter().map(|&item| wait_of(item)).max().unwrap_or_default();
        for &item in &refusing {
            let Strategy::Queue { max_depth, max_wait } = rules.rule(standings[item].rule).strategy else {
                return Err(Refusal::Final);
            };
            let (room, held) = (room(item, charges), now.saturating_add(charges[item].delay));
            if let Some(place) = places.iter().position(|place| *place == (room, held)) {
                self.rooms.leave(room, held);
                places.swap_remove(place);
            }
            if self.rooms.is_full(room, max_depth, now) {
                return Err(Refusal::Queue(Reason::QueueFull));
            }
            if longest > max_wait {
                return Err(Refusal::Queue(Reason::QueueTimeout));
            }
            let due = now.saturating_add(wait_of(item));
            if !self.rooms.enter(room, max_depth, due, now) {
                return Err(Refusal::Queue(Reason::QueueFull));
            }
            places.push((room, due));
            charges[item].delay = wait_of(item);
        }
        Ok(())
    }

    fn leave(&self, places: &mut Places) {
        places.drain(..).for_each(|(room, due)| self.rooms.leave(room, due));
    }

    /// Gives up a reservation whose time has not come.
    fn give_back(&self, set: &Active, reserved: &Reserved) {
        let charges = set.charges(&reserved.plan, reserved.trust, &self.store);
        let taken = charges.into_iter().zip(&reserved.taken);
        let taken: Charges<'_> =
            taken.filter_map(|(charge, taken)| Some(charge.delayed((*taken)?))).collect();
        self.store.charge_now(Intent::HandBack, &taken, reserved.at);
    }
}

/// An admission after the longest of the waits.
fn mark_queued(ruling: &mut Ruling, charges: &Charges<'_>) {
    for (standing, charge) in ruling.standings.iter_mut().zip(charges) {
        standing.queued = charge.delay > Nanos::ZERO;
    }
    ruling.queued = charges.iter().map(|charge| charge.delay).max();
}

/// A place in the queues of a request that has to wait, and what is reserved for
/// it. Dropping it before its time gives both back.
#[derive(Debug)]
pub struct Reservation<'l, C: Clock> {
    limiter: &'l Limiter<Memory<C>, C>,
    /// Others may change the policy meanwhile; the place belongs to this one.
    set: Arc<Active>,
    reserved: Box<Reserved>,
    served: bool,
}

impl<C: Clock> Reservation<'_, C> {
    /// Its time has come: what was reserved is used.
    pub fn served(mut self) {
        self.served = true;
    }
}

impl<C: Clock> Drop for Reservation<'_, C> {
    fn drop(&mut self) {
        self.limiter.leave(&mut self.reserved.places);
        if !self.served {
            self.limiter.give_back(&self.set, &self.reserved);
        }
    }
}

impl<C: Clock> Limiter<Memory<C>, C> {
    /// Decides a request; where a `queue` limit makes it wait, its cost is
    /// reserved and [`Decision::queued`] says for how long. Wait that long, then
    /// call [`Reservation::served`]; with the feature `async`,
    /// [`Limiter::admit`] does both.
    pub fn reserve(&self, request: &Request<'_>) -> (Decision, Option<Reservation<'_, C>>) {
        let (decision, reserved) = self.decide(request, Ask::Reserve, self.clock.now());
        let hold = |reserved| Reservation { limiter: self, set: decision.policy(), reserved, served: false };
        let reservation = reserved.map(hold);
        (decision, reservation)
    }
}

#[cfg(feature = "async")]
impl<C: crate::Sleep> Limiter<Memory<C>, C> {
    /// Decides a request; where a `queue` limit makes it wait, resolves when its
    /// time has come. First come, first served. Dropping the future before that
    /// gives the place and the reserved cost back.
    pub async fn admit(&self, request: &Request<'_>) -> Decision {
        let (decision, reservation) = self.reserve(request);
        if let (Some(wait), Some(reservation)) = (decision.queued(), reservation) {
            self.clock.sleep(wait).await;
            reservation.served();
        }
        decision
    }
}
