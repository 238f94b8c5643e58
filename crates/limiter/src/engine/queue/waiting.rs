//! `strategy: queue`: reserving what is not there yet, and waiting for it.

use std::sync::Arc;

use smallvec::SmallVec;
use tidegate_core::Nanos;
use tidegate_policy::{Plan, Request, Strategy, Trust};

use super::WaitQueueKey;
use super::room::HeldPlace;
use crate::engine::active::{Active, Charges, Payer};
use crate::engine::decide::conclude::{CanWait, can_be_waited_for, conclude, refuses};
use crate::engine::decide::gates::ShadowDenied;
use crate::engine::decision::{Decision, Reason, Ruling};
use crate::engine::limiter::{Limiter, Operation};
use crate::now_or_later::ready;
use crate::{Clock, Intent, Memory, NowOrLater, Store};

/// How often a reservation is tried again when others are faster.
const ATTEMPTS: usize = 16;

/// Places that a request has taken in queues.
pub(crate) type LimitPlaces = SmallVec<[LimitPlace; 2]>;

/// A place in the queue of one limit, held until its time has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LimitPlace {
    /// The limit's place in the plan.
    pub(crate) item: usize,
    pub(crate) room: WaitQueueKey,
    pub(crate) held: HeldPlace,
}

/// What a request that waits has reserved, so that it can be given back.
#[derive(Debug)]
pub(crate) struct QueuedCharges {
    pub(crate) queued: TakenPlaces,
    pub(crate) plan: Plan,
    /// What was taken from each limit, and how much later it counts; nothing was
    /// taken from one that only watches or marks and denied.
    pub(crate) taken: SmallVec<[Option<Nanos>; 8]>,
    pub(crate) trust: Option<Trust>,
    pub(crate) tenant: Option<Box<str>>,
    /// When it asked.
    pub(crate) at: Nanos,
    /// What would have refused it before its limits were asked.
    #[cfg_attr(not(feature = "async"), expect(dead_code, reason = "without it nobody can wait in a line"))]
    pub(crate) shadow_denied: ShadowDenied,
}

impl QueuedCharges {
    pub(crate) fn payer(&self) -> Payer<'_> {
        Payer { trust: self.trust, tenant: self.tenant.as_deref() }
    }
}

/// Places that were taken, with what is waited for there.
#[derive(Debug)]
pub(crate) struct TakenPlaces {
    pub(crate) places: LimitPlaces,
    /// From when its waits count, by this node's clock: the store may have taken a while to say that it has reserved.
    #[cfg_attr(not(feature = "async"), expect(dead_code, reason = "without it nobody can wait in a line"))]
    pub(crate) from: Nanos,
    /// When that was by the store's clock.
    pub(crate) charged_at: Nanos,
    /// How long the limits that refuse it let anybody wait.
    #[cfg_attr(not(feature = "async"), expect(dead_code, reason = "without it nobody can wait in a line"))]
    pub(crate) max_wait: Nanos,
}

/// Why a request cannot wait.
enum Refusal {
    /// A limit refuses that nobody can wait for.
    Final,
    /// A queue has no place for it.
    Queue(Reason),
}

/// Places of a request whose reservation is under way. Whoever goes away meanwhile leaves them.
struct Tentative<'l, S: Store, C: Clock> {
    limiter: &'l Limiter<S, C>,
    places: LimitPlaces,
}

impl<S: Store, C: Clock> Drop for Tentative<'_, S, C> {
    fn drop(&mut self) {
        self.limiter.leave(&mut self.places);
    }
}

impl<S: Store, C: Clock> Limiter<S, C> {
    /// For a request that was refused: if only queues refuse it, reserves its
    /// place and makes the ruling an admission, later. Should the store fail
    /// meanwhile, the refusal stands.
    ///
    /// Who waits in a line reserves in the bucket that it waits for longest, and all
    /// the others are charged when it is let go. Who is told an instant at once is
    /// charged at once: each bucket that refuses as of its own wait, the others as of
    /// now, although it goes after the longest of the waits.
    ///
    /// Whoever goes away while the store is asked leaves its places. Whether the
    /// store has charged it by then nobody can know, so nothing is handed back:
    /// giving back what was never taken would admit too many. A charge that nobody
    /// uses admits too few, and for no longer than `max_wait`.
    pub(crate) async fn queue_up(
        &self,
        set: &Active,
        plan: &Plan,
        charges: &mut Charges<'_>,
        ruling: &mut Ruling,
        ask: Operation,
    ) -> Option<TakenPlaces> {
        let mut held = Tentative { limiter: self, places: LimitPlaces::new() };
        let mut refusal = Refusal::Queue(Reason::QueueTimeout);
        for _ in 0..ATTEMPTS {
            let max_wait = match self.take_places(set, charges, ruling, ask, &mut held.places) {
                Ok(max_wait) => max_wait,
                Err(why) => {
                    refusal = why;
                    break;
                }
            };
            let line = (ask != Operation::TakePlace).then(|| held.places[0].item);
            let charged = line.map_or(&charges[..], |item| &charges[item..=item]);
            let (said, from) = match self.store.charge(Intent::Take, charged, ruling.at) {
                NowOrLater::Now(said) => (said, ruling.at),
                NowOrLater::Later(later) => (later.await, self.clock.now().max(ruling.at)),
            };
            let Ok(verdict) = said else {
                refusal = Refusal::Final;
                break;
            };
            match line {
                Some(item) => {
                    ruling.standings[item].decision = verdict.decisions[0];
                    ruling.allowed = verdict.allowed;
                }
                None => *ruling = conclude(&set.rules, plan, &verdict, ruling.at, CanWait::Waits),
            }
            if ruling.allowed {
                mark_queued(ruling, charges);
                let mut places = std::mem::take(&mut held.places);
                if line.is_none() {
                    self.book(charges, &mut places);
                }
                return Some(TakenPlaces { places, from, charged_at: verdict.at, max_wait });
            }
        }
        if let Refusal::Queue(reason) = refusal {
            ruling.reason = reason;
        }
        None
    }

    /// A place in the queue of every limit that refuses, or of the one that is
    /// waited for longest, and a later instant for its charge. The request waits for
    /// the longest of them, so none may have less patience than that; the least of
    /// it is returned.
    fn take_places(
        &self,
        set: &Active,
        charges: &mut Charges<'_>,
        ruling: &Ruling,
        ask: Operation,
        places: &mut LimitPlaces,
    ) -> Result<Nanos, Refusal> {
        let (rules, now) = (&set.rules, ruling.at);
        let standings = &ruling.standings;
        let refusing: SmallVec<[usize; 8]> =
            (0..standings.len()).filter(|&item| refuses(rules, &standings[item])).collect();
        let wait_of = |item: usize| standings[item].decision.wait().unwrap_or(Nanos::MAX);
        if !refusing.iter().all(|&item| can_be_waited_for(rules, &standings[item])) {
            return Err(Refusal::Final);
        }
        let Some(longest) =
            refusing.iter().copied().reduce(|a, b| if wait_of(b) > wait_of(a) { b } else { a })
        else {
            return Err(Refusal::Final);
        };
        let waits = ask.waited(now).saturating_add(wait_of(longest));
        let mut patience = Nanos::MAX;
        self.leave(places);
        for &item in &refusing {
            let Strategy::Queue { max_depth, max_wait } = rules.rule(standings[item].rule).strategy else {
                return Err(Refusal::Final);
            };
            patience = patience.min(max_wait);
            let takes_a_place = ask == Operation::TakePlace || item == longest;
            let room =
                self.rooms.room_of(set.bound[standings[item].rule as usize].watched.id, charges[item].key);
            if takes_a_place && self.rooms.is_full(room, max_depth, now) {
                return Err(Refusal::Queue(Reason::QueueFull));
            }
            if waits > max_wait {
                return Err(Refusal::Queue(Reason::QueueTimeout));
            }
            charges[item].delay = if takes_a_place { wait_of(item) } else { Nanos::ZERO };
            if takes_a_place {
                let held = HeldPlace::until(now.saturating_add(wait_of(item)));
                if !self.rooms.enter(room, max_depth, held.due, now) {
                    return Err(Refusal::Queue(Reason::QueueFull));
                }
                places.push(LimitPlace { item, room, held });
            }
        }
        Ok(patience)
    }

    /// What the places are held for has been reserved.
    fn book(&self, charges: &Charges<'_>, places: &mut LimitPlaces) {
        for place in places {
            place.held = self.rooms.book(place.room, place.held, charges[place.item].cost.get().into());
        }
    }

    /// Before limits are charged as of `now`: what those who wait for one of them have let run over is lost, so that
    /// nobody gets it beside them.
    #[inline]
    pub(crate) fn spill_lines(&self, set: &Active, plan: &Plan, now: Nanos) {
        if !self.rooms.is_idle() {
            self.spill_each_line(set, plan, now);
        }
    }

    #[cold]
    fn spill_each_line(&self, set: &Active, plan: &Plan, now: Nanos) {
        for item in plan.items() {
            if matches!(set.rules.rule(item.rule).strategy, Strategy::Queue { .. }) {
                let limit = set.bound[item.rule as usize].watched.id;
                self.rooms.spill(self.rooms.room_of(limit, plan.key(item)), &self.store, now);
            }
        }
    }

    fn leave(&self, places: &mut LimitPlaces) {
        places.drain(..).for_each(|place| self.rooms.leave(place.room, place.held));
    }

    /// Gives up what a reservation has taken.
    fn give_back(&self, set: &Active, reserved: &QueuedCharges) {
        let charges = set.charges(&reserved.plan, reserved.payer(), &self.store);
        let taken: Charges<'_> = charges
            .into_iter()
            .zip(&reserved.taken)
            .filter_map(|(charge, taken)| Some(charge.delayed((*taken)?)))
            .collect();
        self.store.hand_back(&taken, reserved.queued.charged_at);
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
pub struct QueuePlace<'l, S: Store, C: Clock> {
    limiter: &'l Limiter<S, C>,
    /// Others may change the policy meanwhile; the place belongs to this one.
    set: Arc<Active>,
    reserved: Box<QueuedCharges>,
    served: bool,
}

impl<S: Store, C: Clock> QueuePlace<'_, S, C> {
    /// Its time has come: what was reserved is used.
    pub fn served(mut self) {
        let waited = self.limiter.clock.now().saturating_sub(self.reserved.at);
        self.limiter.stats.queue_waits.record(waited);
        self.served = true;
    }
}

impl<S: Store, C: Clock> Drop for QueuePlace<'_, S, C> {
    fn drop(&mut self) {
        self.limiter.leave(&mut self.reserved.queued.places);
        if !self.served {
            self.limiter.give_back(&self.set, &self.reserved);
        }
    }
}

impl<C: Clock> Limiter<Memory<C>, C> {
    /// Decides a request; where a `queue` limit makes it wait, its cost is
    /// reserved and [`Decision::queued`] says for how long. Wait that long, then
    /// call [`QueuePlace::served`]. Places are served in the order in which
    /// they were made; with the feature `async`, [`Limiter::admit`] waits, and
    /// serves tenants in turn.
    pub fn take_place(&self, request: &Request<'_>) -> (Decision, Option<QueuePlace<'_, Memory<C>, C>>) {
        ready(self.take_place_async(request))
    }
}

impl<S: Store, C: Clock> Limiter<S, C> {
    /// [`Limiter::take_place`] on any store. While the store fails, nothing can be reserved, and a `queue` limit refuses.
    pub async fn take_place_async(&self, request: &Request<'_>) -> (Decision, Option<QueuePlace<'_, S, C>>) {
        let (decision, reserved) = self.decide(request, Operation::TakePlace, self.clock.now()).await;
        let hold = |reserved| QueuePlace { limiter: self, set: decision.policy(), reserved, served: false };
        let reservation = reserved.map(hold);
        (decision, reservation)
    }
}
