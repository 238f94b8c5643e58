//! What a node knows about the keys of burst detectors: counts that are not sent yet, and penalties until their end.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use smallvec::SmallVec;
use tidegate::{BurstAction, BurstCount, BurstDetector, Nanos};

use crate::calls::BurstAnswer;

const SHARDS: usize = 64;

/// The most keys that a node remembers. The counts of further keys are left to the node's own detectors.
pub(crate) const KEYS_MAX: usize = 262_144;

/// Counts within this time are sent as one.
const TOGETHER: Nanos = Nanos::from_millis(5);

/// The most counts of a key that are kept apart until they are sent; further ones join the last.
const COUNTS_MAX: usize = 64;

/// A remembered block is confirmed by the server after this time, if requests still come…
const CONFIRM_AFTER: Nanos = Nanos::from_millis(400);

/// …and not relied on after this time unless the server cannot be asked: it may have been lifted.
const STALE_AFTER: Nanos = Nanos::from_millis(900);

/// Counts: when, and how many.
pub(crate) type TimedCounts = SmallVec<[(Nanos, u32); 2]>;

/// What a node knows about one key.
#[derive(Debug)]
struct KnownKey {
    detector: BurstDetector,
    pending: TimedCounts,
    /// The penalty, and when it ends by this node's clock.
    penalty: Option<(BurstAction, Nanos)>,
    /// An action that no decision has reported yet.
    action: Option<BurstAction>,
    /// When the server last answered about this key.
    confirmed: Nanos,
    /// Should the server be asked for the penalty, although nothing is to be counted?
    confirm: bool,
}

impl KnownKey {
    /// Must it be remembered? An action that no request has come for is not told after the end of its penalty:
    /// otherwise clients that never come back would take up all the space.
    fn is_needed(&self, now: Nanos) -> bool {
        self.penalty.is_some_and(|(_, until)| until > now) || self.is_waiting()
    }

    fn is_waiting(&self) -> bool {
        self.confirm || !self.pending.is_empty()
    }

    fn add(&mut self, at: Nanos, requests: u32) {
        let is_full = self.pending.len() >= COUNTS_MAX;
        match self.pending.last_mut() {
            Some((first, sum)) if is_full || at.saturating_sub(*first) < TOGETHER => {
                *sum = sum.saturating_add(requests);
            }
            _ => self.pending.push((at, requests)),
        }
    }
}

/// The penalty of a key, as this node knows it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct KnownPenalty {
    /// When the block ends.
    pub(crate) blocked_until: Option<Nanos>,
    pub(crate) action: Option<BurstAction>,
    pub(crate) is_stale: bool,
}

/// What a node knows about all keys, in shards with one lock each.
#[derive(Debug)]
pub(crate) struct BurstMemory {
    shards: Box<[Mutex<HashMap<u128, KnownKey>>]>,
    /// How many keys may be waiting to be sent; zero only if none is.
    waiting: AtomicUsize,
}

impl BurstMemory {
    pub(crate) fn new() -> BurstMemory {
        BurstMemory { shards: (0..SHARDS).map(|_| Mutex::default()).collect(), waiting: AtomicUsize::new(0) }
    }

    /// What is known about a key.
    pub(crate) fn known(&self, key: u128, takes_action: bool, now: Nanos) -> KnownPenalty {
        let mut keys = self.shard(key);
        let Some(known) = keys.get_mut(&key) else { return KnownPenalty::default() };
        let action = if takes_action { known.action.take() } else { None };
        let until = match known.penalty {
            Some((BurstAction::Blocked, until)) if until > now => until,
            _ => return KnownPenalty { action, ..KnownPenalty::default() },
        };
        let age = now.saturating_sub(known.confirmed);
        if age >= CONFIRM_AFTER && !known.confirm {
            if !known.is_waiting() {
                self.waiting.fetch_add(1, Ordering::Relaxed);
            }
            known.confirm = true;
        }
        KnownPenalty { blocked_until: Some(until), action, is_stale: age >= STALE_AFTER }
    }

    /// Adds a request, to be sent later. `false` if there is no space for its key.
    pub(crate) fn add(&self, count: &BurstCount, now: Nanos) -> bool {
        let mut keys = self.shard(count.key);
        let Some(known) = entry(&mut keys, count, now) else { return false };
        if !known.is_waiting() {
            self.waiting.fetch_add(1, Ordering::Relaxed);
        }
        known.add(now, 1);
        true
    }

    /// Removes the waiting counts of a key, which are about to be sent.
    pub(crate) fn take(&self, key: u128) -> TimedCounts {
        match self.shard(key).get_mut(&key) {
            Some(known) => self.take_from(known),
            None => TimedCounts::new(),
        }
    }

    fn take_from(&self, known: &mut KnownKey) -> TimedCounts {
        if known.is_waiting() {
            self.waiting.fetch_sub(1, Ordering::Relaxed);
        }
        known.confirm = false;
        std::mem::take(&mut known.pending)
    }

    /// Removes all waiting counts, which are about to be sent.
    pub(crate) fn take_all(&self) -> Vec<(BurstCount, TimedCounts)> {
        let mut all = Vec::new();
        if self.waiting.load(Ordering::Relaxed) == 0 {
            return all;
        }
        for shard in &self.shards {
            let mut keys = shard.lock().unwrap_or_else(PoisonError::into_inner);
            for (&key, known) in keys.iter_mut().filter(|(_, known)| known.is_waiting()) {
                all.push((BurstCount { detector: known.detector, key }, self.take_from(known)));
            }
        }
        // In a fixed order, so that simulated runs can be repeated.
        all.sort_unstable_by_key(|(count, _)| count.key);
        all
    }

    /// Puts counts back that were not sent after all.
    pub(crate) fn put_back(&self, count: &BurstCount, counts: TimedCounts, now: Nanos) {
        let mut keys = self.shard(count.key);
        let Some(known) = entry(&mut keys, count, now) else { return };
        let were_waiting = known.is_waiting();
        let newer = std::mem::take(&mut known.pending);
        counts.into_iter().chain(newer).for_each(|(at, requests)| known.add(at, requests));
        if !were_waiting && known.is_waiting() {
            self.waiting.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Records the server's answer to a call that was sent at `sent`.
    pub(crate) fn record(&self, count: &BurstCount, answer: &BurstAnswer, sent: Nanos) {
        let mut keys = self.shard(count.key);
        // A penalty without space is found again by the next call.
        let Some(known) = entry(&mut keys, count, sent) else { return };
        known.action = answer.action.or(known.action);
        if known.confirmed > sent {
            return;
        }
        known.confirmed = sent;
        // Counted from before the call: it ends a little early here, and then the server is asked.
        known.penalty = answer.penalty.map(|(kind, left)| (kind, sent.saturating_add(left)));
    }

    /// Forgets the penalty of a key, which the server has lifted.
    pub(crate) fn lift(&self, key: u128) {
        if let Some(known) = self.shard(key).get_mut(&key) {
            (known.penalty, known.action) = (None, None);
        }
    }

    fn shard(&self, key: u128) -> MutexGuard<'_, HashMap<u128, KnownKey>> {
        self.shards[key as usize % SHARDS].lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The entry of a key, old or new; `None` if there is no space.
fn entry<'k>(
    keys: &'k mut HashMap<u128, KnownKey>,
    count: &BurstCount,
    now: Nanos,
) -> Option<&'k mut KnownKey> {
    if keys.len() >= KEYS_MAX / SHARDS && !keys.contains_key(&count.key) {
        keys.retain(|_, known| known.is_needed(now));
        if keys.len() >= KEYS_MAX / SHARDS {
            return None;
        }
    }
    let known = match keys.entry(count.key) {
        Entry::Occupied(known) => known.into_mut(),
        Entry::Vacant(place) => place.insert(KnownKey {
            detector: count.detector,
            pending: TimedCounts::new(),
            penalty: None,
            action: None,
            confirmed: Nanos::ZERO,
            confirm: false,
        }),
    };
    known.detector = count.detector;
    Some(known)
}

#[cfg(test)]
mod tests;
