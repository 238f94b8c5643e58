//! Who waits for which bucket.
//!
//! A request that a `queue` limit denies reserves its cost as of the instant at
//! which the bucket will hold it, so that nobody else can take what it waits for.
//! A place is held until that instant, or, for those who really wait, is one in
//! a [`WaitLine`] of the bucket, which serves tenants in turn. Places are counted, to
//! bound them. Why no more is let go than the bucket allows is told in [`line`](super::queue::line).

#[cfg(feature = "async")]
pub(super) mod admit;
#[cfg_attr(not(feature = "async"), allow(dead_code, reason = "without it nobody can wait in a line"))]
pub(super) mod line;
#[cfg_attr(not(feature = "async"), allow(dead_code, reason = "without it nobody can wait in a line"))]
pub(super) mod room;
pub(super) mod waiting;

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::Waker;

use tidegate_core::Nanos;

use crate::{Intent, Store};
use line::{LeavingSlot, QueueSlot, WaiterTurn, Wakers};
use room::{HeldPlace, WaitLineKey, WaitQueue};

/// Rooms are spread over this many locks.
const SHARDS: usize = 16;

/// The most buckets that are waited for at once, in each shard.
const ROOMS_MAX: usize = 4_096;

/// The waiting rooms, one a bucket that somebody waits for.
#[derive(Debug, Default)]
pub(crate) struct WaitQueues {
    shards: [Mutex<Shard>; SHARDS],
    /// How many wait for a bucket whose store paces them.
    paced: AtomicUsize,
    /// Of this process alone, so that nobody outside can choose who shares a room
    /// or a shard.
    secret: RandomState,
}

#[derive(Debug, Default)]
struct Shard {
    rooms: HashMap<WaitQueueKey, WaitQueue>,
    /// Before this instant no room of a full shard becomes free.
    full_until: Nanos,
}

/// Which bucket: a number for its limit, and a keyed hash of its key.
pub(crate) type WaitQueueKey = (u32, u64);

/// A place in a line.
#[derive(Clone, Copy, Debug)]
pub(crate) struct QueueTicket {
    room: WaitQueueKey,
    line: WaitLineKey,
    number: u64,
}

impl WaitQueues {
    /// The room of a bucket. Two keys of one hash would share a room: the depth of
    /// its queue, and its line, in which one may go on what the other reserved. In
    /// 64 bits under a secret that does not happen, by chance or on purpose.
    pub(crate) fn room_of(&self, limit: u32, key: &[u8]) -> WaitQueueKey {
        (limit, self.secret.hash_one(key))
    }

    /// Are all places taken?
    pub(crate) fn is_full(&self, room: WaitQueueKey, max_depth: u32, now: Nanos) -> bool {
        let mut shard = self.shard(room);
        shard.rooms.get_mut(&room).is_some_and(|room| room.depth(now) >= max_depth as usize)
    }

    /// Takes a place until `due`; `false` if `max_depth` are taken.
    pub(crate) fn enter(&self, room: WaitQueueKey, max_depth: u32, due: Nanos, now: Nanos) -> bool {
        let mut shard = self.shard(room);
        if shard.rooms.len() >= ROOMS_MAX && !shard.rooms.contains_key(&room) && !shard.sweep(now) {
            return false;
        }
        let room = shard.rooms.entry(room).or_default();
        let has_room = room.depth(now) < max_depth as usize;
        if has_room {
            room.first = if room.held.is_empty() { due } else { room.first.min(due) };
            room.held.push(HeldPlace::until(due));
        }
        has_room
    }

    /// What a place is held for has been reserved.
    pub(crate) fn book(&self, key: WaitQueueKey, place: HeldPlace, tokens: u64) -> HeldPlace {
        let mut shard = self.shard(key);
        let Some(room) = shard.rooms.get_mut(&key) else { return place };
        let booked = HeldPlace { tokens, behind: room.paced.last_ticket(), ..place };
        if let Some(held) = room.held.iter_mut().find(|held| **held == place) {
            *held = booked;
        }
        booked
    }

    /// Gives a place up.
    pub(crate) fn leave(&self, key: WaitQueueKey, place: HeldPlace) {
        let mut shard = self.shard(key);
        let Some(room) = shard.rooms.get_mut(&key) else { return };
        room.strike(place);
        shard.forget_if_empty(key);
    }

    /// Goes from a place held until `due` to one in a line.
    pub(crate) fn line_up(
        &self,
        key: WaitQueueKey,
        due: Nanos,
        tenant: u64,
        slot: QueueSlot,
        is_paced: bool,
    ) -> QueueTicket {
        let mut wakers = Wakers::new();
        let mut shard = self.shard(key);
        let room = shard.rooms.entry(key).or_default();
        room.strike(HeldPlace::until(due));
        let line = room.line_for(&slot, is_paced);
        if line.is_none() {
            self.paced.fetch_add(1, Ordering::Relaxed);
        }
        let number = room.line(line).join(tenant, slot, &mut wakers);
        drop(shard);
        wakers.into_iter().for_each(Waker::wake);
        QueueTicket { room: key, line, number }
    }

    /// Does nobody wait whom a charge as of now could get ahead of?
    #[inline]
    pub(crate) fn is_idle(&self) -> bool {
        self.paced.load(Ordering::Relaxed) == 0
    }

    /// Before a bucket is charged as of `now`: what those who wait for it have let run over is lost.
    pub(crate) fn spill<S: Store>(&self, key: WaitQueueKey, store: &S, now: Nanos) {
        if let Some(room) = self.shard(key).rooms.get_mut(&key) {
            room.spill(store, now);
        }
    }

    /// Whose turn it is at `now`.
    pub(crate) fn look<S: Store>(&self, ticket: QueueTicket, store: &S, now: Nanos) -> WaiterTurn {
        let look = |room: &mut WaitQueue, wakers: &mut Wakers| {
            if ticket.line.is_none() {
                room.spill(store, now);
            }
            if ticket.line.is_none()
                && let Some(due) = room.due_without_pace(ticket.number, store, now)
            {
                return if due <= now { WaiterTurn::Now } else { WaiterTurn::Later(due) };
            }
            room.line(ticket.line).come_back(ticket.number);
            let due = room.due(ticket.line, store, now);
            let line = room.line(ticket.line);
            let turn = line.look(ticket.number, due, now, wakers);
            if turn == WaiterTurn::Now && ticket.line.is_some() && line.has_missed(now) {
                line.step_out(ticket.number, LeavingSlot::First, false, wakers);
                return WaiterTurn::Missed;
            }
            turn
        };
        self.in_room(ticket, look).unwrap_or(WaiterTurn::Missed)
    }

    /// Calls on `waker` from now on; has something happened already?
    pub(crate) fn listen(&self, ticket: QueueTicket, waker: &Waker) -> bool {
        self.in_room(ticket, |room, _| room.line(ticket.line).listen(ticket.number, waker)).unwrap_or(true)
    }

    /// Goes, at an instant at which it was its turn.
    pub(crate) fn go<S: Store>(&self, ticket: QueueTicket, store: &S, now: Nanos) {
        self.in_room(ticket, |room, wakers| match ticket.line {
            Some(_) => room.line(ticket.line).step_out(ticket.number, LeavingSlot::First, false, wakers),
            None => {
                room.spill(store, now);
                let gone = room.paced.step_out(ticket.number, LeavingSlot::Own, false, wakers);
                self.paced.fetch_sub(gone.iter().count(), Ordering::Relaxed);
                gone
            }
        });
    }

    /// Leaves its line without going. A slot that nobody behind needs is returned.
    pub(crate) fn quit<S: Store>(&self, ticket: QueueTicket, store: &S, now: Nanos) -> Option<QueueSlot> {
        let quit = |room: &mut WaitQueue, wakers: &mut Wakers| {
            if ticket.line.is_some() {
                return room.line(ticket.line).step_out(ticket.number, LeavingSlot::Last, true, wakers);
            }
            room.spill(store, now);
            let slot = room.paced.step_out(ticket.number, LeavingSlot::Own, true, wakers)?;
            self.paced.fetch_sub(1, Ordering::Relaxed);
            // A place that was told stays where it is, and a gap before it is nothing that the bucket could tell.
            if room.held.iter().any(|held| held.tokens > 0 && held.behind >= ticket.number) {
                return None;
            }
            // Those behind move up by what is given back, for they are paced by what is left. Where the limit has been
            // edited, what it reserved by other numbers is lost: its place is no longer where it was told.
            let charge = slot.charge_of(slot.charge.cost);
            if store.pace(&charge, slot.tokens() + room.all_reserved(), now).is_some() {
                // Whoever paces those who wait has answered when this returns.
                _ = store.charge(Intent::Refund, &[charge], now);
            }
            None
        };
        self.in_room(ticket, quit).flatten()
    }

    /// Does something in a room, and wakes whom it concerns when the lock is free.
    fn in_room<R>(
        &self,
        ticket: QueueTicket,
        act: impl FnOnce(&mut WaitQueue, &mut Wakers) -> R,
    ) -> Option<R> {
        let mut wakers = Wakers::new();
        let mut shard = self.shard(ticket.room);
        let said = act(shard.rooms.get_mut(&ticket.room)?, &mut wakers);
        shard.forget_if_empty(ticket.room);
        drop(shard);
        wakers.into_iter().for_each(Waker::wake);
        Some(said)
    }

    fn shard(&self, room: WaitQueueKey) -> MutexGuard<'_, Shard> {
        let shard = &self.shards[(room.1 % SHARDS as u64) as usize];
        shard.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Shard {
    fn forget_if_empty(&mut self, key: WaitQueueKey) {
        let Some(room) = self.rooms.get_mut(&key) else { return };
        room.by_cost.retain(|(_, line)| line.waiting() > 0);
        if room.held.is_empty() && room.waiting() == 0 {
            self.rooms.remove(&key);
            self.full_until = Nanos::ZERO;
        }
    }

    /// Forgets empty rooms; is there place for another? A full shard is looked
    /// through again only when somebody in it has been served.
    fn sweep(&mut self, now: Nanos) -> bool {
        if now < self.full_until {
            return false;
        }
        self.rooms.retain(|_, room| room.last() > now);
        self.full_until = self.rooms.values().map(WaitQueue::last).min().unwrap_or_default();
        self.rooms.len() < ROOMS_MAX
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_few_and_come_free() {
        let rooms = WaitQueues::default();
        let (room, at) = (rooms.room_of(1, b"alice"), Nanos::from_secs);
        assert!(rooms.enter(room, 2, at(5), at(1)));
        assert!(rooms.enter(room, 2, at(6), at(1)));
        assert!(!rooms.enter(room, 2, at(7), at(1)), "two places");
        assert!(rooms.enter(rooms.room_of(1, b"bob"), 2, at(7), at(1)), "of each bucket");
        assert!(rooms.enter(room, 2, at(7), at(5)), "the first has been served");
        rooms.leave(room, HeldPlace::until(at(6)));
        assert!(rooms.enter(room, 2, at(8), at(5)), "one has gone away");
        assert!(!rooms.enter(room, 2, at(9), at(5)));
    }

    #[test]
    fn who_shares_a_room_cannot_be_foreseen() {
        let room = |rooms: &WaitQueues| rooms.room_of(1, b"alice");
        let rooms: [WaitQueues; 2] = Default::default();
        assert_eq!(room(&rooms[0]), room(&rooms[0]));
        assert_ne!(room(&rooms[0]), room(&rooms[1]), "each has a secret of its own");
    }
}
