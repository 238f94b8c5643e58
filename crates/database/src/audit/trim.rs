//! Retention of the audit: entries are removed from the beginning, and the end of what was removed is the anchor from
//! which the rest verifies.

use super::append::{ChainHead, append_after, lock_head};
use super::entry::AuditEntry;
use crate::session::{SqlSession, values};
use crate::{Database, DatabaseError, UnixMillis};

/// Entries that one transaction removes.
const BATCH: i64 = 1_000;

const OLDEST: &str =
    "SELECT seq, time, hash, bytes FROM audit_entries WHERE seq > $1 AND seq <= $2 ORDER BY seq LIMIT $3";
const REMOVE: &str = "DELETE FROM audit_entries WHERE seq <= $1";
const MOVE_ANCHOR: &str = "UPDATE audit_head SET anchor_seq = $1, anchor_hash = $2, bytes = $3 WHERE id = 1";

impl Database {
    /// Removes the entries from before `older_than`, and the oldest of the others as long as all together take more than
    /// about `keep_bytes`. The chain still verifies. Writes down how many were removed, and returns it.
    ///
    /// # Errors
    /// When the database fails; then a part may be removed, and it can be repeated.
    pub async fn trim(
        &self,
        older_than: UnixMillis,
        keep_bytes: u64,
        now: UnixMillis,
    ) -> Result<u64, DatabaseError> {
        let mut removed = 0;
        // The entries about the removal itself stay.
        let mut last = None;
        loop {
            let batch = self.within_deadline(self.trim_batch(older_than, keep_bytes, now, &mut last)).await?;
            removed += batch;
            if batch == 0 {
                return Ok(removed);
            }
        }
    }

    async fn trim_batch(
        &self,
        older_than: UnixMillis,
        keep_bytes: u64,
        now: UnixMillis,
        last: &mut Option<u64>,
    ) -> Result<u64, DatabaseError> {
        let mut session = self.writer().await?;
        let head = lock_head(&mut session).await?;
        let last = *last.get_or_insert(head.seq);
        let trimmed = trimmed(&mut session, &head, last, older_than, keep_bytes).await?;
        let removed = trimmed.anchor_seq - head.anchor_seq;
        if removed == 0 {
            session.rollback().await?;
            return Ok(0);
        }
        session.execute(REMOVE, values![trimmed.anchor_seq]).await?;
        let anchor = values![trimmed.anchor_seq, trimmed.anchor_hash.as_slice(), trimmed.bytes];
        session.execute(MOVE_ANCHOR, anchor).await?;
        let entry = AuditEntry {
            time: now,
            event: "audit_trimmed".into(),
            severity: "info".into(),
            count: removed,
            first: now,
            last: now,
            ..AuditEntry::default()
        };
        append_after(&mut session, trimmed, vec![entry]).await?;
        session.commit().await?;
        Ok(removed)
    }
}

/// The head after the removal of the next batch, of entries up to `last`.
async fn trimmed(
    session: &mut SqlSession,
    head: &ChainHead,
    last: u64,
    older_than: UnixMillis,
    keep_bytes: u64,
) -> Result<ChainHead, DatabaseError> {
    let mut trimmed = head.clone();
    for row in session.rows(OLDEST, values![head.anchor_seq, last, BATCH]).await? {
        let time: UnixMillis = row.get("time")?;
        if time >= older_than && trimmed.bytes <= keep_bytes {
            break;
        }
        trimmed.anchor_seq = row.get("seq")?;
        trimmed.anchor_hash = row.get("hash")?;
        trimmed.bytes = trimmed.bytes.saturating_sub(row.get("bytes")?);
    }
    Ok(trimmed)
}
