//! Writes records to the database, batch by batch, each until it succeeds.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tidegate::{Clock, MonotonicClock};
use tidegate_database::{Database, DatabaseError, RecordBatch};
use tokio::time::timeout;

use super::{SharedRecords, rows};
use crate::bounds::RECORDS_RETRY_MAX;
use crate::control::startup::unix_millis;
use crate::observe::AuditEvent;

/// The pause before the second attempt; each further pause is twice as long, up to [`RECORDS_RETRY_MAX`].
const FIRST_PAUSE: Duration = Duration::from_millis(50);
/// How often a batch is tried that the database refuses, rather than being away.
const ATTEMPTS: u32 = 5;

/// Writes until the runtime ends.
pub(super) async fn run(shared: Arc<SharedRecords>, database: Database, clock: MonotonicClock) {
    let mut writer = RecordWriter { shared, database, clock, number: 0, is_away: false };
    loop {
        let batch = writer.shared.waiting().take_batch();
        match batch {
            Some(events) => writer.write(events).await,
            None => writer.shared.wake.notified().await,
        }
    }
}

struct RecordWriter {
    shared: Arc<SharedRecords>,
    database: Database,
    clock: MonotonicClock,
    /// The number of the last batch.
    number: u64,
    /// Has the last attempt failed?
    is_away: bool,
}

impl RecordWriter {
    async fn write(&mut self, events: Vec<AuditEvent>) {
        self.number += 1;
        let time = unix_millis(self.clock.wall());
        let batch =
            RecordBatch { writer: self.shared.writer, number: self.number, time, ..rows::batch(&events) };
        let sent = self.send(batch).await;
        let fate = match sent {
            Ok(()) => &self.shared.counts.written,
            Err(error) => {
                tracing::error!(%error, lost = events.len(), "the database refuses records, and they are lost");
                &self.shared.counts.lost
            }
        };
        fate.fetch_add(events.len() as u64, Ordering::Relaxed);
        self.shared.waiting().batch_done();
        self.shared.drained.notify_all();
    }

    /// Sends a batch until it is written; gives up only if the database refuses it.
    async fn send(&mut self, batch: RecordBatch) -> Result<(), DatabaseError> {
        let (mut pause, mut refused) = (FIRST_PAUSE, 0);
        loop {
            match self.database.record(batch.clone()).await {
                Ok(_) => {
                    if std::mem::take(&mut self.is_away) {
                        tracing::info!("records are written to the database again");
                    }
                    return Ok(());
                }
                Err(error @ DatabaseError::Unavailable(_)) if !self.is_away => {
                    self.is_away = true;
                    tracing::warn!(%error, "records wait for the database");
                }
                Err(DatabaseError::Unavailable(_)) => {}
                Err(error) => {
                    refused += 1;
                    if refused == ATTEMPTS {
                        return Err(error);
                    }
                }
            }
            // More events may have come meanwhile, which is no reason to try earlier; the end of the server is.
            let _hurry = timeout(pause, self.shared.hurry.notified()).await;
            pause = (pause * 2).min(RECORDS_RETRY_MAX);
        }
    }
}
