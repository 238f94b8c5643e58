//! Batches of records: what a node has seen, denials and audit entries together.

use super::violations::{self, Violation};
use crate::audit::{self, AuditEntry};
use crate::session::values;
use crate::{Database, DatabaseError, UnixMillis};

/// What a node writes down at once.
#[derive(Clone, Debug, Default)]
pub struct RecordBatch {
    /// Stands for the run of the node that writes, and for nothing else.
    pub writer: [u8; 16],
    /// The number of the batch. Each batch of a writer has a higher one than the batch before.
    pub number: u64,
    /// When it is written.
    pub time: UnixMillis,
    /// Changes and security events.
    pub entries: Vec<AuditEntry>,
    /// Denials.
    pub violations: Vec<Violation>,
}

/// Writers that have written nothing for a day are forgotten.
const KEPT_MILLIS: i64 = 24 * 60 * 60 * 1_000;

/// Changes no row if the batch was written already. On PostgreSQL it waits for an earlier attempt that has not ended.
const NOTE: &str = "INSERT INTO record_writers (id, batch, written_at) VALUES ($1, $2, $3) ON CONFLICT (id) DO UPDATE \
     SET batch = excluded.batch, written_at = excluded.written_at WHERE record_writers.batch < excluded.batch";
const PURGE: &str = "DELETE FROM record_writers WHERE written_at < $1";

impl Database {
    /// Writes a batch, all or nothing. A batch that was written already is not written again, so that one whose fate is
    /// not known can be sent until it succeeds. Returns whether it was written now.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn record(&self, batch: RecordBatch) -> Result<bool, DatabaseError> {
        self.within_deadline(async {
            let mut session = self.writer().await?;
            let noted = session.execute(NOTE, values![&batch.writer, batch.number, batch.time]).await?;
            if noted == 0 {
                session.rollback().await?;
                return Ok(false);
            }
            session.execute(PURGE, values![batch.time.plus(-KEPT_MILLIS)]).await?;
            violations::insert(&mut session, &batch.violations).await?;
            if !batch.entries.is_empty() {
                audit::append(&mut session, batch.entries).await?;
            }
            session.commit().await?;
            Ok(true)
        })
        .await
    }
}
