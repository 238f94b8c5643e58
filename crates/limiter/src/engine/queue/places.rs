//! `strategy: queue`: taking places in queues and charging ahead of time.

use std::sync::Arc;

use smallvec::SmallVec;
use tidegate_core::Nanos;
use tidegate_policy::{Plan, Request, Strategy};

use super::BucketQueueKey;
use super::bucket_queue::HeldPlace;
use crate::engine::active::{Active, Charges, Payer};
use crate::engine::decide::PendingRequest;
use crate::engine::decide::conclude::{CanWait, can_be_waited_for, conclude, refuses};
use crate::engine::decision::{Decision, Ruling};
use crate::engine::limiter::{Limiter, Operation};
use crate::engine::reason::Reason;
use crate::now_or_later::ready;
use crate::{Clock, Intent, Memory, NowOrLater, Store};

/// How often a delayed charge is tried again when other requests are faster.
const ATTEMPTS: usize = 16;

/// The places that a request has taken.
pub(crate) type LimitPlaces = SmallVec<[LimitPlace; 2]>;

/// A place in the queue of one limit, held until its instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LimitPlace {
    /// The limit, as an index into the plan.
    pub(crate) item: usize,
    pub(crate) queue: BucketQueueKey,
    pub(crate) held: HeldPlace,
}

/// The delayed charges of a request that waits, so that they can be handed back.
#[derive(Debug)]
pub(crate) struct QueuedCharges {
    pub(crate) queued: TakenPlaces,
    pub(crate) pending: Box<PendingRequest>,
    /// The delay of the charge on each limit; `None` if nothing was taken, because a limit that only degrades
    /// or is in shadow mode denied.
    pub(crate) taken: SmallVec<[Option<Nanos>; 8]>,
    pub(crate) tenant: Option<Box<str>>,
    /// When the request was decided.
    pub(crate) at: Nanos,
}

impl QueuedCharges {
    pub(crate) fn payer(&self) -> Payer<'_> {
        Payer { tenant: self.tenant.as_deref() }
    }
}

/// Places that were taken, and the times of their wait.
#[derive(Debug)]
pub(crate) struct TakenPlaces {
    pub(crate) places: LimitPlaces,
    /// The instant from which its waits count, on this node's clock: the store may have taken a while to
    /// confirm the charge.
    #[cfg_attr(not(feature = "async"), expect(dead_code, reason = "only `async` can wait in a queue"))]
    pub(crate) from: Nanos,
    /// When the charges were made, on the store's clock.
    pub(crate) charged_at: Nanos,
    /// The shortest `max_wait` of the limits that deny it.
    #[cfg_attr(not(feature = "async"), expect(dead_code, reason = "only `async` can wait in a queue"))]
    pub(crate) max_wait: Nanos,
}

/// Why a request cannot wait.
enum Refusal {
    /// A limit without a queue denies it.
    Final,
    /// A queue does not accept it.
    Queue(Reason),
}

/// Places of a request whose charge is in progress. If the request is dropped meanwhile, they are given up.
struct UnconfirmedPlaces<'l, S: Store, C: Clock> {
    limiter: &'l Limiter<S, C>,
    places: LimitPlaces,
}

impl<S: Store, C: Clock> Drop for UnconfirmedPlaces<'_, S, C> {
    fn drop(&mut self) {
        self.limiter.release(&mut self.places);
    }
}

impl<S: Store, C: Clock> Limiter<S, C> {
    /// For a request that was denied: if only queues deny it, takes its places, charges ahead and turns the
    /// ruling into a later admission. If the store fails meanwhile, the denial stands.
    ///
    /// A request that waits in a fair queue charges only the bucket with the longest wait ahead of time; all
    /// others are charged when it is admitted. A request that is given a fixed instant is charged at once: each
    /// bucket that denies as of its own wait, the others as of now, although the request is admitted after the
    /// longest of the waits.
    ///
    /// If the request is dropped while the store is called, its places are given up. Whether the store has
    /// charged it by then is unknown, so nothing is handed back: handing back what was never taken would admit
    /// too much. An unused charge admits too little, for no longer than `max_wait`.
    pub(crate) async fn queue_up(
        &self,
        set: &Active,
        plan: &Plan,
        charges: &mut Charges<'_>,
        ruling: &mut Ruling,
        operation: Operation,
    ) -> Option<TakenPlaces> {
        let mut held = UnconfirmedPlaces { limiter: self, places: LimitPlaces::new() };
        let mut refusal = Refusal::Queue(Reason::QueueTimeout);
        for _ in 0..ATTEMPTS {
            let max_wait = match self.take_places(set, charges, ruling, operation, &mut held.places) {
                Ok(max_wait) => max_wait,
                Err(why) => {
                    refusal = why;
                    break;
                }
            };
            let waits_for = (operation != Operation::TakePlace).then(|| held.places[0].item);
            let charged = waits_for.map_or(&charges[..], |item| &charges[item..=item]);
            let (result, from) = match self.store.charge(Intent::Take, charged, ruling.at) {
                NowOrLater::Now(result) => (result, ruling.at),
                NowOrLater::Later(later) => (later.await, self.clock.now().max(ruling.at)),
            };
            let Ok(verdict) = result else {
                refusal = Refusal::Final;
                break;
            };
            match waits_for {
                Some(item) => {
                    ruling.standings[item].decision = verdict.decisions[0];
                    ruling.allowed = verdict.allowed;
                }
                None => *ruling = conclude(&set.rules, (plan, charges), &verdict, ruling.at, CanWait::Waits),
            }
            if ruling.allowed {
                mark_queued(ruling, charges);
                let mut places = std::mem::take(&mut held.places);
                if waits_for.is_none() {
                    self.record_tokens(charges, &mut places);
                }
                return Some(TakenPlaces { places, from, charged_at: verdict.at, max_wait });
            }
        }
        if let Refusal::Queue(reason) = refusal {
            ruling.reason = reason;
        }
        None
    }

    /// Takes a place in the queue of every limit that denies, or only of the one with the longest wait, and
    /// delays its charge. The request waits for the longest of the waits, so no limit may have a shorter
    /// `max_wait` than that; the shortest `max_wait` is returned.
    fn take_places(
        &self,
        set: &Active,
        charges: &mut Charges<'_>,
        ruling: &Ruling,
        operation: Operation,
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
        let waits = operation.waited(now).saturating_add(wait_of(longest));
        let mut shortest_max_wait = Nanos::MAX;
        self.release(places);
        for &item in &refusing {
            let Strategy::Queue { max_depth, max_wait } = rules.rule(standings[item].rule).strategy else {
                return Err(Refusal::Final);
            };
            shortest_max_wait = shortest_max_wait.min(max_wait);
            let takes_a_place = operation == Operation::TakePlace || item == longest;
            let queue =
                self.queues.key_of(set.bound[standings[item].rule as usize].named.id, charges[item].key);
            if takes_a_place && self.queues.is_full(queue, max_depth, now) {
                return Err(Refusal::Queue(Reason::QueueFull));
            }
            if waits > max_wait {
                return Err(Refusal::Queue(Reason::QueueTimeout));
            }
            charges[item].delay = if takes_a_place { wait_of(item) } else { Nanos::ZERO };
            if takes_a_place {
                let held = HeldPlace::until(now.saturating_add(wait_of(item)));
                if !self.queues.hold(queue, max_depth, held.due, now) {
                    return Err(Refusal::Queue(Reason::QueueFull));
                }
                places.push(LimitPlace { item, queue, held });
            }
        }
        Ok(shortest_max_wait)
    }

    /// Records in the places how many tokens were charged for them.
    fn record_tokens(&self, charges: &Charges<'_>, places: &mut LimitPlaces) {
        for place in places {
            place.held =
                self.queues.record_tokens(place.queue, place.held, charges[place.item].cost.get().into());
        }
    }

    /// Called before limits are charged as of `now`: discards what buckets could not hold because waiting
    /// requests are late, so that no other request gets it in addition to them.
    #[inline]
    pub(crate) fn discard_queue_overflow(&self, set: &Active, plan: &Plan, now: Nanos) {
        if !self.queues.is_idle() {
            self.discard_each_overflow(set, plan, now);
        }
    }

    #[cold]
    fn discard_each_overflow(&self, set: &Active, plan: &Plan, now: Nanos) {
        for item in plan.items() {
            if matches!(set.rules.rule(item.rule).strategy, Strategy::Queue { .. }) {
                let limit = set.bound[item.rule as usize].named.id;
                self.queues.discard_overflow(self.queues.key_of(limit, plan.key(item)), &self.store, now);
            }
        }
    }

    fn release(&self, places: &mut LimitPlaces) {
        places.drain(..).for_each(|place| self.queues.release(place.queue, place.held));
    }

    /// Hands back the delayed charges of a request.
    fn give_back(&self, set: &Active, charges_ahead: &QueuedCharges) {
        let charges = set.charges(&charges_ahead.pending.plan, charges_ahead.payer(), &self.store);
        let taken: Charges<'_> = charges
            .into_iter()
            .zip(&charges_ahead.taken)
            .filter_map(|(charge, taken)| Some(charge.delayed((*taken)?)))
            .collect();
        self.store.hand_back(&taken, charges_ahead.queued.charged_at);
    }
}

/// Marks a ruling as an admission after the longest of the waits.
fn mark_queued(ruling: &mut Ruling, charges: &Charges<'_>) {
    for (standing, charge) in ruling.standings.iter_mut().zip(charges) {
        standing.queued = charge.delay > Nanos::ZERO;
    }
    ruling.queued = charges.iter().map(|charge| charge.delay).max();
}

/// The place of a request that has to wait, with its delayed charges. Dropping it before its instant gives both back.
#[derive(Debug)]
#[must_use = "dropping the place gives it back; wait, then call `served`"]
pub struct QueuePlace<'l, S: Store, C: Clock> {
    limiter: &'l Limiter<S, C>,
    /// The policy of the place; the policy in force may change meanwhile.
    set: Arc<Active>,
    charges_ahead: Box<QueuedCharges>,
    served: bool,
}

impl<S: Store, C: Clock> QueuePlace<'_, S, C> {
    /// The instant has come and the request is served: the charges are kept.
    pub fn served(mut self) {
        let waited = self.limiter.clock.now().saturating_sub(self.charges_ahead.at);
        self.limiter.stats.queue_waits.record(waited);
        self.served = true;
    }
}

impl<S: Store, C: Clock> Drop for QueuePlace<'_, S, C> {
    fn drop(&mut self) {
        self.limiter.release(&mut self.charges_ahead.queued.places);
        if !self.served {
            self.limiter.give_back(&self.set, &self.charges_ahead);
        }
    }
}

impl<C: Clock> Limiter<Memory<C>, C> {
    /// Decides a request; if a `queue` limit makes it wait, its cost is charged ahead of time and
    /// [`Decision::queued`] is the wait. Wait that long, then call [`QueuePlace::served`]. Such places are
    /// served in the order in which they were taken; with the feature `async`, [`Limiter::admit`] waits by
    /// itself and serves tenants round-robin.
    pub fn take_place(&self, request: &Request<'_>) -> (Decision, Option<QueuePlace<'_, Memory<C>, C>>) {
        ready(self.take_place_async(request))
    }
}

impl<S: Store, C: Clock> Limiter<S, C> {
    /// [`Limiter::take_place`] on any store. While the store fails, nothing can be charged ahead of time, and a
    /// `queue` limit denies.
    pub async fn take_place_async(&self, request: &Request<'_>) -> (Decision, Option<QueuePlace<'_, S, C>>) {
        let (decision, queued) = self.decide(request, Operation::TakePlace, self.clock.now()).await;
        let hold = |charges_ahead| QueuePlace {
            limiter: self,
            set: decision.policy(),
            charges_ahead,
            served: false,
        };
        let place = queued.map(hold);
        (decision, place)
    }
}
