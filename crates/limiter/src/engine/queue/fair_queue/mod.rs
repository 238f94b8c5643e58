//! The order in which the requests that wait for one bucket are admitted: tenants round-robin, within a tenant
//! higher priorities first, and of equal ones first come, first served. The first in order admits itself as soon as the
//! bucket allows, and notifies the next one.
//!
//! # Why never more than *B + R·t* is admitted
//!
//! Every request that joins has charged its cost ahead of time: the bucket's word *F*, the instant at which it
//! will be full, has moved later by *cost ÷ R*. Let *W* be the cost of all waiting requests. Without them the
//! bucket would be full at *P = F − W ÷ R*. This *P* is the state of a bucket that is charged at the instants
//! at which requests are admitted, whatever their order:
//!
//! - A request that joins or leaves moves *F* and *W ÷ R* by the same amount, so *P* stays.
//! - A request that is admitted at *t* is charged to *P* like to any bucket: *P* must hold the cost at *t* and
//!   moves later by *cost ÷ R*. That is the amount by which *W ÷ R* shrinks; *F* stays.
//! - A full bucket overflows, so *P* must be at least *t* when a request is admitted. If the waiting requests
//!   are late, *F* is first moved to *t + W ÷ R* ([`Store::pace`](crate::Store::pace) does both), so the time
//!   during which the bucket overflowed is lost.
//! - A request that does not wait is charged to *F* at its own instant, after the same correction as of that
//!   instant. *F* is at least *P*, so *P* holds that cost too.
//! - Places with a fixed instant ([`Limiter::take_place`](crate::engine::Limiter::take_place)) are left out of
//!   *P*, like *W*, until their instant, and no request is admitted that would leave one of them short.
//!
//! As long as some request waits and is polled in time, *P* never overflows, because the cost of the next
//! request is at most *B*: no more is saved up than a bucket holds, and nothing is lost.
//!
//! # Where *F* cannot be used
//!
//! In a shared store other nodes charge ahead too, the state of a window is not an instant, and an edit turns
//! the delayed charges into another number of tokens. There, waiting requests of equal cost form a queue of
//! their own, and each is admitted at the instant of one of their delayed charges ([`DelayedCharge`]): what is
//! admitted at an instant is what the store has counted at that instant. Tenants take turns within such a
//! queue. If a timer is late, its request is admitted late, which can add what has been refilled meanwhile to
//! what others get. A delayed charge that is missed by more than the time after which its limit is as good as
//! new is lost, and its waiter is decided again.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::task::Waker;

use smallvec::SmallVec;
use tidegate_core::{Cost, Limit, Meter, Nanos};
use tidegate_policy::Priority;

use crate::{Charge, OwnedCharge};

/// A waiter that does not act for this long after it was notified is skipped.
const ABSENT_AFTER: Nanos = Nanos::from_millis(100);

/// A delayed charge, made for a waiting request.
#[derive(Debug)]
pub(crate) struct DelayedCharge {
    /// The charge, with its delay.
    pub(crate) charge: OwnedCharge,
    /// The instant from which its delay counts, on this node's clock.
    pub(crate) from: Nanos,
    /// When it was made, on the store's clock.
    pub(crate) charged_at: Nanos,
}

impl DelayedCharge {
    pub(crate) fn due(&self) -> Nanos {
        self.from.saturating_add(self.charge.delay)
    }

    /// A charge of another cost on the same bucket, without a delay.
    pub(crate) fn charge_of(&self, cost: Cost) -> Charge<'_> {
        Charge { cost, delay: Nanos::ZERO, ..self.charge.as_charge() }
    }

    pub(crate) fn tokens(&self) -> u64 {
        self.charge.cost.get().into()
    }

    /// The instant from which nothing that was counted at its due instant counts any more.
    fn lost_at(&self) -> Nanos {
        let good_as_new = match self.charge.limit.limit() {
            Limit::Meter(Meter::TokenBucket(quota)) => {
                let tokens = u128::from(quota.capacity()) * u128::from(quota.rate().nanos());
                let nanos = tokens / u128::from(quota.rate().tokens());
                Nanos::new(u64::try_from(nanos).unwrap_or(u64::MAX))
            }
            Limit::Meter(Meter::SlidingWindow(quota) | Meter::FixedWindow(quota)) => quota.length(),
            Limit::Log(quota) => quota.window(),
        };
        self.due().saturating_add(good_as_new)
    }
}

/// Wakers to be called once no lock is held.
pub(crate) type Wakers = SmallVec<[Waker; 4]>;

/// Whether it is a waiter's turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WaiterTurn {
    /// It is.
    Now,
    /// Not yet; check again at this instant, or when notified.
    Later(Nanos),
    /// Its delayed charge is lost; the request must be decided again.
    Missed,
}

/// Which delayed charge is removed together with a waiter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RemovedCharge {
    /// The one that the waiter made.
    Own,
    /// The one that is due first: the waiters behind keep the others, in their order.
    First,
    /// The one that is due last: the waiters behind move up.
    Last,
}

/// The requests that wait for one bucket, in the order in which they are admitted.
#[derive(Debug, Default)]
pub(crate) struct FairQueue {
    /// Their delayed charges, by due instant and ticket.
    charges: BTreeMap<(Nanos, u64), DelayedCharge>,
    /// The cost of all delayed charges.
    delayed_tokens: u64,
    /// Tenants, in round-robin order.
    tenants: VecDeque<Tenant>,
    waiters: HashMap<u64, Waiter>,
    tickets: u64,
    /// The head that could have been admitted, and since when that has been known.
    expected: Option<(u64, Nanos)>,
}

#[derive(Debug)]
struct Tenant {
    id: u64,
    /// Its waiters, by priority and then in order of arrival.
    tickets: VecDeque<u64>,
}

#[derive(Debug)]
struct Waiter {
    rank: WaiterRank,
    /// When the delayed charge that it made is due.
    due: Nanos,
    /// Was it notified since it last checked its turn?
    notified: bool,
    /// Was it skipped because it did not act?
    is_absent: bool,
    waker: Option<Waker>,
}

/// What a waiter's position depends on, beside its arrival.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WaiterRank {
    /// Its tenant, as a number.
    pub(crate) tenant: u64,
    pub(crate) priority: Priority,
}

impl FairQueue {
    /// The number of waiters.
    pub(crate) fn waiting(&self) -> usize {
        self.waiters.len()
    }

    /// The cost of all waiters.
    pub(crate) fn delayed_tokens(&self) -> u64 {
        self.delayed_tokens
    }

    /// The ticket of the waiter that joined last.
    pub(crate) fn last_ticket(&self) -> u64 {
        self.tickets
    }

    /// Adds a waiter, with its delayed charge. Within its tenant it goes before all of a lower priority; the proof above
    /// holds for any order. The head checks again: it may have seen the charge
    /// in the store before the waiter joined.
    pub(crate) fn join(
        &mut self,
        rank: WaiterRank,
        delayed_charge: DelayedCharge,
        wakers: &mut Wakers,
    ) -> u64 {
        self.tickets += 1;
        let (ticket, due) = (self.tickets, delayed_charge.due());
        self.delayed_tokens += delayed_charge.tokens();
        self.charges.insert((due, ticket), delayed_charge);
        match self.tenants.iter_mut().find(|other| other.id == rank.tenant) {
            Some(tenant) => {
                let is_lower = |other: &u64| {
                    self.waiters.get(other).is_some_and(|waiter| waiter.rank.priority < rank.priority)
                };
                let place = tenant.tickets.iter().position(is_lower).unwrap_or(tenant.tickets.len());
                tenant.tickets.insert(place, ticket);
            }
            None => self.tenants.push_back(Tenant { id: rank.tenant, tickets: VecDeque::from([ticket]) }),
        }
        let waiter = Waiter { rank, due, notified: false, is_absent: false, waker: None };
        self.waiters.insert(ticket, waiter);
        self.notify_head(wakers);
        ticket
    }

    /// The ticket of the waiter that is next.
    pub(crate) fn head(&self) -> Option<u64> {
        self.tenants.front()?.tickets.front().copied()
    }

    /// The delayed charge that a waiter made.
    pub(crate) fn charge_by(&self, ticket: u64) -> Option<&DelayedCharge> {
        self.charges.get(&(self.waiters.get(&ticket)?.due, ticket))
    }

    /// All delayed charges.
    pub(crate) fn charges(&self) -> impl Iterator<Item = &DelayedCharge> {
        self.charges.values()
    }

    /// The delayed charge that is due first.
    pub(crate) fn first(&self) -> Option<&DelayedCharge> {
        self.charges.values().next()
    }

    /// Is it the turn of `ticket`, if the head can be admitted from `due` on? A head that does not act in time
    /// is skipped. Only waiters whose own charges are due watch for that, so that not all waiters check all the
    /// time.
    pub(crate) fn check_turn(
        &mut self,
        ticket: u64,
        due: Nanos,
        now: Nanos,
        wakers: &mut Wakers,
    ) -> WaiterTurn {
        let Some(waiter) = self.waiters.get_mut(&ticket) else { return WaiterTurn::Missed };
        waiter.notified = false;
        let watches_from = waiter.due.saturating_add(ABSENT_AFTER);
        let head = self.head();
        if head == Some(ticket) {
            return if due <= now { WaiterTurn::Now } else { WaiterTurn::Later(due) };
        }
        if due > now {
            self.expected = None;
            return WaiterTurn::Later(due.saturating_add(ABSENT_AFTER).max(watches_from));
        }
        let since = match (self.expected, head) {
            (Some((expected, since)), Some(head)) if expected == head => since,
            _ => now,
        };
        self.expected = head.map(|head| (head, since));
        let until = since.saturating_add(ABSENT_AFTER).max(watches_from);
        if until > now {
            return WaiterTurn::Later(until);
        }
        self.skip_head(wakers);
        // The new head has just been notified, even if it is this waiter.
        WaiterTurn::Later(now.saturating_add(ABSENT_AFTER))
    }

    /// Clears the notification of a waiter.
    pub(crate) fn clear_notification(&mut self, ticket: u64) {
        if let Some(waiter) = self.waiters.get_mut(&ticket) {
            waiter.notified = false;
        }
    }

    /// Puts a waiter that was skipped back, as the next of its tenant.
    pub(crate) fn put_back(&mut self, ticket: u64) {
        let Some(waiter) = self.waiters.get_mut(&ticket).filter(|waiter| waiter.is_absent) else { return };
        waiter.is_absent = false;
        let tenant = waiter.rank.tenant;
        match self.tenants.iter_mut().find(|other| other.id == tenant) {
            Some(tenant) => tenant.tickets.push_front(ticket),
            None => self.tenants.push_front(Tenant { id: tenant, tickets: VecDeque::from([ticket]) }),
        }
    }

    fn skip_head(&mut self, wakers: &mut Wakers) {
        let Some(head) = self.head() else { return };
        self.rotate();
        if let Some(waiter) = self.waiters.get_mut(&head) {
            waiter.is_absent = true;
        }
        self.expected = None;
        self.notify_head(wakers);
    }

    /// Registers the waker of a waiter; returns whether it was notified already.
    pub(crate) fn register_waker(&mut self, ticket: u64, waker: &Waker) -> bool {
        let Some(waiter) = self.waiters.get_mut(&ticket) else { return true };
        if !waiter.waker.as_ref().is_some_and(|known| known.will_wake(waker)) {
            waiter.waker = Some(waker.clone());
        }
        waiter.notified
    }

    /// Removes a waiter with the delayed charge of `which`. Unless it leaves without being admitted, this was
    /// its tenant's turn.
    pub(crate) fn remove(
        &mut self,
        ticket: u64,
        which: RemovedCharge,
        leaves: bool,
        wakers: &mut Wakers,
    ) -> Option<DelayedCharge> {
        let waiter = self.waiters.remove(&ticket)?;
        let delayed_charge = match which {
            RemovedCharge::Own => self.charges.remove(&(waiter.due, ticket)),
            RemovedCharge::First => self.charges.pop_first().map(|(_, charge)| charge),
            RemovedCharge::Last => self.charges.pop_last().map(|(_, charge)| charge),
        };
        self.remove_ticket(waiter.rank.tenant, ticket, !leaves);
        self.expected = None;
        self.notify_head(wakers);
        self.delayed_tokens -= delayed_charge.as_ref().map_or(0, DelayedCharge::tokens);
        delayed_charge
    }

    /// Removes a waiter from the order. If it was admitted, the turn of its tenant ends, also if a waiter of a higher
    /// priority has come before it meanwhile.
    fn remove_ticket(&mut self, tenant: u64, ticket: u64, was_admitted: bool) {
        let Some(index) = self.tenants.iter().position(|other| other.id == tenant) else { return };
        let tickets = &mut self.tenants[index].tickets;
        tickets.retain(|other| *other != ticket);
        if tickets.is_empty() {
            self.tenants.remove(index);
        } else if was_admitted && index == 0 {
            self.tenants.rotate_left(1);
        }
    }

    /// Removes the head, and ends the turn of its tenant.
    fn rotate(&mut self) {
        let Some(mut tenant) = self.tenants.pop_front() else { return };
        tenant.tickets.pop_front();
        if !tenant.tickets.is_empty() {
            self.tenants.push_back(tenant);
        }
    }

    /// Notifies the head, which is the waiter that watches the clock.
    fn notify_head(&mut self, wakers: &mut Wakers) {
        if let Some(ticket) = self.head()
            && let Some(waiter) = self.waiters.get_mut(&ticket)
        {
            waiter.notified = true;
            wakers.extend(waiter.waker.take());
        }
    }

    /// Has the delayed charge that is due first expired?
    pub(crate) fn has_missed(&self, now: Nanos) -> bool {
        self.first().is_some_and(|delayed_charge| delayed_charge.lost_at() <= now)
    }
}

#[cfg(test)]
mod tests;
