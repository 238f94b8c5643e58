//! The order in which those who wait for one bucket go: tenants in turn, and within a tenant first come, first served.
//! Whoever is next goes by itself, as soon as its bucket lets it, and calls the one behind it.
//!
//! # Why no more is let go than *B + R·t*
//!
//! Everybody who joins has reserved its cost: the bucket's word *F*, the instant at which it will be full, has moved on
//! by *cost ÷ R*. Let *W* be the cost of all who wait. Without them the bucket would be full at *P = F − W ÷ R*, and that
//! is the state of a bucket charged at the instants at which requests are let go, whatever the order in which they go:
//!
//! - Whoever joins or leaves moves *F* and *W* alike, so *P* stays.
//! - Whoever goes at *t* is charged to *P* as any bucket is charged: *P* must hold the cost at *t* and moves on by
//!   *cost ÷ R*, which is what *W* becomes less by; *F* stays.
//! - A bucket that is full runs over, so *P* is at least *t* when somebody goes. Where those who wait are late, *F* is
//!   moved to *t + W ÷ R* first ([`Store::pace`](crate::Store::pace) does both), so the time in which it ran over is lost.
//! - Whoever does not wait is charged to *F* at its own instant, after the same has been done as of that instant. *F* is
//!   at least *P*, so *P* holds what it takes too.
//! - Places that were told at once ([`Limiter::take_place`](crate::engine::Limiter::reserve)) are left out of *P* like *W* until
//!   their instant, and nobody goes who would leave one of them short.
//!
//! So long as somebody waits and is polled in time, *P* never runs over, for the next one's cost is at most *B*: nothing
//! is saved beyond what a bucket holds, and nothing is lost.
//!
//! # Where the word cannot be told
//!
//! Other nodes reserve in a shared store, the state of a window is no instant, and an edit turns what is reserved into
//! another number of tokens. There those of equal cost make a line
//! of their own, and each goes at the instant of one of their reservations ([`QueueSlot`]): what the store has counted there
//! and then is what is let go. Tenants take turns within such a line. A timer that is late lets its request go late, which
//! can add what has come in meanwhile to what others get; a slot that is missed by more than the time in which its limit
//! is good as new is lost, and its waiter asks anew.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::task::Waker;

use smallvec::SmallVec;
use tidegate_core::{Cost, Limit, Meter, Nanos};

use crate::{Charge, OwnedCharge};

/// Whoever does not come for so long when it is called lets the next one pass.
const ABSENT_AFTER: Nanos = Nanos::from_millis(100);

/// A cost that is reserved.
#[derive(Debug)]
pub(crate) struct QueueSlot {
    /// The charge that reserved it.
    pub(crate) charge: OwnedCharge,
    /// From when it is waited for.
    pub(crate) from: Nanos,
    /// When it was reserved, by the store's clock.
    pub(crate) charged_at: Nanos,
}

impl QueueSlot {
    pub(crate) fn due(&self) -> Nanos {
        self.from.saturating_add(self.charge.delay)
    }

    /// Another cost for the same bucket, as of now.
    pub(crate) fn charge_of(&self, cost: Cost) -> Charge<'_> {
        Charge { cost, delay: Nanos::ZERO, ..self.charge.as_charge() }
    }

    pub(crate) fn tokens(&self) -> u64 {
        self.charge.cost.get().into()
    }

    /// From when on nothing of what was counted at its instant counts any more.
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

/// Those to be woken, once no lock is held.
pub(crate) type Wakers = SmallVec<[Waker; 4]>;

/// Whose turn it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WaiterTurn {
    /// Yours.
    Now,
    /// Somebody else's, or it is too early; look again then, or when called.
    Later(Nanos),
    /// Your slot is lost; ask anew.
    Missed,
}

/// With which slot somebody steps out of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LeavingSlot {
    /// The one that it brought.
    Own,
    /// The one that is due first: those behind keep the rest, in their order.
    First,
    /// The one that is due last: those behind move up.
    Last,
}

/// Those who wait for one bucket.
#[derive(Debug, Default)]
pub(crate) struct WaitLine {
    /// What they have reserved, by when it is due and who brought it.
    slots: BTreeMap<(Nanos, u64), QueueSlot>,
    /// The cost of all of them.
    reserved: u64,
    /// Tenants whose turn comes one after the other.
    tenants: VecDeque<Tenant>,
    waiters: HashMap<u64, Waiter>,
    tickets: u64,
    /// Who could have gone, and since when that has been seen.
    expected: Option<(u64, Nanos)>,
}

#[derive(Debug)]
struct Tenant {
    id: u64,
    /// Those of its own, in the order in which they came.
    tickets: VecDeque<u64>,
}

#[derive(Debug)]
struct Waiter {
    tenant: u64,
    /// When the slot is due that it brought.
    due: Nanos,
    /// Has something happened that it has not looked at?
    called: bool,
    /// Did it let its turn pass?
    is_absent: bool,
    waker: Option<Waker>,
}

impl WaitLine {
    /// How many wait.
    pub(crate) fn waiting(&self) -> usize {
        self.waiters.len()
    }

    /// The cost of all who wait.
    pub(crate) fn reserved(&self) -> u64 {
        self.reserved
    }

    /// The ticket of whoever joined last.
    pub(crate) fn last_ticket(&self) -> u64 {
        self.tickets
    }

    /// Joins with a slot, for a tenant. Whoever is next looks again: it may have seen the slot without its owner.
    pub(crate) fn join(&mut self, tenant: u64, slot: QueueSlot, wakers: &mut Wakers) -> u64 {
        self.tickets += 1;
        let (ticket, due) = (self.tickets, slot.due());
        self.reserved += slot.tokens();
        self.slots.insert((due, ticket), slot);
        match self.tenants.iter_mut().find(|other| other.id == tenant) {
            Some(tenant) => tenant.tickets.push_back(ticket),
            None => self.tenants.push_back(Tenant { id: tenant, tickets: VecDeque::from([ticket]) }),
        }
        let waiter = Waiter { tenant, due, called: false, is_absent: false, waker: None };
        self.waiters.insert(ticket, waiter);
        self.call_head(wakers);
        ticket
    }

    /// Who is next.
    pub(crate) fn head(&self) -> Option<u64> {
        self.tenants.front()?.tickets.front().copied()
    }

    /// What a waiter has brought.
    pub(crate) fn brought_by(&self, ticket: u64) -> Option<&QueueSlot> {
        self.slots.get(&(self.waiters.get(&ticket)?.due, ticket))
    }

    /// What they have reserved.
    pub(crate) fn slots(&self) -> impl Iterator<Item = &QueueSlot> {
        self.slots.values()
    }

    /// The slot that is due first.
    pub(crate) fn first(&self) -> Option<&QueueSlot> {
        self.slots.values().next()
    }

    /// Is `ticket`'s turn now, if the next one can go from `due` on? Who is not there in time is passed over: those
    /// look after it whose own slots are due, so that not all who wait look all the time.
    pub(crate) fn look(&mut self, ticket: u64, due: Nanos, now: Nanos, wakers: &mut Wakers) -> WaiterTurn {
        let Some(waiter) = self.waiters.get_mut(&ticket) else { return WaiterTurn::Missed };
        waiter.called = false;
        let looks_from = waiter.due.saturating_add(ABSENT_AFTER);
        let head = self.head();
        if head == Some(ticket) {
            return if due <= now { WaiterTurn::Now } else { WaiterTurn::Later(due) };
        }
        if due > now {
            self.expected = None;
            return WaiterTurn::Later(due.saturating_add(ABSENT_AFTER).max(looks_from));
        }
        let since = match (self.expected, head) {
            (Some((expected, since)), Some(head)) if expected == head => since,
            _ => now,
        };
        self.expected = head.map(|head| (head, since));
        let until = since.saturating_add(ABSENT_AFTER).max(looks_from);
        if until > now {
            return WaiterTurn::Later(until);
        }
        self.pass_over(wakers);
        // Whoever is next now has just been called, be it the one that looks.
        WaiterTurn::Later(now.saturating_add(ABSENT_AFTER))
    }

    /// Has looked at what happened.
    pub(crate) fn hear(&mut self, ticket: u64) {
        if let Some(waiter) = self.waiters.get_mut(&ticket) {
            waiter.called = false;
        }
    }

    /// Whoever comes late after all is the next of its tenant.
    pub(crate) fn come_back(&mut self, ticket: u64) {
        let Some(waiter) = self.waiters.get_mut(&ticket).filter(|waiter| waiter.is_absent) else { return };
        waiter.is_absent = false;
        let tenant = waiter.tenant;
        match self.tenants.iter_mut().find(|other| other.id == tenant) {
            Some(tenant) => tenant.tickets.push_front(ticket),
            None => self.tenants.push_front(Tenant { id: tenant, tickets: VecDeque::from([ticket]) }),
        }
    }

    fn pass_over(&mut self, wakers: &mut Wakers) {
        let Some(head) = self.head() else { return };
        self.rotate();
        if let Some(waiter) = self.waiters.get_mut(&head) {
            waiter.is_absent = true;
        }
        self.expected = None;
        self.call_head(wakers);
    }

    /// Calls on `waker` from now on; has something happened already?
    pub(crate) fn listen(&mut self, ticket: u64, waker: &Waker) -> bool {
        let Some(waiter) = self.waiters.get_mut(&ticket) else { return true };
        if !waiter.waker.as_ref().is_some_and(|known| known.will_wake(waker)) {
            waiter.waker = Some(waker.clone());
        }
        waiter.called
    }

    /// Steps out of the line with the slot of `which`: its turn was its tenant's, unless it leaves without going.
    pub(crate) fn step_out(
        &mut self,
        ticket: u64,
        which: LeavingSlot,
        leaves: bool,
        wakers: &mut Wakers,
    ) -> Option<QueueSlot> {
        let waiter = self.waiters.remove(&ticket)?;
        let slot = match which {
            LeavingSlot::Own => self.slots.remove(&(waiter.due, ticket)),
            LeavingSlot::First => self.slots.pop_first().map(|(_, slot)| slot),
            LeavingSlot::Last => self.slots.pop_last().map(|(_, slot)| slot),
        };
        if !leaves && self.head() == Some(ticket) {
            self.rotate();
        } else {
            self.strike(waiter.tenant, ticket);
        }
        self.expected = None;
        self.call_head(wakers);
        self.reserved -= slot.as_ref().map_or(0, QueueSlot::tokens);
        slot
    }

    fn strike(&mut self, tenant: u64, ticket: u64) {
        let Some(place) = self.tenants.iter().position(|other| other.id == tenant) else { return };
        let tickets = &mut self.tenants[place].tickets;
        tickets.retain(|other| *other != ticket);
        if tickets.is_empty() {
            self.tenants.remove(place);
        }
    }

    /// The next one of the next tenant steps out of the line, and the tenant's
    /// turn is over.
    fn rotate(&mut self) {
        let Some(mut tenant) = self.tenants.pop_front() else { return };
        tenant.tickets.pop_front();
        if !tenant.tickets.is_empty() {
            self.tenants.push_back(tenant);
        }
    }

    /// Whoever is next must know, for it is the one that looks at the clock.
    fn call_head(&mut self, wakers: &mut Wakers) {
        if let Some(ticket) = self.head()
            && let Some(waiter) = self.waiters.get_mut(&ticket)
        {
            waiter.called = true;
            wakers.extend(waiter.waker.take());
        }
    }

    /// Has the slot that is due first been missed for good?
    pub(crate) fn has_missed(&self, now: Nanos) -> bool {
        self.first().is_some_and(|slot| slot.lost_at() <= now)
    }
}

#[cfg(test)]
mod tests;
