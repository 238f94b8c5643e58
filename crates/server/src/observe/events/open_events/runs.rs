//! Runs: equal denials of ad hoc buckets, one after the other on one thread. They are counted without a lock and
//! without a hash, because such a decision itself takes less than half a microsecond.
//!
//! The numbers of a run are written by its thread alone. They only grow, and whoever holds the lock of the shard adds
//! to the open event what has come since the last time; so no count is lost or added twice.

use std::cell::RefCell;
use std::sync::atomic::{AtomicU64, Ordering};

use tidegate::Nanos;
use tidegate::engine::{AdHocDenial, Incident, IncidentKind, Reason};

use super::{EventTable, SHARDS};
use crate::observe::events::event::AuditEvent;
use crate::observe::traces::is_traced;

/// The first threads that report denials have runs; any further thread counts with the lock.
const RUNS_MAX: usize = 64;
/// The runs of the threads of one shard.
pub(super) const RUNS_PER_SHARD: usize = RUNS_MAX / SHARDS;
/// This many equal denials begin a run: beginning one copies the event.
const REPEATS_BEFORE_RUN: u32 = 8;
/// Longer keys have no runs.
const KEY_BYTES_MAX: usize = 120;

/// The runs of all threads, by the number of the thread.
#[derive(Debug)]
pub(super) struct Runs {
    /// Differs from that of all other runs of this process.
    id: u64,
    slots: Box<[RunNumbers]>,
}

/// What a thread tells of its run. Aligned so that two threads never write to the same cache line.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(super) struct RunNumbers {
    /// How many denials were counted in all runs of the thread.
    count: AtomicU64,
    /// When the first and the last one were since the open events were taken.
    first: AtomicU64,
    last: AtomicU64,
    /// Of the last one; `NOTHING` if it is not known.
    remaining: AtomicU64,
    retry_after: AtomicU64,
    /// How often the open events were taken during runs. Written by whoever does that.
    collected: AtomicU64,
}

const NOTHING: u64 = u64::MAX;

/// A run that a thread has begun, protected by the lock of its shard.
#[derive(Debug)]
pub(super) struct OpenRun {
    hash: u64,
    /// Who and what the run is about; without a trace, which belongs to one open event.
    event: AuditEvent,
    /// How much of the count is in the open events already, and when the last one of these was.
    seen: u64,
    last: Nanos,
}

/// The last denial of an ad hoc bucket on this thread, to recognise its repetition.
#[derive(Debug)]
struct LastDenial {
    /// Whose runs: several sets of events in one process have nothing in common.
    runs: u64,
    /// The number of this thread.
    thread: usize,
    /// How many equal ones there were, one after the other.
    repeats: u32,
    is_running: bool,
    /// Does the open event name a trace?
    has_trace: bool,
    /// [`RunNumbers::collected`] at the last one.
    collected: u64,
    reason: Option<Reason>,
    key: [u8; KEY_BYTES_MAX],
    key_bytes: usize,
}

thread_local! {
    static LAST: RefCell<LastDenial> = const {
        RefCell::new(LastDenial {
            runs: 0,
            thread: 0,
            repeats: 0,
            is_running: false,
            has_trace: false,
            collected: 0,
            reason: None,
            key: [0; KEY_BYTES_MAX],
            key_bytes: 0,
        })
    };
}

impl Runs {
    pub(super) fn new() -> Runs {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let slots = (0..RUNS_MAX).map(|_| RunNumbers::default()).collect();
        Runs { id: NEXT.fetch_add(1, Ordering::Relaxed), slots }
    }

    /// Counts a denial if it continues the run of this thread.
    #[inline]
    pub(super) fn continues(&self, denial: &AdHocDenial<'_>) -> bool {
        LAST.with_borrow_mut(|last| {
            if !last.is_running || !last.is_same(self.id, Some(denial.reason()), denial.key) {
                return false;
            }
            let Some(slot) = self.slots.get(last.thread) else { return false };
            let collected = slot.collected.load(Ordering::Relaxed);
            if last.collected != collected {
                (last.collected, last.has_trace) = (collected, false);
                slot.first.store(denial.at.get(), Ordering::Relaxed);
            }
            if !last.has_trace && is_traced() {
                return false;
            }
            slot.count_one(denial);
            true
        })
    }

    /// Notes an incident that was added to `event` with the lock held, and begins a run if it was repeated often enough.
    pub(super) fn begin(
        &self,
        thread: usize,
        incident: &Incident<'_, '_>,
        (hash, event): (u64, &AuditEvent),
    ) -> Option<OpenRun> {
        let slot = self.slots.get(thread).filter(|_| is_of_ad_hoc_bucket(incident))?;
        LAST.with_borrow_mut(|last| {
            last.note(self.id, incident);
            last.thread = thread;
            last.is_running = last.repeats >= REPEATS_BEFORE_RUN;
            last.has_trace = event.trace_id.is_some();
            last.collected = slot.collected.load(Ordering::Relaxed);
            last.is_running.then(|| {
                slot.first.store(incident.at.get(), Ordering::Relaxed);
                let event = AuditEvent { trace_id: None, ..event.clone() };
                OpenRun { hash, event, seen: slot.count.load(Ordering::Relaxed), last: incident.at }
            })
        })
    }

    /// Forgets the run of this thread: something else has happened on it.
    pub(super) fn end() {
        LAST.with_borrow_mut(|last| last.is_running = false);
    }

    /// Lets a thread begin anew with the time and the trace of its run, because the open events are taken now.
    pub(super) fn renew(&self, thread: usize) {
        if let Some(slot) = self.slots.get(thread) {
            slot.collected.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Adds to the open events what a run has counted since the last time.
    pub(super) fn collect(&self, thread: usize, run: &mut OpenRun, table: &mut EventTable) {
        let Some(slot) = self.slots.get(thread) else { return };
        let count = slot.count.load(Ordering::Acquire);
        let new = count - run.seen;
        if new == 0 {
            return;
        }
        let told = |number: &AtomicU64| Some(number.load(Ordering::Relaxed)).filter(|&n| n != NOTHING);
        let last = Nanos::new(slot.last.load(Ordering::Relaxed)).max(run.last);
        let first = Nanos::new(slot.first.load(Ordering::Relaxed)).max(run.last).min(last);
        (run.seen, run.last) = (count, last);
        let event = AuditEvent {
            count: new,
            first,
            last,
            remaining: told(&slot.remaining),
            retry_after_ms: told(&slot.retry_after).map(|wait| Nanos::new(wait).as_millis_ceil()),
            ..run.event.clone()
        };
        match table.get_mut(&run.hash) {
            Some(open) => open.absorb(&event),
            None => _ = table.insert(run.hash, Box::new(event)),
        }
    }
}

impl RunNumbers {
    #[inline]
    fn count_one(&self, denial: &AdHocDenial<'_>) {
        self.last.store(denial.at.get(), Ordering::Relaxed);
        self.remaining.store(u64::from(denial.decision.remaining), Ordering::Relaxed);
        self.retry_after.store(denial.decision.wait().map_or(NOTHING, Nanos::get), Ordering::Relaxed);
        // No other thread writes to it, so this needs no atomic addition.
        self.count.store(self.count.load(Ordering::Relaxed) + 1, Ordering::Release);
    }
}

impl LastDenial {
    #[inline]
    fn is_same(&self, runs: u64, reason: Option<Reason>, key: &[u8]) -> bool {
        self.runs == runs && self.reason == reason && self.key[..self.key_bytes] == *key
    }

    fn note(&mut self, runs: u64, incident: &Incident<'_, '_>) {
        if self.is_same(runs, incident.reason, incident.key) {
            self.repeats = self.repeats.saturating_add(1);
            return;
        }
        (self.runs, self.reason, self.repeats) = (runs, incident.reason, 1);
        self.key_bytes = incident.key.len();
        self.key[..incident.key.len()].copy_from_slice(incident.key);
    }
}

/// Is it a denial of an ad hoc bucket? Only these are frequent enough. They have no request whose members could differ,
/// and all have the same name of a limit.
#[inline]
fn is_of_ad_hoc_bucket(incident: &Incident<'_, '_>) -> bool {
    incident.facts.is_none()
        && incident.kind == IncidentKind::LimitExceeded
        && incident.key.len() <= KEY_BYTES_MAX
}
