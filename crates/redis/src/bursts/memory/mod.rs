//! What a node knows about the keys of burst detectors: counts that are not sent yet, and penalties until their end.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use smallvec::SmallVec;
use tidegate::{BurstAction, BurstCount, BurstDetector, BurstSubject, Nanos};

use super::late::LateBursts;
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

/// The most actions of a key that wait for the requests that have asked.
const ACTIONS_MAX: usize = 4;

/// A lift is remembered for this time even if space is short: answers that were given before it may still arrive.
const LIFT_REMEMBERED: Nanos = Nanos::from_secs(30);

/// The counts of a key that are not sent yet, and whom they are about; nobody is known if only the penalty is to be
/// confirmed.
#[derive(Clone, Debug, Default)]
pub(crate) struct WaitingCounts {
    pub(crate) counts: TimedCounts,
    pub(crate) subject: Option<Box<BurstSubject>>,
}

/// When a call was sent and answered, by this node's clock, and whether a request waits for it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BurstCallTimes {
    pub(crate) sent: Nanos,
    pub(crate) answered: Nanos,
    pub(crate) has_asked: bool,
}

/// What a node knows about one key.
#[derive(Debug)]
struct KnownKey {
    detector: BurstDetector,
    pending: WaitingCounts,
    /// The penalty, and when it ends by this node's clock.
    penalty: Option<(BurstAction, Nanos)>,
    /// Actions that requests have asked for and that no decision has reported yet.
    asked: SmallVec<[BurstAction; 2]>,
    /// The last action that nobody has asked for: the next decision says so, and the late ones report it.
    late: Option<BurstAction>,
    /// When the call was sent that the server last answered.
    confirmed: Nanos,
    /// When a lift of the penalty was answered.
    lifted: Option<Nanos>,
    /// Should the server be asked for the penalty, although nothing is to be counted?
    confirm: bool,
}

impl KnownKey {
    /// Must it be remembered? After the end of a penalty no decision says any more that it has begun: otherwise clients
    /// that never come back would take up all the space.
    fn is_needed(&self, now: Nanos) -> bool {
        self.penalty.is_some_and(|(_, until)| until > now)
            || self.is_waiting()
            || self.lifted.is_some_and(|lifted| now.saturating_sub(lifted) < LIFT_REMEMBERED)
    }

    fn is_waiting(&self) -> bool {
        self.confirm || !self.pending.counts.is_empty()
    }

    fn add(&mut self, at: Nanos, requests: u32) {
        let counts = &mut self.pending.counts;
        let is_full = counts.len() >= COUNTS_MAX;
        match counts.last_mut() {
            Some((first, sum)) if is_full || at.saturating_sub(*first) < TOGETHER => {
                *sum = sum.saturating_add(requests);
            }
            _ => counts.push((at, requests)),
        }
    }
}

/// The penalty of a key, as this node knows it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct KnownPenalty {
    /// When the block ends.
    pub(crate) blocked_until: Option<Nanos>,
    pub(crate) action: Option<BurstAction>,
    /// Is the action one of the late ones?
    pub(crate) is_late: bool,
    pub(crate) is_stale: bool,
}

/// What a node knows about all keys, in shards with one lock each.
#[derive(Debug)]
pub(crate) struct BurstMemory {
    shards: Box<[Mutex<HashMap<u128, KnownKey>>]>,
    /// How many keys may be waiting to be sent; zero only if none is.
    waiting: AtomicUsize,
    /// The actions that no request has asked for; `None` if nobody is told of them.
    late: Option<LateBursts>,
}

impl BurstMemory {
    pub(crate) fn new() -> BurstMemory {
        BurstMemory {
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
            waiting: AtomicUsize::new(0),
            late: Some(LateBursts::default()),
        }
    }

    /// One whose late actions nobody is told of.
    pub(crate) fn without_late() -> BurstMemory {
        BurstMemory { late: None, ..BurstMemory::new() }
    }

    /// The actions that no request has asked for.
    pub(super) fn late(&self) -> Option<&LateBursts> {
        self.late.as_ref()
    }

    /// What is known about a key.
    pub(crate) fn known(&self, key: u128, takes_action: bool, now: Nanos) -> KnownPenalty {
        let mut keys = self.shard(key);
        let Some(known) = keys.get_mut(&key) else { return KnownPenalty::default() };
        let (mut action, mut is_late) = (None, false);
        if takes_action {
            if known.asked.is_empty() {
                (is_late, action) = (known.late.is_some(), known.late.take());
            } else {
                action = Some(known.asked.remove(0));
            }
        }
        let until = match known.penalty {
            Some((BurstAction::Blocked, until)) if until > now => until,
            _ => return KnownPenalty { action, is_late, ..KnownPenalty::default() },
        };
        let age = now.saturating_sub(known.confirmed);
        if age >= CONFIRM_AFTER && !known.confirm {
            if !known.is_waiting() {
                self.waiting.fetch_add(1, Ordering::Relaxed);
            }
            known.confirm = true;
        }
        KnownPenalty { blocked_until: Some(until), action, is_late, is_stale: age >= STALE_AFTER }
    }

    /// Adds a request, to be sent later. `false` if there is no space for its key.
    pub(crate) fn add(
        &self,
        count: &BurstCount,
        describe: impl FnOnce() -> BurstSubject,
        now: Nanos,
    ) -> bool {
        let mut keys = self.shard(count.key);
        let Some(known) = entry(&mut keys, count, now) else { return false };
        if !known.is_waiting() {
            self.waiting.fetch_add(1, Ordering::Relaxed);
        }
        known.add(now, 1);
        known.pending.subject.get_or_insert_with(|| Box::new(describe()));
        true
    }

    /// Removes the waiting counts of a key, which are about to be sent.
    pub(crate) fn take(&self, key: u128) -> WaitingCounts {
        match self.shard(key).get_mut(&key) {
            Some(known) => self.take_from(known),
            None => WaitingCounts::default(),
        }
    }

    fn take_from(&self, known: &mut KnownKey) -> WaitingCounts {
        if known.is_waiting() {
            self.waiting.fetch_sub(1, Ordering::Relaxed);
        }
        known.confirm = false;
        std::mem::take(&mut known.pending)
    }

    /// Removes all waiting counts, which are about to be sent.
    pub(crate) fn take_all(&self) -> Vec<(BurstCount, WaitingCounts)> {
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
    pub(crate) fn put_back(&self, count: &BurstCount, waiting: WaitingCounts, now: Nanos) {
        let mut keys = self.shard(count.key);
        let Some(known) = entry(&mut keys, count, now) else { return };
        let were_waiting = known.is_waiting();
        let newer = std::mem::take(&mut known.pending);
        known.pending.subject = waiting.subject.or(newer.subject);
        let counts = waiting.counts.into_iter().chain(newer.counts);
        counts.for_each(|(at, requests)| known.add(at, requests));
        if !were_waiting && known.is_waiting() {
            self.waiting.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Records the server's answer to a call with these counts.
    pub(crate) fn record(
        &self,
        count: &BurstCount,
        subject: Option<&BurstSubject>,
        answer: &BurstAnswer,
        times: BurstCallTimes,
    ) {
        let BurstCallTimes { sent, answered, has_asked } = times;
        let heard_late = |action| {
            if let Some(late) = &self.late {
                late.add(count, subject.cloned().map(Box::new), action, answered);
            }
        };
        if answer.warned_before {
            heard_late(BurstAction::Warned);
        }
        let mut keys = self.shard(count.key);
        let mut known = entry(&mut keys, count, sent);
        match (answer.action, &mut known) {
            (None, _) => {}
            (Some(action), Some(known)) if has_asked && known.asked.len() < ACTIONS_MAX => {
                known.asked.push(action);
            }
            (Some(action), known) => {
                heard_late(action);
                known.iter_mut().for_each(|known| known.late = Some(action));
            }
        }
        // A penalty without space is found again by the next call.
        let Some(known) = known else { return };
        if known.confirmed > sent || known.lifted.is_some_and(|lifted| sent <= lifted) {
            return;
        }
        (known.confirmed, known.lifted) = (sent, None);
        // The server has answered before now, so here it ends as late as there or a little later: whoever has waited as
        // long as this node said is not refused by the server.
        known.penalty = answer.penalty.map(|(kind, left)| (kind, answered.saturating_add(left)));
    }

    /// Forgets the penalty of a key, which the server has lifted. An answer that was given before may still arrive.
    pub(crate) fn lift(&self, lifted: &BurstCount, answered: Nanos) {
        let mut keys = self.shard(lifted.key);
        if !keys.contains_key(&lifted.key) {
            // Without space, such an answer is believed until the block is confirmed.
            let _new = entry(&mut keys, lifted, answered);
        }
        let Some(known) = keys.get_mut(&lifted.key) else { return };
        (known.penalty, known.late, known.lifted) = (None, None, Some(answered));
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
            pending: WaitingCounts::default(),
            penalty: None,
            asked: SmallVec::new(),
            late: None,
            confirmed: Nanos::ZERO,
            lifted: None,
            confirm: false,
        }),
    };
    known.detector = count.detector;
    Some(known)
}

#[cfg(test)]
pub(super) mod tests;
