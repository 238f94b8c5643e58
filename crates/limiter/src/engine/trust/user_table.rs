//! What is kept of users, in bounded memory.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use siphasher::sip::SipHasher13;
use tidegate_core::Nanos;

const SHARDS: usize = 16;
/// How many slots a user may be in. If all are taken, the one that was written longest ago is reused.
const WAYS: usize = 8;

/// The hashes of user names, under a secret of this process, so that nobody can choose names that fall together.
#[derive(Debug)]
pub(super) struct UserHashes(u64, u64);

/// The hash of a user's name. If two names ever agree in all 64 bits, they are taken for one user.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct UserHash(u64);

impl UserHashes {
    pub(super) fn new() -> UserHashes {
        let random = || RandomState::new().hash_one(0_u64);
        UserHashes(random(), random())
    }

    /// Hashes that are the same in every process, for programs whose users nobody else names.
    pub(super) fn fixed() -> UserHashes {
        UserHashes(0, 0)
    }

    pub(super) fn of(&self, user: &str) -> UserHash {
        let mut hasher = SipHasher13::new_with_keys(self.0, self.1);
        hasher.write(user.as_bytes());
        // Zero marks a free slot.
        UserHash(hasher.finish().max(1))
    }
}

/// One value for each of a bounded number of users.
#[derive(Debug)]
pub(super) struct UserTable<V> {
    shards: Box<[Mutex<Vec<Slot<V>>>]>,
    /// The number of slots in a shard, a multiple of [`WAYS`].
    shard_slots: usize,
    /// How long a value matters after it was written; dropping it later loses nothing.
    life: Nanos,
    forgotten: AtomicU64,
}

#[derive(Clone, Debug, Default)]
struct Slot<V> {
    hash: u64,
    written: Nanos,
    value: V,
}

impl<V: Clone + Default> UserTable<V> {
    /// Room for about this many users. The memory of a shard is allocated when its first user comes.
    pub(super) fn new(max_users: usize, life: Nanos) -> UserTable<V> {
        let shard_slots = max_users.div_ceil(SHARDS).next_multiple_of(WAYS).max(WAYS);
        let shards = (0..SHARDS).map(|_| Mutex::default()).collect();
        UserTable { shards, shard_slots, life, forgotten: AtomicU64::new(0) }
    }

    /// The value of a user, if there is one.
    pub(super) fn get(&self, user: UserHash) -> Option<V> {
        let shard = self.shard(user);
        let slots = shard.get(self.set(user))?;
        slots.iter().find(|slot| slot.hash == user.0).map(|slot| slot.value.clone())
    }

    /// Changes the value of a user; it begins as the default. `at` may be in the past: a user who is not known is then
    /// forgotten at once rather than take the place of one who was written later.
    pub(super) fn update(&self, user: UserHash, at: Nanos, change: impl FnOnce(&mut V)) {
        let mut shard = self.shard(user);
        if shard.is_empty() {
            shard.resize(self.shard_slots, Slot::default());
        }
        let slots = &mut shard[self.set(user)];
        let found = slots.iter().position(|slot| slot.hash == user.0);
        let slot = match found {
            Some(index) => &mut slots[index],
            None => {
                let oldest = slots.iter_mut().min_by_key(|slot| (slot.hash != 0, slot.written));
                let slot = oldest.expect("a set has slots");
                if slot.hash != 0 && at.saturating_sub(slot.written) < self.life {
                    self.forgotten.fetch_add(1, Ordering::Relaxed);
                }
                if slot.hash != 0 && at < slot.written {
                    return;
                }
                *slot = Slot { hash: user.0, ..Slot::default() };
                slot
            }
        };
        slot.written = slot.written.max(at);
        change(&mut slot.value);
    }

    /// Drops the value of a user.
    pub(super) fn remove(&self, user: UserHash) {
        let mut shard = self.shard(user);
        let Some(slots) = shard.get_mut(self.set(user)) else { return };
        slots.iter_mut().filter(|slot| slot.hash == user.0).for_each(|slot| *slot = Slot::default());
    }

    /// How many users were dropped for others while their value still mattered.
    pub(super) fn forgotten(&self) -> u64 {
        self.forgotten.load(Ordering::Relaxed)
    }

    fn shard(&self, user: UserHash) -> MutexGuard<'_, Vec<Slot<V>>> {
        self.shards[user.0 as usize % SHARDS].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The slots that a user may be in.
    fn set(&self, user: UserHash) -> std::ops::Range<usize> {
        let sets = self.shard_slots / WAYS;
        // The low bits have chosen the shard.
        let first = (user.0 >> 32) as usize % sets * WAYS;
        first..first + WAYS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(max_users: usize) -> UserTable<u64> {
        UserTable::new(max_users, Nanos::from_secs(1_000))
    }

    #[test]
    fn each_user_has_a_value_of_its_own() {
        let (table, hashes) = (table(4_096), UserHashes::new());
        let users: Vec<UserHash> = (0..512).map(|user| hashes.of(&user.to_string())).collect();
        for (number, user) in users.iter().enumerate() {
            assert_eq!(table.get(*user), None);
            table.update(*user, Nanos::from_secs(1), |value| *value += number as u64);
            table.update(*user, Nanos::from_secs(1), |value| *value += 1);
        }
        let values: Vec<u64> = users.iter().filter_map(|user| table.get(*user)).collect();
        assert_eq!(values, (1..=512).collect::<Vec<u64>>());
        table.remove(users[7]);
        assert_eq!((table.get(users[7]), table.get(users[8]), table.forgotten()), (None, Some(9), 0));
    }

    #[test]
    fn a_flood_of_users_grows_nothing_and_drops_the_oldest_first() {
        let (table, hashes) = (table(16 * WAYS), UserHashes::new());
        let user = |number: u64| hashes.of(&number.to_string());
        for number in 0..10_000 {
            table.update(user(number), Nanos::from_secs(number), |value| *value = number);
            // One that is written again and again stays.
            table.update(user(0), Nanos::from_secs(number), |value| *value = number);
        }
        let kept: Vec<u64> = (0..10_000).filter(|number| table.get(user(*number)).is_some()).collect();
        assert!(kept.len() <= 16 * WAYS && kept.contains(&0) && kept.contains(&9_999), "{kept:?}");
        assert!(table.forgotten() > 0, "they were dropped while they mattered");
    }

    #[test]
    fn what_is_told_late_takes_the_place_of_nothing_newer() {
        let (table, hashes) = (table(16 * WAYS), UserHashes::new());
        let user = |number: u64| hashes.of(&number.to_string());
        for number in 0..1_000 {
            table.update(user(number), Nanos::from_secs(500), |value| *value = number);
        }
        let kept =
            |table: &UserTable<u64>| (0..1_000).filter(|number| table.get(user(*number)).is_some()).count();
        let (before, forgotten) = (kept(&table), table.forgotten());
        for number in 1_000..2_000 {
            table.update(user(number), Nanos::from_secs(400), |value| *value = number);
        }
        assert_eq!(kept(&table), before);
        let known = (1_000..2_000).filter(|number| table.get(user(*number)).is_some()).count() as u64;
        assert_eq!(table.forgotten(), forgotten + 1_000 - known, "those without a place are counted");
        let one = (0..1_000).map(user).find(|user| table.get(*user).is_some()).expect("some are kept");
        table.update(one, Nanos::from_secs(1), |_| ());
        assert_eq!(kept(&table), before, "what is told late about a known user makes it no older");
    }

    #[test]
    fn what_no_longer_matters_is_dropped_without_loss() {
        let (table, hashes) = (table(16 * WAYS), UserHashes::new());
        for number in 0..1_000 {
            let user = hashes.of(&number.to_string());
            table.update(user, Nanos::from_secs(number * 1_000), |value| *value = number);
        }
        assert_eq!(table.forgotten(), 0);
    }
}
