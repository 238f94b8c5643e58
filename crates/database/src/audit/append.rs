//! Appending to the chain.

use super::entry::{AuditEntry, COLUMNS, ChainLink, row_values};
use super::hash;
use crate::random;
use crate::session::{SqlSession, values};
use crate::{Database, DatabaseError};

/// The two ends of the chain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ChainHead {
    /// The last entry, and its hash.
    pub(super) seq: u64,
    pub(super) hash: Vec<u8>,
    /// The last entry that was removed from the beginning, and its hash.
    pub(super) anchor_seq: u64,
    pub(super) anchor_hash: Vec<u8>,
    /// About how much room the entries between take.
    pub(super) bytes: u64,
}

const HEAD: &str = "SELECT seq, hash, anchor_seq, anchor_hash, bytes FROM audit_head WHERE id = 1";
const HEAD_LOCKED: &str =
    "SELECT seq, hash, anchor_seq, anchor_hash, bytes FROM audit_head WHERE id = 1 FOR UPDATE";
const MOVE_HEAD: &str = "UPDATE audit_head SET seq = $1, hash = $2, bytes = $3 WHERE id = 1";

impl Database {
    /// Appends entries to the audit, all or none.
    ///
    /// # Errors
    /// When the database fails. After [`DatabaseError::Unavailable`] it is not known whether they were written.
    pub async fn append(&self, entries: Vec<AuditEntry>) -> Result<(), DatabaseError> {
        if entries.is_empty() {
            return Ok(());
        }
        self.within_deadline(async {
            let mut session = self.writer().await?;
            append(&mut session, entries).await?;
            session.commit().await
        })
        .await
    }
}

/// Appends entries in the transaction of `session`.
pub(crate) async fn append(session: &mut SqlSession, entries: Vec<AuditEntry>) -> Result<(), DatabaseError> {
    let head = lock_head(session).await?;
    append_after(session, head, entries).await
}

/// The ends of the chain, which stay as they are until the transaction of `session` ends.
pub(crate) async fn lock_head(session: &mut SqlSession) -> Result<ChainHead, DatabaseError> {
    let sql = if session.is_postgres() { HEAD_LOCKED } else { HEAD };
    fetch_head(session, sql).await
}

/// The ends of the chain at this instant.
pub(super) async fn read_head(session: &mut SqlSession) -> Result<ChainHead, DatabaseError> {
    fetch_head(session, HEAD).await
}

async fn fetch_head(session: &mut SqlSession, sql: &'static str) -> Result<ChainHead, DatabaseError> {
    let row = session.row(sql, vec![]).await?;
    let row = row.ok_or_else(|| {
        DatabaseError::Invalid("the table audit_head is empty: somebody changed it; restore a backup".into())
    })?;
    Ok(ChainHead {
        seq: row.get("seq")?,
        hash: row.get("hash")?,
        anchor_seq: row.get("anchor_seq")?,
        anchor_hash: row.get("anchor_hash")?,
        bytes: row.get("bytes")?,
    })
}

/// Appends entries after `head`, which the transaction of `session` has locked.
pub(crate) async fn append_after(
    session: &mut SqlSession,
    mut head: ChainHead,
    entries: Vec<AuditEntry>,
) -> Result<(), DatabaseError> {
    let mut rows = Vec::with_capacity(entries.len());
    for entry in entries {
        let entry = entry.stored();
        let salt = random::salt();
        let (seq, bytes) = (head.seq + 1, entry.bytes());
        let person_hash = hash::person_hash(&salt, &entry.personal);
        let hash = hash::entry_hash(&head.hash, seq, bytes, &entry, &person_hash);
        let link = ChainLink {
            seq,
            bytes,
            person_salt: Some(salt.into()),
            person_hash: person_hash.into(),
            hash: hash.into(),
        };
        rows.push(row_values(&entry, &link));
        head = ChainHead { seq, hash: hash.into(), bytes: head.bytes + bytes, ..head };
    }
    session.insert_rows(&format!("INSERT INTO audit_entries ({COLUMNS})"), "", rows).await?;
    session.execute(MOVE_HEAD, values![head.seq, head.hash.as_slice(), head.bytes]).await?;
    Ok(())
}
