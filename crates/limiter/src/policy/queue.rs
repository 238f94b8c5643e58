//! Who waits for which bucket.
//!
//! A request that a `queue` limit denies reserves its cost as of the instant at
//! which the bucket will hold it, so that nobody else can take what it waits for.
//! A place is held until that instant, or, for those who really wait, is one in
//! the bucket's [`Line`], which serves tenants in turn. Places are counted, to
//! bound them.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::Waker;

use tidegate_core::Nanos;

use super::line::{Line, Slot, Spare, Turn, Wakers};

/// Rooms are spread over this many locks.
const SHARDS: usize = 16;

/// The most buckets that are waited for at once, in each shard.
const ROOMS_MAX: usize = 4_096;

/// The waiting rooms, one a bucket that somebody waits for.
#[derive(Debug, Default)]
pub(crate) struct Rooms {
    shards: [Mutex<Shard>; SHARDS],
    /// Of this process alone, so that nobody outside can choose who shares a room
    /// or a shard.
    secret: RandomState,
}

#[derive(Debug, Default)]
struct Shard {
    rooms: HashMap<RoomKey, Room>,
    /// Before this instant no room of a full shard becomes free.
    full_until: Nanos,
}

/// Those who have a place.
#[derive(Debug, Default)]
struct Room {
    /// When those who hold a place until then will be served.
    due: Vec<Nanos>,
    /// The earliest of them: before it there is nobody to strike out.
    first: Nanos,
    line: Line,
}

impl Room {
    /// How many wait at `now`.
    fn depth(&mut self, now: Nanos) -> usize {
        if self.first <= now {
            self.due.retain(|due| *due > now);
            self.first = self.due.iter().copied().min().unwrap_or(Nanos::MAX);
        }
        self.due.len() + self.line.waiting()
    }

    fn strike(&mut self, due: Nanos) {
        if let Some(place) = self.due.iter().position(|taken| *taken == due) {
            self.due.swap_remove(place);
        }
    }

    /// Until when there may be somebody.
    fn last(&self) -> Nanos {
        let held = self.due.iter().copied().max().unwrap_or_default();
        if self.line.is_empty() { held } else { Nanos::MAX }
    }
}

/// Which bucket: a number for its limit, and a keyed hash of its key.
pub(crate) type RoomKey = (u32, u64);

/// A place in a line.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ticket {
    room: RoomKey,
    number: u64,
}

impl Rooms {
    /// The room of a bucket. Two keys of one hash would share a room: the depth of
    /// its queue, and its line, in which one may go on what the other reserved. In
    /// 64 bits under a secret that does not happen, by chance or on purpose.
    pub(crate) fn room_of(&self, limit: u32, key: &[u8]) -> RoomKey {
        (limit, self.secret.hash_one(key))
    }

    /// Are all places taken?
    pub(crate) fn is_full(&self, room: RoomKey, max_depth: u32, now: Nanos) -> bool {
        let mut shard = self.shard(room);
        shard.rooms.get_mut(&room).is_some_and(|room| room.depth(now) >= max_depth as usize)
    }

    /// Takes a place until `due`; `false` if `max_depth` are taken.
    pub(crate) fn enter(&self, room: RoomKey, max_depth: u32, due: Nanos, now: Nanos) -> bool {
        let mut shard = self.shard(room);
        if shard.rooms.len() >= ROOMS_MAX && !shard.rooms.contains_key(&room) && !shard.sweep(now) {
            return false;
        }
        let room = shard.rooms.entry(room).or_default();
        let has_room = room.depth(now) < max_depth as usize;
        if has_room {
            room.first = if room.due.is_empty() { due } else { room.first.min(due) };
            room.due.push(due);
        }
        has_room
    }

    /// Gives a place up.
    pub(crate) fn leave(&self, key: RoomKey, due: Nanos) {
        let mut shard = self.shard(key);
        let Some(room) = shard.rooms.get_mut(&key) else { return };
        room.strike(due);
        shard.forget_if_empty(key);
    }

    /// Goes from a place held until `due` to one in the line.
    pub(crate) fn line_up(&self, key: RoomKey, due: Nanos, tenant: u64, slot: Slot) -> Ticket {
        let mut shard = self.shard(key);
        let room = shard.rooms.entry(key).or_default();
        room.strike(due);
        Ticket { room: key, number: room.line.join(tenant, slot) }
    }

    /// Whose turn it is at `now`.
    pub(crate) fn look(&self, ticket: Ticket, now: Nanos) -> Turn {
        let look = |line: &mut Line, wakers: &mut Wakers| line.look(ticket.number, now, wakers);
        self.in_line(ticket, look).unwrap_or(Turn::Now)
    }

    /// Calls on `waker` from now on; has something happened already?
    pub(crate) fn listen(&self, ticket: Ticket, waker: &Waker) -> bool {
        self.in_line(ticket, |line, _| line.listen(ticket.number, waker)).unwrap_or(true)
    }

    /// Goes, having been let go.
    pub(crate) fn finish(&self, ticket: Ticket) {
        self.in_line(ticket, |line, _| line.finish(ticket.number));
    }

    /// Leaves the line without going. What nobody behind needs is returned.
    pub(crate) fn quit(&self, ticket: Ticket, now: Nanos) -> Spare {
        self.in_line(ticket, |line, wakers| line.quit(ticket.number, now, wakers)).unwrap_or_default()
    }

    /// Does something with a line, and wakes whom it concerns when the lock is free.
    fn in_line<R>(&self, ticket: Ticket, act: impl FnOnce(&mut Line, &mut Wakers) -> R) -> Option<R> {
        let mut wakers = Wakers::new();
        let mut shard = self.shard(ticket.room);
        let said = act(&mut shard.rooms.get_mut(&ticket.room)?.line, &mut wakers);
        shard.forget_if_empty(ticket.room);
        drop(shard);
        wakers.into_iter().for_each(Waker::wake);
        Some(said)
    }

    fn shard(&self, room: RoomKey) -> MutexGuard<'_, Shard> {
        let shard = &self.shards[(room.1 % SHARDS as u64) as usize];
        shard.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Shard {
    fn forget_if_empty(&mut self, key: RoomKey) {
        if self.rooms.get(&key).is_some_and(|room| room.due.is_empty() && room.line.is_empty()) {
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
        self.full_until = self.rooms.values().map(Room::last).min().unwrap_or_default();
        self.rooms.len() < ROOMS_MAX
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_few_and_come_free() {
        let rooms = Rooms::default();
        let (room, at) = (rooms.room_of(1, b"alice"), Nanos::from_secs);
        assert!(rooms.enter(room, 2, at(5), at(1)));
        assert!(rooms.enter(room, 2, at(6), at(1)));
        assert!(!rooms.enter(room, 2, at(7), at(1)), "two places");
        assert!(rooms.enter(rooms.room_of(1, b"bob"), 2, at(7), at(1)), "of each bucket");
        assert!(rooms.enter(room, 2, at(7), at(5)), "the first has been served");
        rooms.leave(room, at(6));
        assert!(rooms.enter(room, 2, at(8), at(5)), "one has gone away");
        assert!(!rooms.enter(room, 2, at(9), at(5)));
    }

    #[test]
    fn who_shares_a_room_cannot_be_foreseen() {
        let room = |rooms: &Rooms| rooms.room_of(1, b"alice");
        let rooms: [Rooms; 2] = Default::default();
        assert_eq!(room(&rooms[0]), room(&rooms[0]));
        assert_ne!(room(&rooms[0]), room(&rooms[1]), "each has a secret of its own");
    }
}
