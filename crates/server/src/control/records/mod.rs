//! Records: what happened, in the database. Denials are rows of the violations, changes and security events entries of
//! the audit.
//!
//! The thread that writes events hands them to [`RecordSink`], which only puts them into the bounded queue of
//! [`waiting`]; so neither a decision nor another sink ever waits for the database. [`writer`] takes batches from
//! there, and sends each until it is written: the database knows batches that it has, so that no event is written
//! twice. [`rows`] says which event becomes which row. [`retention`] removes what is old.

pub(crate) mod retention;
mod rows;
mod waiting;
mod writer;

use std::sync::atomic::Ordering;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use tidegate::MonotonicClock;
use tidegate_database::Database;
use tokio::runtime::Handle;
use tokio::sync::{Notify, Semaphore, SemaphorePermit};

use crate::bounds::RECORDS_FLUSH_TIMEOUT;
use crate::control::access::{NoRandomNumbers, SecretHash, new_secret};
use crate::observe::{AuditEvent, EventName, EventSink, EventsUnwritten, SinkCounts};
use crate::wire::hex;
pub(crate) use rows::entry as audit_entry;
use waiting::WaitingRecords;

/// The records of a node, on their way to the database. Clones share them.
#[derive(Clone, Debug)]
pub(crate) struct Records {
    shared: Arc<SharedRecords>,
}

#[derive(Debug)]
struct SharedRecords {
    waiting: Mutex<WaitingRecords>,
    /// There is something to write.
    wake: Notify,
    /// The end of the server has come: an attempt must not wait longer.
    hurry: Notify,
    /// Everything is written.
    drained: Condvar,
    counts: Arc<SinkCounts>,
    /// The permit to verify the audit: once at a time is enough, since it reads all of it.
    verifying: Semaphore,
    /// Stands for this run of the node.
    writer: [u8; 16],
}

impl Records {
    /// A queue for records.
    ///
    /// # Errors
    /// When the system has no random numbers.
    pub(crate) fn new() -> Result<Records, NoRandomNumbers> {
        let name = SecretHash::of(&new_secret("")?);
        let writer = *name.as_bytes().first_chunk().expect("a hash has 32 bytes");
        Ok(Records {
            shared: Arc::new(SharedRecords {
                waiting: Mutex::default(),
                wake: Notify::new(),
                hurry: Notify::new(),
                drained: Condvar::new(),
                verifying: Semaphore::new(1),
                counts: Arc::new(SinkCounts::new("database")),
                writer,
            }),
        })
    }

    /// Where the thread that writes events puts them. If versions of the database are the policy, events of a change of
    /// the policy are not recorded: whoever published the version has written it down, with who, why and what, and every
    /// node that follows would write it again.
    pub(crate) fn sink(&self, policy_is_in_database: bool) -> Box<dyn EventSink> {
        Box::new(RecordSink { shared: Arc::clone(&self.shared), policy_is_in_database })
    }

    /// Starts to write to the database.
    pub(crate) fn write_to(&self, database: &Database, runtime: &Handle, clock: &MonotonicClock) {
        runtime.spawn(writer::run(Arc::clone(&self.shared), database.clone(), clock.clone()));
    }

    /// How many records wait to be written.
    pub(crate) fn waiting(&self) -> usize {
        self.shared.waiting().len()
    }

    /// The permit to verify the audit; `None` while somebody else has it.
    pub(crate) fn verify_permit(&self) -> Option<SemaphorePermit<'_>> {
        self.shared.verifying.try_acquire().ok()
    }

    /// The name of this run of the node, for leases.
    pub(crate) fn run_name(&self) -> String {
        hex(&self.shared.writer)
    }

    /// Waits until everything is written, at most [`RECORDS_FLUSH_TIMEOUT`]; called when the server ends.
    pub(crate) fn flush(&self) {
        self.shared.hurry.notify_one();
        let waiting = self.shared.waiting();
        let is_busy = |waiting: &mut WaitingRecords| waiting.len() > 0;
        let ended = self.shared.drained.wait_timeout_while(waiting, RECORDS_FLUSH_TIMEOUT, is_busy);
        let (waiting, _) = ended.unwrap_or_else(PoisonError::into_inner);
        let lost = waiting.len();
        if lost > 0 {
            self.shared.counts.lost.fetch_add(lost as u64, Ordering::Relaxed);
            tracing::error!(
                lost,
                "the last records could not be written to the database in time and are lost"
            );
        }
    }
}

impl SharedRecords {
    fn waiting(&self) -> MutexGuard<'_, WaitingRecords> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Takes events over, and never blocks.
#[derive(Debug)]
struct RecordSink {
    shared: Arc<SharedRecords>,
    policy_is_in_database: bool,
}

impl RecordSink {
    fn is_recorded(&self, event: &AuditEvent) -> bool {
        let is_of_policy =
            matches!(event.name, EventName::RateLimitConfigUpdated | EventName::RateLimitWhitelistAdded);
        // Whoever changes live entries, or what is known about users, has written it down, in the same transaction.
        let is_of_live = matches!(
            event.name,
            EventName::KeyBlocked
                | EventName::KeyAllowed
                | EventName::LiveEntryRemoved
                | EventName::TrustChanged
                | EventName::KeyReset
                | EventName::KeyGranted
                | EventName::OverrideAdded
                | EventName::OverrideRemoved
        );
        // The same for the kill switch, which every node follows, unless the settings of this node switch it.
        let is_followed = event.name == EventName::KillSwitchChanged && event.reason.is_none();
        !(self.policy_is_in_database && is_of_policy || is_of_live || is_followed)
    }
}

impl EventSink for RecordSink {
    fn name(&self) -> &'static str {
        self.shared.counts.name
    }

    fn counts(&self) -> Option<Arc<SinkCounts>> {
        Some(Arc::clone(&self.shared.counts))
    }

    fn write(&mut self, events: &[AuditEvent]) -> Result<(), EventsUnwritten> {
        let mut waiting = self.shared.waiting();
        let recorded = events.iter().filter(|event| self.is_recorded(event));
        recorded.for_each(|event| waiting.add(event.clone()));
        let (merged, dropped) = waiting.take_losses();
        drop(waiting);
        self.shared.counts.merged.fetch_add(merged, Ordering::Relaxed);
        self.shared.counts.lost.fetch_add(dropped, Ordering::Relaxed);
        if merged > 0 || dropped > 0 {
            tracing::warn!(
                merged,
                dropped,
                "more records wait for the database than there is room for: some were merged into one for each name, \
                 without limit, key and client, or dropped"
            );
        }
        self.shared.wake.notify_one();
        Ok(())
    }
}
