//! The order in which those who wait for one bucket go: tenants in turn, and
//! within a tenant first come, first served.
//!
//! Everybody who joins brings a slot: its cost, reserved as of the instant at
//! which the bucket will hold it. Slots belong to the line, not to those who
//! brought them. Whoever is next goes as soon as the slots that are due cover its
//! cost on top of what has been let go already: never earlier than the bucket
//! allows, whatever the order. When somebody leaves, those behind move up, and it
//! is the last slot that is handed back.

use std::collections::{HashMap, VecDeque};
use std::task::Waker;

use smallvec::SmallVec;
use tidegate_core::{Cost, Nanos};

use crate::{Charge, LimitRef};

/// A cost that is reserved.
#[derive(Debug)]
pub(crate) struct Slot {
    pub(crate) limit: LimitRef,
    pub(crate) key: Box<[u8]>,
    pub(crate) tag: Option<Box<[u8]>>,
    pub(crate) cost: Cost,
    /// From when it is waited for, and how much later it counts.
    pub(crate) from: Nanos,
    pub(crate) delay: Nanos,
    /// When it was reserved, by the store's clock.
    pub(crate) charged_at: Nanos,
}

impl Slot {
    pub(crate) fn due(&self) -> Nanos {
        self.from.saturating_add(self.delay)
    }

    /// The charge that reserved it.
    pub(crate) fn charge(&self) -> Charge<'_> {
        let charge = Charge::new(&self.limit, &self.key, self.cost).delayed(self.delay);
        Charge { tag: self.tag.as_deref(), ..charge }
    }

    fn cost(&self) -> i64 {
        self.cost.get().into()
    }
}

/// Those to be woken, once no lock is held.
pub(crate) type Wakers = SmallVec<[Waker; 4]>;

/// Slots that nobody needs any more, the last first.
pub(crate) type Spare = SmallVec<[Slot; 1]>;

/// Whose turn it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    /// Yours.
    Now,
    /// Somebody else's; look again then, or when called.
    Later(Nanos),
}

/// Those who wait for one bucket.
#[derive(Debug, Default)]
pub(crate) struct Line {
    /// By when they are due.
    slots: VecDeque<Slot>,
    /// The cost of all of them.
    reserved: i64,
    /// How much of it has been let go; below zero if somebody has left who had
    /// been let go already.
    granted: i64,
    /// Tenants whose turn comes one after the other.
    tenants: VecDeque<Tenant>,
    waiters: HashMap<u64, Waiter>,
    /// How many have not been let go, and their cost.
    waiting: usize,
    wanted: i64,
    tickets: u64,
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
    cost: i64,
    /// When its own slot is due.
    due: Nanos,
    let_go: bool,
    /// Has something happened that it has not looked at?
    called: bool,
    waker: Option<Waker>,
}

impl Line {
    /// How many wait.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting
    }

    /// Is there nobody left, not even somebody who is just going?
    pub(crate) fn is_empty(&self) -> bool {
        self.waiters.is_empty()
    }

    /// Joins with a slot, for a tenant.
    pub(crate) fn join(&mut self, tenant: u64, slot: Slot) -> u64 {
        self.tickets += 1;
        let (ticket, cost, due) = (self.tickets, slot.cost(), slot.due());
        let place = self.slots.iter().rposition(|other| other.due() <= due).map_or(0, |before| before + 1);
        self.slots.insert(place, slot);
        self.reserved += cost;
        match self.tenants.iter_mut().find(|other| other.id == tenant) {
            Some(tenant) => tenant.tickets.push_back(ticket),
            None => self.tenants.push_back(Tenant { id: tenant, tickets: VecDeque::from([ticket]) }),
        }
        let waiter = Waiter { tenant, cost, due, let_go: false, called: false, waker: None };
        self.waiters.insert(ticket, waiter);
        self.waiting += 1;
        self.wanted += cost;
        ticket
    }

    /// Whose turn it is at `now`. All whose turn it is are let go and called.
    pub(crate) fn look(&mut self, ticket: u64, now: Nanos, wakers: &mut Wakers) -> Turn {
        self.let_go(now, wakers);
        let head_due = self.head().map(|(head, cost)| (head, self.due_of(cost)));
        let Some(waiter) = self.waiters.get_mut(&ticket) else { return Turn::Now };
        waiter.called = false;
        match head_due {
            _ if waiter.let_go => Turn::Now,
            Some((head, due)) if head == ticket => Turn::Later(due),
            // When its own slot is due, it looks after the others: whoever is next may be slow.
            _ if waiter.due > now => Turn::Later(waiter.due),
            _ => Turn::Later(Nanos::MAX),
        }
    }

    /// Calls on `waker` from now on; has something happened already?
    pub(crate) fn listen(&mut self, ticket: u64, waker: &Waker) -> bool {
        let Some(waiter) = self.waiters.get_mut(&ticket) else { return true };
        if !waiter.waker.as_ref().is_some_and(|known| known.will_wake(waker)) {
            waiter.waker = Some(waker.clone());
        }
        waiter.called
    }

    /// Goes, having been let go.
    pub(crate) fn finish(&mut self, ticket: u64) {
        self.waiters.remove(&ticket);
    }

    /// Leaves without going. Those behind move up; what is too much is returned.
    pub(crate) fn quit(&mut self, ticket: u64, now: Nanos, wakers: &mut Wakers) -> Spare {
        let mut spare = Spare::new();
        let Some(waiter) = self.waiters.remove(&ticket) else { return spare };
        if waiter.let_go {
            self.granted -= waiter.cost;
        } else {
            self.waiting -= 1;
            self.wanted -= waiter.cost;
            self.strike(waiter.tenant, ticket);
        }
        while let Some(last) = self.slots.back()
            && last.cost() <= self.reserved - self.granted - self.wanted
        {
            self.reserved -= last.cost();
            spare.extend(self.slots.pop_back());
        }
        self.let_go(now, wakers);
        self.call_head(wakers);
        spare
    }

    fn strike(&mut self, tenant: u64, ticket: u64) {
        let Some(place) = self.tenants.iter().position(|other| other.id == tenant) else { return };
        let tickets = &mut self.tenants[place].tickets;
        if let Ok(own) = tickets.binary_search(&ticket) {
            tickets.remove(own);
        }
        if tickets.is_empty() {
            self.tenants.remove(place);
        }
    }

    /// Who is next, and what it costs.
    fn head(&self) -> Option<(u64, i64)> {
        let ticket = *self.tenants.front()?.tickets.front()?;
        Some((ticket, self.waiters[&ticket].cost))
    }

    /// When the slots cover so much more.
    fn due_of(&self, cost: i64) -> Nanos {
        let mut missing = self.granted + cost;
        for slot in &self.slots {
            missing -= slot.cost();
            if missing <= 0 {
                return slot.due();
            }
        }
        if missing <= 0 { Nanos::ZERO } else { Nanos::MAX }
    }

    /// Lets all go whose turn it is.
    fn let_go(&mut self, now: Nanos, wakers: &mut Wakers) {
        let mut some = false;
        while let Some((ticket, cost)) = self.head()
            && self.due_of(cost) <= now
        {
            some = true;
            self.rotate();
            (self.waiting, self.wanted) = (self.waiting - 1, self.wanted - cost);
            self.granted += cost;
            while let Some(first) = self.slots.front()
                && first.cost() <= self.granted
            {
                (self.granted, self.reserved) = (self.granted - first.cost(), self.reserved - first.cost());
                self.slots.pop_front();
            }
            let waiter = self.waiters.get_mut(&ticket).expect("who is next waits");
            waiter.let_go = true;
            waiter.called = true;
            wakers.extend(waiter.waker.take());
        }
        if some {
            self.call_head(wakers);
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
        if let Some((ticket, _)) = self.head()
            && let Some(waiter) = self.waiters.get_mut(&ticket)
        {
            waiter.called = true;
            wakers.extend(waiter.waker.take());
        }
    }
}

#[cfg(test)]
mod tests;
