//! Who waits for which bucket.
//!
//! A request that a `queue` limit denies reserves its cost as of the instant at
//! which the bucket will hold it, so that those who come first are served first
//! and nobody else can take what they wait for. What is kept here is only how
//! many wait, to bound it.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tidegate_core::Nanos;

use super::jitter::identity;

/// Rooms are spread over this many locks.
const SHARDS: usize = 16;

/// The most buckets that are waited for at once, in each shard.
const ROOMS_MAX: usize = 4_096;

/// The waiting rooms, one a bucket that somebody waits for.
#[derive(Debug, Default)]
pub(crate) struct Rooms {
    shards: [Mutex<Shard>; SHARDS],
}

#[derive(Debug, Default)]
struct Shard {
    rooms: HashMap<RoomKey, Room>,
    /// Before this instant no room of a full shard becomes free.
    full_until: Nanos,
}

/// When those who wait will be served.
#[derive(Debug, Default)]
struct Room {
    due: Vec<Nanos>,
    /// The earliest of them: before it there is nobody to strike out.
    first: Nanos,
}

impl Room {
    /// How many wait at `now`.
    fn depth(&mut self, now: Nanos) -> usize {
        if self.first <= now {
            self.due.retain(|due| *due > now);
            self.first = self.due.iter().copied().min().unwrap_or(Nanos::MAX);
        }
        self.due.len()
    }

    fn last(&self) -> Nanos {
        self.due.iter().copied().max().unwrap_or_default()
    }
}

/// Which bucket: a number for its limit, and a hash of its key.
pub(crate) type RoomKey = (u32, u64);

/// The room of a bucket. Two keys of one hash would share a room, and so the
/// depth of a queue, but never tokens.
pub(crate) fn room_of(limit: u32, key: &[u8]) -> RoomKey {
    (limit, identity(std::iter::once(key)))
}

impl Rooms {
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
        if let Some(place) = room.due.iter().position(|taken| *taken == due) {
            room.due.swap_remove(place);
        }
        if room.due.is_empty() {
            shard.rooms.remove(&key);
            shard.full_until = Nanos::ZERO;
        }
    }

    fn shard(&self, room: RoomKey) -> MutexGuard<'_, Shard> {
        let shard = &self.shards[(room.1 % SHARDS as u64) as usize];
        shard.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Shard {
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
        let (room, at) = (room_of(1, b"alice"), Nanos::from_secs);
        assert!(rooms.enter(room, 2, at(5), at(1)));
        assert!(rooms.enter(room, 2, at(6), at(1)));
        assert!(!rooms.enter(room, 2, at(7), at(1)), "two places");
        assert!(rooms.enter(room_of(1, b"bob"), 2, at(7), at(1)), "of each bucket");
        assert!(rooms.enter(room, 2, at(7), at(5)), "the first has been served");
        rooms.leave(room, at(6));
        assert!(rooms.enter(room, 2, at(8), at(5)), "one has gone away");
        assert!(!rooms.enter(room, 2, at(9), at(5)));
    }
}
