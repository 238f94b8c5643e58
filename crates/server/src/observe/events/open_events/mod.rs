//! The events that are still open: repeated equal incidents are counted in one event until it is written.
//!
//! Two incidents are equal if they have the same name, limit, key and reason, and for limits of tenants the same tenant; where
//! there is no limit, the same user, client, address and tenant. Violations are equal only if they are of the same user, so that each can be read back.
//! Members in which equal incidents differ are removed from the event.
//!
//! Each thread adds to a shard of its own, so that its lock is free almost always; equal events of several shards become
//! one when they are collected. Memory is bounded: each shard has room of its own, and may use more of a pool that all
//! share, so that a flood of many clients on few threads is still counted together. A shard that finds no more room is
//! handed to the thread that writes. If that thread is behind, the events of the shard are merged into one for each name.
//! So counts are never lost, only details.

mod runs;

use std::cell::Cell;
use std::collections::HashMap;
use std::hash::{BuildHasher, BuildHasherDefault, Hash, Hasher, RandomState};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tidegate::engine::{AdHocDenial, Incident, IncidentKind};
use tidegate::{Algorithm, Nanos};
use tidegate_policy::TENANT_PREFIX;

use super::describe;
use super::event::{AuditEvent, EventName};
use runs::{OpenRun, RUNS_PER_SHARD, Runs};

/// The number of shards.
const SHARDS: usize = 8;

/// The open events for which a shard has room of its own.
pub(crate) const OPEN_EVENTS_PER_SHARD: usize = 1_024;

/// The open events for which all shards together have more room, those in full tables that wait to be written included.
pub(crate) const OPEN_EVENTS_SHARED: usize = 12_288;

/// Open events by the hash of what makes them equal. Their times are of the monotonic clock. They are boxed so that a
/// table that grows moves little, on a thread that decides.
pub(super) type EventTable = HashMap<u64, Box<AuditEvent>, BuildHasherDefault<HashItself>>;

/// The open events of all threads.
#[derive(Debug)]
pub(super) struct OpenEvents {
    shards: Box<[Shard]>,
    runs: Runs,
    /// The shared room that is left.
    shared_left: AtomicUsize,
    /// Random, so that a client cannot construct two incidents with the same hash.
    hash_keys: RandomState,
    room: EventRoom,
}

/// For how many open events there is room.
#[derive(Clone, Copy, Debug)]
pub(super) struct EventRoom {
    /// In each shard.
    pub(super) per_shard: usize,
    /// In all of them together, beyond that.
    pub(super) shared: usize,
}

/// Aligned so that two locks never share a cache line.
#[derive(Debug)]
#[repr(align(128))]
struct Shard(Mutex<ShardEvents>);

#[derive(Debug, Default)]
struct ShardEvents {
    table: EventTable,
    /// Events without details, one for each name.
    merged: [Option<Box<AuditEvent>>; EventName::ALL.len()],
    /// What its threads count without the lock.
    runs: [Option<Box<OpenRun>>; RUNS_PER_SHARD],
}

impl OpenEvents {
    pub(super) fn new(room: EventRoom) -> OpenEvents {
        let shard = || Shard(Mutex::new(ShardEvents { table: room.empty_table(), ..ShardEvents::default() }));
        let shards = (0..SHARDS).map(|_| shard()).collect();
        let shared_left = AtomicUsize::new(room.shared);
        OpenEvents { shards, runs: Runs::new(), shared_left, hash_keys: RandomState::new(), room }
    }

    /// Counts a denial without the lock, if it repeats the last ones of this thread. Otherwise it is to be added.
    #[inline]
    pub(super) fn continues(&self, denial: &AdHocDenial<'_>) -> bool {
        self.runs.continues(denial)
    }

    /// Adds an incident. If there is no room for it, `hand_over` gets the events of the shard, and gives them back if it
    /// cannot take them; they are merged then. Returns how many were merged. Whoever takes a table from `hand_over` calls
    /// [`OpenEvents::release`] when it is written.
    #[inline]
    pub(super) fn add(
        &self,
        incident: &Incident<'_, '_>,
        hand_over: impl FnOnce(EventTable) -> Result<(), EventTable>,
    ) -> usize {
        let (thread, hash) = (number_of_thread(), self.hash(incident));
        let mut shard = self.shard(thread % SHARDS);
        Runs::end();
        shard.end_run(&self.runs, thread);
        if let Some(open) = shard.table.get_mut(&hash) {
            repeat(open, incident);
            if let Some(run) = self.runs.begin(thread, incident, (hash, open)) {
                shard.runs[thread / SHARDS] = Some(Box::new(run));
            }
            return 0;
        }
        let mut merged = 0;
        if !self.has_room(shard.table.len())
            && let Err(full) = hand_over(std::mem::replace(&mut shard.table, self.room.empty_table()))
        {
            self.release(full.len());
            merged = full.len();
            full.into_values().for_each(|event| shard.merge(event));
        }
        shard.table.insert(hash, Box::new(describe::event_of(incident)));
        merged
    }

    /// Is there room for one more event in a shard that has `open`? What is not its own is taken from the shared room.
    fn has_room(&self, open: usize) -> bool {
        let take_one = |left: usize| left.checked_sub(1);
        open < self.room.per_shard
            || self.shared_left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take_one).is_ok()
    }

    /// Gives back the shared room that a table of this many events has taken.
    pub(super) fn release(&self, events: usize) {
        let taken = events.saturating_sub(self.room.per_shard);
        if taken > 0 {
            // The events of runs enter a table without asking for room, so a table can have a few more.
            let give_back = |left: usize| Some((left + taken).min(self.room.shared));
            let _always = self.shared_left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, give_back);
        }
    }

    /// Takes all open events, equal ones of several shards as one.
    pub(super) fn take_all(&self) -> Vec<AuditEvent> {
        let mut all = EventTable::default();
        let mut merged: Vec<AuditEvent> = Vec::new();
        for index in 0..self.shards.len() {
            let mut shard = self.shard(index);
            shard.collect_runs(&self.runs, index);
            merged.extend(shard.merged.iter_mut().filter_map(|slot| slot.take().map(|event| *event)));
            if shard.table.is_empty() {
                continue;
            }
            let table = std::mem::replace(&mut shard.table, self.room.empty_table());
            drop(shard);
            self.release(table.len());
            for (hash, event) in table {
                match all.get_mut(&hash) {
                    Some(known) => known.absorb(&event),
                    None => _ = all.insert(hash, event),
                }
            }
        }
        merged.extend(all.into_values().map(|event| *event));
        merged
    }

    fn shard(&self, index: usize) -> MutexGuard<'_, ShardEvents> {
        self.shards[index].0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The hash of what makes incidents equal.
    #[inline]
    fn hash(&self, incident: &Incident<'_, '_>) -> u64 {
        let mut hasher = self.hash_keys.build_hasher();
        hasher.write_u16((incident.kind as u16) << 8 | incident.reason.map_or(0xFF, |reason| reason as u16));
        // A limit's name is unique in a policy.
        incident.name.unwrap_or_default().hash(&mut hasher);
        hasher.write(incident.key);
        if let Some(facts) = incident.facts {
            let request = facts.request;
            if incident.is_violation {
                (1_u8, &request.user).hash(&mut hasher);
            } else if incident.kind != IncidentKind::LimitExceeded {
                (&request.user, &request.client, facts.tenant(), request.ip).hash(&mut hasher);
            }
            // Those who are refused by the limit of a tenant above them must be told apart.
            if incident.name.is_some_and(|name| name.starts_with(TENANT_PREFIX)) {
                facts.tenant().hash(&mut hasher);
            }
        }
        hasher.finish()
    }
}

impl EventRoom {
    /// A table for a shard, with room for what the shard may have without asking.
    fn empty_table(self) -> EventTable {
        EventTable::with_capacity_and_hasher(self.per_shard, BuildHasherDefault::default())
    }
}

impl ShardEvents {
    /// Ends the run of a thread, if it has one.
    fn end_run(&mut self, runs: &Runs, thread: usize) {
        let run = self.runs.get_mut(thread / SHARDS).and_then(Option::take);
        if let Some(mut run) = run {
            runs.collect(thread, &mut run, &mut self.table);
        }
    }

    /// Adds what the runs have counted to the open events, which are taken now. `shard` is the number of this shard.
    fn collect_runs(&mut self, runs: &Runs, shard: usize) {
        for (place, run) in self.runs.iter_mut().enumerate() {
            if let Some(run) = run {
                runs.collect(place * SHARDS + shard, run, &mut self.table);
                runs.renew(place * SHARDS + shard);
            }
        }
    }

    fn merge(&mut self, event: Box<AuditEvent>) {
        match &mut self.merged[event.name as usize] {
            Some(merged) => merged.absorb(&event),
            empty => *empty = Some(event),
        }
    }
}

/// The name of the event that an incident leads to.
pub(super) fn name_of(incident: &Incident<'_, '_>) -> EventName {
    match (incident.kind, incident.algorithm) {
        (IncidentKind::LimitExceeded, Some(Algorithm::SlidingWindow)) => {
            EventName::SlidingWindowLimitExceeded
        }
        (IncidentKind::LimitExceeded, _) => EventName::RateLimitExceeded,
        (IncidentKind::Blocked | IncidentKind::BurstDenied, _) => EventName::RequestBlocked,
        (IncidentKind::BurstWarned, _) => EventName::BurstDetectedWarning,
        (IncidentKind::BurstBlocked, _) => EventName::BurstDetectedBlocked,
        (IncidentKind::UnknownTenant, _) => EventName::UnknownTenant,
        (IncidentKind::InvalidCredentials, _) => EventName::InvalidCredentials,
    }
}

/// Adds an incident to an open event that it is equal to.
#[inline]
fn repeat(open: &mut AuditEvent, incident: &Incident<'_, '_>) {
    open.count = open.count.saturating_add(1);
    (open.first, open.last) = (open.first.min(incident.at), open.last.max(incident.at));
    open.remaining = incident.remaining.map(u64::from);
    open.retry_after_ms = incident.retry_after.map(Nanos::as_millis_ceil);
    if open.policy_version != incident.policy_version {
        open.policy_version = None;
    }
    if open.trace_id.is_none() {
        open.trace_id = describe::trace_of(incident);
    }
    let Some(facts) = incident.facts else { return };
    let request = facts.request;
    describe::keep_same(&mut open.user, request.user.as_deref());
    describe::keep_same(&mut open.client, request.client.as_deref());
    describe::keep_same(&mut open.tenant, facts.tenant());
    if open.ip.is_some() && open.ip != request.ip.map(|ip| ip.to_canonical()) {
        open.ip = None;
    }
    describe::keep_same(&mut open.endpoint, describe::endpoint(facts));
}

/// The number of this thread, in the order in which threads have reported something; it chooses the shard.
fn number_of_thread() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        static MINE: Cell<usize> = Cell::new(NEXT.fetch_add(1, Ordering::Relaxed));
    }
    // A thread that is ending has lost its thread-local value. It uses the last shard, and has no run.
    MINE.try_with(Cell::get).unwrap_or(usize::MAX)
}

/// The hasher of a table whose keys are hashes already.
#[derive(Debug, Default)]
pub(super) struct HashItself(u64);

impl Hasher for HashItself {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, _: &[u8]) {
        unreachable!("the keys are whole numbers")
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }
}

#[cfg(test)]
mod tests;
