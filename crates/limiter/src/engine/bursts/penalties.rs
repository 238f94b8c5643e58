//! The list of penalties in force, so that people can see and lift them.
//!
//! A detector keeps only a hash of a key. What is shown of a key is kept here, for the keys that are warned or
//! blocked. The list is bounded: a penalty that does not fit is in force, but is not listed.
//!
//! On a shared store, the penalties that it has decided are in a list there, which every node reads. This node's own
//! list then adds those that it has decided by itself while the store failed, and stands in while the store does not
//! answer.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tidegate_core::Nanos;
use tidegate_policy::{DetectorRule, KeyBytes, Request};

use super::{BurstAction, BurstDetector};
use crate::engine::limiter::Limiter;
use crate::{BurstSubject, Clock, NowOrLater, SharedBursts, SharedPenalty, SharedPenaltyPage, Store};

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
    /// The key, its parts separated by commas. Parts that may be secrets of clients are masked.
    pub key: Box<str>,
    /// A warning or a block.
    pub kind: BurstAction,
    /// When it ends, by the wall clock; within this module by the monotonic clock.
    pub until: Nanos,
    /// Who decided it.
    pub(super) origin: PenaltyOrigin,
}

/// Who decided a penalty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PenaltyOrigin {
    /// The store that nodes share.
    SharedStore,
    /// This node's own detectors.
    ThisNode,
}

/// A part of the list of penalties.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BurstPenaltyPage {
    /// Penalties in force, by ascending id.
    pub penalties: Vec<BurstPenalty>,
    /// The id after which the next part begins; `None` if this is the last part.
    pub next: Option<u128>,
}

/// A penalty could not be lifted, since the store that nodes share does not answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the shared store does not answer, so the penalty is still in force; try again")]
pub struct BurstNotLifted;

/// The penalties in force, by id, each with the hash of its key in this node's own detectors.
#[derive(Debug, Default)]
pub(super) struct PenaltyList {
    listed: Mutex<BTreeMap<u128, (BurstPenalty, u64)>>,
    unlisted: AtomicU64,
}

impl PenaltyList {
    /// Adds a penalty, or replaces the warning of a key by its block.
    pub(super) fn add(&self, penalty: BurstPenalty, own_hash: u64, now: Nanos) {
        let mut listed = self.listed();
        if listed.len() >= PENALTIES_LISTED_MAX && !listed.contains_key(&penalty.id) {
            listed.retain(|_, (listed, _)| listed.until > now);
        }
        if listed.len() < PENALTIES_LISTED_MAX || listed.contains_key(&penalty.id) {
            listed.insert(penalty.id, (penalty, own_hash));
        } else {
            self.unlisted.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn get(&self, id: u128, now: Nanos) -> Option<BurstPenalty> {
        self.listed().get(&id).filter(|(penalty, _)| penalty.until > now).map(|(penalty, _)| penalty.clone())
    }

    /// Removes a penalty; returns the hash of its key.
    fn remove(&self, id: u128) -> Option<u64> {
        self.listed().remove(&id).map(|(_, own_hash)| own_hash)
    }

    /// At most `most` penalties in force, by ascending id, after the id `after`; only those of one origin, if it is
    /// given.
    pub(super) fn page(
        &self,
        after: Option<u128>,
        most: usize,
        origin: Option<PenaltyOrigin>,
        now: Nanos,
    ) -> BurstPenaltyPage {
        let begin = after.map_or(Bound::Unbounded, Bound::Excluded);
        let listed = self.listed();
        let penalties = listed.range((begin, Bound::Unbounded)).map(|(_, (penalty, _))| penalty);
        let shown = |penalty: &&BurstPenalty| {
            penalty.until > now && origin.is_none_or(|origin| origin == penalty.origin)
        };
        // One more than is shown tells whether there is a next page.
        let mut penalties: Vec<BurstPenalty> = penalties.filter(shown).take(most + 1).cloned().collect();
        let is_last = penalties.len() <= most;
        penalties.truncate(most);
        let next = penalties.last().filter(|_| !is_last).map(|last| last.id);
        BurstPenaltyPage { penalties, next }
    }

    pub(super) fn unlisted(&self) -> u64 {
        self.unlisted.load(Ordering::Relaxed)
    }

    fn listed(&self) -> MutexGuard<'_, BTreeMap<u128, (BurstPenalty, u64)>> {
        self.listed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<S: Store, C: Clock> Limiter<S, C> {
    /// The warnings and blocks of burst detectors that are in force, at most `most` of them (at least one), by ascending
    /// id, after the id `after`. On a shared store these are the penalties of all nodes; while it does not answer, those
    /// that this node's own requests led to.
    pub fn burst_penalties(&self, after: Option<u128>, most: usize) -> NowOrLater<'_, BurstPenaltyPage> {
        let most = most.max(1);
        match self.store.shared_bursts() {
            None => NowOrLater::Now(self.own_page(after, most, None)),
            Some(shared) => NowOrLater::later(async move {
                match shared.listed(after, most).await {
                    Some(page) => {
                        let own = self.own_page(after, most, Some(PenaltyOrigin::ThisNode));
                        merge(self.by_this_clock(page), own, most)
                    }
                    None => self.own_page(after, most, None),
                }
            }),
        }
    }

    /// The warnings and blocks of burst detectors that are in force upon the client of a request.
    pub fn burst_penalties_upon(&self, request: &Request<'_>) -> NowOrLater<'_, Vec<BurstPenalty>> {
        let (set, shared) = (self.active.load_full(), self.store.shared_bursts());
        let facts = set.rules.facts(request);
        let id = |(rule, detector): (&DetectorRule, &BurstDetector)| {
            let mut key = KeyBytes::new();
            facts.write_key(&rule.key, &mut key).ok()?;
            let own = || self.bursts.hash(detector.id, &key).into();
            Some(shared.map_or_else(own, |shared| shared.key(detector, &key)))
        };
        let ids: Vec<u128> = set.rules.detectors().iter().zip(&set.detectors).filter_map(id).collect();
        let own = |id: u128, now: Nanos| Some(self.by_wall_clock(self.bursts.penalties.get(id, now)?, now));
        let Some(shared) = shared.filter(|_| !ids.is_empty()) else {
            let now = self.clock.now();
            return NowOrLater::Now(ids.into_iter().filter_map(|id| own(id, now)).collect());
        };
        NowOrLater::later(async move {
            let mut found = Vec::new();
            for id in ids {
                let page = shared.listed(id.checked_sub(1), 1).await.map(|page| self.by_this_clock(page));
                // Those that the store has decided may have been lifted elsewhere, which its list says.
                let is_known = |own: &BurstPenalty| page.is_none() || own.origin == PenaltyOrigin::ThisNode;
                let here = own(id, self.clock.now()).filter(is_known);
                let on_store = page.and_then(|page| page.penalties.into_iter().find(|found| found.id == id));
                found.extend(on_store.or(here));
            }
            found
        })
    }

    /// Ends a listed penalty. The key is treated as if it had never offended; the window in which it did does not
    /// escalate again. Returns what was lifted; `None` if no listed penalty with this id is in force. On a shared store
    /// it ends on every node, within a second.
    ///
    /// # Errors
    /// A shared store does not answer; then the penalty stays.
    pub fn lift_burst_penalty(
        &self,
        id: u128,
    ) -> NowOrLater<'_, Result<Option<BurstPenalty>, BurstNotLifted>> {
        match self.store.shared_bursts() {
            None => NowOrLater::Now(Ok(self.lift_here(id))),
            Some(shared) => NowOrLater::later(self.lift_shared(shared, id)),
        }
    }

    async fn lift_shared(
        &self,
        shared: &dyn SharedBursts,
        id: u128,
    ) -> Result<Option<BurstPenalty>, BurstNotLifted> {
        let page = shared.listed(id.checked_sub(1), 1).await.ok_or(BurstNotLifted)?;
        let on_store = self.by_this_clock(page).penalties.into_iter().find(|penalty| penalty.id == id);
        // Of its own penalties this node knows; those that the store has decided may have been lifted elsewhere.
        let here = self.bursts.penalties.get(id, self.clock.now());
        let is_own = here.is_some_and(|penalty| penalty.origin == PenaltyOrigin::ThisNode);
        if on_store.is_none() && !is_own {
            return Ok(None);
        }
        if !shared.lift(id).await {
            return Err(BurstNotLifted);
        }
        let lifted_here = self.lift_here(id);
        Ok(on_store.or(lifted_here))
    }

    /// Ends a penalty in this node's own list and detectors.
    fn lift_here(&self, id: u128) -> Option<BurstPenalty> {
        let now = self.clock.now();
        let penalty = self.bursts.penalties.get(id, now)?;
        if let Some(own_hash) = self.bursts.penalties.remove(id) {
            self.bursts.lift(own_hash);
        }
        Some(self.by_wall_clock(penalty, now))
    }

    fn own_page(&self, after: Option<u128>, most: usize, origin: Option<PenaltyOrigin>) -> BurstPenaltyPage {
        let now = self.clock.now();
        let BurstPenaltyPage { penalties, next } = self.bursts.penalties.page(after, most, origin, now);
        let penalties = penalties.into_iter().map(|penalty| self.by_wall_clock(penalty, now)).collect();
        BurstPenaltyPage { penalties, next }
    }

    /// Penalties of the shared store, with their ends by this node's wall clock.
    fn by_this_clock(&self, page: SharedPenaltyPage) -> BurstPenaltyPage {
        let wall = self.clock.wall_at(self.clock.now());
        let penalty = |shared: SharedPenalty| BurstPenalty {
            id: shared.key,
            detector: shared.detector,
            key: shared.shown,
            kind: shared.kind,
            until: wall.saturating_add(shared.left),
            origin: PenaltyOrigin::SharedStore,
        };
        BurstPenaltyPage { penalties: page.penalties.into_iter().map(penalty).collect(), next: page.next }
    }

    fn by_wall_clock(&self, penalty: BurstPenalty, now: Nanos) -> BurstPenalty {
        let left = penalty.until.saturating_sub(now);
        BurstPenalty { until: self.clock.wall_at(now).saturating_add(left), ..penalty }
    }

    /// How many penalties are or were in force without being listed here, because the list was full.
    pub fn unlisted_burst_penalties(&self) -> u64 {
        self.bursts.penalties.unlisted()
    }

    /// Lists a penalty that has just begun. `key` is the hash of the shared store, if there is one.
    #[cold]
    pub(crate) fn list_penalty(
        &self,
        (detector, key): (&BurstDetector, Option<u128>),
        subject: BurstSubject,
        (kind, origin, now): (BurstAction, PenaltyOrigin, Nanos),
    ) {
        let BurstSubject { detector: name, shown, own_hash, .. } = subject;
        let (id, left) = (key.unwrap_or_else(|| own_hash.into()), detector.span(kind));
        if let Some(shared) = self.store.shared_bursts()
            && origin == PenaltyOrigin::SharedStore
        {
            shared.list(SharedPenalty { key: id, detector: name.clone(), shown: shown.clone(), kind, left });
        }
        let until = now.saturating_add(left);
        let penalty = BurstPenalty { id, detector: name, key: shown, kind, until, origin };
        self.bursts.penalties.add(penalty, own_hash, now);
    }
}

/// One page of both. A page of the store may have fewer penalties than `most`, although it is not the last.
fn merge(on_store: BurstPenaltyPage, own: BurstPenaltyPage, most: usize) -> BurstPenaltyPage {
    let mut penalties = on_store.penalties;
    penalties.extend(own.penalties);
    penalties.sort_by_key(|penalty| penalty.id);
    penalties.dedup_by_key(|penalty| penalty.id);
    // Beyond the end of either page, what the other one has there may be incomplete.
    let mut next = [on_store.next, own.next].into_iter().flatten().min();
    penalties.retain(|penalty| next.is_none_or(|next| penalty.id <= next));
    if penalties.len() > most {
        penalties.truncate(most);
        next = penalties.last().map(|last| last.id);
    }
    BurstPenaltyPage { penalties, next }
}
