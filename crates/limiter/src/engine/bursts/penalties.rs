//! The list of penalties in force, so that people can see and lift them.
//!
//! A detector keeps only a hash of a key. What is shown of a key is kept here, for the keys that are warned or
//! blocked. The list is bounded: a penalty that does not fit is in force, but is not listed.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tidegate_core::Nanos;
use tidegate_policy::{Descriptor, DetectorRule, Facts, KeyBytes};

use super::{BurstAction, BurstDetector};
use crate::engine::limiter::Limiter;
use crate::{Clock, NowOrLater, Store};

/// The most penalties that are listed.
pub const PENALTIES_LISTED_MAX: usize = 4_096;
/// Longer values of a key are cut in the list.
pub const PENALTY_VALUE_CHARS_MAX: usize = 128;

/// A warning or a block that is in force.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BurstPenalty {
    /// Identifies the detector and the key: on a shared store the same on every node, otherwise until the process
    /// ends.
    pub id: u128,
    /// The name of the detector.
    pub detector: Box<str>,
    /// The parts of the key, as they are: some may be secrets of clients.
    pub key: Box<[(Descriptor, String)]>,
    /// A warning or a block.
    pub kind: BurstAction,
    /// When it ends, by the wall clock; within this module by the monotonic clock.
    pub until: Nanos,
    /// The key in this node's own detectors.
    pub(super) own_hash: u64,
}

/// A penalty could not be lifted, since the store that nodes share does not answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the shared store does not answer, so the penalty is still in force; try again")]
pub struct BurstNotLifted;

/// The penalties in force, by id.
#[derive(Debug, Default)]
pub(super) struct PenaltyList {
    listed: Mutex<BTreeMap<u128, BurstPenalty>>,
    unlisted: AtomicU64,
}

impl PenaltyList {
    /// Adds a penalty, or replaces the warning of a key by its block.
    pub(super) fn add(&self, penalty: BurstPenalty, now: Nanos) {
        let mut listed = self.listed();
        if listed.len() >= PENALTIES_LISTED_MAX && !listed.contains_key(&penalty.id) {
            listed.retain(|_, listed| listed.until > now);
        }
        if listed.len() < PENALTIES_LISTED_MAX || listed.contains_key(&penalty.id) {
            listed.insert(penalty.id, penalty);
        } else {
            self.unlisted.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn get(&self, id: u128) -> Option<BurstPenalty> {
        self.listed().get(&id).cloned()
    }

    fn remove(&self, id: u128) {
        self.listed().remove(&id);
    }

    /// At most `most` penalties in force, by ascending id, after the id `after`.
    pub(super) fn page(&self, after: Option<u128>, most: usize, now: Nanos) -> Vec<BurstPenalty> {
        let begin = after.map_or(std::ops::Bound::Unbounded, std::ops::Bound::Excluded);
        let listed = self.listed();
        let in_force = listed.range((begin, std::ops::Bound::Unbounded)).map(|(_, penalty)| penalty);
        in_force.filter(|penalty| penalty.until > now).take(most).cloned().collect()
    }

    pub(super) fn unlisted(&self) -> u64 {
        self.unlisted.load(Ordering::Relaxed)
    }

    fn listed(&self) -> MutexGuard<'_, BTreeMap<u128, BurstPenalty>> {
        self.listed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<S: Store, C: Clock> Limiter<S, C> {
    /// The warnings and blocks of burst detectors that are in force, at most `most` of them, by ascending id, after
    /// the id `after`. On a shared store these are the penalties that this node knows of.
    pub fn burst_penalties(&self, after: Option<u128>, most: usize) -> Vec<BurstPenalty> {
        let now = self.clock.now();
        let page = self.bursts.penalties.page(after, most, now);
        page.into_iter().map(|penalty| self.by_wall_clock(penalty, now)).collect()
    }

    /// Ends a penalty that this node lists. The key is treated as if it had never offended; the window in which it did
    /// does not escalate again. Returns what was lifted; `None` if no penalty with this id is in force. On a shared
    /// store it ends on every node, within a second.
    ///
    /// # Errors
    /// A shared store does not answer; then the penalty stays.
    pub fn lift_burst_penalty(
        &self,
        id: u128,
    ) -> NowOrLater<'_, Result<Option<BurstPenalty>, BurstNotLifted>> {
        let now = self.clock.now();
        let Some(penalty) = self.bursts.penalties.get(id).filter(|penalty| penalty.until > now) else {
            return NowOrLater::Now(Ok(None));
        };
        let lifted = move |answered: bool| {
            if !answered {
                return Err(BurstNotLifted);
            }
            self.bursts.penalties.remove(id);
            self.bursts.lift(penalty.own_hash);
            Ok(Some(self.by_wall_clock(penalty, now)))
        };
        match self.store.shared_bursts() {
            None => NowOrLater::Now(lifted(true)),
            Some(shared) => NowOrLater::Later(shared.lift(id)).map(lifted),
        }
    }

    fn by_wall_clock(&self, penalty: BurstPenalty, now: Nanos) -> BurstPenalty {
        let left = penalty.until.saturating_sub(now);
        BurstPenalty { until: self.clock.wall_at(now).saturating_add(left), ..penalty }
    }

    /// How many penalties are or were in force without being listed, because the list was full.
    pub fn unlisted_burst_penalties(&self) -> u64 {
        self.bursts.penalties.unlisted()
    }

    /// Lists a penalty that has just begun.
    #[cold]
    pub(crate) fn list_penalty(
        &self,
        (rule, detector, key): (&DetectorRule, &BurstDetector, &KeyBytes),
        facts: &Facts<'_, '_>,
        (kind, now): (BurstAction, Nanos),
    ) {
        let shown = |descriptor: &Descriptor| {
            let mut value = KeyBytes::new();
            // All parts are present: the whole key has just been written.
            let _present = facts.write_key(std::slice::from_ref(descriptor), &mut value);
            let value: String =
                String::from_utf8_lossy(&value).chars().take(PENALTY_VALUE_CHARS_MAX).collect();
            (descriptor.clone(), value)
        };
        let own_hash = self.bursts.hash(detector.id, key);
        let shared_id = self.store.shared_bursts().map(|shared| shared.key(detector, key));
        let penalty = BurstPenalty {
            id: shared_id.unwrap_or(own_hash.into()),
            own_hash,
            detector: rule.name.clone(),
            key: rule.key.iter().map(shown).collect(),
            kind,
            until: now.saturating_add(detector.span(kind)),
        };
        self.bursts.penalties.add(penalty, now);
    }
}
